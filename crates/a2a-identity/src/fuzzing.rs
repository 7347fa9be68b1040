//! What the fuzz targets run. Not part of the interface.
#![expect(
    clippy::panic,
    clippy::expect_used,
    reason = "a fuzz target reports a finding by panicking; no other code calls this"
)]

use a2a_wire::{AuditPayload, Kid, UnixSeconds};
use canonical::{Object, Value, base64url};

use crate::{
    Answer, Did, DidDocument, DidKey, JwsError, Key, KeySet, KeyStatus, ManifestCheck, Peer, Pins,
    Resolution, RootKeys, Signed, SigningKey, Step, Want, sign_manifest, verify_manifest,
};

const NOW: UnixSeconds = UnixSeconds(1_770_000_000);

fn key() -> SigningKey {
    SigningKey::from_seed(&[1; 32])
}

fn kid() -> Kid {
    "k".parse().expect("a kid")
}

fn key_set() -> KeySet {
    let key = Key {
        kid: kid(),
        key: key().verifying_key(),
        status: KeyStatus::Active,
        expires_at: None,
    };
    KeySet::new(vec![key]).expect("a set of one")
}

/// Any text as a JWS; then the bytes as a well-signed payload, in which no flipped bit may verify.
pub fn jws_compact(bytes: &[u8]) {
    let keys = key_set();
    if let Ok(text) = std::str::from_utf8(bytes) {
        for peer in [Peer::Profile, Peer::Baseline] {
            if let Ok(signed) = Signed::<AuditPayload>::parse_within(text, peer, 4096) {
                let _ = signed.read_unverified();
                let _ = signed.verify(&keys, NOW);
            }
        }
    }
    let header = base64url::encode(br#"{"alg":"EdDSA","kid":"k","typ":"a2a-audit+jws"}"#);
    let input = format!("{header}.{}", base64url::encode(bytes));
    let signature = key().sign(input.as_bytes());
    let jws = format!("{input}.{}", base64url::encode(&signature));
    match Signed::<AuditPayload>::parse_within(&jws, Peer::Profile, usize::MAX) {
        Ok(signed) => {
            let outcome = signed.verify(&keys, NOW);
            assert!(
                matches!(outcome, Ok(_) | Err(JwsError::Payload(_))),
                "{outcome:?}"
            );
        }
        Err(error) => assert!(bytes.is_empty(), "{error}"),
    }
    let mut forged = jws.into_bytes();
    let at = bytes.iter().fold(0_usize, |at, byte| {
        at.wrapping_mul(31).wrapping_add(usize::from(*byte))
    });
    let count = forged.len().max(1);
    if let Some(byte) = forged.get_mut(at % count) {
        *byte ^= 1 << (at % 7);
    }
    let Ok(forged) = String::from_utf8(forged) else {
        return;
    };
    if let Ok(signed) = Signed::<AuditPayload>::parse_within(&forged, Peer::Baseline, usize::MAX) {
        let outcome = signed.verify(&keys, NOW);
        assert!(outcome.is_err(), "a forged signature verifies: {forged}");
    }
}

/// Any text as a DID: the canonical form is a fixed point, and leads to places of its own only.
pub fn did(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    for peer in [Peer::Profile, Peer::Baseline] {
        let Ok(did) = Did::parse(text, peer) else {
            continue;
        };
        let canonical = did.to_string();
        assert_eq!(canonical.parse().as_ref(), Ok(&did));
        assert!(did.is(&canonical));
        let (_, step) = Resolution::begin(did, Want::Manifest, None);
        if let Step::Fetch(fetch) = step {
            assert!(fetch.url.starts_with("https://"));
            let url = crate::WebUrl::parse(&fetch.url);
            assert!(url.is_ok(), "{}", fetch.url);
        }
    }
}

/// Any bytes as the document of a did:web, and as every answer of its resolution.
pub fn did_document(bytes: &[u8]) {
    for name in [
        "did:web:a.example.com",
        "did:web:a.example.com:x",
        "did:github:o/r",
    ] {
        let Ok(did) = name.parse::<Did>() else {
            panic!("{name}");
        };
        let _ = DidDocument::read(bytes, &did);
        let (mut resolution, mut step) = Resolution::begin(did, Want::Manifest, None);
        for _ in 0..4 {
            let Step::Fetch(fetch) = step else {
                break;
            };
            step = resolution.answer(&fetch.url, Answer::Body(bytes.to_vec()));
        }
        assert!(!matches!(step, Step::Fetch(_)), "a resolution ends");
    }
}

/// Any bytes as a manifest; then the same signed properly, which no longer verifies with another
/// member changed.
pub fn manifest(bytes: &[u8]) {
    let key = key();
    let did = Did::Key(DidKey::new(key.verifying_key()));
    let root = RootKeys::DidKey(key.verifying_key());
    let pins = Pins::default();
    let check = ManifestCheck {
        did: &did,
        root: &root,
        now: NOW,
        peer: Peer::Baseline,
        max_age: crate::MAX_AGE,
        last: None,
        pins: &pins,
    };
    assert!(verify_manifest(bytes, &check).is_err() || bytes.len() > 500);
    let Ok(Value::Object(tree)) = Value::parse(bytes) else {
        return;
    };
    let mut tree = tree.into_owned();
    tree.insert("agent_did", Value::String(did.to_string().into()));
    if sign_manifest(&mut tree, &kid(), &key, NOW).is_err() {
        return;
    }
    let text = |tree: &Object<'static>| Value::Object(tree.clone()).to_canonical();
    let Ok(verified) = verify_manifest(&text(&tree), &check) else {
        return;
    };
    assert_eq!(verified.did(), &did);
    tree.insert("unheard_of", Value::Bool(true));
    assert!(verify_manifest(&text(&tree), &check).is_err());
}
