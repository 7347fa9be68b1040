//! The host's end of a session.

mod lines;
mod restore;
mod serving;

use std::collections::VecDeque;
use std::time::Duration;

use a2e_wire::messages::base::{AcceptedCapability, HandshakeReason, HandshakeResponse};
use a2e_wire::{Body, Capability, Decoder, Envelope, MessageId, SessionId};

pub use self::restore::{HandedOver, Saved};

use crate::event::{CancelReason, CloseReason, HostEvent};
use crate::failure::{Failure, failures};
use crate::negotiate::Negotiated;
use crate::now::{MessageIds, session_id};
use crate::outbox::Outbox;
use crate::requests::Requests;
use crate::{Limits, Now, Offer, Random, Transmit};

/// The host's end of a session: awaiting the handshake, active, draining, closed.
pub struct HostSession {
    limits: Limits,
    offer: Offer,
    random: Box<dyn Random>,
    decoder: Decoder,
    state: State,
    outbox: Outbox,
    requests: Requests,
    events: VecDeque<HostEvent>,
    /// A handshake whose token is being checked.
    login: Option<PendingLogin>,
    /// Lines that came while a token was being checked.
    held: VecDeque<Vec<u8>>,
    /// The session's id, once there is one.
    session_id: SessionId<'static>,
    /// What this session's message ids begin with, and how many there are.
    ids: MessageIds,
    /// Whether somebody is there to read.
    has_peer: bool,
    /// Whether nothing is read, started or kept for a peer that comes back.
    is_paused: bool,
    /// Whether the agent has asked for the end of the session.
    is_ended_by_agent: bool,
    started: Duration,
    /// When the peer last spoke, or was last answered.
    last_active: Duration,
}

/// Where a session stands.
#[derive(Debug, Clone, PartialEq)]
enum State {
    /// Nobody is known yet.
    AwaitingHandshake { until: Duration },
    /// Requests are served.
    Active { accepted: Vec<Capability<'static>> },
    /// The connection is gone; the peer may come back.
    Detached {
        accepted: Vec<Capability<'static>>,
        until: Duration,
    },
    /// What was asked is finished, nothing new is taken.
    Draining {
        accepted: Vec<Capability<'static>>,
        until: Duration,
    },
    /// Nothing happens any more.
    Closed,
}

#[derive(Debug)]
struct PendingLogin {
    request: MessageId<'static>,
    wanted: Vec<String>,
}

impl std::fmt::Debug for HostSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostSession")
            .field("state", &self.state)
            .field("running", &self.requests.count_running())
            .field("waiting", &self.requests.count_waiting())
            .finish_non_exhaustive()
    }
}

impl HostSession {
    /// A session whose connection was made just now.
    #[must_use]
    pub fn new(now: Now, limits: Limits, offer: Offer, mut random: Box<dyn Random>) -> Self {
        let ids = MessageIds::new(&mut *random);
        Self {
            state: State::AwaitingHandshake {
                until: now.after(limits.handshake),
            },
            outbox: Outbox::new(limits.max_outbound, limits.max_replay),
            limits,
            offer,
            random,
            decoder: Decoder::default(),
            requests: Requests::default(),
            events: VecDeque::new(),
            login: None,
            held: VecDeque::new(),
            session_id: SessionId::default(),
            ids,
            has_peer: true,
            is_paused: false,
            is_ended_by_agent: false,
            started: now.monotonic,
            last_active: now.monotonic,
        }
    }

    /// The token of the last [`HostEvent::Login`] is good: negotiates and answers.
    pub fn login_accepted(&mut self, now: Now) {
        let Some(login) = self.login.take() else {
            return;
        };
        if matches!(self.state, State::Draining { .. } | State::Closed) {
            // It came too late: the session is ending and stays so.
            let reason = HandshakeReason::ServerError;
            self.refuse_handshake(now, login.request, reason, Vec::new());
            return self.take_held(now);
        }
        let wanted = login.wanted.iter().map(String::as_str);
        match self.offer.negotiate(wanted) {
            Negotiated {
                is_refused: true,
                answers,
                ..
            } => self.refuse_handshake(now, login.request, HandshakeReason::NoCaps, answers),
            negotiated => {
                self.withdraw_unstarted(now);
                self.state = State::Active {
                    accepted: negotiated.accepted,
                };
                self.session_id = session_id(&mut *self.random);
                self.outbox.forget_sent();
                let response = HandshakeResponse {
                    accepted_caps: negotiated.answers,
                    max_parallel: i64::try_from(self.limits.max_parallel).unwrap_or(i64::MAX),
                    ..HandshakeResponse::new(self.session_id.clone())
                };
                self.send(now, login.request, response.into());
                self.events
                    .push_back(HostEvent::Opened(self.session_id.clone()));
            }
        }
        self.take_held(now);
    }

    /// The token of the last [`HostEvent::Login`] is not good, or the session to resume is not
    /// there: answers `ok:false`.
    pub fn login_refused(&mut self, now: Now, reason: HandshakeReason<'static>) {
        if let Some(login) = self.login.take() {
            self.refuse_handshake(now, login.request, reason, Vec::new());
        }
        self.take_held(now);
    }

    /// The peer of a session whose connection broke is back: `request` is the id of its handshake.
    pub fn resume(&mut self, now: Now, request: MessageId<'static>, last_eid: u64) {
        let accepted = match &self.state {
            State::Detached { accepted, .. } | State::Active { accepted } => accepted.clone(),
            State::AwaitingHandshake { .. } | State::Draining { .. } | State::Closed => return,
        };
        self.has_peer = true;
        let missed = self.outbox.replay_after(last_eid);
        let signed = |eid: u64| i64::try_from(eid).unwrap_or(i64::MAX);
        let response = HandshakeResponse {
            accepted_caps: self
                .offer
                .negotiate(accepted.iter().map(Capability::as_str))
                .answers,
            max_parallel: i64::try_from(self.limits.max_parallel).unwrap_or(i64::MAX),
            resumed: Some(true),
            missed: missed.map(|(from, to)| (signed(from), signed(to))),
            ..HandshakeResponse::new(self.session_id.clone())
        };
        self.state = State::Active { accepted };
        self.last_active = now.monotonic;
        let envelope = self.envelope(now, request);
        self.outbox.push_first(envelope, response.into());
        self.start_requests(now);
    }

    /// The peer has lost what came after `last_eid` and is sent it again, or told what is gone.
    pub fn rewind(&mut self, now: Now, last_eid: u64) {
        // Who is about to be told anyhow is not told twice.
        if let Some((from, to)) = self.outbox.replay_after(last_eid)
            && !self.outbox.has_first()
        {
            let envelope = self.envelope(now, MessageId::default());
            let message = failures::missed(from, to).into_message();
            self.outbox.push_first(envelope, message.into());
        }
    }

    /// Begins to end the session: what was asked may finish within `grace`. Said again, the shortest
    /// counts.
    pub fn shutdown(&mut self, now: Now, grace: Duration) {
        let end = now.after(grace);
        let (accepted, until) = match std::mem::replace(&mut self.state, State::Closed) {
            State::Closed => return,
            State::Draining { accepted, until } => (accepted, until.min(end)),
            State::AwaitingHandshake { .. } => (Vec::new(), end),
            State::Active { accepted } | State::Detached { accepted, .. } => (accepted, end),
        };
        self.state = State::Draining { accepted, until };
        self.close_if_drained();
    }

    /// Ends the session at once: what it has written and not sent is not sent any more, but for what
    /// tells the peer why.
    pub fn end(&mut self, now: Now, reason: CloseReason, failure: Option<Failure>) {
        if self.state == State::Closed {
            return;
        }
        self.outbox.clear();
        if let Some(failure) = failure {
            self.send(now, MessageId::default(), failure.into_message().into());
        }
        self.close(reason);
    }

    /// Pauses the session, or lets it go on. A paused one reads and starts nothing, pushes events back,
    /// and keeps nothing for a peer that comes back.
    pub fn set_paused(&mut self, now: Now, is_paused: bool) {
        self.is_paused = is_paused;
        if is_paused {
            self.outbox.forget_sent();
        }
        self.outbox.trim();
        self.start_requests(now);
    }

    /// Bytes of memory, about, that the session takes: messages that are not sent or are kept for a
    /// peer that comes back, and requests that are not answered.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.outbox.bytes().saturating_add(self.requests.bytes())
    }

    /// The connection is gone.
    pub fn disconnected(&mut self, now: Now) {
        self.has_peer = false;
        match std::mem::replace(&mut self.state, State::Closed) {
            State::Active { accepted } if !self.limits.resume.is_zero() => {
                self.state = State::Detached {
                    accepted,
                    until: now.after(self.limits.resume),
                };
            }
            State::Closed => {}
            State::Detached { accepted, until } => self.state = State::Detached { accepted, until },
            State::AwaitingHandshake { .. } | State::Active { .. } | State::Draining { .. } => {
                self.close(CloseReason::Disconnected);
            }
        }
    }

    /// Does what is due. Call it when [`HostSession::poll_timeout`] says so, or more often.
    pub fn handle_timeout(&mut self, now: Now) {
        for token in self.requests.overdue(now.monotonic) {
            self.fail(now, token, failures::timeout);
            self.events
                .push_back(HostEvent::Cancel(token, CancelReason::Timeout));
        }
        match self.state {
            State::AwaitingHandshake { until } if until <= now.monotonic => {
                self.close(CloseReason::NoHandshake);
            }
            State::Detached { until, .. } if until <= now.monotonic => {
                self.close(CloseReason::Disconnected);
            }
            State::Draining { until, .. } if until <= now.monotonic => self.cut_off(now),
            State::Active { .. } if self.idle_deadline().is_some_and(|at| at <= now.monotonic) => {
                self.close(CloseReason::Idle);
            }
            State::AwaitingHandshake { .. }
            | State::Active { .. }
            | State::Detached { .. }
            | State::Draining { .. }
            | State::Closed => {}
        }
        self.start_requests(now);
        self.close_if_drained();
    }

    /// When [`HostSession::handle_timeout`] must be called, at the latest.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        let own = match self.state {
            State::AwaitingHandshake { until }
            | State::Detached { until, .. }
            | State::Draining { until, .. } => Some(until),
            State::Active { .. } => self.idle_deadline(),
            State::Closed => return None,
        };
        own.into_iter().chain(self.requests.next_deadline()).min()
    }

    /// The next message to write to the peer. Ask again after every other call, until there is none.
    #[must_use]
    pub fn poll_transmit(&mut self, now: Now) -> Option<Transmit<'_>> {
        if matches!(self.state, State::Detached { .. }) {
            return None;
        }
        // What was taken before has made room.
        self.start_requests(now);
        self.close_if_drained();
        if self.is_paused {
            self.outbox.forget_sent();
        }
        self.outbox.pop()
    }

    /// Frees what the transport has taken and a peer that comes back is not sent again. Without it that
    /// is done with the next message.
    pub fn release_sent(&mut self) {
        self.outbox.trim();
    }

    /// The next thing the host must do. Ask again after every other call.
    #[must_use]
    pub fn poll_event(&mut self) -> Option<HostEvent> {
        self.events.pop_front()
    }

    /// Whether the driver should go on reading from the peer.
    #[must_use]
    pub fn wants_input(&self) -> bool {
        self.login.is_none()
            && !self.is_behind()
            && self.events.len() < self.limits.max_queue
            && self.state != State::Closed
    }

    /// Whether the session is paused, or the peer so far behind, that events are pushed back.
    #[must_use]
    pub const fn is_behind(&self) -> bool {
        self.is_paused || self.outbox.is_full()
    }

    /// Whether the agent has negotiated the capability that a message belongs to.
    #[must_use]
    pub fn has_negotiated(&self, body: &Body<'_>) -> bool {
        let Some(capability) = self.offer.capability(body) else {
            return true;
        };
        match &self.state {
            State::Active { accepted }
            | State::Detached { accepted, .. }
            | State::Draining { accepted, .. } => accepted.contains(&capability),
            State::AwaitingHandshake { .. } | State::Closed => false,
        }
    }

    /// Whether nothing is asked, and all that was written is taken.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.requests.is_idle() && self.outbox.is_empty()
    }

    /// Whether a token is being checked.
    #[must_use]
    pub const fn is_logging_in(&self) -> bool {
        self.login.is_some()
    }

    /// Whether the session has ended.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// Whether the agent has asked for the end of the session, and will not come back to it.
    #[must_use]
    pub const fn is_ended_by_agent(&self) -> bool {
        self.is_ended_by_agent
    }

    /// How many requests run.
    #[must_use]
    pub fn requests_running(&self) -> usize {
        self.requests.count_running()
    }

    /// How many requests are held back.
    #[must_use]
    pub fn requests_held(&self) -> usize {
        self.requests.count_held()
    }

    /// How many requests wait for their turn.
    #[must_use]
    pub fn requests_waiting(&self) -> usize {
        self.requests.count_waiting()
    }

    /// The number of the last message written.
    #[must_use]
    pub const fn last_eid(&self) -> u64 {
        self.outbox.last_eid()
    }

    fn refuse_handshake(
        &mut self,
        now: Now,
        request: MessageId<'static>,
        reason: HandshakeReason<'static>,
        accepted_caps: Vec<AcceptedCapability<'static>>,
    ) {
        let response = HandshakeResponse {
            accepted_caps,
            ok: false,
            reason: reason.clone(),
            ..HandshakeResponse::new(SessionId::default())
        };
        self.send(now, request, response.into());
        self.events.push_back(HostEvent::HandshakeRefused(reason));
    }

    fn close_if_drained(&mut self) {
        if matches!(self.state, State::Draining { .. })
            && self.login.is_none()
            && self.requests.is_idle()
            && (self.outbox.is_empty() || !self.has_peer)
        {
            self.close(CloseReason::Shutdown);
        }
    }

    /// Ends the session; whoever still works for it is told.
    fn close(&mut self, reason: CloseReason) {
        self.state = State::Closed;
        drop(self.requests.take_waiting());
        let mut open = self.requests.started();
        open.extend(self.requests.take_streams());
        for token in open {
            self.requests.finish(token);
            self.events
                .push_back(HostEvent::Cancel(token, CancelReason::SessionEnded));
        }
        self.requests.take_streams();
        self.events.push_back(HostEvent::Closed(reason));
    }

    fn idle_deadline(&self) -> Option<Duration> {
        let counts = !self.limits.idle.is_zero() && self.requests.is_idle() && self.login.is_none();
        counts.then(|| self.last_active.saturating_add(self.limits.idle))
    }

    fn send(&mut self, now: Now, req_id: MessageId<'static>, body: Body<'static>) {
        let envelope = self.envelope(now, req_id);
        self.outbox.push(envelope, body);
    }

    fn envelope(&mut self, now: Now, req_id: MessageId<'static>) -> Envelope<'static> {
        Envelope::new(self.ids.next(), now.unix).in_reply_to(req_id)
    }
}
