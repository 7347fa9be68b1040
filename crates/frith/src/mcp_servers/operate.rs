//! What the operator may ask a node about its MCP servers.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use a2e_caps::mcp::client::{Fleet, ServerState};
use a2e_runtime::operator::Operations;
use serde::{Deserialize, Serialize};

use crate::mcp::known;
use crate::status::McpServer;

/// Names a server.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Named {
    pub(super) server: String,
}

/// All about a server.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Shown {
    pub(super) server: McpServer,
    /// Its tools that agents have.
    pub(super) tools: Vec<Tool>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Tool {
    pub(super) name: String,
    pub(super) description: String,
}

/// Has a server connected to.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Test {
    pub(super) server: String,
    /// Whether a connection that there is ends first.
    pub(super) anew: bool,
}

/// Asks for what a server has said.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Hear {
    pub(super) server: String,
    /// Where to begin.
    pub(super) from: u64,
    /// Whether to wait for more, if there is none.
    pub(super) wait: bool,
}

/// What it has said.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Said {
    pub(super) text: String,
    /// Where to read on.
    pub(super) next: u64,
}

pub(super) const SHOW: &str = "mcp.show";
pub(super) const TEST: &str = "mcp.test";
pub(super) const HEAR: &str = "mcp.heard";

/// How long a node waits for a server to say something more.
const WAIT: Duration = Duration::from_secs(20);

/// Adds what the operator may ask about servers.
pub(crate) fn serve(operations: Operations, fleet: &Arc<OnceLock<Arc<Fleet>>>) -> Operations {
    let [for_show, for_test, for_hear] = [(); 3].map(|()| Arc::clone(fleet));
    operations
        .add(SHOW, move |Named { server }| {
            let fleet = known(&for_show);
            async move {
                let fleet = fleet?;
                look(&fleet, &server)
            }
        })
        .add(TEST, move |Test { server, anew }| {
            let fleet = known(&for_test);
            async move {
                let fleet = fleet?;
                fleet.test(&server, anew).await?;
                look(&fleet, &server)
            }
        })
        .add(HEAR, move |Hear { server, from, wait }| {
            let fleet = known(&for_hear);
            async move {
                let wait = if wait { WAIT } else { Duration::ZERO };
                let heard = fleet?.heard(&server, from, wait).await?;
                Ok(Said {
                    text: heard.text,
                    next: heard.next,
                })
            }
        })
        .ending_with_operator(HEAR)
}

fn look(fleet: &Fleet, name: &str) -> Result<Shown, String> {
    let tools = fleet.tools_of(name)?.into_iter();
    let states = fleet.states().into_iter().map(shown);
    let mut own = states.filter(|state| state.agent.is_none());
    let server = own.find(|state| state.name == name);
    Ok(Shown {
        server: server.ok_or("it was removed")?,
        tools: tools
            .map(|tool| Tool {
                name: tool.name,
                description: tool.description,
            })
            .collect(),
    })
}

/// A server, as the operator is told of it.
pub(crate) fn shown(state: ServerState) -> McpServer {
    let info = state.info;
    McpServer {
        agent: state.agent,
        name: info.server_id.as_str().to_owned(),
        state: info.status.as_str().to_owned(),
        tools: info.tools_count,
        problem: Some(info.error.into_owned()).filter(|error| !error.is_empty()),
        place: state.place,
        starts: state.starts,
        losses: state.losses,
        retry_in: state.retry_in.map(|wait| wait.as_secs()),
        stderr: state.said,
    }
}
