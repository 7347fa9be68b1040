//! What a server says to a message of a handshake.

use std::time::Duration;

use a2a_wire::{DidText, ErrorCode, Message, Phase, SessionId};
use policy::EffectivePolicy;

use super::evidence::{Established, ProofValid};
use super::hello::ExpectProof;
use super::table::Ticket;
use super::vetting::Need;
use crate::failure::{Binding, Failure, bytes};

/// What a server does about a message.
#[derive(Debug)]
pub enum Reply {
    /// Send this: the next message of the handshake.
    Send(Vec<u8>),
    /// The client has signed; find out who it is, then call [`Server::handle_found`](crate::Server::handle_found).
    Resolve(Box<Proving>),
    /// Send this; the session is there.
    Established {
        /// The session.
        session: Box<Established<EffectivePolicy>>,
        /// SESSION.
        message: Vec<u8>,
        /// The idle session of a stranger that lost its place for it, to be ended.
        evicted: Option<SessionId>,
    },
    /// The client gave up, which needs no answer.
    GivenUp(ErrorCode),
}

/// What a server refuses, for the peer and for the record.
#[derive(Debug, Clone, PartialEq)]
pub struct Refused {
    /// Why.
    pub failure: Failure,
    /// The error to send.
    pub message: Vec<u8>,
    /// Who it is, or, if `proven` is false, says it is.
    pub agent: Option<DidText>,
    /// Whether the agent has signed this handshake with a key it claimed.
    pub proven: bool,
    /// How strongly it binds what it signs.
    pub binding: Binding,
}

/// A client that has signed its handshake and is not known yet.
#[derive(Debug)]
pub struct Proving {
    pub(super) ticket: Ticket,
    pub(super) state: Box<ExpectProof>,
    pub(super) proof: ProofValid,
    pub(super) need: Need,
}

impl Proving {
    /// What must be found out.
    #[must_use]
    pub const fn need(&self) -> &Need {
        &self.need
    }

    /// Until when.
    #[must_use]
    pub fn deadline(&self) -> Duration {
        self.state.deadline.at()
    }
}

/// Whose handshake it is, as far as that is known.
#[derive(Debug)]
pub(super) struct Party {
    pub(super) agent: DidText,
    pub(super) proven: bool,
    pub(super) binding: Binding,
}

impl Party {
    pub(super) fn cause(self, failure: Failure) -> Cause {
        Cause {
            failure,
            agent: Some(self.agent),
            proven: self.proven,
            binding: self.binding,
        }
    }
}

/// A failure, with what is known of whose it is.
pub(super) struct Cause {
    pub(super) failure: Failure,
    pub(super) agent: Option<DidText>,
    pub(super) proven: bool,
    pub(super) binding: Binding,
}

impl From<Failure> for Cause {
    fn from(failure: Failure) -> Self {
        Self {
            failure,
            agent: None,
            proven: false,
            binding: Binding::Profile,
        }
    }
}

impl From<Cause> for Box<Refused> {
    fn from(cause: Cause) -> Self {
        let message = cause.failure.to_message(cause.binding, Phase::Handshake);
        Self::new(Refused {
            message: bytes(Message::Error(message)),
            failure: cause.failure,
            agent: cause.agent,
            proven: cause.proven,
            binding: cause.binding,
        })
    }
}
