//! What an agent's session tells.

use a2e_wire::messages::base::{AcceptedCapability, Error, HandshakeReason};
use a2e_wire::{Message, SessionId};

/// Names a call of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Call(pub(super) u64);

/// A session that came about.
#[derive(Debug, Clone, PartialEq)]
pub struct Connected {
    /// The session's id.
    pub session_id: SessionId<'static>,
    /// One entry for each capability asked for.
    pub capabilities: Vec<AcceptedCapability<'static>>,
    /// How many calls the host runs at once.
    pub max_parallel: i64,
    /// It is the session there was before.
    pub resumed: bool,
    /// The first and the last message of it that are lost, if any are.
    pub missed: Option<(i64, i64)>,
}

/// What happened to a session or a call.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentEvent {
    /// The host accepted the handshake.
    Connected(Connected),
    /// The session did not come about.
    NotConnected(ConnectError),
    /// An event of a call; of one that is over too, for what outlives its response.
    Event(Call, Message<'static>),
    /// The response to a call.
    Response(Call, Message<'static>),
    /// A call failed.
    Failed(Call, CallError),
    /// The host asks for something; answer with
    /// [`AgentSession::reply`](crate::AgentSession::reply).
    Request(Message<'static>),
    /// Something nobody asked for.
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
    /// What the host answered is no answer to a handshake.
    #[error("the host's answer to the handshake is not valid: {0}")]
    Invalid(String),
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CallError {
    /// The host answered with an error; with the events before it.
    #[error("{}: {}", .0.code, .0.message)]
    Host(Box<Error<'static>>, Vec<Message<'static>>),
    /// The host's response is not valid (`schema_violation`); with the events before it.
    #[error("{}", .0.message)]
    Invalid(Box<Error<'static>>, Vec<Message<'static>>),
    /// No response came in time.
    #[error("no response came in time")]
    Timeout,
    /// The connection broke and the host has forgotten the session.
    #[error("the host lost the session before it answered; it may have done what was asked")]
    Lost,
    /// The session ended first.
    #[error("the session ended before the response")]
    Closed,
}

/// Why a message was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The session has ended.
    #[error("the session has ended; connect again")]
    Closed,
    /// Too many calls wait for their response.
    #[error("{0} calls wait for their response already; wait until some are answered")]
    TooMany(usize),
    /// Too many bytes wait.
    #[error("the host reads or answers too slowly: {0} bytes wait; try again later")]
    NoRoom(usize),
}
