//! Who does what peers ask for: handlers, by canonical intent name.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use a2a_identity::TrustLevel;
use a2a_session::{Binding, Failure, Holder};
use a2a_wire::{ErrorCode, Reason};
use canonical::{Object, Value};
use policy::{IntentName, Retention};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::chunks::Chunks;

/// Work on a request, on its way to a result.
pub type Handling = Pin<Box<dyn Future<Output = Result<Value<'static>, HandlerError>> + Send>>;

/// Does what an intent asks for.
///
/// The future is dropped when the request is cancelled or its deadline passes; work that goes on
/// elsewhere must watch [`Call::cancelled`]. A panic is answered with an incident number.
///
/// Work with an `intent_id` that was cut off in this way is never done again: a retry gets
/// `REPLAY_DETECTED` with the reason `already_executed`.
///
/// A closure that takes a [`Call`] and gives a future is one too.
pub trait Handler: Send + Sync + 'static {
    /// Does it.
    fn call(self: Arc<Self>, call: Call) -> Handling;
}

impl<F, W> Handler for F
where
    F: Fn(Call) -> W + Send + Sync + 'static,
    W: Future<Output = Result<Value<'static>, HandlerError>> + Send + 'static,
{
    fn call(self: Arc<Self>, call: Call) -> Handling {
        Box::pin(self(call))
    }
}

/// A request that passed every check.
#[derive(Debug)]
pub struct Call {
    /// The handler's own name, which the request was resolved to.
    pub name: IntentName,
    /// The intent as it came.
    pub intent: Value<'static>,
    /// Its inputs.
    pub inputs: Object<'static>,
    /// The id of the request, which the records of both sides have.
    pub request_id: String,
    /// Names the work, if it has a name; the same work is never handed out twice.
    pub intent_id: Option<String>,
    /// Who asks.
    pub peer: PeerView,
    /// Who is counted for what the peer keeps at this node.
    pub holder: Holder,
    /// When it is over.
    pub deadline: Instant,
    /// Is cancelled when nobody waits for the result any more.
    pub cancelled: CancellationToken,
    /// How long anything of this request may be kept.
    pub retention: Retention,
    /// Where parts of the answer go, if the peer asked for parts.
    pub chunks: Chunks,
}

/// Who asks, as a handshake has proven.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerView {
    /// Its canonical DID.
    pub did: String,
    /// How much it is trusted.
    pub trust_level: TrustLevel,
    /// How strongly it binds what it signs.
    pub binding: Binding,
    /// Whether its messages are encrypted.
    pub encrypted: bool,
}

/// Why a handler did not do it. Causes are words of the program, so that nothing of a request gets
/// into an answer or a record.
///
/// [`Invalid`](Self::Invalid), [`Denied`](Self::Denied), [`Unsupported`](Self::Unsupported),
/// [`Unavailable`](Self::Unavailable) and [`TooOften`](Self::TooOften) say that nothing was done: a
/// retry with the same `intent_id` is handed to the handler again. A handler that fails like that
/// after it has begun wraps the error in [`Started`](Self::Started).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HandlerError {
    /// The inputs are not what it takes.
    #[error("`{field}`: {cause}")]
    Invalid {
        /// Which member of the intent.
        field: &'static str,
        /// What is wrong with it.
        cause: &'static str,
    },
    /// It may not be done for this peer.
    #[error("{0}")]
    Denied(&'static str),
    /// It cannot be done by this node.
    #[error("{0}")]
    Unsupported(&'static str),
    /// Not now.
    #[error("{0}")]
    Unavailable(&'static str),
    /// It came more often than it may.
    #[error("{cause}")]
    TooOften {
        /// Why.
        cause: &'static str,
        /// The second at which the next may come, if that is known.
        reset_at: Option<u64>,
    },
    /// It took longer than it may, and was cut off.
    #[error("{0}")]
    TimedOut(&'static str),
    /// Something here is broken; the peer is told an incident number. A retry with the same
    /// `intent_id` gets the same answer.
    #[error("{0}")]
    Failed(&'static str),
    /// It was cut off, and how far it came is not known; the peer is told an incident number. A retry
    /// with the same `intent_id` gets `REPLAY_DETECTED`.
    #[error("{0}")]
    Interrupted(&'static str),
    /// It failed like this after it had begun, so that something may have been done. A retry with the
    /// same `intent_id` gets the same answer.
    #[error("{0}")]
    Started(Box<Self>),
}

impl HandlerError {
    /// As a peer is told, and as the record has it.
    pub(super) fn into_failure(self, incident: &str) -> Failure {
        match self {
            Self::Invalid { field, cause } => Failure::invalid_intent(field, cause),
            Self::Denied(cause) => {
                Failure::new(ErrorCode::PolicyViolation, cause).because(Reason::IntentNotAllowed)
            }
            Self::Unsupported(cause) => Failure::new(ErrorCode::UnsupportedCapability, cause),
            Self::Unavailable(cause) => Failure::unavailable(cause),
            Self::TooOften { cause, reset_at } => Failure::too_often(reset_at, cause),
            Self::TimedOut(cause) => Failure::new(ErrorCode::Timeout, cause),
            Self::Failed(cause) | Self::Interrupted(cause) => Failure::internal(incident, cause),
            Self::Started(error) => error.into_failure(incident),
        }
    }
}

/// The handlers of a node.
#[derive(Clone, Default)]
pub(super) struct Handlers(BTreeMap<IntentName, Arc<dyn Handler>>);

impl Handlers {
    pub(super) fn insert(&mut self, name: IntentName, handler: Arc<dyn Handler>) {
        self.0.insert(name, handler);
    }

    pub(super) fn remove(&mut self, name: &IntentName) {
        self.0.remove(name);
    }

    /// The one that serves a request, by its own name.
    pub(super) fn resolve(&self, requested: &IntentName) -> Option<IntentName> {
        requested.resolve(self.0.keys()).cloned()
    }

    pub(super) fn get(&self, name: &IntentName) -> Option<Arc<dyn Handler>> {
        self.0.get(name).cloned()
    }
}

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
