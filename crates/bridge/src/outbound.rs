//! Peers, as the A2E side asks them.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use a2a_identity::{Did, Peer};
use a2a_net::{CallOptions, Client, Couriers, Encrypt, Entropy, FailedWork, NameWork, Provisional};
use a2e_runtime::{BoxFuture, Failure, PeerAnswer, PeerRequest, Peers, TraceContext};
use a2e_wire::messages::base::Event;
use a2e_wire::{ErrorCode, Namespace};
use canonical::{Object, Value};
use policy::IntentName;
use tokio::sync::mpsc;
use tracing::Instrument;

use crate::error::to_failure;
use crate::mapping::{self, event_of, status, to_raw, to_tree};
use crate::outcome::Outcome;
use crate::trace;

/// Parts of an answer that wait to be told. A slow agent slows the peer down.
const PARTS: usize = 8;

/// Asks peers over A2A: by DID, with a session that is kept, and once whatever happens.
pub struct Outbound<C: Couriers> {
    client: Client<C>,
    /// For ids of traces.
    entropy: Entropy,
    /// DIDs that were asked, so that they are not read again: a key is a point to be found on its
    /// curve.
    known: Mutex<HashMap<String, Did>>,
}

/// DIDs that are known at once; as many as a configuration is likely to have.
const KNOWN: usize = 256;

impl<C: Couriers> Outbound<C> {
    /// Asks with this client.
    #[must_use]
    pub fn new(client: Client<C>, entropy: Entropy) -> Self {
        Self {
            client,
            entropy,
            known: Mutex::default(),
        }
    }

    fn did(&self, text: &str) -> Result<Did, Failure> {
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(did) = known().get(text) {
            return Ok(did.clone());
        }
        let did = Did::parse(text, Peer::Profile).map_err(|error| {
            let text = format!("`{text}` cannot be asked: {error}");
            Failure::new(ErrorCode::InvalidMessage, Namespace::Tool, text)
        })?;
        let mut known = known();
        if known.len() >= KNOWN {
            known.clear();
        }
        known.insert(text.to_owned(), did.clone());
        Ok(did)
    }

    async fn call(&self, asked: PeerRequest) -> Result<PeerAnswer, Failure> {
        let did = self.did(&asked.did)?;
        let inputs = to_tree(asked.inputs.raw()).map_err(|no_form| {
            let text = format!("the arguments cannot be sent to a peer: {no_form}");
            Failure::new(ErrorCode::SchemaViolation, Namespace::Tool, text)
        })?;
        let trace = trace::next(&self.entropy);
        let span = tracing::info_span!(
            "peer_call",
            intent = asked.intent,
            peer = %did,
            request_id = asked.request_id,
            trace_id = trace.as_ref().map(TraceContext::trace_id),
            span_id = trace.as_ref().map(TraceContext::span_id),
            error = tracing::field::Empty,
        );
        let mut intent = Object::default();
        let (domain, goal) = IntentName::split(&asked.intent, asked.domain.as_deref());
        intent.insert("goal", Value::String(goal.to_owned().into()));
        if !domain.is_empty() {
            intent.insert("domain", Value::String(domain.to_owned().into()));
        }
        intent.insert("inputs", inputs);
        if let Some(trace) = &trace {
            intent.insert("extensions", trace::extensions(trace));
        }
        let (chunks, telling) = match asked.events {
            Some(events) => {
                let (chunks, parts) = mpsc::channel(PARTS);
                (Some(chunks), Some(tell(parts, events)))
            }
            None => (None, None),
        };
        let options = CallOptions {
            timeout: asked.timeout.max(Duration::from_millis(1)),
            encrypt: match asked.encrypt {
                true => Encrypt::Required,
                false => Encrypt::AsAgreed,
            },
            name_work: NameWork::Yes,
            // A tool that failed may have done something; its agent decides whether to call it again.
            failed_work: FailedWork::Leave,
            chunks,
            correlation_id: Some(asked.request_id),
            setbacks: None,
        };
        let calling = async {
            tracing::debug!("a peer is asked");
            let called = self
                .client
                .call(&did, Value::Object(intent), &options)
                .await;
            // So that nobody waits for more parts.
            drop(options);
            if let Err(error) = &called {
                tracing::Span::current().record("error", error.code().as_str());
            }
            called
        };
        let calling = calling.instrument(span);
        let called = match telling {
            Some(telling) => tokio::join!(calling, telling).0,
            None => calling.await,
        };
        let answered = called.map_err(|error| to_failure(&asked.did, &error))?;
        let outcome = Outcome::of_result(&answered.result);
        Ok(PeerAnswer {
            is_failure: outcome.is_failure(),
            result: to_raw(outcome.result()),
            trust: mapping::trust(answered.session.trust_level),
            attempts: answered.attempts,
        })
    }
}

impl<C: Couriers> Peers for Outbound<C> {
    fn ask(&self, asked: PeerRequest) -> BoxFuture<'_, Result<PeerAnswer, Failure>> {
        Box::pin(self.call(asked))
    }
}

/// Tells of the parts of an answer as they come.
async fn tell(mut parts: mpsc::Receiver<Provisional>, to: mpsc::Sender<Event<'static>>) {
    let mut attempt = 1;
    while let Some(part) = parts.recv().await {
        if part.attempt != attempt {
            attempt = part.attempt;
            let again = status("the peer is asked again; its events begin anew");
            let _ = to.send(again).await;
        }
        // Who no longer listens still gets the answer.
        let _ = to.send(event_of(&part.data)).await;
    }
}

impl<C: Couriers> fmt::Debug for Outbound<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Outbound").field(&self.client).finish()
    }
}
