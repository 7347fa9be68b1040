//! Profile §5: the order of checks, and each way a manifest can be wrong.

use a2a_identity::{Did, JwsError, ManifestError, Pins, RootKeys, Seen, verify_manifest};
use a2a_wire::{ErrorCode, Reason};
use serde_json::{Value, json};

use crate::{NOW, did_key, draft, jwk, key, set, signed, signed_at, verify, verify_with};

/// A manifest changed before it was signed.
fn made(change: impl FnOnce(&mut Value)) -> Result<a2a_identity::VerifiedManifest, ManifestError> {
    let mut draft = draft(1);
    change(&mut draft);
    verify(&signed(&draft, 1), 1)
}

/// A manifest changed after it was signed.
fn tampered(change: impl FnOnce(&mut Value)) -> ManifestError {
    let mut manifest = signed(&draft(1), 1);
    change(&mut manifest);
    verify(&manifest, 1).unwrap_err()
}

fn root() -> RootKeys {
    RootKeys::DidKey(key(1).verifying_key())
}

#[test]
fn a_good_manifest() {
    let verified = made(|_| {}).unwrap();
    assert_eq!(verified.did(), &did_key(1));
    assert_eq!(verified.timestamp(), NOW);
    assert!(verified.is_profile());
    assert_eq!(verified.signer().kid.as_str(), "k");
}

#[test]
fn every_required_member_is_required() {
    for name in [
        "manifest_version",
        "agent_did",
        "agent_id",
        "public_keys",
        "endpoints",
    ] {
        let error = tampered(|m| drop(m.as_object_mut().unwrap().remove(name)));
        assert_eq!(error.to_string(), format!("`{name}` is missing"));
        assert_eq!(
            (error.code(), error.reason()),
            (ErrorCode::InvalidManifest, Reason::ManifestInvalid)
        );
    }
    let error = tampered(|m| drop(m.as_object_mut().unwrap().remove("manifest_signature")));
    assert_eq!(error.to_string(), "`manifest_signature` is missing");
}

/// The member is named, and the first fault in the order of profile §5 wins.
#[test]
fn wrong_members_are_named() {
    for (name, wrong, text) in [
        (
            "manifest_version",
            json!("2.0"),
            "`manifest_version` must be \"1.0\"",
        ),
        (
            "manifest_version",
            json!(1),
            "`manifest_version` must be a string, not a number",
        ),
        (
            "agent_id",
            json!(""),
            "`agent_id` must be 1 to 128 printable ASCII characters",
        ),
        ("endpoints", json!([]), "`endpoints` must have at least one"),
        (
            "endpoints",
            json!([{"type": "request"}]),
            "`endpoints[0].url` is missing",
        ),
        (
            "endpoints",
            json!([{"type": "request", "url": "http://a.example.com/"}]),
            "`endpoints[0].url` must be an https or wss URL without user",
        ),
        ("public_keys", json!([]), "there is no key"),
        (
            "public_keys",
            json!([{"kid": "k"}]),
            "public_keys[0]: it has no 32 bytes in strict base64url in `key` or `x`",
        ),
        (
            "capabilities",
            json!([7]),
            "`capabilities[0]` must be a string or an object, not a number",
        ),
        (
            "policy",
            json!({"rate_limit": null}),
            "`policy.rate_limit` must be an integer, not null",
        ),
        (
            "trust_chain",
            json!([{}]),
            "`trust_chain[0].issuer` is missing",
        ),
        (
            "metadata",
            json!([]),
            "`metadata` must be an object, not an array",
        ),
        (
            "published_at",
            json!(1.5),
            "`published_at` must be written as an integer",
        ),
        (
            "expires_at",
            json!("never"),
            "`expires_at` must be an integer, not a string",
        ),
        ("name", json!(7), "`name` must be a string, not a number"),
        (
            "manifest_hash",
            json!("sha256:00"),
            "`manifest_hash` must be `sha256:` and 64 lower-case hexadecimal digits",
        ),
    ] {
        let error = tampered(|m| m[name] = wrong);
        assert_eq!(error.to_string(), text);
        assert_eq!(error.code(), ErrorCode::InvalidManifest);
    }
}

#[test]
fn unknown_endpoints_are_passed_over() {
    for (kind, transport, url, ok) in [
        ("handshake", "http", "https://a.example.com/", true),
        ("handshake", "websocket", "wss://a.example.com/", true),
        ("handshake", "http", "http://a.example.com/", false),
        ("handshake", "mqtt", "mqtts://a.example.com/", true),
        ("webhook", "http", "http://a.example.com/", true),
    ] {
        let endpoint = json!({"type": kind, "transport": transport, "url": url});
        assert_eq!(
            made(|m| m["endpoints"] = json!([endpoint])).is_ok(),
            ok,
            "{endpoint}"
        );
    }
}

#[test]
fn capabilities_have_names() {
    let capabilities = json!(["nlp.a.v1", {"id": "nlp.b", "version": "2.1.0"}, {"id": "nlp.c"}]);
    let verified = made(|m| m["capabilities"] = capabilities).unwrap();
    let names: Vec<&str> = verified
        .manifest()
        .capabilities
        .iter()
        .flatten()
        .map(|c| c.name.as_str())
        .collect();
    assert_eq!(names, ["nlp.a.v1", "nlp.b.v2", "nlp.c"]);
}

#[test]
fn threat_68_times() {
    let ends = |end: Value| made(|m| m["expires_at"] = end);
    assert!(ends(json!(NOW.0 + 1)).is_ok() && ends(Value::Null).is_ok());
    let error = ends(json!(NOW.0)).unwrap_err();
    assert_eq!(
        (error.code(), error.reason()),
        (ErrorCode::InvalidManifest, Reason::ManifestExpired)
    );
    let at = |offset: i64| verify(&signed_at(&draft(1), "k", 1, NOW.plus(offset)), 1);
    assert!(at(300).is_ok());
    let error = at(301).unwrap_err();
    assert_eq!(
        (&error, error.reason()),
        (&ManifestError::Future, Reason::ManifestInvalid)
    );
    let month = 30 * 24 * 3600;
    assert!(at(-month).is_ok());
    let error = at(-month - 1).unwrap_err();
    assert_eq!(
        (&error, error.reason()),
        (&ManifestError::TooOld, Reason::ManifestInvalid)
    );
}

#[test]
fn threat_69_rollback() {
    let check = |manifest: &Value, last: Option<Seen>| {
        verify_with(manifest, &did_key(1), &root(), |check| check.last = last)
    };
    let old = signed_at(&draft(1), "k", 1, NOW.plus(-100));
    let mut newer = draft(1);
    newer["agent_id"] = json!("newer");
    let new = signed_at(&newer, "k", 1, NOW.plus(-50));
    let seen_old = check(&old, None).unwrap().seen(None);
    let seen_new = check(&new, Some(seen_old)).unwrap().seen(Some(seen_old));
    // What is remembered is plain data: it survives a restart wherever it is kept.
    let restored = Seen {
        hash: seen_new.hash.to_string().parse().unwrap(),
        ..seen_new
    };
    let error = check(&old, Some(restored)).unwrap_err();
    assert_eq!(
        (error.code(), error.reason()),
        (ErrorCode::InvalidManifest, Reason::ManifestRollback)
    );
    let same_time = signed_at(&draft(1), "k", 1, NOW.plus(-50));
    assert_eq!(
        check(&same_time, Some(seen_new)).unwrap_err(),
        ManifestError::Rollback
    );
    let later = signed_at(&draft(1), "k", 1, NOW.plus(-49));
    assert!(
        check(&later, Some(seen_new)).is_ok(),
        "old content, signed anew, is no rollback"
    );
    // An older signature over the same content is fine, and does not turn the memory back.
    let replica = signed_at(&newer, "k", 1, NOW.plus(-200));
    let verified = check(&replica, Some(seen_new)).unwrap();
    assert_eq!(verified.seen(Some(seen_new)), seen_new);
    assert_eq!(
        check(&same_time, Some(verified.seen(Some(seen_new)))).unwrap_err(),
        ManifestError::Rollback
    );
}

#[test]
fn threat_70_pins() {
    let manifest = signed(&draft(1), 1);
    let hash = verify(&manifest, 1).unwrap().hash();
    let check = |pins: Pins| {
        let root = root();
        let did = did_key(1);
        let check = a2a_identity::ManifestCheck {
            did: &did,
            root: &root,
            now: NOW,
            peer: a2a_identity::Peer::Profile,
            max_age: a2a_identity::MAX_AGE,
            last: None,
            pins: &pins,
        };
        verify_manifest(manifest.to_string().as_bytes(), &check).map(drop)
    };
    let (mine, other) = (
        key(1).verifying_key().digest(),
        key(2).verifying_key().digest(),
    );
    assert!(
        check(Pins {
            manifest: Some(hash),
            keys: vec![other, mine]
        })
        .is_ok()
    );
    for pins in [
        Pins {
            manifest: Some(a2a_wire::Digest::of(b"")),
            keys: vec![],
        },
        Pins {
            manifest: None,
            keys: vec![other],
        },
    ] {
        let error = check(pins).unwrap_err();
        assert_eq!(
            (error.code(), error.reason()),
            (ErrorCode::InvalidManifest, Reason::PinMismatch)
        );
    }
}

#[test]
fn threat_71_hashes() {
    assert_eq!(
        tampered(|m| m["agent_id"] = json!("other")),
        ManifestError::Hash("the signed manifest_hash")
    );
    assert_eq!(
        tampered(|m| m["unheard_of"] = Value::Null),
        ManifestError::Hash("the signed manifest_hash")
    );
    let zeros = format!("sha256:{}", "0".repeat(64));
    assert_eq!(
        tampered(|m| m["manifest_hash"] = json!(zeros)),
        ManifestError::Hash("its own manifest_hash")
    );
    let inside = |change: &dyn Fn(&mut Value)| {
        let mut manifest = signed(&draft(1), 1);
        let part = manifest["manifest_signature"]
            .as_str()
            .unwrap()
            .split('.')
            .nth(1)
            .unwrap()
            .to_owned();
        let mut payload: Value =
            serde_json::from_slice(&canonical::base64url::decode(&part).unwrap()).unwrap();
        change(&mut payload);
        let part = canonical::base64url::encode(payload.to_string().as_bytes());
        let header = br#"{"alg":"EdDSA","kid":"k","typ":"a2a-manifest+jws"}"#;
        manifest["manifest_signature"] = json!(crate::jws::raw(header, &part, 1));
        verify(&manifest, 1)
    };
    assert!(inside(&|_| {}).is_ok());
    assert_eq!(
        inside(&|p| p["manifest_hash"] = json!(zeros)).unwrap_err(),
        ManifestError::Hash("the signed manifest_hash")
    );
    assert_eq!(
        inside(&|p| p["manifest"]["agent_id"] = json!("other")).unwrap_err(),
        ManifestError::Hash("the manifest inside the signature")
    );
    assert!(
        inside(&|p| drop(p.as_object_mut().unwrap().remove("manifest"))).is_ok(),
        "it may be missing"
    );
    assert!(
        inside(&|p| p["manifest"]["manifest_signature"] = json!("x")).is_ok(),
        "same exclusions"
    );
    assert_eq!(
        inside(&|p| p["issuer"] = json!(did_key(2).to_string())).unwrap_err(),
        ManifestError::Issuer
    );
    assert!(matches!(
        inside(&|p| p["timestamp"] = json!("now")).unwrap_err(),
        ManifestError::Signature(JwsError::Payload(_))
    ));
    let mut without = signed(&draft(1), 1);
    without.as_object_mut().unwrap().remove("manifest_hash");
    assert!(verify(&without, 1).is_ok(), "the outer hash may be missing");
}

#[test]
fn threat_72_whose_manifest_and_by_whom() {
    let manifest = signed(&draft(1), 1);
    let error = verify(&manifest, 2).unwrap_err();
    assert_eq!(
        (&error, error.code()),
        (&ManifestError::OtherDid, ErrorCode::InvalidManifest)
    );
    // A key that the manifest lists besides the DID's own cannot sign it.
    let mut two = draft(1);
    two["public_keys"] = json!([jwk("k", 1), jwk("delegate", 2)]);
    let error = verify(&signed_at(&two, "delegate", 2, NOW), 1).unwrap_err();
    assert_eq!(error.code(), ErrorCode::UnverifiedAgent);
    assert!(verify(&signed(&two, 1), 1).is_ok());
    // Nor can it sign under the root's name.
    let error = verify(&signed_at(&two, "k", 2, NOW), 1).unwrap_err();
    assert_eq!(error, ManifestError::Signature(JwsError::BadSignature));
    assert_eq!(error.code(), ErrorCode::UnverifiedAgent);
    assert_eq!(error.reason(), Reason::VerificationFailed);
}

#[test]
fn threats_43_to_51_in_a_manifest_are_its_own_code() {
    for header in [
        r#"{"alg":"none","kid":"k","typ":"a2a-manifest+jws"}"#,
        r#"{"alg":"EdDSA","kid":"k","typ":"a2a-manifest+jws","jwk":{}}"#,
        r#"{"alg":"EdDSA","kid":"k","typ":"a2a-endorsement+jws"}"#,
        r#"{"alg":"EdDSA","alg":"EdDSA","kid":"k","typ":"a2a-manifest+jws"}"#,
    ] {
        let error = tampered(|m| {
            let part = m["manifest_signature"]
                .as_str()
                .unwrap()
                .split('.')
                .nth(1)
                .unwrap()
                .to_owned();
            m["manifest_signature"] = json!(crate::jws::raw(header.as_bytes(), &part, 1));
        });
        assert_eq!(
            (error.code(), error.reason()),
            (ErrorCode::InvalidManifest, Reason::ManifestInvalid),
            "{header}"
        );
    }
    let error = tampered(|m| m["manifest_signature"] = json!("a.b"));
    assert_eq!(error.code(), ErrorCode::InvalidManifest);
    let unknown = verify(&signed_at(&draft(1), "other", 1, NOW), 1).unwrap_err();
    assert_eq!(unknown, ManifestError::Signature(JwsError::UnknownKey));
    assert_eq!(unknown.code(), ErrorCode::UnverifiedAgent);
}

/// The key of a did:key must be listed, as active.
#[test]
fn a_did_key_lists_its_own_key() {
    let mut other = draft(1);
    other["public_keys"] = json!([jwk("delegate", 2)]);
    assert_eq!(
        verify(&signed(&other, 1), 1).unwrap_err(),
        ManifestError::NoDidKey
    );
    for change in [
        json!({"status": "revoked"}),
        json!({"status": "deprecated", "expires_at": NOW.0 + 9}),
        json!({"expires_at": NOW.0}),
    ] {
        let mut wrong = draft(1);
        for (name, value) in change.as_object().unwrap() {
            wrong["public_keys"][0][name] = value.clone();
        }
        assert_eq!(
            verify(&signed(&wrong, 1), 1).unwrap_err(),
            ManifestError::NoDidKey,
            "{change}"
        );
    }
}

#[test]
fn a_did_web_is_signed_by_its_document_and_a_did_github_by_itself() {
    let did: Did = "did:web:a.example.com".parse().unwrap();
    let mut web = draft(1);
    web["agent_did"] = json!(did.to_string());
    let manifest = signed(&web, 1);
    let with = |root: &RootKeys| verify_with(&manifest, &did, root, |_| {});
    assert!(with(&RootKeys::Document(set(&[("k", 1), ("l", 2)]))).is_ok());
    let error = with(&RootKeys::Document(set(&[("k", 2)]))).unwrap_err();
    assert_eq!(error.code(), ErrorCode::UnverifiedAgent);
    let error = with(&RootKeys::Document(set(&[("l", 1)]))).unwrap_err();
    assert_eq!(error.code(), ErrorCode::UnverifiedAgent);
    let did: Did = "did:github:o/r".parse().unwrap();
    let mut github = draft(1);
    github["agent_did"] = json!("did:github:O/R");
    assert!(verify_with(&signed(&github, 1), &did, &RootKeys::Manifest, |_| {}).is_ok());
    let forged = signed(&github, 2);
    assert!(verify_with(&forged, &did, &RootKeys::Manifest, |_| {}).is_err());
}

/// Profile §1: 64 KiB, at the limit and one past it.
#[test]
fn the_size_of_a_manifest() {
    let padded = |size: usize| {
        let mut manifest = signed(&draft(1), 1);
        manifest["x"] = json!("");
        let length = manifest.to_string().len();
        manifest["x"] = json!("x".repeat(size - length));
        verify(&manifest, 1).unwrap_err()
    };
    assert_eq!(
        padded(64 * 1024),
        ManifestError::Hash("the signed manifest_hash")
    );
    assert!(
        padded(64 * 1024 + 1)
            .to_string()
            .contains("more than the limit of 65536")
    );
}

#[test]
fn a_private_key_in_a_manifest_is_told_and_not_repeated() {
    let error = made(|m| m["public_keys"][0]["d"] = json!("SECRET-MARKER")).unwrap_err();
    assert!(matches!(
        &error,
        ManifestError::Keys(a2a_identity::KeySetError::Key {
            problem: a2a_identity::KeyProblem::PrivatePart,
            ..
        })
    ));
    assert!(!format!("{error:?} {error}").contains("SECRET-MARKER"));
}
