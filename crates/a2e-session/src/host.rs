//! The host's end of a session.

mod lines;

use std::collections::VecDeque;
use std::time::Duration;

use a2e_wire::messages::base::{HandshakeReason, HandshakeResponse};
use a2e_wire::{Body, Capability, Charset, Decoder, Envelope, MessageId, SessionId, Tag};

use crate::event::{CancelReason, CloseReason, EventError, HostEvent, Stale, Token};
use crate::failure::{Failure, failures};
use crate::now::{message_id, session_id};
use crate::outbox::Outbox;
use crate::requests::Requests;
use crate::{Backpressure, Limits, Now, Offer, Random, Transmit};

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
    Draining { until: Duration },
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
    pub fn new(now: Now, limits: Limits, offer: Offer, random: Box<dyn Random>) -> Self {
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
            started: now.monotonic,
            last_active: now.monotonic,
        }
    }

    /// Which characters the transport can carry unescaped.
    pub const fn set_charset(&mut self, charset: Charset) {
        self.outbox.set_charset(charset);
    }

    /// The token of the last [`HostEvent::Login`] is good: negotiates and answers.
    pub fn login_accepted(&mut self, now: Now) {
        let Some(login) = self.login.take() else {
            return;
        };
        if matches!(self.state, State::Draining { .. } | State::Closed) {
            // It came too late: the session is ending and stays so.
            self.refuse_handshake(now, login.request, HandshakeReason::ServerError);
            return self.take_held(now);
        }
        match self
            .offer
            .negotiate(login.wanted.iter().map(String::as_str))
        {
            Ok(negotiated) => {
                self.state = State::Active {
                    accepted: negotiated.accepted,
                };
                let session = session_id(&mut *self.random);
                let response = HandshakeResponse {
                    accepted_caps: negotiated.answers,
                    max_parallel: i64::try_from(self.limits.max_parallel).unwrap_or(i64::MAX),
                    ..HandshakeResponse::new(session)
                };
                self.send(now, login.request, response.into());
            }
            Err(reason) => self.refuse_handshake(now, login.request, reason),
        }
        self.take_held(now);
    }

    /// The token of the last [`HostEvent::Login`] is not good, or the session to resume is not
    /// there: answers `ok:false`.
    pub fn login_refused(&mut self, now: Now, reason: HandshakeReason<'static>) {
        if let Some(login) = self.login.take() {
            self.refuse_handshake(now, login.request, reason);
        }
        self.take_held(now);
    }

    /// The peer of a session whose connection broke is back: `request` is the id of its handshake,
    /// `session` the id it asked to go on with.
    pub fn resume(
        &mut self,
        now: Now,
        request: MessageId<'static>,
        session: SessionId<'static>,
        last_eid: u64,
    ) {
        let accepted = match &self.state {
            State::Detached { accepted, .. } | State::Active { accepted } => accepted.clone(),
            State::AwaitingHandshake { .. } | State::Draining { .. } | State::Closed => return,
        };
        let missed = self.outbox.replay_after(last_eid);
        let signed = |eid: u64| i64::try_from(eid).unwrap_or(i64::MAX);
        let response = HandshakeResponse {
            accepted_caps: self
                .offer
                .negotiate(accepted.iter().map(Capability::as_str))
                .map_or_else(|_| Vec::new(), |negotiated| negotiated.answers),
            max_parallel: i64::try_from(self.limits.max_parallel).unwrap_or(i64::MAX),
            resumed: Some(true),
            missed: missed.map(|(from, to)| (signed(from), signed(to))),
            ..HandshakeResponse::new(session)
        };
        self.state = State::Active { accepted };
        self.last_active = now.monotonic;
        let envelope = self.envelope(now, request);
        self.outbox.push_first(envelope, response.into());
        self.start_requests(now);
    }

    /// Answers a request.
    ///
    /// # Errors
    /// If it is not running; then nothing is sent.
    pub fn respond(
        &mut self,
        now: Now,
        token: Token,
        outcome: Result<Body<'static>, Failure>,
    ) -> Result<(), Stale> {
        let running = self.requests.finish(token).ok_or(Stale)?;
        self.last_active = now.monotonic;
        let mut envelope = self.envelope(now, running.stream.req_id);
        let body = match outcome {
            Ok(body) => {
                envelope.spelling = running.spelling;
                body
            }
            Err(failure) => failure.into_message().into(),
        };
        self.outbox.push(envelope, body);
        self.start_requests(now);
        self.close_if_drained();
        Ok(())
    }

    /// Ends a request that gets no answer (`SUBAGENT_CANCEL_REQ`).
    ///
    /// # Errors
    /// If it is not running.
    pub fn done(&mut self, now: Now, token: Token) -> Result<(), Stale> {
        self.requests.finish(token).ok_or(Stale)?;
        self.last_active = now.monotonic;
        self.start_requests(now);
        self.close_if_drained();
        Ok(())
    }

    /// Sends an event of a request, numbered behind its earlier ones.
    ///
    /// # Errors
    /// [`EventError::Stale`] if the request is not running and its events do not go on;
    /// [`EventError::Backpressure`] if the peer is too far behind.
    pub fn event(
        &mut self,
        now: Now,
        token: Token,
        mut body: Body<'static>,
    ) -> Result<(), EventError> {
        if self.outbox.is_full() {
            return Err(EventError::Backpressure(Backpressure));
        }
        let stream = self
            .requests
            .stream(token)
            .ok_or(EventError::Stale(Stale))?;
        set_seq(&mut body, stream.next_seq);
        stream.next_seq = stream.next_seq.saturating_add(1);
        let req_id = stream.req_id.clone();
        self.send(now, req_id, body);
        Ok(())
    }

    /// Lets the events of a request go on after its response, until [`HostSession::end_stream`].
    pub fn keep_stream(&mut self, token: Token) {
        self.requests.keep_stream(token);
    }

    /// Ends the events of an answered request.
    pub fn end_stream(&mut self, token: Token) {
        self.requests.end_stream(token);
    }

    /// Sends something nobody asked for, or a request of the host's; returns its id.
    ///
    /// # Errors
    /// If the peer is too far behind.
    pub fn push(
        &mut self,
        now: Now,
        body: Body<'static>,
    ) -> Result<MessageId<'static>, Backpressure> {
        if self.outbox.is_full() {
            return Err(Backpressure);
        }
        let envelope = self.envelope(now, MessageId::default());
        let id = envelope.id.clone();
        self.outbox.push(envelope, body);
        Ok(id)
    }

    /// Begins to end the session: what was asked may finish within `grace`.
    pub fn shutdown(&mut self, now: Now, grace: Duration) {
        match self.state {
            State::Closed | State::Draining { .. } => return,
            State::AwaitingHandshake { .. } | State::Active { .. } | State::Detached { .. } => {}
        }
        self.state = State::Draining {
            until: now.after(grace),
        };
        self.close_if_drained();
    }

    /// The connection is gone.
    pub fn disconnected(&mut self, now: Now) {
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
            State::Draining { until } if until <= now.monotonic => self.cut_off(now),
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
            | State::Draining { until } => Some(until),
            State::Active { .. } => self.idle_deadline(),
            State::Closed => return None,
        };
        own.into_iter().chain(self.requests.next_deadline()).min()
    }

    /// The next message to write to the peer. Ask again after every other call.
    #[must_use]
    pub fn poll_transmit(&mut self, now: Now) -> Option<Transmit> {
        if matches!(self.state, State::Detached { .. }) {
            return None;
        }
        let transmit = self.outbox.pop();
        if transmit.is_some() {
            // There may be room again.
            self.start_requests(now);
        }
        self.close_if_drained();
        transmit
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
            && !self.outbox.is_full()
            && self.events.len() < self.limits.max_queue
            && self.state != State::Closed
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

    /// How many requests run.
    #[must_use]
    pub fn requests_running(&self) -> usize {
        self.requests.count_running()
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
    ) {
        let response = HandshakeResponse {
            ok: false,
            reason,
            ..HandshakeResponse::new(SessionId::default())
        };
        self.send(now, request, response.into());
    }

    /// Starts what may start: in order, no more at once than agreed, none for a peer that is behind.
    fn start_requests(&mut self, now: Now) {
        while self.requests.count_running() < self.limits.max_parallel && !self.outbox.is_full() {
            match self.requests.start(now.monotonic, self.limits.request) {
                Some(request) => self.events.push_back(HostEvent::Start(request)),
                None => break,
            }
        }
    }

    /// Answers everything that is still open, and ends.
    fn cut_off(&mut self, now: Now) {
        for request in self.requests.take_waiting() {
            let namespace = request
                .message
                .body
                .tag()
                .map_or(a2e_wire::Namespace::Base, Tag::namespace);
            let failure = failures::closing(namespace);
            self.send(
                now,
                request.message.envelope.id,
                failure.into_message().into(),
            );
        }
        for token in self.requests.running() {
            self.fail(now, token, failures::closing);
            self.events
                .push_back(HostEvent::Cancel(token, CancelReason::SessionEnded));
        }
        self.close(CloseReason::Shutdown);
    }

    fn fail(&mut self, now: Now, token: Token, failure: fn(a2e_wire::Namespace) -> Failure) {
        if let Some(running) = self.requests.finish(token) {
            self.last_active = now.monotonic;
            let failure = failure(running.namespace);
            self.send(now, running.stream.req_id, failure.into_message().into());
        }
    }

    fn close_if_drained(&mut self) {
        if matches!(self.state, State::Draining { .. })
            && self.login.is_none()
            && self.requests.is_idle()
            && self.outbox.is_empty()
        {
            self.close(CloseReason::Shutdown);
        }
    }

    /// Ends the session; whoever still works for it is told.
    fn close(&mut self, reason: CloseReason) {
        self.state = State::Closed;
        self.requests.take_waiting();
        let mut open = self.requests.running();
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
        Envelope::new(message_id(&mut *self.random), now.unix).in_reply_to(req_id)
    }
}

/// Numbers an event.
fn set_seq(body: &mut Body<'static>, seq: i64) {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "no other message is numbered"
    )]
    match body {
        Body::Event(event) => event.seq = seq,
        Body::ToolEvent(event) => event.seq = seq,
        Body::SkillEvent(event) => event.seq = seq,
        Body::ChainEvent(event) => event.seq = seq,
        Body::ProcReadEvent(event) => event.seq = seq,
        _ => {}
    }
}
