//! Reading a manifest from a file and verifying it.

use std::path::{Path, PathBuf};

use a2a_identity::{
    Did, DidDocument, ManifestError, ManifestRules, Peer, Pins, Resolved, RootKeys,
    VerifiedManifest, verify_manifest,
};
use a2a_wire::{Manifest, Read as _, limits, parse_document};
use anyhow::{Context, Result};
use canonical::Digest;

use crate::keystore::{now, read};
use crate::screen::shown;

/// Whose manifest it should be.
#[derive(Debug, clap::Args)]
pub(crate) struct Subject {
    /// Whose it must be; without it, whose it says it is
    #[arg(long, value_name = "DID")]
    pub(crate) did: Option<String>,

    /// What is published for the DID: the DID document of a did:web, the manifest of a did:github
    #[arg(long, value_name = "FILE")]
    pub(crate) document: Option<PathBuf>,
}

/// A manifest that cannot be checked, and why.
pub(crate) enum Refused {
    /// The command line does not say enough.
    Arguments(String),
    /// It is wrong.
    Manifest(ManifestError),
}

/// Reads and verifies a manifest from a file.
pub(crate) fn load(
    file: &Path,
    subject: &Subject,
    pin: Option<Digest>,
) -> Result<Result<VerifiedManifest, Refused>> {
    let bytes = read(file, limits::MANIFEST)?;
    let claimed = match claimed_did(&bytes, subject) {
        Ok(did) => did,
        Err(refused) => return Ok(Err(refused)),
    };
    let root = match (&claimed, &subject.document) {
        (Did::Web(_), Some(document)) => {
            let text = read(document, limits::DID_DOCUMENT)?;
            let keys = DidDocument::read(&text, &claimed)
                .with_context(|| format!("in {}", shown(document)))?
                .keys;
            RootKeys::Document(keys)
        }
        (Did::Web(web), None) => {
            let message = format!(
                "the manifest of a did:web is signed by its DID document: fetch {} and give it as --document FILE",
                web.document_urls().join(" or ")
            );
            return Ok(Err(Refused::Arguments(message)));
        }
        (Did::Key(key), _) => RootKeys::DidKey(key.key().clone()),
        (Did::Github(github), Some(document)) => {
            let published = read(document, limits::MANIFEST)?;
            let resolved = Resolved::by_operator(github.clone(), published);
            match resolved.verify(&rules(&Pins::default())) {
                Ok((root, _)) => root,
                Err(error) => return Ok(Err(Refused::Manifest(error))),
            }
        }
        (Did::Github(github), None) => {
            let message = format!(
                "the keys of a did:github are those of its published manifest: fetch {} and give it as --document FILE",
                github.manifest_url()
            );
            return Ok(Err(Refused::Arguments(message)));
        }
    };
    let pins = Pins {
        manifest: pin,
        keys: Vec::new(),
    };
    let check = rules(&pins).check(&claimed, &root);
    Ok(verify_manifest(&bytes, &check).map_err(Refused::Manifest))
}

/// What is asked of manifests in files.
pub(crate) fn rules(pins: &Pins) -> ManifestRules<'_> {
    ManifestRules {
        now: now(),
        peer: Peer::Baseline,
        max_age: a2a_identity::MAX_AGE,
        last: None,
        pins,
    }
}

/// Whose manifest is sought: as the command line says, else as it says itself.
fn claimed_did(bytes: &[u8], subject: &Subject) -> Result<Did, Refused> {
    let sought = subject
        .did
        .as_deref()
        .map(|did| Did::parse(did, Peer::Baseline));
    let sought = sought.transpose();
    let sought = sought.map_err(|error| Refused::Arguments(format!("--did: {error}")))?;
    let wrong = |error: ManifestError| Refused::Manifest(error);
    let value = parse_document(bytes, limits::MANIFEST).map_err(|error| wrong(error.into()))?;
    let manifest = Manifest::read(&value).map_err(|error| wrong(error.into()))?;
    if let Some(sought) = sought {
        return match Did::parse(manifest.agent_did.as_str(), Peer::Baseline) == Ok(sought.clone()) {
            true => Ok(sought),
            false => Err(wrong(ManifestError::OtherDid)),
        };
    }
    Did::parse(manifest.agent_did.as_str(), Peer::Baseline).map_err(|_| {
        wrong(ManifestError::Member {
            path: "agent_did".into(),
            problem: "must be a did:key, did:web or did:github",
        })
    })
}
