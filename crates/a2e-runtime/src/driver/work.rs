//! The requests of a session: started, answered, cancelled, and sent again.

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Waiting, Poll};
use std::time::Duration;

use a2e_session::{EventError, Failure, Request, Token, failures};
use a2e_wire::{Body, Decoder, ErrorCode, Message, Namespace, Sender, Tag, Timestamp};
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
use crate::journal::{Begun as OnRecord, Gets};
use crate::metrics::{Ended, add, subtract};
use crate::plugin::{Asker, BoxFuture, Context, Outcome, SendError};
use crate::resolution::{Resolution, normalize, open_selector};
use crate::retries::{Begun, Follow, Key, Ledger, Piece};
use crate::session::Session;
use crate::snapshot::SnapshotMode;

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
    tag: Option<Tag>,
    started: Duration,
    /// The session that it came with, whoever shakes hands on this connection later.
    session: Arc<Session>,
    /// What is done for it, while it waits for the first time,
    job: Option<Job>,
    /// and then the task that does it.
    pub(super) task: Option<AbortHandle>,
    /// Where it is remembered, and by what; nowhere if another one is.
    remembered: Option<(Arc<Ledger>, Key)>,
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
}

impl Driver {
    /// Starts a request: it is remembered, decided about, and given to its plugin.
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
        normalize(&mut request.message);
        let Some(known) = &self.known else {
            return self.finish_work(token, Err(failures::unauthorized()));
        };
        let mut work = Work {
            token,
            tag: request.message.body.tag(),
            started,
            session: Arc::clone(&known.session),
            job: None,
            task: None,
            remembered: None,
            resolving: None,
            held: None,
            approved: None,
            streaming: wants_events(&request.message.body),
            note: None,
        };
        let (session, unresolved) = (Arc::clone(&known.session), Resolution::default());
        let asked = Asked::new(&session, &request.message, &request.line, &unresolved);
        // Also what is sent again counts: its answer may be large.
        let policies = self.host.policies();
        let rules = policies.of(asked.agent());
        if let Err(failure) = self.host.inner.counters.count(rules, self.now, asked) {
            self.count_refusal(asked.agent(), RATE_LIMITED);
            return self.end_work(token, Some(work), Err(failure));
        }
        let id = &request.message.envelope.id;
        if !id.is_empty() {
            match known.ledger.begin(started, id, Arc::clone(&request.line)) {
                Begun::New(key) => work.remembered = Some((Arc::clone(&known.ledger), key)),
                Begun::Again(follow) => {
                    // What is given again leaves the node as the first answer did: that is on record, too.
                    match self.note(asked) {
                        Ok(note) => work.note = note,
                        Err(error) => {
                            tracing::debug!(%error, "a request is refused");
                            let failure = unrecorded(work.namespace());
                            return self.end_work(token, Some(work), Err(failure));
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
                    return self.end_work(token, Some(work), Err(failure));
                }
            }
        }
        match open_selector(&request.message.body) {
            Some(_) => self.resolve(work, request, Next::Decide),
            None => self.decide(work, request, unresolved),
        }
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
        self.record_begun(&work, &message);
        let over = context.over_guard();
        let settings = Arc::clone(&self.settings);
        let trace = trace_of(&message);
        let span = span_of(&message, trace.as_ref());
        let namespace = work.namespace();
        let job = async move {
            // Its session may not be that of the connection any more.
            let outcome = tokio::select! {
                biased;
                outcome = settings.registry.dispatch(message, context) => outcome,
                () = access.revoked().cancelled() => Err(revoked(namespace)),
            };
            note_failure(&outcome);
            outcome
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
            Poll::Ready(outcome) => {
                self.end_work(token, Some(work), outcome);
                // It is over when it is answered.
                self.spare_waker = Some(job.into_waker());
            }
            Poll::Pending => {
                work.job = Some(job);
                self.add_work(work);
            }
        }
    }

    /// Puts on record that a request is begun, if what it does may outlive this process: whoever sends
    /// it again to the next one must not have it done twice.
    fn record_begun(&mut self, work: &Work, message: &Message<'_>) {
        if self.is_current(work)
            && let Some(journal) = &mut self.journal
            && let Some((ledger, key)) = &work.remembered
            && self.settings.registry.outlives(message)
            && let Some(content) = ledger.content(key)
        {
            let id = key.id().to_owned();
            let recorded = journal.begin_request(self.now.monotonic, OnRecord { id, content });
            self.has_recorded(recorded);
        }
    }

    /// A request may be done again: it is forgotten, on record too.
    fn forget_request(&mut self, work: &Work, gets: Gets) {
        let Some((ledger, key)) = &work.remembered else {
            return;
        };
        ledger.forget(key);
        if self.is_current(work)
            && let Some(journal) = &mut self.journal
        {
            let recorded = journal.forget_request(key.id(), gets);
            self.has_recorded(recorded);
        }
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

    /// Answers a request that is worked on.
    pub(super) fn finish_work(&mut self, token: Token, outcome: Result<Outcome, Failure>) {
        let work = self.take_work(token);
        self.end_work(token, work, outcome);
    }

    /// Answers a request that is not, or not any more, among those that are worked on.
    pub(super) fn end_work(
        &mut self,
        token: Token,
        work: Option<Work>,
        outcome: Result<Outcome, Failure>,
    ) {
        let now = self.now;
        let forgets = match &outcome {
            Ok(Outcome::Answer(_)) => None,
            Ok(Outcome::Done | Outcome::Pass) => Some(Gets::Nothing),
            Err(failure) => failure.retryable.then_some(Gets::Answer),
        };
        let (ended, status) = match &outcome {
            Ok(_) => (Ended::Answered, Cow::Borrowed(record::SUCCESS)),
            Err(failure) => (Ended::Failed, Cow::Owned(failure.code.as_str().to_owned())),
        };
        let answered = match outcome {
            Ok(Outcome::Answer(body)) => self.session.respond(now, token, Ok(*body)),
            Ok(Outcome::Done | Outcome::Pass) => self.session.done(now, token),
            Err(failure) => self.session.respond(now, token, Err(failure)),
        };
        let Some(mut work) = work else {
            return;
        };
        // A request that timed out meanwhile has been answered.
        if answered.is_err() {
            return self.give_up(work);
        }
        self.put_on_record(&mut work, &status);
        if let Some(gets) = forgets {
            self.forget_request(&work, gets);
        } else if let Some((ledger, key)) = &work.remembered {
            ledger.finish(now.monotonic, key, self.session.last_written());
        }
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

    /// Ends the task of a request; nobody waits for it.
    pub(super) fn give_up(&mut self, mut work: Work) {
        Self::note_withdrawn(&mut work);
        self.put_on_record(&mut work, record::CANCELLED);
        if let Some(task) = &work.task {
            task.abort();
        }
        self.withdraw(&work);
        self.forget_request(&work, Gets::Answer);
        self.count(&work, Ended::Cancelled);
    }

    pub(super) fn take_command(&mut self, command: Command) {
        let now = self.now;
        match command {
            Command::LoggedIn(outcome) => self.logged_in(*outcome),
            Command::Finished(token, outcome) => self.finish_work(token, *outcome),
            Command::Event { token, body, done } => self.send_event(token, body, done),
            Command::Again(token, piece) => self.take_piece(token, piece),
            Command::Push { body, also, done } => {
                match self.session.push_also(now, (*body).clone(), also) {
                    Ok(_) => drop(done.send(Ok(()))),
                    Err(_) if self.session.is_closed() => drop(done.send(Err(SendError))),
                    Err(_) => self.held.push(Command::Push { body, also, done }),
                }
            }
            Command::Ask { body, answered } => {
                self.asked.retain(|_, answered| !answered.is_closed());
                if self.asked.len() < MAX_ASKED
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
            && let Some((ledger, key)) = &work.remembered
        {
            ledger.event(key, self.session.last_written());
        }
        let _ = done.send(outcome.map_err(|_| SendError));
    }

    /// Sends again what came of a request.
    fn send_again(&self, token: Token, mut follow: Follow) -> AbortHandle {
        let commands = self.commands.clone();
        let task = tokio::spawn(async move {
            while let Some(piece) = follow.next().await {
                let is_last = matches!(piece, Piece::Answer(_));
                if commands.send(Command::Again(token, piece)).await.is_err() || is_last {
                    return;
                }
            }
            let given_up = Command::Finished(token, Box::new(Err(given_up())));
            let _ = commands.send(given_up).await;
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
            Piece::Answer(line) => {
                let outcome = match decode(line.bytes()) {
                    Some(Body::Error(error)) => Err(error.into()),
                    Some(body) => Ok(Outcome::answer(body)),
                    None => Err(given_up()),
                };
                self.finish_work(token, outcome);
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

/// Polls a plugin. A panic in it is that request's failure, nobody else's.
pub(crate) fn poll_caught<T>(
    job: &mut BoxFuture<'static, Result<T, Failure>>,
    cx: &mut Waiting<'_>,
) -> Poll<Result<T, Failure>> {
    let polled = catch_unwind(AssertUnwindSafe(|| Pin::new(job).poll(cx)));
    polled.unwrap_or_else(|_| Poll::Ready(Err(crashed())))
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

fn decode(line: &[u8]) -> Option<Body<'static>> {
    let message = Decoder::default().decode(line, Sender::Host, Timestamp::default());
    Some(message.ok()?.into_owned().body)
}

fn crashed() -> Failure {
    let text = "the plugin crashed; the host's log says more";
    Failure::new(ErrorCode::RuntimeError, Namespace::Base, text)
}

/// What is said to whoever sent a request again that then was not done.
fn given_up() -> Failure {
    let text = "the request you sent before was given up; send it with a fresh id";
    let mut failure = Failure::new(ErrorCode::RuntimeError, Namespace::Base, text);
    failure.retryable = true;
    failure
}
