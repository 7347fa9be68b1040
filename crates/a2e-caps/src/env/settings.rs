//! What episodes may be.

use std::sync::Arc;
use std::time::Duration;

use a2e_runtime::{Failure, Learner};
use a2e_wire::Object;
use serde::Deserialize;

use super::environment::Environment;
use super::failures;
use crate::placement::Placement;

/// What episodes may be.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where the plugin stands among others.
    pub placement: Placement,
    /// How many episodes a session may have; past that, the one that nobody has used for longest is
    /// closed.
    pub max_episodes: usize,
    /// After so long without a step or a look an episode is closed.
    pub idle: Duration,
    /// After so many steps an episode is cut off.
    pub max_steps: u64,
    /// After so long an episode is cut off, at its next step.
    pub max_time: Duration,
    /// How pushes are spelled.
    pub pushes: PushSpellings,
    /// Who learns of each step, before it is answered; nobody, unless that is switched on.
    pub learner: Option<Arc<dyn Learner>>,
}

/// How pushes are spelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PushSpellings {
    /// `env/state_push`, as the catalogue has it.
    #[default]
    Catalogue,
    /// That, and the same with the same id as `env/state/push`, for agents that know only this one.
    Both,
}

/// The limits of an episode.
pub(super) struct Limits {
    pub(super) max_steps: u64,
    pub(super) max_time: Duration,
    /// Whether each step is pushed as well.
    pub(super) push: bool,
}

/// Options of a reset that every environment has.
#[derive(Deserialize)]
struct Common {
    max_steps: Option<u64>,
    max_seconds: Option<f64>,
    #[serde(default)]
    push: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            placement: Placement::named("env"),
            max_episodes: 4096,
            idle: Duration::from_secs(15 * 60),
            max_steps: 1_000_000,
            max_time: Duration::from_secs(24 * 60 * 60),
            pushes: PushSpellings::default(),
            learner: None,
        }
    }
}

impl Settings {
    /// The limits of an episode: those that were asked for, within those of the host.
    pub(super) fn limits(
        &self,
        environment: &Arc<dyn Environment>,
        options: &Object<'_>,
    ) -> Result<Limits, Failure> {
        let common: Common = options.raw().deserialize().map_err(|error| {
            failures::wrong(format!(
                "`options.max_steps` is a count, `options.max_seconds` a number and `options.push` \
                 true or false: {error}"
            ))
        })?;
        let own = environment.max_steps().unwrap_or(u64::MAX);
        let max_steps = common.max_steps.unwrap_or(own).min(self.max_steps);
        let asked = common.max_seconds.map(Duration::try_from_secs_f64);
        // What is too long for a duration is as good as no wish.
        let asked = match asked {
            Some(Ok(time)) => time,
            Some(Err(_)) if common.max_seconds.is_some_and(|it| it < 0.0) => Duration::ZERO,
            Some(Err(_)) | None => Duration::MAX,
        };
        let max_time = asked.min(self.max_time);
        if max_steps == 0 || max_time.is_zero() {
            let text = "`options.max_steps` and `options.max_seconds` must be more than 0";
            return Err(failures::wrong(text));
        }
        Ok(Limits {
            max_steps,
            max_time,
            push: common.push,
        })
    }
}
