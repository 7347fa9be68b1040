//! Who we are: our manifest, and the key that signs our messages.

use a2a_identity::{Did, Peer, SigningKey, sign_owned};
use a2a_wire::{
    DidText, Digest, FieldError, JwsText, Kid, Manifest, NOT_HASHED, Payload, PublicKey, Version,
};
use canonical::Object;

use crate::failure::Binding;

/// One's own side of every handshake. A session keeps the one it began with, since its peer knows
/// those keys.
pub struct Own {
    did: Did,
    did_text: DidText,
    manifest: Object<'static>,
    agent_id: a2a_wire::AgentId,
    manifest_hash: Digest,
    public_keys: Vec<PublicKey>,
    kid: Kid,
    key: SigningKey,
    /// The key of a did:key itself, once another signs in its place.
    root: Option<(Kid, SigningKey)>,
    placeholder: JwsText,
    version: Version,
}

/// Why a manifest and a key make no identity.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum OwnError {
    /// The manifest is not one.
    #[error("one's own manifest: {0}")]
    Manifest(#[from] FieldError),
    /// Its DID is none.
    #[error("one's own manifest: {0}")]
    Did(#[from] a2a_identity::DidError),
    /// It has no `agent_id`, which HELLO must have.
    #[error("one's own manifest lacks `agent_id`")]
    Name,
    /// The key is not among those of the manifest.
    #[error("one's own manifest does not list the key that signs")]
    Key,
}

impl Own {
    /// The side of the owner of this signed manifest and of this key, which it must list.
    ///
    /// # Errors
    /// If they do not belong together.
    pub fn new(manifest: Object<'static>, kid: Kid, key: SigningKey) -> Result<Self, OwnError> {
        let read = Manifest::from_object(&manifest)?;
        let did = Did::parse(read.agent_did.as_str(), Peer::Profile)?;
        let keys =
            a2a_identity::KeySet::read(&read.public_keys, None).map_err(|_| OwnError::Key)?;
        check_listed(&keys, &kid, &key)?;
        Ok(Self {
            root: None,
            did_text: did.to_text().unwrap_or(read.agent_did),
            did,
            agent_id: read.agent_id.ok_or(OwnError::Name)?,
            manifest_hash: manifest.digest_without(NOT_HASHED),
            manifest,
            public_keys: read.public_keys,
            kid,
            key,
            placeholder: "-".parse().map_err(|_| OwnError::Key)?,
            version: "1.0".parse().map_err(|_| OwnError::Key)?,
        })
    }

    /// The same, with the key of its did:key, which goes on signing for baseline peers: these know no other.
    ///
    /// # Errors
    /// If it is not that key, or the manifest does not list it.
    pub fn with_root(mut self, kid: Kid, key: SigningKey) -> Result<Self, OwnError> {
        let keys = a2a_identity::KeySet::read(&self.public_keys, None);
        check_listed(&keys.map_err(|_| OwnError::Key)?, &kid, &key)?;
        match &self.did {
            Did::Key(did) if *did.key() == key.verifying_key() => {
                self.root = Some((kid, key));
                Ok(self)
            }
            Did::Key(_) | Did::Web(_) | Did::Github(_) => Err(OwnError::Key),
        }
    }

    /// Who.
    #[must_use]
    pub const fn did(&self) -> &Did {
        &self.did
    }

    pub(crate) const fn did_text(&self) -> &DidText {
        &self.did_text
    }

    pub(crate) const fn manifest(&self) -> &Object<'static> {
        &self.manifest
    }

    pub(crate) const fn agent_id(&self) -> &a2a_wire::AgentId {
        &self.agent_id
    }

    /// The hash of the manifest.
    #[must_use]
    pub const fn manifest_hash(&self) -> Digest {
        self.manifest_hash
    }

    pub(crate) fn public_keys(&self) -> Vec<PublicKey> {
        self.public_keys.clone()
    }

    /// The name of the key that signs.
    #[must_use]
    pub const fn kid(&self) -> &Kid {
        &self.kid
    }

    /// What stands for a signature until it is made; no hash covers it.
    pub(crate) fn placeholder(&self) -> JwsText {
        self.placeholder.clone()
    }

    /// The version of whoever names none.
    pub(crate) fn version(&self) -> Version {
        self.version.clone()
    }

    pub(crate) fn sign<T: Payload>(&self, to: Binding, payload: T) -> String {
        match (to, &self.root) {
            (Binding::Baseline, Some((kid, key))) => sign_owned(payload, kid, key),
            (Binding::Baseline, None) | (Binding::Profile, _) => {
                sign_owned(payload, &self.kid, &self.key)
            }
        }
    }
}

fn check_listed(keys: &a2a_identity::KeySet, kid: &Kid, key: &SigningKey) -> Result<(), OwnError> {
    match keys.get(kid.as_str()) {
        Some(listed) if listed.key == key.verifying_key() => Ok(()),
        Some(_) | None => Err(OwnError::Key),
    }
}

impl std::fmt::Debug for Own {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Own")
            .field("did", &self.did_text)
            .field("kid", &self.kid)
            .finish_non_exhaustive()
    }
}
