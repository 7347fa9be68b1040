//! Who connects, and what an agent's session allows.

use std::collections::BTreeMap;
use std::time::Duration;

use a2e_wire::{AgentId, MessageKind};

/// Who connects, and what for.
#[derive(Clone)]
pub struct AgentConfig {
    /// What the agent calls itself.
    pub agent_id: AgentId<'static>,
    /// Its credential; empty if the host asks for none.
    pub auth_token: String,
    /// The capabilities it wants to use.
    pub wanted: Vec<String>,
    /// How long the host may take to answer the handshake.
    pub handshake: Duration,
    /// How long a tool call may take in all, if its events keep coming. One that is given more time
    /// without events has that.
    pub progress: Duration,
    /// Calls without a response; the next one is refused.
    pub max_pending: usize,
    /// Bytes not yet taken by the transport and, in a session that can be resumed, of requests
    /// without a response.
    pub max_outbound: usize,
    /// Events of a call that are kept for an error that names them.
    pub max_events: usize,
    /// Bytes of such events.
    pub max_event_bytes: usize,
    /// What messages of types beside the catalogue are, by type.
    pub type_registry: BTreeMap<String, MessageKind>,
    /// Requests are kept until they are answered, to be sent again over another connection.
    pub resumable: bool,
}

impl std::fmt::Debug for AgentConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentConfig")
            .field("agent_id", &self.agent_id)
            .field("wanted", &self.wanted)
            .finish_non_exhaustive()
    }
}

impl Default for AgentConfig {
    fn default() -> Self {
        Self {
            agent_id: "agent".into(),
            auth_token: String::new(),
            wanted: Vec::new(),
            handshake: Duration::from_secs(30),
            // A host ends such a call after an hour, unless it is told otherwise.
            progress: Duration::from_secs(3600 + 5),
            max_pending: 10_000,
            max_outbound: 8 * 1024 * 1024,
            max_events: 1000,
            max_event_bytes: 1024 * 1024,
            type_registry: BTreeMap::new(),
            resumable: false,
        }
    }
}
