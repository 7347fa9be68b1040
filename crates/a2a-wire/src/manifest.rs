//! Manifests, and what they are made of (profile §3, §5, §6).

use canonical::{Object, Value};

use crate::limits;
use crate::read::{list, object, record, text};
use crate::{
    AgentId, Count, DidText, Digest, FieldError, JwsText, Kid, Nullable, Read, Text, UnixSeconds,
    Url, Word, Write,
};

/// The members a manifest's hash leaves out, at its top level alone.
pub const NOT_HASHED: &[&str] = &["manifest_signature"];

record! {
    /// An agent's description of itself. What it says counts only after `a2a-identity` verified it.
    Manifest {
        /// `"1.0"`.
        manifest_version: Word,
        /// Whose it is.
        agent_did: DidText,
        /// What the agent calls itself; peers of the base specification may leave it out.
        agent_id: Option<AgentId>,
        /// The keys the agent signs with.
        public_keys: Vec<PublicKey>,
        /// Where the agent can be reached.
        endpoints: Vec<Endpoint>,
        /// What the agent can do.
        capabilities: Option<Vec<Capability>>,
        /// What the agent demands; its values are a matter of the `policy` crate.
        policy: Option<Policy>,
        /// Who vouches for the agent.
        trust_chain: Option<TrustChain>,
        /// Anything else.
        metadata: Option<Object<'static>>,
        /// A name for people.
        name: Option<Text>,
        /// A description for people.
        description: Option<Text>,
        /// When this content was first published.
        published_at: Option<UnixSeconds>,
        /// When it ends.
        expires_at: Option<Nullable<UnixSeconds>>,
        /// The signature.
        manifest_signature: Option<JwsText>,
    }
}

impl Manifest {
    /// When it ends, if ever.
    #[must_use]
    pub fn ends(&self) -> Option<UnixSeconds> {
        self.expires_at.and_then(|expires| expires.0)
    }
}

record! {
    /// A place where an agent can be reached.
    Endpoint {
        /// `handshake`, `request`, `stream`; others are ignored.
        kind as "type": Word,
        /// The address.
        url: Url,
        /// `http`, `http2`, `grpc`, `websocket`; others are ignored.
        transport: Option<Word>,
    }
}

/// Something an agent can do.
#[derive(Debug, Clone, PartialEq)]
pub struct Capability {
    /// The name as one would ask for it, such as `nlp.translate.v1`.
    pub name: Word,
    /// The object it was written as, if it was not just the name.
    pub object: Option<Object<'static>>,
}

impl Read for Capability {
    fn read(value: &Value<'_>) -> Result<Self, FieldError> {
        if value.as_str().is_some() {
            return Word::read(value).map(|name| Self { name, object: None });
        }
        let wrong = || FieldError::mistyped("a string or an object", value);
        let detail = CapabilityDetail::from_object(value.as_object().ok_or_else(wrong)?)?;
        let version = detail.version.as_ref().map(Word::as_str);
        let major = version.map(|version| version.split('.').next().unwrap_or(version));
        let name = match major {
            Some(major) => format!("{}.v{}", detail.id, major.trim_start_matches('v')),
            None => detail.id.to_string(),
        };
        Ok(Self {
            name: name
                .parse()
                .map_err(|_| FieldError::form("at most 256 bytes").within("id"))?,
            object: Some(object(value)?.to_static()),
        })
    }
}

impl Write for Capability {
    fn write(&self) -> Value<'static> {
        match &self.object {
            Some(object) => object.write(),
            None => self.name.write(),
        }
    }
}

record! {
    /// A capability with more than a name.
    CapabilityDetail {
        /// The name without its version.
        id: Word,
        /// `major.minor…`.
        version: Option<Word>,
        /// For people.
        description: Option<Text>,
        /// What it needs of a caller.
        requires_capabilities: Option<Vec<Word>>,
    }
}

record! {
    /// A public key as a peer wrote it. `a2a-identity` decides which of these are keys.
    PublicKey {
        /// Its name.
        kid: Option<Kid>,
        /// `EC` (base specification) or `OKP` (RFC 8037).
        kty: Option<Word>,
        /// `EdDSA`.
        alg: Option<Word>,
        /// `sig`.
        usage as "use": Option<Word>,
        /// `Ed25519`.
        crv: Option<Word>,
        /// The key's bytes in base64url.
        key: Option<Text>,
        /// The same, as RFC 8037 calls it.
        x: Option<Text>,
        /// `active`, `deprecated` or `revoked`.
        status: Option<Word>,
        /// When it ends.
        expires_at: Option<Nullable<UnixSeconds>>,
        /// A secret that should be nowhere.
        d: Option<PrivatePart>,
    }
}

/// That a peer sent a private key. What it sent is not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrivatePart;

impl Read for PrivatePart {
    fn read(_: &Value<'_>) -> Result<Self, FieldError> {
        Ok(Self)
    }
}

impl Write for PrivatePart {
    fn write(&self) -> Value<'static> {
        Value::Null
    }
}

record! {
    /// An entry of a trust chain: someone vouches for the manifest's agent.
    Endorsement {
        /// Who vouches.
        issuer: DidText,
        /// Since when.
        issued_at: UnixSeconds,
        /// Until when; `null` is a year.
        expires_at: Option<Nullable<UnixSeconds>>,
        /// How much: `self`, `delegated` or `verified`.
        trust_level: Word,
        /// The signature over all this and the subject.
        signature: JwsText,
    }
}

/// The entries of a trust chain that have the form of one. Others have no meaning here.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TrustChain(pub Vec<Endorsement>);

impl std::ops::Deref for TrustChain {
    type Target = [Endorsement];

    fn deref(&self) -> &[Endorsement] {
        &self.0
    }
}

impl Read for TrustChain {
    fn read(value: &Value<'_>) -> Result<Self, FieldError> {
        let entries = list(value)?.iter();
        let known = entries.filter_map(|entry| Endorsement::read(entry).ok());
        Ok(Self(known.collect()))
    }
}

impl Write for TrustChain {
    fn write(&self) -> Value<'static> {
        self.0.write()
    }
}

/// A policy as it came: a tree of at most [`limits::POLICY`] bytes whose members have the right
/// types. Ranges, patterns and meaning are a matter of the `policy` crate; the hash is that of
/// the tree.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    tree: Object<'static>,
}

impl Policy {
    /// The members as they came.
    #[must_use]
    pub const fn tree(&self) -> &Object<'static> {
        &self.tree
    }

    /// `policy_hash` of profile §1.
    #[must_use]
    pub fn hash(&self) -> Digest {
        self.tree.digest_without(&[])
    }
}

impl Read for Policy {
    fn read(value: &Value<'_>) -> Result<Self, FieldError> {
        let tree = object(value)?;
        for (name, member) in tree.iter() {
            policy_member(name, member).map_err(|error| error.within(name))?;
        }
        if value.to_canonical().len() > limits::POLICY {
            return Err(FieldError::form("at most 16 KiB"));
        }
        Ok(Self {
            tree: tree.to_static(),
        })
    }
}

impl Write for Policy {
    fn write(&self) -> Value<'static> {
        self.tree.write()
    }
}

fn policy_member(name: &str, value: &Value<'_>) -> Result<(), FieldError> {
    match name {
        _ if matches!(value, Value::Null) => Ok(()),
        "rate_limit"
        | "rate_period"
        | "session_timeout"
        | "max_payload_size"
        | "max_concurrent_sessions" => Count::read(value).map(drop),
        "allowed_intents" | "blocked_intents" => Vec::<Word>::read(value).map(drop),
        "data_retention" => text(value).map(drop),
        "require_encryption" => bool::read(value).map(drop),
        "extensions" => object(value).map(drop),
        _ => Ok(()),
    }
}
