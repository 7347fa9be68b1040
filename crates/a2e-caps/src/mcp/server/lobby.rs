//! Sessions for those who come over HTTP.

use std::collections::HashMap;
use std::sync::Arc;

use a2e_runtime::{ClientError, Guest, Host};
use tokio::sync::Mutex;

use super::Session;

/// Gives agents sessions of a host in this process.
#[derive(Debug)]
pub(super) struct Lobby {
    host: Host,
    /// One for each agent whose requests stand for themselves.
    shared: Mutex<HashMap<String, Arc<Session>>>,
}

impl Lobby {
    pub(super) fn new(host: Host) -> Self {
        Self {
            host,
            shared: Mutex::default(),
        }
    }

    /// A session for one MCP session.
    pub(super) async fn begin(&self, guest: &Guest) -> Result<Arc<Session>, ClientError> {
        Session::begin(&self.host, guest).await
    }

    /// The session for all requests of an agent that belong to no MCP session. The host ends it when
    /// it was silent for long.
    pub(super) async fn shared(&self, guest: &Guest) -> Result<Arc<Session>, ClientError> {
        let agent = &guest.identity.agent;
        let mut shared = self.shared.lock().await;
        shared.retain(|_, session| !session.is_over());
        if let Some(session) = shared.get(agent) {
            return Ok(Arc::clone(session));
        }
        let session = self.begin(guest).await?;
        shared.insert(agent.clone(), Arc::clone(&session));
        Ok(session)
    }
}
