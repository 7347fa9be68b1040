//! What a message from the host does.

use a2e_wire::messages::base::{HandshakeReason, HandshakeResponse};
use a2e_wire::{Body, Message, MessageKind};

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
        let kind = message.body.tag().map(a2e_wire::Tag::kind);
        match (self.owner(&message), kind) {
            (Some(number), Some(MessageKind::Event)) => {
                self.handle_event(now, number, message, size);
            }
            (Some(number), _) if self.pending.contains(number) => {
                self.handle_response(number, message);
            }
            // It came too late, or twice.
            (_, Some(MessageKind::Response)) => {}
            (_, Some(MessageKind::Request)) => {
                self.events.push_back(AgentEvent::Request(message));
            }
            (_, None) if asks(message.type_name()) => {
                self.events.push_back(AgentEvent::Request(message));
            }
            (_, _) => self.events.push_back(AgentEvent::Push(message)),
        }
    }

    /// Whether a message answers our handshake. Some hosts leave `req_id` out.
    fn answers_handshake(&self, request: u64, message: &Message<'_>) -> bool {
        let req_id = &message.envelope.req_id;
        let is_answer = matches!(message.body, Body::HandshakeResponse(_) | Body::Error(_));
        is_answer && (req_id.is_empty() || self.number(req_id.as_str()) == Some(request))
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
        self.state = State::Detached;
        self.events
            .push_back(AgentEvent::NotConnected(ConnectError::Refused(reason)));
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
        let event = if let Body::Error(error) = message.body {
            AgentEvent::Failed(call, CallError::Host(Box::new(error), entry.events))
        } else {
            AgentEvent::Response(call, message)
        };
        self.events.push_back(event);
    }
}

/// Whether a message of unknown type wants an answer.
fn asks(type_name: &str) -> bool {
    type_name.ends_with("/req") || type_name.ends_with("_REQ")
}
