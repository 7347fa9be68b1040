//! Checkpoints: the node's signature under the state of its log.

use canonical::Digest;

/// The state of a log at one moment; what is signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The log.
    pub log_id: String,
    /// Its last record.
    pub seq: u64,
    /// The hash of that record, and with it of all before.
    pub head_hash: Digest,
    /// When it was signed, in seconds since 1970.
    pub timestamp: i64,
}

/// Signs checkpoints with the node's key. This crate has no cryptography.
pub trait Signer: Send {
    /// The compact JWS over the checkpoint and its issuer (profile §2: `a2a-audit+jws`).
    ///
    /// # Errors
    /// If there is no key to sign with now.
    fn sign(&self, checkpoint: &Checkpoint) -> Result<String, NotSigned>;
}

/// There is no signature, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the checkpoint cannot be signed: {0}")]
pub struct NotSigned(pub String);

/// Knows the public keys of a node.
pub trait KeyCheck: Send + Sync {
    /// The checkpoint in a compact JWS, if the node has signed it.
    ///
    /// # Errors
    /// If it has not, or nobody can tell.
    fn check(&self, jws: &str) -> Result<Checkpoint, Refusal>;
}

/// Why a checkpoint does not count.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It may be good, but its key is not known here. What it says is not proven.
    #[error("the key is not known")]
    UnknownKey(Checkpoint),
    /// It is no checkpoint of this node.
    #[error("{0}")]
    Invalid(String),
}

/// Characters of a checkpoint's JWS.
pub const MAX_CHECKPOINT: usize = 4 * 1024;
