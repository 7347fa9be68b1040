//! One call: as many tries as may help, within its time.

use std::sync::Arc;
use std::time::Duration;

use a2a_identity::Did;
use a2a_session::{Binding, Directory as _, Now};
use a2a_wire::{ErrorCode, Intent, Read as _, RequestId};
use audit::{Body, Verdict};
use canonical::{Number, Object, Value};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::error::{CallError, Told};
use super::exchange::{Outcome, Question};
use super::pool::Held;
use super::retry::{Decision, Retries, Sent, may_have_run};
use super::{
    Answered, CallOptions, Couriers, Encrypt, FailedWork, Inner, NameWork, Provisional, Setback,
};
use crate::record::{Room, millis, session_body};
use crate::standing::lock;

/// Between two handshakes with one server.
const PACE: Duration = Duration::from_secs(1);

/// A call, and what does not change from try to try.
pub(super) struct Asking<'a> {
    did: &'a Did,
    intent: Value<'static>,
    is_named: bool,
    encrypt: Encrypt,
    pub(super) chunks: Option<&'a mpsc::Sender<Provisional>>,
    correlation_id: Option<&'a str>,
    deadline: Instant,
}

impl<C: Couriers> Inner<C> {
    pub(super) async fn call(
        self: &Arc<Self>,
        did: &Did,
        intent: Value<'static>,
        options: &CallOptions,
    ) -> Result<Answered, CallError> {
        let intent = self.prepared(intent, options)?;
        let asking = Asking {
            did,
            is_named: intent
                .as_object()
                .is_some_and(|it| it.get("intent_id").is_some()),
            intent,
            encrypt: options.encrypt,
            chunks: options.chunks.as_ref(),
            correlation_id: options.correlation_id.as_deref(),
            deadline: Instant::now() + options.timeout,
        };
        let mut retries = Retries::default();
        let (mut attempts, mut is_unclear) = (0_u32, false);
        loop {
            attempts = attempts.saturating_add(1);
            let (error, sent) = match self.attempt(&asking, attempts).await {
                Ok(answered) => return Ok(answered),
                Err(failed) => failed,
            };
            let fault = error.fault(self.home.clock.now().unix);
            is_unclear |= may_have_run(&fault, sent);
            let spread = self.home.entropy.fraction();
            let is_left = options.failed_work == FailedWork::Leave
                && error.code() == ErrorCode::InternalError;
            let wait = match retries.decide(&fault, sent, spread) {
                Decision::After(wait) if !is_left && Instant::now() + wait < asking.deadline => {
                    wait
                }
                Decision::After(_) | Decision::GiveUp => {
                    return Err(match is_unclear {
                        true => CallError::MayHaveRun(Box::new(error)),
                        false => error,
                    });
                }
            };
            if let Some(setbacks) = &options.setbacks {
                let error = error.to_string();
                // Whoever does not listen any more need not hear of it.
                let _ = setbacks.try_send(Setback { error, wait });
            }
            sleep(wait).await;
        }
    }

    /// The intent as it is sent: the same in every try, so that the server knows it again.
    fn prepared(
        &self,
        mut intent: Value<'static>,
        options: &CallOptions,
    ) -> Result<Value<'static>, CallError> {
        if let Value::Object(intent) = &mut intent {
            if options.name_work == NameWork::Yes && intent.get("intent_id").is_none() {
                let name = self.home.entropy.uuid()?;
                intent.insert("intent_id", Value::String(name.into()));
            }
            let mut constraints = match intent.get("constraints") {
                Some(Value::Object(constraints)) => constraints.clone(),
                None => Object::default(),
                // Not ours to mend.
                Some(_) => return Ok(Value::Object(std::mem::take(intent))),
            };
            let time = i64::try_from(options.timeout.as_millis()).unwrap_or(Number::MAX_INTEGER);
            let time = Number::integer(time.clamp(1, Number::MAX_INTEGER));
            if let Some(time) = time.filter(|_| constraints.get("timeout_ms").is_none()) {
                constraints.insert("timeout_ms", Value::Number(time));
            }
            if options.chunks.is_some() {
                constraints.insert("stream", Value::Bool(true));
            }
            intent.insert("constraints", Value::Object(constraints));
        }
        Ok(intent)
    }

    /// One try: a session, and a request in it.
    async fn attempt(
        self: &Arc<Self>,
        asking: &Asking<'_>,
        attempt: u32,
    ) -> Result<Answered, (CallError, Sent)> {
        let session = self.session(asking.did, asking.encrypt);
        let held = match timeout_at(asking.deadline, session).await {
            Ok(held) => held.map_err(|error| (error, Sent::Nothing))?,
            Err(_) => return Err((CallError::TimedOut, Sent::Nothing)),
        };
        let outcome = self.ask(&held, asking, attempt).await;
        let (error, sent) = match outcome {
            Ok(answered) => return Ok(answered),
            Err(failed) => failed,
        };
        if ends_session(&error) {
            let server = self.pool.server(asking.did, asking.encrypt);
            let mut gate = server.lock().await;
            if gate.held.as_ref().is_some_and(|it| Arc::ptr_eq(it, &held)) {
                gate.held = None;
            }
        }
        Err((error, sent))
    }

    /// The operator's word, also on agents that there is a session with.
    pub(super) fn check_blocked(&self, did: &Did) -> Result<(), CallError> {
        match self.home.standing.is_blocked(did) {
            true => Err(CallError::Blocked {
                did: did.to_string(),
            }),
            false => Ok(()),
        }
    }

    /// Whether the server of a session is still trusted as it was when the session began.
    fn is_trusted(&self, held: &Held<C::Courier>) -> bool {
        self.home.still_trusts(lock(&held.session).established())
    }

    /// Closes the sessions with servers that are blocked, or not trusted any more as they were.
    pub(super) async fn close_untrusted(&self) {
        for server in self.pool.servers() {
            let mut gate = server.lock().await;
            let must_end = |held: &mut Arc<Held<_>>| {
                let is_blocked = {
                    let session = lock(&held.session);
                    self.home
                        .standing
                        .is_blocked(session.established().peer().did())
                };
                is_blocked || !self.is_trusted(held)
            };
            let ended = gate.held.take_if(must_end);
            drop(gate);
            if let Some(held) = ended {
                self.close(&held).await;
            }
        }
    }

    /// The session that is kept with a server, or a new one.
    pub(super) async fn session(
        self: &Arc<Self>,
        did: &Did,
        encrypt: Encrypt,
    ) -> Result<Arc<Held<C::Courier>>, CallError> {
        self.check_blocked(did)?;
        let server = self.pool.server(did, encrypt);
        let mut gate = server.lock().await;
        let now = self.home.clock.now();
        let is_usable = |held: &&Arc<Held<_>>| held.is_good(now) && self.is_trusted(held);
        if let Some(held) = gate.held.as_ref().filter(is_usable) {
            return Ok(Arc::clone(held));
        }
        if let Some(begun) = gate.begun {
            sleep_until(begun + PACE).await;
        }
        gate.begun = Some(Instant::now());
        let held = Arc::new(self.shake(did, encrypt).await?);
        if let Some(old) = gate.held.replace(Arc::clone(&held)) {
            self.retire(old);
        }
        Ok(held)
    }

    /// Sends a request, and takes its answer.
    async fn ask(
        self: &Arc<Self>,
        held: &Arc<Held<C::Courier>>,
        asking: &Asking<'_>,
        attempt: u32,
    ) -> Result<Answered, (CallError, Sent)> {
        let not_sent = |error| (error, Sent::Nothing);
        let room = self.home.recorder.reserve();
        let room = room.map_err(|error| not_sent(CallError::Audit(error)))?;
        let now = self.home.clock.now();
        let outgoing = {
            let mut random = self.home.entropy.clone();
            let intent = asking.intent.clone();
            lock(&held.session).request(now, intent, &mut random)
        };
        let outgoing = outgoing.map_err(|error| not_sent(not_made(error)))?;
        let sent = match (asking.is_named, held.view.binding) {
            (true, Binding::Profile) => Sent::Named,
            (true, Binding::Baseline) => Sent::Correlated,
            (false, _) => Sent::Unnamed,
        };
        let mut question = Question {
            client: self,
            held,
            request_id: Some(outgoing.request_id.clone()),
            unheard: Some((room, asking, now)),
        };
        let answer = self.exchange(
            held,
            (&outgoing.request_id, outgoing.message),
            asking,
            attempt,
        );
        let outcome = match timeout_at(asking.deadline, answer).await {
            Ok(outcome) => outcome,
            Err(_) => Outcome::Error(CallError::TimedOut, None),
        };
        // Whoever gives up says so; what was answered, or never arrived, needs no word.
        if !matches!(outcome, Outcome::Error(CallError::TimedOut, _)) {
            question.request_id = None;
        }
        let room = question.unheard.take();
        drop(question);
        lock(&held.session).forget(&outgoing.request_id);
        let written = room.map(|(room, asking, began)| {
            let question = (&outgoing.request_id, asking);
            self.record(room, held, question, &outcome, began)
        });
        let settled = match written.transpose() {
            Ok(Some(written)) => written.settled().await,
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        settled.map_err(|error| (CallError::Audit(error), sent))?;
        match outcome {
            Outcome::Result {
                result,
                response_hash,
            } => Ok(Answered {
                result,
                response_hash,
                session: held.view.clone(),
                attempts: attempt,
            }),
            Outcome::Error(error, _) => Err((error, sent)),
        }
    }

    pub(super) fn record(
        &self,
        room: Room,
        held: &Held<C::Courier>,
        (request_id, asking): (&RequestId, &Asking<'_>),
        outcome: &Outcome,
        began: Now,
    ) -> Result<crate::record::Written, audit::Error> {
        let intent = Intent::read(&asking.intent).ok();
        let took = self.home.clock.now().monotonic;
        let took = took.saturating_sub(began.monotonic);
        let (code, reason, hash) = match outcome {
            Outcome::Result { response_hash, .. } => (None, None, Some(*response_hash)),
            Outcome::Error(error, hash) => (Some(error.code()), Some(error.to_failure()), *hash),
        };
        let session = lock(&held.session);
        let body = Body {
            correlation_id: asking.correlation_id,
            request_id: Some(request_id.as_str()),
            intent_goal: intent.as_ref().map(|intent| intent.goal.as_str()),
            intent_domain: intent
                .as_ref()
                .and_then(|it| Some(it.domain.as_ref()?.as_str())),
            intent_id: intent
                .as_ref()
                .and_then(|it| Some(it.intent_id.as_ref()?.as_str())),
            result: Some(match code {
                None => Verdict::Approved,
                Some(_) => Verdict::Rejected,
            }),
            response_status: Some(code.as_ref().map_or("success", |code| code.as_str())),
            reason: reason.as_ref().map(|failure| failure.cause.as_ref()),
            response_hash: hash,
            processing_time_ms: Some(millis(took)),
            transport: Some(held.view.carrier.name()),
            ..session_body(session.established())
        };
        self.home.recorder.sent(room, body)
    }

    /// Closes a session that another has taken the place of, if nobody uses it.
    fn retire(self: &Arc<Self>, held: Arc<Held<C::Courier>>) {
        if Arc::strong_count(&held) == 1 {
            let this = Arc::clone(self);
            self.runtime.spawn(async move { this.close(&held).await });
        }
    }

    /// Tells a server that its session is over.
    pub(super) async fn close(&self, held: &Held<C::Courier>) {
        let now = self.home.clock.now();
        let mut random = self.home.entropy.clone();
        let close = lock(&held.session).close(now, &mut random);
        if let Ok(close) = close {
            held.tell(now, close.message).await;
        }
        let recorder = &self.home.recorder;
        recorder.session_ended(lock(&held.session).established(), "closed");
    }

    pub(super) async fn close_all(self: &Arc<Self>) {
        for held in self.pool.take_all().await {
            self.close(&held).await;
        }
    }
}

/// Why a request was not made.
fn not_made(error: a2a_session::CallError) -> CallError {
    match error {
        a2a_session::CallError::Over => CallError::Over,
        a2a_session::CallError::RateLimited(wait) => CallError::RateLimited(wait),
        a2a_session::CallError::TooMany => CallError::RateLimited(Duration::ZERO),
        a2a_session::CallError::NoRandomness(error) => CallError::NoRandomness(error),
        error @ (a2a_session::CallError::TooLarge { .. }
        | a2a_session::CallError::Intent(_)
        | a2a_session::CallError::Unsupported) => CallError::Request(error),
    }
}

/// Whether there must be another handshake before anything is asked again.
fn ends_session(error: &CallError) -> bool {
    let is_over = |told: &Told| {
        matches!(
            told.failure.code,
            ErrorCode::SessionExpired | ErrorCode::UnverifiedAgent
        )
    };
    matches!(error, CallError::Over | CallError::NotBelieved(_))
        || matches!(error, CallError::Refused(told) if is_over(told))
}
