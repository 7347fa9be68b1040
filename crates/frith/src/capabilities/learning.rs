//! Learning, as the configuration has it.

use std::sync::Arc;

use a2e_caps::Placement;
use a2e_caps::learning::{Learning, Ledgers, Settings, Strategy};
use a2e_runtime::config::{CustomStrategy, Learning as LearningConfig};

/// The plugin, which is also whom environments tell.
pub(crate) fn plugin(
    ledgers: &Arc<Ledgers>,
    config: LearningConfig,
    placement: Placement,
) -> Learning {
    let percent = u32::try_from(config.confidence_percent).unwrap_or(100);
    let settings = Settings {
        min_experiences: config.min_experiences as u64,
        adapt_every: config.adapt_every as u64,
        confidence_threshold: f64::from(percent) / 100.0,
        half_life: config.half_life,
        custom: match config.custom {
            CustomStrategy::Thompson => Strategy::Thompson,
            CustomStrategy::Ppo => Strategy::Ppo,
            CustomStrategy::Ucb1 => Strategy::Ucb1,
            CustomStrategy::EpsilonGreedy => Strategy::EpsilonGreedy,
            CustomStrategy::Softmax => Strategy::Softmax,
        },
    };
    Learning::new(Arc::clone(ledgers), settings, placement)
}
