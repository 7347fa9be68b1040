//! Requests: their start, their events, their end.

use a2e_wire::{Body, Envelope, MessageId, Namespace, Tag};

use super::HostSession;
use crate::event::{CancelReason, CloseReason, EventError, HostEvent, Request, Stale, Token};
use crate::failure::{Failure, failures};
use crate::{Backpressure, Now};

impl HostSession {
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

    /// Holds back a request that [`HostEvent::Start`] gave out: it takes no place among those that
    /// run, and its time limit does not count.
    ///
    /// # Errors
    /// If it is not running.
    pub fn hold(&mut self, now: Now, request: Request) -> Result<(), Stale> {
        if !self.requests.hold(request) {
            return Err(Stale);
        }
        self.start_requests(now);
        Ok(())
    }

    /// Sets whether it is still to be decided if a request that [`HostEvent::Start`] gave out is done.
    /// Another handshake withdraws it as long as that is so.
    pub fn set_undecided(&mut self, token: Token, is_undecided: bool) {
        self.requests.set_undecided(token, is_undecided);
    }

    /// Lets a request that was held go on: it starts again, as the next and with all of its time.
    pub fn release(&mut self, now: Now, token: Token) {
        self.requests.release(token);
        self.start_requests(now);
    }

    /// Ends the open request of this id, which its agent wants no longer; says whether there is one.
    pub(super) fn withdraw(&mut self, now: Now, id: &MessageId<'static>) -> bool {
        let mut open = self.requests.open();
        let found = open.find(|(_, known)| !id.is_empty() && *known == id);
        let Some(token) = found.map(|(token, _)| token) else {
            return false;
        };
        drop(open);
        match self.requests.take_waiting_one(token) {
            Some(Request { message, .. }) => {
                let namespace = message.body.tag().map_or(Namespace::Base, Tag::namespace);
                let failure = failures::withdrawn(namespace).into_message();
                self.send(now, message.envelope.id, failure.into());
            }
            None => self.fail(now, token, failures::withdrawn),
        }
        // Also one that waits may have begun: it was held, and let go on.
        let withdrawn = HostEvent::Cancel(token, CancelReason::Withdrawn);
        self.events.push_back(withdrawn);
        self.start_requests(now);
        self.close_if_drained();
        true
    }

    /// Another session begins on this connection: what waits, is held or is undecided was asked in the one
    /// before, and is not done in this one. What runs is finished.
    pub(super) fn withdraw_unstarted(&mut self, now: Now) {
        for Request { token, message, .. } in self.requests.take_waiting() {
            let namespace = message.body.tag().map_or(Namespace::Base, Tag::namespace);
            let failure = failures::superseded(namespace).into_message();
            self.send(now, message.envelope.id, failure.into());
            // Also one that waits may have begun: it was held, and let go on.
            let withdrawn = HostEvent::Cancel(token, CancelReason::Withdrawn);
            self.events.push_back(withdrawn);
        }
        for token in self.requests.not_begun() {
            self.fail(now, token, failures::superseded);
            let withdrawn = HostEvent::Cancel(token, CancelReason::Withdrawn);
            self.events.push_back(withdrawn);
        }
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
        if self.is_behind() {
            return Err(EventError::Backpressure(Backpressure));
        }
        let stream = self
            .requests
            .stream(token)
            .ok_or(EventError::Stale(Stale))?;
        set_seq(&mut body, stream.next_seq);
        stream.next_seq = stream.next_seq.saturating_add(1);
        let req_id = stream.req_id.clone();
        self.requests.progress(now.monotonic, token);
        self.send(now, req_id, body);
        Ok(())
    }

    /// A tool call gets on, though there is nothing to send: its `timeout` begins anew, up to
    /// [`Limits::progress`](crate::Limits::progress). Events do the same.
    pub fn progress(&mut self, now: Now, token: Token) {
        self.requests.progress(now.monotonic, token);
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
        self.push_also(now, body, None)
    }

    /// The same; if another spelling of its type is given, it is said in that as well, for agents that
    /// know no other. Both are one message: they have one id.
    ///
    /// # Errors
    /// If the peer is too far behind.
    pub fn push_also(
        &mut self,
        now: Now,
        body: Body<'static>,
        spelling: Option<&'static str>,
    ) -> Result<MessageId<'static>, Backpressure> {
        if self.is_behind() {
            return Err(Backpressure);
        }
        let envelope = self.envelope(now, MessageId::default());
        let id = envelope.id.clone();
        if let Some(spelling) = spelling {
            self.outbox.push(envelope.clone(), body.clone());
            let again = Envelope {
                spelling: Some(spelling.into()),
                ..envelope
            };
            self.outbox.push(again, body);
        } else {
            self.outbox.push(envelope, body);
        }
        Ok(id)
    }

    /// Starts what may start: in order, no more at once than agreed, none for a peer that is behind, and none
    /// before an earlier one that touches the same state has its response.
    pub(super) fn start_requests(&mut self, now: Now) {
        while self.requests.count_running() < self.limits.max_parallel && !self.is_behind() {
            match self.requests.start(now.monotonic, &self.limits) {
                Some(request) => self.events.push_back(HostEvent::Start(request)),
                None => break,
            }
        }
    }

    /// Answers everything that is still open, and ends.
    pub(super) fn cut_off(&mut self, now: Now) {
        for request in self.requests.take_waiting() {
            let namespace = request
                .message
                .body
                .tag()
                .map_or(Namespace::Base, Tag::namespace);
            let failure = failures::closing(namespace);
            self.send(
                now,
                request.message.envelope.id,
                failure.into_message().into(),
            );
        }
        for token in self.requests.started() {
            self.fail(now, token, failures::closing);
            self.events
                .push_back(HostEvent::Cancel(token, CancelReason::SessionEnded));
        }
        self.close(CloseReason::Shutdown);
    }

    pub(super) fn fail(&mut self, now: Now, token: Token, failure: fn(Namespace) -> Failure) {
        if let Some(running) = self.requests.finish(token) {
            self.last_active = now.monotonic;
            let failure = failure(running.namespace);
            self.send(now, running.stream.req_id, failure.into_message().into());
        }
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
