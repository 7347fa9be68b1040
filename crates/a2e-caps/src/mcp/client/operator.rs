//! What the operator asks about servers.

use std::sync::Arc;
use std::time::Duration;

use a2e_runtime::config::McpPlace;
use a2e_wire::messages::mcp::McpServerInfo;
use tokio::time::Instant;

use super::Fleet;
use super::said::Heard;
use super::server::Server;

/// How a server is.
#[derive(Debug, Clone)]
pub struct ServerState {
    /// Who has registered it; none for those of the configuration.
    pub agent: Option<String>,
    /// As it is listed.
    pub info: McpServerInfo<'static>,
    /// Its command, or its address.
    pub place: String,
    /// How often it was connected to or started.
    pub starts: u64,
    /// How often it has gone by itself.
    pub losses: u64,
    /// When it is tried again, if that is due.
    pub retry_in: Option<Duration>,
    /// The last lines of its standard error, of the start that has failed.
    pub said: Vec<String>,
}

/// A tool of a server, as the operator sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerTool {
    /// Its name here.
    pub name: String,
    /// What it says of itself.
    pub description: String,
}

/// Lines of its standard error that are shown of a server that is not there.
const LAST_LINES: usize = 6;

impl Fleet {
    /// How the servers are: those of the operator, and those of agents.
    #[must_use]
    pub fn states(&self) -> Vec<ServerState> {
        let servers = self.all();
        servers.iter().map(|server| server.state()).collect()
    }

    /// What one of the operator's servers has said from a place on; waits so long for more, if there is
    /// none.
    ///
    /// # Errors
    /// If there is no such server.
    pub async fn heard(&self, name: &str, from: u64, wait: Duration) -> Result<Heard, String> {
        let server = self.operators_server(name)?;
        // One that has said less is another one of that name.
        let from = if from > server.said.end() { 0 } else { from };
        // Without more in time, what there is.
        let _ = tokio::time::timeout(wait, server.said.more(from)).await;
        Ok(server.said.since(from))
    }

    /// The tools of one of the operator's servers that agents have.
    ///
    /// # Errors
    /// If there is no such server.
    pub fn tools_of(&self, name: &str) -> Result<Vec<ServerTool>, String> {
        let server = self.operators_server(name)?;
        let source = server.source();
        let current = self.ground.catalogue.current();
        let entries = current.entries().iter();
        let own = entries.filter(|entry| entry.source == source);
        let tool = |listed: &a2e_wire::messages::tool::ToolDefinition<'static>| ServerTool {
            name: listed.name.to_string(),
            description: listed.description.to_string(),
        };
        Ok(own.map(|entry| tool(&entry.listed)).collect())
    }

    /// Has one of the operator's servers connected to, anew if so told; says how it is.
    ///
    /// # Errors
    /// If there is no such server, or why it is not there, with the last lines of its standard error.
    pub async fn test(&self, name: &str, anew: bool) -> Result<ServerState, String> {
        let server = self.operators_server(name)?;
        if anew {
            server.said.note(&"the operator has it started anew");
            server.try_now().await?;
        } else {
            let connection = server.connection().await;
            let connection = connection.map_err(|error| server.told_in_full(error.why()))?;
            server.refresh_tools(&connection).await;
        }
        Ok(server.state())
    }

    pub(super) fn operators_server(&self, name: &str) -> Result<Arc<Server>, String> {
        let servers = self.operators();
        if let Some(server) = servers.iter().find(|server| server.name() == name) {
            return Ok(Arc::clone(server));
        }
        let names: Vec<&str> = servers.iter().map(|server| server.name()).collect();
        Err(match names.is_empty() {
            true => "the configuration has no MCP servers".to_owned(),
            false => format!(
                "the configuration has no MCP server of this name; it has {}",
                names.join(", ")
            ),
        })
    }
}

impl Server {
    fn state(&self) -> ServerState {
        let info = self.info();
        let told = self.told();
        let now = Instant::now();
        ServerState {
            agent: self.agent().map(str::to_owned),
            place: place(&self.settings.place),
            starts: told.starts,
            losses: told.losses,
            retry_in: told.retry.and_then(|at| at.checked_duration_since(now)),
            said: match info.error.is_empty() {
                true => Vec::new(),
                false => self.said.last_lines(told.begun, LAST_LINES),
            },
            info,
        }
    }

    /// Why it is not there, for the operator. What an agent is told has the last lines in it.
    pub(super) fn told_in_full(&self, why: &str) -> String {
        match self.owner {
            Some(_) => why.to_owned(),
            None => self.with_last_lines(why),
        }
    }

    /// Why it is not there, with the last lines of its standard error.
    pub(super) fn with_last_lines(&self, why: &str) -> String {
        let begun = self.told().begun;
        let mut text = why.to_owned();
        for line in self.said.last_lines(begun, LAST_LINES) {
            text.push_str("\n  ");
            text.push_str(&line);
        }
        text
    }
}

/// A command line, or an address without what may be a key.
fn place(place: &McpPlace) -> String {
    match place {
        McpPlace::Command(command) => command.words.join(" "),
        McpPlace::Http(at) | McpPlace::Sse(at) => {
            let url = at.url.split(['?', '#']).next();
            url.unwrap_or_default().to_owned()
        }
    }
}
