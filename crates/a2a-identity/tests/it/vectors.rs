//! Every signature of the vectors: made here byte for byte, and verified.

use a2a_identity::{Did, JwsError, Peer, RootKeys, Signed, SigningKey, Verified, endorse, sign};
use a2a_wire::{
    AcceptPayload, AuditPayload, ChallengePayload, EndorsementPayload, ErrorPayload,
    ManifestPayload, Payload, PolicyPayload, ProofPayload, Read, RequestPayload, ResponsePayload,
    SessionPayload, Write as _,
};
use canonical::Value;

use crate::{NOW, did_key, key, kid, section, set, tree, verify, verify_with};

fn keys(of: &str) -> a2a_identity::KeySet {
    set(&[("sig-2026-01", seed(of))])
}

fn seed(of: &str) -> u8 {
    if of == "client" { 1 } else { 2 }
}

/// Verifies a JWS of the vectors, makes it again from what it says, and compares.
fn same<T: Payload + PartialEq + std::fmt::Debug>(
    jws: &serde_json::Value,
    signer: &str,
) -> Verified<T> {
    let jws = jws.as_str().unwrap();
    let signed: Signed<T> = Signed::parse(&jws.parse().unwrap(), Peer::Profile).unwrap();
    let verified = signed.verify(&keys(signer), NOW).unwrap();
    let again = sign(verified.payload(), &kid("sig-2026-01"), &key(seed(signer)));
    assert_eq!(again, jws);
    verified
}

#[test]
fn keys_and_dids() {
    for side in ["client", "server"] {
        let case = &section("keys")[side];
        let seed = hex::decode(case["ed25519_seed_hex"].as_str().unwrap()).unwrap();
        let key = SigningKey::from_seed(&seed.try_into().unwrap());
        let public = key.verifying_key();
        assert_eq!(hex::encode(public.to_bytes()), case["ed25519_public_hex"]);
        let did: Did = case["did"].as_str().unwrap().parse().unwrap();
        assert_eq!(did, did_key(self::seed(side)));
        for form in ["jwk", "rfc8037_jwk"] {
            let jwk = a2a_wire::PublicKey::read(&Value::from_serialize(&case[form]).unwrap());
            let read = a2a_identity::KeySet::read(&[jwk.unwrap()], None).unwrap();
            assert_eq!(read.get("sig-2026-01").unwrap().key, public);
        }
    }
}

/// Proves A-4-18.
#[test]
fn manifests() {
    for side in ["client", "server"] {
        let document = &section("manifest")[side]["document"];
        let verified = verify(document, seed(side)).unwrap();
        assert_eq!(
            verified.hash().to_string(),
            section("manifest")[side]["manifest_hash"]
        );
        let payload = same::<ManifestPayload>(&document["manifest_signature"], side);
        let mut again = tree(document);
        a2a_identity::sign_manifest(
            &mut again,
            &kid("sig-2026-01"),
            &key(seed(side)),
            payload.payload().timestamp,
        )
        .unwrap();
        assert_eq!(
            Value::Object(again).digest(),
            Value::from_serialize(document).unwrap().digest()
        );
    }
}

#[test]
fn handshake_signatures() {
    let messages = section("handshake")["messages"].clone();
    same::<ChallengePayload>(&messages[1]["policy_signature"], "server");
    same::<ProofPayload>(&messages[2]["proof_jws"], "client");
    same::<PolicyPayload>(&messages[3]["policy_signature"], "server");
    same::<AcceptPayload>(&messages[4]["acceptance_jws"], "client");
    let session = same::<SessionPayload>(&messages[5]["session_jws"], "server");
    let transcript = &section("handshake")["transcript"][5]["th"];
    assert_eq!(
        session.payload().transcript_hash.unwrap().to_string(),
        *transcript
    );
}

#[test]
fn session_signatures() {
    let session = section("session");
    let request = same::<RequestPayload>(&session["request"]["message"]["request_jws"], "client");
    same::<ResponsePayload>(&session["response"]["message"]["response_jws"], "server");
    same::<ErrorPayload>(&session["error"]["message"]["error_jws"], "server");
    let hash = request.payload().message_hash.unwrap().to_string();
    assert_eq!(hash, session["request"]["message_hash"]);
}

#[test]
fn audit_checkpoint() {
    let checkpoint = &section("audit")["checkpoint"];
    let verified = same::<AuditPayload>(&checkpoint["jws"], "server");
    let payload = Value::from_serialize(&checkpoint["payload"]).unwrap();
    assert_eq!(verified.payload().write().digest(), payload.digest());
}

#[test]
fn endorsement() {
    let case = section("endorsement");
    let payload = EndorsementPayload::read(&Value::from_serialize(&case["payload"]).unwrap());
    let entry = endorse(&payload.unwrap(), &kid("reg-1"), &key(3)).unwrap();
    assert_eq!(
        entry.write().digest(),
        Value::from_serialize(&case["entry"]).unwrap().digest()
    );
    assert_eq!(did_key(3).to_string(), case["issuer_did"]);
}

#[test]
fn jws_reject() {
    for case in section("jws_reject").as_array().unwrap() {
        let jws = case["jws"].as_str().unwrap().parse().unwrap();
        let outcome = Signed::<ProofPayload>::parse(&jws, Peer::Profile)
            .and_then(|signed| signed.verify(&keys("client"), NOW));
        let error = outcome.unwrap_err();
        match case["why"].as_str().unwrap() {
            "padding" | "non-zero trailing bits" | "detached payload" | "empty signature" => {
                assert!(matches!(error, JwsError::Form(_)), "{case}");
            }
            "wrong typ" => assert_eq!(error, JwsError::Typ("a2a-proof+jws")),
            "unknown kid" => assert_eq!(error, JwsError::UnknownKey),
            "S not reduced" => assert_eq!(error, JwsError::BadSignature),
            _ => assert!(matches!(error, JwsError::Header(_)), "{case}"),
        }
        assert_eq!(error.code(), a2a_wire::ErrorCode::UnverifiedAgent);
    }
}

/// Profile §14: header without `typ` and `kid`, only from a baseline peer with one usable key.
#[test]
fn baseline() {
    let case = section("baseline");
    let parse = |name: &str, peer| {
        Signed::<ProofPayload>::parse(&case[name].as_str().unwrap().parse().unwrap(), peer)
    };
    assert!(parse("proof_jws", Peer::Profile).is_err());
    let proof = parse("proof_jws", Peer::Baseline).unwrap();
    assert!(!proof.is_profile());
    assert!(proof.clone().verify(&keys("client"), NOW).is_ok());
    let two = set(&[("sig-2026-01", 1), ("b", 7)]);
    // Which of two keys has signed is found out.
    let signer = proof.clone().verify(&two, NOW).unwrap().key().kid.clone();
    assert_eq!(signer.as_str(), "sig-2026-01");
    let others = set(&[("a", 6), ("b", 7)]);
    let refused = proof.verify(&others, NOW).unwrap_err();
    assert_eq!(refused, JwsError::BadSignature);
    let accept: Signed<AcceptPayload> = Signed::parse(
        &case["acceptance_jws"].as_str().unwrap().parse().unwrap(),
        Peer::Baseline,
    )
    .unwrap();
    assert!(accept.verify(&keys("client"), NOW).is_ok());
    for (name, bound) in [("request_jws_bound", true), ("request_jws_accept", false)] {
        let jws = case[name].as_str().unwrap();
        let request: Signed<RequestPayload> =
            Signed::parse_within(jws, Peer::Baseline, 1 << 20).unwrap();
        let request = request.verify(&keys("client"), NOW).unwrap();
        assert_eq!(request.payload().session_id.is_some(), bound);
        let mut signed = request.tree();
        signed.remove("session_id");
        signed.remove("request_id");
        let intent = Value::from_serialize(&case["intent"]).unwrap();
        assert_eq!(Value::Object(signed).digest(), intent.digest());
    }
}

/// A manifest as the base specification makes it: header with `alg` alone.
#[test]
fn a_baseline_manifest() {
    let draft = crate::draft(1);
    let mut document = crate::signed(&draft, 1);
    let payload = document["manifest_signature"]
        .as_str()
        .unwrap()
        .split('.')
        .nth(1)
        .unwrap()
        .to_owned();
    for header in [r#"{"alg":"EdDSA"}"#, r#"{"alg":"EdDSA","typ":"JWT"}"#] {
        let jws = crate::jws::raw(header.as_bytes(), &payload, 1);
        document["manifest_signature"] = jws.into();
        assert!(
            verify(&document, 1).is_err(),
            "without kid, from a profile peer"
        );
        let root = RootKeys::DidKey(key(1).verifying_key());
        let verified = verify_with(&document, &did_key(1), &root, |check| {
            check.peer = Peer::Baseline
        });
        assert!(!verified.unwrap().is_profile());
    }
    let header = br#"{"alg":"EdDSA","kid":"k","typ":"JWT"}"#;
    document["manifest_signature"] = crate::jws::raw(header, &payload, 1).into();
    assert!(
        verify(&document, 1).is_ok(),
        "typ JWT is taken in manifests"
    );
}
