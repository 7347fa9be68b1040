//! Completions that servers behind the host want, from the model of the client whose call they work on.
#![expect(
    deprecated,
    reason = "sampling is going away in MCP, and clients of all eras are served"
)]

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use a2e_runtime::{Client, Reply};
use a2e_wire::messages::mcp::{McpSampleRequest, McpSampleResponse};
use a2e_wire::{Body, Object};
use rmcp::model::{CreateMessageRequestParams, ProtocolVersion};
use rmcp::{Peer, RoleServer};
use serde_json::{Map, Value, json};
use tokio::sync::{Mutex, mpsc};

/// The completions that are wanted of a session.
#[derive(Debug)]
pub(super) struct Samples {
    queue: Arc<Queue>,
    wanted: Mutex<mpsc::Receiver<Sample>>,
}

/// How the host's wishes get to the calls.
#[derive(Debug)]
struct Queue {
    sender: mpsc::Sender<Sample>,
    /// Calls of a client that has a model. Without one there is nobody to ask.
    calls: AtomicUsize,
}

#[derive(Debug)]
struct Sample {
    request: McpSampleRequest<'static>,
    reply: Reply,
}

/// A call during which the client can be asked, until it is dropped.
struct During<'s>(&'s Samples);

/// Completions that wait for a client's model; more are refused.
const WAITING: usize = 4;

/// How long a client may take for one.
const PATIENCE: Duration = Duration::from_secs(300);

impl Default for Samples {
    fn default() -> Self {
        let (sender, wanted) = mpsc::channel(WAITING);
        Self {
            queue: Arc::new(Queue {
                sender,
                calls: AtomicUsize::new(0),
            }),
            wanted: Mutex::new(wanted),
        }
    }
}

impl Samples {
    /// Hears what the host wants.
    pub(super) fn hear(&self, client: &Client) {
        let queue = Arc::clone(&self.queue);
        client.on_request("mcp/sample/req", move |message, reply| {
            // A reply that is dropped says that there is no answer.
            if let Body::McpSampleRequest(request) = message.body
                && queue.calls.load(Ordering::SeqCst) > 0
            {
                let _ = queue.sender.try_send(Sample { request, reply });
            }
        });
    }

    /// Has the client's model answer for as long as a call takes. It is asked by the task of that call,
    /// since what a server asks belongs to a request of its client.
    pub(super) async fn serve(&self, peer: &Peer<RoleServer>) -> Infallible {
        if !has_model(peer) {
            return std::future::pending().await;
        }
        let _during = During::of(self);
        loop {
            let wanted = self.wanted.lock().await.recv().await;
            match wanted {
                Some(sample) => sample.answer(peer).await,
                None => std::future::pending().await,
            }
        }
    }
}

impl<'s> During<'s> {
    fn of(samples: &'s Samples) -> Self {
        samples.queue.calls.fetch_add(1, Ordering::SeqCst);
        Self(samples)
    }
}

impl Drop for During<'_> {
    fn drop(&mut self) {
        // What the last call left is nobody's.
        if self.0.queue.calls.fetch_sub(1, Ordering::SeqCst) == 1
            && let Ok(mut wanted) = self.0.wanted.try_lock()
        {
            while wanted.try_recv().is_ok() {}
        }
    }
}

impl Sample {
    async fn answer(self, peer: &Peer<RoleServer>) {
        let Some(params) = params(&self.request) else {
            return;
        };
        let McpSampleRequest {
            server_id,
            mcp_request_id,
            ..
        } = self.request;
        let asked = tokio::time::timeout(PATIENCE, peer.create_message(params)).await;
        let (told, error) = match asked {
            Ok(Ok(told)) => (json!(told), String::new()),
            Ok(Err(error)) => (Value::Null, error.to_string()),
            Err(_) => (Value::Null, "the client did not answer".to_owned()),
        };
        let text = |name: &str| told[name].as_str().unwrap_or_default().to_owned();
        self.reply.send(McpSampleResponse {
            server_id,
            mcp_request_id,
            role: "assistant".into(),
            content: Object::from_serialize(&told["content"]).unwrap_or_default(),
            model: text("model").into(),
            stop_reason: text("stopReason").into(),
            error: error.into(),
        });
    }
}

/// Whether a client has a model that can be asked; those of the newer era are asked nothing.
fn has_model(peer: &Peer<RoleServer>) -> bool {
    peer.peer_info().is_some_and(|client| {
        client.capabilities.sampling.is_some()
            && client.protocol_version < ProtocolVersion::V_2026_07_28
    })
}

/// The host's wish, in the words of MCP.
fn params(request: &McpSampleRequest<'_>) -> Option<CreateMessageRequestParams> {
    let object = |one: &Object<'_>| one.raw().deserialize::<Value>().unwrap_or_default();
    let messages: Vec<Value> = request
        .messages
        .iter()
        .map(|message| json!({"role": &*message.role, "content": object(&message.content)}))
        .collect();
    let mut params = Map::new();
    params.insert("messages".into(), messages.into());
    params.insert("maxTokens".into(), request.max_tokens.into());
    params.insert("temperature".into(), request.temperature.get().into());
    params.insert(
        "includeContext".into(),
        request.include_context.as_str().into(),
    );
    if !request.system_prompt.is_empty() {
        params.insert("systemPrompt".into(), (*request.system_prompt).into());
    }
    if !request.stop_sequences.is_empty() {
        let words = request.stop_sequences.iter().map(|word| (**word).into());
        params.insert("stopSequences".into(), words.collect::<Vec<Value>>().into());
    }
    for (name, members) in [
        ("modelPreferences", object(&request.model_preferences)),
        ("metadata", object(&request.metadata)),
    ] {
        if members
            .as_object()
            .is_some_and(|members| !members.is_empty())
        {
            params.insert(name.into(), members);
        }
    }
    serde_json::from_value(params.into()).ok()
}
