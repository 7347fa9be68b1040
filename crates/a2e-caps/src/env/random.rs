//! Chance that can be had again: SplitMix64.

/// A source of numbers; the same seed gives the same ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Random(u64);

impl Random {
    /// The numbers of a seed.
    #[must_use]
    pub const fn seeded(seed: i64) -> Self {
        Self(seed.cast_unsigned())
    }

    /// The next number.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`; 0 if that is 0. So slightly uneven for a huge `end` that no game sees it.
    pub fn below(&mut self, end: usize) -> usize {
        let end = u128::try_from(end).unwrap_or_default();
        let scaled = u128::from(self.next()).wrapping_mul(end) >> 64;
        usize::try_from(scaled).unwrap_or_default()
    }

    /// A number from `low` up to `high`.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
        let unit = (self.next() >> 11) as f64 / 9_007_199_254_740_992.0;
        (high - low).mul_add(unit, low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published first numbers of SplitMix64 for the seed 1234567.
    #[test]
    fn numbers_are_those_of_the_algorithm() {
        let mut random = Random::seeded(1_234_567);
        let numbers = [(); 3].map(|()| random.next());
        assert_eq!(
            numbers,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn ranges_are_kept() {
        let mut random = Random::seeded(-1);
        let mut seen = [0; 5];
        for _ in 0..1000 {
            seen[random.below(5)] += 1;
            let number = random.between(-0.05, 0.05);
            assert!((-0.05..0.05).contains(&number));
        }
        assert!(seen.iter().all(|count| *count > 100), "{seen:?}");
        assert_eq!(random.below(0), 0);
    }
}
