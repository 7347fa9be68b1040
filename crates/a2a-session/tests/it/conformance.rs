//! Document 004 (A2A protocol): what other tests leave out.

use a2a_session::{Facts, ServerSession, SessionLimits};
use a2a_wire::{ErrorCode, Reason};
use ed25519_dalek::Signer as _;
use serde_json::json;

use crate::adversary::{ACCEPT, PROOF, edit, encode, refused, resign};
use crate::support::{
    CLIENT, Duo, MALLORY, UNIX, World, did, established, json, jwk, sent, source, text,
};

/// §5, CHALLENGE, "Client Processing": "Verify timestamp is recent".
/// Proves A-5-11.
#[test]
fn challenge_with_an_old_timestamp_is_refused() {
    for (skew, is_recent) in [(-301, false), (-300, true), (300, true), (301, false)] {
        let mut world = World::new();
        let (client, hello) = world.begin(CLIENT);
        let challenge = sent(world.serve(&hello));
        let changed = edit(&challenge, |it| it["timestamp"] = json!(UNIX + skew));
        let aborted = world.challenged(client, &changed).unwrap_err();
        // A recent one is refused for its signature, which is looked at next.
        let (code, reason) = match is_recent {
            true => (ErrorCode::UnverifiedAgent, Reason::VerificationFailed),
            false => (ErrorCode::HandshakeFailed, Reason::TimestampSkew),
        };
        assert_eq!(aborted.failure.code, code, "{skew}");
        assert_eq!(aborted.failure.reason, Some(reason), "{skew}");
    }
}

/// §5, PROOF, "Server Processing": "Confirm manifest hashes".
/// Proves A-5-18.
#[test]
fn proof_with_another_manifest_hash_is_refused() {
    for name in ["server_manifest_hash", "client_manifest_hash"] {
        let mut world = World::new();
        let (client, hello) = world.begin(CLIENT);
        let challenge = sent(world.serve(&hello));
        let (_, proof) = world.challenged(client, &challenge).unwrap();
        let other = a2a_wire::Digest::of(b"another manifest").to_string();
        let changed = resign::<PROOF>(&proof, CLIENT, |it| it[name] = json!(other));
        let code = ErrorCode::HandshakeFailed;
        refused(&mut world, &changed, code, Reason::HashMismatch);
        assert_eq!(world.server.half_open(), 0);
    }
}

/// §5, PROOF, "verify both nonces match"; ACCEPT_POLICY, "Verify commitment hash": what is wrong is
/// refused as such, and the handshake that is under way goes on.
/// Proves A-5-17, A-5-26.
#[test]
fn wrong_nonce_b_or_commitment_fails_the_handshake() {
    let mut world = World::new();
    let (client, hello) = world.begin(CLIENT);
    let challenge = sent(world.serve(&hello));
    let (client, proof) = world.challenged(client, &challenge).unwrap();
    let nonce = canonical::base64url::encode(&[7; 32]);
    let wrong = resign::<PROOF>(&proof, CLIENT, |it| it["nonce_b"] = json!(nonce));
    let code = ErrorCode::HandshakeFailed;
    refused(&mut world, &wrong, code.clone(), Reason::NonceMismatch);
    // From elsewhere, or by another agent, nothing is said of the handshakes of this one.
    world.source = source(9);
    refused(&mut world, &wrong, ErrorCode::HandshakeTimeout, None);
    world.source = source(1);
    let other = did(MALLORY).to_string();
    let foreign = edit(&wrong, |it| it["agent_did"] = json!(other));
    refused(&mut world, &foreign, ErrorCode::HandshakeTimeout, None);

    let policy = sent(world.serve(&proof));
    let (client, accept) = client.handle_message(world.now(), &policy).unwrap();
    let commitment = a2a_wire::Digest::of(b"another").to_string();
    let wrong = resign::<ACCEPT>(&accept, CLIENT, |it| {
        it["session_commitment"] = json!(commitment);
    });
    refused(&mut world, &wrong, code, Reason::NonceMismatch);
    let (_, session) = established(world.serve(&accept));
    client.handle_message(world.now(), &session).unwrap();
}

/// A signature whose header is `{"alg":"EdDSA"}`, as in the document's examples.
fn sign_unnamed(payload: &serde_json::Value, seed: u8) -> String {
    let text = format!("{}.{}", encode(&json!({"alg": "EdDSA"})), encode(payload));
    let key = ed25519_dalek::SigningKey::from_bytes(&[seed; 32]);
    let signature = key.sign(text.as_bytes()).to_bytes();
    format!("{text}.{}", canonical::base64url::encode(&signature))
}

/// A did:web that publishes nothing but what §4 shows: its DID, its keys and its endpoints.
fn document_of_web(keys: &[(&str, u8)]) -> (a2a_identity::Did, Facts) {
    let did: a2a_identity::Did = "did:web:example.com:agent:translator".parse().unwrap();
    let listed: Vec<_> = keys.iter().map(|(kid, seed)| jwk(kid, *seed)).collect();
    let document = json!({"agent_did": did.to_string(), "public_keys": listed,
        "endpoints": [{"type": "handshake", "url": WEB_URL}]});
    let read = a2a_identity::DidDocument::read(&text(&document), &did).unwrap();
    let facts = Facts {
        root: a2a_identity::RootKeys::Document(read.keys),
        manifest: None,
        endpoints: read.endpoints,
    };
    (did, facts)
}

const WEB_URL: &str = "https://example.com/a2a/handshake";

/// §4, did:web, and §9, "Key Rotation": an agent with two keys and no manifest, whose signatures name
/// no key (as in §5, PROOF), is served at the trust of a did:key. Its session goes on with the key
/// that signed PROOF.
/// Proves A-4-5, A-5-14, A-9-12, A-9-15.
#[test]
fn did_web_with_a_document_and_two_keys_is_served() {
    let (old, new) = (CLIENT, 9);
    for (proves, other) in [(old, new), (new, old)] {
        let mut world = World::new();
        let (name, facts) = document_of_web(&[("old", old), ("new", new)]);
        world.known.insert(name.to_string(), facts);
        let (_, hello) = world.begin(CLIENT);
        let hello = edit(&hello, |it| {
            it["agent_did"] = json!(name.to_string());
            it["public_keys"] = json!([jwk("old", old), jwk("new", new)]);
            it.as_object_mut().unwrap().remove("extensions");
        });
        let challenge = sent(world.serve(&hello));
        let (hello, challenge) = (json(&hello), json(&challenge));
        let payload = json!({"nonce_a": hello["nonce"], "nonce_b": challenge["nonce_b"],
            "server_manifest_hash": challenge["manifest_hash"],
            "client_manifest_hash": hello["manifest_hash"], "timestamp": UNIX});
        let proof = json!({"type": "proof", "agent_did": name.to_string(),
            "proof_jws": sign_unnamed(&payload, proves)});
        let policy = json(&sent(world.serve(&text(&proof))));
        let parts = [
            &hello["nonce"],
            &challenge["nonce_b"],
            &policy["policy_hash"],
        ];
        let [a, b, c] = parts.map(|part| part.as_str().unwrap());
        let commitment = a2a_wire::Digest::of(format!("{a}|{b}|{c}").as_bytes());
        let payload = json!({"policy_hash": c, "session_commitment": commitment.to_string(),
            "timestamp": UNIX});
        let accept = json!({"type": "accept_policy", "agent_did": name.to_string(),
            "policy_hash": c, "acceptance_jws": sign_unnamed(&payload, proves)});
        let (session, _) = established(world.serve(&text(&accept)));
        assert_eq!(session.peer().trust_level(), a2a_identity::TrustLevel::Own);
        let id = session.session_id().to_string();
        let mut duo = Duo::with(world);
        duo.server = ServerSession::new(duo.world.now(), *session, SessionLimits::default());
        // It waits for its first request until `expires_at`.
        duo.world.wait(3000);
        let now = duo.world.now();
        assert!(duo.server.handle_timeout(now).is_empty());
        assert_eq!(duo.server.is_over(), None);
        let intent = json!({"goal": "echo", "inputs": {"say": "hi"}});
        let request = |number: u32, seed| {
            text(
                &json!({"type": "request", "session_id": id, "intent": intent,
                "request_id": format!("7f1c0e0a-9a3b-4d7e-8f00-0000{number:08}"),
                "request_jws": sign_unnamed(&intent, seed)}),
            )
        };
        duo.start(&request(1, proves));
        let refusal = duo.refused(&request(2, other));
        assert_eq!(refusal.failure.code, ErrorCode::UnverifiedAgent);
    }
}

/// The web host of an agent that is pinned, or has shown a manifest before, gets around
/// neither by showing none.
#[test]
fn did_web_without_the_manifest_that_is_pinned_or_was_seen_is_refused() {
    let challenged = |prepare: &dyn Fn(&mut World, &str)| {
        let mut world = World::new();
        let (name, facts) = document_of_web(&[("old", 8), ("new", 9)]);
        world.known.insert(name.to_string(), facts);
        prepare(&mut world, &name.to_string());
        let mut config = world.client_config();
        config.server = name.clone();
        config.url = WEB_URL.into();
        let (client, _) = world.begin_with(CLIENT, config);
        let hash = a2a_wire::Digest::of(b"its policy").to_string();
        let challenge = json!({"type": "challenge", "server_did": name.to_string(),
            "nonce_b": canonical::base64url::encode(&std::array::from_fn::<u8, 32, _>(|n| n as u8)),
            "manifest_hash": hash, "public_keys": [jwk("old", 8), jwk("new", 9)],
            "policy_hash": hash, "timestamp": UNIX,
            "policy_signature": sign_unnamed(&json!({"policy_hash": hash}), 9)});
        world.challenged(client, &text(&challenge)).map(drop)
    };
    assert!(challenged(&|_, _| {}).is_ok());
    let key = ed25519_dalek::SigningKey::from_bytes(&[8; 32]);
    let first = a2a_wire::Digest::of(key.verifying_key().as_bytes());
    let pin = |manifest, keys: &[a2a_wire::Digest]| a2a_identity::Pins {
        manifest,
        keys: keys.to_vec(),
    };
    let hash = a2a_wire::Digest::of(b"its policy");
    for pins in [pin(Some(hash), &[]), pin(None, &[first])] {
        let pinned = |world: &mut World, name: &str| {
            world.memory.pins.insert(name.to_owned(), pins.clone());
        };
        assert!(challenged(&pinned).is_err());
    }
    let seen = a2a_identity::Seen {
        timestamp: a2a_wire::UnixSeconds(UNIX),
        hash,
    };
    let has_seen = |world: &mut World, name: &str| {
        world.memory.last.insert(name.to_owned(), seen);
    };
    assert!(challenged(&has_seen).is_err());
}

/// The same agent as a server: its document says with which keys it signs and where it is.
/// Proves A-4-5, A-5-12.
#[test]
fn did_web_with_a_document_alone_is_called() {
    let challenged = |url: &str, seed: u8| {
        let mut world = World::new();
        let (name, facts) = document_of_web(&[("old", 8), ("new", 9)]);
        world.known.insert(name.to_string(), facts);
        let mut config = world.client_config();
        config.server = name.clone();
        config.url = url.into();
        let (client, _) = world.begin_with(CLIENT, config);
        let hash = a2a_wire::Digest::of(b"its policy").to_string();
        let challenge = json!({"type": "challenge", "server_did": name.to_string(),
            "nonce_b": canonical::base64url::encode(&std::array::from_fn::<u8, 32, _>(|n| n as u8)),
            "manifest_hash": hash, "public_keys": [jwk("old", 8), jwk("new", 9)],
            "policy_hash": hash, "timestamp": UNIX,
            "policy_signature": sign_unnamed(&json!({"policy_hash": hash}), seed)});
        world.challenged(client, &text(&challenge)).map(drop)
    };
    for seed in [8, 9] {
        assert!(challenged(WEB_URL, seed).is_ok());
    }
    for (url, seed) in [
        (WEB_URL, MALLORY),
        ("https://mallory.example.com/a2a/handshake", 8),
    ] {
        let aborted = challenged(url, seed).unwrap_err();
        assert_eq!(aborted.failure.code, ErrorCode::UnverifiedAgent);
    }
}
