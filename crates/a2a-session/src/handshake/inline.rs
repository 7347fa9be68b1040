//! A manifest that a peer has sent along. What it proves waits, not its text, wherever that is enough:
//! a source that has proven nothing must not keep much memory.

use std::sync::Arc;

use a2a_identity::{
    Did, JwsError, ManifestCheck, ManifestError, ManifestRules, ManifestSummary,
    SelfSignedManifest, VerifiedManifest, verify_manifest,
};

#[derive(Debug, Clone)]
pub(crate) enum Inline {
    /// Its text. It was read by a client, which has no crowd of them, or a key has signed it that may
    /// stand in the DID document of its agent alone.
    Claimed(Vec<u8>),
    /// Verified but for the root keys of its DID.
    SelfSigned(Box<SelfSignedManifest>),
    Verified(Arc<ManifestSummary>),
}

impl Inline {
    /// Verifies that of a did:key, once. What is `known` of its agent from before is known again.
    pub(super) fn verify(
        self,
        check: &ManifestCheck<'_>,
        known: Option<Arc<ManifestSummary>>,
    ) -> Result<Self, ManifestError> {
        let text = match self {
            Self::Claimed(text) => text,
            Self::SelfSigned(_) | Self::Verified(_) => return Ok(self),
        };
        if let Some(known) = known
            && let Some(verified) = known.verify_again(&text, check)
        {
            return verified.map(|()| Self::Verified(known));
        }
        ManifestSummary::verify(&text, check).map(|it| Self::Verified(Arc::new(it)))
    }

    /// Verifies whatever can be verified before the root keys of its DID are known.
    pub(super) fn verify_unrooted(
        self,
        did: &Did,
        rules: &ManifestRules<'_>,
    ) -> Result<Self, ManifestError> {
        let text = match self {
            Self::Claimed(text) => text,
            Self::SelfSigned(_) | Self::Verified(_) => return Ok(self),
        };
        let is_web = matches!(did, Did::Web(_));
        match SelfSignedManifest::read(&text, did, rules) {
            // A key may have signed it that stands in the DID document alone, or under another name.
            Err(ManifestError::Signature(JwsError::UnknownKey | JwsError::UnusableKey(_)))
                if is_web =>
            {
                Ok(Self::Claimed(text))
            }
            Ok(manifest) if is_web && !manifest.names_its_key() => Ok(Self::Claimed(text)),
            Ok(manifest) => Ok(Self::SelfSigned(Box::new(manifest))),
            Err(error) => Err(error),
        }
    }

    /// What it says, verified if it is not yet.
    pub(super) fn read(
        &self,
        check: &ManifestCheck<'_>,
    ) -> Result<Box<VerifiedManifest>, ManifestError> {
        let read = match self {
            Self::Claimed(text) => verify_manifest(text, check),
            Self::SelfSigned(manifest) => manifest.verify(check),
            Self::Verified(summary) => Ok(summary.manifest().clone()),
        };
        read.map(Box::new)
    }

    /// Bytes that its sender can make large.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Claimed(text) => text.len(),
            Self::SelfSigned(manifest) => manifest.size(),
            Self::Verified(summary) => summary.size(),
        }
    }
}
