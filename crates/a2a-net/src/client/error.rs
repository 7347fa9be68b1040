//! Why a call came to nothing.

use std::time::Duration;

use a2a_identity::{Did, NoRandomness, ResolveError};
use a2a_session::Failure;
use a2a_wire::{ErrorCode, Received, UnixSeconds};
use canonical::Value;

use super::retry::Fault;
use crate::resolve::NotReachable;
use crate::transport::CarryError;

/// Why a call came to nothing.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// Nobody knows who the agent is.
    #[error("cannot find out who {did} is: {source}")]
    Unresolved {
        /// The agent.
        did: String,
        /// Why.
        source: ResolveError,
    },
    /// The operator has blocked the agent.
    #[error("{did} is blocked; `frith trust unblock {did}` lets this node speak to it again")]
    Blocked {
        /// The agent.
        did: String,
    },
    /// Nobody knows where the agent is.
    #[error(
        "{did} has no address that this node can use; `frith peer add NAME URL --did {did}` gives it one"
    )]
    NoAddress {
        /// The agent.
        did: String,
    },
    /// The agent's address must not be connected to.
    #[error("{url}: {source}")]
    NotReachable {
        /// The address.
        url: String,
        /// Why.
        source: NotReachable,
    },
    /// A message could not be carried.
    #[error(transparent)]
    Carry(#[from] CarryError),
    /// The handshake failed here: the peer is not who it should be, or asks too much.
    #[error("the handshake failed: {0}")]
    Handshake(Failure),
    /// The peer refused.
    #[error("the agent answered {0}")]
    Refused(Told),
    /// What came back is not believed.
    #[error("the answer is not the agent's: {0}")]
    NotBelieved(Failure),
    /// The session ended before anything was sent, and another did not help.
    #[error("the session is over")]
    Over,
    /// The agreed rate leaves no room in the time there is.
    #[error("the agreed rate leaves no room for {} ms", .0.as_millis())]
    RateLimited(Duration),
    /// The request is not one that can be sent.
    #[error("{0}")]
    Request(a2a_session::CallError),
    /// Time is up.
    #[error("the agent did not answer in time")]
    TimedOut,
    /// What happens cannot be put on record, so nothing happens.
    #[error("the call cannot be put on record: {0}")]
    Audit(audit::Error),
    /// What is known of the agent cannot be kept, or is newer than what it shows.
    #[error("{0}")]
    NotKept(Failure),
    /// There is no randomness.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
    /// The last try failed like this, and one of the tries may have had the work done all the same.
    #[error("{0}; it may have been done")]
    MayHaveRun(Box<Self>),
}

/// What a peer says went wrong.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{}{}", .failure.code, if *.signed { "" } else { " (nobody signed that)" })]
pub struct Told {
    /// The code, the reason and the figures.
    pub failure: Failure,
    /// Whether the peer has signed it; else it is a hint.
    pub signed: bool,
    /// Whether the peer did not write it at all: a proxy on the way did.
    pub is_proxy: bool,
    /// The status of the transport.
    pub status: u16,
    /// When the peer's transport says to come again.
    pub retry_after: Option<u64>,
}

impl CallError {
    /// The code that says the same.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Unresolved { source, .. } => source.code(),
            Self::Blocked { .. } => ErrorCode::PolicyViolation,
            Self::NoAddress { .. } | Self::NotReachable { .. } => ErrorCode::UnverifiedAgent,
            Self::Carry(CarryError::Tls(_)) | Self::NotBelieved(_) => ErrorCode::UnverifiedAgent,
            Self::Carry(_) | Self::Audit(_) | Self::NoRandomness(_) => {
                ErrorCode::ServiceUnavailable
            }
            Self::Handshake(failure) | Self::NotKept(failure) => failure.code.clone(),
            Self::Refused(told) => told.failure.code.clone(),
            Self::Over => ErrorCode::SessionExpired,
            Self::RateLimited(_) => ErrorCode::RateLimitExceeded,
            Self::Request(error) => match error {
                a2a_session::CallError::TooLarge { .. } => ErrorCode::PayloadTooLarge,
                a2a_session::CallError::Intent(failure) => failure.code.clone(),
                a2a_session::CallError::Unsupported => ErrorCode::UnsupportedCapability,
                a2a_session::CallError::Over => ErrorCode::SessionExpired,
                a2a_session::CallError::RateLimited(_) => ErrorCode::RateLimitExceeded,
                a2a_session::CallError::TooMany | a2a_session::CallError::NoRandomness(_) => {
                    ErrorCode::ServiceUnavailable
                }
            },
            Self::TimedOut => ErrorCode::Timeout,
            Self::MayHaveRun(error) => error.code(),
        }
    }

    /// How the last try failed.
    #[must_use]
    pub fn last(&self) -> &Self {
        if let Self::MayHaveRun(error) = self {
            return error.last();
        }
        self
    }

    /// The same, for the record. What a text holds that is not ours stays out of it.
    pub(super) fn to_failure(&self) -> Failure {
        match self {
            Self::Handshake(failure) | Self::NotKept(failure) | Self::NotBelieved(failure) => {
                failure.clone()
            }
            Self::Refused(told) => told.failure.clone(),
            Self::MayHaveRun(error) => error.to_failure(),
            other @ (Self::Unresolved { .. }
            | Self::Blocked { .. }
            | Self::NoAddress { .. }
            | Self::NotReachable { .. }
            | Self::Carry(_)
            | Self::Over
            | Self::RateLimited(_)
            | Self::Request(_)
            | Self::TimedOut
            | Self::Audit(_)
            | Self::NoRandomness(_)) => Failure::new(other.code(), other.to_string()),
        }
    }

    /// Nothing of this DID could be found out.
    pub(super) fn unresolved(did: &Did, source: ResolveError) -> Self {
        Self::Unresolved {
            did: did.to_string(),
            source,
        }
    }

    /// As far as that matters for another try.
    pub(super) fn fault(&self, now: UnixSeconds) -> Fault<'_> {
        match self {
            Self::Carry(error) => Fault::Carry(error),
            Self::Refused(told) if told.is_proxy => Fault::Proxy {
                code: &told.failure.code,
                wait: told.wait(now),
            },
            Self::Refused(told) => Fault::Told {
                code: &told.failure.code,
                signed: told.signed,
                status: told.status,
                wait: told.wait(now),
            },
            Self::Unresolved {
                source: ResolveError::Unavailable(_),
                ..
            } => Fault::Told {
                code: &ErrorCode::ServiceUnavailable,
                signed: false,
                status: 503,
                wait: None,
            },
            // What is refused here is refused again.
            Self::Handshake(failure) if failure.code == ErrorCode::HandshakeFailed => Fault::Final,
            Self::Handshake(failure) => Fault::Told {
                code: &failure.code,
                signed: false,
                status: 0,
                wait: None,
            },
            Self::Over => Fault::Over,
            Self::RateLimited(wait) => Fault::Limited(*wait),
            Self::MayHaveRun(error) => error.fault(now),
            // These also end a try that was sent.
            Self::TimedOut | Self::NotBelieved(_) | Self::Audit(_) => Fault::Unheard,
            Self::Unresolved { .. }
            | Self::Blocked { .. }
            | Self::NoAddress { .. }
            | Self::NotReachable { .. }
            | Self::Request(_)
            | Self::NotKept(_)
            | Self::NoRandomness(_) => Fault::Final,
        }
    }
}

impl Told {
    /// Returns what the status of an answer means that the agent itself did not write: a proxy on the
    /// way is busy, or does not reach it. That proves nothing. A message of A2A is never a proxy's: what
    /// is wrong with it must be reported, whatever its status.
    pub(super) fn by_proxy(message: &[u8], status: u16, retry_after: Option<u64>) -> Option<Self> {
        let code = match status {
            429 => ErrorCode::RateLimitExceeded,
            502 | 503 => ErrorCode::ServiceUnavailable,
            504 => ErrorCode::Timeout,
            _ => return None,
        };
        if Received::parse(message, usize::MAX).is_ok() {
            return None;
        }
        let cause = format!("status {status}, which the agent itself did not send");
        Some(Self {
            failure: Failure::new(code, cause),
            signed: false,
            is_proxy: true,
            status,
            retry_after,
        })
    }

    /// How long the peer asks to be left alone.
    fn wait(&self, now: UnixSeconds) -> Option<Duration> {
        let figure = |name| match self.failure.figure(name) {
            Some(Value::Number(number)) => number.as_i64(),
            _ => None,
        };
        let millis = figure("retry_after_ms").and_then(|it| u64::try_from(it).ok());
        let reset = figure("reset_at").map(|at| at.saturating_sub(now.0));
        let reset = reset.and_then(|seconds| u64::try_from(seconds).ok());
        let waits = [
            millis.map(Duration::from_millis),
            reset.map(Duration::from_secs),
            self.retry_after.map(Duration::from_secs),
        ];
        waits.into_iter().flatten().max()
    }
}
