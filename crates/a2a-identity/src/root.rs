//! What a DID's keys are (profile §4, §5): answered here alone, from the DID's own method.
//!
//! Nothing that a peer sends along widens the answer. A manifest adds keys only if root keys have
//! signed it, and neither a manifest nor a DID document takes back what the other has revoked.

use a2a_wire::{Kid, UnixSeconds};
use canonical::Digest;

use crate::manifest::verify_published;
use crate::{
    DidGithub, Key, KeySet, KeyStatus, ManifestError, ManifestRules, Resolved, VerifiedManifest,
    VerifyingKey,
};

/// The keys that a DID's own method gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RootKeys {
    /// The key that a did:key is.
    DidKey(VerifyingKey),
    /// The keys of a DID document.
    Document(KeySet),
    /// The keys of a manifest at the place that a did:github names.
    Published(PublishedKeys),
}

/// The keys of the manifest that stands at the place its did:github names. A manifest from anywhere
/// else counts only if it has the same hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedKeys {
    keys: KeySet,
    hash: Digest,
}

impl PublishedKeys {
    /// The keys.
    #[must_use]
    pub const fn keys(&self) -> &KeySet {
        &self.keys
    }

    /// The hash of the manifest.
    #[must_use]
    pub const fn hash(&self) -> Digest {
        self.hash
    }
}

impl RootKeys {
    /// The keys with their names; a did:key has none of its own.
    #[must_use]
    pub const fn set(&self) -> Option<&KeySet> {
        match self {
            Self::DidKey(_) => None,
            Self::Document(keys) => Some(keys),
            Self::Published(published) => Some(&published.keys),
        }
    }

    /// All keys of the agent: the root keys, and those that a manifest lists which root keys signed.
    ///
    /// A key that both list has the stricter of both states, and the earlier end. `name` is what
    /// the agent calls the key of a did:key, which has no name of its own. `None` if there is no
    /// key.
    #[must_use]
    pub fn agent_keys(
        &self,
        name: Option<&Kid>,
        manifest: Option<&VerifiedManifest>,
    ) -> Option<KeySet> {
        let root: Vec<Key> = match self {
            Self::DidKey(key) => name.map(|kid| active(kid, key)).into_iter().collect(),
            Self::Document(_) | Self::Published(_) => {
                let keys = self.set().into_iter().flat_map(KeySet::iter);
                keys.cloned().collect()
            }
        };
        let Some(manifest) = manifest else {
            return KeySet::new(root).ok();
        };
        let strictest = |listed: &Key| {
            let twin = root.iter().find(|root| root.key == listed.key);
            twin.map_or_else(|| listed.clone(), |root| stricter(listed, root))
        };
        let listed: Vec<Key> = manifest.keys().iter().map(strictest).collect();
        let is_listed = |root: &&Key| {
            let mut keys = listed.iter();
            keys.any(|listed| listed.kid == root.kid || listed.key == root.key)
        };
        let others = root.iter().filter(|root| !is_listed(root));
        let all = listed.iter().chain(others).cloned().collect();
        KeySet::new(all).or_else(|_| KeySet::new(listed)).ok()
    }
}

impl Resolved {
    /// A resolution of a did:github whose published manifest the operator fetched by hand.
    #[must_use]
    pub const fn by_operator(did: DidGithub, manifest: Vec<u8>) -> Self {
        Self::published(did, manifest, None)
    }

    /// Verifies what was found: the root keys of the DID, and the manifest that is published for it.
    ///
    /// # Errors
    /// The first check that the manifest fails.
    pub fn verify(
        &self,
        rules: &ManifestRules<'_>,
    ) -> Result<(RootKeys, Option<VerifiedManifest>), ManifestError> {
        let bytes = self.manifest.as_deref();
        if let Some(root) = &self.root {
            let check = rules.check(&self.did, root);
            let manifest = bytes.map(|bytes| crate::verify_manifest(bytes, &check));
            return Ok((root.clone(), manifest.transpose()?));
        }
        let manifest = verify_published(bytes.unwrap_or_default(), &self.did, rules)?;
        let root = RootKeys::Published(PublishedKeys {
            keys: manifest.keys().clone(),
            hash: manifest.hash(),
        });
        Ok((root, Some(manifest)))
    }
}

/// A key that only its DID says something of.
fn active(kid: &Kid, key: &VerifyingKey) -> Key {
    Key {
        kid: kid.clone(),
        key: key.clone(),
        status: KeyStatus::Active,
        expires_at: None,
    }
}

/// The listed key, in the stricter state and with the earlier end of both.
fn stricter(listed: &Key, root: &Key) -> Key {
    let ends = [listed.expires_at, root.expires_at];
    let end: Option<UnixSeconds> = ends.into_iter().flatten().min();
    Key {
        status: listed.status.max(root.status),
        expires_at: end,
        ..listed.clone()
    }
}
