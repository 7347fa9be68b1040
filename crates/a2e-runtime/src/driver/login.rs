//! Handshakes: who the agent is, which session is its, and how it goes on with an earlier one.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Waiting, Poll, Waker};
use std::time::{Duration, Instant};

use a2e_session::{HostSession, Login, Now, Transmit, failures};
use a2e_wire::messages::base::{HandshakeReason, HandshakeResponse, Resume};
use a2e_wire::{Body, Charset, Envelope, Message, Raw, SessionId};
use base::{Class, Exceeded, LogLimit};
use policy::{Retention, TrustLevel};
use tokio::sync::mpsc::error::SendError;
use tracing::Instrument;

use super::work::decode;
use super::{Attach, Command, Driver};
use crate::access::Revocations;
use crate::auth::{Identity, Owner, Source};
use crate::clock::{random_id, system_random};
use crate::host::{Admission, Host, Settings, TOO_MANY_SESSIONS, session_span};
use crate::idempotency::{IdempotencyCache, Outcome};
use crate::journal::{self, Journal, Restored};
use crate::link::{Link, Reader};
use crate::metrics::add;
use crate::plugin::BoxFuture;
use crate::session::{At, Session};
use crate::sessions::Entry;
use crate::slots::Holder;
use crate::snapshot::SnapshotMode;

/// Handshakes that were refused.
static REFUSED: LogLimit = LogLimit::new(10, Duration::from_secs(10));

/// The agent of a session.
pub(super) struct Known {
    pub(super) session: Arc<Session>,
    pub(super) idempotency: Arc<IdempotencyCache>,
    id: SessionId<'static>,
    /// Whether it may go on with the session over another connection.
    pub(super) can_return: bool,
}

/// The agent wants to go on with another session: that one gets the link.
pub(super) struct HandOver {
    entry: Entry,
    last_eid: u64,
}

impl Driver {
    /// Asks who an agent is.
    pub(super) fn check_login(&mut self, login: Login) {
        let (settings, source) = (Arc::clone(&self.settings), self.source);
        self.wants = login.resume.clone();
        self.revocations = self.host.inner.access.revocations();
        let mut check: BoxFuture<'static, _> =
            Box::pin(async move { settings.authenticator.authenticate(&login, source).await });
        let mut nobody = Waiting::from_waker(Waker::noop());
        if let Poll::Ready(outcome) = Pin::new(&mut check).poll(&mut nobody) {
            return self.logged_in(outcome);
        }
        let commands = self.commands.clone();
        tokio::spawn(async move {
            let outcome = Command::LoggedIn(Box::new(check.await));
            let _ = commands.send(outcome).await;
        });
    }

    /// An agent's credential was checked.
    pub(super) fn logged_in(&mut self, outcome: Result<Identity, HandshakeReason<'static>>) {
        let now = self.now;
        let resume = self.wants.take();
        let accepted = outcome.and_then(|identity| {
            match resume {
                None => self.take_slot(&identity)?,
                Some(resume) => self.hand_over = Some(self.find(&identity, &resume)?),
            }
            Ok(identity)
        });
        match accepted {
            Ok(_) if self.hand_over.is_some() => {}
            Ok(identity) => match self.take_room() {
                Ok(()) => {
                    self.identity = Some(identity);
                    self.session.login_accepted(now);
                }
                Err(reason) => self.session.login_refused(now, reason),
            },
            Err(reason) => {
                add(&self.host.inner.metrics.logins_refused, 1);
                if let Some(more) = REFUSED.admit(Instant::now()) {
                    tracing::info!(reason = reason.as_str(), "refused a handshake{more}");
                }
                self.session.login_refused(now, reason);
            }
        }
    }

    /// Counts the session as the agent's.
    fn take_slot(&mut self, identity: &Identity) -> Result<(), HandshakeReason<'static>> {
        let (holder, class) = self.holder(identity);
        let taken = self.slot.identify(holder, class);
        taken.map_err(|exceeded| too_many_sessions(exceeded, identity, &self.settings))
    }

    /// Who holds the session of an agent.
    pub(super) fn holder(&self, identity: &Identity) -> (Holder, Class) {
        let is_required = self.settings.authenticator.required();
        Holder::of(identity, self.source, is_required)
    }

    /// The session that an agent wants to go on with.
    fn find(
        &self,
        identity: &Identity,
        resume: &Resume<'static>,
    ) -> Result<HandOver, HandshakeReason<'static>> {
        let owner = self.owner(identity);
        // An open session is not given up for another.
        let owner = owner.filter(|_| self.known.is_none());
        let owner = owner.ok_or(HandshakeReason::AuthFailed)?;
        let (host, settings) = (&self.host, &self.settings);
        let restore = || {
            restore(
                host,
                settings,
                &resume.session_id,
                &owner,
                self.holder(identity),
                &self.revocations,
            )
        };
        let entry = host
            .inner
            .sessions
            .find(&resume.session_id, &owner, restore);
        Ok(HandOver {
            entry: entry.ok_or(HandshakeReason::AuthFailed)?,
            last_eid: u64::try_from(resume.last_eid).unwrap_or_default(),
        })
    }

    /// Who may go on with a session of this agent; nobody, if anybody could say to be it.
    fn owner(&self, identity: &Identity) -> Option<Owner> {
        let user = match (self.settings.authenticator.required(), self.source) {
            (true, _) => None,
            (false, Source::User(user)) => Some(user),
            (false, Source::Own | Source::Address(_)) => return None,
        };
        Some(Owner {
            agent: identity.agent.clone(),
            user,
            did: identity.proven.as_ref().map(|proven| proven.did.clone()),
        })
    }

    /// Gives the link to the session that the agent wants to go on with; says whether it took it.
    pub(super) async fn give_away(&mut self, hand_over: HandOver) -> bool {
        let now = self.now;
        let (Some(link), Some(login)) = (self.link.take(), self.session.hand_over()) else {
            return true;
        };
        let attach = Attach {
            link,
            source: self.source,
            request: login.request,
            last_eid: hand_over.last_eid,
            lines: login.lines,
        };
        let sent = hand_over
            .entry
            .commands
            .send(Command::Attach(Box::new(attach)));
        let Err(SendError(Command::Attach(attach))) = sent.await else {
            return true;
        };
        // It has just ended.
        self.link = Some(attach.link);
        let reason = HandshakeReason::AuthFailed;
        self.session.refuse_hand_over(now, attach.request, reason);
        for line in attach.lines {
            self.take_line(Ok(&line));
        }
        false
    }

    /// The agent is back.
    pub(super) fn attach(&mut self, attach: Attach) {
        let now = self.now;
        if !self.session.can_resume(attach.last_eid) {
            return attach.refuse(now, HandshakeReason::AuthFailed);
        }
        if let Err(reason) = self.take_room() {
            return attach.refuse(now, reason);
        }
        self.give_way();
        if self.session.is_closed() || !self.slot.set_attached(true) {
            return attach.refuse(now, HandshakeReason::AuthFailed);
        }
        add(&self.host.inner.metrics.sessions_resumed, 1);
        tracing::info!(source = %attach.source, "an agent is back");
        self.source = attach.source;
        self.set_link(attach.link);
        self.greets = true;
        self.record_handshake(Some("resumed"));
        self.session.resume(now, attach.request, attach.last_eid);
        for line in attach.lines {
            self.take_line(Ok(&line));
        }
    }

    /// The link makes room for another one. Whoever came over it may not even have been told that he
    /// has the session, and must not wait for it for ever.
    fn give_way(&mut self) {
        if let Some(mut link) = self.link.take() {
            if let Some(greeting) = self.session.poll_greeting() {
                link.queue(greeting);
            }
            close(link);
        }
        self.detach();
    }

    /// The handshake is done: the session has an id.
    pub(super) fn open(&mut self, id: SessionId<'static>) {
        let Some(identity) = self.identity.take() else {
            return;
        };
        self.forget();
        self.newcomer = None;
        self.greets = true;
        add(&self.host.inner.metrics.sessions_opened, 1);
        tracing::Span::current().record("agent", &identity.agent);
        // Each command that somebody types is a session of his own.
        match self.source {
            Source::Own | Source::User(_) => tracing::debug!("a session has begun"),
            Source::Address(_) => tracing::info!("a session has begun"),
        }
        let owner = self.owner(&identity);
        if owner.is_none() {
            self.session.keep_nothing();
        }
        self.know(id.clone(), identity, owner.is_some());
        self.record_handshake(None);
        if let Some(owner) = owner {
            self.journal = self.journal(&owner);
            let commands = self.commands.clone();
            let entry = Entry { owner, commands };
            self.host.inner.sessions.insert(id, entry);
        }
        let known = self.known.as_ref();
        if known.is_some_and(|known| known.session.access().is_revoked()) {
            // Perhaps this very credential was revoked since it was checked.
            self.session.shutdown(self.now, Duration::ZERO);
        }
    }

    fn know(&mut self, id: SessionId<'static>, identity: Identity, can_return: bool) {
        let key = journal::key(&id);
        let inner = &self.host.inner;
        let idempotency = cache_of(&self.host, &self.settings, &identity.agent, &key);
        let revocations = std::mem::take(&mut self.revocations);
        let access = inner.access.enter_since(&identity, &revocations);
        let bytes = self.slot.account();
        let revoked = access.revoked().clone().cancelled_owned();
        self.revoked = Some(Box::pin(revoked));
        self.known = Some(Known {
            session: Arc::new(Session::new(
                At {
                    host: self.host.clone(),
                    settings: Arc::clone(&self.settings),
                    hash: audit::session_hash(id.as_str()).to_string(),
                    is_passing: false,
                    retention: Retention::Permanent,
                    access,
                    bytes,
                },
                identity,
                key,
                self.commands.clone(),
            )),
            idempotency,
            id,
            can_return,
        });
    }

    fn journal(&self, owner: &Owner) -> Option<Journal> {
        let store = Arc::clone(self.settings.snapshots.as_ref()?);
        let max_replay = self.settings.limits.max_replay;
        Some(Journal::begin(
            store,
            &self.session,
            owner.clone(),
            max_replay,
        ))
    }

    /// The session has ended, or has become another: what was kept for it goes. What is on record
    /// stays if only the host stops.
    pub(super) fn forget(&mut self) {
        let Some(known) = self.known.take() else {
            return;
        };
        let is_ended = self.session.is_ended_by_agent() || known.session.access().is_revoked();
        let stays = self.host.is_stopping() && self.journal.is_some() && !is_ended;
        if !stays {
            self.record_end(&known);
            known.session.end();
            if let Some(journal) = self.journal.take()
                && let Err(error) = journal.remove()
            {
                tracing::warn!(%error, "cannot remove the record of a session that has ended");
            }
            self.host
                .inner
                .idempotency
                .remove_session(known.session.key());
        }
        // Only now: who asks for the session before is told that it ends, and not given its record.
        if known.can_return {
            self.host.inner.sessions.remove(&known.id);
        }
    }

    /// Goes on with a session of an earlier process.
    fn adopt(&mut self, restored: Restored) {
        let Restored {
            owner,
            saved: _,
            open: _,
            states,
        } = restored;
        // Whoever vouched for it then, it is still itself; its next login says more.
        let identity = match &owner.did {
            Some(did) => Identity::proven(&owner.agent, did, TrustLevel::Own),
            None => Identity::named(&owner.agent),
        };
        self.know(self.session.session_id().clone(), identity, true);
        self.journal = self.journal(&owner);
        let Some(known) = &self.known else {
            return;
        };
        for plugin in self.settings.registry.plugins() {
            let state = states.iter().find(|state| state.plugin == plugin.name());
            let state = state.filter(|_| self.settings.snapshot_mode != SnapshotMode::Plugin);
            let state = state.and_then(|state| Raw::parse(&state.state, a2e_wire::OWN_VALUES).ok());
            plugin.restore(&known.session, state.as_ref());
        }
        if let Some(journal) = &mut self.journal {
            journal.adopt(states);
        }
    }
}

impl Attach {
    /// Tells the agent that it cannot go on with a session; it may come again for a new one.
    pub(super) fn refuse(self, now: Now, reason: HandshakeReason<'static>) {
        let Self {
            mut link, request, ..
        } = self;
        let response = HandshakeResponse {
            ok: false,
            reason,
            ..HandshakeResponse::new(SessionId::default())
        };
        let envelope = Envelope::new(random_id(), now.unix).in_reply_to(request);
        let mut line = Vec::new();
        Message::<'_, Body<'_>>::new(envelope, response).encode_to(&mut line, Charset::Utf8);
        link.queue(Transmit {
            eid: None,
            line: &line,
        });
        close(link);
    }
}

/// How long whoever lost a session, or did not get it, may take to read that: over HTTP the stream for it
/// may not even be open yet, and no other answer would tell him.
const LAST_WORD: Duration = Duration::from_secs(10);

/// Writes what a link has taken and closes it, without anybody waiting for that.
fn close(mut link: Box<dyn Link>) {
    tokio::spawn(async move {
        let close = std::future::poll_fn(|cx| match link.poll_evicted(cx) {
            Poll::Ready(()) => Poll::Ready(Ok(())),
            Poll::Pending => link.poll_close(cx),
        });
        let _ = tokio::time::timeout(LAST_WORD, close).await;
    });
}

/// Begins to go on with a session that is on record, if it is this owner's.
fn restore(
    host: &Host,
    settings: &Arc<Settings>,
    id: &SessionId<'static>,
    owner: &Owner,
    (holder, class): (Holder, Class),
    revocations: &Revocations,
) -> Option<Entry> {
    let store = settings.snapshots.as_ref()?;
    let restored = journal::load(&**store, id).and_then(|found| {
        let owned = found.filter(|restored| restored.owner == *owner);
        owned
            .map(|restored| answer_open(host, settings, restored))
            .transpose()
    });
    let restored = match restored {
        Ok(restored) => restored?,
        Err(error) => {
            tracing::error!(%error, "cannot read the record of a session");
            return None;
        }
    };
    let slot = host.inner.slots.admit_detached(holder, class).ok()?;
    let offer = settings.registry.offer(settings.authenticator.required());
    let now = host.inner.clock.now();
    let saved = restored.saved.clone();
    let session = HostSession::restore(now, settings.limits, offer, system_random(), saved);
    let mut driver = Driver::new(
        host.clone(),
        Arc::clone(settings),
        session,
        Source::Own,
        Admission {
            slot,
            newcomer: None,
        },
    );
    driver.revocations = revocations.clone();
    driver.adopt(restored);
    let commands = driver.commands.clone();
    let span = session_span(Source::Own);
    span.record("agent", &owner.agent);
    tokio::spawn(driver.run(None).instrument(span));
    Some(Entry {
        owner: owner.clone(),
        commands,
    })
}

/// Finds what the open requests of a session are answered with: what they came to in the earlier process,
/// or that they were interrupted by its end.
fn answer_open(host: &Host, settings: &Settings, mut restored: Restored) -> io::Result<Restored> {
    let key = journal::key(&restored.saved.session_id);
    let cache = cache_of(host, settings, &restored.owner.agent, &key);
    for id in std::mem::take(&mut restored.open) {
        let body = match cache.outcome(id.as_str())? {
            None => failures::restarted().into_message().into(),
            Some(Outcome::Interrupted) => failures::interrupted().into_message().into(),
            Some(Outcome::Response(line)) => match decode(line.bytes()) {
                Some(body) => body,
                None => failures::interrupted().into_message().into(),
            },
        };
        restored.saved.open.push((id, body));
    }
    Ok(restored)
}

/// Why an agent gets no session, and what to do about it.
fn too_many_sessions(
    exceeded: Exceeded,
    identity: &Identity,
    settings: &Settings,
) -> HandshakeReason<'static> {
    let text = match exceeded {
        Exceeded::Share => format!(
            "{TOO_MANY_SESSIONS}: the agent `{}` has as many sessions as it may, {}; end some, or have \
             the operator raise `global_limits.max_sessions_per_agent`",
            identity.agent, settings.max_sessions_per_agent
        ),
        Exceeded::Total => format!(
            "{TOO_MANY_SESSIONS}: the host has as many sessions as it may, {}; try again later, or have \
             the operator raise `global_limits.max_sessions`",
            settings.max_sessions
        ),
    };
    HandshakeReason::Other(text.into())
}

/// The idempotency cache of an agent. Without authentication anybody could be this agent, so that ids
/// mean something within one session only.
fn cache_of(host: &Host, settings: &Settings, agent: &str, session: &str) -> Arc<IdempotencyCache> {
    match settings.authenticator.required() {
        true => host.inner.idempotency.of_agent(agent),
        false => host.inner.idempotency.of_session(session),
    }
}
