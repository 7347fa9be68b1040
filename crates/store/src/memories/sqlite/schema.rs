//! The tables of memories.

use crate::sqlite::{Expiring, Metered, metered};

/// `length` is the number of words. `words`, `grams` and `marks` are what the index has; `last` is
/// the latest number that was given in a place, without the place's own. `embedded` says that there is a
/// vector, or that there will be none.
pub(crate) const SCHEMA: &str = concat!(
    "CREATE TABLE memory_places (
        id INTEGER PRIMARY KEY,
        owner TEXT NOT NULL,
        tier INTEGER NOT NULL,
        session TEXT NOT NULL,
        space TEXT NOT NULL,
        entries INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        words INTEGER NOT NULL,
        last INTEGER NOT NULL,
        UNIQUE (owner, tier, session, space)
    ) STRICT;
    CREATE TABLE memories (
        number INTEGER PRIMARY KEY,
        place INTEGER NOT NULL,
        owner TEXT NOT NULL,
        key TEXT NOT NULL,
        created INTEGER NOT NULL,
        updated INTEGER NOT NULL,
        expires INTEGER,
        weight REAL NOT NULL,
        bytes INTEGER NOT NULL,
        length INTEGER NOT NULL,
        embedded INTEGER NOT NULL,
        source TEXT NOT NULL,
        tags TEXT NOT NULL,
        words TEXT NOT NULL,
        grams TEXT NOT NULL,
        marks TEXT NOT NULL,
        content TEXT NOT NULL,
        UNIQUE (place, key)
    ) STRICT;
    CREATE INDEX memories_by_end ON memories (expires) WHERE expires IS NOT NULL;
    CREATE INDEX memories_by_place_and_end ON memories (place, expires) WHERE expires IS NOT NULL;
    CREATE INDEX memories_to_embed ON memories (number) WHERE embedded = 0;
    CREATE TABLE memory_models (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE
    ) STRICT;
    CREATE TABLE memory_vectors (
        id INTEGER PRIMARY KEY,
        number INTEGER NOT NULL UNIQUE,
        place INTEGER NOT NULL,
        model INTEGER NOT NULL,
        vector BLOB NOT NULL
    ) STRICT;
    CREATE INDEX memory_vectors_by_place ON memory_vectors (place, id);
    CREATE VIRTUAL TABLE memory_index USING fts5 (
        words, grams, marks, content = 'memories', content_rowid = 'number',
        tokenize = 'ascii', detail = 'column', columnsize = 0
    );
    INSERT INTO memory_index (memory_index, rank) VALUES ('secure-delete', 1);
    CREATE TRIGGER memories_indexed AFTER INSERT ON memories BEGIN
        INSERT INTO memory_index (rowid, words, grams, marks)
        VALUES (new.number, new.words, new.grams, new.marks);
        UPDATE memory_places SET entries = entries + 1, bytes = bytes + new.bytes,
            words = words + new.length
        WHERE id = new.place;
    END;
    CREATE TRIGGER memories_unindexed AFTER DELETE ON memories BEGIN
        INSERT INTO memory_index (memory_index, rowid, words, grams, marks)
        VALUES ('delete', old.number, old.words, old.grams, old.marks);
        DELETE FROM memory_vectors WHERE number = old.number;
        UPDATE memory_places SET entries = entries - 1, bytes = bytes - old.bytes,
            words = words - old.length
        WHERE id = old.place;
    END;",
    metered!(triggers "memories")
);

pub(crate) const TABLE: Metered = Metered {
    // Making room is more than removing what has expired; see `put`.
    expiring: Some(Expiring {
        live: "SELECT count(*), coalesce(sum(bytes), 0) FROM memories
               WHERE owner = ?1 AND (expires IS NULL OR expires > ?2)",
        purge: "DELETE FROM memories WHERE owner = ?1 AND expires <= ?2",
        sweep: "DELETE FROM memories WHERE number IN (
                    SELECT number FROM memories WHERE expires <= ?1 LIMIT ?2)",
    }),
    ..metered!("memories", "memory entry")
};

/// Removes places that are empty.
pub(crate) const SWEEP_PLACES: &str = "DELETE FROM memory_places WHERE entries = 0";
