//! Chains that an earlier process has left open go on.

use std::sync::Arc;

use a2e_caps::chains::Keeper;
use a2e_runtime::config::Config;
use a2e_runtime::{Host, TokenStore};
use anyhow::{Context, Result};
use store::AgentId;

/// What was left open by agents that may still come here; to be asked before anybody is served.
pub(super) async fn left_open(
    keeper: &Keeper,
    config: &Config,
    tokens: &TokenStore,
) -> Result<Vec<(AgentId, i64)>> {
    let mut open = keeper
        .left_open()
        .await
        .context("the chains that were left open cannot be read")?;
    if !config.server.allow_unauthenticated {
        let tokens = tokens.list();
        // In the name of one whose tokens were revoked nothing is done any more.
        open.retain(|(agent, _)| tokens.iter().any(|token| token.agent == agent.as_str()));
    }
    Ok(open)
}

/// Goes on with them until the node stops; what is not done then is left open again. To be called
/// before the operator is served, who may revoke an agent that has some.
pub(super) fn resume(keeper: &Arc<Keeper>, host: &Host, left_open: Vec<(AgentId, i64)>) {
    if left_open.is_empty() {
        return;
    }
    let (resumed, stopping) = (keeper.resume(host, left_open), host.stopping());
    tokio::spawn(async move {
        stopping.run_until_cancelled(resumed).await;
    });
}
