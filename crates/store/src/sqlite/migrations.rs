//! The schema, one step for each version.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use crate::Error;
use crate::{
    approvals, chains, learning, memories, pins, plans, rate_buckets, replay_ids, results, secrets,
    snapshots,
};

/// Each step makes the next version of the one before it. A step that was published never changes;
/// a new table or column is a new step at the end, with a sample of the version before it in
/// `tests/it/versions/`.
pub(super) const MIGRATIONS: &[&str] = &[
    NODE,
    results::SCHEMA,
    snapshots::SCHEMA,
    replay_ids::SCHEMA,
    rate_buckets::SCHEMA,
    approvals::SCHEMA,
    pins::SCHEMA,
    secrets::SCHEMA,
    memories::SCHEMA,
    plans::SCHEMA,
    learning::SCHEMA,
    chains::SCHEMA,
    chains::REQUESTS,
    pins::SINCE,
    approvals::REASON,
    approvals::DID,
    chains::RUNS,
    memories::ERASURE,
];

/// What the store knows of itself, and how much each owner has of each kind: kept by triggers, so
/// that no change forgets it, and asked before anything is added.
const NODE: &str = "
CREATE TABLE node (
    name TEXT NOT NULL PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE usage (
    kind TEXT NOT NULL,
    owner TEXT NOT NULL,
    entries INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY (kind, owner)
) STRICT, WITHOUT ROWID;
";

/// Marks a file as ours: `Frth`.
const APPLICATION: i64 = 0x4672_7468;

/// The newest version there is.
pub(super) fn newest() -> i64 {
    i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX)
}

/// The version of a database; 0 if it is empty.
pub(super) fn version(connection: &Connection, path: &Path) -> Result<i64, Error> {
    let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let (application, found) = (number("application_id")?, number("user_version")?);
    // Who is killed in the first step leaves a file without any table.
    let tables = "SELECT count(*) FROM sqlite_schema";
    let is_empty = found == 0 && connection.query_row(tables, [], |row| row.get::<_, i64>(0))? == 0;
    if application != APPLICATION && !is_empty {
        return Err(Error::NotOurs {
            path: path.to_owned(),
        });
    }
    match found > newest() {
        true => Err(Error::Newer {
            path: path.to_owned(),
            found,
            known: newest(),
        }),
        false => Ok(found),
    }
}

/// Takes the steps from this version on. Each is a transaction: who is killed goes on where it was.
pub(super) fn migrate(connection: &mut Connection, version: i64) -> Result<(), Error> {
    let done = usize::try_from(version).unwrap_or_default();
    for (step, sql) in (1_i64..).zip(MIGRATIONS).skip(done) {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute_batch(sql)?;
        transaction.pragma_update(None, "application_id", APPLICATION)?;
        transaction.pragma_update(None, "user_version", step)?;
        transaction.commit()?;
    }
    Ok(())
}
