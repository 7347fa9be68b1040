//! Libraries that others wrote, from a public registry: what is made here they verify, and the
//! reverse. `conformance/a2a_identity.py` asks them.

use a2a_identity::{Did, Peer, Signed, SigningKey, sign};
use a2a_wire::{AuditPayload, Count, Digest, Payload, ProofPayload, RequestPayload};
use canonical::{Value, base64url};
use serde_json::json;

use crate::{NOW, did_key, key, kid, section, set};

fn foreign() -> testkit::Foreign {
    testkit::Foreign::start("a2a_identity.py", &["exchange"])
}

fn public(seed: u8) -> String {
    base64url::encode(&key(seed).verifying_key().to_bytes())
}

fn payload(log_id: &str) -> AuditPayload {
    AuditPayload {
        issuer: did_key(1).to_text().unwrap(),
        timestamp: NOW,
        log_id: log_id.parse().unwrap(),
        seq: Count::new(1).unwrap(),
        head_hash: Digest::of(log_id.as_bytes()),
    }
}

#[test]
fn others_verify_what_is_signed_here() {
    let mut foreign = foreign();
    for text in ["plain", "é😀\u{7f}\"\\"] {
        let payload = payload(text);
        let jws = sign(&payload, &kid("k"), &key(1));
        let answer = foreign
            .ask(&json!({"ask": "verify", "jws": jws, "key": public(1), "typ": "a2a-audit+jws"}));
        assert_eq!(answer["payload"]["log_id"], text, "{answer}");
        assert_eq!(answer["header"]["kid"], "k");
        let other = foreign
            .ask(&json!({"ask": "verify", "jws": jws, "key": public(2), "typ": "a2a-audit+jws"}));
        assert!(other["error"].is_string(), "{other}");
    }
    for (jws, side, typ) in [
        (
            &section("handshake")["messages"][2]["proof_jws"],
            1,
            "a2a-proof+jws",
        ),
        (
            &section("handshake")["messages"][5]["session_jws"],
            2,
            "a2a-session+jws",
        ),
    ] {
        let answer =
            foreign.ask(&json!({"ask": "verify", "jws": jws, "key": public(side), "typ": typ}));
        assert!(answer["payload"]["transcript_hash"].is_string(), "{answer}");
    }
}

fn accepts<T: Payload>(jws: &serde_json::Value) -> bool {
    let jws = jws.as_str().unwrap().parse().unwrap();
    let signed = Signed::<T>::parse(&jws, Peer::Profile);
    signed
        .and_then(|signed| signed.verify(&set(&[("k", 1)]), NOW))
        .is_ok()
}

#[test]
fn what_others_sign_is_verified_here() {
    let mut foreign = foreign();
    let proof = section("handshake")["messages"][2]["proof_jws"].clone();
    let proof = base64url::decode(proof.as_str().unwrap().split('.').nth(1).unwrap()).unwrap();
    let proof: serde_json::Value = serde_json::from_slice(&proof).unwrap();
    let mut sign = |typ: &str| {
        foreign.ask(
            &json!({"ask": "sign", "seed": base64url::encode(&[1; 32]), "payload": proof,
            "header": {"alg": "EdDSA", "kid": "k", "typ": typ}}),
        )
    };
    let answer = sign("a2a-proof+jws");
    for library in ["joserfc", "pyjwt"] {
        assert!(
            accepts::<ProofPayload>(&answer[library]),
            "{library}: {answer}"
        );
        assert!(
            !accepts::<RequestPayload>(&answer[library]),
            "made for another place"
        );
    }
    let answer = sign("JWT");
    assert!(!accepts::<ProofPayload>(&answer["joserfc"]));
}

#[test]
fn others_have_the_same_did_for_a_key() {
    let mut foreign = foreign();
    for seed in 0..20 {
        let bytes = [seed; 32];
        let answer = foreign.ask(&json!({"ask": "did", "seed": base64url::encode(&bytes)}));
        let ours = Did::Key(a2a_identity::DidKey::new(
            SigningKey::from_seed(&bytes).verifying_key(),
        ));
        assert_eq!(answer["did"], ours.to_string());
    }
}

/// A third canonical form, beside the two crates that `canonical` is tested against.
#[test]
fn others_have_the_same_canonical_form() {
    let mut foreign = foreign();
    for value in [
        section("manifest")["server"]["document"].clone(),
        section("session")["request"]["message"].clone(),
        json!({"\u{1f600}": 1, "\u{fb33}": 2, "é": [1.5, 1e-7, 1e21, -0.0, 333_333_333.333_333_3], "\u{7f}": "\u{1f}"}),
    ] {
        let answer = foreign.ask(&json!({"ask": "canonical", "value": value}));
        let ours = Value::from_serialize(&value).unwrap();
        assert_eq!(
            answer["canonical"].as_str().unwrap().as_bytes(),
            ours.to_canonical()
        );
        assert_eq!(answer["hash"], ours.digest().to_string());
    }
}

/// Key files go both ways, with and without a passphrase.
#[test]
fn others_read_our_key_files_and_we_theirs() {
    let mut foreign = foreign();
    let mut counter = 0_u8;
    let mut random = |bytes: &mut [u8]| {
        counter += 1;
        bytes.fill(counter);
        Ok(())
    };
    let plain = key(5).to_pem().unwrap();
    let sealed = key(5).to_encrypted_pem("pässword", &mut random).unwrap();
    for (pem, passphrase) in [(&plain, None), (&sealed, Some("pässword"))] {
        let answer = foreign.ask(&json!({"ask": "open", "pem": **pem, "passphrase": passphrase}));
        assert_eq!(answer["key"], public(5), "{answer}");
    }
    let wrong = foreign.ask(&json!({"ask": "open", "pem": *sealed, "passphrase": "x"}));
    assert!(wrong["error"].is_string());
    let seed = base64url::encode(&[6; 32]);
    let theirs = foreign.ask(&json!({"ask": "pem", "seed": seed, "passphrase": "pässword"}));
    let theirs = SigningKey::from_pem(theirs["pem"].as_str().unwrap(), Some("pässword"));
    assert_eq!(theirs.unwrap().verifying_key(), key(6).verifying_key());
}
