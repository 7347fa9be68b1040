//! The agent's end of a session.

use std::collections::VecDeque;
use std::time::Duration;

use a2e_wire::messages::base::{
    AcceptedCapability, Error, HandshakeReason, HandshakeRequest, HandshakeResponse, Resume,
    Shutdown,
};
use a2e_wire::{
    AgentId, Body, Charset, Decoder, Envelope, LineTooLong, Message, MessageId, MessageKind,
    Sender, SessionId, Tag,
};

use crate::now::MessageIds;
use crate::{Now, Random};

/// The agent's end of a session: connecting, active, closing.
pub struct AgentSession {
    config: AgentConfig,
    ids: MessageIds,
    decoder: Decoder,
    state: State,
    /// Written, not yet taken by the transport.
    written: VecDeque<Vec<u8>>,
    /// Calls without their response, oldest first.
    pending: Vec<Pending>,
    events: VecDeque<AgentEvent>,
    session_id: SessionId<'static>,
    last_eid: u64,
}

/// Who connects, and what for.
#[derive(Clone)]
pub struct AgentConfig {
    /// What the agent calls itself.
    pub agent_id: AgentId<'static>,
    /// Its credential; empty if the host asks for none.
    pub auth_token: String,
    /// The capabilities it wants to use.
    pub wanted: Vec<String>,
    /// How long the host may take to answer the handshake.
    pub handshake: Duration,
    /// Bytes written but not yet taken by the transport.
    pub max_outbound: usize,
    /// Events of a call that are kept for an error that names them.
    pub max_events: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Connecting {
        request: MessageId<'static>,
        until: Duration,
    },
    Active,
    Closed,
}

#[derive(Debug)]
struct Pending {
    call: Call,
    response: Option<Tag>,
    deadline: Duration,
    events: Vec<Message<'static>>,
}

/// Names a call: the id of its request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Call(pub MessageId<'static>);

/// What happened to a session or a call.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentEvent {
    /// The host accepted the handshake.
    Connected {
        /// The session's id.
        session_id: SessionId<'static>,
        /// One entry for each capability asked for.
        capabilities: Vec<AcceptedCapability<'static>>,
        /// How many calls the host runs at once.
        max_parallel: i64,
        /// It is the session asked for; the first and last message that are lost, if any are.
        resumed: Option<Option<(i64, i64)>>,
    },
    /// The session did not come about.
    NotConnected(ConnectError),
    /// An event of a call.
    Event(Call, Message<'static>),
    /// The response to a call.
    Response(Call, Message<'static>),
    /// A call failed.
    Failed(Call, CallError),
    /// Something nobody asked for, or a request of the host's.
    Push(Message<'static>),
}

/// Why a session did not come about.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The host refused.
    #[error("the host refused the handshake: {0}")]
    Refused(HandshakeReason<'static>),
    /// The host did not answer.
    #[error("the host did not answer the handshake in time")]
    Timeout,
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CallError {
    /// The host answered with an error; with the events before it.
    #[error("{}: {}", .0.code, .0.message)]
    Host(Box<Error<'static>>, Vec<Message<'static>>),
    /// No response came in time.
    #[error("no response came in time")]
    Timeout,
    /// The session ended first.
    #[error("the session ended before the response")]
    Closed,
}

impl std::fmt::Debug for AgentConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentConfig")
            .field("agent_id", &self.agent_id)
            .field("wanted", &self.wanted)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for AgentSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentSession")
            .field("state", &self.state)
            .field("pending", &self.pending.len())
            .finish_non_exhaustive()
    }
}

impl Default for AgentConfig {
    fn default() -> Self {
        Self {
            agent_id: "agent".into(),
            auth_token: String::new(),
            wanted: Vec::new(),
            handshake: Duration::from_secs(30),
            max_outbound: 8 * 1024 * 1024,
            max_events: 1000,
        }
    }
}

impl AgentSession {
    /// A session over a new connection: the handshake is the first thing to be written.
    #[must_use]
    pub fn connect(now: Now, config: AgentConfig, mut random: Box<dyn Random>) -> Self {
        let mut session = Self {
            written: VecDeque::new(),
            config,
            ids: MessageIds::new(&mut *random),
            decoder: Decoder::default(),
            state: State::Closed,
            pending: Vec::new(),
            events: VecDeque::new(),
            session_id: SessionId::default(),
            last_eid: 0,
        };
        session.shake_hands(now, None);
        session
    }

    /// Goes on over another connection: calls stay open, the host sends what was missed.
    pub fn reconnect(&mut self, now: Now) {
        let resume = (!self.session_id.is_empty()).then(|| Resume {
            session_id: self.session_id.clone(),
            last_eid: i64::try_from(self.last_eid).unwrap_or(i64::MAX),
        });
        self.shake_hands(now, resume);
    }

    /// Sends a request; its response or failure comes as an event.
    pub fn call(&mut self, now: Now, body: Body<'static>, timeout: Duration) -> Call {
        let response = body.tag().and_then(Tag::response);
        let call = Call(self.send(now, MessageId::default(), body));
        self.pending.push(Pending {
            call: call.clone(),
            response,
            deadline: now.after(timeout),
            events: Vec::new(),
        });
        call
    }

    /// Sends a message that gets no answer, or whose answer does not matter.
    pub fn notify(&mut self, now: Now, body: Body<'static>) {
        self.send(now, MessageId::default(), body);
    }

    /// Answers a request of the host's.
    pub fn reply(&mut self, now: Now, request: MessageId<'static>, body: Body<'static>) {
        self.send(now, request, body);
    }

    /// Gives a call up; what still comes for it is dropped.
    pub fn forget(&mut self, call: &Call) {
        self.pending.retain(|pending| pending.call != *call);
    }

    /// Ends the session; the host finishes what it runs within `grace`.
    pub fn close(&mut self, now: Now, grace: Duration) {
        if self.state == State::Closed {
            return;
        }
        let timeout = i64::try_from(grace.as_secs()).unwrap_or(i64::MAX);
        self.send(now, MessageId::default(), Shutdown { timeout }.into());
        self.end();
    }

    /// The connection is gone for good.
    pub fn disconnected(&mut self) {
        self.end();
    }

    /// Takes a line from the host. What is no message is passed over: some hosts print to the wire.
    pub fn handle_line(&mut self, now: Now, line: Result<&[u8], LineTooLong>) {
        let Ok(line) = line else { return };
        let mut decoder = std::mem::take(&mut self.decoder);
        let decoded = decoder.decode(line, Sender::Host, now.unix);
        self.decoder = decoder;
        if let Ok(message) = decoded {
            self.handle_message(message.into_owned());
        }
    }

    /// Does what is due. Call it when [`AgentSession::poll_timeout`] says so, or more often.
    pub fn handle_timeout(&mut self, now: Now) {
        if matches!(self.state, State::Connecting { until, .. } if until <= now.monotonic) {
            self.state = State::Closed;
            self.events
                .push_back(AgentEvent::NotConnected(ConnectError::Timeout));
        }
        let (late, pending) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition(|pending: &Pending| pending.deadline <= now.monotonic);
        self.pending = pending;
        let late: Vec<Pending> = late;
        for pending in late {
            self.events
                .push_back(AgentEvent::Failed(pending.call, CallError::Timeout));
        }
    }

    /// When [`AgentSession::handle_timeout`] must be called, at the latest.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        let own = match self.state {
            State::Connecting { until, .. } => Some(until),
            State::Active | State::Closed => None,
        };
        let calls = self.pending.iter().map(|pending| pending.deadline);
        own.into_iter().chain(calls).min()
    }

    /// The next message to write to the host. Ask again after every other call.
    #[must_use]
    pub fn poll_transmit(&mut self) -> Option<Vec<u8>> {
        self.written.pop_front()
    }

    /// The next thing that happened. Ask again after every other call.
    #[must_use]
    pub fn poll_event(&mut self) -> Option<AgentEvent> {
        self.events.pop_front()
    }

    fn shake_hands(&mut self, now: Now, resume: Option<Resume<'static>>) {
        let request = HandshakeRequest {
            agent_id: self.config.agent_id.clone(),
            agent_caps: self.config.wanted.iter().cloned().map(Into::into).collect(),
            auth_token: self.config.auth_token.clone().into(),
            resume,
        };
        let envelope = self.envelope(now, MessageId::default());
        self.state = State::Connecting {
            request: envelope.id.clone(),
            until: now.after(self.config.handshake),
        };
        self.written.push_front(encode(envelope, request.into()));
    }

    fn handle_message(&mut self, message: Message<'static>) {
        if let Some(eid) = message.envelope.eid {
            // A message that came before the connection broke, sent again.
            if eid <= self.last_eid {
                return;
            }
            self.last_eid = eid;
        }
        if let State::Connecting { request, .. } = &self.state
            && message.envelope.req_id == *request
        {
            return self.handle_handshake(message);
        }
        match self.owner(&message) {
            Some(index) => self.handle_own(index, message),
            None if is_for_nobody(&message) => {}
            None => self.events.push_back(AgentEvent::Push(message)),
        }
    }

    fn handle_handshake(&mut self, message: Message<'static>) {
        #[expect(
            clippy::wildcard_enum_match_arm,
            reason = "anything else is no answer to a handshake"
        )]
        let event = match message.body {
            Body::HandshakeResponse(response) if response.ok => self.connected(response),
            Body::HandshakeResponse(response) => {
                self.state = State::Closed;
                AgentEvent::NotConnected(ConnectError::Refused(response.reason))
            }
            Body::Error(error) => {
                self.state = State::Closed;
                let reason = HandshakeReason::from(error.code.to_string());
                AgentEvent::NotConnected(ConnectError::Refused(reason))
            }
            _ => return,
        };
        self.events.push_back(event);
    }

    fn connected(&mut self, response: HandshakeResponse<'static>) -> AgentEvent {
        self.state = State::Active;
        let resumed = response.resumed == Some(true);
        if !resumed && !self.session_id.is_empty() {
            // Another session: the calls of the old one are lost, its numbers mean nothing.
            self.fail_all(&CallError::Closed);
            self.last_eid = 0;
        }
        self.session_id = response.session_id.clone();
        AgentEvent::Connected {
            session_id: response.session_id,
            capabilities: response.accepted_caps,
            max_parallel: response.max_parallel,
            resumed: resumed.then_some(response.missed),
        }
    }

    /// The call a message belongs to: by `req_id`, or, from hosts that leave it out, the oldest call
    /// that waits for a response of that type.
    fn owner(&self, message: &Message<'_>) -> Option<usize> {
        let req_id = &message.envelope.req_id;
        if !req_id.is_empty() {
            return self
                .pending
                .iter()
                .position(|pending| pending.call.0 == *req_id);
        }
        let tag = message
            .body
            .tag()
            .filter(|tag| tag.kind() == MessageKind::Response)?;
        self.pending
            .iter()
            .position(|pending| pending.response == Some(tag))
    }

    fn handle_own(&mut self, index: usize, message: Message<'static>) {
        let is_event = message
            .body
            .tag()
            .is_some_and(|tag| tag.kind() == MessageKind::Event);
        if is_event {
            let max_events = self.config.max_events;
            if let Some(pending) = self.pending.get_mut(index) {
                if pending.events.len() < max_events {
                    pending.events.push(message.clone());
                }
                let call = pending.call.clone();
                self.events.push_back(AgentEvent::Event(call, message));
            }
            return;
        }
        let Pending { call, events, .. } = self.pending.remove(index);
        let event = if let Body::Error(error) = message.body {
            AgentEvent::Failed(call, CallError::Host(Box::new(error), events))
        } else {
            AgentEvent::Response(call, message)
        };
        self.events.push_back(event);
    }

    fn end(&mut self) {
        if self.state == State::Closed {
            return;
        }
        self.state = State::Closed;
        self.fail_all(&CallError::Closed);
    }

    fn fail_all(&mut self, error: &CallError) {
        for pending in std::mem::take(&mut self.pending) {
            self.events
                .push_back(AgentEvent::Failed(pending.call, error.clone()));
        }
    }

    fn send(
        &mut self,
        now: Now,
        req_id: MessageId<'static>,
        body: Body<'static>,
    ) -> MessageId<'static> {
        let envelope = self.envelope(now, req_id);
        let id = envelope.id.clone();
        self.written.push_back(encode(envelope, body));
        id
    }

    fn envelope(&mut self, now: Now, req_id: MessageId<'static>) -> Envelope<'static> {
        Envelope::new(self.ids.next(), now.unix).in_reply_to(req_id)
    }
}

fn encode(envelope: Envelope<'static>, body: Body<'static>) -> Vec<u8> {
    let mut line = Vec::new();
    Message { envelope, body }.encode_to(&mut line, Charset::Utf8);
    line
}

/// A response or an error that no call waits for: it came too late, or twice.
fn is_for_nobody(message: &Message<'_>) -> bool {
    message
        .body
        .tag()
        .is_some_and(|tag| tag.kind() == MessageKind::Response)
}
