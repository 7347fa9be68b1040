//! What the operator can ask a node about other agents, and what it answers.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The operations.
pub(crate) const PROBE: &str = "peer.probe";
pub(crate) const CALL: &str = "peer.call";
pub(crate) const LOOK: &str = "peer.look";
pub(crate) const SESSIONS: &str = "peer.sessions";

/// `peer.probe`: shake hands, show it, and keep nothing.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Probe {
    /// A name, a DID or a URL.
    pub(crate) to: String,
    pub(crate) encrypt: bool,
}

/// What a handshake came to.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Shaken {
    pub(crate) did: String,
    /// The messages, in order; also of one that failed.
    pub(crate) said: Vec<Said>,
    /// What was agreed on.
    pub(crate) agreed: Option<Agreed>,
    /// Why nothing was.
    pub(crate) failed: Option<Failed>,
}

/// A message of a handshake.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Said {
    /// Whether this node said it.
    pub(crate) ours: bool,
    pub(crate) message: Value,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Agreed {
    pub(crate) url: String,
    pub(crate) address: String,
    pub(crate) session: Session,
    pub(crate) policy: Value,
}

/// Why a peer did not do what was asked.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Failed {
    pub(crate) code: String,
    pub(crate) error: String,
}

/// A session with a peer.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Session {
    pub(crate) did: String,
    pub(crate) trust_level: String,
    /// `profile` or `baseline`.
    pub(crate) binding: String,
    pub(crate) encrypted: bool,
    pub(crate) transport: String,
    pub(crate) policy_hash: String,
    pub(crate) expires_at: i64,
}

/// `peer.call`: ask a peer to do something.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Call {
    /// A name or a DID.
    pub(crate) to: String,
    pub(crate) intent: Value,
    pub(crate) timeout_ms: u64,
    pub(crate) encrypt: bool,
    pub(crate) stream: bool,
}

/// What a call came to.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Called {
    pub(crate) answered: Option<Answered>,
    pub(crate) failed: Option<Failed>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Answered {
    pub(crate) result: Value,
    /// Whether it is the result of a tool that failed.
    pub(crate) is_failure: bool,
    pub(crate) response_hash: String,
    pub(crate) attempts: u32,
    pub(crate) session: Session,
}

/// A part of an answer, told before it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Part {
    pub(crate) attempt: u32,
    pub(crate) index: u64,
    pub(crate) data: Value,
}

/// A try that failed, told before another.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Setback {
    pub(crate) setback: String,
    pub(crate) again_in_ms: u64,
}

/// `peer.look`: whose manifest is at a URL, or what a DID leads to.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Look {
    /// A URL or a DID.
    pub(crate) at: String,
}

/// What was found there, and verified.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Seen {
    pub(crate) did: String,
    /// None if a did:key has nowhere to show one.
    pub(crate) manifest: Option<SeenManifest>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SeenManifest {
    pub(crate) hash: String,
    pub(crate) signed_at: i64,
    pub(crate) agent_id: String,
    pub(crate) endpoints: Vec<String>,
    pub(crate) capabilities: Vec<String>,
}

/// `peer.sessions`: the sessions that there are.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Sessions {
    /// With those this node calls.
    pub(crate) outgoing: Vec<Session>,
    /// With those that call it.
    pub(crate) incoming: Vec<Incoming>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Incoming {
    pub(crate) did: String,
    pub(crate) trust_level: String,
    pub(crate) created_at: i64,
    pub(crate) expires_at: i64,
    pub(crate) policy_hash: String,
    pub(crate) in_flight: usize,
}
