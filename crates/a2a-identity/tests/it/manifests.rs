//! Profile §5, the members of a manifest: which must be there, and each way one can be wrong.

use a2a_identity::{KeyProblem, KeySetError, ManifestError, VerifiedManifest};
use a2a_wire::{ErrorCode, Reason, TrustChain};
use serde_json::{Value, json};

use crate::{NOW, did_key, draft, signed, verify};

/// A manifest changed before it was signed.
pub(crate) fn made(change: impl FnOnce(&mut Value)) -> Result<VerifiedManifest, ManifestError> {
    let mut draft = draft(1);
    change(&mut draft);
    verify(&signed(&draft, 1), 1)
}

/// A manifest changed after it was signed.
pub(crate) fn tampered(change: impl FnOnce(&mut Value)) -> ManifestError {
    let mut manifest = signed(&draft(1), 1);
    change(&mut manifest);
    verify(&manifest, 1).unwrap_err()
}

/// Proves A-2-2.
#[test]
fn a_good_manifest() {
    let verified = made(|_| {}).unwrap();
    assert_eq!(verified.did(), &did_key(1));
    assert_eq!(verified.timestamp(), NOW);
    assert!(verified.is_profile());
    assert_eq!(verified.signer().kid.as_str(), "k");
}

/// Proves A-4-9 to A-4-12, A-4-15.
#[test]
fn every_required_member_is_required() {
    for name in ["manifest_version", "agent_did", "public_keys", "endpoints"] {
        let error = tampered(|m| drop(m.as_object_mut().unwrap().remove(name)));
        assert_eq!(error.to_string(), format!("`{name}` is missing"));
        assert_eq!(
            (error.code(), error.reason()),
            (ErrorCode::InvalidManifest, Reason::ManifestInvalid)
        );
    }
    let error = tampered(|m| drop(m.as_object_mut().unwrap().remove("manifest_signature")));
    assert_eq!(error.to_string(), "`manifest_signature` is missing");
    // §4 does not ask for an `agent_id`.
    let unnamed = made(|m| drop(m.as_object_mut().unwrap().remove("agent_id")));
    assert_eq!(unnamed.unwrap().manifest().agent_id, None);
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
            json!({"rate_limit": "5"}),
            "`policy.rate_limit` must be an integer, not a string",
        ),
        (
            "trust_chain",
            json!({}),
            "`trust_chain` must be an array, not an object",
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
    ] {
        let error = tampered(|m| m[name] = wrong);
        assert_eq!(error.to_string(), text);
        assert_eq!(error.code(), ErrorCode::InvalidManifest);
    }
}

/// Document 004, §4: "canonical_manifest = sort_keys(manifest, exclude=["manifest_signature"])". No other
/// member is left out, so one of that name counts like any other.
/// Proves A-4-17.
#[test]
fn hash_leaves_out_the_signature_alone() {
    let manifest = signed(&draft(1), 1);
    assert_eq!(manifest.get("manifest_hash"), None);
    let verified = verify(&manifest, 1).unwrap();
    let mut content = manifest;
    content
        .as_object_mut()
        .unwrap()
        .remove("manifest_signature");
    let content = canonical::Value::from_serialize(&content).unwrap();
    assert_eq!(verified.hash(), content.digest());

    let hash = json!(content.digest().to_string());
    assert!(made(|m| m["manifest_hash"] = hash.clone()).is_ok());
    let error = tampered(|m| m["manifest_hash"] = hash);
    assert_eq!(error, ManifestError::Hash("the signed manifest_hash"));
}

/// Document 004, §2: a manifest may hold a trust chain, whose entries it does not describe. What is no
/// entry of the profile has no meaning here.
#[test]
fn unknown_entries_of_a_trust_chain_are_passed_over() {
    let chain = json!([
        {}, 7, null, "did:web:registry.example.com", ["x"], {"issuer": "did:web:a.example.com", "jws": "x"},
    ]);
    let verified = made(|m| m["trust_chain"] = chain.clone()).unwrap();
    assert_eq!(verified.manifest().trust_chain, Some(TrustChain::default()));
    assert!(made(|m| m["trust_chain"] = json!(vec![0; 1024])).is_ok());
    assert!(made(|m| m["trust_chain"] = json!(vec![0; 1025])).is_err());
}

/// Document 004, §4: what is optional may be `null`, as languages write it that have no other way to
/// leave a member out.
#[test]
fn null_is_as_if_an_optional_member_were_missing() {
    let names = [
        "agent_id",
        "capabilities",
        "policy",
        "trust_chain",
        "metadata",
        "name",
        "description",
        "published_at",
        "expires_at",
    ];
    let verified = made(|m| {
        for name in names {
            m[name] = Value::Null;
        }
        m["endpoints"][0]["transport"] = Value::Null;
        for name in ["kty", "use", "crv", "x", "status", "expires_at"] {
            m["public_keys"][0][name] = Value::Null;
        }
    });
    let verified = verified.unwrap();
    let manifest = verified.manifest();
    assert_eq!(
        (&manifest.agent_id, &manifest.policy, &manifest.trust_chain),
        (&None, &None, &None)
    );
    for name in ["manifest_version", "agent_did", "public_keys", "endpoints"] {
        let error = tampered(|m| m[name] = Value::Null).to_string();
        assert!(error.starts_with(&format!("`{name}` must be ")), "{error}");
    }
}

/// Proves A-10-4.
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

/// Proves A-2-4, A-4-13.
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
        ManifestError::Keys(KeySetError::Key {
            problem: KeyProblem::PrivatePart,
            ..
        })
    ));
    assert!(!format!("{error:?} {error}").contains("SECRET-MARKER"));
}
