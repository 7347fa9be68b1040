//! What a host's session asks for and is answered with.

use std::sync::Arc;

use a2e_wire::messages::base::{HandshakeReason, Resume};
use a2e_wire::{AgentId, ErrorCode, Message, SessionId};

use crate::Backpressure;

/// Names a request of a session, towards whoever works on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub(crate) u64);

/// A request that may start now.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Its name in this session.
    pub token: Token,
    /// What is asked.
    pub message: Box<Message<'static>>,
    /// The line it came in.
    pub line: Arc<[u8]>,
}

impl Request {
    /// Bytes of memory, about, that it takes: as a line, and read.
    pub(crate) fn bytes(&self) -> usize {
        self.line.len().saturating_mul(2)
    }
}

/// A handshake whose token must be checked.
#[derive(Clone, PartialEq)]
pub struct Login {
    /// What the agent calls itself.
    pub agent_id: AgentId<'static>,
    /// Its credential.
    pub auth_token: String,
    /// The session it wants to go on with.
    pub resume: Option<Resume<'static>>,
}

/// What a host must do.
#[derive(Debug, Clone, PartialEq)]
pub enum HostEvent {
    /// Check a token, then call [`HostSession::login_accepted`](crate::HostSession::login_accepted) or [`HostSession::login_refused`](crate::HostSession::login_refused).
    Login(Login),
    /// The handshake is done, and the session has this id.
    Opened(SessionId<'static>),
    /// Work on a request, then call [`HostSession::respond`](crate::HostSession::respond).
    Start(Request),
    /// Stop working on a request; it has been answered, or nobody waits for its answer.
    Cancel(Token, CancelReason),
    /// The agent answered a request of the host's, or refused it with an error.
    Reply(Box<Message<'static>>),
    /// A handshake was answered with `ok:false`.
    HandshakeRefused(HandshakeReason<'static>),
    /// A request was answered with an error before anybody saw it.
    Refused(Box<RefusedRequest>),
    /// The session has ended.
    Closed(CloseReason),
}

/// A request that was refused: too early, without its capability, or one too many.
#[derive(Debug, Clone, PartialEq)]
pub struct RefusedRequest {
    /// What was asked.
    pub message: Message<'static>,
    /// The line it came in.
    pub line: Box<[u8]>,
    /// With which code.
    pub code: ErrorCode<'static>,
}

/// Why a request was cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelReason {
    /// It took longer than it may.
    Timeout,
    /// Its session ended.
    SessionEnded,
    /// Its agent wants it no longer.
    Withdrawn,
}

/// Why a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseReason {
    /// The agent, or the host, shut it down.
    Shutdown,
    /// The agent did not shake hands in time.
    NoHandshake,
    /// The agent was silent too long.
    Idle,
    /// The connection broke, and the agent did not come back.
    Disconnected,
    /// The connection broke, and a newer session of the agent needed the slot.
    GaveWay,
    /// It had too many bytes waiting.
    MemoryLimit,
}

impl CloseReason {
    /// The reason in words, for a log.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Shutdown => "it was shut down",
            Self::NoHandshake => "no handshake came",
            Self::Idle => "it was silent",
            Self::Disconnected => "the connection broke",
            Self::MemoryLimit => "too many bytes waited in it",
            Self::GaveWay => "it was not connected, and a newer session needed its slot",
        }
    }

    /// The reason as one word, for a record.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Shutdown => "shutdown",
            Self::NoHandshake => "no_handshake",
            Self::Idle => "idle",
            Self::Disconnected => "disconnected",
            Self::GaveWay => "gave_way",
            Self::MemoryLimit => "memory_limit",
        }
    }
}

/// A request that is not running: it was answered, timed out or cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the request has already been answered or cancelled")]
pub struct Stale;

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Login")
            .field("agent_id", &self.agent_id)
            .field("resume", &self.resume.is_some())
            .finish_non_exhaustive()
    }
}

/// Why an event was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    /// Its request is over.
    #[error(transparent)]
    Stale(Stale),
    /// The peer is too far behind.
    #[error(transparent)]
    Backpressure(Backpressure),
}
