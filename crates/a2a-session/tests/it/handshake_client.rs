//! Attacks on the handshake that the client must stop (threats, section A).

use a2a_session::*;
use a2a_wire::{ErrorCode, Kind, Reason, Received, Transcript, message_hash};
use serde_json::json;

use crate::adversary::{CHALLENGE, POLICY, SESSION, edit, forge, payload, resign};
use crate::support::{
    CLIENT, MALLORY, SERVER, World, did, established, json, jwk, sent, text, tree,
};

/// A client that waits for CHALLENGE, its HELLO, and the answer to it.
fn challenged(world: &mut World) -> (ExpectChallenge, Vec<u8>, Vec<u8>) {
    let (client, hello) = world.begin(CLIENT);
    let challenge = sent(world.serve(&hello));
    (client, hello, challenge)
}

fn offered(world: &mut World) -> (Box<ExpectPolicy>, Vec<u8>) {
    let (client, _, challenge) = challenged(world);
    let (client, proof) = world.challenged(client, &challenge).unwrap();
    let policy = sent(world.serve(&proof));
    (client, policy)
}

fn accepted(world: &mut World) -> (Box<ExpectSession>, Vec<u8>) {
    let (client, policy) = offered(world);
    let (client, accept) = client.handle_message(world.now(), &policy).unwrap();
    let (_, session) = established(world.serve(&accept));
    (client, session)
}

fn code<T>(result: Result<T, Aborted>) -> ErrorCode {
    match result {
        Ok(_) => panic!("it was believed"),
        Err(aborted) => aborted.failure.code,
    }
}

/// CHALLENGE with a change, signed anew as the server would.
fn signed_anew(
    hello: &[u8],
    challenge: &[u8],
    seed: u8,
    change: impl FnOnce(&mut serde_json::Value),
) -> Vec<u8> {
    let mut message = json(challenge);
    change(&mut message);
    let mut transcript = Transcript::default();
    transcript.add_received(&Received::parse(hello, 1 << 20).unwrap());
    let hash = message_hash(Kind::Challenge, &tree(&message));
    let mut payload = payload(&message["policy_signature"]);
    payload["transcript_hash"] = json!(transcript.hash_with(&hash).to_string());
    payload["nonce_b"] = message["nonce_b"].clone();
    message["policy_signature"] = json!(forge::<CHALLENGE>(&payload, seed));
    text(&message)
}

/// Proves A-5-12, A-9-1.
#[test]
fn threat_05_a_rogue_server_with_its_own_key() {
    let mut world = World::new();
    let (client, hello, challenge) = challenged(&mut world);
    let rogue = signed_anew(&hello, &challenge, MALLORY, |it| {
        it["public_keys"] = json!([jwk("k", MALLORY)]);
    });
    assert_eq!(
        code(world.challenged(client, &rogue)),
        ErrorCode::UnverifiedAgent
    );
    // With the server's key listed, and its own used.
    let (client, hello, challenge) = challenged(&mut world);
    let rogue = signed_anew(&hello, &challenge, MALLORY, |_| {});
    assert_eq!(
        code(world.challenged(client, &rogue)),
        ErrorCode::UnverifiedAgent
    );
    world.is_well();
}

#[test]
fn threat_06_a_relayed_challenge() {
    // The client expects Mallory, who forwards what a genuine server says.
    let mut world = World::new();
    let mut config = world.client_config();
    config.server = did(MALLORY);
    let (client, hello) = world.begin_with(CLIENT, config);
    let challenge = sent(world.serve(&hello));
    assert_eq!(
        code(world.challenged(client, &challenge)),
        ErrorCode::UnverifiedAgent
    );
    // The client expects the server, at an address that is not the server's.
    let mut config = world.client_config();
    config.url = "https://mallory.example.com/a2a/handshake".into();
    let (client, hello) = world.begin_with(CLIENT, config);
    let challenge = sent(world.serve(&hello));
    let aborted = world.challenged(client, &challenge).unwrap_err();
    assert_eq!(aborted.failure.code, ErrorCode::UnverifiedAgent);
    assert!(aborted.failure.cause.contains("address"));
}

#[test]
fn threat_07_a_recorded_challenge() {
    let mut world = World::new();
    let (_, _, recorded) = challenged(&mut world);
    let (client, _) = world.begin(CLIENT);
    assert_eq!(
        code(world.challenged(client, &recorded)),
        ErrorCode::UnverifiedAgent
    );
    // One whose nonce was seen.
    let (client, _, challenge) = challenged(&mut world);
    let nonce = json(&challenge)["nonce_b"].as_str().unwrap().to_owned();
    world.memory.nonces.insert(nonce);
    assert_eq!(
        code(world.challenged(client, &challenge)),
        ErrorCode::ReplayDetected
    );
}

#[test]
fn threat_08_our_own_nonce() {
    let mut world = World::new();
    let (client, hello, challenge) = challenged(&mut world);
    let nonce = json(&hello)["nonce"].clone();
    let reflected = signed_anew(&hello, &challenge, SERVER, |it| it["nonce_b"] = nonce);
    assert_eq!(
        code(world.challenged(client, &reflected)),
        ErrorCode::ReplayDetected
    );
}

#[test]
fn threat_09_our_own_signatures() {
    let mut world = World::new();
    let shaken = world.shake(CLIENT);
    let proof = json(&shaken.messages[2])["proof_jws"].clone();
    let manifest = &json(&shaken.messages[0])["extensions"]["manifest"]["manifest_signature"];
    for jws in [proof, manifest.clone()] {
        let (client, _, challenge) = challenged(&mut world);
        let reflected = edit(&challenge, |it| it["policy_signature"] = jws);
        assert_eq!(
            code(world.challenged(client, &reflected)),
            ErrorCode::UnverifiedAgent
        );
    }
}

#[test]
fn threat_17_a_hop_changes_challenge() {
    type Change = fn(&mut serde_json::Value);
    let changes: [Change; 4] = [
        |it| it["public_keys"] = json!([jwk("k", SERVER), jwk("m", MALLORY)]),
        |it| it["extensions"]["kx"]["key"] = json!(canonical::base64url::encode(&[9; 32])),
        |it| drop(it["extensions"].as_object_mut().unwrap().remove("kx")),
        |it| it["unknown"] = json!(1),
    ];
    for change in changes {
        let mut world = World::new();
        let (client, _, challenge) = challenged(&mut world);
        let changed = edit(&challenge, change);
        assert_eq!(
            code(world.challenged(client, &changed)),
            ErrorCode::UnverifiedAgent
        );
    }
}

#[test]
fn threat_22_a_version_that_was_not_offered() {
    let mut world = World::new();
    let (client, _, challenge) = challenged(&mut world);
    let other = edit(&challenge, |it| it["protocol_version"] = json!("2.0"));
    let expected = ErrorCode::ProtocolVersionUnsupported;
    assert_eq!(code(world.challenged(client, &other)), expected);
    let (client, _, challenge) = challenged(&mut world);
    let none = edit(&challenge, |it| {
        it.as_object_mut().unwrap().remove("protocol_version");
    });
    assert_eq!(
        code(world.challenged(client, &none)),
        ErrorCode::InvalidMessage
    );
}

#[test]
fn threat_23_another_policy_than_the_one_named() {
    let mut world = World::new();
    let (client, policy) = offered(&mut world);
    let swapped = edit(&policy, |it| it["policy"]["rate_limit"] = json!(1));
    let aborted = client.handle_message(world.now(), &swapped).unwrap_err();
    assert_eq!(aborted.failure.reason, Some(Reason::PolicyMismatch));
    let (client, policy) = offered(&mut world);
    let swapped = edit(&policy, |it| {
        it["policy"]["rate_limit"] = json!(1);
        it["policy_hash"] = json!(tree(&it["policy"]).digest_without(&[]).to_string());
    });
    let aborted = client.handle_message(world.now(), &swapped).unwrap_err();
    assert_eq!(aborted.failure.reason, Some(Reason::PolicyMismatch));
    world.is_well();
}

/// Proves A-5-20.
#[test]
fn threat_24_25_signatures_of_a_policy() {
    let mut world = World::new();
    let earlier = world.shake(CLIENT).messages;
    type Change<'a> = Box<dyn Fn(&[u8]) -> Vec<u8> + 'a>;
    let changes: [Change<'_>; 3] = [
        // By another agent.
        Box::new(|policy| resign::<POLICY>(policy, MALLORY, |_| {})),
        // That of CHALLENGE again.
        Box::new(|policy| {
            let jws = json(&earlier[1])["policy_signature"].clone();
            edit(policy, |it| it["policy_signature"] = jws)
        }),
        // Of the same policy in an earlier handshake.
        Box::new(|policy| {
            let jws = json(&earlier[3])["policy_signature"].clone();
            edit(policy, |it| it["policy_signature"] = jws)
        }),
    ];
    for change in changes {
        let mut world = World::new();
        world.random.0 = 1000;
        let (client, policy) = offered(&mut world);
        let result = client.handle_message(world.now(), &change(&policy));
        assert_eq!(code(result), ErrorCode::UnverifiedAgent);
    }
}

/// Proves A-5-2, A-5-21.
#[test]
fn threat_26_policies_that_a_client_does_not_take() {
    type Change = fn(&mut policy::Demands);
    let demands: [Change; 5] = [
        |it| it.max_retention = policy::Retention::Session,
        |it| it.min_session_timeout = 3601,
        |it| it.min_payload_size = 1_048_577,
        |it| it.min_rate = policy::Rate::new(1001, 3600),
        |it| it.intents = vec![policy::IntentName::parse("delete_database").unwrap()],
    ];
    for change in demands {
        let mut world = World::new();
        let stated = tree(&json!({"blocked_intents": ["delete_database"]}));
        let stated = policy::Policy::read(&stated, 1 << 26).unwrap();
        world.book.policy = stated.complete().unwrap();
        let mut config = world.client_config();
        change(&mut config.demands);
        let (client, hello) = world.begin_with(CLIENT, config);
        let challenge = sent(world.serve(&hello));
        let (client, proof) = world.challenged(client, &challenge).unwrap();
        let policy = sent(world.serve(&proof));
        let aborted = client.handle_message(world.now(), &policy).unwrap_err();
        assert_eq!(aborted.failure.code, ErrorCode::PolicyViolation);
        world.serve(&aborted.message.unwrap()).unwrap();
        assert_eq!(world.server.half_open(), 0);
    }
    // Encryption that the server does not offer is noticed before anything is signed.
    let mut world = World::with(|config| config.sealing = Sealing::IfRequired);
    let mut config = world.client_config();
    config.demands.encryption = policy::Encryption::Needed;
    let (client, hello) = world.begin_with(CLIENT, config);
    let challenge = sent(world.serve(&hello));
    let aborted = world.challenged(client, &challenge).unwrap_err();
    assert_eq!(aborted.failure.reason, Some(Reason::EncryptionRequired));
}

/// POLICY and CHALLENGE of a server that signs any policy.
fn with_policy(policy: &serde_json::Value) -> Result<(Box<ExpectSession>, Vec<u8>), Aborted> {
    let mut world = World::new();
    let (client, hello, challenge) = challenged(&mut world);
    let hash = tree(policy).digest_without(&[]).to_string();
    let mut message = json(&challenge);
    message["policy_hash"] = json!(hash);
    let mut transcript = Transcript::default();
    transcript.add_received(&Received::parse(&hello, 1 << 20).unwrap());
    let th = transcript.hash_with(&message_hash(Kind::Challenge, &tree(&message)));
    let mut signed = payload(&message["policy_signature"]);
    signed["policy_hash"] = json!(hash);
    signed["transcript_hash"] = json!(th.to_string());
    message["policy_signature"] = json!(forge::<CHALLENGE>(&signed, SERVER));
    let challenge = text(&message);
    let (client, proof) = world.challenged(client, &challenge).unwrap();
    for message in [&challenge, &proof] {
        transcript.add_received(&Received::parse(message, 1 << 20).unwrap());
    }
    let mut message = json!({"type": "policy", "policy": policy, "policy_hash": hash});
    let th = transcript.hash_with(&message_hash(Kind::Policy, &tree(&message)));
    signed["transcript_hash"] = json!(th.to_string());
    message["policy_signature"] = json!(forge::<POLICY>(&signed, SERVER));
    client.handle_message(world.now(), &text(&message))
}

#[test]
fn threat_27_policies_that_are_none() {
    for policy in [
        json!({"rate_limit": 5, "rate_period": 5}),
        json!({"rate_limit": 5}),
        json!({"session_timeout": null}),
        json!({}),
    ] {
        assert!(with_policy(&policy).is_ok(), "{policy}");
    }
    for (policy, expected) in [
        (
            json!({"data_retention": "forever"}),
            ErrorCode::HandshakeFailed,
        ),
        (json!({"rate_limit": 0}), ErrorCode::HandshakeFailed),
        (json!({"session_timeout": 0}), ErrorCode::HandshakeFailed),
        (
            json!({"blocked_intents": ["com.*.x"]}),
            ErrorCode::HandshakeFailed,
        ),
        // A member of the wrong type makes no message.
        (json!({"session_timeout": -1}), ErrorCode::InvalidMessage),
        (json!({"session_timeout": "60"}), ErrorCode::InvalidMessage),
    ] {
        let aborted = with_policy(&policy).unwrap_err();
        assert_eq!(
            aborted.failure.code, expected,
            "{policy}: {}",
            aborted.failure
        );
        if expected == ErrorCode::HandshakeFailed {
            assert_eq!(aborted.failure.reason, Some(Reason::PolicyInvalid));
        }
    }
}

/// Proves A-5-29, A-5-30.
#[test]
fn threat_30_sessions_that_are_not_the_ones_agreed_on() {
    type Change = fn(&mut serde_json::Value);
    let changes: [(Change, ErrorCode); 9] = [
        (
            |it| it["session_id"] = json!("QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE"),
            ErrorCode::UnverifiedAgent,
        ),
        (
            |it| it["expires_at"] = json!(it["expires_at"].as_i64().unwrap() + 1),
            ErrorCode::HandshakeFailed,
        ),
        (
            |it| it["expires_at"] = json!(it["expires_at"].as_i64().unwrap() - 1),
            ErrorCode::UnverifiedAgent,
        ),
        (
            |it| it["expires_at"] = it["created_at"].clone(),
            ErrorCode::HandshakeFailed,
        ),
        (
            |it| it["created_at"] = json!(it["created_at"].as_i64().unwrap() - 301),
            ErrorCode::HandshakeFailed,
        ),
        (
            |it| it["public_keys"] = json!([jwk("k", SERVER), jwk("m", MALLORY)]),
            ErrorCode::UnverifiedAgent,
        ),
        (
            |it| drop(it.as_object_mut().unwrap().remove("session_jws")),
            ErrorCode::UnverifiedAgent,
        ),
        (
            |it| it["message_count"] = json!(5),
            ErrorCode::HandshakeFailed,
        ),
        (
            |it| it["server_did"] = json!(did(MALLORY).to_string()),
            ErrorCode::UnverifiedAgent,
        ),
    ];
    for (change, expected) in changes {
        let mut world = World::new();
        let (client, session) = accepted(&mut world);
        let changed = edit(&session, change);
        assert_eq!(code(client.handle_message(world.now(), &changed)), expected);
    }
    let mut world = World::new();
    let (client, session) = accepted(&mut world);
    let forged = resign::<SESSION>(&session, MALLORY, |_| {});
    let result = client.handle_message(world.now(), &forged);
    assert_eq!(code(result), ErrorCode::UnverifiedAgent);
}

#[test]
fn threat_42_an_error_that_nobody_signed() {
    for told in ["HANDSHAKE_FAILED", "UNVERIFIED_AGENT", "SOMETHING_ELSE"] {
        let mut world = World::new();
        let (client, _) = world.begin(CLIENT);
        let error = text(&json!({"type": "error", "error_code": told}));
        let aborted = world.challenged(client, &error).unwrap_err();
        assert_eq!(aborted.failure.code.as_str(), told);
        assert!(aborted.by_server && aborted.message.is_none());
        // In every state.
        let (client, _) = offered(&mut world);
        let aborted = client.handle_message(world.now(), &error).unwrap_err();
        assert!(aborted.by_server);
        let (client, _) = accepted(&mut world);
        let aborted = client.handle_message(world.now(), &error).unwrap_err();
        assert!(aborted.by_server);
        world.is_well();
    }
}

/// §8.3: anything else than what comes next.
#[test]
fn what_does_not_come_next_ends_the_handshake() {
    let messages = World::new().shake(CLIENT).messages;
    for (index, message) in messages.iter().enumerate() {
        let mut world = World::new();
        let unexpected = |result: Result<(), Aborted>| {
            let aborted = result.unwrap_err();
            assert_eq!(aborted.failure.reason, Some(Reason::UnexpectedMessage));
        };
        if index != 1 {
            let (client, _) = world.begin(CLIENT);
            unexpected(world.challenged(client, message).map(drop));
        }
        if index != 3 {
            let (client, _) = offered(&mut world);
            unexpected(client.handle_message(world.now(), message).map(drop));
        }
        if index != 5 {
            let (client, _) = accepted(&mut world);
            unexpected(client.handle_message(world.now(), message).map(drop));
        }
    }
}

/// A server's manifest in CHALLENGE is checked like any other.
#[test]
fn a_manifest_in_challenge_is_enough() {
    let mut world = World::with(|config| config.show_manifest = ShowManifest::Inline);
    let (client, _, challenge) = challenged(&mut world);
    let step = client.handle_message(world.now(), &challenge, &world.memory);
    assert!(matches!(step, Ok(ServerStep::Proven { .. })), "{step:?}");
    let (client, _, challenge) = challenged(&mut world);
    let pins = a2a_identity::Pins {
        manifest: Some(a2a_wire::Digest::of(b"pinned")),
        keys: Vec::new(),
    };
    world.memory.pins.insert(did(SERVER).to_string(), pins);
    assert_eq!(
        code(world.challenged(client, &challenge)),
        ErrorCode::InvalidManifest
    );
}

/// A did:key that shows no manifest, which it need not, has still named one: the pin holds for that.
#[test]
fn threat_70_a_pin_holds_for_a_manifest_that_is_only_named() {
    let pinned = |manifest: Option<a2a_wire::Digest>, keys: Vec<a2a_wire::Digest>| {
        let mut world = World::new();
        let (client, _, challenge) = challenged(&mut world);
        let pins = a2a_identity::Pins { manifest, keys };
        world.memory.pins.insert(did(SERVER).to_string(), pins);
        let facts = Facts {
            endpoints: Vec::new(),
            manifest: None,
            ..crate::support::facts(SERVER)
        };
        let mut step = client.handle_message(world.now(), &challenge, &world.memory);
        while let Ok(ServerStep::Resolve(check)) = step {
            step = check.handle_found(world.now(), Found::Peer(Ok(facts.clone())));
        }
        step.map(drop).map_err(|aborted| aborted.failure.reason)
    };
    let named = crate::support::facts(SERVER).manifest.unwrap().hash();
    let key = crate::support::key(SERVER).verifying_key().digest();
    let other = a2a_wire::Digest::of(b"another");
    assert_eq!(pinned(None, Vec::new()), Ok(()));
    assert_eq!(pinned(Some(named), vec![other, key]), Ok(()));
    let refused = Err(Some(Reason::PinMismatch));
    assert_eq!(pinned(Some(other), Vec::new()), refused);
    assert_eq!(pinned(None, vec![other]), refused);
}
