//! What is known of a component: a model, a version of a prompt, a tool, a skill.

use std::collections::BTreeMap;
use std::time::Duration;

use a2e_wire::messages::learn::ComponentPerformanceRecord;
use a2e_wire::{Real, Timestamp};
use serde::{Deserialize, Serialize};

use super::digest::Digest;

/// Something that was seen of a component.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Seen {
    /// How good it was; −1 to 1 of feedback, any number of experiences.
    pub(super) score: f64,
    /// When, in seconds since 1970.
    pub(super) at: f64,
    pub(super) what: What,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum What {
    /// Somebody has rated it.
    Rated {
        dimension: String,
        /// What should have been said; nothing unless something was corrected.
        correction: String,
    },
    /// It did something.
    Lived {
        duration_ms: Option<f64>,
        is_tool: bool,
    },
}

/// A mean that can grow.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Mean {
    sum: f64,
    pub(super) count: u64,
}

/// What is known of one.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Component {
    calls: u64,
    successes: u64,
    failures: u64,
    pub(super) score: Mean,
    duration: Mean,
    durations: Digest,
    last_called: f64,
    decayed: Decayed,
    /// Of experiences alone.
    pub(super) lived: Mean,
    /// Of feedback, by what it is about.
    pub(super) rated: BTreeMap<String, Mean>,
    /// The newest correction, or the beginning of it.
    pub(super) correction: String,
    pub(super) is_tool: bool,
}

/// A mean in which the old counts less.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
struct Decayed {
    sum: f64,
    weight: f64,
    at: f64,
}

/// Characters of a correction that are remembered with a component.
const CORRECTION: usize = 500;

/// Larger scores and durations count as this: sums and squares of them stay finite.
const MAX_NUMBER: f64 = 1e15;

impl Mean {
    fn add(&mut self, number: f64) {
        self.sum += number;
        self.count = self.count.saturating_add(1);
    }

    /// 0 of nothing.
    pub(super) fn get(self) -> f64 {
        match self.count {
            0 => 0.0,
            count => self.sum / number(count),
        }
    }
}

impl Decayed {
    fn add(&mut self, score: f64, at: f64, half_life: Duration) {
        // What comes late counts as much as what came with it.
        let passed = (at - self.at).max(0.0);
        let share = 0.5_f64.powf(passed / half_life.as_secs_f64().max(1.0));
        self.sum = self.sum * share + score;
        self.weight = self.weight * share + 1.0;
        self.at = self.at.max(at);
    }
}

impl Component {
    pub(super) fn see(&mut self, seen: &Seen, half_life: Duration) {
        let score = seen.score.clamp(-MAX_NUMBER, MAX_NUMBER);
        self.calls = self.calls.saturating_add(1);
        self.score.add(score);
        self.decayed.add(score, seen.at, half_life);
        self.last_called = self.last_called.max(seen.at);
        match &seen.what {
            What::Rated {
                dimension,
                correction,
            } => {
                match score {
                    score if score > 0.0 => self.successes = self.successes.saturating_add(1),
                    score if score < 0.0 => self.failures = self.failures.saturating_add(1),
                    _ => {}
                }
                self.rated.entry(dimension.clone()).or_default().add(score);
                if !correction.is_empty() {
                    self.correction = correction.chars().take(CORRECTION).collect();
                }
            }
            What::Lived {
                duration_ms,
                is_tool,
            } => {
                self.lived.add(score);
                self.is_tool |= is_tool;
                if let Some(duration) = duration_ms.filter(|it| it.is_finite() && *it >= 0.0) {
                    let duration = duration.min(MAX_NUMBER);
                    self.duration.add(duration);
                    self.durations.add(duration);
                }
            }
        }
    }

    /// How good it was lately.
    pub(super) fn recent(&self) -> f64 {
        match self.decayed.weight > 0.0 {
            true => self.decayed.sum / self.decayed.weight,
            false => 0.0,
        }
    }

    /// As it is kept.
    pub(super) fn written(&mut self) -> Vec<u8> {
        self.durations.compress();
        serde_json::to_vec(self).unwrap_or_default()
    }

    pub(super) fn record(&self, name: &str, weight: f64) -> ComponentPerformanceRecord<'static> {
        let real = |number| Real::new(number).unwrap_or_default();
        let count = |count| i64::try_from(count).unwrap_or(i64::MAX);
        ComponentPerformanceRecord {
            calls_total: count(self.calls),
            calls_success: count(self.successes),
            calls_failed: count(self.failures),
            avg_duration_ms: real(self.duration.get()),
            avg_score: real(self.score.get()),
            last_called: Timestamp::from_unix_seconds(self.last_called).unwrap_or_default(),
            p95_duration_ms: real(self.durations.quantile(0.95).unwrap_or_default()),
            decayed_score: Some(real(self.recent())),
            weight: Some(real(weight)),
            ..ComponentPerformanceRecord::new(name.to_owned().into())
        }
    }
}

/// A count as a number; far below 2^53.
pub(super) fn number(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF_LIFE: Duration = Duration::from_secs(10);

    fn lived(score: f64, at: f64, duration: f64) -> Seen {
        Seen {
            score,
            at,
            what: What::Lived {
                duration_ms: Some(duration),
                is_tool: false,
            },
        }
    }

    #[test]
    fn extreme_numbers_leave_statistics_that_can_be_read_again() {
        let mut component = Component::default();
        for _ in 0..1000 {
            for number in [f64::MAX, f64::MIN, f64::MAX, f64::MIN_POSITIVE] {
                component.see(&lived(number, number, number.abs()), HALF_LIFE);
            }
        }
        let read: Component = serde_json::from_slice(&component.written()).unwrap();
        assert_eq!(read, component);
        assert!(component.recent().is_finite());
        assert!(component.record("c", 0.5).p95_duration_ms.get() <= MAX_NUMBER);
    }

    #[test]
    fn statistics_are_those_of_what_was_seen() {
        let mut component = Component::default();
        for number in 1..=20_u32 {
            let number = f64::from(number);
            component.see(&lived(number / 20.0, number, number * 10.0), HALF_LIFE);
        }
        let rated = |score| Seen {
            score,
            at: 30.0,
            what: What::Rated {
                dimension: "tone".to_owned(),
                correction: "é".repeat(600),
            },
        };
        for score in [1.0, -1.0, -0.5, 0.0] {
            component.see(&rated(score), HALF_LIFE);
        }
        let record = component.record("c", 0.5);
        let calls = (
            record.calls_total,
            record.calls_success,
            record.calls_failed,
        );
        assert_eq!(calls, (24, 1, 2));
        assert_eq!(record.avg_duration_ms.get(), 105.0);
        assert_eq!(record.p95_duration_ms.get(), 195.0);
        assert_eq!(record.last_called.unix_seconds(), 30.0);
        assert!((record.avg_score.get() - (10.5 - 0.5) / 24.0).abs() < 1e-12);
        assert_eq!(component.correction.chars().count(), CORRECTION);
        let read: Component = serde_json::from_slice(&component.written()).unwrap();
        assert_eq!(read, component);
    }

    #[test]
    fn the_old_counts_less() {
        let mut component = Component::default();
        component.see(&lived(-1.0, 0.0, 1.0), HALF_LIFE);
        component.see(&lived(1.0, 10.0, 1.0), HALF_LIFE);
        // Half of the first against the second.
        assert!((component.recent() - (1.0 - 0.5) / 1.5).abs() < 1e-12);
        // One that comes late changes nothing for the others.
        component.see(&lived(1.0, 5.0, 1.0), HALF_LIFE);
        assert!((component.recent() - (2.0 - 0.5) / 2.5).abs() < 1e-12);
        assert_eq!(component.score.get(), 1.0 / 3.0);
    }
}
