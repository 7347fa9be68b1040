//! What the operator may ask of a node.

use std::sync::Arc;

use a2e_runtime::operator::{News, Nothing, Operations, Server};
use a2e_runtime::{Approvals, Claim};
use anyhow::Result;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::record::purge_log;
use super::{Agents, Apply, Shared, peers};
use crate::agents;
use crate::audit::purge;
use crate::config::Applied;
#[cfg(feature = "mcp")]
use crate::mcp;
#[cfg(feature = "mcp")]
use crate::mcp_servers::operate;

pub(super) fn operations(
    shared: &Shared,
    approvals: &Approvals,
    apply: mpsc::Sender<Apply>,
) -> Operations {
    let operations = agents::serve(Operations::new(), &shared.capabilities.forest());
    #[cfg(feature = "mcp")]
    let operations = mcp::serve(operations, shared.capabilities.fleet());
    #[cfg(feature = "mcp")]
    let operations = operate::serve(operations, &shared.capabilities.fleet());
    operations
        .with_approvals(approvals)
        .with_definitions(&shared.definitions, {
            let catalogue = shared.capabilities.catalogue();
            move |pin, approved| catalogue.release(pin, approved)
        })
        .on_record(shared.audit.clone())
        .add(purge::OPERATION, {
            let log = shared.audit.clone();
            move |wish| purge_log(log.clone(), wish)
        })
        .add_telling("config.apply", move |_: Nothing, news| {
            ask_to_apply(apply.clone(), news)
        })
}

/// Has the operator's socket served, until it is told to stop.
pub(super) fn serve(
    claim: &Claim,
    operations: Operations,
    agents: Option<&Arc<Agents>>,
) -> Result<CancellationToken> {
    let operations = match agents {
        Some(agents) => peers::serve(operations, agents),
        None => peers::serve_none(operations),
    };
    let stop = CancellationToken::new();
    let server = Server::bind(claim, operations)?;
    tokio::spawn(server.run(stop.clone()));
    Ok(stop)
}

/// Hands the operator's wish to whoever reads the configuration.
async fn ask_to_apply(apply: mpsc::Sender<Apply>, news: News) -> Result<Applied, String> {
    let (answer, applied) = oneshot::channel();
    let stopping = || "the node is stopping".to_owned();
    let wish = Apply { answer, news };
    apply.send(wish).await.map_err(|_| stopping())?;
    applied.await.map_err(|_| stopping())?
}
