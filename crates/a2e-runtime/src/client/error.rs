//! Why something did not work.

use std::io;
use std::time::Duration;

use a2e_session::{ConnectError, Refused};
use a2e_wire::messages::base::{Error, HandshakeReason};
use a2e_wire::{ErrorCode, Message, MessageId, Object};

/// What a host answered instead of a response.
#[derive(Debug, Clone, PartialEq)]
pub struct A2eError {
    /// What kind of failure it is.
    pub code: ErrorCode<'static>,
    /// What went wrong, for a person.
    pub message: String,
    /// Whether the same request may succeed later.
    pub retryable: bool,
    /// What went wrong, for a program.
    pub detail: Object<'static>,
    /// The capability that failed; empty if the host does not say.
    pub capability_name: String,
    /// The id of the request.
    pub req_id: MessageId<'static>,
    /// The events that came before.
    pub events: Vec<Message<'static>>,
}

/// Why something did not work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The session did not come about.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The host answered with an error.
    #[error(transparent)]
    Host(Box<A2eError>),
    /// The host's response is not valid; the code is `schema_violation`.
    #[error(transparent)]
    Invalid(Box<A2eError>),
    /// The host answered with a message that is no answer to the request.
    #[error("the host answered with `{0}`, which does not answer the request")]
    Unexpected(String),
    /// A message of a type beside the catalogue cannot be written or read.
    #[error("the message does not fit its type: {0}")]
    Custom(String),
    /// No response came in time.
    #[error("no response came within {0:?}")]
    Timeout(Duration),
    /// Too many calls are under way.
    #[error(transparent)]
    Refused(Refused),
    /// The connection broke and the host has forgotten the session.
    #[error("the host lost the session before it answered; it may have done what was asked")]
    Lost,
    /// The connection ended.
    #[error("the connection to the host is closed")]
    Closed,
    /// The host cannot be reached.
    #[error("the host cannot be reached: {0}")]
    Unreachable(io::Error),
    /// The connection failed.
    #[error("the connection to the host failed: {0}")]
    Io(io::Error),
}

impl std::fmt::Display for A2eError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for A2eError {}

impl A2eError {
    pub(crate) fn new(
        error: Error<'static>,
        req_id: MessageId<'static>,
        events: Vec<Message<'static>>,
    ) -> Self {
        Self {
            code: error.code,
            message: error.message.into_owned(),
            retryable: error.retryable,
            detail: error.detail,
            capability_name: error.capability_name.into_owned(),
            req_id,
            events,
        }
    }
}

impl From<&ClientError> for A2eError {
    /// The same in the form in which hosts report errors. What the client alone knows of has no `detail` and
    /// no events.
    fn from(error: &ClientError) -> Self {
        let (code, retryable) = match error {
            ClientError::Host(error) | ClientError::Invalid(error) => return (**error).clone(),
            ClientError::Unexpected(_)
            | ClientError::Custom(_)
            | ClientError::Connect(ConnectError::Invalid(_)) => (ErrorCode::SchemaViolation, false),
            ClientError::Timeout(_) | ClientError::Connect(ConnectError::Timeout) => {
                (ErrorCode::Timeout, true)
            }
            ClientError::Connect(ConnectError::Refused(reason)) => match reason {
                HandshakeReason::AuthFailed => (ErrorCode::Unauthorized, false),
                HandshakeReason::VersionMismatch => (ErrorCode::VersionMismatch, false),
                HandshakeReason::NoCaps => (ErrorCode::CapabilityMissing, false),
                HandshakeReason::ServerError => (ErrorCode::RuntimeError, true),
                HandshakeReason::Other(_) => (ErrorCode::RuntimeError, false),
            },
            ClientError::Refused(_) | ClientError::Unreachable(_) => {
                (ErrorCode::RuntimeError, true)
            }
            // What was asked may have been done.
            ClientError::Lost | ClientError::Closed | ClientError::Io(_) => {
                (ErrorCode::RuntimeError, false)
            }
        };
        Self {
            code,
            message: error.to_string(),
            retryable,
            detail: Object::default(),
            capability_name: String::new(),
            req_id: MessageId::default(),
            events: Vec::new(),
        }
    }
}

impl From<Refused> for ClientError {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Closed => Self::Closed,
            Refused::TooMany(_) | Refused::NoRoom(_) => Self::Refused(refused),
        }
    }
}
