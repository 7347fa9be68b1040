//! One place, as searches see it.

use std::collections::HashSet;

use super::super::find::Rows;
use super::super::matrix::Matrix;
use super::super::query::Pattern;
use super::super::search::{Place, PlaceSize};
use super::super::vectors::{Near, is_among, normalized};
use super::super::{Entry, Tier};
use super::Shelf;
use crate::{Error, UnixMillis};

/// A place at a time.
pub(super) struct Seen<'s> {
    pub(super) shelf: &'s Shelf,
    tier: Tier,
    expired: HashSet<i64>,
}

impl<'s> Seen<'s> {
    pub(super) fn new(shelf: &'s Shelf, tier: Tier, now: UnixMillis) -> Self {
        let expired = shelf
            .rows
            .iter()
            .filter(|(_, row)| row.entry.expires <= now);
        Self {
            expired: expired.map(|(number, _)| *number).collect(),
            shelf,
            tier,
        }
    }
}

impl Place for Seen<'_> {
    fn size(&self) -> PlaceSize {
        PlaceSize {
            entries: self.shelf.rows.len(),
            words: self.shelf.words,
            first: 0,
            last: self.shelf.last,
        }
    }

    fn latest(
        &self,
        pattern: Option<&Pattern>,
        tags: &[String],
        at_most: usize,
    ) -> Result<Vec<i64>, Error> {
        let rows = self.shelf.rows.iter().rev();
        let rows = rows.filter(|(_, row)| {
            let has_tag = tags.is_empty() || tags.iter().any(|tag| row.entry.tags.contains(tag));
            has_tag && pattern.is_none_or(|pattern| row.fits(pattern))
        });
        Ok(rows.take(at_most).map(|(number, _)| *number).collect())
    }

    fn words(&self, numbers: &[i64], mut show: impl FnMut(i64, &str)) -> Result<(), Error> {
        for number in numbers {
            if let Some(row) = self.shelf.rows.get(number) {
                show(*number, &row.words);
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
        let Some(vector) = normalized(&near.vector) else {
            return Ok(Vec::new());
        };
        let mut matrix = Matrix::default();
        for (number, row) in &self.shelf.rows {
            if let Some((model, Some(point))) = &row.vector
                && **model == *near.model
            {
                matrix.push(*number, point);
            }
        }
        let is_wanted = |number: i64| is_among(among, number) && !self.expired.contains(&number);
        Ok(matrix.nearest(&vector, at_most, is_wanted))
    }

    fn expired(&self) -> &HashSet<i64> {
        &self.expired
    }
}

impl Rows for Seen<'_> {
    fn tier(&self) -> Tier {
        self.tier
    }

    fn with_keys(&self, keys: &[String]) -> Result<Vec<i64>, Error> {
        let mut numbers: Vec<i64> = keys
            .iter()
            .filter_map(|key| self.shelf.keys.get(key).copied())
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        Ok(numbers)
    }

    fn head(&self, number: i64) -> Result<Option<(UnixMillis, usize)>, Error> {
        let row = self.shelf.rows.get(&number);
        Ok(row.map(|row| (row.entry.updated, row.bytes)))
    }

    fn entry(&self, number: i64) -> Result<Option<Entry>, Error> {
        Ok(self.shelf.rows.get(&number).map(|row| row.entry.clone()))
    }
}
