//! What the requests of an MCP client become.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use a2e_runtime::{AgentConfig, CallOptions, Client, ClientError, Guest, Handler, Host};
use a2e_wire::messages::memory::MemoryInitRequest;
use a2e_wire::{Body, Capability, Decoder, MemoryId, Sender, SessionId};
use rmcp::ErrorData;
use rmcp::model::JsonObject;
use serde_json::Value;
use tokio::sync::Mutex;

use super::notices::Notices;
use super::output::Outputs;
use super::resources::Artifacts;
use super::sampling::Samples;
use super::wording::for_mcp;

/// The A2E session of an agent that speaks MCP.
#[derive(Debug)]
pub struct Session {
    pub(super) client: Client,
    pub(super) artifacts: Artifacts,
    pub(super) outputs: Arc<Outputs>,
    pub(super) notices: Notices,
    pub(super) samples: Samples,
    /// The memories that were opened, by namespace.
    memories: Mutex<HashMap<String, MemoryId<'static>>>,
    /// The session of the host that was last asked to tell of changes.
    listening: Mutex<Option<SessionId<'static>>>,
}

/// The capabilities that MCP can show.
const WANTED: [&str; 6] = ["tools", "memory", "env", "proc", "skill", "mcp"];

/// How many memories are remembered as open.
const MAX_MEMORIES: usize = 64;

/// The members of a message that are about the message.
const ENVELOPE: [&str; 7] = ["a2e", "version", "type", "id", "ts", "req_id", "eid"];

impl Session {
    /// The capabilities to connect with.
    #[must_use]
    pub const fn wanted() -> [&'static str; 6] {
        WANTED
    }

    /// What MCP sees of a session, which was begun with [`Session::wanted`].
    #[must_use]
    pub fn of(client: Client) -> Arc<Self> {
        let (notices, samples) = (Notices::default(), Samples::default());
        notices.hear(&client);
        samples.hear(&client);
        Arc::new(Self {
            client,
            artifacts: Artifacts::default(),
            outputs: Arc::default(),
            notices,
            samples,
            memories: Mutex::default(),
            listening: Mutex::default(),
        })
    }

    /// Begins a session of a host in this process, as the agent that asks.
    pub(super) async fn begin(host: &Host, guest: &Guest) -> Result<Arc<Self>, ClientError> {
        let config = AgentConfig {
            agent_id: "mcp".into(),
            auth_token: guest.token.clone(),
            wanted: WANTED.map(Into::into).into(),
            ..AgentConfig::default()
        };
        let client = host.connect(config, guest.source, Handler::none()).await?;
        Ok(Self::of(client))
    }

    /// Keeps the session, until the host ends it all the same: who listens is not silent.
    pub(super) async fn stay(&self) {
        loop {
            tokio::time::sleep(STAYING).await;
            if self.client.ping().await.is_err() {
                return;
            }
        }
    }

    /// Whether the host has ended it.
    pub(super) fn is_over(&self) -> bool {
        self.client.is_closed()
    }

    /// Has the host tell of changes. A host that was started again is asked again.
    pub(super) async fn listen(&self) {
        let mut listening = self.listening.lock().await;
        let session = Some(self.client.session_id());
        if *listening != session {
            super::behind::listen(self).await;
            *listening = session;
        }
    }

    /// Whether the host has this capability.
    pub(super) fn has(&self, capability: &Capability<'_>) -> bool {
        let accepted = self.client.capability(capability.as_str());
        accepted.is_some_and(|accepted| accepted.enabled)
    }

    /// Makes a request of these members; gives the members of the response.
    pub(super) async fn ask(
        &self,
        kind: &str,
        mut members: JsonObject,
        event_callback: Handler,
    ) -> Result<JsonObject, Refusal> {
        members.insert("type".into(), kind.into());
        members.insert("id".into(), "1".into());
        let line = Value::Object(members).to_string();
        let decoded =
            Decoder::default().decode(line.as_bytes(), Sender::Agent, crate::tools::now());
        let body: Body<'static> = decoded
            .map_err(|error| Refusal::Arguments(error.to_string()))?
            .into_owned()
            .body;
        let options = CallOptions {
            timeout: PATIENCE,
            event_callback,
        };
        let response = self.client.rpc(body, options).await?;
        let line = Client::encode(&response);
        let Ok(Value::Object(mut members)) = serde_json::from_slice(&line) else {
            return Ok(JsonObject::new());
        };
        for name in ENVELOPE {
            members.remove(name);
        }
        Ok(members)
    }

    /// The memory of a namespace.
    pub(super) async fn memory(&self, namespace: &str) -> Result<MemoryId<'static>, Refusal> {
        let mut memories = self.memories.lock().await;
        if let Some(id) = memories.get(namespace) {
            return Ok(id.clone());
        }
        let request = MemoryInitRequest {
            namespace: namespace.to_owned().into(),
            ..MemoryInitRequest::new()
        };
        let opened = self.client.request(request).await?;
        // Opening one again gives the same.
        if memories.len() >= MAX_MEMORIES {
            memories.clear();
        }
        memories.insert(namespace.to_owned(), opened.memory_id.clone());
        Ok(opened.memory_id)
    }
}

/// Why the host has not done something.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    /// What was asked makes no request.
    #[error("{0}")]
    Arguments(String),
    /// The host said no, or cannot be asked.
    #[error(transparent)]
    Host(#[from] ClientError),
}

impl From<Refusal> for ErrorData {
    fn from(refusal: Refusal) -> Self {
        match &refusal {
            Refusal::Arguments(text) => Self::invalid_params(for_mcp(text), None),
            Refusal::Host(ClientError::Host(error)) => {
                let data = serde_json::json!({
                    "code": error.code.as_str(),
                    "retryable": error.retryable,
                    "detail": error.detail.raw().deserialize::<Value>().unwrap_or_default(),
                });
                Self::internal_error(for_mcp(&error.message), Some(data))
            }
            Refusal::Host(error) => Self::internal_error(error.to_string(), None),
        }
    }
}

/// How often the host hears of somebody who only listens.
const STAYING: Duration = Duration::from_secs(10 * 60);

/// How long the host may take for what is no call of a tool.
const PATIENCE: Duration = Duration::from_secs(60);
