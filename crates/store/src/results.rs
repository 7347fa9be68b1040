//! Answers to requests that may be sent again: done once, answered as often as asked.

mod memory;

use std::fmt;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension};

use crate::limits::{Size, check_name};
use crate::scope::Owner;
use crate::sqlite::{Database, Metered, metered};
use crate::{Error, Hash, Limit, Pending, Uptime};

pub(crate) use memory::{InMemory, Table};

/// The requests of one agent (or peer) and what came of them, by their ids.
///
/// A request is put on record before it is done. Its answer is kept for
/// [`results_kept`](crate::Limits::results_kept); when there are too many the oldest go, but never
/// one that is still being done: a retry of it would do it twice.
pub trait Results: fmt::Debug + Send + Sync {
    /// A request came. If it is [new](Begun::New) it is on record as being done.
    ///
    /// Fails with [`Error::Full`] if everything on record is being done, and with
    /// [`Error::Restored`] if it is new here and may have been done after a backup was made.
    fn begin(&self, now: Uptime, id: &str, hash: Hash) -> Pending<Begun>;

    /// A request was done. Without a result (one that may not be kept) only that it was done is
    /// remembered.
    ///
    /// Fails with [`Error::NotFound`] unless the request is being done in this process, and leaves
    /// it so if the result is too large or finds no room.
    fn finish(&self, now: Uptime, id: &str, result: Option<Vec<u8>>) -> Pending<()>;

    /// The work on a request was cut off: it is [interrupted](Begun::Interrupted) from now on.
    ///
    /// Fails with [`Error::NotFound`] unless the request is being done in this process.
    fn interrupt(&self, now: Uptime, id: &str) -> Pending<()>;

    /// The result of a request that is [finished](Begun::Finished), unless it was not kept or has
    /// been dropped since. Large ones are read here, and not in the middle of everybody's writes.
    fn result(&self, now: Uptime, id: &str) -> Pending<Option<Vec<u8>>>;

    /// A request may be done as if it had never come, since nothing of it was done.
    fn forget(&self, id: &str) -> Pending<()>;
}

/// What a request is to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begun {
    /// It is new: do it, and then [finish](Results::finish), [interrupt](Results::interrupt) or
    /// [forget](Results::forget) it.
    New,
    /// It is being done: wait for whoever does it.
    Running,
    /// It was cut off, by the end of its process or before: how far it came is not known.
    Interrupted,
    /// It was done; [`result`](Results::result) has what came of it, if that was kept.
    Finished,
    /// Another request has this id.
    Conflict,
}

const WHAT: &str = "idempotent result";

/// No opening of a database has this number.
const CUT_OFF: i64 = -1;

/// What a request takes beside its result.
const fn base_size(id: &str) -> usize {
    id.len() + 32
}

/// `run` is 0 for a request that was done, [`CUT_OFF`] for one that was cut off while its process
/// went on, else the opening of the database in which it is being done or was cut off. `at` is when
/// it was begun, done or cut off, by [`Database::stamp`]; equals are in the order they came in.
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
    fn begin(&self, now: Uptime, id: &str, hash: Hash) -> Pending<Begun> {
        let (limits, run) = (*self.database.limits(), self.database.run());
        let (owner, id) = (Arc::clone(&self.owner), id.to_owned());
        let (at, cutoff) = (self.database.stamp(now), self.database.cutoff(now));
        let unknown_for = self.database.unknown_for(now);
        self.database.write_here(id.len(), move |connection| {
            check_name(WHAT, &id)?;
            let known = Row::find(connection, &owner, &id)?;
            let is_live = |row: &Row| row.run == run || row.at > cutoff;
            if let Some(row) = known.as_ref().filter(|row| is_live(row)) {
                return Ok(row.answer(hash, run));
            }
            if let Some(wait) = unknown_for {
                return Err(Error::Restored { wait });
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
                .execute((&*owner, &*id, hash.0, run, at, more.bytes))?;
            Ok(Begun::New)
        })
    }

    fn finish(&self, now: Uptime, id: &str, result: Option<Vec<u8>>) -> Pending<()> {
        let (limit, run) = (self.database.limits().results, self.database.run());
        let (owner, id) = (Arc::clone(&self.owner), id.to_owned());
        let (at, size) = (
            self.database.stamp(now),
            result.as_ref().map_or(0, Vec::len),
        );
        self.database
            .write_here(id.len() + size, move |connection| {
                limit.take(WHAT, size)?;
                let row = Row::find_running(connection, &owner, &id, run)?;
                let more = Size::one(base_size(&id) + size);
                make_room(connection, &owner, run, limit, (Some(&row), more))?;
                connection
                    .prepare_cached(
                        "UPDATE results SET run = 0, at = ?2, result = ?3, bytes = ?4
                     WHERE number = ?1",
                    )?
                    .execute((row.number, at, &result, more.bytes))?;
                Ok(())
            })
    }

    fn interrupt(&self, now: Uptime, id: &str) -> Pending<()> {
        let (run, at) = (self.database.run(), self.database.stamp(now));
        let (owner, id) = (Arc::clone(&self.owner), id.to_owned());
        self.database.write_here(id.len(), move |connection| {
            let row = Row::find_running(connection, &owner, &id, run)?;
            let mut interrupt = connection
                .prepare_cached("UPDATE results SET run = ?2, at = ?3 WHERE number = ?1")?;
            interrupt.execute((row.number, CUT_OFF, at))?;
            Ok(())
        })
    }

    fn result(&self, now: Uptime, id: &str) -> Pending<Option<Vec<u8>>> {
        let cutoff = self.database.cutoff(now);
        self.database.read(|connection| {
            let mut find = connection.prepare_cached(
                "SELECT result FROM results
                 WHERE owner = ?1 AND id = ?2 AND run = 0 AND at > ?3",
            )?;
            let result = find.query_row((&*self.owner, id, cutoff), |row| row.get(0));
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

    /// One that is being done in this process.
    fn find_running(
        connection: &Connection,
        owner: &str,
        id: &str,
        run: i64,
    ) -> Result<Self, Error> {
        let row = Self::find(connection, owner, id)?;
        row.filter(|row| row.run == run)
            .ok_or(Error::NotFound { what: WHAT })
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
    cutoff: i64,
    run: i64,
    at_most: usize,
) -> Result<usize, Error> {
    // Owner by owner, so that the index finds the old ones.
    let mut sweep = connection.prepare_cached(
        "DELETE FROM results WHERE number IN (
            SELECT results.number FROM usage CROSS JOIN results ON results.owner = usage.owner
            WHERE usage.kind = 'results' AND results.at <= ?1 AND results.run <> ?2 LIMIT ?3)",
    )?;
    Ok(sweep.execute((cutoff, run, at_most))?)
}

/// In a copy that is opened for the first time: what was being done when it was made may have been
/// done since. Its time begins now.
pub(crate) fn take_over(connection: &Connection, now: i64) -> Result<usize, Error> {
    let mut interrupt =
        connection.prepare("UPDATE results SET run = ?1, at = ?2 WHERE run <> 0")?;
    Ok(interrupt.execute((CUT_OFF, now))?)
}
