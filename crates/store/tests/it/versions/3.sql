PRAGMA application_id = 1181906024;
PRAGMA user_version = 3;
CREATE TABLE node (
    name TEXT NOT NULL PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO node (name, value) VALUES ('run', 1);
CREATE TABLE usage (
    kind TEXT NOT NULL,
    owner TEXT NOT NULL,
    entries INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY (kind, owner)
) STRICT, WITHOUT ROWID;
INSERT INTO usage (kind, owner, entries, bytes) VALUES ('results', 'ada', 2, 81);
INSERT INTO usage (kind, owner, entries, bytes) VALUES ('snapshots', 'ada', 1, 16);
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
INSERT INTO results (number, owner, id, hash, run, at, result, bytes) VALUES (1, 'ada', 'done', X'0101010101010101010101010101010101010101010101010101010101010101', 0, 1770000000000, X'616E73776572', 42);
INSERT INTO results (number, owner, id, hash, run, at, result, bytes) VALUES (2, 'ada', 'cut off', X'0101010101010101010101010101010101010101010101010101010101010101', 1, 1770000000000, NULL, 39);
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
CREATE INDEX results_by_age ON results (owner, at);
CREATE TRIGGER results_added AFTER INSERT ON results BEGIN INSERT INTO usage (kind, owner, entries, bytes) VALUES ('results', new.owner, 1, new.bytes) ON CONFLICT (kind, owner) DO UPDATE SET entries = entries + 1, bytes = bytes + excluded.bytes; END;
CREATE TRIGGER results_changed AFTER UPDATE OF bytes ON results BEGIN UPDATE usage SET bytes = bytes + new.bytes - old.bytes WHERE kind = 'results' AND owner = old.owner; END;
CREATE TRIGGER results_removed AFTER DELETE ON results BEGIN UPDATE usage SET entries = entries - 1, bytes = bytes - old.bytes WHERE kind = 'results' AND owner = old.owner; END;
CREATE TRIGGER snapshots_added AFTER INSERT ON snapshots BEGIN INSERT INTO usage (kind, owner, entries, bytes) VALUES ('snapshots', new.owner, 1, new.bytes) ON CONFLICT (kind, owner) DO UPDATE SET entries = entries + 1, bytes = bytes + excluded.bytes; END;
CREATE TRIGGER snapshots_changed AFTER UPDATE OF bytes ON snapshots BEGIN UPDATE usage SET bytes = bytes + new.bytes - old.bytes WHERE kind = 'snapshots' AND owner = old.owner; END;
CREATE TRIGGER snapshots_removed AFTER DELETE ON snapshots BEGIN UPDATE usage SET entries = entries - 1, bytes = bytes - old.bytes WHERE kind = 'snapshots' AND owner = old.owner; END;
