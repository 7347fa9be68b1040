//! The keys of a plugin of `type: learning`.

use std::time::Duration;

use super::read::Section;
use super::sections::{DAY, set};

/// What agents learn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Learning {
    /// With fewer samples nothing is concluded.
    pub min_experiences: usize,
    /// After so many experiences the host adapts by itself; never, if 0.
    pub adapt_every: usize,
    /// Proposals below it are not approved, in percent.
    pub confidence_percent: usize,
    /// After so long something counts half in what is decayed.
    pub half_life: Duration,
    /// What the strategy `custom` is.
    pub custom: CustomStrategy,
    /// Whether a search for tools ranks by what was learned.
    pub rank_tools: bool,
    /// Whether skills are ranked by it.
    pub rank_skills: bool,
}

/// What the strategy `custom` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CustomStrategy {
    /// Thompson sampling.
    Thompson,
    /// As `ppo`.
    Ppo,
    /// As `ucb1`.
    Ucb1,
    /// As `epsilon_greedy`.
    EpsilonGreedy,
    /// As `softmax`.
    Softmax,
}

impl Default for Learning {
    fn default() -> Self {
        Self {
            min_experiences: 32,
            adapt_every: 100,
            confidence_percent: 30,
            half_life: Duration::from_secs(7 * u64::from(DAY)),
            custom: CustomStrategy::Thompson,
            rank_tools: false,
            rank_skills: false,
        }
    }
}

pub(super) fn learning(section: &mut Section<'_>) -> Learning {
    let mut learning = Learning::default();
    let counts = [
        (
            "min_experiences",
            1..=1_000_000,
            &mut learning.min_experiences,
        ),
        ("adapt_every", 0..=1_000_000, &mut learning.adapt_every),
        (
            "confidence_percent",
            0..=100,
            &mut learning.confidence_percent,
        ),
    ];
    for (name, allowed, slot) in counts {
        set(slot, section.field(name), |it| it.count(allowed));
    }
    set(
        &mut learning.half_life,
        section.field("half_life_seconds"),
        |it| it.seconds(1..=3650 * DAY),
    );
    set(&mut learning.custom, section.field("custom"), |it| {
        it.choice(&[
            ("thompson", CustomStrategy::Thompson),
            ("ppo", CustomStrategy::Ppo),
            ("ucb1", CustomStrategy::Ucb1),
            ("epsilon_greedy", CustomStrategy::EpsilonGreedy),
            ("softmax", CustomStrategy::Softmax),
        ])
    });
    let ranks = [
        ("rank_tools", &mut learning.rank_tools),
        ("rank_skills", &mut learning.rank_skills),
    ];
    for (name, slot) in ranks {
        set(slot, section.field(name), |it| it.boolean());
    }
    learning
}
