//! Manifests that wait.

use a2a_wire::{Manifest, Read as _, UnixSeconds, limits, parse_document};

use super::{
    ManifestCheck, ManifestError, Proven, VerifiedManifest, check_did_key, check_end, check_pins,
    check_time, verify_manifest,
};
use crate::{Peer, RootKeys};

/// A verified manifest that nobody reads at the moment: its text takes a small part of the memory.
#[derive(Clone, PartialEq)]
pub struct FoldedManifest {
    text: Vec<u8>,
    proven: Proven,
    ends: Option<UnixSeconds>,
    /// How strict it was verified.
    peer: Peer,
}

impl FoldedManifest {
    /// Verifies a manifest, as [`verify_manifest`] does, and keeps its text.
    ///
    /// # Errors
    /// The first check it fails.
    pub fn verify(text: Vec<u8>, check: &ManifestCheck<'_>) -> Result<Self, ManifestError> {
        let VerifiedManifest { manifest, proven } = verify_manifest(&text, check)?;
        Ok(Self {
            text,
            proven,
            ends: manifest.ends(),
            peer: check.peer,
        })
    }

    /// What [`FoldedManifest::verify`] says of this text, without verifying a signature again; `None`
    /// if that must be done. What it is known for is that the key of a did:key has signed exactly this
    /// text. Everything that time, an operator or a later manifest can change is checked again, in the
    /// same order.
    #[must_use]
    pub fn verify_again(
        &self,
        text: &[u8],
        check: &ManifestCheck<'_>,
    ) -> Option<Result<(), ManifestError>> {
        let Proven {
            did,
            hash,
            timestamp,
            keys,
            signer,
            ..
        } = &self.proven;
        let is_root = matches!(check.root, RootKeys::DidKey(key) if *key == signer.key);
        let is_same = is_root && check.did == did && check.peer == self.peer && text == self.text;
        is_same.then(|| {
            check_end(self.ends, check.now)?;
            check_time(*hash, *timestamp, &check.rules())?;
            check_pins(*hash, signer, check.pins)?;
            check_did_key(keys, Some(check.root), check.now)
        })
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
