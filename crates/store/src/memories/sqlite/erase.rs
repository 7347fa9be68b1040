//! Erasing what was forgotten from the index.
//!
//! FTS5 notes a removal beside what it removes and drops both when it merges them. Its `secure-delete`
//! removes at once instead, but rewrites a page for each word of an entry, in each segment: milliseconds
//! an entry. To merge the whole index into one segment costs as much as about a hundred such removals,
//! for any number of entries, and is done piece by piece while others write.

use std::sync::atomic::{AtomicI64, Ordering};

use rusqlite::Connection;

use crate::{Error, UnixMillis};

/// Counts removed entries: all, those when the running merge began, and those that the last finished
/// merge has erased.
pub(crate) const SCHEMA: &str = "
    CREATE TABLE memory_erasure (
        removed INTEGER NOT NULL,
        erasing INTEGER,
        erased INTEGER NOT NULL
    ) STRICT;
    INSERT INTO memory_erasure (removed, erasing, erased) VALUES (0, NULL, 0);
    DROP TRIGGER memories_unindexed;
    CREATE TRIGGER memories_unindexed AFTER DELETE ON memories BEGIN
        INSERT INTO memory_index (memory_index, rowid, words, grams, marks)
        VALUES ('delete', old.number, old.words, old.grams, old.marks);
        DELETE FROM memory_vectors WHERE number = old.number;
        UPDATE memory_places SET entries = entries - 1, bytes = bytes - old.bytes,
            words = words - old.length
        WHERE id = old.place;
        UPDATE memory_erasure SET removed = removed + 1;
    END;
    INSERT INTO memory_index (memory_index, rank) VALUES ('secure-delete', 0);";

/// Pages of the index that are merged at a time: about ten milliseconds of the writer's time.
const PAGES: i64 = 64;

/// Pages of the index that are merged in a minute at most, on the average: 32 MiB.
const PAGES_PER_MINUTE: i64 = 8192;

const MINUTE: i64 = 60_000;

/// How far the erasure of forgotten entries has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EraseProgress {
    /// Nothing of it is in the index.
    Complete,
    /// The merge goes on with the next call.
    Unfinished,
    /// A merge begins with a later call.
    Postponed,
}

/// The time at which the last merge was finished.
#[derive(Debug)]
pub(crate) struct LastErasure(AtomicI64);

impl Default for LastErasure {
    fn default() -> Self {
        Self(AtomicI64::new(i64::MIN))
    }
}

/// Erases a part of the forgotten entries from the index.
pub(crate) fn erase(
    connection: &Connection,
    now: UnixMillis,
    last: &LastErasure,
) -> Result<EraseProgress, Error> {
    let sql = "SELECT removed, erasing, erased FROM memory_erasure";
    let (removed, erasing, erased): (i64, Option<i64>, i64) = connection
        .prepare_cached(sql)?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    if erasing.is_none() {
        if removed == erased {
            return Ok(EraseProgress::Complete);
        }
        if is_too_early(connection, now, last)? {
            return Ok(EraseProgress::Postponed);
        }
        let begin = "UPDATE memory_erasure SET erasing = removed";
        connection.prepare_cached(begin)?.execute([])?;
        // A negative number has FTS5 merge all segments.
        merge(connection, -PAGES)?;
    }
    if merge(connection, PAGES)? {
        return Ok(EraseProgress::Unfinished);
    }
    let end = "UPDATE memory_erasure SET erased = erasing, erasing = NULL";
    connection.prepare_cached(end)?.execute([])?;
    last.0.store(now.0, Ordering::Relaxed);
    Ok(match erasing.is_none_or(|erasing| erasing == removed) {
        true => EraseProgress::Complete,
        false => EraseProgress::Postponed,
    })
}

/// Merges some pages; returns whether there were any to merge.
fn merge(connection: &Connection, pages: i64) -> Result<bool, Error> {
    let before = connection.total_changes();
    let sql = "INSERT INTO memory_index (memory_index, rank) VALUES ('merge', ?1)";
    connection.prepare_cached(sql)?.execute([pages])?;
    // The statement itself counts as one change.
    Ok(connection.total_changes().saturating_sub(before) > 1)
}

/// Whether a merge now would have more pages merged than there may be.
fn is_too_early(
    connection: &Connection,
    now: UnixMillis,
    last: &LastErasure,
) -> Result<bool, Error> {
    let since = now.0.saturating_sub(last.0.load(Ordering::Relaxed));
    let sql = "SELECT count(*) FROM memory_index_idx";
    let pages: i64 = connection
        .prepare_cached(sql)?
        .query_row([], |row| row.get(0))?;
    // A clock that was set back says nothing.
    Ok((0..pages / PAGES_PER_MINUTE * MINUTE).contains(&since))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_index_is_merged_less_often() {
        let connection = Connection::open_in_memory().unwrap();
        connection
            .execute_batch("CREATE TABLE memory_index_idx (x)")
            .unwrap();
        let add = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
             INSERT INTO memory_index_idx SELECT i FROM n";
        let last = LastErasure::default();
        let is_too_early = |millis: i64| is_too_early(&connection, UnixMillis(millis), &last);
        connection.execute(add, [PAGES_PER_MINUTE - 1]).unwrap();
        last.0.store(MINUTE, Ordering::Relaxed);
        assert_eq!(is_too_early(MINUTE), Ok(false));
        connection.execute(add, [PAGES_PER_MINUTE + 1]).unwrap();
        assert_eq!(is_too_early(3 * MINUTE - 1), Ok(true));
        assert_eq!(is_too_early(3 * MINUTE), Ok(false));
        assert_eq!(is_too_early(MINUTE - 1), Ok(false));
        last.0.store(i64::MIN, Ordering::Relaxed);
        assert_eq!(is_too_early(MINUTE), Ok(false));
    }
}
