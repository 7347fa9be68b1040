//! DIDs (profile §4): parsed once, compared in canonical form only.

mod github;
mod key;
mod web;

use std::fmt;
use std::str::FromStr;

use a2a_wire::{DidText, limits};

pub use github::DidGithub;
pub use key::DidKey;
pub(crate) use key::multibase_key;
pub use web::DidWeb;
pub(crate) use web::is_public_name;

use crate::Peer;

/// The name of an agent, in the one spelling it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Did {
    /// The name is a key.
    Key(DidKey),
    /// The name is a place in the web.
    Web(DidWeb),
    /// The name is a repository.
    Github(DidGithub),
}

/// Why a text is no DID that we take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DidError {
    /// Another method than key, web and github.
    #[error("this kind of DID is not supported; there are did:key, did:web and did:github")]
    UnsupportedMethod,
    /// A did:key of another type than Ed25519.
    #[error("the key type {0} of this did:key is not supported; Ed25519 is (`did:key:z6Mk…`)")]
    UnsupportedKeyType(&'static str),
    /// It breaks the rules of its method.
    #[error("not a DID: {0}")]
    Malformed(&'static str),
}

impl Did {
    /// Reads a DID as this peer may write it: a baseline peer may leave out the prefix in a did:key.
    ///
    /// # Errors
    /// If it is none.
    pub fn parse(text: &str, peer: Peer) -> Result<Self, DidError> {
        if text.len() > limits::DID {
            return Err(DidError::Malformed("it is longer than 512 characters"));
        }
        let rest = text
            .strip_prefix("did:")
            .ok_or(DidError::Malformed("it does not begin with `did:`"))?;
        let (method, id) = rest
            .split_once(':')
            .ok_or(DidError::Malformed("it has no method"))?;
        match method {
            "key" => DidKey::parse(id, peer).map(Self::Key),
            "web" => DidWeb::parse(id).map(Self::Web),
            "github" => DidGithub::parse(id).map(Self::Github),
            _ => Err(DidError::UnsupportedMethod),
        }
    }

    /// As text of the wire.
    #[must_use]
    pub fn to_text(&self) -> Option<DidText> {
        self.to_string().parse().ok()
    }

    /// Whether a text names this agent, in whatever spelling.
    #[must_use]
    pub fn is(&self, text: &str) -> bool {
        Self::parse(text, Peer::Profile).as_ref() == Ok(self)
    }
}

impl FromStr for Did {
    type Err = DidError;

    fn from_str(text: &str) -> Result<Self, DidError> {
        Self::parse(text, Peer::Profile)
    }
}

impl fmt::Display for Did {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(did) => did.fmt(f),
            Self::Web(did) => did.fmt(f),
            Self::Github(did) => did.fmt(f),
        }
    }
}
