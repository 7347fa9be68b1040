//! Who an agent is.

use std::net::IpAddr;
use std::sync::Arc;

use a2e_wire::messages::base::HandshakeReason;
use policy::TrustLevel;
use serde::{Deserialize, Serialize};

use crate::access::AccessHolder;
use crate::plugin::BoxFuture;

pub use a2e_session::Login;

/// Who an agent was found to be. What it calls itself is only a label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The agent its credential belongs to.
    pub agent: String,
    /// What it has proved to be, if it came with a key of its own.
    pub proven: Option<Proven>,
}

/// A DID that an agent has proved to be its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proven {
    /// The DID in canonical form.
    pub did: String,
    /// How much it is trusted.
    pub trust: TrustLevel,
}

impl Identity {
    /// An agent by its name alone: it has shown a token, or needed none.
    #[must_use]
    pub fn named(agent: impl Into<String>) -> Self {
        Self {
            agent: agent.into(),
            proven: None,
        }
    }

    /// An agent that has proved a DID.
    #[must_use]
    pub fn proven(agent: impl Into<String>, did: impl Into<String>, trust: TrustLevel) -> Self {
        Self {
            agent: agent.into(),
            proven: Some(Proven {
                did: did.into(),
                trust,
            }),
        }
    }
}

/// To whom a session belongs: who may go on with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Owner {
    pub(crate) agent: String,
    /// Without authentication, the user of this machine.
    pub(crate) user: Option<u32>,
    /// The DID it has proved. Whoever comes back must prove it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) did: Option<String>,
}

impl Owner {
    /// Whose access its session has.
    pub(crate) fn holder(&self) -> AccessHolder {
        AccessHolder {
            agent: self.agent.clone(),
            did: self.did.clone(),
        }
    }
}

/// Where a connection comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// This process, or the one that started it.
    Own,
    /// A user of this machine, over a Unix socket.
    User(u32),
    /// A machine.
    Address(IpAddr),
}

impl Source {
    /// Whether it is this process, or the user that runs it: who could read the operator's files anyway.
    pub(crate) fn is_operator(self) -> bool {
        match self {
            Self::Own => true,
            Self::User(user) => user == rustix::process::getuid().as_raw(),
            Self::Address(_) => false,
        }
    }

    /// The address of a machine.
    pub(crate) const fn address(self) -> Option<IpAddr> {
        match self {
            Self::Address(address) => Some(address),
            Self::Own | Self::User(_) => None,
        }
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Own => f.write_str("own"),
            Self::User(user) => write!(f, "uid:{user}"),
            Self::Address(address) => write!(f, "{address}"),
        }
    }
}

/// What counts as one source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Counted {
    User(u32),
    /// Any process can use any of these addresses.
    Loopback,
    V4([u8; 4]),
    /// The smallest network that is given to one customer: the first 64 bits.
    V6([u8; 8]),
}

impl Counted {
    /// Nothing for what belongs to this process, which counts for nobody.
    pub(crate) fn of(source: Source) -> Option<Self> {
        let address = match source {
            Source::Own => return None,
            Source::User(user) => return Some(Self::User(user)),
            Source::Address(address) => address.to_canonical(),
        };
        Some(match address {
            _ if address.is_loopback() => Self::Loopback,
            IpAddr::V4(address) => Self::V4(address.octets()),
            IpAddr::V6(address) => {
                let [a, b, c, d, e, f, g, h, ..] = address.octets();
                Self::V6([a, b, c, d, e, f, g, h])
            }
        })
    }
}

/// Checks the credentials of a handshake.
pub trait Authenticator: Send + Sync + 'static {
    /// Whether agents must have a credential at all.
    fn required(&self) -> bool;

    /// Who an agent is, or why it is refused.
    fn authenticate<'a>(
        &'a self,
        login: &'a Login,
        source: Source,
    ) -> BoxFuture<'a, Result<Identity, HandshakeReason<'static>>>;

    /// Who an agent is by a credential so random that nobody finds it by trying. Such a one is good
    /// even where others have failed so often that no guess is heard any more.
    fn recognise(&self, _login: &Login) -> Option<Identity> {
        None
    }
}

/// Lets everybody in. For connections that are trusted by what they are: a parent process, a test.
#[derive(Debug, Clone, Copy)]
pub struct Open;

impl Authenticator for Open {
    fn required(&self) -> bool {
        false
    }

    fn authenticate<'a>(
        &'a self,
        _: &'a Login,
        _: Source,
    ) -> BoxFuture<'a, Result<Identity, HandshakeReason<'static>>> {
        Box::pin(async move { Ok(Identity::named("default")) })
    }
}

/// Shared with those who change what it knows.
impl<A: Authenticator> Authenticator for Arc<A> {
    fn required(&self) -> bool {
        A::required(self)
    }

    fn authenticate<'a>(
        &'a self,
        login: &'a Login,
        source: Source,
    ) -> BoxFuture<'a, Result<Identity, HandshakeReason<'static>>> {
        A::authenticate(self, login, source)
    }

    fn recognise(&self, login: &Login) -> Option<Identity> {
        A::recognise(self, login)
    }
}
