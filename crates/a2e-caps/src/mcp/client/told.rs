//! What is known of a server, and how it is listed.

use std::collections::HashMap;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use a2e_runtime::config::McpPlace;
use a2e_wire::Timestamp;
use a2e_wire::messages::mcp::{McpServerInfo, McpServerStatus, McpTransport};
use canonical::Digest;
use tokio::time::Instant;

use super::server::Server;

/// What is said of a server.
#[derive(Debug, Clone, Default)]
pub(super) struct Told {
    pub(super) status: Option<McpServerStatus<'static>>,
    pub(super) version: String,
    pub(super) name: String,
    pub(super) server_version: String,
    pub(super) tools: usize,
    /// What its tools say now, by their names here.
    pub(super) offered: HashMap<String, Digest>,
    pub(super) resources: usize,
    pub(super) prompts: usize,
    pub(super) round_trip: Duration,
    pub(super) error: String,
    pub(super) connected_at: Timestamp,
    pub(super) last_used: Option<Instant>,
    /// How often it was connected to or started, and has gone by itself.
    pub(super) starts: u64,
    pub(super) losses: u64,
    /// When it is tried again.
    pub(super) retry: Option<Instant>,
    /// Where what it has said begins that belongs to its last start.
    pub(super) begun: u64,
}

impl Server {
    pub(super) fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server, as it is listed.
    pub(super) fn info(&self) -> McpServerInfo<'static> {
        let told = self.told().clone();
        let transport = match self.settings.place {
            McpPlace::Command(_) => McpTransport::Stdio,
            McpPlace::Http(_) => McpTransport::Http,
            McpPlace::Sse(_) => McpTransport::Sse,
        };
        let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let id = self.name().to_owned();
        let name = self.settings.title.clone().unwrap_or_else(|| id.clone());
        McpServerInfo {
            status: told.status.unwrap_or(McpServerStatus::Disconnected),
            mcp_version: told.version.into(),
            server_name: told.name.into(),
            server_version: told.server_version.into(),
            tools_count: count(told.tools),
            resources_count: count(told.resources),
            prompts_count: count(told.prompts),
            last_ping_ms: a2e_wire::Real::new(told.round_trip.as_secs_f64() * 1000.0)
                .unwrap_or_default(),
            error: told.error.into(),
            connected_at: told.connected_at,
            ..McpServerInfo::new(id.into(), name.into(), transport)
        }
    }
}
