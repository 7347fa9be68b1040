//! A session at its client (§10.4): which answer belongs to which question.

mod answers;
mod baseline;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use a2a_identity::{KeySet, NoRandomness, Randomness};
use a2a_wire::{
    Cancel, Close, ControlPayload, Count, Digest, Intent, Kind, Message, Read as _, Request,
    RequestId, RequestPayload,
};
use canonical::Value;
use policy::{Policy, TokenBucket};

pub use self::answers::{ClientEvent, Dropped};
use self::baseline::SignedIntent;
use super::Counter;
use super::requests::Stream;
use crate::config::Baseline;
use crate::failure::Binding;
use crate::replay::Window;
use crate::{Established, Failure, Now};

/// Requests of one session that wait for an answer at once.
const OUTSTANDING: usize = 1024;
/// Bytes of an answer, and of all its parts together.
pub const ANSWER: usize = 16 * 1024 * 1024;

/// A session at its client.
///
/// `request`, `cancel` and `close` make messages; `handle_message` takes what comes back.
#[derive(Debug)]
pub struct ClientSession {
    terms: Arc<Established<Policy>>,
    /// The keys of the server, if they were looked up again since.
    renewed: Option<KeySet>,
    sent: Counter,
    window: Window,
    outstanding: BTreeMap<String, Outstanding>,
    /// Keeps to the agreed rate, so that the server need not refuse.
    limiter: Option<TokenBucket>,
    last_answer: Duration,
    over: bool,
}

/// A question without its answer.
#[derive(Debug)]
struct Outstanding {
    request_hash: Digest,
    closes: bool,
    stream: Option<Stream>,
}

/// A message to send, and the id its answer will have.
#[derive(Debug, Clone, PartialEq)]
pub struct Outgoing {
    /// The id.
    pub request_id: RequestId,
    /// The message.
    pub message: Vec<u8>,
}

/// Why a request is not made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CallError {
    /// The session is over: shake hands again.
    #[error("the session is over")]
    Over,
    /// The agreed rate leaves no room now.
    #[error("the agreed rate leaves no room for {} ms", .0.as_millis())]
    RateLimited(Duration),
    /// Too many requests wait for an answer.
    #[error("too many requests wait for an answer")]
    TooMany,
    /// The message would not be smaller than the agreed `max_payload_size`.
    #[error("the request has {size} bytes; the server takes less than {limit}")]
    TooLarge {
        /// Its bytes.
        size: u64,
        /// What it must be smaller than.
        limit: u64,
    },
    /// The intent is not one.
    #[error("{0}")]
    Intent(Failure),
    /// The server speaks the base specification alone, which has no such message.
    #[error("the server does not know this message")]
    Unsupported,
    /// There is no randomness.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
}

impl ClientSession {
    /// The session of a finished handshake.
    #[must_use]
    pub fn new(now: Now, established: Established<Policy>) -> Self {
        let rate = established.policy.policy().rate();
        Self {
            limiter: rate.map(|rate| TokenBucket::new(rate, now.monotonic)),
            terms: Arc::new(established),
            renewed: None,
            sent: Counter::default(),
            window: Window::default(),
            outstanding: BTreeMap::new(),
            last_answer: now.monotonic,
            over: false,
        }
    }

    /// Asks for something: one signature.
    ///
    /// # Errors
    /// Why it is not asked.
    pub fn request(
        &mut self,
        now: Now,
        intent: Value<'static>,
        random: &mut dyn Randomness,
    ) -> Result<Outgoing, CallError> {
        self.check_open(now)?;
        let read = Intent::read(&intent).map_err(|error| CallError::Intent(error.into()))?;
        let stream = read.constraints.and_then(|it| it.stream) == Some(true);
        let request_id = request_id(random)?;
        let message = Request {
            session_id: (&self.terms.session_id).into(),
            request_id: (&request_id).into(),
            intent: Some(intent),
            request_jws: None,
            enc: None,
        };
        if let Some(limiter) = &mut self.limiter {
            let taken = limiter.take(now.monotonic);
            taken.map_err(|exceeded| CallError::RateLimited(exceeded.retry_after))?;
        }
        let seq = self.next()?;
        let tree = Message::Request(message).into_object();
        let (message, hash) = match self.terms.binding {
            Binding::Profile => {
                let payload = |hash| self.request_payload(now, &request_id, seq, hash);
                self.terms.finish(Kind::Request, tree, seq, payload)
            }
            Binding::Baseline => {
                let bound = self.terms.baseline == Baseline::Bound;
                let payload = SignedIntent::of(&tree, bound);
                self.terms.finish(Kind::Request, tree, seq, |_| payload)
            }
        };
        self.check_size(&message)?;
        let streamed = stream && self.terms.features.stream;
        let outstanding = Outstanding {
            request_hash: hash,
            closes: false,
            stream: streamed.then(|| Stream::new(&hash)),
        };
        self.outstanding.insert(request_id.to_string(), outstanding);
        Ok(Outgoing {
            request_id,
            message,
        })
    }

    /// Gives a request up.
    ///
    /// # Errors
    /// Why that is not said.
    pub fn cancel(
        &mut self,
        now: Now,
        target: &RequestId,
        random: &mut dyn Randomness,
    ) -> Result<Outgoing, CallError> {
        if !self.terms.features.cancel {
            return Err(CallError::Unsupported);
        }
        let request_id = self.begin_control(now, random)?;
        let message = Cancel {
            session_id: (&self.terms.session_id).into(),
            request_id: (&request_id).into(),
            target_request_id: Some(target.into()),
            control_jws: None,
            enc: None,
        };
        self.control(now, Kind::Cancel, Message::Cancel(message), request_id)
    }

    /// Ends the session; it is over when the server confirms, or does not answer.
    ///
    /// # Errors
    /// Why that is not said.
    pub fn close(&mut self, now: Now, random: &mut dyn Randomness) -> Result<Outgoing, CallError> {
        let request_id = self.begin_control(now, random)?;
        let message = Close {
            session_id: (&self.terms.session_id).into(),
            request_id: (&request_id).into(),
            control_jws: None,
            enc: None,
        };
        self.control(now, Kind::Close, Message::Close(message), request_id)
    }

    /// Forgets a request whose answer nobody waits for any more.
    pub fn forget(&mut self, request_id: &RequestId) {
        self.outstanding.remove(request_id.as_str());
    }

    /// Whether no more can be asked.
    #[must_use]
    pub fn is_over(&self, now: Now) -> bool {
        self.over || self.terms.is_expired(now)
    }

    /// What the handshake established.
    #[must_use]
    pub fn established(&self) -> &Established<Policy> {
        &self.terms
    }

    /// Requests that wait for an answer.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.outstanding.len()
    }

    /// When the server was heard last, on the clock that never jumps.
    #[must_use]
    pub const fn last_answer(&self) -> Duration {
        self.last_answer
    }

    fn check_open(&self, now: Now) -> Result<(), CallError> {
        if self.is_over(now) {
            return Err(CallError::Over);
        }
        match self.outstanding.len() >= OUTSTANDING {
            true => Err(CallError::TooMany),
            false => Ok(()),
        }
    }

    fn begin_control(&self, now: Now, random: &mut dyn Randomness) -> Result<RequestId, CallError> {
        self.check_open(now)?;
        match self.terms.binding {
            Binding::Profile => Ok(request_id(random)?),
            Binding::Baseline => Err(CallError::Unsupported),
        }
    }

    fn control(
        &mut self,
        now: Now,
        kind: Kind,
        message: Message,
        request_id: RequestId,
    ) -> Result<Outgoing, CallError> {
        let seq = self.next()?;
        let terms = &self.terms;
        let payload = |message_hash| ControlPayload {
            issuer: terms.own.did_text().clone(),
            audience: terms.peer.did_text().clone(),
            timestamp: now.unix,
            session_id: terms.session_id.clone(),
            request_id: request_id.clone(),
            seq,
            message_hash,
        };
        let (message, hash) = terms.finish(kind, message.into_object(), seq, payload);
        let outstanding = Outstanding {
            request_hash: hash,
            closes: kind == Kind::Close,
            stream: None,
        };
        self.outstanding.insert(request_id.to_string(), outstanding);
        Ok(Outgoing {
            request_id,
            message,
        })
    }

    fn request_payload(
        &self,
        now: Now,
        request_id: &RequestId,
        seq: Count,
        message_hash: Digest,
    ) -> RequestPayload {
        let terms = &self.terms;
        RequestPayload {
            issuer: Some(terms.own.did_text().clone()),
            audience: Some(terms.peer.did_text().clone()),
            timestamp: Some(now.unix),
            session_id: Some(terms.session_id.clone()),
            request_id: Some(request_id.clone()),
            seq: Some(seq),
            message_hash: Some(message_hash),
        }
    }

    fn check_size(&self, message: &[u8]) -> Result<(), CallError> {
        let size = u64::try_from(message.len()).unwrap_or(u64::MAX);
        match self.terms.policy.policy().max_payload_size() {
            Some(limit) if size >= limit => Err(CallError::TooLarge { size, limit }),
            Some(_) | None => Ok(()),
        }
    }

    fn next(&mut self) -> Result<Count, CallError> {
        let next = self.sent.next();
        if next.is_none() {
            self.over = true;
        }
        next.ok_or(CallError::Over)
    }
}

/// A fresh UUID of version 4.
fn request_id(random: &mut dyn Randomness) -> Result<RequestId, NoRandomness> {
    let mut bytes = [0; 16];
    random.fill(&mut bytes)?;
    let bits = u128::from_be_bytes(bytes) & !(0xf << 76) & !(0b11 << 62);
    let bits = bits | (4 << 76) | (0b10 << 62);
    let digits = format!("{bits:032x}");
    let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default();
    let text = [
        part(0, 8),
        part(8, 12),
        part(12, 16),
        part(16, 20),
        part(20, 32),
    ]
    .join("-");
    text.parse().map_err(|_| NoRandomness)
}
