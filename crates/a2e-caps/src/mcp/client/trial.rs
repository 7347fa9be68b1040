//! Whether a server works, before a configuration has it.

use std::sync::Arc;

use a2e_runtime::config::McpServer;
use a2e_runtime::definitions::Definitions;
use rmcp::model::Tool as McpDefinition;
use store::{Limits, Memory, Store};

use super::Ground;
use super::server::Server;
use crate::http::Web;
use crate::tool::{Catalogue, Pinning};
use crate::workplace::Workplace;

/// What a server has said of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tried {
    /// What it is called, with its version.
    pub name: String,
    /// Its tools.
    pub tools: Vec<String>,
    /// Whether a tool may change something.
    pub writes: bool,
    /// The tool that reaches other places, if one says so or takes an address.
    pub reaches: Option<String>,
}

/// Why a server does not work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotTried {
    /// In words.
    pub why: String,
    /// The last lines of its standard error.
    pub stderr: Vec<String>,
}

/// Lines of its standard error that say why.
const LAST_LINES: usize = 12;

/// Properties of arguments that are addresses.
const ADDRESSES: [&str; 2] = ["url", "urls"];

/// Connects to a server as a node would, asks it for its tools, and lets it go.
///
/// # Errors
/// Why it does not work.
pub async fn try_server(
    workplace: &Arc<Workplace>,
    web: Web,
    settings: McpServer,
) -> Result<Tried, NotTried> {
    let nothing = |why: String| NotTried {
        why,
        stderr: Vec::new(),
    };
    let store = Store::new(Memory::new(Limits::default()));
    let definitions = Definitions::new(&store).map_err(|error| nothing(error.to_string()))?;
    let catalogue = Arc::new(Catalogue::default());
    let ground = Ground::new(
        Arc::clone(workplace),
        web,
        catalogue,
        Pinning::new(definitions),
    );
    let server = Server::new(settings, None, Arc::new(ground));
    let tried = ask(&server).await;
    server.over.cancel();
    server.hang_up().await;
    tried
}

async fn ask(server: &Arc<Server>) -> Result<Tried, NotTried> {
    let failed = |why: String| NotTried {
        why,
        stderr: server.said.last_lines(0, LAST_LINES),
    };
    let connection = server.connection().await;
    let connection = connection.map_err(|error| failed(error.why().to_owned()))?;
    let tools = connection.tools().await;
    let tools = tools.map_err(|error| failed(format!("it does not list its tools: {error}")))?;
    let told = server.told();
    Ok(Tried {
        name: format!("{} {}", told.name, told.server_version),
        writes: tools.iter().any(writes),
        reaches: tools
            .iter()
            .find(|tool| reaches(tool))
            .map(|tool| tool.name.clone().into_owned()),
        tools: tools
            .into_iter()
            .map(|tool| tool.name.into_owned())
            .collect(),
    })
}

/// A tool that says nothing of it may change something, as MCP has it.
fn writes(tool: &McpDefinition) -> bool {
    let hints = tool.annotations.as_ref();
    hints.and_then(|hints| hints.read_only_hint) != Some(true)
}

/// By what MCP has, each tool that says nothing of it reaches other places; few do.
fn reaches(tool: &McpDefinition) -> bool {
    let hints = tool.annotations.as_ref();
    let properties = tool.input_schema.get("properties");
    let takes = |name: &&str| properties.is_some_and(|them| them.get(*name).is_some());
    match hints.and_then(|hints| hints.open_world_hint) {
        Some(says) => says,
        None => ADDRESSES.iter().any(takes),
    }
}
