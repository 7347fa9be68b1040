//! Entries as points: what is near means something similar.

use std::collections::HashSet;
use std::fmt;

use crate::{Pending, UnixMillis};

/// The vectors of all entries, for who makes them: of all agents. No agent's code may have it.
pub trait Vectors: fmt::Debug + Send + Sync {
    /// Some entries that have no vector of this model yet.
    fn missing(&self, now: UnixMillis, at_most: usize) -> Pending<Vec<Unread>>;

    /// Keeps vectors, of entries that are still there.
    fn put(&self, vectors: Vec<(EntryNumber, Vec<f32>)>) -> Pending<()>;

    /// Drops some vectors of other models; returns how many, so none when there are no more.
    fn retire(&self) -> Pending<usize>;
}

/// Names an entry among all, for as long as it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EntryNumber(pub(super) i64);

/// An entry that has no vector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unread {
    /// Which it is.
    pub number: EntryNumber,
    /// Its key.
    pub key: String,
    /// What is remembered.
    pub content: String,
    /// Its labels.
    pub tags: Vec<String>,
}

/// What is meant by a query, as a model reads it.
#[derive(Debug, Clone, PartialEq)]
pub struct Near {
    /// The model.
    pub model: String,
    /// The query as a point.
    pub vector: Vec<f32>,
}

/// Numbers of a vector.
pub(super) const MAX_WIDTH: usize = 8192;

/// A vector of length 1, or none if it has no direction.
pub(super) fn normalized(vector: &[f32]) -> Option<Vec<f32>> {
    let length = vector
        .iter()
        .map(|value| f64::from(*value).powi(2))
        .sum::<f64>()
        .sqrt();
    let is_one = length.is_finite() && length > 0.0 && vector.len() <= MAX_WIDTH;
    is_one.then(|| {
        vector
            .iter()
            .map(|value| (f64::from(*value) / length) as f32)
            .collect()
    })
}

pub(super) fn to_bytes(vector: &[f32]) -> Vec<u8> {
    vector
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect()
}

pub(super) fn from_bytes(bytes: &[u8]) -> Vec<f32> {
    let (values, _) = bytes.as_chunks::<4>();
    values
        .iter()
        .map(|value| f32::from_le_bytes(*value))
        .collect()
}

/// How much further down a list counts less: the usual constant.
const RANK: f64 = 60.0;

/// Two lists as one, by reciprocal rank; each list has a score from 0 to 1, and the better one counts.
/// Gives number, score and sum.
pub(super) fn fuse(text: &[(i64, f64)], near: &[(i64, f64)]) -> Vec<(i64, f64, f64)> {
    let mut fused: std::collections::HashMap<i64, (f64, f64)> = std::collections::HashMap::new();
    for list in [text, near] {
        for (rank, (number, score)) in (1_u32..).zip(list) {
            let (sum, best) = fused.entry(*number).or_default();
            *sum += 1.0 / (RANK + f64::from(rank));
            *best = best.max(*score);
        }
    }
    let mut fused: Vec<(i64, (f64, f64))> = fused.into_iter().collect();
    fused.sort_by(|(one, (sum, _)), (other, (other_sum, _))| {
        other_sum.total_cmp(sum).then(other.cmp(one))
    });
    let fused = fused.into_iter();
    fused
        .map(|(number, (sum, score))| (number, score, sum))
        .collect()
}

/// Which entries count: these, or all.
pub(super) fn is_among(these: Option<&HashSet<i64>>, number: i64) -> bool {
    these.is_none_or(|these| these.contains(&number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_bytes_and_back() {
        let vector = vec![0.25_f32, -1.0, 3.5];
        assert_eq!(from_bytes(&to_bytes(&vector)), vector);
        assert_eq!(normalized(&[0.0, 0.0]), None);
        assert_eq!(normalized(&[f32::NAN]), None);
        let widest = vec![1.0; MAX_WIDTH];
        assert!(normalized(&widest).is_some());
        assert_eq!(normalized(&[widest, vec![1.0]].concat()), None);
    }

    #[test]
    fn what_is_high_in_both_lists_is_first() {
        let fused = fuse(&[(1, 0.9), (2, 0.8)], &[(2, 0.7), (3, 0.6)]);
        let fused: Vec<_> = fused
            .into_iter()
            .map(|(number, score, _)| (number, score))
            .collect();
        assert_eq!(fused, [(2, 0.8), (1, 0.9), (3, 0.6)]);
    }
}
