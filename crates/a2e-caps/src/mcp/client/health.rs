//! Whether a server still answers.

use std::time::Duration;

use a2e_wire::messages::mcp::McpServerStatus;
use rmcp::ServiceError;
use rmcp::model::{ClientRequest, PingRequest};
use rmcp::service::PeerRequestOptions;
use tokio::time::Instant;

use super::server::{Connection, IDLE, Server};

/// How often a server is asked whether it is there.
const EVERY: Duration = Duration::from_secs(60);

/// How long it may take to say so.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long the withdrawal of a request may take.
const WITHDRAWAL: Duration = Duration::from_secs(1);

impl Server {
    /// When to look again whether the server is well.
    pub(super) fn next_look(&self) -> Instant {
        Instant::now() + EVERY.min(self.settings.timeout)
    }

    /// Asks a server of the older eras whether it is there; those of the newer one have no such request.
    /// While it works on a call it need not answer. One that does not answer is given up.
    pub(super) async fn is_well(&self, connection: &Connection) -> bool {
        let last_used = self.told().last_used;
        let is_in_use = last_used.is_some_and(|at| at.elapsed() < IDLE);
        if connection.is_newer() || !self.calls.are_none() || !is_in_use {
            return true;
        }
        let request = ClientRequest::PingRequest(PingRequest::default());
        let patience = PATIENCE.min(self.settings.timeout);
        let options = PeerRequestOptions::with_timeout(patience);
        let started = Instant::now();
        let asked = async {
            let asked = connection.peer().send_cancellable_request(request, options);
            asked.await?.await_response().await
        };
        // A program that reads nothing does not even take the withdrawal of the request.
        let answer = tokio::time::timeout(patience.saturating_add(WITHDRAWAL), asked).await;
        // One that knows no such request is there as well.
        if let Ok(Ok(_) | Err(ServiceError::McpError(_))) = answer {
            self.told().round_trip = started.elapsed();
            return true;
        }
        let mut told = self.told();
        told.status = Some(McpServerStatus::Error);
        told.error = format!("it did not answer within {} s", patience.as_secs());
        false
    }
}
