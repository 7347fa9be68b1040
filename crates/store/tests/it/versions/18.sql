PRAGMA application_id = 1181906024;
PRAGMA user_version = 18;
CREATE TABLE node (
    name TEXT NOT NULL PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO node (name, value) VALUES ('memory_places', 1);
INSERT INTO node (name, value) VALUES ('run', 1);
CREATE TABLE usage (
    kind TEXT NOT NULL,
    owner TEXT NOT NULL,
    entries INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY (kind, owner)
) STRICT, WITHOUT ROWID;
INSERT INTO usage (kind, owner, entries, bytes) VALUES ('approvals', 'ada', 1, 53);
INSERT INTO usage (kind, owner, entries, bytes) VALUES ('chains', 'ada', 2, 19);
INSERT INTO usage (kind, owner, entries, bytes) VALUES ('components', 'ada', 1, 6);
INSERT INTO usage (kind, owner, entries, bytes) VALUES ('learned', 'ada', 1, 5);
INSERT INTO usage (kind, owner, entries, bytes) VALUES ('memories', 'ada', 1, 157);
INSERT INTO usage (kind, owner, entries, bytes) VALUES ('pins', 'tool', 1, 68);
INSERT INTO usage (kind, owner, entries, bytes) VALUES ('plans', 'ada', 1, 23);
INSERT INTO usage (kind, owner, entries, bytes) VALUES ('rate_buckets', 'ada', 1, 6);
INSERT INTO usage (kind, owner, entries, bytes) VALUES ('refinements', 'ada', 1, 17);
INSERT INTO usage (kind, owner, entries, bytes) VALUES ('replay_ids', 'ada', 1, 3);
INSERT INTO usage (kind, owner, entries, bytes) VALUES ('results', 'ada', 2, 81);
INSERT INTO usage (kind, owner, entries, bytes) VALUES ('samples', 'ada', 1, 2);
INSERT INTO usage (kind, owner, entries, bytes) VALUES ('secrets', 'key', 1, 38);
INSERT INTO usage (kind, owner, entries, bytes) VALUES ('secrets', 'ada', 1, 39);
INSERT INTO usage (kind, owner, entries, bytes) VALUES ('snapshots', 'ada', 1, 16);
INSERT INTO usage (kind, owner, entries, bytes) VALUES ('task_changes', 'ada', 1, 14);
INSERT INTO usage (kind, owner, entries, bytes) VALUES ('tasks', 'ada', 1, 22);
CREATE TABLE results (
        number INTEGER PRIMARY KEY,
        owner TEXT NOT NULL,
        id TEXT NOT NULL,
        hash BLOB NOT NULL,
        run INTEGER NOT NULL,
        at INTEGER NOT NULL,
        result BLOB,
        bytes INTEGER NOT NULL,
        UNIQUE (owner, id)
    ) STRICT;
INSERT INTO results (number, owner, id, hash, run, at, result, bytes) VALUES (1, 'ada', 'done', X'0101010101010101010101010101010101010101010101010101010101010101', 0, 0, X'616E73776572', 42);
INSERT INTO results (number, owner, id, hash, run, at, result, bytes) VALUES (2, 'ada', 'cut off', X'0101010101010101010101010101010101010101010101010101010101010101', 1, 0, NULL, 39);
CREATE TABLE snapshots (
        number INTEGER PRIMARY KEY,
        owner TEXT NOT NULL,
        session TEXT NOT NULL,
        name TEXT NOT NULL,
        parts INTEGER NOT NULL,
        expires INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        UNIQUE (owner, session, name)
    ) STRICT;
INSERT INTO snapshots (number, owner, session, name, parts, expires, bytes) VALUES (1, 'ada', 's', 'journal', 2, 1770000060000, 16);
CREATE TABLE snapshot_parts (
        snapshot INTEGER NOT NULL REFERENCES snapshots ON DELETE CASCADE,
        part INTEGER NOT NULL,
        body BLOB NOT NULL,
        PRIMARY KEY (snapshot, part)
    ) STRICT, WITHOUT ROWID;
INSERT INTO snapshot_parts (snapshot, part, body) VALUES (1, 0, X'6F6E650A');
INSERT INTO snapshot_parts (snapshot, part, body) VALUES (1, 1, X'74776F0A');
CREATE TABLE replay_ids (
        owner TEXT NOT NULL,
        id TEXT NOT NULL,
        expires INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        PRIMARY KEY (owner, id)
    ) STRICT, WITHOUT ROWID;
INSERT INTO replay_ids (owner, id, expires, bytes) VALUES ('ada', 'jti', 1770000060000, 3);
CREATE TABLE rate_buckets (
        owner TEXT NOT NULL,
        name TEXT NOT NULL,
        state BLOB NOT NULL,
        expires INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        PRIMARY KEY (owner, name)
    ) STRICT, WITHOUT ROWID;
INSERT INTO rate_buckets (owner, name, state, expires, bytes) VALUES ('ada', 'calls', X'33', 1770000060000, 6);
CREATE TABLE approvals (
        owner TEXT NOT NULL,
        hash BLOB NOT NULL,
        id TEXT NOT NULL UNIQUE,
        shown BLOB NOT NULL,
        created INTEGER NOT NULL,
        expires INTEGER NOT NULL,
        verdict INTEGER NOT NULL,
        bytes INTEGER NOT NULL, reason TEXT NOT NULL DEFAULT '', did TEXT NOT NULL DEFAULT '',
        PRIMARY KEY (owner, hash)
    ) STRICT;
INSERT INTO approvals (owner, hash, id, shown, created, expires, verdict, bytes, reason, did) VALUES ('ada', X'0101010101010101010101010101010101010101010101010101010101010101', 'call', X'7B7D', 1770000000000, 1770000060000, 0, 53, '', 'did:example:ada');
CREATE TABLE pins (
        owner TEXT NOT NULL,
        name TEXT NOT NULL,
        pinned BLOB,
        version INTEGER NOT NULL,
        offered BLOB,
        at INTEGER NOT NULL,
        bytes INTEGER NOT NULL, since INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (owner, name)
    ) STRICT, WITHOUT ROWID;
INSERT INTO pins (owner, name, pinned, version, offered, at, bytes, since) VALUES ('tool', 'tool', X'0101010101010101010101010101010101010101010101010101010101010101', 0, NULL, 1770000000000, 68, 1770000000000);
CREATE TABLE secrets (
        owner TEXT NOT NULL,
        name TEXT NOT NULL,
        sealed BLOB NOT NULL,
        bytes INTEGER NOT NULL,
        PRIMARY KEY (owner, name)
    ) STRICT, WITHOUT ROWID;
INSERT INTO secrets (owner, name, sealed, bytes) VALUES ('key', 'check', X'E45126FDCC819E8D0000000073E880C7063448E8E0799429C97CE42C77784C6CCA', 38);
INSERT INTO secrets (owner, name, sealed, bytes) VALUES ('ada', 'token', X'B43B84FF0243AED80000000030326E1952895D47B2819D6395BD18AB768BC0651FF1', 39);
CREATE TABLE memory_places (
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
INSERT INTO memory_places (id, owner, tier, session, space, entries, bytes, words, last) VALUES (1, 'ada', 1, '', 'default', 1, 157, 5, 1);
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
INSERT INTO memories (number, place, owner, key, created, updated, expires, weight, bytes, length, embedded, source, tags, words, grams, marks, content) VALUES (4294967297, 1, 'ada', 'pet', 1770000000000, 1770000000000, NULL, 1.0, 157, 5, 0, '', '', 'pet a dog called rex', '00pt 00rx 0pe 0re et0 ex0 pet rex', '', '"a dog called Rex"');
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
CREATE VIRTUAL TABLE memory_index USING fts5 (
        words, grams, marks, content = 'memories', content_rowid = 'number',
        tokenize = 'ascii', detail = 'column', columnsize = 0
    );
INSERT INTO memory_index (memory_index, rank) VALUES ('secure-delete', 0);
INSERT INTO memory_index (memory_index) VALUES ('rebuild');
CREATE TABLE plans (
        number INTEGER PRIMARY KEY,
        owner TEXT NOT NULL,
        id TEXT NOT NULL,
        name TEXT NOT NULL,
        description TEXT NOT NULL,
        columns TEXT NOT NULL,
        created INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        UNIQUE (owner, id)
    ) STRICT;
INSERT INTO plans (number, owner, id, name, description, columns, created, bytes) VALUES (1, 'ada', 'p', 'plan p', 'what for', 'todo
done', 1770000000000, 23);
CREATE TABLE tasks (
        number INTEGER PRIMARY KEY,
        owner TEXT NOT NULL,
        plan TEXT NOT NULL,
        id TEXT NOT NULL,
        title TEXT NOT NULL,
        status TEXT NOT NULL,
        assignee TEXT NOT NULL,
        description TEXT NOT NULL,
        deps TEXT NOT NULL,
        metadata TEXT NOT NULL,
        place INTEGER NOT NULL,
        version INTEGER NOT NULL,
        created INTEGER NOT NULL,
        changed INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        UNIQUE (owner, plan, id)
    ) STRICT;
INSERT INTO tasks (number, owner, plan, id, title, status, assignee, description, deps, metadata, place, version, created, changed, bytes) VALUES (1, 'ada', 'p', '1', 'task 1', 'todo', '', 'more', '', '{"a":1}', 0, 1, 1770000000000, 1770000000000, 22);
CREATE TABLE task_changes (
        number INTEGER PRIMARY KEY,
        owner TEXT NOT NULL,
        plan TEXT NOT NULL,
        task TEXT NOT NULL,
        at INTEGER NOT NULL,
        author TEXT NOT NULL,
        version INTEGER NOT NULL,
        field TEXT NOT NULL,
        before TEXT NOT NULL,
        after TEXT NOT NULL,
        bytes INTEGER NOT NULL
    ) STRICT;
INSERT INTO task_changes (number, owner, plan, task, at, author, version, field, before, after, bytes) VALUES (1, 'ada', 'p', '1', 1770000000000, 'ada', 1, 'added', '', 'todo', 14);
CREATE TABLE samples (
        number INTEGER PRIMARY KEY,
        owner TEXT NOT NULL,
        kind INTEGER NOT NULL,
        body BLOB NOT NULL,
        bytes INTEGER NOT NULL
    ) STRICT;
INSERT INTO samples (number, owner, kind, body, bytes) VALUES (1, 'ada', 1, X'7B7D', 2);
CREATE TABLE components (
        owner TEXT NOT NULL,
        name TEXT NOT NULL,
        known BLOB NOT NULL,
        bytes INTEGER NOT NULL,
        PRIMARY KEY (owner, name)
    ) STRICT, WITHOUT ROWID;
INSERT INTO components (owner, name, known, bytes) VALUES ('ada', 'c', X'6B6E6F776E', 6);
CREATE TABLE learned (
        owner TEXT NOT NULL PRIMARY KEY,
        state BLOB NOT NULL,
        bytes INTEGER NOT NULL
    ) STRICT;
INSERT INTO learned (owner, state, bytes) VALUES ('ada', X'6166746572', 5);
CREATE TABLE refinements (
        number INTEGER PRIMARY KEY,
        owner TEXT NOT NULL,
        id TEXT NOT NULL,
        entry BLOB NOT NULL,
        snapshot BLOB,
        bytes INTEGER NOT NULL
    ) STRICT;
INSERT INTO refinements (number, owner, id, entry, snapshot, bytes) VALUES (1, 'ada', 'r', X'656E747279206F662072', X'6265666F7265', 17);
CREATE TABLE chains (
        number INTEGER PRIMARY KEY,
        owner TEXT NOT NULL,
        name TEXT NOT NULL,
        state INTEGER NOT NULL,
        begun INTEGER NOT NULL,
        ended INTEGER,
        resumed INTEGER NOT NULL,
        entries INTEGER NOT NULL,
        noted INTEGER NOT NULL,
        expires INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        outcome BLOB
    , run INTEGER NOT NULL DEFAULT 0, ended_at INTEGER) STRICT;
INSERT INTO chains (number, owner, name, state, begun, ended, resumed, entries, noted, expires, bytes, outcome, run, ended_at) VALUES (1, 'ada', 'c', 0, 1770000000000, NULL, 0, 1, 6, 9223372036854775807, 9, NULL, 1, NULL);
INSERT INTO chains (number, owner, name, state, begun, ended, resumed, entries, noted, expires, bytes, outcome, run, ended_at) VALUES (2, 'ada', 'c', 1, 1770000000000, 1770000000000, 0, 0, 0, 1770604800000, 10, X'6F7574636F6D65', 1, 0);
CREATE TABLE chain_entries (
        chain INTEGER NOT NULL REFERENCES chains ON DELETE CASCADE,
        entry INTEGER NOT NULL,
        body BLOB NOT NULL,
        PRIMARY KEY (chain, entry)
    ) STRICT, WITHOUT ROWID;
INSERT INTO chain_entries (chain, entry, body) VALUES (1, -1, X'7B7D');
INSERT INTO chain_entries (chain, entry, body) VALUES (1, 0, X'61206E6F7465');
INSERT INTO chain_entries (chain, entry, body) VALUES (2, -1, X'7B7D');
CREATE TABLE memory_erasure (
        removed INTEGER NOT NULL,
        erasing INTEGER,
        erased INTEGER NOT NULL
    ) STRICT;
INSERT INTO memory_erasure (removed, erasing, erased) VALUES (0, NULL, 0);
CREATE INDEX results_by_age ON results (owner, at);
CREATE TRIGGER results_added AFTER INSERT ON results BEGIN INSERT INTO usage (kind, owner, entries, bytes) VALUES ('results', new.owner, 1, new.bytes) ON CONFLICT (kind, owner) DO UPDATE SET entries = entries + 1, bytes = bytes + excluded.bytes; END;
CREATE TRIGGER results_changed AFTER UPDATE OF bytes ON results BEGIN UPDATE usage SET bytes = bytes + new.bytes - old.bytes WHERE kind = 'results' AND owner = old.owner; END;
CREATE TRIGGER results_removed AFTER DELETE ON results BEGIN UPDATE usage SET entries = entries - 1, bytes = bytes - old.bytes WHERE kind = 'results' AND owner = old.owner; END;
CREATE TRIGGER snapshots_added AFTER INSERT ON snapshots BEGIN INSERT INTO usage (kind, owner, entries, bytes) VALUES ('snapshots', new.owner, 1, new.bytes) ON CONFLICT (kind, owner) DO UPDATE SET entries = entries + 1, bytes = bytes + excluded.bytes; END;
CREATE TRIGGER snapshots_changed AFTER UPDATE OF bytes ON snapshots BEGIN UPDATE usage SET bytes = bytes + new.bytes - old.bytes WHERE kind = 'snapshots' AND owner = old.owner; END;
CREATE TRIGGER snapshots_removed AFTER DELETE ON snapshots BEGIN UPDATE usage SET entries = entries - 1, bytes = bytes - old.bytes WHERE kind = 'snapshots' AND owner = old.owner; END;
CREATE INDEX replay_ids_by_end ON replay_ids (expires);
CREATE TRIGGER replay_ids_added AFTER INSERT ON replay_ids BEGIN INSERT INTO usage (kind, owner, entries, bytes) VALUES ('replay_ids', new.owner, 1, new.bytes) ON CONFLICT (kind, owner) DO UPDATE SET entries = entries + 1, bytes = bytes + excluded.bytes; END;
CREATE TRIGGER replay_ids_changed AFTER UPDATE OF bytes ON replay_ids BEGIN UPDATE usage SET bytes = bytes + new.bytes - old.bytes WHERE kind = 'replay_ids' AND owner = old.owner; END;
CREATE TRIGGER replay_ids_removed AFTER DELETE ON replay_ids BEGIN UPDATE usage SET entries = entries - 1, bytes = bytes - old.bytes WHERE kind = 'replay_ids' AND owner = old.owner; END;
CREATE TRIGGER rate_buckets_added AFTER INSERT ON rate_buckets BEGIN INSERT INTO usage (kind, owner, entries, bytes) VALUES ('rate_buckets', new.owner, 1, new.bytes) ON CONFLICT (kind, owner) DO UPDATE SET entries = entries + 1, bytes = bytes + excluded.bytes; END;
CREATE TRIGGER rate_buckets_changed AFTER UPDATE OF bytes ON rate_buckets BEGIN UPDATE usage SET bytes = bytes + new.bytes - old.bytes WHERE kind = 'rate_buckets' AND owner = old.owner; END;
CREATE TRIGGER rate_buckets_removed AFTER DELETE ON rate_buckets BEGIN UPDATE usage SET entries = entries - 1, bytes = bytes - old.bytes WHERE kind = 'rate_buckets' AND owner = old.owner; END;
CREATE TRIGGER approvals_added AFTER INSERT ON approvals BEGIN INSERT INTO usage (kind, owner, entries, bytes) VALUES ('approvals', new.owner, 1, new.bytes) ON CONFLICT (kind, owner) DO UPDATE SET entries = entries + 1, bytes = bytes + excluded.bytes; END;
CREATE TRIGGER approvals_changed AFTER UPDATE OF bytes ON approvals BEGIN UPDATE usage SET bytes = bytes + new.bytes - old.bytes WHERE kind = 'approvals' AND owner = old.owner; END;
CREATE TRIGGER approvals_removed AFTER DELETE ON approvals BEGIN UPDATE usage SET entries = entries - 1, bytes = bytes - old.bytes WHERE kind = 'approvals' AND owner = old.owner; END;
CREATE TRIGGER pins_added AFTER INSERT ON pins BEGIN INSERT INTO usage (kind, owner, entries, bytes) VALUES ('pins', new.owner, 1, new.bytes) ON CONFLICT (kind, owner) DO UPDATE SET entries = entries + 1, bytes = bytes + excluded.bytes; END;
CREATE TRIGGER pins_changed AFTER UPDATE OF bytes ON pins BEGIN UPDATE usage SET bytes = bytes + new.bytes - old.bytes WHERE kind = 'pins' AND owner = old.owner; END;
CREATE TRIGGER pins_removed AFTER DELETE ON pins BEGIN UPDATE usage SET entries = entries - 1, bytes = bytes - old.bytes WHERE kind = 'pins' AND owner = old.owner; END;
CREATE TRIGGER secrets_added AFTER INSERT ON secrets BEGIN INSERT INTO usage (kind, owner, entries, bytes) VALUES ('secrets', new.owner, 1, new.bytes) ON CONFLICT (kind, owner) DO UPDATE SET entries = entries + 1, bytes = bytes + excluded.bytes; END;
CREATE TRIGGER secrets_changed AFTER UPDATE OF bytes ON secrets BEGIN UPDATE usage SET bytes = bytes + new.bytes - old.bytes WHERE kind = 'secrets' AND owner = old.owner; END;
CREATE TRIGGER secrets_removed AFTER DELETE ON secrets BEGIN UPDATE usage SET entries = entries - 1, bytes = bytes - old.bytes WHERE kind = 'secrets' AND owner = old.owner; END;
CREATE INDEX memories_by_end ON memories (expires) WHERE expires IS NOT NULL;
CREATE INDEX memories_by_place_and_end ON memories (place, expires) WHERE expires IS NOT NULL;
CREATE INDEX memories_to_embed ON memories (number) WHERE embedded = 0;
CREATE INDEX memory_vectors_by_place ON memory_vectors (place, id);
CREATE TRIGGER memories_indexed AFTER INSERT ON memories BEGIN
        INSERT INTO memory_index (rowid, words, grams, marks)
        VALUES (new.number, new.words, new.grams, new.marks);
        UPDATE memory_places SET entries = entries + 1, bytes = bytes + new.bytes,
            words = words + new.length
        WHERE id = new.place;
    END;
CREATE TRIGGER memories_added AFTER INSERT ON memories BEGIN INSERT INTO usage (kind, owner, entries, bytes) VALUES ('memories', new.owner, 1, new.bytes) ON CONFLICT (kind, owner) DO UPDATE SET entries = entries + 1, bytes = bytes + excluded.bytes; END;
CREATE TRIGGER memories_changed AFTER UPDATE OF bytes ON memories BEGIN UPDATE usage SET bytes = bytes + new.bytes - old.bytes WHERE kind = 'memories' AND owner = old.owner; END;
CREATE TRIGGER memories_removed AFTER DELETE ON memories BEGIN UPDATE usage SET entries = entries - 1, bytes = bytes - old.bytes WHERE kind = 'memories' AND owner = old.owner; END;
CREATE INDEX task_changes_by_task ON task_changes (owner, plan, task);
CREATE INDEX task_changes_by_age ON task_changes (owner);
CREATE TRIGGER plans_added AFTER INSERT ON plans BEGIN INSERT INTO usage (kind, owner, entries, bytes) VALUES ('plans', new.owner, 1, new.bytes) ON CONFLICT (kind, owner) DO UPDATE SET entries = entries + 1, bytes = bytes + excluded.bytes; END;
CREATE TRIGGER plans_changed AFTER UPDATE OF bytes ON plans BEGIN UPDATE usage SET bytes = bytes + new.bytes - old.bytes WHERE kind = 'plans' AND owner = old.owner; END;
CREATE TRIGGER plans_removed AFTER DELETE ON plans BEGIN UPDATE usage SET entries = entries - 1, bytes = bytes - old.bytes WHERE kind = 'plans' AND owner = old.owner; END;
CREATE TRIGGER tasks_added AFTER INSERT ON tasks BEGIN INSERT INTO usage (kind, owner, entries, bytes) VALUES ('tasks', new.owner, 1, new.bytes) ON CONFLICT (kind, owner) DO UPDATE SET entries = entries + 1, bytes = bytes + excluded.bytes; END;
CREATE TRIGGER tasks_changed AFTER UPDATE OF bytes ON tasks BEGIN UPDATE usage SET bytes = bytes + new.bytes - old.bytes WHERE kind = 'tasks' AND owner = old.owner; END;
CREATE TRIGGER tasks_removed AFTER DELETE ON tasks BEGIN UPDATE usage SET entries = entries - 1, bytes = bytes - old.bytes WHERE kind = 'tasks' AND owner = old.owner; END;
CREATE TRIGGER task_changes_added AFTER INSERT ON task_changes BEGIN INSERT INTO usage (kind, owner, entries, bytes) VALUES ('task_changes', new.owner, 1, new.bytes) ON CONFLICT (kind, owner) DO UPDATE SET entries = entries + 1, bytes = bytes + excluded.bytes; END;
CREATE TRIGGER task_changes_changed AFTER UPDATE OF bytes ON task_changes BEGIN UPDATE usage SET bytes = bytes + new.bytes - old.bytes WHERE kind = 'task_changes' AND owner = old.owner; END;
CREATE TRIGGER task_changes_removed AFTER DELETE ON task_changes BEGIN UPDATE usage SET entries = entries - 1, bytes = bytes - old.bytes WHERE kind = 'task_changes' AND owner = old.owner; END;
CREATE INDEX samples_by_age ON samples (owner);
CREATE INDEX refinements_by_id ON refinements (owner, id);
CREATE INDEX refinements_by_age ON refinements (owner);
CREATE TRIGGER samples_added AFTER INSERT ON samples BEGIN INSERT INTO usage (kind, owner, entries, bytes) VALUES ('samples', new.owner, 1, new.bytes) ON CONFLICT (kind, owner) DO UPDATE SET entries = entries + 1, bytes = bytes + excluded.bytes; END;
CREATE TRIGGER samples_changed AFTER UPDATE OF bytes ON samples BEGIN UPDATE usage SET bytes = bytes + new.bytes - old.bytes WHERE kind = 'samples' AND owner = old.owner; END;
CREATE TRIGGER samples_removed AFTER DELETE ON samples BEGIN UPDATE usage SET entries = entries - 1, bytes = bytes - old.bytes WHERE kind = 'samples' AND owner = old.owner; END;
CREATE TRIGGER components_added AFTER INSERT ON components BEGIN INSERT INTO usage (kind, owner, entries, bytes) VALUES ('components', new.owner, 1, new.bytes) ON CONFLICT (kind, owner) DO UPDATE SET entries = entries + 1, bytes = bytes + excluded.bytes; END;
CREATE TRIGGER components_changed AFTER UPDATE OF bytes ON components BEGIN UPDATE usage SET bytes = bytes + new.bytes - old.bytes WHERE kind = 'components' AND owner = old.owner; END;
CREATE TRIGGER components_removed AFTER DELETE ON components BEGIN UPDATE usage SET entries = entries - 1, bytes = bytes - old.bytes WHERE kind = 'components' AND owner = old.owner; END;
CREATE TRIGGER learned_added AFTER INSERT ON learned BEGIN INSERT INTO usage (kind, owner, entries, bytes) VALUES ('learned', new.owner, 1, new.bytes) ON CONFLICT (kind, owner) DO UPDATE SET entries = entries + 1, bytes = bytes + excluded.bytes; END;
CREATE TRIGGER learned_changed AFTER UPDATE OF bytes ON learned BEGIN UPDATE usage SET bytes = bytes + new.bytes - old.bytes WHERE kind = 'learned' AND owner = old.owner; END;
CREATE TRIGGER learned_removed AFTER DELETE ON learned BEGIN UPDATE usage SET entries = entries - 1, bytes = bytes - old.bytes WHERE kind = 'learned' AND owner = old.owner; END;
CREATE TRIGGER refinements_added AFTER INSERT ON refinements BEGIN INSERT INTO usage (kind, owner, entries, bytes) VALUES ('refinements', new.owner, 1, new.bytes) ON CONFLICT (kind, owner) DO UPDATE SET entries = entries + 1, bytes = bytes + excluded.bytes; END;
CREATE TRIGGER refinements_changed AFTER UPDATE OF bytes ON refinements BEGIN UPDATE usage SET bytes = bytes + new.bytes - old.bytes WHERE kind = 'refinements' AND owner = old.owner; END;
CREATE TRIGGER refinements_removed AFTER DELETE ON refinements BEGIN UPDATE usage SET entries = entries - 1, bytes = bytes - old.bytes WHERE kind = 'refinements' AND owner = old.owner; END;
CREATE INDEX chains_by_owner ON chains (owner, number);
CREATE INDEX chains_open ON chains (number) WHERE state = 0;
CREATE TRIGGER chains_added AFTER INSERT ON chains BEGIN INSERT INTO usage (kind, owner, entries, bytes) VALUES ('chains', new.owner, 1, new.bytes) ON CONFLICT (kind, owner) DO UPDATE SET entries = entries + 1, bytes = bytes + excluded.bytes; END;
CREATE TRIGGER chains_changed AFTER UPDATE OF bytes ON chains BEGIN UPDATE usage SET bytes = bytes + new.bytes - old.bytes WHERE kind = 'chains' AND owner = old.owner; END;
CREATE TRIGGER chains_removed AFTER DELETE ON chains BEGIN UPDATE usage SET entries = entries - 1, bytes = bytes - old.bytes WHERE kind = 'chains' AND owner = old.owner; END;
CREATE TRIGGER memories_unindexed AFTER DELETE ON memories BEGIN
        INSERT INTO memory_index (memory_index, rowid, words, grams, marks)
        VALUES ('delete', old.number, old.words, old.grams, old.marks);
        DELETE FROM memory_vectors WHERE number = old.number;
        UPDATE memory_places SET entries = entries - 1, bytes = bytes - old.bytes,
            words = words - old.length
        WHERE id = old.place;
        UPDATE memory_erasure SET removed = removed + 1;
    END;
