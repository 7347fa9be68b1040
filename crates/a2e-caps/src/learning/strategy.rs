//! Weights of components, from what is known of them.
//!
//! Each strategy says how much a component deserves to be chosen; weights are from [`LEAST`] to 1.

use std::collections::BTreeMap;

use a2e_runtime::NEUTRAL;

use super::component::{Component, number};

/// How weights follow from statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// Each moves a little way from where it is, up if it does better than the others: the clipped
    /// update of proximal policy optimization.
    Ppo,
    /// What does well or is little known: the upper confidence bound.
    Ucb1,
    /// The best, and a little of all others.
    EpsilonGreedy,
    /// All, in proportion to the exponential of how well they do.
    Softmax,
    /// A draw from what each may be worth: Thompson sampling.
    Thompson,
}

/// The least weight: whatever has none is never tried again.
pub(super) const LEAST: f64 = 0.05;

/// How far a weight may move at once.
const CLIP: f64 = 0.2;
/// How fast it moves.
const RATE: f64 = 0.1;
/// The share that goes to what is not the best.
const EPSILON: f64 = 0.1;
/// How much better the better ones are.
const TEMPERATURE: f64 = 0.2;

impl Strategy {
    /// Its name.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Ppo => "ppo",
            Self::Ucb1 => "ucb1",
            Self::EpsilonGreedy => "epsilon_greedy",
            Self::Softmax => "softmax",
            Self::Thompson => "thompson",
        }
    }

    /// New weights, of those that are given.
    pub(super) fn weights(
        self,
        components: &BTreeMap<&str, &Component>,
        current: &BTreeMap<String, f64>,
        random: &mut Random,
    ) -> BTreeMap<String, f64> {
        let values: Vec<(&str, f64)> = components
            .iter()
            .map(|(name, component)| (*name, worth(component)))
            .collect();
        let total: u64 = components.values().map(|it| it.score.count).sum();
        let best = values.iter().map(|(_, worth)| *worth).fold(0.0, f64::max);
        let spread = Spread::of(&values);
        let raw = components
            .iter()
            .zip(&values)
            .map(|((name, it), (_, worth))| {
                let count = number(it.score.count).max(1.0);
                let weight = match self {
                    Self::Ppo => {
                        let now = current.get(*name).copied().unwrap_or(NEUTRAL);
                        let ratio = (RATE * spread.advantage(*worth)).exp();
                        now * ratio.clamp(1.0 - CLIP, 1.0 + CLIP)
                    }
                    Self::Ucb1 => worth + (2.0 * number(total.max(1)).ln() / count).sqrt(),
                    Self::EpsilonGreedy => {
                        let share = EPSILON / number(components.len() as u64).max(1.0);
                        match *worth >= best {
                            true => 1.0 - EPSILON + share,
                            false => share,
                        }
                    }
                    Self::Softmax => ((worth - best) / TEMPERATURE).exp(),
                    Self::Thompson => {
                        let good = worth * number(it.score.count);
                        random.beta(1.0 + good, 1.0 + number(it.score.count) - good)
                    }
                };
                ((*name).to_owned(), weight)
            });
        let raw: BTreeMap<String, f64> = raw.collect();
        // Those that compare components make the best 1; the others are where they are.
        let largest = match self == Self::Ppo {
            true => 1.0,
            false => raw.values().copied().fold(f64::MIN_POSITIVE, f64::max),
        };
        let scaled = raw.into_iter();
        scaled
            .map(|(name, weight)| (name, (weight / largest).clamp(LEAST, 1.0)))
            .collect()
    }
}

/// How well a component does, from 0 to 1.
fn worth(component: &Component) -> f64 {
    f64::midpoint(component.recent().clamp(-1.0, 1.0), 1.0)
}

/// How values lie around their mean.
struct Spread {
    mean: f64,
    deviation: f64,
}

impl Spread {
    fn of(values: &[(&str, f64)]) -> Self {
        let count = number(values.len() as u64).max(1.0);
        let mean = values.iter().map(|(_, value)| value).sum::<f64>() / count;
        let squares = values.iter().map(|(_, value)| (value - mean).powi(2));
        Self {
            mean,
            deviation: (squares.sum::<f64>() / count).sqrt(),
        }
    }

    /// How much better than the others, in deviations. One that is alone is compared with what is
    /// neither good nor bad.
    fn advantage(&self, value: f64) -> f64 {
        match self.deviation > 1e-9 {
            true => (value - self.mean) / self.deviation,
            false => 4.0 * (value - 0.5),
        }
    }
}

/// Random numbers, from a seed.
#[derive(Debug, Clone)]
pub(super) struct Random(u64);

impl Random {
    /// From a seed that nobody knows; without random bytes, from one that all know.
    pub(super) fn any() -> Self {
        let mut bytes = [0; 8];
        let _ = getrandom::fill(&mut bytes);
        Self::new(u64::from_le_bytes(bytes))
    }

    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// From 0 to 1, neither of them: splitmix64.
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        (number(bits >> 12) + 0.5) / number(1 << 52)
    }

    /// Normally distributed: Box and Muller.
    fn normal(&mut self) -> f64 {
        let (radius, angle) = (self.unit(), self.unit());
        (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
    }

    /// Of a gamma distribution, for a shape from 1 up: Marsaglia and Tsang.
    fn gamma(&mut self, shape: f64) -> f64 {
        let depth = shape - 1.0 / 3.0;
        let scale = 1.0 / (9.0 * depth).sqrt();
        loop {
            let normal = self.normal();
            let cube = (1.0 + scale * normal).powi(3);
            if cube <= 0.0 {
                continue;
            }
            let bound = 0.5 * normal * normal + depth - depth * cube + depth * cube.ln();
            if self.unit().ln() < bound {
                return depth * cube;
            }
        }
    }

    /// Of a beta distribution, for shapes from 1 up.
    fn beta(&mut self, one: f64, other: f64) -> f64 {
        let (one, other) = (self.gamma(one.max(1.0)), self.gamma(other.max(1.0)));
        one / (one + other)
    }
}

#[cfg(test)]
mod tests;
