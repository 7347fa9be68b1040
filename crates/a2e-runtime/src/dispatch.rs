//! Requests that are made inside the node: by one plugin of another, and for whoever has no
//! connection of his own. They go the way of every request: the rate, the rules, the operator, the
//! record.

mod errand;

use std::sync::Arc;
use std::time::Duration;

use a2e_session::{Failure, Now};
use a2e_wire::{Body, Charset, Envelope, ErrorCode, Message, MessageId, Namespace};
use audit::{Check, Verdict as Recorded};
use policy::{Retention, Rules};
use tokio::sync::mpsc;
use tracing::Instrument;

use crate::access::Access;
use crate::approvals::{ApprovalDecision, Question, Word};
use crate::auth::{Identity, Source};
use crate::clock::random_id;
use crate::decision::{
    Asked, RuleName, Verdict, changed, no_operator, not_approved, revoked, still, unrecorded,
};
use crate::driver::{CANCELLED, Note, RATE_LIMITED, SUCCESS, note_failure, poll_caught, span_of};
use crate::host::Host;
use crate::in_flight::AGENT_LIMIT;
use crate::metrics::Ended;
use crate::plugin::{Asker, BoxFuture, Context, Takes};
use crate::resolution::{Resolution, normalize, open_selector};
use crate::session::{At, Session};
use crate::slots::Holder;

pub use errand::Errand;

/// How deep requests may be inside each other: a chain in a skill in a chain is three deep.
pub const MAX_DEPTH: usize = 8;

/// Somebody in whose name a node asks itself, without a connection: a peer that speaks another
/// protocol. What plugins keep for him goes when this is dropped.
#[derive(Debug)]
pub struct StandIn {
    session: Arc<Session>,
    takes: Takes,
}

/// A request on its way.
struct Request {
    session: Arc<Session>,
    message: Box<Message<'static>>,
    asker: Asker,
}

impl Context {
    /// Asks the host for something in the name of the agent this request is served for. It is
    /// decided about and put on record by itself; dropped, it is cancelled.
    ///
    /// # Errors
    /// What an agent would be told that had sent it, or if requests are too deep inside each other.
    pub async fn ask(&self, body: impl Into<Body<'static>>) -> Result<Body<'static>, Failure> {
        self.ask_with_events(body, None).await
    }

    /// Asks as [`Context::ask`] does, and gives events of the request on.
    ///
    /// # Errors
    /// As [`Context::ask`].
    pub async fn ask_with_events(
        &self,
        body: impl Into<Body<'static>>,
        events: Option<mpsc::Sender<Body<'static>>>,
    ) -> Result<Body<'static>, Failure> {
        let (body, depth) = (body.into(), self.depth().saturating_add(1));
        if depth > MAX_DEPTH {
            return Err(too_deep(namespace(&body)));
        }
        let asker = Asker::Node {
            events,
            outer: Some(self.clone()),
            depth,
            takes: Takes::Usual,
        };
        // Boxed: requests inside of requests have futures inside of futures.
        let request = Request::new(self.session(), self.next_id(), body, asker)?;
        Box::pin(request.run(|| Ok(()))).await
    }
}

impl Host {
    /// Lets somebody ask who was found to be `identity` by other means than a handshake.
    #[must_use]
    pub fn stand_in(&self, identity: Identity) -> StandIn {
        self.stand_in_keeping(identity, Retention::Permanent)
    }

    /// The same, for somebody with whom it was agreed how long what is in requests and answers may be
    /// kept.
    #[must_use]
    pub fn stand_in_keeping(&self, identity: Identity, retention: Retention) -> StandIn {
        // Nobody knows it, so it may stand for the session's id as well.
        let key = random_id();
        let holder = Holder::of(&identity, Source::Own, true);
        let at = At {
            host: self.clone(),
            settings: self.settings(),
            hash: audit::session_hash(&key).to_string(),
            is_passing: true,
            retention,
            access: self.inner.access.enter(&identity),
            bytes: self.inner.slots.account(holder),
        };
        let commands = self.inner.nobody.clone();
        StandIn {
            session: Arc::new(Session::new(at, identity, key, commands)),
            takes: Takes::Usual,
        }
    }
}

impl StandIn {
    /// The access of whom it asks for.
    #[must_use]
    pub fn access(&self) -> &Access {
        self.session.access()
    }

    /// The agent in whose name it asks.
    #[must_use]
    pub fn agent(&self) -> &str {
        &self.session.identity().agent
    }

    /// The same, whose results are not cut: it does not stay to read the rest of them.
    #[must_use]
    pub const fn taking_any_size(mut self) -> Self {
        self.takes = Takes::Any;
        self
    }

    /// Asks the host for something; `id` is what the request is called on record. Dropped, it is
    /// cancelled.
    ///
    /// # Errors
    /// What an agent would be told that had sent it.
    pub async fn ask(
        &self,
        id: impl Into<MessageId<'static>>,
        body: impl Into<Body<'static>>,
        events: Option<mpsc::Sender<Body<'static>>>,
    ) -> Result<Body<'static>, Failure> {
        self.ask_once_allowed(id, body, events, || Ok(())).await
    }

    /// Asks as [`StandIn::ask`] does. `allowed` is called when the rules, and the operator if need be,
    /// have allowed the request, and before it is done; if it fails the request is refused.
    ///
    /// # Errors
    /// As [`StandIn::ask`], and that of `allowed`.
    pub async fn ask_once_allowed(
        &self,
        id: impl Into<MessageId<'static>>,
        body: impl Into<Body<'static>>,
        events: Option<mpsc::Sender<Body<'static>>>,
        allowed: impl FnOnce() -> Result<(), Failure> + Send,
    ) -> Result<Body<'static>, Failure> {
        let asker = Asker::Node {
            events,
            outer: None,
            depth: 0,
            takes: self.takes,
        };
        let request = Request::new(&self.session, id.into(), body.into(), asker)?;
        Box::pin(request.run(allowed)).await
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.session.end();
    }
}

impl Request {
    fn new(
        session: &Arc<Session>,
        id: MessageId<'static>,
        body: Body<'static>,
        asker: Asker,
    ) -> Result<Self, Failure> {
        let ts = session.at().host.inner.clock.now().unix;
        let mut message = Box::new(Message::new(Envelope::new(id, ts), body));
        normalize(&mut message)?;
        Ok(Self {
            session: Arc::clone(session),
            message,
            asker,
        })
    }

    /// Does it, unless the access of its identity is revoked.
    async fn run(
        self,
        allowed: impl FnOnce() -> Result<(), Failure> + Send,
    ) -> Result<Body<'static>, Failure> {
        let namespace = namespace(&self.message.body);
        let access = self.session.access().clone();
        tokio::select! {
            biased;
            () = access.revoked().cancelled() => Err(revoked(namespace)),
            outcome = self.decided_and_recorded(allowed) => outcome,
        }
    }

    async fn decided_and_recorded(
        self,
        allowed: impl FnOnce() -> Result<(), Failure> + Send,
    ) -> Result<Body<'static>, Failure> {
        let session = Arc::clone(&self.session);
        let host = &session.at().host;
        let now = host.inner.clock.now();
        let mut line = Vec::new();
        self.message.encode_to(&mut line, Charset::Utf8);
        let unresolved = Resolution::default();
        let asked = self.asked(&line, &unresolved);
        let (namespace, tag) = (asked.namespace(), self.message.body.tag());
        let policies = host.policies();
        let rules = policies.of(asked.agent());
        if let Err(failure) = host.inner.counters.count(rules, now, asked) {
            if let Some(log) = &host.inner.audit {
                log.reject(None, Some(asked.agent()), RATE_LIMITED);
            }
            return Err(failure);
        }
        let holder = session.at().bytes.holder();
        let _slot = match host.inner.in_flight.begin(holder, namespace) {
            Ok(slot) => slot,
            Err(failure) => {
                if let Some(log) = &host.inner.audit {
                    log.reject(None, Some(asked.agent()), AGENT_LIMIT);
                }
                return Err(failure);
            }
        };
        let note = Note::take(host.inner.audit.as_ref(), asked).map_err(|error| {
            tracing::debug!(%error, "a request is refused");
            unrecorded(namespace)
        })?;
        let mut entry = OnRecord {
            session: Arc::clone(&session),
            note,
            started: now.monotonic,
        };
        let permitted = self.permit(rules, now, &line, &mut entry).await;
        let permitted = permitted.and_then(|resolution| allowed().map(|()| resolution));
        let outcome = match permitted {
            Ok(resolution) => self.serve(resolution).await,
            Err(failure) => {
                entry.reject();
                Err(failure)
            }
        };
        let took = host.inner.clock.monotonic().saturating_sub(now.monotonic);
        let ended = match &outcome {
            Ok(_) => Ended::Answered,
            Err(_) => Ended::Failed,
        };
        host.inner.metrics.request(tag, ended, took);
        let recorded = entry.finish(&outcome).await;
        recorded.map_err(|error| {
            tracing::error!(%error, "a request is not on record; its answer is not given");
            unrecorded(namespace)
        })?;
        outcome.map(|message| message.body)
    }

    fn asked<'a>(&'a self, line: &'a [u8], resolution: &'a Resolution) -> Asked<'a> {
        Asked::new(&self.session, &self.message, line, resolution)
    }

    /// What it stands for.
    async fn resolve(&self) -> Result<Resolution, Failure> {
        let registry = &self.session.at().settings.registry;
        registry.resolve(&self.message, &self.session).await
    }

    /// Whether the rules let it be done, or the operator; and what it stands for, as far as that matters.
    async fn permit(
        &self,
        rules: &Rules,
        now: Now,
        line: &[u8],
        entry: &mut OnRecord,
    ) -> Result<Resolution, Failure> {
        let resolution = match open_selector(&self.message.body) {
            Some(_) => self.resolve().await?,
            None => Resolution::default(),
        };
        let asked = self.asked(line, &resolution);
        let inner = &self.session.at().host.inner;
        let ruling = inner.counters.decide(rules, now, asked);
        if let Some(note) = &mut entry.note {
            note.ruled(rules, &ruling);
        }
        let repetition = match ruling.verdict {
            Verdict::Allow => return Ok(resolution),
            Verdict::Deny(failure) => return Err(failure),
            Verdict::Hold(repetition) => repetition,
        };
        let resolution = self.resolve().await?;
        let asked = self.asked(line, &resolution);
        if let Some(note) = &mut entry.note {
            note.set_aside();
        }
        let approved = asked.hash();
        let rule = ruling.rule_name();
        let word = self.hold(asked, &rule).await;
        let is_granted = |word: &Word| word.decision == ApprovalDecision::Approved;
        let checked = match word.as_ref().is_ok_and(is_granted) {
            true => Check::Passed,
            false => Check::Failed,
        };
        if let Some(note) = &mut entry.note {
            note.checks.approval = Some(checked);
            note.approval = word.as_ref().ok().map(|word| word.id.clone());
        }
        let word = word?;
        if !is_granted(&word) {
            return Err(not_approved(asked.namespace(), &rule, &word));
        }
        inner.counters.approved(asked.agent(), repetition);
        // What it stands for may have changed while it was held, and the rules may have become stricter.
        let resolution = self.resolve().await?;
        let asked = self.asked(line, &resolution);
        if asked.hash() != approved {
            return Err(changed(asked.namespace()));
        }
        still(self.session.at().host.policies().of(asked.agent()), asked)?;
        if let Some(note) = &mut entry.note {
            note.resume(inner.audit.as_ref()).map_err(|error| {
                tracing::debug!(%error, "an approved request is refused");
                unrecorded(asked.namespace())
            })?;
        }
        Ok(resolution)
    }

    /// Asks the operator.
    async fn hold(&self, asked: Asked<'_>, rule: &RuleName) -> Result<Word, Failure> {
        let namespace = asked.namespace();
        let is_written = !self.session.leaves_no_payload();
        let question = Question::new(&self.session, asked, rule, is_written)?;
        let Some(approvals) = self.session.at().host.inner.approvals.clone() else {
            return Err(no_operator(namespace, rule));
        };
        let outer = match &self.asker {
            Asker::Node { outer, .. } => outer.as_ref(),
            Asker::Agent(_) => None,
        };
        let told = |approval| async move {
            if let Some(outer) = outer {
                outer.held(approval).await;
            }
        };
        let word = approvals.ask(question, told).await;
        word.map_err(|error| {
            tracing::error!(%error, "a held call cannot be kept");
            let text = "the host cannot ask its operator at the moment; try again later";
            let mut failure = Failure::new(ErrorCode::RuntimeError, namespace, text);
            failure.retryable = true;
            failure
        })
    }

    /// Gives it to its plugin.
    async fn serve(self, resolution: Resolution) -> Result<Message<'static>, Failure> {
        let Self {
            session,
            message,
            asker,
        } = self;
        let envelope = message.envelope.clone();
        let (asking, id) = (Arc::clone(&session), envelope.id.clone());
        let context = Context::new(asking, id, asker, resolution);
        let _over = context.over_guard();
        let settings = Arc::clone(&session.at().settings);
        let span = span_of(&message, None);
        let job = async move {
            let outcome = settings.registry.dispatch(message, context).await;
            note_failure(&outcome);
            outcome
        };
        let mut job: BoxFuture<'static, _> = Box::pin(job.instrument(span));
        let body = std::future::poll_fn(|cx| poll_caught(&mut job, cx)).await??;
        if let Body::Error(error) = *body {
            return Err(error.into());
        }
        Ok(Message::new(envelope, *body))
    }
}

/// What is put on record of a request, whatever becomes of it: one that is dropped was cancelled.
struct OnRecord {
    session: Arc<Session>,
    note: Option<Box<Note>>,
    started: Duration,
}

impl OnRecord {
    fn reject(&mut self) {
        if let Some(note) = &mut self.note {
            note.verdict = Recorded::Rejected;
        }
    }

    async fn finish(
        &mut self,
        outcome: &Result<Message<'static>, Failure>,
    ) -> Result<(), audit::Error> {
        let mut answer = Vec::new();
        if let (Ok(message), Some(_)) = (outcome, &self.note) {
            message.encode_to(&mut answer, Charset::Utf8);
        }
        let status = match outcome {
            Ok(_) => SUCCESS,
            Err(failure) => failure.code.as_str(),
        };
        match self.enqueue(status, answer.len())? {
            Some(pending) => pending.await.map(drop),
            None => Ok(()),
        }
    }

    fn enqueue(
        &mut self,
        status: &str,
        output: usize,
    ) -> Result<Option<audit::Pending>, audit::Error> {
        let inner = &self.session.at().host.inner;
        let (Some(note), Some(log)) = (self.note.take(), &inner.audit) else {
            return Ok(None);
        };
        let took = inner.clock.monotonic().saturating_sub(self.started);
        let session = audit::Body {
            agent: Some(&self.session.identity().agent),
            session_id: Some(self.session.hash()),
            ..audit::Body::default()
        };
        let pending = note.enqueue(log, status, took, output, session)?;
        log.commit();
        Ok(Some(pending))
    }
}

impl Drop for OnRecord {
    fn drop(&mut self) {
        if let Err(error) = self.enqueue(CANCELLED, 0) {
            tracing::error!(%error, "a cancelled request is not on record");
        }
    }
}

fn namespace(body: &Body<'_>) -> Namespace {
    body.tag().map_or(Namespace::Base, a2e_wire::Tag::namespace)
}

fn too_deep(namespace: Namespace) -> Failure {
    let text = format!("requests are more than {MAX_DEPTH} deep inside each other");
    Failure::new(ErrorCode::RuntimeError, namespace, text)
}
