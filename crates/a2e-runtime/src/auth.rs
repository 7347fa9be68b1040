//! Who an agent is.

use std::net::IpAddr;

use a2e_wire::messages::base::HandshakeReason;
use serde::{Deserialize, Serialize};

use crate::plugin::BoxFuture;

pub use a2e_session::Login;

/// Who an agent was found to be. What it calls itself is only a label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The agent its credential belongs to.
    pub agent: String,
}

/// To whom a session belongs: who may go on with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Owner {
    pub(crate) agent: String,
    /// Without authentication, the user of this machine.
    pub(crate) user: Option<u32>,
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
}

/// Lets everybody in. For connections that are trusted by what they are: a parent process, a test.
#[derive(Debug, Clone, Copy)]
pub struct Open;

/// Lets in who knows one token.
#[derive(Clone)]
pub struct OneToken {
    token: String,
    agent: String,
}

impl OneToken {
    /// The agent of this name has this token.
    #[must_use]
    pub fn new(agent: impl Into<String>, token: impl Into<String>) -> Self {
        Self {
            token: token.into(),
            agent: agent.into(),
        }
    }
}

impl std::fmt::Debug for OneToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OneToken")
            .field("agent", &self.agent)
            .finish_non_exhaustive()
    }
}

impl Authenticator for Open {
    fn required(&self) -> bool {
        false
    }

    fn authenticate<'a>(
        &'a self,
        _: &'a Login,
        _: Source,
    ) -> BoxFuture<'a, Result<Identity, HandshakeReason<'static>>> {
        let agent = "default".to_owned();
        Box::pin(async move { Ok(Identity { agent }) })
    }
}

impl Authenticator for OneToken {
    fn required(&self) -> bool {
        true
    }

    fn authenticate<'a>(
        &'a self,
        login: &'a Login,
        _: Source,
    ) -> BoxFuture<'a, Result<Identity, HandshakeReason<'static>>> {
        let good = same(login.auth_token.as_bytes(), self.token.as_bytes());
        Box::pin(async move {
            match good {
                true => Ok(Identity {
                    agent: self.agent.clone(),
                }),
                false => Err(HandshakeReason::AuthFailed),
            }
        })
    }
}

/// Compares in a time that does not tell where two secrets differ.
fn same(a: &[u8], b: &[u8]) -> bool {
    let mut difference = a.len() ^ b.len();
    for (index, byte) in b.iter().enumerate() {
        difference |= usize::from(byte ^ a.get(index).unwrap_or(&0));
    }
    std::hint::black_box(difference) == 0
}

#[cfg(test)]
mod tests {
    use super::same;

    #[test]
    fn only_the_same_bytes_are_the_same() {
        assert!(same(b"secret", b"secret"));
        for other in [&b""[..], b"secre", b"secrets", b"sEcret", b"secret\0"] {
            assert!(!same(other, b"secret"));
        }
        assert!(!same(b"", b"x"));
    }
}
