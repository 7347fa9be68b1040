//! Manifests that wait.

use a2a_wire::{Manifest, Read as _, limits, parse_document};

use super::{ManifestCheck, ManifestError, Proven, VerifiedManifest, verify_manifest};

/// A verified manifest that nobody reads at the moment: its text takes a small part of the memory.
#[derive(Clone, PartialEq)]
pub struct FoldedManifest {
    text: Vec<u8>,
    proven: Proven,
}

impl FoldedManifest {
    /// Verifies a manifest, as [`verify_manifest`] does, and keeps its text.
    ///
    /// # Errors
    /// The first check it fails.
    pub fn verify(text: Vec<u8>, check: &ManifestCheck<'_>) -> Result<Self, ManifestError> {
        let VerifiedManifest { proven, .. } = verify_manifest(&text, check)?;
        Ok(Self { text, proven })
    }

    /// Reads it again. That its agent has signed it needs no second look.
    ///
    /// # Errors
    /// Never: it was read before.
    pub fn unfold(&self) -> Result<VerifiedManifest, ManifestError> {
        let value = parse_document(&self.text, limits::MANIFEST)?;
        Ok(VerifiedManifest {
            manifest: Manifest::read(&value)?,
            proven: self.proven.clone(),
        })
    }

    /// Bytes of its text.
    #[must_use]
    pub fn size(&self) -> usize {
        self.text.len()
    }
}

impl std::fmt::Debug for FoldedManifest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Proven { did, hash, .. } = &self.proven;
        write!(f, "FoldedManifest({did}, {hash})")
    }
}
