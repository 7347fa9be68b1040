//! Chains and plans, as the configuration describes them.

use std::sync::Arc;

use a2e_caps::Placement;
use a2e_caps::chains::{Chains, Keeper, Limits, Settings};
use a2e_caps::planning::{Planning, Sharing};
use a2e_runtime::HostBuilder;
use a2e_runtime::config::{Chains as ChainsConfig, Planning as PlanningConfig};
use store::Store;

/// Adds plans.
pub(crate) fn planning(
    builder: HostBuilder,
    store: &Store,
    config: PlanningConfig,
    placement: Placement,
) -> HostBuilder {
    let sharing = match config.shared {
        true => Sharing::All,
        false => Sharing::Own,
    };
    builder.plugin(Planning::new(store.clone(), sharing, placement))
}

/// Adds chains.
pub(crate) fn chains(
    builder: HostBuilder,
    keeper: &Arc<Keeper>,
    chains: ChainsConfig,
    placement: Placement,
) -> HostBuilder {
    let keeper = chains.durable.then(|| Arc::clone(keeper));
    let chains = Chains::new(Settings {
        placement,
        limits: chain_limits(&chains),
        max_parallel: chains.max_parallel,
        keeper,
    });
    let runs = chains.runs();
    let builder = builder.plugin(chains);
    runs.into_iter().fold(builder, HostBuilder::plugin)
}

/// How large chains may be.
pub(super) fn chain_limits(chains: &ChainsConfig) -> Limits {
    Limits {
        nodes: chains.max_nodes,
        items: chains.max_items,
        ..Limits::default()
    }
}
