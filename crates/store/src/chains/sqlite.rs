//! Chains, in SQLite.

use std::ops::ControlFlow;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row};

use super::{Chain, ChainHead, ChainState, ChainView, Chains, MAX_OPEN, WHAT, agent, check, room};
use crate::limits::Size;
use crate::scope::Owner;
use crate::sqlite::{Database, Metered, metered};
use crate::{AgentId, Error, Limit, Moment, Pending, UnixMillis, Uptime};

/// A journal is its entries in order, so that adding to it does not write it again. `noted` is how
/// many bytes of `bytes` it has. What is open or interrupted never expires.
pub(crate) const SCHEMA: &str = concat!(
    "CREATE TABLE chains (
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
        request BLOB NOT NULL,
        outcome BLOB
    ) STRICT;
    CREATE INDEX chains_by_owner ON chains (owner, number);
    CREATE INDEX chains_open ON chains (number) WHERE state = 0;
    CREATE TABLE chain_entries (
        chain INTEGER NOT NULL REFERENCES chains ON DELETE CASCADE,
        entry INTEGER NOT NULL,
        body BLOB NOT NULL,
        PRIMARY KEY (chain, entry)
    ) STRICT, WITHOUT ROWID;",
    metered!(triggers "chains")
);

/// What was asked for becomes the entry [`REQUEST`]: a row is written whole whenever any of it
/// changes, and that of a chain changes with each node.
pub(crate) const REQUESTS: &str = "
    INSERT INTO chain_entries (chain, entry, body) SELECT number, -1, request FROM chains;
    ALTER TABLE chains DROP COLUMN request;";

/// `run` is the opening of the database in which a chain was begun; `ended_at` is when it ended, by
/// [`Database::stamp`]. What was there before counts as ended with the last opening.
pub(crate) const RUNS: &str = "
    ALTER TABLE chains ADD COLUMN run INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE chains ADD COLUMN ended_at INTEGER;
    UPDATE chains SET ended_at = 0 WHERE state <> 0;
    UPDATE results SET at = 0;";

pub(crate) const TABLE: Metered = metered!("chains", "chain");

/// Where the request is among the entries: before those of the journal.
const REQUEST: i64 = -1;

/// What of a chain is in a list.
macro_rules! head {
    () => {
        "number, name, state, begun, ended, resumed"
    };
}

#[derive(Debug)]
pub(crate) struct InSqlite {
    database: Arc<Database>,
    owner: Arc<str>,
}

/// What a change looks at.
struct Open {
    entries: i64,
    noted: usize,
    bytes: usize,
}

impl InSqlite {
    pub(crate) fn new(database: &Arc<Database>, owner: &Owner) -> Self {
        Self {
            database: Arc::clone(database),
            owner: owner.shared(),
        }
    }
}

/// The open chains of all agents, the oldest first.
pub(crate) fn open_chains(database: &Database) -> Pending<Vec<(AgentId, i64)>> {
    database.read(|connection| {
        let mut list = connection.prepare_cached(
            "SELECT owner, number FROM chains WHERE state = 0 ORDER BY number LIMIT ?1",
        )?;
        let mut rows = list.query([MAX_OPEN])?;
        let mut open = Vec::new();
        while let Some(row) = rows.next()? {
            let owner: String = row.get(0)?;
            if let Some(agent) = agent(&owner) {
                open.push((agent, row.get(1)?));
            }
        }
        Ok(open)
    })
}

impl Chains for InSqlite {
    fn begin(&self, now: Moment, name: &str, request: Vec<u8>) -> Pending<i64> {
        let (owner, limit) = (Arc::clone(&self.owner), self.database.limits().chains);
        let (name, size) = (name.to_owned(), name.len() + request.len());
        let run = self.database.run();
        if let Some(wait) = self.database.unknown_for(now.uptime) {
            return Pending::ready(Err(Error::Restored { wait }));
        }
        self.database.write_here(size, move |connection| {
            check(limit, &name, &request)?;
            make_room(connection, &owner, limit, Size::one(size))?;
            let mut insert = connection.prepare_cached(
                "INSERT INTO chains (owner, name, state, begun, resumed, entries, noted, expires,
                 bytes, run) VALUES (?1, ?2, 0, ?3, 0, 0, 0, ?4, ?5, ?6)",
            )?;
            insert.execute((&*owner, &name, now.unix.0, i64::MAX, size, run))?;
            let number = connection.last_insert_rowid();
            add_entry(connection, number, REQUEST, &request)?;
            Ok(number)
        })
    }

    fn resume(&self, number: i64) -> Pending<u32> {
        let owner = Arc::clone(&self.owner);
        self.database.write_here(0, move |connection| {
            let mut count = connection.prepare_cached(
                "UPDATE chains SET resumed = resumed + 1
                 WHERE owner = ?1 AND number = ?2 AND state = 0 RETURNING resumed",
            )?;
            let resumed = count.query_row((&*owner, number), |row| row.get(0));
            resumed.optional()?.ok_or(Error::NotFound { what: WHAT })
        })
    }

    fn note(&self, number: i64, entry: Vec<u8>) -> Pending<()> {
        let (owner, limit) = (Arc::clone(&self.owner), self.database.limits().chains);
        self.database.write_here(entry.len(), move |connection| {
            limit.take(WHAT, entry.len())?;
            let open = find_open(connection, &owner, number)?;
            let bytes = entry.len();
            make_room(connection, &owner, limit, Size { entries: 0, bytes })?;
            let mut grow = connection.prepare_cached(
                "UPDATE chains SET entries = entries + 1, noted = noted + ?2, bytes = bytes + ?2
                 WHERE number = ?1",
            )?;
            grow.execute((number, bytes))?;
            add_entry(connection, number, open.entries, &entry)
        })
    }

    fn end(&self, now: Moment, number: i64, state: ChainState, outcome: Vec<u8>) -> Pending<()> {
        let (owner, limits) = (Arc::clone(&self.owner), *self.database.limits());
        let at = self.database.stamp(now.uptime);
        // A long journal goes with it.
        self.database.write(outcome.len(), move |connection| {
            limits.chains.take(WHAT, outcome.len())?;
            let open = find_open(connection, &owner, number)?;
            let more = Size {
                entries: 0,
                bytes: outcome.len().saturating_sub(open.noted),
            };
            make_room(connection, &owner, limits.chains, more)?;
            let mut end = connection.prepare_cached(
                "UPDATE chains SET state = ?2, ended = ?3, expires = ?4, bytes = ?5, outcome = ?6,
                 entries = 0, noted = 0, ended_at = ?7 WHERE number = ?1",
            )?;
            let bytes = open.bytes - open.noted + outcome.len();
            let ended = (now.unix.0, now.unix.plus(limits.chains_kept).0);
            let state = state.number();
            end.execute((number, state, ended.0, ended.1, bytes, &outcome, at))?;
            let mut clear = connection
                .prepare_cached("DELETE FROM chain_entries WHERE chain = ?1 AND entry > ?2")?;
            clear.execute([number, REQUEST])?;
            Ok(())
        })
    }

    fn list(&self, now: UnixMillis, at_most: usize) -> Pending<Vec<ChainHead>> {
        self.database.read(|connection| {
            let mut list = connection.prepare_cached(concat!(
                "SELECT ",
                head!(),
                " FROM chains WHERE owner = ?1 AND expires > ?2 ORDER BY number DESC LIMIT ?3"
            ))?;
            let heads = list.query_map((&*self.owner, now.0, at_most), head)?;
            Ok(heads.collect::<Result<_, _>>()?)
        })
    }

    fn head(&self, now: UnixMillis, number: i64) -> Pending<Option<ChainHead>> {
        self.database.read(|connection| {
            let mut find = connection.prepare_cached(concat!(
                "SELECT ",
                head!(),
                " FROM chains WHERE owner = ?1 AND number = ?2 AND expires > ?3"
            ))?;
            let found = find.query_row((&*self.owner, number, now.0), head);
            Ok(found.optional()?)
        })
    }

    fn show(
        &self,
        now: UnixMillis,
        number: i64,
        show: &mut dyn FnMut(ChainView<'_>),
    ) -> Pending<bool> {
        self.database.read(|connection| {
            let mut find = connection.prepare_cached(concat!(
                "SELECT ",
                head!(),
                ", body, outcome FROM chains
                 JOIN chain_entries ON chain = number AND entry = ?4
                 WHERE owner = ?1 AND number = ?2 AND expires > ?3"
            ))?;
            let shown = find.query_row((&*self.owner, number, now.0, REQUEST), |row| {
                show(ChainView {
                    head: head(row)?,
                    request: row.get_ref(6)?.as_blob()?,
                    outcome: row.get_ref(7)?.as_blob_or_null()?,
                });
                Ok(())
            });
            Ok(shown.optional()?.is_some())
        })
    }

    fn earlier(&self, now: Uptime) -> Pending<Vec<i64>> {
        let (run, cutoff) = (self.database.run(), self.database.cutoff(now));
        self.database.read(|connection| {
            let mut list = connection.prepare_cached(
                "SELECT number FROM chains
                 WHERE owner = ?1 AND run <> ?2 AND (state = 0 OR ended_at > ?3)
                 ORDER BY number DESC",
            )?;
            let numbers = list.query_map((&*self.owner, run, cutoff), |row| row.get(0))?;
            Ok(numbers.collect::<Result<_, _>>()?)
        })
    }

    fn recall(&self, now: Uptime, number: i64) -> Pending<Option<Chain>> {
        let cutoff = self.database.cutoff(now);
        self.database.read(|connection| {
            let mut find = connection.prepare_cached(concat!(
                "SELECT ",
                head!(),
                ", body, outcome FROM chains
                 JOIN chain_entries ON chain = number AND entry = ?4
                 WHERE owner = ?1 AND number = ?2 AND (state = 0 OR ended_at > ?3)"
            ))?;
            let chain = find.query_row((&*self.owner, number, cutoff, REQUEST), chain);
            Ok(chain.optional()?)
        })
    }

    fn journal(&self, number: i64, show: &mut dyn FnMut(&[u8]) -> ControlFlow<()>) -> Pending<()> {
        self.database.read(|connection| {
            let mut list = connection.prepare_cached(
                "SELECT body FROM chains JOIN chain_entries ON chain = number
                 WHERE owner = ?1 AND number = ?2 AND entry > ?3 ORDER BY entry",
            )?;
            let mut rows = list.query((&*self.owner, number, REQUEST))?;
            while let Some(row) = rows.next()? {
                let entry = row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?;
                if show(entry).is_break() {
                    break;
                }
            }
            Ok(())
        })
    }
}

fn head(row: &Row<'_>) -> rusqlite::Result<ChainHead> {
    Ok(ChainHead {
        number: row.get(0)?,
        name: row.get(1)?,
        state: ChainState::from_number(row.get(2)?),
        begun: UnixMillis(row.get(3)?),
        ended: row.get::<_, Option<i64>>(4)?.map(UnixMillis),
        resumed: row.get(5)?,
    })
}

fn chain(row: &Row<'_>) -> rusqlite::Result<Chain> {
    Ok(Chain {
        head: head(row)?,
        request: row.get(6)?,
        outcome: row.get(7)?,
    })
}

fn add_entry(connection: &Connection, chain: i64, entry: i64, body: &[u8]) -> Result<(), Error> {
    let mut add = connection
        .prepare_cached("INSERT INTO chain_entries (chain, entry, body) VALUES (?1, ?2, ?3)")?;
    add.execute((chain, entry, body))?;
    Ok(())
}

fn find_open(connection: &Connection, owner: &str, number: i64) -> Result<Open, Error> {
    let mut find = connection.prepare_cached(
        "SELECT entries, noted, bytes FROM chains
         WHERE number = ?1 AND owner = ?2 AND state = 0",
    )?;
    let open = find.query_row((number, owner), |row| {
        Ok(Open {
            entries: row.get(0)?,
            noted: row.get(1)?,
            bytes: row.get(2)?,
        })
    });
    open.optional()?.ok_or(Error::NotFound { what: WHAT })
}

/// Refuses, or lets the oldest go that have ended.
fn make_room(connection: &Connection, owner: &str, limit: Limit, more: Size) -> Result<(), Error> {
    let used = TABLE.usage(connection, owner)?;
    if limit.holds(used.plus(more)) {
        return Ok(());
    }
    let mut ended = connection.prepare_cached(
        "SELECT number, bytes FROM chains WHERE owner = ?1 AND state <> 0 ORDER BY number",
    )?;
    let ended = ended.query_map([owner], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let last = room(limit, used, more, ended.map(|row| Ok(row?)))?;
    let mut remove = connection
        .prepare_cached("DELETE FROM chains WHERE owner = ?1 AND state <> 0 AND number <= ?2")?;
    remove.execute((owner, last))?;
    Ok(())
}

/// Removes what has expired and whose request is sent again no more; returns how much that was.
pub(crate) fn sweep(
    connection: &Connection,
    now: UnixMillis,
    cutoff: i64,
    at_most: usize,
) -> Result<usize, Error> {
    let mut sweep = connection.prepare_cached(
        "DELETE FROM chains WHERE number IN (
            SELECT number FROM chains
            WHERE state <> 0 AND expires <= ?1 AND ended_at <= ?2 LIMIT ?3)",
    )?;
    Ok(sweep.execute((now.0, cutoff, at_most))?)
}

/// In a copy that is opened for the first time: what was open when it was made may have gone on
/// since, so it is not resumed here. Returns how many there were.
pub(crate) fn take_over(connection: &Connection, now: i64) -> Result<usize, Error> {
    let mut interrupt =
        connection.prepare("UPDATE chains SET state = ?1, ended_at = ?2 WHERE state = 0")?;
    Ok(interrupt.execute((ChainState::Interrupted.number(), now))?)
}
