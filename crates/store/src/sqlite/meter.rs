//! How much each owner has, and making room for more.

use rusqlite::{Connection, OptionalExtension};

use super::check::TableUse;
use crate::limits::Size;
use crate::scope::Swept;
use crate::{Error, Limit, UnixMillis};
use crate::{
    approvals, chains, learning, memories, pins, plans, rate_buckets, replay_ids, results, secrets,
    snapshots,
};

/// A table whose rows count for their owner: it has the columns `owner`, `bytes` and, unless its
/// rows stay for good, `expires`. [`metered!`] makes it, and the triggers that count.
#[derive(Debug)]
pub(crate) struct Metered {
    pub(crate) table: &'static str,
    /// One of its rows, for people.
    pub(crate) what: &'static str,
    /// What each owner really has, for the check.
    pub(crate) count: &'static str,
    pub(crate) expiring: Option<Expiring>,
}

/// The statements for rows that expire.
#[derive(Debug)]
pub(crate) struct Expiring {
    /// What of an owner's has not expired.
    pub(crate) live: &'static str,
    /// Removes what of an owner's has.
    pub(crate) purge: &'static str,
    /// Removes what of anybody's has, up to a number.
    pub(crate) sweep: &'static str,
}

/// `metered!(triggers "table")` is the SQL of the triggers; `metered!("table", "what")` the
/// [`Metered`]; with `"key, columns"` one whose rows expire.
macro_rules! metered {
    (triggers $table:literal) => {
        concat!(
            "CREATE TRIGGER ",
            $table,
            "_added AFTER INSERT ON ",
            $table,
            " BEGIN ",
            "INSERT INTO usage (kind, owner, entries, bytes) ",
            "VALUES ('",
            $table,
            "', new.owner, 1, new.bytes) ON CONFLICT (kind, owner) ",
            "DO UPDATE SET entries = entries + 1, bytes = bytes + excluded.bytes; END;",
            "CREATE TRIGGER ",
            $table,
            "_changed AFTER UPDATE OF bytes ON ",
            $table,
            " BEGIN ",
            "UPDATE usage SET bytes = bytes + new.bytes - old.bytes ",
            "WHERE kind = '",
            $table,
            "' AND owner = old.owner; END;",
            "CREATE TRIGGER ",
            $table,
            "_removed AFTER DELETE ON ",
            $table,
            " BEGIN ",
            "UPDATE usage SET entries = entries - 1, bytes = bytes - old.bytes ",
            "WHERE kind = '",
            $table,
            "' AND owner = old.owner; END;",
        )
    };
    ($table:literal, $what:literal) => {
        $crate::sqlite::Metered {
            table: $table,
            what: $what,
            count: concat!(
                "SELECT owner, count(*), coalesce(sum(bytes), 0) FROM ",
                $table,
                " GROUP BY owner"
            ),
            expiring: None,
        }
    };
    ($table:literal, $what:literal, $key:literal) => {
        $crate::sqlite::Metered {
            expiring: Some($crate::sqlite::Expiring {
                live: concat!(
                    "SELECT count(*), coalesce(sum(bytes), 0) FROM ",
                    $table,
                    " WHERE owner = ?1 AND expires > ?2"
                ),
                purge: concat!(
                    "DELETE FROM ",
                    $table,
                    " WHERE owner = ?1 AND expires <= ?2"
                ),
                sweep: concat!(
                    "DELETE FROM ",
                    $table,
                    " WHERE (",
                    $key,
                    ") IN (SELECT ",
                    $key,
                    " FROM ",
                    $table,
                    " WHERE expires <= ?1 LIMIT ?2)"
                ),
            }),
            ..$crate::sqlite::metered!($table, $what)
        }
    };
}
pub(crate) use metered;

/// What an owner has of a kind; public for the benchmark.
pub const USAGE: &str = "SELECT entries, bytes FROM usage WHERE kind = ?1 AND owner = ?2";

/// How many rows of a table one sweep removes: about ten milliseconds of the writer's time.
pub(super) const SWEEP: usize = 2_000;

const TABLES: [&Metered; 16] = [
    &results::TABLE,
    &snapshots::TABLE,
    &replay_ids::TABLE,
    &rate_buckets::TABLE,
    &approvals::TABLE,
    &pins::TABLE,
    &secrets::TABLE,
    &memories::TABLE,
    &plans::PLANS,
    &plans::TASKS,
    &plans::CHANGES,
    &learning::SAMPLES,
    &learning::COMPONENTS,
    &learning::LEARNED,
    &learning::REFINEMENTS,
    &chains::TABLE,
];

impl Metered {
    /// What an owner has.
    pub(crate) fn usage(&self, connection: &Connection, owner: &str) -> Result<Size, Error> {
        let mut statement = connection.prepare_cached(USAGE)?;
        let usage = statement.query_row((self.table, owner), |row| {
            Ok(Size {
                entries: row.get(0)?,
                bytes: row.get(1)?,
            })
        });
        Ok(usage.optional()?.unwrap_or_default())
    }

    /// Makes room for `more` in place of `less` (of what has not expired), by removing what has
    /// expired. Refuses before it changes anything.
    pub(crate) fn make_room(
        &self,
        connection: &Connection,
        (owner, now): (&str, UnixMillis),
        limit: Limit,
        less: Size,
        more: Size,
    ) -> Result<(), Error> {
        let fits = |used: Size| limit.holds(used.minus(less).plus(more));
        if fits(self.usage(connection, owner)?) {
            return Ok(());
        }
        let full = Err(Error::Full { what: self.what });
        let Some(expiring) = &self.expiring else {
            return full;
        };
        let mut live = connection.prepare_cached(expiring.live)?;
        let live = live.query_row((owner, now.0), |row| {
            Ok(Size {
                entries: row.get(0)?,
                bytes: row.get(1)?,
            })
        })?;
        if !fits(live) {
            return full;
        }
        let mut purge = connection.prepare_cached(expiring.purge)?;
        purge.execute((owner, now.0))?;
        Ok(())
    }
}

/// Removes what has expired, some of each kind. What a request sent again would find goes by
/// `cutoff`, which no clock that is set moves.
pub(super) fn sweep(
    connection: &Connection,
    now: UnixMillis,
    run: i64,
    cutoff: i64,
) -> Result<Swept, Error> {
    let results = results::sweep(connection, cutoff, run, SWEEP)?;
    let chains = chains::sweep(connection, now, cutoff, SWEEP)?;
    let mut swept = Swept {
        removed: results + chains,
        has_more: results == SWEEP || chains == SWEEP,
        is_erased: false,
    };
    for expiring in TABLES.iter().filter_map(|table| table.expiring.as_ref()) {
        let mut sweep = connection.prepare_cached(expiring.sweep)?;
        let removed = sweep.execute((now.0, SWEEP))?;
        swept.removed += removed;
        swept.has_more |= removed == SWEEP;
    }
    // Names of agents that have nothing any more; agents are free for who makes them up.
    let mut forget = connection.prepare_cached("DELETE FROM usage WHERE entries = 0")?;
    forget.execute([])?;
    let mut forget = connection.prepare_cached(memories::SWEEP_PLACES)?;
    forget.execute([])?;
    Ok(swept)
}

/// How much is in each table, and whether what is counted for the owners is what they have.
pub(super) fn tables(connection: &Connection) -> Result<(Vec<TableUse>, Vec<String>), Error> {
    let (mut uses, mut wrong) = (Vec::new(), Vec::new());
    for table in TABLES {
        let exists = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?1";
        let exists: i64 = connection.query_row(exists, [table.table], |row| row.get(0))?;
        if exists == 0 {
            // One of an older version, which the next start makes.
            continue;
        }
        let mut all = Size::default();
        let mut owners = 0;
        let mut statement = connection.prepare(table.count)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let owner: String = row.get(0)?;
            let has = Size {
                entries: row.get(1)?,
                bytes: row.get(2)?,
            };
            let counted = table.usage(connection, &owner)?;
            if counted != has {
                wrong.push(format!(
                    "{} of `{}`: {} entries of {} bytes are counted as {} of {}",
                    table.table,
                    owner.escape_debug(),
                    has.entries,
                    has.bytes,
                    counted.entries,
                    counted.bytes,
                ));
            }
            all = all.plus(has);
            owners += 1;
        }
        uses.push(TableUse {
            table: table.table,
            owners,
            entries: all.entries,
            bytes: all.bytes,
        });
    }
    Ok((uses, wrong))
}
