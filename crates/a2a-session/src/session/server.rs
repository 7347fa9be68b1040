//! A session at its server (§10.3): what a request must pass, in its order.

mod admit;
mod answer;
mod hold;

pub use self::answer::{ChunkError, NotRunning};

use std::sync::Arc;
use std::time::Duration;

use a2a_identity::{Did, KeySet};
use a2a_wire::{Digest, ErrorCode, Intent, Reason, RequestId};
use canonical::Value;
use policy::{EffectivePolicy, IntentName, Rate, Retention, TokenBucket};

use super::Counter;
use super::agents::Agents;
use super::checks::{Asked, Checked};
use super::incoming::{Incoming, not_encrypted};
use super::record::{Check, Record};
use super::requests::{Requests, Token};
use super::works::Work;
use crate::config::SessionLimits;
use crate::failure::{Binding, Failure, bad_field, replayed};
use crate::handshake::slots::agent_key;
use crate::replay::{Memory, Window, id_key};
use crate::{Established, Now, times};

/// A session at its server.
///
/// A message goes through `look`, `verify` and `admit`; only the second is costly, and it needs no
/// lock. `handle_message` is all three. Then work on what starts, and `respond`; `handle_timeout`
/// when `poll_timeout` says so; when [`ServerSession::is_over`], tell the
/// [`Server`](crate::Server) and [`ServerSession::end`] it.
#[derive(Debug)]
pub struct ServerSession {
    terms: Arc<Established<EffectivePolicy>>,
    /// The keys of the peer, if they were looked up again since.
    renewed: Option<Arc<KeySet>>,
    limits: SessionLimits,
    agent: Digest,
    session: Digest,
    window: Window,
    ids: Memory<u128>,
    sent: Counter,
    requests: Requests,
    /// How often the session may ask: as agreed.
    bucket: TokenBucket,
    /// Refused requests that may still have a record each, from the first on.
    refusals: Option<Box<TokenBucket>>,
    /// When the session of a profile peer ends if it has had no valid request; none for baseline peers.
    unclaimed: Option<Duration>,
    over: Option<EndReason>,
    /// What the operator allows now, if that was changed since.
    tightened: Option<Box<EffectivePolicy>>,
    /// When it ends, on the clock that never jumps.
    ends: Duration,
}

/// Why a session is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// Its time is up.
    Expired,
    /// The client closed it.
    Closed,
    /// Nobody used it.
    Unclaimed,
    /// A key of the peer was revoked.
    KeyRevoked,
    /// The operator, or the end of the node, ended it.
    Ended,
    /// There are no more counters or ids.
    Exhausted,
    /// It was idle, and another agent needed its place.
    Evicted,
}

impl EndReason {
    /// The reason as one word, for a record.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Closed => "closed",
            Self::Unclaimed => "unclaimed",
            Self::KeyRevoked => "key_revoked",
            Self::Ended => "ended",
            Self::Exhausted => "exhausted",
            Self::Evicted => "evicted",
        }
    }
}

/// What the node knows that a session must ask. Look-ups in memory.
pub trait Host {
    /// Whether the operator blocked the agent meanwhile.
    fn is_blocked(&self, did: &Did) -> bool;
    /// How often the operator lets the agent ask, over all its sessions.
    fn rate(&self, did: &Did) -> Rate;
    /// The handler that serves an intent, by its own name.
    fn resolve(&self, name: &IntentName) -> Option<IntentName>;
}

/// What a request is refused with.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    /// Why.
    pub failure: Failure,
    /// The error to send.
    pub message: Vec<u8>,
    /// What to put on record.
    pub record: Box<Record>,
}

/// What a message comes to.
#[derive(Debug)]
pub enum Handled {
    /// Work on this, then call [`ServerSession::respond`].
    Start(Box<Start>),
    /// Send this: it needs no work.
    Answer {
        /// The answer, and its record.
        answer: Answer,
        /// Requests that ended through it.
        ended: Vec<Ended>,
    },
}

/// A request that may start: it passed every check.
#[derive(Debug)]
pub struct Start {
    /// Its name in this session.
    pub token: Token,
    /// What the peer calls it.
    pub request_id: String,
    /// What is asked.
    pub intent: Intent,
    /// The intent as it came, for its handler.
    pub tree: Value<'static>,
    /// Who serves it.
    pub handler: IntentName,
    /// What is to be done.
    pub work: Work,
    /// Whether the answer may come in parts.
    pub stream: bool,
    /// When it is over.
    pub deadline: Duration,
    /// How long its data may be kept.
    pub retention: Retention,
}

/// An answer to send, and what to put on record before.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The message.
    pub message: Vec<u8>,
    /// What to put on record.
    pub record: Box<Record>,
}

/// A request that ended before it was answered: stop working on it.
#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    /// Which.
    pub token: Token,
    /// What to send to whoever waits for it.
    pub answer: Answer,
}

/// What was looked up for a message, before it is verified.
#[derive(Debug)]
pub struct Look {
    terms: Arc<Established<EffectivePolicy>>,
    renewed: Option<Arc<KeySet>>,
    id_is_used: bool,
}

/// A message that the session's peer has signed.
#[derive(Debug)]
pub struct Signed(Checked);

impl Look {
    /// Decrypts the message and verifies its signature: one strict verification, and no lock.
    ///
    /// # Errors
    /// Why it is refused: give that to [`ServerSession::refuse`].
    pub fn verify(&self, now: Now, incoming: &Incoming<'_>) -> Result<Signed, Failure> {
        let keys = self.renewed.as_deref();
        let keys = keys.unwrap_or_else(|| self.terms.peer.keys());
        self.terms
            .verify((now, keys), incoming, self.id_is_used)
            .map(Signed)
    }
}

impl ServerSession {
    /// The session of a finished handshake.
    #[must_use]
    pub fn new(now: Now, established: Established<EffectivePolicy>, limits: SessionLimits) -> Self {
        let keep = match established.binding {
            Binding::Profile => times::REQUEST_ID,
            // Nothing else stops a replay.
            Binding::Baseline => Duration::MAX,
        };
        Self {
            agent: agent_key(established.peer.did_text()),
            session: Digest::of(established.session_id.as_str().as_bytes()),
            window: Window::default(),
            ids: Memory::new(keep, limits.request_ids),
            sent: Counter::default(),
            requests: Requests::default(),
            bucket: TokenBucket::new(established.policy.policy().rate(), now.monotonic),
            refusals: None,
            // The base specification promises its peers the session until `expires_at`.
            unclaimed: match established.binding {
                Binding::Profile => Some(now.after(limits.unclaimed)),
                Binding::Baseline => None,
            },
            over: None,
            tightened: None,
            ends: established.deadline,
            terms: Arc::new(established),
            renewed: None,
            limits,
        }
    }

    /// Takes a message of this session: `look`, `verify` and `admit` in one.
    ///
    /// # Errors
    /// What is refused, and the error to send.
    pub fn handle_message(
        &mut self,
        now: Now,
        incoming: &Incoming<'_>,
        agents: &mut Agents,
        host: &dyn Host,
    ) -> Result<Handled, Box<Refusal>> {
        let look = self.look(now, incoming)?;
        match look.verify(now, incoming) {
            Ok(signed) => self.admit(now, incoming, signed, agents, host),
            Err(failure) => Err(self.refuse(now, incoming, failure)),
        }
    }

    /// Looks up what [`Look::verify`] needs: steps 1 and 2. Nothing is recorded yet.
    ///
    /// # Errors
    /// If the session is over, or the message cannot be fresh.
    pub fn look(&mut self, now: Now, incoming: &Incoming<'_>) -> Result<Look, Box<Refusal>> {
        self.expire(now);
        if self.over.is_some() || incoming.session_id() != self.terms.session_id.as_str() {
            return Err(incoming.no_session(now));
        }
        let encrypted = incoming.encrypted();
        let failure = match (self.terms.is_encrypted(), encrypted) {
            (true, None) => Some(not_encrypted()),
            (false, Some(_)) => {
                let cause = "the message is encrypted and the session is not";
                Some(bad_field("enc", cause))
            }
            (true, Some(encrypted)) => {
                let stale = self.window.check(encrypted.n.get()).err();
                stale.map(|_| replayed(Reason::SeqReused, "the counter was used before"))
            }
            (false, None) => None,
        };
        if let Some(failure) = failure {
            return Err(self.refuse(now, incoming, failure));
        }
        let id: Option<RequestId> = incoming.request_id().and_then(|id| id.parse().ok());
        Ok(Look {
            terms: Arc::clone(&self.terms),
            renewed: self.renewed.clone(),
            id_is_used: id.is_some_and(|id| self.ids.contains(now.monotonic, &id_key(&id))),
        })
    }

    /// Lets a verified message in: steps 3a to 6a.
    ///
    /// # Errors
    /// What is refused, and the error to send.
    pub fn admit(
        &mut self,
        now: Now,
        incoming: &Incoming<'_>,
        signed: Signed,
        agents: &mut Agents,
        host: &dyn Host,
    ) -> Result<Handled, Box<Refusal>> {
        self.expire(now);
        if self.over.is_some() {
            return Err(incoming.no_session(now));
        }
        let checked = signed.0;
        let mut record = self.record(now, Some(&checked.request_id));
        record.checks.session_valid = Check::Passed;
        record.request_hash = Some(checked.request_hash);
        record.kid = Some(checked.kid.clone());
        if let Err(failure) = self.remember(now, &checked) {
            record.checks.signature_verified = Check::Failed;
            let to = (Some(checked.request_id), Some(checked.request_hash));
            return Err(self.refuse_with(now, failure, record, to));
        }
        record.checks.signature_verified = Check::Passed;
        self.unclaimed = None;
        match checked.asked {
            Asked::Cancel(ref target) => self.cancelled(now, &checked, record, target.as_ref()),
            Asked::Close => Ok(self.closed(now, &checked, record)),
            Asked::Work(intent) => {
                let (id, hash) = (checked.request_id, checked.request_hash);
                let size = incoming.size();
                let started = self.start(now, (intent, &id), &mut record, size, (agents, host));
                match started {
                    Ok(started) => Ok(self.begin(started, (id, hash), record)),
                    Err(failure) => {
                        Err(self.refuse_with(now, failure, record, (Some(id), Some(hash))))
                    }
                }
            }
        }
    }

    /// Refuses a message that failed its verification, with a signed error.
    #[must_use]
    pub fn refuse(&mut self, now: Now, incoming: &Incoming<'_>, failure: Failure) -> Box<Refusal> {
        let id: Option<RequestId> = incoming.request_id().and_then(|id| id.parse().ok());
        let mut record = self.record(now, id.as_ref());
        record.checks.session_valid = Check::Passed;
        // What was seen before is refused before its signature is verified.
        record.checks.signature_verified = match failure.code == ErrorCode::ReplayDetected {
            true => Check::Skipped,
            false => Check::Failed,
        };
        let hash = incoming.received().hash();
        record.request_hash = Some(hash);
        self.refuse_with(now, failure, record, (id, Some(hash)))
    }

    /// Refuses a message of this session that could not be read; `None` if the session is over. To a
    /// baseline peer the error is signed. A profile peer believes no signature without the hash of its
    /// request, so it gets a hint.
    pub fn refuse_unread(
        &mut self,
        now: Now,
        request_id: Option<RequestId>,
        failure: Failure,
    ) -> Option<Box<Refusal>> {
        self.expire(now);
        if self.over.is_some() {
            return None;
        }
        let mut record = self.record(now, request_id.as_ref());
        record.checks.session_valid = Check::Passed;
        if failure.code == ErrorCode::PayloadTooLarge {
            record.checks.payload_size = Check::Failed;
        }
        if self.terms.binding == Binding::Baseline {
            return Some(self.refuse_with(now, failure, record, (request_id, None)));
        }
        record.refuse(&failure);
        let session_id = (&self.terms.session_id).into();
        let request_id = request_id.as_ref().map(Into::into);
        let message = failure.to_unsigned(Binding::Profile, Some(&session_id), request_id.as_ref());
        Some(Box::new(Refusal {
            failure,
            message,
            record,
        }))
    }

    /// Whether a request that was refused before it was verified gets a record of its own: as many as
    /// the session may send. Beyond that anybody who knows its id could fill the log.
    pub fn may_record_refusal(&mut self, now: Now) -> bool {
        let rate = self.terms.policy.policy().rate();
        let bucket = self
            .refusals
            .get_or_insert_with(|| Box::new(TokenBucket::new(rate, now.monotonic)));
        bucket.take(now.monotonic).is_ok()
    }

    /// Ends the session, from this side. Returns the requests that ended with it.
    pub fn end(&mut self, now: Now, reason: EndReason, agents: &mut Agents) -> Vec<Ended> {
        self.over.get_or_insert(reason);
        let ended = self.end_requests(now, reason);
        agents.session_ended(&self.session);
        ended
    }

    /// Ends what took too long; each is to be answered as it says. Then see whether the session
    /// [`is_over`](ServerSession::is_over).
    pub fn handle_timeout(&mut self, now: Now) -> Vec<Ended> {
        self.expire(now);
        let mut ended = Vec::new();
        while let Some(token) = self.requests.overdue(now.monotonic) {
            ended.extend(self.end_request(now, token, answer::timed_out()));
        }
        if let Some(reason) = self.over {
            ended.extend(self.end_requests(now, reason));
        }
        ended
    }

    /// When to call [`ServerSession::handle_timeout`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        let own = self.unclaimed.into_iter().chain([self.ends]);
        own.chain(self.requests.next_deadline()).min()
    }

    /// Why it is over, if it is.
    #[must_use]
    pub const fn is_over(&self) -> Option<EndReason> {
        self.over
    }

    /// What the handshake established.
    #[must_use]
    pub fn established(&self) -> &Established<EffectivePolicy> {
        &self.terms
    }

    /// Requests that are running.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.requests.len()
    }

    fn record(&self, now: Now, request_id: Option<&RequestId>) -> Box<Record> {
        let request_id = request_id.map(ToString::to_string);
        Box::new(Record::of(&self.terms, now.monotonic, request_id))
    }

    fn expire(&mut self, now: Now) {
        if self.terms.is_expired(now) || now.monotonic >= self.ends {
            self.over.get_or_insert(EndReason::Expired);
        }
        if self.unclaimed.is_some_and(|until| now.monotonic >= until) {
            self.over.get_or_insert(EndReason::Unclaimed);
        }
    }
}
