//! Quantiles of many numbers in little room: a t-digest.
//!
//! Numbers are gathered in clusters, which are small near both ends of the distribution. Up to about
//! fifty numbers each is a cluster of its own, and quantiles are exact.

use serde::{Deserialize, Serialize};

/// How finely: about so many clusters are kept.
const COMPRESSION: f64 = 100.0;

/// Numbers that wait to be sorted in; to do that for each alone would be slow.
const BUFFER: usize = 128;

/// The quantiles of numbers.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Digest {
    /// By their means: mean and count.
    clusters: Vec<(f64, f64)>,
    /// Not yet sorted in.
    #[serde(default)]
    buffer: Vec<f64>,
}

impl Digest {
    /// Adds a number.
    pub(super) fn add(&mut self, number: f64) {
        if !number.is_finite() {
            return;
        }
        self.buffer.push(number);
        if self.buffer.len() >= BUFFER {
            self.compress();
        }
    }

    /// The number below which that share of all is; none of none.
    pub(super) fn quantile(&self, share: f64) -> Option<f64> {
        let mut digest = self.clone();
        digest.compress();
        let clusters = &digest.clusters;
        let (first, last) = (clusters.first()?, clusters.last()?);
        let total: f64 = clusters.iter().map(|(_, count)| count).sum();
        let wanted = share.clamp(0.0, 1.0) * total;
        // A cluster stands for its middle; between two middles the numbers lie evenly.
        let mut before = (first.0, 0.0);
        let mut seen = 0.0;
        for (mean, count) in clusters {
            let middle = (*mean, seen + count / 2.0);
            if wanted <= middle.1 {
                return Some(between(before, middle, wanted));
            }
            before = middle;
            seen += count;
        }
        Some(last.0)
    }

    /// Sorts in what waits, and merges clusters that may be one.
    pub(super) fn compress(&mut self) {
        if self.buffer.is_empty() {
            return;
        }
        let mut all = std::mem::take(&mut self.clusters);
        all.extend(self.buffer.drain(..).map(|number| (number, 1.0)));
        all.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        let total: f64 = all.iter().map(|(_, count)| count).sum();
        let mut merged: Vec<(f64, f64)> = Vec::new();
        let mut before = 0.0;
        for (mean, count) in all {
            if let Some((into, size)) = merged.last_mut() {
                let (from, to) = (before / total, (before + *size + count) / total);
                if scale(to) - scale(from) <= 1.0 {
                    *size += count;
                    *into += (mean - *into) * count / *size;
                    continue;
                }
                before += *size;
            }
            merged.push((mean, count));
        }
        self.clusters = merged;
    }
}

/// How many clusters there may be below a share.
fn scale(share: f64) -> f64 {
    let angle = (2.0 * share.clamp(0.0, 1.0) - 1.0).asin();
    COMPRESSION * angle / std::f64::consts::TAU
}

fn between(from: (f64, f64), to: (f64, f64), wanted: f64) -> f64 {
    let width = to.1 - from.1;
    match width > 0.0 {
        true => from.0 + (to.0 - from.0) * ((wanted - from.1) / width).clamp(0.0, 1.0),
        false => to.0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn digest(numbers: &[f64]) -> Digest {
        let mut digest = Digest::default();
        numbers.iter().for_each(|number| digest.add(*number));
        digest
    }

    #[test]
    fn few_numbers_are_exact() {
        assert_eq!(Digest::default().quantile(0.95), None);
        assert_eq!(digest(&[7.0]).quantile(0.95), Some(7.0));
        let numbers: Vec<f64> = (1..=20).map(f64::from).collect();
        assert_eq!(digest(&numbers).quantile(0.5), Some(10.5));
        assert_eq!(digest(&numbers).quantile(0.975), Some(20.0));
        assert_eq!(digest(&[f64::NAN, f64::INFINITY]).quantile(0.5), None);
    }

    #[test]
    fn it_stays_small() {
        let mut digest = Digest::default();
        let mut number = 1_u64;
        for _ in 0..100_000 {
            number = number
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            digest.add(f64::from(u32::try_from(number >> 40).unwrap()));
        }
        digest.compress();
        assert!(digest.clusters.len() <= 110, "{}", digest.clusters.len());
        let written = serde_json::to_vec(&digest).unwrap();
        assert!(written.len() < 8 * 1024, "{}", written.len());
        let read: Digest = serde_json::from_slice(&written).unwrap();
        assert_eq!(read, digest);
    }

    proptest! {
        /// The rank of what it gives is near the rank that was asked for: not further away than
        /// half a cluster of the size that they have there, and one number for the rounding.
        #[test]
        fn quantiles_are_near_the_exact_ones(
            numbers in prop::collection::vec(0.0..1e6_f64, 1..3000),
            share in 0.01..0.99_f64,
        ) {
            let found = digest(&numbers).quantile(share).unwrap();
            let below = numbers.iter().filter(|number| **number < found).count();
            let above = numbers.iter().filter(|number| **number > found).count();
            let count = numbers.len() as f64;
            let cluster = std::f64::consts::TAU / COMPRESSION * (share * (1.0 - share)).sqrt();
            let slack = 0.5 * cluster * count + 1.5;
            prop_assert!(below as f64 <= share * count + slack, "{} below", below);
            prop_assert!(above as f64 <= (1.0 - share) * count + slack, "{} above", above);
        }
    }
}
