//! Identity against the profile's vectors, the threats by their numbers, and foreign libraries.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail as tests do"
)]

mod caches;
mod delegation;
mod dids;
mod documents;
mod foreign;
mod jws;
mod keys;
mod manifest_signatures;
mod manifest_times;
mod manifests;
mod properties;
mod resolution;
mod rotation;
mod sealing;
mod trust;
mod vectors;

use a2a_identity::{
    Did, DidKey, Key, KeySet, KeyStatus, ManifestCheck, ManifestError, ManifestRules, Peer, Pins,
    Resolved, RootKeys, SigningKey, VerifiedManifest, sign_manifest, verify_manifest,
};
use a2a_wire::{Kid, UnixSeconds};
use canonical::{Object, Value};
use serde_json::json;

const NOW: UnixSeconds = UnixSeconds(1_770_000_000);

/// A section of the vectors.
fn section(name: &str) -> serde_json::Value {
    let mut vectors = testkit::vectors("a2a/a2a-vectors.json");
    let section = vectors[name].take();
    assert!(!section.is_null(), "there is no section {name}");
    section
}

fn tree(value: &serde_json::Value) -> Object<'static> {
    let value = Value::from_serialize(value).unwrap();
    value.as_object().unwrap().clone()
}

fn kid(name: &str) -> Kid {
    name.parse().unwrap()
}

/// The key of a seed of equal bytes; the vectors use 1 to 3.
fn key(seed: u8) -> SigningKey {
    SigningKey::from_seed(&[seed; 32])
}

fn did_key(seed: u8) -> Did {
    Did::Key(DidKey::new(key(seed).verifying_key()))
}

fn set(keys: &[(&str, u8)]) -> KeySet {
    let named = keys.iter().map(|(name, seed)| Key {
        kid: kid(name),
        key: key(*seed).verifying_key(),
        status: KeyStatus::Active,
        expires_at: None,
    });
    KeySet::new(named.collect()).unwrap()
}

/// A key as a manifest lists it.
fn jwk(name: &str, seed: u8) -> serde_json::Value {
    let bytes = key(seed).verifying_key().to_bytes();
    json!({"kid": name, "kty": "EC", "alg": "EdDSA", "use": "sig",
        "key": canonical::base64url::encode(&bytes)})
}

/// A manifest of the did:key of a seed, not signed.
fn draft(seed: u8) -> serde_json::Value {
    json!({
        "manifest_version": "1.0",
        "agent_did": did_key(seed).to_string(),
        "agent_id": "test",
        "public_keys": [jwk("k", seed)],
        "endpoints": [{"type": "handshake", "url": "https://a.example.com/a2a/handshake", "transport": "http"}],
    })
}

fn signed_at(
    draft: &serde_json::Value,
    name: &str,
    seed: u8,
    at: UnixSeconds,
) -> serde_json::Value {
    let mut tree = tree(draft);
    sign_manifest(&mut tree, &kid(name), &key(seed), at).unwrap();
    serde_json::to_value(Value::Object(tree)).unwrap()
}

/// The manifest signed now by the key `k`.
fn signed(draft: &serde_json::Value, seed: u8) -> serde_json::Value {
    signed_at(draft, "k", seed, NOW)
}

/// Verifies a manifest of the did:key of a seed.
fn verify(manifest: &serde_json::Value, seed: u8) -> Result<VerifiedManifest, ManifestError> {
    let root = RootKeys::DidKey(key(seed).verifying_key());
    verify_with(manifest, &did_key(seed), &root, |_| {})
}

fn verify_with(
    manifest: &serde_json::Value,
    did: &Did,
    root: &RootKeys,
    change: impl FnOnce(&mut ManifestCheck<'_>),
) -> Result<VerifiedManifest, ManifestError> {
    let pins = Pins::default();
    let mut check = ManifestCheck {
        did,
        root,
        now: NOW,
        peer: Peer::Profile,
        max_age: a2a_identity::MAX_AGE,
        last: None,
        pins: &pins,
    };
    change(&mut check);
    verify_manifest(manifest.to_string().as_bytes(), &check)
}

/// The keys of a did:github and its manifest, if this is what it publishes.
fn resolved_github(
    did: &Did,
    published: &serde_json::Value,
) -> Result<(RootKeys, Option<VerifiedManifest>), ManifestError> {
    let Did::Github(github) = did else {
        panic!("{did} is not a did:github");
    };
    let text = published.to_string().into_bytes();
    Resolved::by_operator(github.clone(), text).verify(&ManifestRules {
        now: NOW,
        peer: Peer::Profile,
        max_age: a2a_identity::MAX_AGE,
        last: None,
        pins: &Pins::default(),
    })
}

#[test]
fn corpus_of_jws_compact() {
    testkit::replay("jws_compact", a2a_identity::fuzzing::jws_compact);
}

#[test]
fn corpus_of_did() {
    testkit::replay("did", a2a_identity::fuzzing::did);
}

#[test]
fn corpus_of_did_document() {
    testkit::replay("did_document", a2a_identity::fuzzing::did_document);
}

#[test]
fn corpus_of_manifest() {
    testkit::replay("manifest", a2a_identity::fuzzing::manifest);
}
