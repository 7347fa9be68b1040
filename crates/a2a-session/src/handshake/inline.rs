//! A manifest that a peer has sent along. It waits as text: read, it takes many times as much memory.

use std::sync::Arc;

use a2a_identity::{
    FoldedManifest, ManifestCheck, ManifestError, VerifiedManifest, verify_manifest,
};

#[derive(Debug, Clone)]
pub(crate) enum Inline {
    Claimed(Vec<u8>),
    Verified(Arc<FoldedManifest>),
}

impl Inline {
    /// Verifies it, once. What is `known` of its agent from before is known again.
    pub(super) fn verify(
        self,
        check: &ManifestCheck<'_>,
        known: Option<Arc<FoldedManifest>>,
    ) -> Result<Self, ManifestError> {
        let text = match self {
            Self::Claimed(text) => text,
            Self::Verified(_) => return Ok(self),
        };
        if let Some(known) = known
            && let Some(verified) = known.verify_again(&text, check)
        {
            return verified.map(|()| Self::Verified(known));
        }
        FoldedManifest::verify(text, check).map(|it| Self::Verified(Arc::new(it)))
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
