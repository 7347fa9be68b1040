//! The A2A wire: what two agents say to each other, as types, and what may be wrong with it.
//!
//! A received text becomes a [`Received`]: the typed [`Message`] for logic and the tree it was read
//! from for hashing, since members that we do not know count too. Manifests, policies,
//! endorsements and the payloads of signatures are here as well, and the table of error codes.
//!
//! It is deliberately without cryptography: it cannot tell a true signature from a false one, and
//! nothing it returns is proven. That is `a2a-identity`. What a policy or the name of an intent
//! means is a matter of `policy`; here they have types.
//!
//! Reading order: `message`, `handshake`, `exchange`, `manifest`, `signed`, `transcript`,
//! `error_code`; `read` has the `record!` macro, `text` the forms of ids, [`limits`] the sizes.
//!
//! ```
//! use a2a_wire::{Kind, Received, limits};
//!
//! let text = br#"{"type":"proof","agent_did":"did:web:a.example","proof_jws":"x.y.z","new":1}"#;
//! let received = Received::parse(text, limits::HANDSHAKE)?;
//! assert_eq!(received.message().kind(), Kind::Proof);
//! assert!(received.tree().get("new").is_some(), "unknown members are kept for hashing");
//!
//! let error = Received::parse(br#"{"type":"proof","agent_did":7}"#, limits::HANDSHAKE);
//! assert_eq!(error.unwrap_err().to_string(), "`agent_did` must be a string, not a number");
//! # Ok::<(), a2a_wire::WireError>(())
//! ```

#![warn(clippy::indexing_slicing)]

mod error;
mod error_code;
mod exchange;
#[doc(hidden)]
pub mod fuzzing;
mod handshake;
pub mod limits;
mod manifest;
mod message;
mod read;
mod signed;
mod text;
mod transcript;

pub use canonical::Digest;
pub use error::{FieldError, Problem, WireError};
pub use error_code::{ErrorCode, GrpcStatus, Phase, Reason, Retry};
pub use exchange::{
    Cancel, Ciphertext, Close, Constraints, Encrypted, ErrorMessage, Intent, Milliseconds, Request,
    Response, ResponseChunk, StreamEnd,
};
pub use handshake::{
    AcceptPolicy, Challenge, Extensions, Hello, KeyAgreement, KeyExchange, PROFILE, PolicyOffer,
    Proof, Session,
};
pub use manifest::{
    Capability, CapabilityDetail, Endorsement, Endpoint, Manifest, NOT_HASHED, Policy, PrivatePart,
    PublicKey, TrustChain,
};
pub use message::{Kind, Message, Received, message_hash, parse_document};
pub use read::{Count, Nullable, Read, UnixSeconds, Write};
pub use signed::{
    AcceptPayload, AuditPayload, ChallengePayload, ControlPayload, EndorsementPayload,
    ErrorPayload, LoginPayload, ManifestPayload, Payload, Place, PolicyPayload, ProofPayload,
    RequestPayload, ResponsePayload, SessionPayload,
};
pub use text::{
    AgentId, DidText, IntentId, JwsText, Key32, Kid, Nonce, RequestId, RequestJws, SessionId, Text,
    Unparsed, Url, UserAgent, Version, Word, WrongForm,
};
pub use transcript::{StreamChain, Transcript, session_commitment};
