//! What a line from the agent does to a session.

use std::time::Duration;

use a2e_wire::messages::base::{HandshakeReason, HandshakeRequest, Pong, Shutdown};
use a2e_wire::{
    Body, Capability, DecodeError, ErrorCode, LineTooLong, Message, MessageKind, Namespace, Real,
    Sender, Tag, looks_like_request,
};

use super::{HostSession, PendingLogin, State};
use crate::Now;
use crate::event::{HostEvent, Login, RefusedRequest};
use crate::failure::{Failure, failures};

impl HostSession {
    /// Takes a line from the agent.
    pub fn handle_line(&mut self, now: Now, line: Result<&[u8], LineTooLong>) {
        if self.state == State::Closed {
            return;
        }
        self.last_active = now.monotonic;
        let line = match line {
            Ok(line) => line,
            Err(error) => {
                let code = ErrorCode::InvalidMessage;
                let failure = Failure::new(code, Namespace::Base, error.to_string());
                return self.send(now, "".into(), failure.into_message().into());
            }
        };
        if self.login.is_some() {
            return self.keep_line(now, line);
        }
        match self.decoder.decode(line, Sender::Agent, now.unix) {
            Ok(message) => self.handle_message(now, Box::new(message.into_owned()), line),
            Err(error) => self.refuse_line(now, &error),
        }
    }

    /// Keeps a line that came while a token is being checked.
    fn keep_line(&mut self, now: Now, line: &[u8]) {
        if self.held.len() < self.limits.max_queue {
            self.held.push_back(line.to_vec());
            return;
        }
        let id = match self.decoder.decode(line, Sender::Agent, now.unix) {
            Ok(message) => message.into_owned().envelope.id,
            Err(error) => error.id,
        };
        let failure = failures::queue_full(Namespace::Base);
        self.send(now, id, failure.into_message().into());
    }

    /// Takes the lines that waited for a token to be checked.
    pub(super) fn take_held(&mut self, now: Now) {
        while self.login.is_none() {
            let Some(line) = self.held.pop_front() else {
                break;
            };
            self.handle_line(now, Ok(&line));
        }
    }

    fn refuse_line(&mut self, now: Now, error: &DecodeError) {
        let is_handshake = error.type_name == Tag::HandshakeRequest.as_str();
        if is_handshake && error.code == ErrorCode::VersionMismatch {
            let reason = HandshakeReason::VersionMismatch;
            return self.refuse_handshake(now, error.id.clone(), reason, Vec::new());
        }
        let failure = Failure::from(error);
        self.send(now, error.id.clone(), failure.into_message().into());
    }

    fn handle_message(&mut self, now: Now, message: Box<Message<'static>>, line: &[u8]) {
        #[expect(
            clippy::wildcard_enum_match_arm,
            reason = "the rest goes to plugins, by its kind"
        )]
        match &message.body {
            Body::HandshakeRequest(_) => {
                let Message { envelope, body } = *message;
                if let Body::HandshakeRequest(request) = body {
                    self.handle_handshake(now, envelope.id, request);
                }
            }
            Body::Ping(_) => {
                let uptime = now.monotonic.saturating_sub(self.started).as_secs_f64();
                let pong = Pong {
                    uptime_seconds: Real::new(uptime).unwrap_or_default(),
                };
                self.send(now, message.envelope.id, pong.into());
            }
            Body::Shutdown(Shutdown { timeout }) => {
                let grace = Duration::from_secs(u64::try_from(*timeout).unwrap_or_default());
                self.is_ended_by_agent = true;
                self.shutdown(now, grace);
            }
            _ => self.handle_other(now, message, line),
        }
    }

    fn handle_handshake(
        &mut self,
        now: Now,
        id: a2e_wire::MessageId<'static>,
        request: HandshakeRequest<'static>,
    ) {
        if matches!(self.state, State::Draining { .. }) {
            let reason = HandshakeReason::ServerError;
            return self.refuse_handshake(now, id, reason, Vec::new());
        }
        self.login = Some(PendingLogin {
            request: id,
            wanted: request.agent_caps.into_iter().map(Into::into).collect(),
        });
        self.events.push_back(HostEvent::Login(Login {
            agent_id: request.agent_id,
            auth_token: request.auth_token.into_owned(),
            resume: request.resume,
        }));
    }

    /// Everything but the base requests: refused, passed on, or put in line.
    fn handle_other(&mut self, now: Now, message: Box<Message<'static>>, line: &[u8]) {
        let tag = message.body.tag();
        let refusal = match tag {
            Some(tag) if !expects_answer(tag) => return self.take_reply(now, message),
            None if !looks_like_request(message.type_name()) => return,
            Some(tag) if !tag.may_be_sent_by(Sender::Agent) => Some(failures::wrong_direction(tag)),
            Some(tag) => self.gate(tag.namespace(), tag.namespace().capability()),
            None => self.gate_unknown(message.type_name()),
        };
        let namespace = tag.map_or(Namespace::Base, Tag::namespace);
        let refusal = refusal.or_else(|| {
            let waiting = self.requests.count_waiting();
            let full = waiting.saturating_add(self.requests.count_held()) >= self.limits.max_queue;
            full.then(|| failures::queue_full(namespace))
        });
        match refusal {
            Some(failure) => {
                let (id, code) = (message.envelope.id.clone(), failure.code.clone());
                self.send(now, id, failure.into_message().into());
                self.events
                    .push_back(HostEvent::Refused(Box::new(RefusedRequest {
                        message: *message,
                        line: line.into(),
                        code,
                    })));
            }
            None => {
                self.requests.enqueue(message, line.into());
                self.start_requests(now);
            }
        }
    }

    /// Whether a capability may be used now.
    fn gate(&self, namespace: Namespace, needed: Option<Capability<'static>>) -> Option<Failure> {
        match &self.state {
            State::AwaitingHandshake { .. } if self.offer.authentication => {
                Some(failures::unauthorized())
            }
            State::AwaitingHandshake { .. } => Some(failures::no_handshake(namespace)),
            State::Draining { .. } | State::Closed => Some(failures::closing(namespace)),
            State::Active { accepted } | State::Detached { accepted, .. } => {
                let missing = needed.filter(|capability| !accepted.contains(capability));
                missing.map(failures::capability_missing)
            }
        }
    }

    /// Whether a type that the catalogue does not have is served now.
    fn gate_unknown(&self, type_name: &str) -> Option<Failure> {
        let Some(own) = self.offer.own_type(type_name) else {
            let refusal = self.gate(Namespace::Base, None);
            return refusal.or_else(|| Some(failures::unknown_type(type_name)));
        };
        self.gate(Namespace::Base, own.capability.clone())
    }

    /// An answer to a request of the host's goes to whoever asked; other stray messages nowhere. An
    /// `error` about a request of the agent's own withdraws it.
    fn take_reply(&mut self, now: Now, message: Box<Message<'static>>) {
        let is_error = matches!(message.body, Body::Error(_));
        if is_error && self.withdraw(now, &message.envelope.req_id) {
            return;
        }
        let is_reply = message.body.tag().is_some_and(|tag| {
            tag.kind() == MessageKind::Response && tag.may_be_sent_by(Sender::Agent)
        });
        if is_reply && matches!(self.state, State::Active { .. } | State::Draining { .. }) {
            self.events.push_back(HostEvent::Reply(message));
        }
    }
}

/// Whether a message of this type must get an answer, whoever sent it.
fn expects_answer(tag: Tag) -> bool {
    match tag.kind() {
        MessageKind::Request => true,
        MessageKind::Response | MessageKind::Event | MessageKind::Push | MessageKind::Notice => {
            false
        }
    }
}
