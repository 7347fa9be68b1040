//! One place, as searches see it.

use std::collections::HashSet;
use std::fmt::Write as _;

use rusqlite::{Connection, OptionalExtension};

use super::super::find::Rows;
use super::super::query::Pattern;
use super::super::search::{Place, PlaceSize};
use super::super::vectors::{Near, is_among, normalized};
use super::put::mark;
use super::{PlaceRow, VectorCache, columns, read};
use crate::memories::{Entry, Tier};
use crate::{Error, UnixMillis};

/// The entries of one tier of a space, at a time.
pub(super) struct InPlace<'c> {
    connection: &'c Connection,
    tier: Tier,
    row: PlaceRow,
    expired: HashSet<i64>,
    vectors: Option<&'c VectorCache>,
}

/// The latest that fit; public for the benchmark.
pub const LATEST_MATCHING: &str = "SELECT rowid FROM memory_index
     WHERE memory_index MATCH ?1 AND rowid BETWEEN ?2 AND ?3 ORDER BY rowid DESC LIMIT ?4";

const LATEST: &str =
    "SELECT number FROM memories WHERE number BETWEEN ?1 AND ?2 ORDER BY number DESC LIMIT ?3";

const ENTRY: &str = columns!("SELECT", "FROM memories m WHERE m.number = ?1");

const HEAD: &str = "SELECT updated, bytes FROM memories WHERE number = ?1";

impl<'c> InPlace<'c> {
    pub(super) fn new(
        connection: &'c Connection,
        tier: Tier,
        row: PlaceRow,
        expired: HashSet<i64>,
        vectors: Option<&'c VectorCache>,
    ) -> Self {
        Self {
            connection,
            tier,
            row,
            expired,
            vectors,
        }
    }
}

impl Place for InPlace<'_> {
    fn size(&self) -> PlaceSize {
        PlaceSize {
            entries: self.row.entries,
            words: self.row.words,
            first: self.row.base(),
            last: self.row.base() + self.row.last,
        }
    }

    fn latest(
        &self,
        pattern: Option<&Pattern>,
        tags: &[String],
        at_most: usize,
    ) -> Result<Vec<i64>, Error> {
        let (first, last) = (self.row.base(), self.row.end());
        let expression = expression(pattern, tags);
        if expression.is_empty() {
            let mut latest = self.connection.prepare_cached(LATEST)?;
            let numbers = latest.query_map((first, last, at_most), |row| row.get(0))?;
            return Ok(numbers.collect::<Result<_, _>>()?);
        }
        let mut latest = self.connection.prepare_cached(LATEST_MATCHING)?;
        let numbers = latest.query_map((expression, first, last, at_most), |row| row.get(0))?;
        Ok(numbers.collect::<Result<_, _>>()?)
    }

    fn words(&self, numbers: &[i64], mut show: impl FnMut(i64, &str)) -> Result<(), Error> {
        let sql = "SELECT words FROM memories WHERE number = ?1";
        let mut find = self.connection.prepare_cached(sql)?;
        for number in numbers {
            let mut rows = find.query([number])?;
            if let Some(row) = rows.next()? {
                // Read where SQLite has it.
                let words = row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?;
                show(*number, words);
            }
        }
        Ok(())
    }

    fn nearest(
        &self,
        near: &Near,
        among: Option<&HashSet<i64>>,
        at_most: usize,
    ) -> Result<Vec<(i64, f64)>, Error> {
        let (Some(vectors), Some(vector)) = (self.vectors, normalized(&near.vector)) else {
            return Ok(Vec::new());
        };
        let matrix = vectors.matrix(self.connection, self.row.id, near)?;
        let is_wanted = |number: i64| is_among(among, number) && !self.expired.contains(&number);
        // Some of them may be gone since their vectors were read.
        let mut nearest = matrix.nearest(&vector, at_most * 2, is_wanted);
        let mut there = Vec::with_capacity(at_most);
        let sql = "SELECT 1 FROM memories WHERE number = ?1";
        let mut find = self.connection.prepare_cached(sql)?;
        for (number, score) in nearest.drain(..) {
            if there.len() < at_most && find.exists([number])? {
                there.push((number, score));
            }
        }
        Ok(there)
    }

    fn expired(&self) -> &HashSet<i64> {
        &self.expired
    }
}

impl Rows for InPlace<'_> {
    fn tier(&self) -> Tier {
        self.tier
    }

    fn with_keys(&self, keys: &[String]) -> Result<Vec<i64>, Error> {
        let sql = "SELECT number FROM memories WHERE place = ?1 AND key = ?2";
        let mut find = self.connection.prepare_cached(sql)?;
        let mut numbers = Vec::with_capacity(keys.len());
        for key in keys {
            let number: Option<i64> = find
                .query_row((self.row.id, key), |row| row.get(0))
                .optional()?;
            numbers.extend(number);
        }
        numbers.sort_unstable();
        numbers.dedup();
        Ok(numbers)
    }

    fn head(&self, number: i64) -> Result<Option<(UnixMillis, usize)>, Error> {
        let mut find = self.connection.prepare_cached(HEAD)?;
        let head = find.query_row([number], |row| Ok((UnixMillis(row.get(0)?), row.get(1)?)));
        Ok(head.optional()?)
    }

    fn entry(&self, number: i64) -> Result<Option<Entry>, Error> {
        let mut find = self.connection.prepare_cached(ENTRY)?;
        let entry = find.query_row([number], |row| read(row, 0, self.tier));
        Ok(entry.optional()?)
    }
}

/// What is asked of the index. A word has nothing in it that means something to FTS5.
fn expression(pattern: Option<&Pattern>, tags: &[String]) -> String {
    let mut text = String::new();
    if !tags.is_empty() {
        let marks: Vec<String> = tags
            .iter()
            .map(|tag| format!("\"{}\"", mark(tag)))
            .collect();
        let _ = write!(text, "marks : ({})", marks.join(" OR "));
    }
    if let Some(pattern) = pattern {
        if !text.is_empty() {
            text.push_str(" AND ");
        }
        push(pattern, &mut text);
    }
    text
}

fn push(pattern: &Pattern, out: &mut String) {
    // Writing to a text does not fail.
    let _ = match pattern {
        Pattern::Word(word) => write!(out, "words : \"{word}\""),
        Pattern::Prefix(prefix) => write!(out, "words : \"{prefix}\" *"),
        Pattern::Grams(groups) => {
            let groups: Vec<String> = groups
                .iter()
                .map(|group| format!("(\"{}\")", group.join("\" AND \"")))
                .collect();
            write!(out, "grams : ({})", groups.join(" OR "))
        }
        Pattern::All(all) => {
            push_joined(all, " AND ", out);
            Ok(())
        }
        Pattern::Any(any) => {
            push_joined(any, " OR ", out);
            Ok(())
        }
    };
}

fn push_joined(patterns: &[Pattern], between: &str, out: &mut String) {
    out.push('(');
    for (at, pattern) in patterns.iter().enumerate() {
        if at > 0 {
            out.push_str(between);
        }
        push(pattern, out);
    }
    out.push(')');
}
