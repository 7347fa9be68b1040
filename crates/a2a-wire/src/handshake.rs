//! The six messages of the handshake (base specification §5, profile §8.1).

use canonical::{Object, Value};

use crate::read::{record, text};
use crate::{
    AgentId, Count, DidText, Digest, FieldError, JwsText, Key32, Nonce, Policy, PublicKey, Read,
    SessionId, UnixSeconds, Unparsed, UserAgent, Version, Word, Write,
};

/// The `extensions.profile` of peers that bind all that profile §2 binds.
pub const PROFILE: &str = "a2a-profile-1";

record! {
    /// HELLO, client to server: who I am, and what I offer. Nothing in it is proven.
    Hello {
        /// The version the client would like.
        protocol_version: Version,
        /// All it can.
        supported_versions: Option<Vec<Version>>,
        /// Who it says it is.
        agent_did: DidText,
        /// What it calls itself.
        agent_id: AgentId,
        /// The hash of its manifest.
        manifest_hash: Unparsed<Digest>,
        /// `nonce_a`.
        nonce: Unparsed<Nonce>,
        /// Its keys; compared with the verified ones, never believed.
        public_keys: Vec<PublicKey>,
        /// Its clock.
        timestamp: UnixSeconds,
        /// Its program.
        user_agent: Option<UserAgent>,
        /// What the profile adds.
        extensions: Option<Extensions>,
    }
}

record! {
    /// CHALLENGE, server to client: who I am, with a signature over what was said so far.
    Challenge {
        /// The version chosen.
        protocol_version: Option<Version>,
        /// The server's nonce.
        nonce_b: Unparsed<Nonce>,
        /// Who it says it is.
        server_did: DidText,
        /// The hash of its manifest.
        manifest_hash: Unparsed<Digest>,
        /// Its keys; compared with the verified ones, never believed.
        public_keys: Vec<PublicKey>,
        /// The hash of the policy that will follow.
        policy_hash: Digest,
        /// The signature.
        policy_signature: JwsText,
        /// Its clock.
        timestamp: UnixSeconds,
        /// What the profile adds.
        extensions: Option<Extensions>,
    }
}

record! {
    /// PROOF, client to server: a signature over both nonces.
    Proof {
        /// Who it says it is.
        agent_did: DidText,
        /// The signature.
        proof_jws: JwsText,
    }
}

record! {
    /// POLICY, server to client.
    PolicyOffer {
        /// What the server demands.
        policy: Policy,
        /// Its hash, as announced.
        policy_hash: Digest,
        /// The signature.
        policy_signature: JwsText,
    }
}

record! {
    /// ACCEPT_POLICY, client to server.
    AcceptPolicy {
        /// Who it says it is.
        agent_did: DidText,
        /// The hash of the policy it accepts.
        policy_hash: Digest,
        /// The signature.
        acceptance_jws: JwsText,
    }
}

record! {
    /// SESSION, server to client: the session exists.
    Session {
        /// Its id.
        session_id: SessionId,
        /// Who the server is.
        server_did: DidText,
        /// When it began.
        created_at: UnixSeconds,
        /// When it ends.
        expires_at: UnixSeconds,
        /// 0.
        message_count: Count,
        /// The server's keys.
        public_keys: Vec<PublicKey>,
        /// The signature; only a baseline peer may leave it out.
        session_jws: Option<JwsText>,
    }
}

record! {
    /// What the profile adds to HELLO and CHALLENGE.
    Extensions {
        /// [`PROFILE`].
        profile: Option<Word>,
        /// Of `stream`, `cancel`, `encrypt`.
        features: Option<Vec<Word>>,
        /// The sender's whole manifest.
        manifest: Option<Object<'static>>,
        /// The sender's half of a key agreement.
        kx: Option<KeyExchange>,
        /// How a client would like the policy tightened.
        policy_request: Option<Policy>,
    }
}

record! {
    /// Half of a key agreement.
    KeyExchange {
        /// `X25519`.
        alg: KeyAgreement,
        /// The ephemeral public key.
        key: Key32,
    }
}

/// The one way to agree on a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyAgreement {
    /// RFC 7748.
    X25519,
}

impl Read for KeyAgreement {
    fn read(value: &Value<'_>) -> Result<Self, FieldError> {
        match text(value)? {
            "X25519" => Ok(Self::X25519),
            _ => Err(FieldError::form("`X25519`")),
        }
    }
}

impl Write for KeyAgreement {
    fn write(&self) -> Value<'static> {
        Value::String("X25519".into())
    }
}
