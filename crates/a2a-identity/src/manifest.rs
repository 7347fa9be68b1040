//! Manifests: signed, and verified in the order of profile §5.

mod error;
mod summary;

use a2a_wire::{
    DidText, FieldError, Kid, Manifest, ManifestPayload, NOT_HASHED, Read as _, UnixSeconds,
    limits, parse_document,
};
use canonical::{Digest, Object, Value};

pub use self::error::ManifestError;
pub use self::summary::{ManifestSummary, SelfSignedManifest};

use crate::jws::{Signed, sign};
use crate::url::WebUrl;
use crate::{Did, JwsError, Key, KeySet, KeyStatus, Peer, RootKeys, SigningKey};

/// Seconds after which a signature is too old.
pub const MAX_AGE: i64 = 30 * 24 * 3600;

/// What a manifest is checked against.
#[derive(Debug, Clone)]
pub struct ManifestCheck<'a> {
    /// Whose manifest is sought.
    pub did: &'a Did,
    /// The keys it must be signed with.
    pub root: &'a RootKeys,
    /// The time.
    pub now: UnixSeconds,
    /// How strict to be about the header of its signature.
    pub peer: Peer,
    /// Seconds after which a signature is too old; [`MAX_AGE`] unless an operator says otherwise.
    pub max_age: i64,
    /// What was accepted last for this DID.
    pub last: Option<Seen>,
    /// What an operator fixed for this DID.
    pub pins: &'a Pins,
}

/// What every manifest must fulfil, whatever its root keys are; the members are those of
/// [`ManifestCheck`].
#[derive(Debug, Clone, Copy)]
pub struct ManifestRules<'a> {
    /// The time.
    pub now: UnixSeconds,
    /// How strict to be about the header of its signature.
    pub peer: Peer,
    /// Seconds after which a signature is too old.
    pub max_age: i64,
    /// What was accepted last for this DID.
    pub last: Option<Seen>,
    /// What an operator fixed for this DID.
    pub pins: &'a Pins,
}

impl<'a> ManifestCheck<'a> {
    const fn rules(&self) -> ManifestRules<'a> {
        ManifestRules {
            now: self.now,
            peer: self.peer,
            max_age: self.max_age,
            last: self.last,
            pins: self.pins,
        }
    }
}

impl<'a> ManifestRules<'a> {
    /// The check of a manifest of this DID, which has these root keys.
    #[must_use]
    pub const fn check(&self, did: &'a Did, root: &'a RootKeys) -> ManifestCheck<'a> {
        ManifestCheck {
            did,
            root,
            now: self.now,
            peer: self.peer,
            max_age: self.max_age,
            last: self.last,
            pins: self.pins,
        }
    }

    /// Whether this is the DID sought, in whatever spelling. (A baseline peer may write a did:key
    /// without its prefix.)
    fn is(&self, did: &Did, text: &DidText) -> bool {
        let text = text.as_str();
        text == did.to_string() || Did::parse(text, self.peer).as_ref() == Ok(did)
    }
}

/// What was accepted for a DID. Keep it where it survives a restart: an older manifest brings back
/// keys that were given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// The content.
    pub hash: Digest,
    /// When it was signed.
    pub timestamp: UnixSeconds,
}

/// What an operator fixed for a DID. There is no override.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pins {
    /// Only this content.
    pub manifest: Option<Digest>,
    /// Only signed by one of these keys, named by the hash of their bytes; empty: any.
    pub keys: Vec<Digest>,
}

impl Pins {
    /// Whether a manifest of this hash, signed by the key of this hash, is what was fixed.
    #[must_use]
    pub fn fit(&self, manifest: Digest, signer: Digest) -> bool {
        let manifest_fits = self.manifest.is_none_or(|pinned| pinned == manifest);
        manifest_fits && (self.keys.is_empty() || self.keys.contains(&signer))
    }
}

/// A manifest that its agent has signed. Only [`verify_manifest`] makes one.
#[derive(Clone, PartialEq)]
pub struct VerifiedManifest {
    manifest: Manifest,
    proven: Proven,
}

/// What the signature of a manifest proves.
#[derive(Clone, PartialEq)]
struct Proven {
    did: Did,
    hash: Digest,
    timestamp: UnixSeconds,
    keys: KeySet,
    signer: Key,
    is_profile: bool,
}

impl VerifiedManifest {
    /// Whose it is.
    #[must_use]
    pub const fn did(&self) -> &Did {
        &self.proven.did
    }

    /// What it says.
    #[must_use]
    pub const fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// `manifest_hash`.
    #[must_use]
    pub const fn hash(&self) -> Digest {
        self.proven.hash
    }

    /// The keys that it lists. They count as far as [`RootKeys::agent_keys`] says.
    #[must_use]
    pub(crate) const fn keys(&self) -> &KeySet {
        &self.proven.keys
    }

    /// The keys that an endorsement of the agent must name: those that may sign now, and the signer.
    #[must_use]
    pub fn keys_to_endorse(&self, now: UnixSeconds) -> Vec<Digest> {
        let signing = self.keys().iter().filter(|key| key.signs_at(now));
        let mut keys: Vec<Digest> = signing.map(|key| key.key.digest()).collect();
        let signer = self.signer().key.digest();
        if !keys.contains(&signer) {
            keys.push(signer);
        }
        keys
    }

    /// The key that signed it.
    #[must_use]
    pub const fn signer(&self) -> &Key {
        &self.proven.signer
    }

    /// When it was signed.
    #[must_use]
    pub const fn timestamp(&self) -> UnixSeconds {
        self.proven.timestamp
    }

    /// Whether its signature has the header of the profile, rather than a baseline peer's.
    #[must_use]
    pub const fn is_profile(&self) -> bool {
        self.proven.is_profile
    }

    /// The newer one of this manifest and what was seen before.
    #[must_use]
    pub fn newest_seen(&self, last: Option<Seen>) -> Seen {
        let this = self.seen(last);
        let newer = last.filter(|last| last.timestamp > this.timestamp);
        newer.unwrap_or(this)
    }

    /// What to remember now that it is accepted. A signature over the same content may be older
    /// than the one remembered; then the newer time stays.
    #[must_use]
    pub fn seen(&self, last: Option<Seen>) -> Seen {
        let Proven {
            hash, timestamp, ..
        } = self.proven;
        let newer = last.filter(|last| last.hash == hash && last.timestamp > timestamp);
        newer.unwrap_or(Seen { hash, timestamp })
    }
}

impl std::fmt::Debug for VerifiedManifest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "VerifiedManifest({}, {})", self.did(), self.hash())
    }
}

/// Signs a manifest: sets its `manifest_signature`, all else stays. Returns the hash that is signed.
///
/// # Errors
/// If it has no `agent_did`.
pub fn sign_manifest(
    tree: &mut Object<'static>,
    kid: &Kid,
    key: &SigningKey,
    now: UnixSeconds,
) -> Result<Digest, FieldError> {
    for name in NOT_HASHED {
        tree.remove(name);
    }
    let hash = tree.digest_without(&[]);
    let issuer = tree.get("agent_did").unwrap_or(&Value::Null);
    let payload = ManifestPayload {
        issuer: DidText::read(issuer)?,
        timestamp: now,
        manifest: Some(tree.clone()),
        manifest_hash: hash,
    };
    let jws = sign(&payload, kid, key);
    tree.insert("manifest_signature", Value::String(jws.into()));
    Ok(hash)
}

/// Verifies a manifest, in the order of profile §5.
///
/// # Errors
/// The first check it fails.
pub fn verify_manifest(
    bytes: &[u8],
    check: &ManifestCheck<'_>,
) -> Result<VerifiedManifest, ManifestError> {
    verify(bytes, check.did, Some(check.root), &check.rules())
}

/// Verifies a manifest with the keys that it lists itself: only one that was fetched from the place
/// which its DID names.
pub(crate) fn verify_published(
    bytes: &[u8],
    did: &Did,
    rules: &ManifestRules<'_>,
) -> Result<VerifiedManifest, ManifestError> {
    verify(bytes, did, None, rules)
}

fn verify(
    bytes: &[u8],
    did: &Did,
    root: Option<&RootKeys>,
    rules: &ManifestRules<'_>,
) -> Result<VerifiedManifest, ManifestError> {
    let value = parse_document(bytes, limits::MANIFEST)?;
    let version = value
        .as_object()
        .and_then(|tree| tree.get("manifest_version"));
    if version.is_some_and(|version| version.as_str().is_some_and(|version| version != "1.0")) {
        return Err(ManifestError::Version);
    }
    let manifest = Manifest::read(&value)?;
    check_members(&manifest)?;
    if !rules.is(did, &manifest.agent_did) {
        return Err(ManifestError::OtherDid);
    }
    check_end(manifest.ends(), rules.now)?;
    let (signed, keys, is_profile) = check_signature(&manifest, root, rules)?;
    let payload = signed.payload();
    if payload.issuer != manifest.agent_did && !rules.is(did, &payload.issuer) {
        return Err(ManifestError::Issuer);
    }
    let hash = value
        .as_object()
        .map(|tree| tree.digest_without(NOT_HASHED));
    let hash = hash.unwrap_or_else(|| value.digest());
    check_hashes(hash, payload)?;
    check_root_hash(hash, root)?;
    check_time(hash, payload.timestamp, rules)?;
    let signer = signed.key().clone();
    check_pins(hash, &signer, rules.pins)?;
    check_did_key(&keys, root, rules.now)?;
    Ok(VerifiedManifest {
        manifest,
        proven: Proven {
            did: did.clone(),
            timestamp: payload.timestamp,
            keys: keys.signed_at(payload.timestamp),
            hash,
            signer,
            is_profile,
        },
    })
}

fn check_members(manifest: &Manifest) -> Result<(), ManifestError> {
    let wrong = |path: &str, problem| ManifestError::Member {
        path: path.to_owned(),
        problem,
    };
    if manifest.manifest_version.as_str() != "1.0" {
        return Err(ManifestError::Version);
    }
    if manifest.manifest_signature.is_none() {
        return Err(wrong("manifest_signature", "is missing"));
    }
    if manifest.endpoints.is_empty() {
        return Err(wrong("endpoints", "must have at least one"));
    }
    for (index, endpoint) in manifest.endpoints.iter().enumerate() {
        let known_transport = endpoint.transport.as_ref().is_none_or(|transport| {
            ["http", "http2", "grpc", "websocket"].contains(&transport.as_str())
        });
        let known = ["handshake", "request", "stream"].contains(&endpoint.kind.as_str());
        if known && known_transport && WebUrl::parse(endpoint.url.as_str()).is_err() {
            let path = format!("endpoints[{index}].url");
            return Err(wrong(&path, "must be an https or wss URL without user"));
        }
    }
    Ok(())
}

/// Verifies the signature with a root key. Returns the manifest's keys too.
fn check_signature(
    manifest: &Manifest,
    root: Option<&RootKeys>,
    rules: &ManifestRules<'_>,
) -> Result<(crate::Verified<ManifestPayload>, KeySet, bool), ManifestError> {
    let listed = KeySet::read(&manifest.public_keys, None)?;
    let jws = manifest.manifest_signature.as_ref();
    let jws = jws.ok_or(JwsError::Form("there is none"))?;
    let signed: Signed<ManifestPayload> = Signed::parse(jws, rules.peer)?;
    let is_profile = signed.is_profile();
    let root = match root {
        None => listed.clone(),
        Some(RootKeys::Document(keys)) => keys.clone(),
        Some(RootKeys::Published(published)) => published.keys().clone(),
        // The DID gives the key, the manifest its name; a key that the manifest lists besides is
        // delegated by this signature and cannot make it.
        Some(RootKeys::DidKey(key)) => {
            let name = listed.iter().find(|listed| listed.key == *key);
            let kid = name.map(|listed| listed.kid.clone());
            let kid = kid.or_else(|| signed.kid().cloned());
            let root = Key {
                kid: kid.ok_or(JwsError::UnknownKey)?,
                key: key.clone(),
                status: KeyStatus::Active,
                expires_at: None,
            };
            KeySet::new(vec![root])?
        }
    };
    let verified = signed.verify(&root, rules.now)?;
    Ok((verified, listed, is_profile))
}

fn check_hashes(hash: Digest, payload: &ManifestPayload) -> Result<(), ManifestError> {
    if payload.manifest_hash != hash {
        return Err(ManifestError::Hash("the signed manifest_hash"));
    }
    let signed = payload.manifest.as_ref();
    if signed.is_some_and(|signed| signed.digest_without(NOT_HASHED) != hash) {
        return Err(ManifestError::Hash("the manifest inside the signature"));
    }
    Ok(())
}

/// The keys of a did:github stand in one manifest: any other is not the agent's.
fn check_root_hash(hash: Digest, root: Option<&RootKeys>) -> Result<(), ManifestError> {
    match root {
        Some(RootKeys::Published(published)) if published.hash() != hash => {
            Err(ManifestError::NotPublished)
        }
        Some(RootKeys::Published(_) | RootKeys::DidKey(_) | RootKeys::Document(_)) | None => Ok(()),
    }
}

fn check_end(end: Option<UnixSeconds>, now: UnixSeconds) -> Result<(), ManifestError> {
    match end.is_some_and(|end| end <= now) {
        true => Err(ManifestError::Expired),
        false => Ok(()),
    }
}

/// The key of a did:key is listed, and may still sign.
fn check_did_key(
    keys: &KeySet,
    root: Option<&RootKeys>,
    now: UnixSeconds,
) -> Result<(), ManifestError> {
    let Some(RootKeys::DidKey(key)) = root else {
        return Ok(());
    };
    let listed = keys.iter().find(|listed| listed.key == *key);
    match listed.is_some_and(|listed| listed.signs_at(now)) {
        true => Ok(()),
        false => Err(ManifestError::NoDidKey),
    }
}

fn check_time(
    hash: Digest,
    timestamp: UnixSeconds,
    rules: &ManifestRules<'_>,
) -> Result<(), ManifestError> {
    if timestamp > rules.now.plus(limits::SKEW) {
        return Err(ManifestError::Future);
    }
    if timestamp.plus(rules.max_age) < rules.now {
        return Err(ManifestError::TooOld);
    }
    match rules.last {
        Some(last) if last.hash != hash && timestamp <= last.timestamp => {
            Err(ManifestError::Rollback)
        }
        _ => Ok(()),
    }
}

fn check_pins(hash: Digest, signer: &Key, pins: &Pins) -> Result<(), ManifestError> {
    match pins.fit(hash, signer.key.digest()) {
        true => Ok(()),
        false => Err(ManifestError::Pin),
    }
}
