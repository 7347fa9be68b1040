//! The keys of environments.

use std::time::Duration;

use super::read::Section;
use super::sections::{DAY, set};

/// Environments of agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Env {
    /// How many episodes a session may have at a time.
    pub max_episodes: usize,
    /// After so long without a step or a look an episode is closed.
    pub idle: Duration,
    /// After so many steps an episode is cut off.
    pub max_steps: u64,
    /// After so long an episode is cut off.
    pub max_time: Duration,
    /// Whether pushes are also spelled `env/state/push`.
    pub slash_pushes: bool,
    /// Whether what happens is learned from; that needs a plugin of `type: learning`.
    pub learn: bool,
}

impl Default for Env {
    fn default() -> Self {
        Self {
            max_episodes: 4096,
            idle: Duration::from_secs(15 * 60),
            max_steps: 1_000_000,
            max_time: Duration::from_secs(24 * 60 * 60),
            slash_pushes: false,
            learn: false,
        }
    }
}

pub(super) fn env(section: &mut Section<'_>) -> Env {
    let mut env = Env::default();
    set(&mut env.max_episodes, section.field("max_episodes"), |it| {
        it.count(1..=100_000)
    });
    set(&mut env.idle, section.field("idle_seconds"), |it| {
        it.seconds(1..=DAY)
    });
    set(&mut env.max_steps, section.field("max_steps"), |it| {
        it.integer(1..=1_000_000_000)?.try_into().ok()
    });
    set(&mut env.max_time, section.field("max_seconds"), |it| {
        it.seconds(1..=30 * DAY)
    });
    let switches = [
        ("slash_pushes", &mut env.slash_pushes),
        ("learn", &mut env.learn),
    ];
    for (name, slot) in switches {
        set(slot, section.field(name), |it| it.boolean());
    }
    env
}
