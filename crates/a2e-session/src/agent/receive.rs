//! What a message from the host does.

use a2e_wire::messages::base::{Error, HandshakeReason, HandshakeResponse};
use a2e_wire::{Body, DecodeError, ErrorCode, Message, MessageKind, Sender, Tag};

use super::pending::Entry;
use super::{AgentEvent, AgentSession, Call, CallError, ConnectError, Connected, State};
use crate::Now;

impl AgentSession {
    pub(super) fn handle_message(&mut self, now: Now, message: Message<'static>, size: usize) {
        match self.state {
            State::Connecting {
                request, resuming, ..
            } if self.answers_handshake(request, &message) => {
                return self.handle_handshake(now, message, resuming);
            }
            State::Connecting { request, .. } if self.is_about(request, &message) => {
                let text = format!("it is `{}`", message.type_name());
                return self.not_connected(ConnectError::Invalid(text));
            }
            State::Connecting { .. } | State::Active => {}
            State::Detached | State::Closed => return,
        }
        if let Some(eid) = message.envelope.eid {
            // A message that came before the connection broke, sent again.
            if eid <= self.last_eid {
                return;
            }
            self.last_eid = eid;
        }
        let owner = self.owner(&message);
        let kind = self.kind(&message, owner);
        match (owner, kind) {
            (Some(number), Some(MessageKind::Event)) => {
                self.handle_event(now, number, message, size);
            }
            (Some(number), Some(MessageKind::Response)) if self.pending.contains(number) => {
                self.handle_response(number, message);
            }
            // It came too late, or twice.
            (_, Some(MessageKind::Response)) => {}
            (_, Some(MessageKind::Request)) => {
                self.events.push_back(AgentEvent::Request(message));
            }
            (_, _) => self.events.push_back(AgentEvent::Push(message)),
        }
    }

    /// What a message is: as the catalogue has it, as it was registered, or else as its type ends. What
    /// says nothing of itself and belongs to an open call is an event of it, or answers it if nothing is
    /// known of its response.
    fn kind(&mut self, message: &Message<'_>, owner: Option<u64>) -> Option<MessageKind> {
        let name = message.type_name();
        let known = message.body.tag().map(Tag::kind);
        let known = known.or_else(|| self.config.type_registry.get(name).copied());
        let ends = |endings: [&str; 2]| endings.iter().any(|ending| name.ends_with(ending));
        if known.is_some() {
            known
        } else if ends(["/req", "_REQ"]) {
            Some(MessageKind::Request)
        } else if ends(["/event", "_EVENT"]) {
            Some(MessageKind::Event)
        } else {
            let call = self.pending.get_mut(owner?)?;
            let answers = call.response.is_none() || ends(["/resp", "_RESP"]);
            Some(match answers {
                true => MessageKind::Response,
                false => MessageKind::Event,
            })
        }
    }

    /// A message that is not valid: it fails the handshake or the call that it was to answer.
    pub(super) fn handle_invalid(&mut self, error: &DecodeError) {
        let tag = Tag::parse(&error.type_name, Sender::Host);
        let number = self.number(error.req_id.as_str());
        match self.state {
            State::Connecting { request, .. }
                if number == Some(request)
                    || (error.req_id.is_empty() && tag == Some(Tag::HandshakeResponse)) =>
            {
                self.not_connected(ConnectError::Invalid(error.to_string()));
            }
            State::Connecting { .. } | State::Active => {
                let is_event = tag.is_some_and(|tag| tag.kind() == MessageKind::Event);
                if let Some(number) = number.filter(|_| !is_event)
                    && let Some(entry) = self.pending.remove(number)
                {
                    self.fail_invalid(number, entry, &error.to_string());
                }
            }
            State::Detached | State::Closed => {}
        }
    }

    fn fail_invalid(&mut self, number: u64, entry: Entry, why: &str) {
        let capability = entry.response.and_then(|tag| tag.namespace().capability());
        let capability = capability.map(|capability| capability.as_str().to_owned());
        let error = Error {
            message: format!("the host's response is not valid: {why}").into(),
            capability_name: capability.unwrap_or_default().into(),
            ..Error::new(ErrorCode::SchemaViolation)
        };
        let failed = CallError::Invalid(Box::new(error), entry.events);
        self.events
            .push_back(AgentEvent::Failed(Call(number), failed));
    }

    fn not_connected(&mut self, error: ConnectError) {
        self.state = State::Detached;
        self.events.push_back(AgentEvent::NotConnected(error));
    }

    /// Whether a message says that it answers this request of ours.
    fn is_about(&self, request: u64, message: &Message<'_>) -> bool {
        self.number(message.envelope.req_id.as_str()) == Some(request)
    }

    /// Whether a message answers our handshake. Some hosts leave `req_id` out.
    fn answers_handshake(&self, request: u64, message: &Message<'_>) -> bool {
        let req_id = &message.envelope.req_id;
        let is_answer = matches!(message.body, Body::HandshakeResponse(_) | Body::Error(_));
        is_answer && (req_id.is_empty() || self.is_about(request, message))
    }

    fn handle_handshake(&mut self, now: Now, message: Message<'static>, resuming: bool) {
        let eid = message.envelope.eid;
        #[expect(
            clippy::wildcard_enum_match_arm,
            reason = "anything else is no answer to a handshake"
        )]
        let reason = match message.body {
            Body::HandshakeResponse(response) if response.ok => {
                return self.connected(response, eid);
            }
            Body::HandshakeResponse(response) => response.reason,
            Body::Error(error) => HandshakeReason::from(error.code.to_string()),
            _ => return,
        };
        if resuming && reason == HandshakeReason::AuthFailed {
            // The host has forgotten the session; it may still take us anew.
            return self.shake_hands(now, None);
        }
        self.not_connected(ConnectError::Refused(reason));
    }

    fn connected(&mut self, response: HandshakeResponse<'static>, eid: Option<u64>) {
        let resumed = response.resumed == Some(true);
        self.state = State::Active;
        self.session_id = response.session_id.clone();
        if !resumed {
            // Another session: its numbers start anew, and what the old one had may have run.
            self.last_eid = eid.unwrap_or_default();
            for number in self.pending.sent() {
                self.pending.remove(number);
                self.events
                    .push_back(AgentEvent::Failed(Call(number), CallError::Lost));
            }
        }
        self.events.push_back(AgentEvent::Connected(Connected {
            session_id: response.session_id,
            capabilities: response.accepted_caps,
            max_parallel: response.max_parallel,
            resumed,
            missed: response.missed,
        }));
        let mut lines = self.pending.send_all(self.config.resumable);
        lines.extend(std::mem::take(&mut self.held));
        self.held_bytes = 0;
        lines.sort_unstable_by_key(|(number, _)| *number);
        for (_, line) in lines {
            self.queue.push_line(&line);
        }
    }

    /// The call a message belongs to: by `req_id`, or, from hosts that leave it out, the oldest call
    /// that waits for a response of that type.
    fn owner(&self, message: &Message<'_>) -> Option<u64> {
        let req_id = &message.envelope.req_id;
        if !req_id.is_empty() {
            return self.number(req_id.as_str());
        }
        let tag = message.body.tag()?;
        self.pending.oldest(tag)
    }

    /// The number behind an id of ours.
    fn number(&self, id: &str) -> Option<u64> {
        let number = id.strip_prefix(&*self.prefix)?;
        // No sign, no other spelling of the same number.
        let plain = number.len() == 16 && number.bytes().all(|byte| byte.is_ascii_hexdigit());
        u64::from_str_radix(number, 16).ok().filter(|_| plain)
    }

    fn handle_event(&mut self, now: Now, number: u64, message: Message<'static>, size: usize) {
        if let Some(entry) = self.pending.get_mut(number) {
            if entry.has_seen(&message.body) {
                return;
            }
            let limits = (self.config.max_events, self.config.max_event_bytes);
            entry.keep_event(&message, size, limits);
            self.pending.progress(now.monotonic, number);
        }
        self.events
            .push_back(AgentEvent::Event(Call(number), message));
    }

    fn handle_response(&mut self, number: u64, message: Message<'static>) {
        let Some(entry) = self.pending.remove(number) else {
            return;
        };
        let call = Call(number);
        let is_expected = entry
            .response
            .is_none_or(|expected| message.body.tag() == Some(expected));
        let event = if let Body::Error(error) = message.body {
            AgentEvent::Failed(call, CallError::Host(Box::new(error), entry.events))
        } else if is_expected {
            AgentEvent::Response(call, message)
        } else {
            let why = format!("`{}` does not answer the request", message.type_name());
            return self.fail_invalid(number, entry, &why);
        };
        self.events.push_back(event);
    }
}
