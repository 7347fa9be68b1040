//! The agent's end of a session.

mod config;
mod event;
mod pending;
mod queue;
mod receive;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use a2e_wire::messages::base::{HandshakeRequest, Resume, Shutdown};
use a2e_wire::{
    Body, Charset, Decoder, Envelope, LineTooLong, Message, MessageId, MessageKind, Sender,
    SessionId, Tag,
};

pub use self::config::AgentConfig;
pub use self::event::{AgentEvent, Call, CallError, ConnectError, Connected, Refused};

use self::pending::{Entry, Pending};
use self::queue::Queue;
use crate::{Now, Random};

/// The agent's end of a session: connecting, active, detached (the connection broke, another one may
/// come), closed.
///
/// What is asked while there is no session is sent when there is one. After a reconnect that the host
/// calls a resumption, every request without a response is sent again with its old id: the host
/// knows which it has, so none is lost and none runs twice. If the host has forgotten the session,
/// a request that may have reached it fails with [`CallError::Lost`], because it may have run;
/// one that was never sent is sent in the new session. Notices and replies are sent at most once.
pub struct AgentSession {
    config: AgentConfig,
    decoder: Decoder,
    charset: Charset,
    state: State,
    queue: Queue,
    pending: Pending,
    /// Notices and replies that wait for a session, by number.
    held: BTreeMap<u64, Box<[u8]>>,
    held_bytes: usize,
    events: VecDeque<AgentEvent>,
    session_id: SessionId<'static>,
    last_eid: u64,
    /// The first half of every id; the second is a number, so that a call is found by arithmetic.
    prefix: String,
    last_number: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Connecting {
        request: u64,
        until: Duration,
        resuming: bool,
    },
    Active,
    Detached,
    Closed,
}

impl std::fmt::Debug for AgentSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentSession")
            .field("state", &self.state)
            .field("pending", &self.pending.len())
            .finish_non_exhaustive()
    }
}

impl AgentSession {
    /// A session over a new connection: the handshake is the first thing to be written. `random` is
    /// asked once.
    #[must_use]
    pub fn connect(now: Now, config: AgentConfig, random: &mut dyn Random) -> Self {
        // The upper bits: sources of tests count in the lower ones, real ones are random in all.
        let bits = random.bits();
        let mut session = Self {
            config,
            decoder: Decoder::default(),
            charset: Charset::Utf8,
            state: State::Detached,
            queue: Queue::default(),
            pending: Pending::default(),
            held: BTreeMap::new(),
            held_bytes: 0,
            events: VecDeque::new(),
            session_id: SessionId::default(),
            last_eid: 0,
            prefix: format!("{:016x}", (bits >> 64) ^ (bits & u128::from(u64::MAX))),
            last_number: 0,
        };
        session.reconnect(now);
        session
    }

    /// The connection broke and another one may come: calls stay open.
    pub fn detach(&mut self) {
        if self.state != State::Closed {
            self.state = State::Detached;
        }
        self.queue.clear();
    }

    /// Goes on over another connection: calls stay open, the host sends what was missed.
    pub fn reconnect(&mut self, now: Now) {
        self.queue.clear();
        let resume = (!self.session_id.is_empty()).then(|| Resume {
            session_id: self.session_id.clone(),
            last_eid: i64::try_from(self.last_eid).unwrap_or(i64::MAX),
        });
        self.shake_hands(now, resume);
    }

    /// Which characters the transport can carry unescaped.
    pub const fn set_charset(&mut self, charset: Charset) {
        self.charset = charset;
    }

    /// Whether a message more can be taken now.
    ///
    /// # Errors
    /// If the session is over, or too much is under way; then try again when something was answered
    /// or written.
    pub fn room(&self) -> Result<(), Refused> {
        let bytes = self
            .queue
            .len()
            .saturating_add(self.pending.kept_bytes())
            .saturating_add(self.held_bytes);
        if self.state == State::Closed {
            return Err(Refused::Closed);
        }
        if bytes >= self.config.max_outbound {
            return Err(Refused::NoRoom(self.config.max_outbound));
        }
        Ok(())
    }

    /// Sends a request; its response or failure comes as an event. A body of unknown type is put
    /// into a new envelope. The timeout of a tool call counts from its last event, up to
    /// [`AgentConfig::progress`] in all.
    ///
    /// # Errors
    /// As [`AgentSession::room`], and if too many calls are open.
    pub fn call(
        &mut self,
        now: Now,
        body: Body<'static>,
        timeout: Duration,
    ) -> Result<Call, Refused> {
        self.room()?;
        if self.pending.len() >= self.config.max_pending {
            return Err(Refused::TooMany(self.config.max_pending));
        }
        let tag = body.tag();
        let response = tag.and_then(Tag::response);
        let number = self.next_number();
        let active = self.state == State::Active;
        let line = match active && !self.config.resumable {
            true => {
                self.write(now, number, MessageId::default(), body);
                None
            }
            false => {
                let line = self.encode(now, number, MessageId::default(), body);
                if active {
                    self.queue.push_line(&line);
                }
                Some(line.into_boxed_slice())
            }
        };
        let mut entry = Entry::new(response, now.after(timeout), line, active);
        if tag == Some(Tag::ToolCallRequest) {
            let end = now.after(timeout.max(self.config.progress));
            entry = entry.patient(timeout, end);
        }
        self.pending.insert(number, entry);
        Ok(Call(number))
    }

    /// Sends a message that gets no answer, or whose answer does not matter.
    ///
    /// # Errors
    /// As [`AgentSession::room`].
    pub fn notify(&mut self, now: Now, body: Body<'static>) -> Result<(), Refused> {
        self.reply(now, MessageId::default(), body)
    }

    /// Answers a request of the host's.
    ///
    /// # Errors
    /// As [`AgentSession::room`].
    pub fn reply(
        &mut self,
        now: Now,
        request: MessageId<'static>,
        body: Body<'static>,
    ) -> Result<(), Refused> {
        self.room()?;
        let number = self.next_number();
        if self.state == State::Active {
            self.write(now, number, request, body);
            return Ok(());
        }
        let line = self.encode(now, number, request, body).into_boxed_slice();
        self.held_bytes = self.held_bytes.saturating_add(line.len());
        self.held.insert(number, line);
        Ok(())
    }

    /// Gives a call up; what still comes for it is dropped.
    pub fn forget(&mut self, call: Call) {
        self.pending.remove(call.0);
    }

    /// Ends the session; the host finishes what it runs within `grace`.
    pub fn close(&mut self, now: Now, grace: Duration) {
        if self.state == State::Active {
            let timeout = i64::try_from(grace.as_secs()).unwrap_or(i64::MAX);
            let number = self.next_number();
            let body = Shutdown { timeout }.into();
            self.write(now, number, MessageId::default(), body);
        }
        self.end();
    }

    /// The connection is gone for good.
    pub fn disconnected(&mut self) {
        self.queue.clear();
        self.end();
    }

    /// Takes a line from the host. What is no message, and answers nothing, is passed over: some hosts
    /// print to the wire.
    pub fn handle_line(&mut self, now: Now, line: Result<&[u8], LineTooLong>) {
        let Ok(line) = line else { return };
        match self.decoder.decode(line, Sender::Host, now.unix) {
            Ok(message) => {
                let message = message.into_owned();
                self.handle_message(now, message, line.len());
            }
            Err(error) => self.handle_invalid(&error),
        }
    }

    /// Says what messages of further types are. Without it a message beside the catalogue is what its type
    /// ends with (`/req`, `/resp`, `/event`).
    pub fn update_msg_types(&mut self, types: impl IntoIterator<Item = (String, MessageKind)>) {
        self.config.type_registry.extend(types);
    }

    /// Does what is due. Call it when [`AgentSession::poll_timeout`] says so, or more often.
    pub fn handle_timeout(&mut self, now: Now) {
        if matches!(self.state, State::Connecting { until, .. } if until <= now.monotonic) {
            self.state = State::Detached;
            self.events
                .push_back(AgentEvent::NotConnected(ConnectError::Timeout));
        }
        while let Some(number) = self.pending.overdue(now.monotonic) {
            self.pending.remove(number);
            self.events
                .push_back(AgentEvent::Failed(Call(number), CallError::Timeout));
        }
    }

    /// When [`AgentSession::handle_timeout`] must be called, at the latest.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        let own = match self.state {
            State::Connecting { until, .. } => Some(until),
            State::Active | State::Detached | State::Closed => None,
        };
        own.into_iter().chain(self.pending.next_deadline()).min()
    }

    /// The next message to write to the host, one line of JSON without its newline. Ask again after
    /// every other call.
    #[must_use]
    pub fn poll_transmit(&mut self) -> Option<&[u8]> {
        self.queue.pop()
    }

    /// The next thing that happened. Ask again after every other call.
    #[must_use]
    pub fn poll_event(&mut self) -> Option<AgentEvent> {
        self.events.pop_front()
    }

    /// Whether there is a session now.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.state == State::Active
    }

    /// The id of a call's request.
    #[must_use]
    pub fn request_id(&self, call: Call) -> MessageId<'static> {
        self.id(call.0)
    }

    fn shake_hands(&mut self, now: Now, resume: Option<Resume<'static>>) {
        let number = self.next_number();
        self.state = State::Connecting {
            request: number,
            until: now.after(self.config.handshake),
            resuming: resume.is_some(),
        };
        let request = HandshakeRequest {
            agent_id: self.config.agent_id.clone(),
            agent_caps: self.config.wanted.iter().cloned().map(Into::into).collect(),
            auth_token: self.config.auth_token.clone().into(),
            resume,
        };
        self.write(now, number, MessageId::default(), request.into());
    }

    fn end(&mut self) {
        self.state = State::Closed;
        self.held.clear();
        self.held_bytes = 0;
        for (number, _) in self.pending.take_all() {
            self.events
                .push_back(AgentEvent::Failed(Call(number), CallError::Closed));
        }
    }

    /// Puts a message in line to be written.
    fn write(&mut self, now: Now, number: u64, req_id: MessageId<'static>, body: Body<'static>) {
        let message = self.message(now, number, req_id, body);
        let charset = self.charset;
        self.queue.push_with(|out| message.encode_to(out, charset));
    }

    fn encode(
        &self,
        now: Now,
        number: u64,
        req_id: MessageId<'static>,
        body: Body<'static>,
    ) -> Vec<u8> {
        let mut line = Vec::new();
        self.message(now, number, req_id, body)
            .encode_to(&mut line, self.charset);
        line
    }

    fn message(
        &self,
        now: Now,
        number: u64,
        req_id: MessageId<'static>,
        body: Body<'static>,
    ) -> Message<'static> {
        let envelope = Envelope::new(self.id(number), now.unix).in_reply_to(req_id);
        Message { envelope, body }
    }

    const fn next_number(&mut self) -> u64 {
        self.last_number = self.last_number.saturating_add(1);
        self.last_number
    }

    fn id(&self, number: u64) -> MessageId<'static> {
        format!("{}{number:016x}", self.prefix).into()
    }
}
