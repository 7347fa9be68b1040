//! What a node can do, as intents that its peers may ask for.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use a2a_net::{Call, ChunkRefused, Chunks, HandlerError, Server};
use a2e_runtime::Host;
use a2e_wire::Body;
use a2e_wire::messages::tool::{ToolCallRequest, ToolCallResponse};
use canonical::Value;
use policy::IntentName;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::Instrument;

use crate::error::to_refusal;
use crate::mapping::{self, NoForm, part_of, to_object, to_tree};
use crate::names::Names;
use crate::trace::{CURRENT, Trace};

/// Bytes of a result that a peer is sent; half of what clients take in one message.
pub const MAX_RESULT: usize = 8 * 1024 * 1024;

/// Events that wait to be sent. A slow peer slows the target down.
const EVENTS: usize = 16;

/// Something that peers may ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exposed {
    /// By which name.
    pub name: IntentName,
    /// What is done then.
    pub target: Target,
}

/// What is done for an intent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// This tool is called; the inputs are its arguments.
    Tool(String),
}

/// Answers intents of peers by asking the A2E host in their names.
///
/// A peer passes the policy of its A2A session first. Then its request goes the way of every other:
/// through the node's rules, where it is known by its DID, its trust level and the agent that has its
/// DID ([`Names`]), past the operator if a rule holds it, and onto the record under the id that it
/// has over A2A.
#[derive(Debug)]
pub struct Inbound {
    server: Server,
    offer: Arc<Offer>,
    names: Mutex<BTreeSet<IntentName>>,
}

struct Offer {
    host: Host,
    names: Names,
}

impl Inbound {
    /// Offers nothing yet.
    #[must_use]
    pub fn new(server: Server, host: Host, names: Names) -> Self {
        Self {
            server,
            offer: Arc::new(Offer { host, names }),
            names: Mutex::default(),
        }
    }

    /// Offers these, in place of all before. What runs goes on.
    pub fn set(&self, all: Vec<Exposed>) {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::take(&mut *names);
        for Exposed { name, target } in all {
            let offer = Arc::clone(&self.offer);
            self.server.register(name.clone(), move |call: Call| {
                let (offer, target) = (Arc::clone(&offer), target.clone());
                async move { offer.serve(&target, call).await }
            });
            names.insert(name);
        }
        for gone in before.difference(&names) {
            self.server.unregister(gone);
        }
    }
}

impl Offer {
    async fn serve(&self, target: &Target, call: Call) -> Result<Value<'static>, HandlerError> {
        let trace = Trace::of(&call.intent);
        let span = tracing::info_span!(
            "intent",
            name = %call.name,
            peer = %call.peer.did,
            request_id = %call.request_id,
            trace_id = trace.as_ref().map(|trace| trace.trace_id.as_str()),
            parent_id = trace.as_ref().map(|trace| trace.span_id.as_str()),
        );
        let serving = self.ask(target, call).instrument(span);
        match trace {
            Some(trace) => CURRENT.scope(trace, serving).await,
            None => serving.await,
        }
    }

    /// Asks the host. Dropped, as when the peer cancels or its deadline passes, it is cancelled.
    async fn ask(&self, target: &Target, mut call: Call) -> Result<Value<'static>, HandlerError> {
        tracing::debug!("a peer asks");
        let trust = mapping::trust(call.peer.trust_level);
        let identity = self.names.identity(&call.peer.did, trust);
        let stand_in = self.host.stand_in(identity).taking_any_size();
        let streaming = call.chunks.is_open();
        let request = match target {
            Target::Tool(name) => ToolCallRequest {
                tool_name: name.clone().into(),
                arguments: to_object(std::mem::take(&mut call.inputs)),
                correlation_id: call.intent_id.clone().unwrap_or_default().into(),
                streaming,
                timeout: seconds_to(call.deadline),
                ..ToolCallRequest::new()
            },
        };
        let (events, mut heard) = mpsc::channel(EVENTS);
        let events = streaming.then_some(events);
        let mut asking = pin!(stand_in.ask(call.request_id, request, events));
        let answer = loop {
            tokio::select! {
                biased;
                Some(event) = heard.recv() => tell(&mut call.chunks, &event).await,
                answer = &mut asking => break answer,
            }
        };
        while let Ok(event) = heard.try_recv() {
            tell(&mut call.chunks, &event).await;
        }
        let answer = answer.map_err(|failure| {
            tracing::info!(code = %failure.code, "a peer is refused: {}", failure.message);
            to_refusal(&failure)
        })?;
        result_of(answer)
    }
}

/// Sends an event as a part of the answer.
async fn tell(chunks: &mut Chunks, event: &Body<'static>) {
    let Some(part) = part_of(event) else {
        return;
    };
    let sent = match part {
        Ok(part) => chunks.send(part).await,
        Err(no_form) => return tracing::debug!(%no_form, "an event is left out"),
    };
    match sent {
        Ok(()) => {}
        Err(refused @ ChunkRefused::TooLarge { .. }) => {
            // Whoever reads the events should know that one is missing.
            let text = format!("an event was left out: {refused}");
            if let Some(Ok(note)) = part_of(&Body::from(mapping::status(&text))) {
                let _ = chunks.send(note).await;
            }
        }
        // Nobody reads any more, and the work is about to be dropped.
        Err(refused) => tracing::debug!(%refused, "an event is not sent"),
    }
}

fn result_of(answer: Body<'static>) -> Result<Value<'static>, HandlerError> {
    let Body::ToolCallResponse(response) = answer else {
        return Err(HandlerError::Failed("the target answered something else"));
    };
    let ToolCallResponse { data: result, .. } = response;
    let Some(data) = result
        .data
        .filter(|data| result.success || *data != a2e_wire::Raw::NULL)
    else {
        return match result.success {
            true => Ok(Value::Null),
            false => Err(HandlerError::Failed("the tool failed")),
        };
    };
    if data.as_str().len() > MAX_RESULT {
        return Err(HandlerError::Failed("the result is too large to be sent"));
    }
    to_tree(&data).map_err(|no_form: NoForm| {
        tracing::info!(%no_form, "a result cannot be sent to a peer");
        HandlerError::Failed("the result has no form in A2A")
    })
}

/// Whole seconds up to a moment, as tool calls have them.
fn seconds_to(deadline: Instant) -> i64 {
    let left = deadline.saturating_duration_since(Instant::now());
    let whole = left.saturating_add(Duration::from_millis(999)).as_secs();
    i64::try_from(whole).unwrap_or(i64::MAX).max(1)
}

impl std::fmt::Debug for Offer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Offer").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use a2e_wire::messages::tool::ToolResult;
    use a2e_wire::{Raw, Timestamp};

    use super::*;

    fn answered(data: Option<&str>, success: bool) -> Result<Value<'static>, HandlerError> {
        let data = data.map(|text| Raw::parse(text, a2e_wire::OWN_VALUES).unwrap().into_owned());
        let result = ToolResult {
            data,
            ..ToolResult::new(success, "t".into(), 1)
        };
        result_of(Body::from(ToolCallResponse::new(
            result,
            Timestamp::default(),
        )))
    }

    #[test]
    fn a_result_is_what_the_tool_gave() {
        assert_eq!(
            answered(Some("5"), true).map(|it| it.to_canonical()),
            Ok(b"5".to_vec())
        );
        assert_eq!(answered(None, true), Ok(Value::Null));
        // A command that ended with 1 has a result that says so.
        assert!(answered(Some(r#"{"exit_code":1}"#), false).is_ok());
        assert!(answered(Some("null"), false).is_err());
        assert!(answered(None, false).is_err());
        assert!(answered(Some("9007199254740992"), true).is_err());
    }

    #[test]
    fn a_result_has_a_limit() {
        let text = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2));
        assert!(answered(Some(&text(MAX_RESULT)), true).is_ok());
        let refused = answered(Some(&text(MAX_RESULT + 1)), true);
        assert_eq!(
            refused,
            Err(HandlerError::Failed("the result is too large to be sent"))
        );
    }

    #[tokio::test(start_paused = true)]
    async fn seconds_are_whole_and_never_none() {
        let now = Instant::now();
        for (millis, seconds) in [(0, 1), (1, 1), (1000, 1), (1001, 2), (300_000, 300)] {
            assert_eq!(seconds_to(now + Duration::from_millis(millis)), seconds);
        }
    }
}
