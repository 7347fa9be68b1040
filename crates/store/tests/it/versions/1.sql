PRAGMA application_id = 1181906024;
PRAGMA user_version = 1;
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
