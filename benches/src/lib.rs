//! Measuring several ways to do one thing, interleaved in one run.
//!
//! The machine's speed changes from second to second, so only the ratio of two medians of the same
//! run means anything; absolute figures are printed for orientation.

pub mod arguments;
pub mod client;
pub mod couriers;
pub mod echo;
pub mod log;
pub mod node;
pub mod party;
pub mod pin;
pub mod report;
pub mod server;
pub mod turns;

use std::hint::black_box;
use std::time::{Duration, Instant};

/// How long to measure.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// Rounds, each of which runs every contestant once.
    pub rounds: usize,
    /// How long a contestant runs in a round.
    pub slice: Duration,
}

impl Effort {
    /// Enough for a median that can be trusted.
    pub const FULL: Self = Self {
        rounds: 41,
        slice: Duration::from_millis(20),
    };
    /// Enough to see that it runs.
    pub const SMOKE: Self = Self {
        rounds: 1,
        slice: Duration::ZERO,
    };
}

/// How long to measure processes that talk to each other.
///
/// Where the memory of a process happens to lie may change its speed, and stays as it is while the process lives, so all
/// of them are started several times.
#[derive(Debug, Clone, Copy)]
pub struct Heats {
    /// How often all are started.
    pub heats: usize,
    /// What is measured in each, after one round that is not: caches are cold, and memory is touched for the first time.
    pub each: Effort,
}

impl Heats {
    /// Enough for a median that can be trusted.
    pub const FULL: Self = Self {
        heats: 5,
        each: Effort {
            rounds: 5,
            slice: Duration::from_millis(60),
        },
    };
    /// Enough to see that it runs.
    pub const SMOKE: Self = Self {
        heats: 1,
        each: Effort {
            rounds: 1,
            slice: Duration::from_millis(5),
        },
    };
}

/// One way to do it.
pub struct Contestant<'a> {
    /// Its name in the report.
    pub name: &'static str,
    run: Box<dyn FnMut() + 'a>,
}

impl std::fmt::Debug for Contestant<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Contestant").field(&self.name).finish()
    }
}

impl<'a> Contestant<'a> {
    /// A way to do it; what `run` returns is kept from the optimiser.
    pub fn new<T>(name: &'static str, mut run: impl FnMut() -> T + 'a) -> Self {
        Self {
            name,
            run: Box::new(move || {
                black_box(run());
            }),
        }
    }

    /// Runs it this many times.
    pub fn repeat(&mut self, times: u32) {
        for _ in 0..times {
            (self.run)();
        }
    }

    /// Runs it for about a slice of time; returns seconds per run.
    fn measure(&mut self, slice: Duration) -> f64 {
        let start = Instant::now();
        let mut runs = 0_u32;
        loop {
            (self.run)();
            runs += 1;
            let elapsed = start.elapsed();
            if elapsed >= slice {
                return elapsed.as_secs_f64() / f64::from(runs);
            }
        }
    }
}

/// Median seconds per run of each contestant, measured in turn.
#[must_use]
pub fn compare(contestants: &mut [Contestant<'_>], effort: Effort) -> Vec<f64> {
    let mut times = vec![Vec::new(); contestants.len()];
    for _ in 0..effort.rounds {
        for (contestant, times) in contestants.iter_mut().zip(&mut times) {
            times.push(contestant.measure(effort.slice));
        }
    }
    times.into_iter().map(median).collect()
}

/// The middle one; zero if there is none.
#[must_use]
pub fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or_default()
}
