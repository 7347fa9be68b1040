//! What a node can do, as intents that its peers may ask for.

mod answer;
mod episodes;
#[cfg(test)]
mod panicked;

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use a2a_net::{Call, ChunkRefused, Chunks, HandlerError, Server};
use a2e_runtime::{Failure, Host, StandIn, TraceContext};
use a2e_wire::Body;
use a2e_wire::messages::skill::SkillCallRequest;
use a2e_wire::messages::tool::ToolCallRequest;
use canonical::Value;
use policy::IntentName;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::Instrument;

use crate::error::{to_failed, to_refusal};
use crate::mapping::{self, part_of, to_object};
use crate::names::Names;
use crate::trace;
use answer::result_of;
use episodes::Episodes;

pub use answer::MAX_RESULT;
pub use episodes::MAX_KEPT;

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
    /// This skill is called; the inputs are its arguments.
    Skill(String),
    /// Something is asked of this environment; the inputs say what. Episodes are kept from one
    /// request of a peer to its next.
    Env(String),
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
    offered: Mutex<BTreeMap<IntentName, Target>>,
}

struct Offer {
    host: Host,
    names: Names,
    episodes: Episodes,
}

impl Inbound {
    /// Offers nothing yet.
    #[must_use]
    pub fn new(server: Server, host: Host, names: Names) -> Self {
        Self {
            server,
            offer: Arc::new(Offer {
                host,
                names,
                episodes: Episodes::default(),
            }),
            offered: Mutex::default(),
        }
    }

    /// Offers these, in place of all before. What runs goes on.
    pub fn set(&self, all: Vec<Exposed>) {
        let mut offered = self.offered.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::take(&mut *offered);
        for Exposed { name, target } in all {
            let (offer, done) = (Arc::clone(&self.offer), target.clone());
            self.server.register(name.clone(), move |call: Call| {
                let (offer, target) = (Arc::clone(&offer), done.clone());
                async move { offer.serve(&target, call).await }
            });
            offered.insert(name, target);
        }
        for gone in before.keys().filter(|name| !offered.contains_key(*name)) {
            self.server.unregister(gone);
        }
        let is_same = |name: &IntentName| offered.get(name) == before.get(name);
        self.offer.episodes.retain(is_same);
    }
}

impl Offer {
    async fn serve(&self, target: &Target, call: Call) -> Result<Value<'static>, HandlerError> {
        let trace = trace::of(&call.intent);
        let span = tracing::info_span!(
            "intent",
            name = %call.name,
            peer = %call.peer.did,
            request_id = %call.request_id,
            trace_id = trace.as_ref().map(TraceContext::trace_id),
            parent_id = trace.as_ref().map(TraceContext::span_id),
            error = tracing::field::Empty,
        );
        let serving = self.ask(target, call).instrument(span);
        match trace {
            Some(trace) => trace.within(serving).await,
            None => serving.await,
        }
    }

    /// Asks the host. Dropped, as when the peer cancels or its deadline passes, it is cancelled.
    async fn ask(&self, target: &Target, mut call: Call) -> Result<Value<'static>, HandlerError> {
        tracing::debug!("a peer asks");
        let trust = mapping::trust(call.peer.trust_level);
        let identity = self.names.identity(&call.peer.did, trust);
        let request = request(target, &mut call)?;
        let answer = match target {
            Target::Env(_) => {
                let lease = self.episodes.of(&self.host, &call, identity);
                // Nothing gives way to a request before it is allowed.
                let keep = || self.episodes.keep(&lease);
                converse(lease.stand_in(), request, &mut call, keep).await
            }
            Target::Tool(_) | Target::Skill(_) => {
                let stand_in = self.host.stand_in_keeping(identity, call.retention);
                let stand_in = stand_in.taking_any_size();
                converse(&stand_in, request, &mut call, || Ok(())).await
            }
        };
        result_of(answer?)
    }
}

/// What the host is asked for.
fn request(target: &Target, call: &mut Call) -> Result<Body<'static>, HandlerError> {
    let inputs = std::mem::take(&mut call.inputs);
    let streaming = call.chunks.is_open();
    let timeout = seconds_to(call.deadline);
    let correlation_id = call.intent_id.clone().unwrap_or_default().into();
    Ok(match target {
        Target::Tool(name) => Body::from(ToolCallRequest {
            tool_name: name.clone().into(),
            arguments: to_object(inputs),
            correlation_id,
            streaming,
            timeout,
            ..ToolCallRequest::new()
        }),
        Target::Skill(name) => Body::from(SkillCallRequest {
            name: name.clone().into(),
            arguments: to_object(inputs),
            correlation_id,
            streaming,
            timeout,
            ..SkillCallRequest::new()
        }),
        Target::Env(name) => episodes::request(name, inputs)?,
    })
}

/// Asks, and gives events on to a peer that wants them.
async fn converse(
    stand_in: &StandIn,
    request: Body<'static>,
    call: &mut Call,
    allowed: impl FnOnce() -> Result<(), Failure> + Send,
) -> Result<Body<'static>, HandlerError> {
    let id = call.request_id.clone();
    let begun = AtomicBool::new(false);
    let allowed = || {
        allowed()?;
        begun.store(true, Ordering::Relaxed);
        Ok(())
    };
    let answer = match call.chunks.is_open() {
        true => {
            let (events, heard) = mpsc::channel(EVENTS);
            let asking = stand_in.ask_once_allowed(id, request, Some(events), allowed);
            listen(asking, heard, &mut call.chunks).await
        }
        false => stand_in.ask_once_allowed(id, request, None, allowed).await,
    };
    answer.map_err(|failure| {
        // The message may quote the inputs, which the log outlives: the code has to do.
        tracing::info!(code = %failure.code, "a request of a peer is refused");
        tracing::Span::current().record("error", failure.code.as_str());
        match begun.load(Ordering::Relaxed) {
            true => to_failed(&failure),
            false => to_refusal(&failure),
        }
    })
}

/// Forwards events until there is a response.
async fn listen(
    asking: impl Future<Output = Result<Body<'static>, Failure>>,
    mut heard: mpsc::Receiver<Body<'static>>,
    chunks: &mut Chunks,
) -> Result<Body<'static>, Failure> {
    let mut asking = pin!(asking);
    let mut seq = 0;
    let answer = loop {
        tokio::select! {
            biased;
            Some(event) = heard.recv() => tell(chunks, &event, &mut seq).await,
            answer = &mut asking => break answer,
        }
    };
    while let Ok(event) = heard.try_recv() {
        tell(chunks, &event, &mut seq).await;
    }
    answer
}

/// Sends an event as a part of the answer, the next number on it as on events of a session.
async fn tell(chunks: &mut Chunks, event: &Body<'static>, seq: &mut i64) {
    let Some(part) = part_of(event, *seq) else {
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
            if let Some(Ok(note)) = part_of(&Body::from(mapping::status(&text)), *seq) {
                let _ = chunks.send(note).await;
            }
        }
        // Nobody reads any more, and the work is about to be dropped.
        Err(refused) => tracing::debug!(%refused, "an event is not sent"),
    }
    *seq = seq.saturating_add(1);
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
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn seconds_are_whole_and_never_none() {
        let now = Instant::now();
        for (millis, seconds) in [(0, 1), (1, 1), (1000, 1), (1001, 2), (300_000, 300)] {
            assert_eq!(seconds_to(now + Duration::from_millis(millis)), seconds);
        }
    }
}
