//! Profile §5, who has signed a manifest, and what.

use a2a_identity::{Did, JwsError, ManifestError, RootKeys};
use a2a_wire::{ErrorCode, Reason};
use serde_json::{Value, json};

use crate::manifests::tampered;
use crate::{NOW, did_key, draft, jwk, set, signed, signed_at, verify, verify_with};

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
        ManifestError::Hash("the signed manifest_hash")
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

/// Proves A-4-8.
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
    let published = signed(&github, 1);
    let (root, manifest) = crate::resolved_github(&did, &published).unwrap();
    assert!(manifest.is_some());
    assert!(verify_with(&published, &did, &root, |_| {}).is_ok());
    let forged = signed(&github, 2);
    assert!(crate::resolved_github(&did, &forged).is_err());
    let error = verify_with(&forged, &did, &root, |_| {}).unwrap_err();
    assert_eq!(error.code(), ErrorCode::UnverifiedAgent);
    // Another one, well signed by the same key, is not what is published.
    github["agent_id"] = json!("another");
    let error = verify_with(&signed(&github, 1), &did, &root, |_| {}).unwrap_err();
    assert_eq!(error, ManifestError::NotPublished);
}
