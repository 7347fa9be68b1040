//! Tools that are intents of other agents.
//!
//! Each is as its operator describes it: whatever the other agent says of itself, nothing of it gets
//! into a definition. Who answers is proven, and what comes back is a result like any other.

use std::sync::Arc;
use std::time::Duration;

use a2e_runtime::config::{Peer, PeerIntent};
use a2e_runtime::{BoxFuture, PeerRequest, Peers};
use a2e_wire::Object;
use a2e_wire::messages::base::Event;
use serde_json::json;
use tokio::sync::mpsc;

use crate::tool::{Call, Definition, DefinitionError, Output, Progress, Tool, ToolFailure};

/// Events of a peer that wait to be given on.
const EVENTS: usize = 8;

/// A tool that is an intent of another agent.
struct Asking {
    definition: Definition,
    did: String,
    intent: String,
    domain: Option<String>,
    encrypt: bool,
    timeout: Duration,
    peers: Arc<dyn Peers>,
}

/// The tools of a peer.
///
/// # Errors
/// If one cannot be described like that.
pub fn tools(peer: &Peer, peers: &Arc<dyn Peers>) -> Result<Vec<Arc<dyn Tool>>, DefinitionError> {
    let tool = |asked: &PeerIntent| {
        let tool: Arc<dyn Tool> = Arc::new(Asking {
            definition: definition(peer, asked)?,
            did: peer.did.clone(),
            intent: asked.intent.to_string(),
            domain: asked.domain.clone(),
            encrypt: peer.encrypt,
            timeout: asked.timeout,
            peers: Arc::clone(peers),
        });
        Ok(tool)
    };
    peer.intents.iter().map(tool).collect()
}

fn definition(peer: &Peer, asked: &PeerIntent) -> Result<Definition, DefinitionError> {
    let schema = json!({
        "type": "object", "additionalProperties": false,
        "required": asked.required, "properties": asked.parameters,
    });
    let tags = asked.tags.iter().cloned();
    let tags = tags.chain(["peer".to_owned(), peer.name.clone()]);
    // Whoever knows the other agent finds it by what is proven.
    let tags = tags.chain([peer.did.clone(), asked.intent.to_string()]);
    let definition = Definition::new(asked.tool.clone(), asked.description.clone(), &schema)?;
    let definition = definition.tags(tags).streaming();
    Ok(match asked.read_only {
        true => definition.read_only().volatile(),
        false => definition,
    })
}

impl Tool for Asking {
    fn definition(&self) -> &Definition {
        &self.definition
    }

    fn call(&self, call: Call) -> BoxFuture<'_, Result<Output, ToolFailure>> {
        Box::pin(async move {
            let Call {
                arguments,
                progress,
                ..
            } = call;
            let (events, heard) = mpsc::channel(EVENTS);
            let asking = self.peers.ask(PeerRequest {
                did: self.did.clone(),
                intent: self.intent.clone(),
                domain: self.domain.clone(),
                inputs: Object::new(arguments.raw().clone()).unwrap_or_default(),
                timeout: self.timeout,
                encrypt: self.encrypt,
                request_id: progress.request_id().to_owned(),
                events: progress.is_heard().then_some(events),
            });
            // The channel ends with the call: whoever asks has its only sender.
            let (answer, ()) = tokio::join!(asking, give_on(heard, &progress));
            let answer = answer?;
            Ok(Output {
                data: answer.result,
                summary: None,
                truncated: false,
                error: answer
                    .is_failure
                    .then(|| "the tool of the peer failed".into()),
            })
        })
    }
}

async fn give_on(mut heard: mpsc::Receiver<Event<'static>>, progress: &Progress) {
    while let Some(event) = heard.recv().await {
        progress.event(event).await;
    }
}

#[cfg(test)]
mod tests;
