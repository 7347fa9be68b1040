//! The openings of a database: how many there were, how long it was open, and whether it is a copy.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

use crate::{Error, Uptime, approvals, chains, results};

/// One opening of a database. What another one left running was cut off.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    pub(super) number: i64,
    /// For how many milliseconds earlier processes had it open, as far as that is known.
    before: i64,
    /// Until when a request that is new here may be one that was done after a backup was made.
    unknown_until: Option<i64>,
    /// What this opening has interrupted because the database is a backup.
    pub(super) restored: Option<Restored>,
}

/// What was interrupted and withdrawn when a backup was opened for the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restored {
    /// Requests that were being done, or had been cut off.
    pub requests: usize,
    /// Chains that had not ended.
    pub chains: usize,
    /// Calls that waited for the operator, or were approved and not done yet.
    pub approvals: usize,
}

/// How often the database was opened.
const RUN: &str = "run";
/// For how long it was open.
const UPTIME: &str = "uptime";
/// It is a copy, and was not opened yet.
const COPY: &str = "copy";
/// It was a copy: see [`Run::unknown_until`].
const UNKNOWN_UNTIL: &str = "unknown_until";

/// Marks a copy as one.
pub(super) fn mark_copy(connection: &Connection) -> Result<(), Error> {
    set(connection, COPY, 1)
}

impl Run {
    /// Counts an opening. What a copy has open is interrupted, and its mark removed, in one
    /// transaction. A request may be sent again for `kept` after it was done.
    pub(super) fn begin(connection: &mut Connection, kept: Duration) -> Result<Self, Error> {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let number = get(&transaction, RUN)?.unwrap_or_default() + 1;
        set(&transaction, RUN, number)?;
        let before = get(&transaction, UPTIME)?.unwrap_or_default();
        let mut restored = None;
        if get(&transaction, COPY)?.is_some() {
            restored = Some(Restored {
                requests: results::take_over(&transaction, before)?,
                chains: chains::take_over(&transaction, before)?,
                approvals: approvals::take_over(&transaction)?,
            });
            let until = before.saturating_add(Uptime::from(kept).0);
            set(&transaction, UNKNOWN_UNTIL, until)?;
            transaction.execute("DELETE FROM node WHERE name = ?1", [COPY])?;
        }
        let unknown_until = get(&transaction, UNKNOWN_UNTIL)?;
        transaction.commit()?;
        Ok(Self {
            number,
            before,
            unknown_until,
            restored,
        })
    }

    /// When something happens, by a clock that goes on from process to process and stands still in
    /// between.
    pub(super) const fn stamp(&self, now: Uptime) -> i64 {
        self.before.saturating_add(now.0)
    }

    /// How long a request that is new here may still be one that was done after a backup was made.
    pub(super) fn unknown_for(&self, now: Uptime) -> Option<Duration> {
        let left = self.unknown_until?.saturating_sub(self.stamp(now));
        let left = u64::try_from(left).ok().filter(|left| *left > 0);
        left.map(Duration::from_millis)
    }

    /// Keeps how long the database was open, and forgets that it was a copy when its time is over.
    pub(super) fn sweep(connection: &Connection, stamp: i64) -> Result<(), Error> {
        set(connection, UPTIME, stamp)?;
        let mut forget =
            connection.prepare_cached("DELETE FROM node WHERE name = ?1 AND value <= ?2")?;
        forget.execute((UNKNOWN_UNTIL, stamp))?;
        Ok(())
    }
}

fn get(connection: &Connection, name: &str) -> Result<Option<i64>, Error> {
    let mut get = connection.prepare_cached("SELECT value FROM node WHERE name = ?1")?;
    Ok(get.query_row([name], |row| row.get(0)).optional()?)
}

fn set(connection: &Connection, name: &str, value: i64) -> Result<(), Error> {
    let mut set = connection.prepare_cached(
        "INSERT INTO node (name, value) VALUES (?1, ?2)
         ON CONFLICT (name) DO UPDATE SET value = excluded.value",
    )?;
    set.execute((name, value))?;
    Ok(())
}
