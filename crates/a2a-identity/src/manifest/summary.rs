//! Manifests that wait: what they prove, without their text.

use a2a_wire::{Endorsement, Manifest, PROFILE, TrustChain};
use canonical::{Digest, Object, Value};

use super::{
    ManifestCheck, ManifestError, ManifestRules, VerifiedManifest, check_did_key, check_end,
    check_pins, check_root_hash, check_time, verify_manifest, verify_published,
};
use crate::trust::MAX_ENTRIES;
use crate::{Did, JwsError, Key, Peer, RootKeys};

/// What a verified manifest says that decides who its agent is and how much it is trusted: its keys,
/// its times and hash, and who vouches for it. That is a small part of the memory of its text.
#[derive(Clone, PartialEq)]
pub struct ManifestSummary {
    manifest: VerifiedManifest,
    /// The hash of all of its text.
    text: Digest,
    /// How strict it was verified.
    peer: Peer,
}

/// A manifest that a key has signed which it lists itself. That proves nothing of its agent until
/// [`SelfSignedManifest::verify`] has found that key among the root keys of the DID.
#[derive(Clone, PartialEq)]
pub struct SelfSignedManifest {
    manifest: VerifiedManifest,
}

impl ManifestSummary {
    /// Verifies a manifest, as [`verify_manifest`] does, and keeps what it proves.
    ///
    /// # Errors
    /// The first check it fails.
    pub fn verify(text: &[u8], check: &ManifestCheck<'_>) -> Result<Self, ManifestError> {
        Ok(Self {
            manifest: summary(verify_manifest(text, check)?),
            text: Digest::of(text),
            peer: check.peer,
        })
    }

    /// What [`ManifestSummary::verify`] says of this text, without verifying a signature again; `None`
    /// if that must be done. What it is known for is that the key of a did:key has signed exactly this
    /// text. Everything that time, an operator or a later manifest can change is checked again, in the
    /// same order.
    #[must_use]
    pub fn verify_again(
        &self,
        text: &[u8],
        check: &ManifestCheck<'_>,
    ) -> Option<Result<(), ManifestError>> {
        let proven = &self.manifest.proven;
        let is_root = matches!(check.root, RootKeys::DidKey(key) if *key == proven.signer.key);
        let is_same = is_root
            && *check.did == proven.did
            && check.peer == self.peer
            && Digest::of(text) == self.text;
        is_same.then(|| check_again(&self.manifest, check))
    }

    /// The manifest, without what is read of its text alone: endpoints, capabilities, policy, texts.
    #[must_use]
    pub const fn manifest(&self) -> &VerifiedManifest {
        &self.manifest
    }

    /// Bytes that its agent can make large.
    #[must_use]
    pub fn size(&self) -> usize {
        size(&self.manifest)
    }
}

impl SelfSignedManifest {
    /// Reads a manifest and verifies everything of it that does not need the root keys of its DID.
    ///
    /// # Errors
    /// The first check it fails.
    pub fn read(text: &[u8], did: &Did, rules: &ManifestRules<'_>) -> Result<Self, ManifestError> {
        let manifest = summary(verify_published(text, did, rules)?);
        Ok(Self { manifest })
    }

    /// Whether its signature names the key that made it; the root keys are then asked for that name.
    #[must_use]
    pub const fn names_its_key(&self) -> bool {
        // The header of the profile has a name.
        self.manifest.is_profile()
    }

    /// `manifest_hash`.
    #[must_use]
    pub const fn hash(&self) -> Digest {
        self.manifest.hash()
    }

    /// The keys that it lists.
    #[must_use]
    pub const fn listed_keys(&self) -> &crate::KeySet {
        self.manifest.keys()
    }

    /// Verifies it with the root keys of its DID, as [`verify_manifest`] does with its text.
    ///
    /// # Errors
    /// The first check it fails.
    pub fn verify(&self, check: &ManifestCheck<'_>) -> Result<VerifiedManifest, ManifestError> {
        if self.manifest.did() != check.did {
            return Err(ManifestError::OtherDid);
        }
        check_signer(self.manifest.signer(), check)?;
        check_root_hash(self.manifest.hash(), Some(check.root))?;
        check_again(&self.manifest, check)?;
        Ok(self.manifest.clone())
    }

    /// Bytes that its agent can make large.
    #[must_use]
    pub fn size(&self) -> usize {
        size(&self.manifest)
    }
}

/// Whether a key that signed is a root key and may be used now.
fn check_signer(signer: &Key, check: &ManifestCheck<'_>) -> Result<(), JwsError> {
    let keys = match check.root {
        RootKeys::DidKey(key) if *key == signer.key => return Ok(()),
        RootKeys::DidKey(_) => return Err(JwsError::UnknownKey),
        RootKeys::Document(keys) => keys,
        RootKeys::Published(published) => published.keys(),
    };
    let root = keys.get(signer.kid.as_str()).ok_or(JwsError::UnknownKey)?;
    if !root.verifies_at(check.now) {
        return Err(JwsError::UnusableKey(root.kid.clone()));
    }
    match root.key == signer.key {
        true => Ok(()),
        false => Err(JwsError::BadSignature),
    }
}

/// What time, an operator or a later manifest can change.
fn check_again(
    manifest: &VerifiedManifest,
    check: &ManifestCheck<'_>,
) -> Result<(), ManifestError> {
    check_end(manifest.manifest().ends(), check.now)?;
    check_time(manifest.hash(), manifest.timestamp(), &check.rules())?;
    check_pins(manifest.hash(), manifest.signer(), check.pins)?;
    check_did_key(manifest.keys(), Some(check.root), check.now)
}

/// Removes what is not needed of a manifest that waits.
fn summary(manifest: VerifiedManifest) -> VerifiedManifest {
    let VerifiedManifest { manifest, proven } = manifest;
    let metadata = manifest.metadata.as_ref();
    let profile = metadata.and_then(|metadata| metadata.get("profile")?.as_str());
    let metadata = profile.filter(|profile| *profile == PROFILE).map(|_| {
        let mut metadata = Object::default();
        metadata.insert("profile", Value::String(PROFILE.into()));
        metadata
    });
    // One more than count says that there are more.
    let chain = manifest.trust_chain.unwrap_or_default().0.into_iter();
    let chain: Vec<Endorsement> = chain.take(MAX_ENTRIES.saturating_add(1)).collect();
    let manifest = Manifest {
        public_keys: Vec::new(),
        endpoints: Vec::new(),
        capabilities: None,
        policy: None,
        trust_chain: Some(TrustChain(chain)).filter(|chain| !chain.is_empty()),
        metadata,
        name: None,
        description: None,
        manifest_signature: None,
        ..manifest
    };
    VerifiedManifest { manifest, proven }
}

fn size(manifest: &VerifiedManifest) -> usize {
    let chain = manifest
        .manifest()
        .trust_chain
        .as_deref()
        .unwrap_or_default()
        .iter();
    let sizes = chain.map(|entry| {
        let texts = [
            entry.issuer.as_str(),
            entry.trust_level.as_str(),
            entry.signature.as_str(),
        ];
        let texts: usize = texts.iter().map(|text| text.len()).sum();
        texts.saturating_add(size_of::<Endorsement>())
    });
    sizes.sum()
}

impl std::fmt::Debug for ManifestSummary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ManifestSummary({:?})", self.manifest)
    }
}

impl std::fmt::Debug for SelfSignedManifest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SelfSignedManifest({:?})", self.manifest)
    }
}
