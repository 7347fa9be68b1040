//! The requests of a session: started, answered, cancelled, and sent again.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Waiting, Poll};
use std::time::{Duration, Instant};

use a2e_session::{EventError, Failure, Request, Token, failures};
use a2e_wire::{Body, Decoder, ErrorCode, Message, MessageId, Namespace, Sender, Tag, Timestamp};
use base::{Charge, LogLimit};
use canonical::Digest;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tracing::Instrument;

use super::chronicle::{ID_REUSED, RATE_LIMITED, RESENT};
use super::job::{Job, JobWaker};
use super::record::{self, Note};
use super::resolve::{Next, Resolving};
use super::span::{note_failure, span_of, trace_of};
use super::{Command, Driver, MAX_ASKED};
use crate::decision::{Asked, Repetition, RuleName, revoked, unrecorded};
use crate::idempotency::{Begun, Ending, Follow, IdempotencyCache, Key, Outcome, Piece};
use crate::in_flight::AGENT_LIMIT;
use crate::metrics::{Ended, add, subtract};
use crate::plugin::{Asker, BoxFuture, Context, SendError};
use crate::registry::only_reads;
use crate::resolution::{Resolution, normalize, open_selector};
use crate::session::Session;
use crate::slots::Holder;
use crate::snapshot::SnapshotMode;

/// Requests that cannot be recorded.
static NOT_EXECUTED: LogLimit = LogLimit::new(1, Duration::from_secs(10));

/// A call that the operator is asked about.
pub(super) struct Held {
    /// Exactly this call, and what it stands for.
    pub(super) call: Digest,
    pub(super) repetition: Repetition,
    /// The rule that asks for it.
    pub(super) rule: RuleName,
}

/// A request that is worked on.
pub(super) struct Work {
    token: Token,
    id: MessageId<'static>,
    tag: Option<Tag>,
    started: Duration,
    /// The session that it came with, whoever shakes hands on this connection later.
    session: Arc<Session>,
    /// What is done for it, while it waits for the first time,
    job: Option<Job>,
    /// and then the task that does it.
    pub(super) task: Option<AbortHandle>,
    /// Its entry in the agent's idempotency cache; none if it has no id, only reads, or is a retry.
    idempotency: Option<(Arc<IdempotencyCache>, Key)>,
    /// What it needs to go on, while it is found out what it stands for.
    pub(super) resolving: Option<Resolving>,
    /// The call and the rule that holds it, while the operator is asked.
    pub(super) held: Option<Held>,
    /// What the operator has approved: exactly this, and what it stands for.
    pub(super) approved: Option<Digest>,
    /// Whether the agent wants events.
    streaming: bool,
    /// What will be put on record of it.
    pub(super) note: Option<Box<Note>>,
    /// What it takes of the agent's requests.
    slot: Option<Charge<Holder>>,
}

/// How the work on a request ended: what the agent is sent now, and what a retry gets.
pub(crate) struct Finished {
    pub(super) outcome: Result<Box<Body<'static>>, Failure>,
    ending: Ending,
}

/// The end of a request in the idempotency cache. It waits for the audit record of the response.
pub(super) struct CacheEnd {
    cache: Arc<IdempotencyCache>,
    key: Key,
    ending: Ending,
    response: Box<[u8]>,
}

impl Driver {
    /// Starts a request: it is looked up in the idempotency cache, decided about, and given to its plugin.
    pub(super) fn start(&mut self, mut request: Request) {
        let started = self.host.inner.clock.monotonic();
        let token = request.token;
        if let Some(mut work) = self.take_work(token) {
            // It was held, and may go on.
            work.started = started;
            if let Err(error) = self.note_again(&mut work) {
                tracing::debug!(%error, "an approved request is refused");
                let failure = unrecorded(work.namespace());
                return self.refuse(work, failure);
            }
            let Some(approved) = work.approved.take() else {
                let failure = failures::unauthorized();
                return self.refuse(work, failure);
            };
            return self.resolve(work, request, Next::Release(approved));
        }
        if let Err(failure) = normalize(&mut request.message) {
            return self.finish_work(token, Finished::refused(failure));
        }
        let Some(known) = &self.known else {
            return self.finish_work(token, Finished::refused(failures::unauthorized()));
        };
        let mut work = Work {
            token,
            id: request.message.envelope.id.clone(),
            tag: request.message.body.tag(),
            started,
            session: Arc::clone(&known.session),
            job: None,
            task: None,
            idempotency: None,
            resolving: None,
            held: None,
            approved: None,
            streaming: wants_events(&request.message.body),
            note: None,
            slot: None,
        };
        let (session, unresolved) = (Arc::clone(&known.session), Resolution::default());
        let asked = Asked::new(&session, &request.message, &request.line, &unresolved);
        // Also what is sent again counts: its answer may be large.
        match self.count_request(known.session.at().bytes.holder(), asked) {
            Ok(slot) => work.slot = Some(slot),
            Err(failure) => return self.end_work(token, Some(work), Finished::refused(failure)),
        }
        // What only reads is executed again: a retry needs no response that was kept.
        if !work.id.is_empty() && !work.tag.is_some_and(only_reads) {
            let cache = &known.idempotency;
            match cache.begin(started, &work.id, Arc::clone(&request.line)) {
                Begun::New(key) => work.idempotency = Some((Arc::clone(cache), key)),
                Begun::Again(follow) => {
                    // A response that is sent again leaves the node as the first one did, with a record.
                    match self.note(asked) {
                        Ok(note) => work.note = note,
                        Err(error) => {
                            tracing::debug!(%error, "a request is refused");
                            let failure = unrecorded(work.namespace());
                            return self.end_work(token, Some(work), Finished::refused(failure));
                        }
                    }
                    if let Some(note) = &mut work.note {
                        RESENT.clone_into(&mut note.rule);
                    }
                    work.task = Some(self.send_again(token, follow));
                    return self.add_work(work);
                }
                Begun::Reused => {
                    let namespace = work.namespace();
                    self.count_refusal(asked.agent(), ID_REUSED);
                    let failure = failures::id_reused(namespace);
                    return self.end_work(token, Some(work), Finished::refused(failure));
                }
            }
        }
        match open_selector(&request.message.body) {
            Some(_) => self.resolve(work, request, Next::Decide),
            None => self.decide(work, request, unresolved),
        }
    }

    /// Counts a request: by the rate of its agent, and among those that the agent has under way.
    fn count_request(&self, holder: &Holder, asked: Asked<'_>) -> Result<Charge<Holder>, Failure> {
        let (inner, agent) = (&self.host.inner, asked.agent());
        let policies = self.host.policies();
        let counted = inner.counters.count(policies.of(agent), self.now, asked);
        counted.inspect_err(|_| self.count_refusal(agent, RATE_LIMITED))?;
        let begun = inner.in_flight.begin(holder, asked.namespace());
        begun.inspect_err(|_| self.count_refusal(agent, AGENT_LIMIT))
    }

    /// Gives a request to its plugin.
    pub(super) fn dispatch(
        &mut self,
        mut work: Work,
        message: Box<Message<'static>>,
        resolution: Resolution,
    ) {
        let token = work.token;
        let (session, id) = (Arc::clone(&work.session), message.envelope.id.clone());
        let access = session.access().clone();
        let context = Context::new(session, id, Asker::Agent(token), resolution);
        let begun = self.begin_effect(&work, &message);
        let over = context.over_guard();
        let settings = Arc::clone(&self.settings);
        let trace = trace_of(&message);
        let span = span_of(&message, trace.as_ref());
        let namespace = work.namespace();
        let job = async move {
            if let Some((cache, key)) = begun {
                match cache.record_begun(key).await {
                    Ok(true) => {}
                    // Nobody waits for it any more.
                    Ok(false) => return Finished::interrupted(failures::interrupted()),
                    Err(error) => {
                        if let Some(more) = NOT_EXECUTED.admit(Instant::now()) {
                            tracing::error!(%error, "a request that cannot be recorded is not executed{more}");
                        }
                        return Finished::refused(not_recorded(namespace));
                    }
                }
            }
            // Its session may not be that of the connection any more.
            let finished = tokio::select! {
                biased;
                outcome = settings.registry.dispatch(message, context) => outcome.into(),
                () = access.revoked().cancelled() => Finished::interrupted(revoked(namespace)),
            };
            note_failure(&finished.outcome);
            finished
        };
        let job = job.instrument(span);
        let job: BoxFuture<'static, _> = match trace {
            Some(trace) => Box::pin(trace.within(job)),
            None => Box::pin(job),
        };
        let waker = self.spare_waker.take();
        let waker = waker.unwrap_or_else(|| JobWaker::new(&self.bell));
        let mut job = Job::new(job, over, waker);
        match job.poll() {
            Poll::Ready(finished) => {
                self.end_work(token, Some(work), finished);
                // It is over when it is answered.
                self.spare_waker = Some(job.into_waker());
            }
            Poll::Pending => {
                work.job = Some(job);
                self.add_work(work);
            }
        }
    }

    /// Notes that a request is about to be executed, if its effect outlives this process; returns its entry
    /// if that is to be recorded first.
    fn begin_effect(
        &mut self,
        work: &Work,
        message: &Message<'_>,
    ) -> Option<(Arc<IdempotencyCache>, Key)> {
        let (cache, key) = work.idempotency.as_ref()?;
        let registry = &self.settings.registry;
        if !registry.outlives(message) {
            return None;
        }
        cache.note_effect(key);
        if registry.recognises_retries(message) {
            return None;
        }
        if self.is_current(work)
            && let Some(journal) = &mut self.journal
        {
            let recorded = journal.record_open(&self.session);
            self.has_recorded(recorded);
        }
        Some((Arc::clone(cache), key.clone()))
    }

    /// Goes on with the requests for which something has happened; says whether there were any.
    pub(super) fn go_on(&mut self) -> bool {
        let mut happened = false;
        let is_awake = |work: &Work| work.job.as_ref().is_some_and(Job::is_awake);
        while let Some(work) = self.work.iter_mut().find(|work| is_awake(work)) {
            let token = work.token;
            let Some(mut job) = work.job.take() else {
                break;
            };
            match job.poll() {
                Poll::Ready(outcome) => {
                    // What it said before comes before its answer.
                    while let Ok(command) = self.inbox.try_recv() {
                        self.take_command(command);
                    }
                    self.finish_work(token, outcome);
                }
                Poll::Pending => work.task = Some(job.spawn(token, self.commands.clone())),
            }
            happened = true;
        }
        happened
    }

    /// Ends a request that is worked on.
    pub(super) fn finish_work(&mut self, token: Token, finished: Finished) {
        let work = self.take_work(token);
        self.end_work(token, work, finished);
    }

    /// Ends a request that is not, or not any more, among those that are worked on: the agent is answered,
    /// the audit log has a record of it, and then the idempotency cache its end.
    pub(super) fn end_work(&mut self, token: Token, work: Option<Work>, finished: Finished) {
        let now = self.now;
        let Finished { outcome, ending } = finished;
        let (ended, status) = match &outcome {
            Ok(_) => (Ended::Answered, record::SUCCESS.to_owned()),
            Err(failure) => (Ended::Failed, failure.code.as_str().to_owned()),
        };
        let answered = self.session.respond(now, token, outcome.map(|body| *body));
        let Some(mut work) = work else {
            return;
        };
        // A request that timed out meanwhile has been answered.
        if answered.is_err() {
            return self.give_up(work);
        }
        let cache_end = work.cache_end(ending, self.session.last_written());
        self.record_end_of(&mut work, &status, cache_end);
        self.count(&work, ended);
        if self.is_current(&work) {
            self.save_plugins(work.tag);
        }
    }

    /// Stops working on a request.
    pub(super) fn cancel(&mut self, token: Token) {
        if let Some(work) = self.take_work(token) {
            self.give_up(work);
        }
    }

    /// Interrupts a request; nobody waits for it.
    pub(super) fn give_up(&mut self, mut work: Work) {
        Self::note_withdrawn(&mut work);
        if let Some(task) = &work.task {
            task.abort();
        }
        // It leaves no response that would have to wait for the record.
        if let Some(end) = work.cache_end(Ending::Interrupted, &[]) {
            end.enter(self.now.monotonic);
        }
        self.record_end_of(&mut work, record::CANCELLED, None);
        self.count(&work, Ended::Cancelled);
    }

    pub(super) fn take_command(&mut self, command: Command) {
        let now = self.now;
        match command {
            Command::LoggedIn(outcome) => self.logged_in(*outcome),
            Command::Finished(token, finished) => self.finish_work(token, *finished),
            Command::Event { token, body, done } => self.send_event(token, body, done),
            Command::Again(token, piece) => self.take_piece(token, piece),
            // Nobody has asked for what belongs to another capability.
            Command::Push { body, done, .. } if !self.session.has_negotiated(&body) => {
                let _ = done.send(Ok(()));
            }
            Command::Push { body, also, done } => {
                match self.session.push_also(now, (*body).clone(), also) {
                    Ok(_) => drop(done.send(Ok(()))),
                    Err(_) if self.session.is_closed() => drop(done.send(Err(SendError))),
                    Err(_) => self.held.push(Command::Push { body, also, done }),
                }
            }
            Command::Ask {
                body,
                if_negotiated,
                answered,
            } => {
                self.asked.retain(|_, answered| !answered.is_closed());
                if self.asked.len() < MAX_ASKED
                    && (!if_negotiated || self.session.has_negotiated(&body))
                    && let Ok(id) = self.session.push(now, *body)
                {
                    self.asked.insert(id, answered);
                }
            }
            Command::Progress(token) => self.session.progress(now, token),
            Command::KeepStream(token) => self.session.keep_stream(token),
            Command::EndStream(token) => self.session.end_stream(token),
            Command::Held(token, approval) => self.tell_held(token, &approval),
            Command::Resolved(token, resolved) => self.resolved(token, *resolved),
            Command::Decided(token, word) => self.decided(token, *word),
            Command::Attach(attach) => self.attach(*attach),
        }
    }

    fn send_event(
        &mut self,
        token: Token,
        body: Box<Body<'static>>,
        done: oneshot::Sender<Result<(), SendError>>,
    ) {
        let now = self.now;
        if self.session.is_behind() {
            return self.held.push(Command::Event { token, body, done });
        }
        let outcome = self.session.event(now, token, *body);
        if outcome.is_ok()
            && let Some(work) = self.work.iter().find(|work| work.token == token)
            && let Some((cache, key)) = &work.idempotency
        {
            cache.event(key, self.session.last_written());
        }
        let _ = done.send(outcome.map_err(|_| SendError));
    }

    /// Sends again what became of a request.
    fn send_again(&self, token: Token, mut follow: Follow) -> AbortHandle {
        let commands = self.commands.clone();
        let task = tokio::spawn(async move {
            while let Some(piece) = follow.next().await {
                let is_last = matches!(piece, Piece::Outcome(_));
                if commands.send(Command::Again(token, piece)).await.is_err() || is_last {
                    return;
                }
            }
            let finished = Box::new(Finished::refused(not_executed()));
            let _ = commands.send(Command::Finished(token, finished)).await;
        });
        task.abort_handle()
    }

    fn take_piece(&mut self, token: Token, piece: Piece) {
        let now = self.now;
        let earlier = |held: &Command| matches!(held, Command::Again(other, _) if *other == token);
        if self.held.iter().any(earlier) {
            return self.held.push(Command::Again(token, piece));
        }
        match piece {
            Piece::Event(line) => {
                let Some(body) = decode(line.bytes()) else {
                    return;
                };
                if let Err(EventError::Backpressure(_)) = self.session.event(now, token, body) {
                    self.held.push(Command::Again(token, Piece::Event(line)));
                }
            }
            Piece::Outcome(retried) => {
                let outcome = match retried {
                    Outcome::Response(line) => match decode(line.bytes()) {
                        Some(Body::Error(error)) => Err(error.into()),
                        Some(body) => Ok(Box::new(body)),
                        None => Err(failures::interrupted()),
                    },
                    Outcome::Interrupted => Err(failures::interrupted()),
                };
                self.finish_work(token, outcome.into());
            }
        }
    }

    /// Puts on record what the plugins that served a request keep for the session.
    fn save_plugins(&mut self, tag: Option<Tag>) {
        let (Some(journal), Some(known)) = (&mut self.journal, &self.known) else {
            return;
        };
        if self.settings.snapshot_mode == SnapshotMode::Plugin {
            return;
        }
        for plugin in self.settings.registry.served_by(tag) {
            let saved = plugin.save(&known.session);
            if let Some(state) = saved
                && let Err(error) = journal.plugin(plugin.name(), &state)
            {
                tracing::error!(%error, plugin = plugin.name(), "cannot save a plugin's state");
            }
        }
    }

    /// Whether a request came in the session there is now: what is kept for that session says nothing
    /// of requests of the one before.
    fn is_current(&self, work: &Work) -> bool {
        let known = self.known.as_ref();
        known.is_some_and(|known| Arc::ptr_eq(&known.session, &work.session))
    }

    pub(super) fn add_work(&mut self, work: Work) {
        add(&self.host.inner.metrics.running, 1);
        self.work.push(work);
    }

    pub(super) fn take_work(&mut self, token: Token) -> Option<Work> {
        let index = self.work.iter().position(|work| work.token == token)?;
        subtract(&self.host.inner.metrics.running, 1);
        Some(self.work.swap_remove(index))
    }

    fn count(&self, work: &Work, ended: Ended) {
        let metrics = &self.host.inner.metrics;
        let now = self.host.inner.clock.monotonic();
        let took = now.saturating_sub(work.started);
        metrics.request(work.tag, ended, took);
    }
}

impl Work {
    pub(super) const fn token(&self) -> Token {
        self.token
    }

    pub(super) fn namespace(&self) -> Namespace {
        self.tag.map_or(Namespace::Base, Tag::namespace)
    }

    /// The type of one whose agent wants events.
    pub(super) fn streams(&self) -> Option<Tag> {
        self.tag.filter(|_| self.streaming)
    }

    pub(super) const fn started(&self) -> Duration {
        self.started
    }

    pub(super) const fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// How it ends in the idempotency cache, if it is there.
    fn cache_end(&mut self, ending: Ending, response: &[u8]) -> Option<CacheEnd> {
        let (cache, key) = self.idempotency.take()?;
        let response = match ending {
            Ending::Responded => response,
            Ending::RetryAllowed | Ending::Interrupted => &[],
        };
        Some(CacheEnd {
            cache,
            key,
            ending,
            response: response.into(),
        })
    }

    /// As it is decided about.
    pub(super) fn asked<'a>(
        &'a self,
        message: &'a Message<'a>,
        line: &'a [u8],
        resolution: &'a Resolution,
    ) -> Asked<'a> {
        Asked::new(&self.session, message, line, resolution)
    }
}

impl Finished {
    /// A request that was not executed.
    pub(super) const fn refused(failure: Failure) -> Self {
        Self {
            outcome: Err(failure),
            ending: Ending::RetryAllowed,
        }
    }

    /// A request that did not come to its own end.
    const fn interrupted(failure: Failure) -> Self {
        Self {
            outcome: Err(failure),
            ending: Ending::Interrupted,
        }
    }
}

/// What a plugin responded.
impl From<Result<Box<Body<'static>>, Failure>> for Finished {
    fn from(outcome: Result<Box<Body<'static>>, Failure>) -> Self {
        let ending = match &outcome {
            Ok(_) => Ending::Responded,
            Err(failure) if failure.retryable => Ending::RetryAllowed,
            Err(_) => Ending::Responded,
        };
        Self { outcome, ending }
    }
}

impl From<Crashed> for Finished {
    fn from(crashed: Crashed) -> Self {
        Self::interrupted(crashed.into())
    }
}

impl CacheEnd {
    pub(super) fn enter(self, now: Duration) {
        self.cache.end(now, &self.key, self.ending, &self.response);
    }

    /// The same for a request of which there is no audit record: nobody is sent its response.
    pub(super) fn unrecorded(self) -> Self {
        Self {
            ending: Ending::Interrupted,
            ..self
        }
    }
}

/// A plugin has panicked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Crashed;

impl From<Crashed> for Failure {
    fn from(_: Crashed) -> Self {
        let text = "the plugin crashed; the host's log says more";
        let failure = Self::new(ErrorCode::RuntimeError, Namespace::Base, text);
        let mut failure = failure.because("plugin_crashed");
        // How far it came is not known.
        failure.retryable = false;
        failure
    }
}

/// Polls a plugin. A panic in it fails that request, and no other.
pub(crate) fn poll_caught<T>(
    job: &mut BoxFuture<'static, T>,
    cx: &mut Waiting<'_>,
) -> Poll<Result<T, Crashed>> {
    let polled = catch_unwind(AssertUnwindSafe(|| Pin::new(job).poll(cx)));
    polled.map_or(Poll::Ready(Err(Crashed)), |polled| polled.map(Ok))
}

fn wants_events(body: &Body<'_>) -> bool {
    #[expect(clippy::wildcard_enum_match_arm, reason = "nothing else has events")]
    match body {
        Body::ToolCallRequest(call) => call.streaming,
        Body::SkillCallRequest(call) => call.streaming,
        Body::ChainRequest(chain) => chain.streaming,
        _ => false,
    }
}

pub(super) fn decode(line: &[u8]) -> Option<Body<'static>> {
    let message = Decoder::default().decode(line, Sender::Host, Timestamp::default());
    Some(message.ok()?.into_owned().body)
}

/// A retry of a request that then was not executed, or had no lasting effect.
fn not_executed() -> Failure {
    let text = "the request you sent before was not executed to its end; send it again";
    let mut failure = Failure::new(ErrorCode::RuntimeError, Namespace::Base, text);
    failure.retryable = true;
    failure
}

/// A request that cannot be recorded before it is executed.
fn not_recorded(namespace: Namespace) -> Failure {
    let text = "the host cannot record at the moment that it executes this, so it does not; try again \
                later";
    let mut failure = Failure::new(ErrorCode::RuntimeError, namespace, text);
    failure.retryable = true;
    failure.because("store_unavailable")
}
