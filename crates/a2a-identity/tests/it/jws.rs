//! Threats 43 to 52: each at five places of a signature.

use a2a_identity::{JwsError, KeySet, Peer, Signed, Verified, sign};
use a2a_wire::{
    AcceptPayload, AuditPayload, ChallengePayload, ControlPayload, EndorsementPayload, ErrorCode,
    ErrorPayload, LoginPayload, ManifestPayload, Payload, Place, PolicyPayload, ProofPayload,
    RequestPayload, ResponsePayload, SessionPayload, limits,
};
use canonical::base64url;

use crate::{NOW, key, kid, section, set};

/// A JWS with any header, properly signed.
pub(crate) fn raw(header: &[u8], payload: &str, seed: u8) -> String {
    let input = format!("{}.{payload}", base64url::encode(header));
    // The library signs what it makes itself; a forger signs what he likes.
    let signature = ed25519_sign(&input, seed);
    format!("{input}.{signature}")
}

/// Signs any bytes with the secret of a seed, through the key file that the library writes.
fn ed25519_sign(input: &str, seed: u8) -> String {
    use ed25519_dalek::Signer as _;
    let key = ed25519_dalek::SigningKey::from_bytes(&[seed; 32]);
    base64url::encode(&key.sign(input.as_bytes()).to_bytes())
}

fn verify<T: Payload>(jws: &str) -> Result<Verified<T>, JwsError> {
    verify_with(jws, &set(&[("k", 1)]))
}

fn verify_with<T: Payload>(jws: &str, keys: &KeySet) -> Result<Verified<T>, JwsError> {
    let signed = Signed::<T>::parse_within(jws, Peer::Profile, limits::JWS_PAYLOAD)?;
    signed.verify(keys, NOW)
}

/// The payload parts of the vectors, by place: proof, acceptance, request, response, manifest.
fn payloads() -> Vec<(Place, String)> {
    let messages = section("handshake")["messages"].clone();
    let session = section("session");
    let manifest = section("manifest")["client"]["document"]["manifest_signature"].clone();
    let part =
        |jws: &serde_json::Value| jws.as_str().unwrap().split('.').nth(1).unwrap().to_owned();
    vec![
        (Place::Proof, part(&messages[2]["proof_jws"])),
        (Place::Accept, part(&messages[4]["acceptance_jws"])),
        (
            Place::Request,
            part(&session["request"]["message"]["request_jws"]),
        ),
        (
            Place::Response,
            part(&session["response"]["message"]["response_jws"]),
        ),
        (Place::Manifest, part(&manifest)),
    ]
}

/// What comes of a JWS at its place.
fn outcome(place: Place, jws: &str) -> Result<(), JwsError> {
    match place {
        Place::Manifest => verify::<ManifestPayload>(jws).map(drop),
        Place::Challenge => verify::<ChallengePayload>(jws).map(drop),
        Place::Proof => verify::<ProofPayload>(jws).map(drop),
        Place::Policy => verify::<PolicyPayload>(jws).map(drop),
        Place::Accept => verify::<AcceptPayload>(jws).map(drop),
        Place::Session => verify::<SessionPayload>(jws).map(drop),
        Place::Request => verify::<RequestPayload>(jws).map(drop),
        Place::Response => verify::<ResponsePayload>(jws).map(drop),
        Place::Error => verify::<ErrorPayload>(jws).map(drop),
        Place::Control => verify::<ControlPayload>(jws).map(drop),
        Place::Endorsement => verify::<EndorsementPayload>(jws).map(drop),
        Place::Audit => verify::<AuditPayload>(jws).map(drop),
        Place::Login => verify::<LoginPayload>(jws).map(drop),
    }
}

fn header(place: Place, members: &str) -> String {
    members.replace("TYP", place.typ())
}

/// Every header is refused at every place, whoever signed it.
fn refuse_headers(headers: &[&str]) {
    for (place, payload) in payloads() {
        let good = header(place, r#"{"alg":"EdDSA","kid":"k","typ":"TYP"}"#);
        assert_eq!(
            outcome(place, &raw(good.as_bytes(), &payload, 1)),
            Ok(()),
            "{place:?}"
        );
        for members in headers {
            let jws = raw(header(place, members).as_bytes(), &payload, 1);
            let error = outcome(place, &jws).unwrap_err();
            assert!(error.is_form(), "{place:?} {members}: {error}");
            assert_eq!(error.code(), ErrorCode::UnverifiedAgent);
        }
    }
}

#[test]
fn threat_43_algorithms() {
    refuse_headers(&[
        r#"{"alg":"none","kid":"k","typ":"TYP"}"#,
        r#"{"alg":"None","kid":"k","typ":"TYP"}"#,
        r#"{"kid":"k","typ":"TYP"}"#,
        r#"{"alg":"HS256","kid":"k","typ":"TYP"}"#,
        r#"{"alg":"ES256","kid":"k","typ":"TYP"}"#,
        r#"{"alg":"RS256","kid":"k","typ":"TYP"}"#,
        r#"{"alg":"eddsa","kid":"k","typ":"TYP"}"#,
        r#"{"alg":"Ed25519","kid":"k","typ":"TYP"}"#,
        r#"{"alg":null,"kid":"k","typ":"TYP"}"#,
        r#"{"alg":["EdDSA"],"kid":"k","typ":"TYP"}"#,
    ]);
}

#[test]
fn threat_44_other_header_members() {
    refuse_headers(&[
        r#"{"alg":"EdDSA","kid":"k","typ":"TYP","crit":["exp"]}"#,
        r#"{"alg":"EdDSA","kid":"k","typ":"TYP","crit":["b64"],"b64":false}"#,
        r#"{"alg":"EdDSA","kid":"k","typ":"TYP","b64":true}"#,
        r#"{"alg":"EdDSA","kid":"k","typ":"TYP","zip":"DEF"}"#,
        r#"{"alg":"EdDSA","kid":"k","typ":"TYP","cty":"json"}"#,
        r#"{"alg":"EdDSA","kid":"k","typ":"TYP","":1}"#,
    ]);
}

#[test]
fn threat_45_keys_in_the_header() {
    refuse_headers(&[
        r#"{"alg":"EdDSA","kid":"k","typ":"TYP","jwk":{"kty":"OKP"}}"#,
        r#"{"alg":"EdDSA","kid":"k","typ":"TYP","jku":"https://evil.example.com/keys"}"#,
        r#"{"alg":"EdDSA","kid":"k","typ":"TYP","x5u":"https://evil.example.com/cert"}"#,
        r#"{"alg":"EdDSA","kid":"k","typ":"TYP","x5c":["MIIB"]}"#,
        r#"{"alg":"EdDSA","kid":"k","typ":"TYP","x5t":"x"}"#,
    ]);
}

#[test]
fn threat_46_duplicate_members() {
    refuse_headers(&[
        r#"{"alg":"EdDSA","alg":"EdDSA","kid":"k","typ":"TYP"}"#,
        r#"{"alg":"EdDSA","kid":"k","\u006bid":"k","typ":"TYP"}"#,
        r#"{"alg":"EdDSA","kid":"k","typ":"TYP"}{}"#,
        r#"["EdDSA"]"#,
        "",
    ]);
    for (place, payload) in payloads() {
        let text = String::from_utf8(base64url::decode(&payload).unwrap()).unwrap();
        let double = text.replacen("\"timestamp\":", "\"timestamp\":1,\"timestamp\":", 1);
        let head = header(place, r#"{"alg":"EdDSA","kid":"k","typ":"TYP"}"#);
        let jws = raw(head.as_bytes(), &base64url::encode(double.as_bytes()), 1);
        assert!(
            matches!(outcome(place, &jws), Err(JwsError::Payload(_))),
            "{place:?}"
        );
    }
}

/// A signature made for one place is taken at no other.
#[test]
fn threat_47_places() {
    for (made_for, payload) in payloads() {
        let head = header(made_for, r#"{"alg":"EdDSA","kid":"k","typ":"TYP"}"#);
        let jws = raw(head.as_bytes(), &payload, 1);
        for at in Place::ALL {
            let result = outcome(*at, &jws);
            match *at == made_for {
                true => assert_eq!(result, Ok(())),
                false => assert_eq!(
                    result,
                    Err(JwsError::Typ(at.typ())),
                    "{made_for:?} at {at:?}"
                ),
            }
        }
        let jwt = raw(br#"{"alg":"EdDSA","kid":"k","typ":"JWT"}"#, &payload, 1);
        let none = raw(br#"{"alg":"EdDSA","kid":"k"}"#, &payload, 1);
        for jws in [jwt, none] {
            assert_eq!(outcome(made_for, &jws).is_ok(), made_for == Place::Manifest);
        }
    }
}

#[test]
fn threat_48_kids() {
    let long = "x".repeat(129);
    for (place, payload) in payloads() {
        for (kid, unknown) in [
            ("of-another", true),
            ("../k", true),
            ("K", true),
            ("k ", false),
            ("a\\\"b", false),
            ("", false),
            (long.as_str(), false),
        ] {
            let head = header(
                place,
                &format!(r#"{{"alg":"EdDSA","kid":"{kid}","typ":"TYP"}}"#),
            );
            let error = outcome(place, &raw(head.as_bytes(), &payload, 1)).unwrap_err();
            assert_eq!(error == JwsError::UnknownKey, unknown, "{kid}");
        }
        let head = header(place, r#"{"alg":"EdDSA","typ":"TYP"}"#);
        let error = outcome(place, &raw(head.as_bytes(), &payload, 1)).unwrap_err();
        assert_eq!(error, JwsError::UnknownKey, "no kid");
        let head = header(place, r#"{"alg":"EdDSA","kid":7,"typ":"TYP"}"#);
        assert!(
            outcome(place, &raw(head.as_bytes(), &payload, 1))
                .unwrap_err()
                .is_form()
        );
    }
    // The kid names one key; another key of the same agent is not tried.
    let proof = payloads().swap_remove(0).1;
    let head = header(Place::Proof, r#"{"alg":"EdDSA","kid":"a","typ":"TYP"}"#);
    let by_b = raw(head.as_bytes(), &proof, 2);
    let keys = set(&[("a", 1), ("b", 2)]);
    assert_eq!(
        verify_with::<ProofPayload>(&by_b, &keys).unwrap_err(),
        JwsError::BadSignature
    );
    // Without kid the keys of a baseline peer are tried, and none of them is skipped or invented.
    let by = |seed: u8, keys: &KeySet| {
        let none = raw(br#"{"alg":"EdDSA"}"#, &proof, seed);
        let signed =
            Signed::<ProofPayload>::parse_within(&none, Peer::Baseline, limits::JWS_PAYLOAD);
        let verified = signed.unwrap().verify(keys, NOW)?;
        Ok(verified.key().kid.to_string())
    };
    assert_eq!(by(1, &keys), Ok("a".to_owned()));
    assert_eq!(by(2, &keys), Ok("b".to_owned()));
    assert_eq!(by(3, &keys), Err(JwsError::BadSignature));
    let names = ["1", "2", "3", "4", "5", "6", "7", "8", "9"];
    let nine: Vec<(&str, u8)> = names.into_iter().zip(1..).collect();
    assert_eq!(by(8, &set(&nine)), Ok("8".to_owned()));
    assert_eq!(
        by(9, &set(&nine)),
        Err(JwsError::BadSignature),
        "the ninth is not tried"
    );
}

/// S not reduced is among the vectors; here R of small order and R that is not canonical.
#[test]
fn threat_49_signatures_that_strict_verification_refuses() {
    let proof = payloads().swap_remove(0).1;
    let head = header(Place::Proof, r#"{"alg":"EdDSA","kid":"k","typ":"TYP"}"#);
    let input = format!("{}.{proof}", base64url::encode(head.as_bytes()));
    let mut identity = [0; 32];
    identity[0] = 1;
    let mut not_canonical = [0xff; 32];
    not_canonical[0] = 0xee;
    not_canonical[31] = 0x7f;
    for r in [identity, not_canonical, [0; 32]] {
        for s in [[0; 32], identity] {
            let jws = format!("{input}.{}", base64url::encode(&[r, s].concat()));
            assert_eq!(outcome(Place::Proof, &jws), Err(JwsError::BadSignature));
        }
    }
}

#[test]
fn threat_50_base64url() {
    for (place, payload) in payloads() {
        let head = header(place, r#"{"alg":"EdDSA","kid":"k","typ":"TYP"}"#);
        let jws = raw(head.as_bytes(), &payload, 1);
        let (input, signature) = jws.rsplit_once('.').unwrap();
        for wrong in [
            format!("{jws}="),
            format!("{jws}=="),
            format!("{jws}\n"),
            format!(" {jws}"),
            format!("{input}.{signature}A"),
            format!("{input}. {signature}"),
            jws.replacen('.', "=.", 1),
            jws.replace('_', "/").replace('-', "+") + "+",
        ] {
            assert!(
                matches!(outcome(place, &wrong), Err(JwsError::Form(_))),
                "{wrong}"
            );
        }
        let last = signature.chars().last().unwrap();
        for other in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".chars() {
            let trailing = format!("{input}.{}{other}", &signature[..signature.len() - 1]);
            assert_eq!(outcome(place, &trailing).is_ok(), other == last);
        }
    }
}

#[test]
fn threat_51_parts_and_lengths() {
    for (place, payload) in payloads() {
        let head = header(place, r#"{"alg":"EdDSA","kid":"k","typ":"TYP"}"#);
        let jws = raw(head.as_bytes(), &payload, 1);
        let parts: Vec<&str> = jws.split('.').collect();
        for wrong in [
            parts[..2].join("."),
            format!("{jws}."),
            format!("{jws}.{}.{}", parts[1], parts[2]),
            format!(".{}.{}", parts[1], parts[2]),
            format!("{}..{}", parts[0], parts[2]),
            format!("{}.{}.", parts[0], parts[1]),
            format!("{}.{}.{}", parts[0], parts[1], base64url::encode(&[1; 63])),
            format!("{}.{}.{}", parts[0], parts[1], base64url::encode(&[1; 65])),
            format!(r#"{{"payload":"{}","signatures":[]}}"#, parts[1]),
            String::new(),
        ] {
            assert!(
                matches!(outcome(place, &wrong), Err(JwsError::Form(_))),
                "{wrong}"
            );
        }
        let huge = format!("{}.{}.{}", parts[0], "A".repeat(1 << 20), parts[2]);
        let error = outcome(place, &huge).unwrap_err();
        assert_eq!(
            (error.code(), error),
            (ErrorCode::InvalidMessage, JwsError::TooLong)
        );
    }
}

/// Profile §1: header 512 bytes and payload 256 KiB, at the limit and one past it.
#[test]
fn sizes_of_header_and_payload() {
    let audit = |size: usize| {
        let payload = r#"{"x":""}"#;
        let payload = payload.replace("\"\"", &format!("\"{}\"", "x".repeat(size - payload.len())));
        raw(
            br#"{"alg":"EdDSA","kid":"k","typ":"a2a-request+jws"}"#,
            &base64url::encode(payload.as_bytes()),
            1,
        )
    };
    assert!(outcome(Place::Request, &audit(limits::JWS_PAYLOAD)).is_ok());
    assert_eq!(
        outcome(Place::Request, &audit(limits::JWS_PAYLOAD + 1)),
        Err(JwsError::TooLong)
    );
    let with_header = |size: usize| {
        let head = r#"{"alg":"EdDSA","kid":"k","typ":"a2a-request+jws"}"#;
        let head = head.replacen(',', &format!(",{}", " ".repeat(size - head.len())), 1);
        raw(head.as_bytes(), &base64url::encode(b"{}"), 1)
    };
    assert!(outcome(Place::Request, &with_header(limits::JWS_HEADER)).is_ok());
    assert_eq!(
        outcome(Place::Request, &with_header(limits::JWS_HEADER + 1)),
        Err(JwsError::TooLong)
    );
}

/// Threat 52: what is bound is told apart from what is missing, so that a session can insist.
#[test]
fn threat_52_bound_members_are_visible() {
    let bare = raw(
        br#"{"alg":"EdDSA","kid":"k","typ":"a2a-request+jws"}"#,
        &base64url::encode(b"{}"),
        1,
    );
    let verified = verify::<RequestPayload>(&bare).unwrap();
    assert_eq!(verified.payload().issuer, None);
    assert_eq!(verified.payload().audience, None);
    assert_eq!(verified.payload().message_hash, None);
    let control = raw(
        br#"{"alg":"EdDSA","kid":"k","typ":"a2a-control+jws"}"#,
        &base64url::encode(b"{}"),
        1,
    );
    assert!(matches!(
        verify::<ControlPayload>(&control),
        Err(JwsError::Payload(_))
    ));
}

/// Threat 58: the canonical form of what was signed is what counts, to the last digit.
#[test]
fn threat_58_small_changes_after_signing() {
    let hash = |text: &str| canonical::Value::parse(text.as_bytes()).unwrap().digest();
    for (signed, changed) in [
        ("{\"x\":\"\u{e9}\"}", "{\"x\":\"e\u{301}\"}"),
        ("{\"x\":1}", "{\"x\":\"1\"}"),
        ("{\"x\":0.1}", "{\"x\":0.10000000000000002}"),
        ("{\"x\":null}", "{}"),
    ] {
        assert_ne!(hash(signed), hash(changed));
    }
    assert_eq!(
        hash("{\"x\":1.0,\"a\":[]}"),
        hash("{ \"a\" : [ ], \"x\" : 1e0 }")
    );
}

/// Proves A-9-8.
#[test]
fn what_is_made_here_has_the_one_header() {
    let payload = verify::<RequestPayload>(&raw(
        br#"{"alg":"EdDSA","kid":"k","typ":"a2a-request+jws"}"#,
        &base64url::encode(b"{}"),
        1,
    ));
    let jws = sign(payload.unwrap().payload(), &kid("k"), &key(1));
    let head = base64url::decode(jws.split('.').next().unwrap()).unwrap();
    assert_eq!(
        head,
        br#"{"alg":"EdDSA","kid":"k","typ":"a2a-request+jws"}"#
    );
}
