//! A manifest that a peer has sent along. It waits as text: read, it takes many times as much memory.

use a2a_identity::{
    FoldedManifest, ManifestCheck, ManifestError, VerifiedManifest, verify_manifest,
};

#[derive(Debug, Clone)]
pub(crate) enum Inline {
    Claimed(Vec<u8>),
    Verified(Box<FoldedManifest>),
}

impl Inline {
    /// Verifies it, once.
    pub(super) fn verify(self, check: &ManifestCheck<'_>) -> Result<Self, ManifestError> {
        Ok(match self {
            Self::Claimed(text) => Self::Verified(Box::new(FoldedManifest::verify(text, check)?)),
            Self::Verified(_) => self,
        })
    }

    /// What it says, verified if it is not yet.
    pub(super) fn read(
        &self,
        check: &ManifestCheck<'_>,
    ) -> Result<Box<VerifiedManifest>, ManifestError> {
        let read = match self {
            Self::Claimed(text) => verify_manifest(text, check),
            Self::Verified(folded) => folded.unfold(),
        };
        read.map(Box::new)
    }

    /// Bytes of its text.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Claimed(text) => text.len(),
            Self::Verified(folded) => folded.size(),
        }
    }
}
