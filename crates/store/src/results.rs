//! Answers to requests that may be sent again: done once, answered as often as asked.

mod memory;

use std::fmt;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension};

use crate::limits::{Size, check_name};
use crate::scope::Owner;
use crate::sqlite::{Database, Metered, metered};
use crate::{Error, Hash, Limit, Pending, UnixMillis};

pub(crate) use memory::{InMemory, Table};

/// The requests of one agent (or peer) and what came of them, by their ids.
///
/// A request is put on record before it is done. Its answer is kept for
/// [`results_kept`](crate::Limits::results_kept); when there are too many the oldest go, but never
/// one that is still being done: a retry of it would do it twice.
pub trait Results: fmt::Debug + Send + Sync {
    /// A request came. If it is [new](Begun::New) it is on record as being done.
    ///
    /// Fails with [`Error::Full`] if everything on record is being done.
    fn begin(&self, now: UnixMillis, id: &str, hash: Hash) -> Pending<Begun>;

    /// A request was done. Without a result (one that may not be kept) only that it was done is
    /// remembered.
    ///
    /// Fails with [`Error::NotFound`] unless the request is being done in this process, and leaves
    /// it so if the result is too large or finds no room.
    fn finish(&self, now: UnixMillis, id: &str, result: Option<Vec<u8>>) -> Pending<()>;

    /// The result of a request that is [finished](Begun::Finished), unless it was not kept or has
    /// been dropped since. Large ones are read here, and not in the middle of everybody's writes.
    fn result(&self, now: UnixMillis, id: &str) -> Pending<Option<Vec<u8>>>;

    /// A request may be done as if it had never come: it was not done, or its result must be gone.
    fn forget(&self, id: &str) -> Pending<()>;
}

/// What a request is to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begun {
    /// It is new: do it, and then [finish](Results::finish) or [forget](Results::forget) it.
    New,
    /// It is being done: wait for whoever does it.
    Running,
    /// It was being done when the process ended; how far it came nobody knows.
    Interrupted,
    /// It was done; [`result`](Results::result) has what came of it, if that was kept.
    Finished,
    /// Another request has this id.
    Conflict,
}

const WHAT: &str = "idempotent result";

/// What a request takes beside its result.
const fn base_size(id: &str) -> usize {
    id.len() + 32
}

/// `run` is 0 for a request that was done, else the opening of the database in which it is being
/// done or was cut off. `at` is when it was begun or done; equals are in the order they came in.
pub(crate) const SCHEMA: &str = concat!(
    "CREATE TABLE results (
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
    CREATE INDEX results_by_age ON results (owner, at);",
    metered!(triggers "results")
);

pub(crate) const TABLE: Metered = metered!("results", "idempotent result");

#[derive(Debug)]
pub(crate) struct InSqlite {
    database: Arc<Database>,
    owner: Arc<str>,
}

impl InSqlite {
    pub(crate) fn new(database: &Arc<Database>, owner: &Owner) -> Self {
        Self {
            database: Arc::clone(database),
            owner: owner.shared(),
        }
    }
}

impl Results for InSqlite {
    fn begin(&self, now: UnixMillis, id: &str, hash: Hash) -> Pending<Begun> {
        let (limits, run) = (*self.database.limits(), self.database.run());
        let (owner, id) = (Arc::clone(&self.owner), id.to_owned());
        let cutoff = now.minus(limits.results_kept);
        self.database.write_here(id.len(), move |connection| {
            check_name(WHAT, &id)?;
            let known = Row::find(connection, &owner, &id)?;
            let is_live = |row: &Row| row.run == run || row.at > cutoff.0;
            if let Some(row) = known.as_ref().filter(|row| is_live(row)) {
                return Ok(row.answer(hash, run));
            }
            let more = Size::one(base_size(&id));
            make_room(
                connection,
                &owner,
                run,
                limits.results,
                (known.as_ref(), more),
            )?;
            if let Some(row) = known {
                row.remove(connection)?;
            }
            connection
                .prepare_cached(
                    "INSERT INTO results (owner, id, hash, run, at, bytes)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                )?
                .execute((&*owner, &*id, hash.0, run, now.0, more.bytes))?;
            Ok(Begun::New)
        })
    }

    fn finish(&self, now: UnixMillis, id: &str, result: Option<Vec<u8>>) -> Pending<()> {
        let (limit, run) = (self.database.limits().results, self.database.run());
        let (owner, id) = (Arc::clone(&self.owner), id.to_owned());
        let size = result.as_ref().map_or(0, Vec::len);
        self.database
            .write_here(id.len() + size, move |connection| {
                limit.take(WHAT, size)?;
                let row = Row::find(connection, &owner, &id)?;
                let Some(row) = row.filter(|row| row.run == run) else {
                    return Err(Error::NotFound { what: WHAT });
                };
                let more = Size::one(base_size(&id) + size);
                make_room(connection, &owner, run, limit, (Some(&row), more))?;
                connection
                    .prepare_cached(
                        "UPDATE results SET run = 0, at = ?2, result = ?3, bytes = ?4
                     WHERE number = ?1",
                    )?
                    .execute((row.number, now.0, &result, more.bytes))?;
                Ok(())
            })
    }

    fn result(&self, now: UnixMillis, id: &str) -> Pending<Option<Vec<u8>>> {
        let cutoff = now.minus(self.database.limits().results_kept);
        self.database.read(|connection| {
            let mut find = connection.prepare_cached(
                "SELECT result FROM results
                 WHERE owner = ?1 AND id = ?2 AND run = 0 AND at > ?3",
            )?;
            let result = find.query_row((&*self.owner, id, cutoff.0), |row| row.get(0));
            Ok(result.optional()?.flatten())
        })
    }

    fn forget(&self, id: &str) -> Pending<()> {
        let (owner, id) = (Arc::clone(&self.owner), id.to_owned());
        self.database.write_here(id.len(), move |connection| {
            match Row::find(connection, &owner, &id)? {
                Some(row) => row.remove(connection),
                None => Ok(()),
            }
        })
    }
}

struct Row {
    number: i64,
    hash: Hash,
    run: i64,
    at: i64,
    bytes: usize,
}

impl Row {
    fn find(connection: &Connection, owner: &str, id: &str) -> Result<Option<Self>, Error> {
        let mut find = connection.prepare_cached(
            "SELECT number, hash, run, at, bytes FROM results WHERE owner = ?1 AND id = ?2",
        )?;
        let row = find.query_row((owner, id), |row| {
            Ok(Self {
                number: row.get(0)?,
                hash: Hash(row.get(1)?),
                run: row.get(2)?,
                at: row.get(3)?,
                bytes: row.get(4)?,
            })
        });
        Ok(row.optional()?)
    }

    fn answer(&self, hash: Hash, run: i64) -> Begun {
        match self.run {
            _ if self.hash != hash => Begun::Conflict,
            0 => Begun::Finished,
            own if own == run => Begun::Running,
            _ => Begun::Interrupted,
        }
    }

    fn remove(&self, connection: &Connection) -> Result<(), Error> {
        let mut remove = connection.prepare_cached("DELETE FROM results WHERE number = ?1")?;
        remove.execute([self.number])?;
        Ok(())
    }
}

/// Makes room for an entry in place of another; the oldest that are not being done go.
fn make_room(
    connection: &Connection,
    owner: &str,
    run: i64,
    limit: Limit,
    (replaced, more): (Option<&Row>, Size),
) -> Result<(), Error> {
    let mut size = TABLE.usage(connection, owner)?.plus(more);
    if let Some(row) = replaced {
        size = size.minus(Size::one(row.bytes));
    }
    if limit.holds(size) {
        return Ok(());
    }
    let mut oldest = connection.prepare_cached(
        "SELECT number, bytes FROM results
         WHERE owner = ?1 AND run <> ?2 AND number <> ?3 ORDER BY at, number",
    )?;
    let mut rows = oldest.query((owner, run, replaced.map_or(0, |row| row.number)))?;
    let mut going: Vec<i64> = Vec::new();
    while !limit.holds(size) {
        let Some(row) = rows.next()? else {
            return Err(Error::Full { what: WHAT });
        };
        size = size.minus(Size::one(row.get(1)?));
        going.push(row.get(0)?);
    }
    drop(rows);
    let mut remove = connection.prepare_cached("DELETE FROM results WHERE number = ?1")?;
    for number in going {
        remove.execute([number])?;
    }
    Ok(())
}

/// Removes what was done, or cut off, before a time; returns how much that was.
pub(crate) fn sweep(
    connection: &Connection,
    cutoff: UnixMillis,
    run: i64,
    at_most: usize,
) -> Result<usize, Error> {
    // Owner by owner, so that the index finds the old ones.
    let mut sweep = connection.prepare_cached(
        "DELETE FROM results WHERE number IN (
            SELECT results.number FROM usage CROSS JOIN results ON results.owner = usage.owner
            WHERE usage.kind = 'results' AND results.at <= ?1 AND results.run <> ?2 LIMIT ?3)",
    )?;
    Ok(sweep.execute((cutoff.0, run, at_most))?)
}
