//! Attacks on the handshake that the server must stop (threats, section A).

use a2a_session::*;
use a2a_wire::{ErrorCode, Reason};
use serde_json::json;

use crate::adversary::{ACCEPT, PROOF, edit, forge, payload, refusal, refused, resign};
use crate::support::{
    Book, CLIENT, MALLORY, SERVER, Shaken, World, did, draft, established, json, jwk, manifest,
    sent, signed,
};

#[test]
fn threat_01_a_victims_name_with_another_key() {
    let mut world = World::new();
    let (_, hello) = world.begin(CLIENT);
    let hello = edit(&hello, |it| {
        it["public_keys"] = json!([jwk("k", MALLORY)]);
        it["extensions"].as_object_mut().unwrap().remove("manifest");
    });
    let code = ErrorCode::UnverifiedAgent;
    refused(&mut world, &hello, code, Reason::VerificationFailed);
    assert_eq!(world.server.half_open(), 0);
    world.is_well();
}

/// Proves A-5-16, A-9-1.
#[test]
fn threat_02_a_victims_name_and_key_without_its_secret() {
    let mut world = World::new();
    let (client, hello) = world.begin(CLIENT);
    let challenge = sent(world.serve(&hello));
    let (_, proof) = world.challenged(client, &challenge).unwrap();
    let forged = resign::<PROOF>(&proof, MALLORY, |_| {});
    let resolutions = world.resolutions;
    let code = ErrorCode::UnverifiedAgent;
    refused(&mut world, &forged, code, Reason::VerificationFailed);
    assert_eq!(world.resolutions, resolutions);
    // The handshake is gone: one attempt each.
    refused(&mut world, &proof, ErrorCode::HandshakeTimeout, None);
    assert_eq!(world.server.half_open(), 0);
    world.is_well();
}

/// A did:web agent with the keys `k` of one seed.
fn web_agent(seed: u8) -> (a2a_identity::Did, std::sync::Arc<Own>, Facts) {
    let did: a2a_identity::Did = "did:web:web.example.com".parse().unwrap();
    let draft = draft(&did.to_string(), &[jwk("k", seed)], "web.example.com");
    let manifest = signed(&draft, "k", seed, crate::support::UNIX - 100);
    let kid: a2a_wire::Kid = "k".parse().unwrap();
    let key = crate::support::key(seed);
    let keys = a2a_identity::KeySet::new(vec![a2a_identity::Key {
        kid: kid.clone(),
        key: key.verifying_key(),
        status: a2a_identity::KeyStatus::Active,
        expires_at: None,
    }]);
    let root = a2a_identity::RootKeys::Document(keys.unwrap());
    let now = a2a_wire::UnixSeconds(crate::support::UNIX);
    let verified = crate::support::verified(&manifest, &did, &root, now);
    let own = Own::new(manifest, kid, key).unwrap();
    let facts = Facts {
        endpoints: Vec::new(),
        root,
        manifest: Some(verified),
    };
    (did, std::sync::Arc::new(own), facts)
}

/// Begins and goes on until PROOF is there, for any owner.
fn prove(world: &mut World, own: std::sync::Arc<Own>, show: ShowManifest) -> Vec<u8> {
    let mut config = world.client_config();
    config.show_manifest = show;
    let now = world.now();
    let config = std::sync::Arc::new(config);
    let begun = ExpectChallenge::begin(own, config, now, &mut world.random);
    let (client, hello) = begun.unwrap();
    let challenge = sent(world.serve(&hello));
    world.challenged(client, &challenge).unwrap().1
}

#[test]
fn a_did_web_is_resolved_after_its_proof() {
    for show in [ShowManifest::Inline, ShowManifest::ByHash] {
        let mut world = World::new();
        let (did, own, facts) = web_agent(5);
        world.known.insert(did.to_string(), facts);
        let proof = prove(&mut world, own, show);
        let before = world.resolutions;
        sent(world.serve(&proof));
        assert_eq!(world.resolutions, before + 1);
    }
}

#[test]
fn threat_03_another_key_under_a_known_kid() {
    let mut world = World::new();
    let (did, _, facts) = web_agent(5);
    world.known.insert(did.to_string(), facts);
    let (_, attacker, _) = web_agent(MALLORY);
    let proof = prove(&mut world, attacker, ShowManifest::ByHash);
    let before = world.resolutions;
    let refused = refusal(world.serve(&proof));
    // Its manifest is not the one that is published, so it is looked up once more.
    assert_eq!(refused.failure.code, ErrorCode::InvalidManifest);
    assert_eq!(world.resolutions - before, 2);
    assert_eq!(world.server.half_open(), 0);

    // The right hash, and the attacker's key under the victim's kid.
    let (_, victim, facts) = web_agent(5);
    world.known.insert(did.to_string(), facts);
    let config = world.client_config();
    let config = std::sync::Arc::new(ClientConfig {
        show_manifest: ShowManifest::ByHash,
        ..config
    });
    let now = world.now();
    let begun = ExpectChallenge::begin(victim, config, now, &mut world.random);
    let (_, hello) = begun.unwrap();
    let hello = edit(&hello, |it| it["public_keys"] = json!([jwk("k", MALLORY)]));
    let challenge = json(&sent(world.serve(&hello)));
    let hash = transcript(
        &[&hello, &challenge.to_string().into_bytes()],
        "proof",
        &did,
    );
    let proof = json!({"type": "proof", "agent_did": did.to_string(), "proof_jws": forge::<PROOF>(&json!({
        "issuer": did.to_string(), "audience": crate::support::did(SERVER).to_string(),
        "timestamp": crate::support::UNIX, "nonce_a": json(&hello)["nonce"],
        "nonce_b": challenge["nonce_b"], "server_manifest_hash": challenge["manifest_hash"],
        "client_manifest_hash": json(&hello)["manifest_hash"], "transcript_hash": hash,
    }), MALLORY)});
    let refused = refusal(world.serve(proof.to_string().as_bytes()));
    assert_eq!(refused.failure.code, ErrorCode::UnverifiedAgent);
    assert!(refused.proven && refused.failure.cause.contains("verified set"));
}

/// `transcript_hash` of a PROOF after these messages.
fn transcript(messages: &[&[u8]], kind: &str, did: &a2a_identity::Did) -> String {
    let mut transcript = a2a_wire::Transcript::default();
    for message in messages {
        let received = a2a_wire::Received::parse(message, 1 << 20).unwrap();
        transcript.add_received(&received);
    }
    let proof = crate::support::tree(&json!({"type": kind, "agent_did": did.to_string()}));
    let hash = a2a_wire::message_hash(a2a_wire::Kind::Proof, &proof);
    transcript.hash_with(&hash).to_string()
}

#[test]
fn threat_04_the_real_key_and_one_more() {
    let mut world = World::new();
    let (did, own, facts) = web_agent(5);
    world.known.insert(did.to_string(), facts);
    let mut config = world.client_config();
    config.show_manifest = ShowManifest::ByHash;
    let now = world.now();
    let begun = ExpectChallenge::begin(own, config.into(), now, &mut world.random);
    let (_, hello) = begun.unwrap();
    let hello = edit(&hello, |it| {
        it["public_keys"] = json!([jwk("k", 5), jwk("extra", MALLORY)]);
    });
    let challenge = sent(world.serve(&hello));
    let value = json(&challenge);
    let proof = json!({"type": "proof", "agent_did": did.to_string(), "proof_jws": forge::<PROOF>(&json!({
        "issuer": did.to_string(), "audience": crate::support::did(SERVER).to_string(),
        "timestamp": crate::support::UNIX, "nonce_a": json(&hello)["nonce"],
        "nonce_b": value["nonce_b"], "server_manifest_hash": value["manifest_hash"],
        "client_manifest_hash": json(&hello)["manifest_hash"],
        "transcript_hash": transcript(&[&hello, &challenge], "proof", &did),
    }), 5)});
    let refused = refusal(world.serve(proof.to_string().as_bytes()));
    assert_eq!(refused.failure.code, ErrorCode::UnverifiedAgent);
    world.is_well();
}

#[test]
fn threat_10_the_servers_own_name() {
    let mut world = World::new();
    let (_, hello) = world.begin(SERVER);
    let code = ErrorCode::UnverifiedAgent;
    refused(&mut world, &hello, code, Reason::VerificationFailed);
}

/// Proves A-9-3.
#[test]
fn threat_11_a_nonce_is_used_once() {
    let mut world = World::new();
    let (client, hello) = world.begin(CLIENT);
    let challenge = sent(world.serve(&hello));
    let code = ErrorCode::ReplayDetected;
    refused(&mut world, &hello, code.clone(), Reason::NonceReused);
    // The pending one is unharmed.
    let (client, proof) = world.challenged(client, &challenge).unwrap();
    let policy = sent(world.serve(&proof));
    let (_, accept) = client.handle_message(world.now(), &policy).unwrap();
    established(world.serve(&accept));
    let again = |world: &World| edit(&hello, |it| it["timestamp"] = json!(world.now().unix.0));
    for _ in 0..3 {
        let hello = again(&world);
        refused(&mut world, &hello, code.clone(), Reason::NonceReused);
        world.wait(209);
    }
    world.wait(3);
    sent(world.serve(&again(&world)));
}

/// Proves A-5-8.
#[test]
fn threat_12_nonces_have_one_form() {
    let mut world = World::new();
    let (_, hello) = world.begin(CLIENT);
    let good = json(&hello)["nonce"].as_str().unwrap().to_owned();
    let of = |bytes: &[u8]| canonical::base64url::encode(bytes);
    for nonce in [
        of(&[1; 31]),
        of(&std::array::from_fn::<u8, 65, _>(|n| n as u8)),
        of(&[0; 32]),
        format!("{good}="),
        format!("{}+", &good[..42]),
        format!("{}/", &good[..42]),
        format!("{}9", &good[..42]),
    ] {
        let hello = edit(&hello, |it| it["nonce"] = json!(nonce));
        refused(
            &mut world,
            &hello,
            ErrorCode::InvalidMessage,
            Reason::BadField,
        );
    }
}

#[test]
fn threat_13_14_a_state_is_taken_once() {
    let mut world = World::new();
    let (client, hello) = world.begin(CLIENT);
    let challenge = sent(world.serve(&hello));
    let (client, proof) = world.challenged(client, &challenge).unwrap();
    let policy = sent(world.serve(&proof));
    for _ in 0..49 {
        refused(&mut world, &proof, ErrorCode::HandshakeTimeout, None);
    }
    let (client, accept) = client.handle_message(world.now(), &policy).unwrap();
    let (_, session) = established(world.serve(&accept));
    for _ in 0..49 {
        refused(&mut world, &accept, ErrorCode::HandshakeTimeout, None);
    }
    client.handle_message(world.now(), &session).unwrap();
    assert_eq!(world.server.sessions(), 1);
}

/// While the client is looked up, nobody else can claim its handshake.
#[test]
fn threat_14_a_state_being_looked_at_is_taken() {
    let mut world = World::new();
    let (did, own, facts) = web_agent(5);
    world.known.insert(did.to_string(), facts.clone());
    let proof = prove(&mut world, own, ShowManifest::ByHash);
    let now = world.now();
    let source = world.source;
    let reply = world
        .server
        .handle_message(now, source, &proof, &world.book, &mut world.random);
    let Ok(Reply::Resolve(proving)) = reply else {
        panic!("{reply:?}");
    };
    refused(&mut world, &proof, ErrorCode::HandshakeTimeout, None);
    assert_eq!(world.server.half_open(), 1);
    let found = Found::Peer(Ok(facts));
    let book = Book::default();
    sent(world.server.handle_found(now, proving, found, &book));
    assert_eq!(world.server.half_open(), 1);
}

/// §8.4: a PROOF that came in time is looked at within the whole, not within its own time.
#[test]
fn threat_32_finding_out_who_a_client_is_takes_what_is_left() {
    for (wait, in_time) in [(10, true), (11, false)] {
        let mut world = World::new();
        let (did, own, facts) = web_agent(5);
        world.known.insert(did.to_string(), facts.clone());
        let proof = prove(&mut world, own, ShowManifest::ByHash);
        world.wait(19);
        let (now, source) = (world.now(), world.source);
        let reply =
            world
                .server
                .handle_message(now, source, &proof, &world.book, &mut world.random);
        let Ok(Reply::Resolve(proving)) = reply else {
            panic!("{reply:?}");
        };
        assert_eq!(
            proving.deadline(),
            world.time + std::time::Duration::from_secs(11)
        );
        world.wait(wait);
        let found = Found::Peer(Ok(facts));
        let book = Book::default();
        let reply = world
            .server
            .handle_found(world.now(), proving, found, &book);
        match in_time {
            true => drop(sent(reply)),
            false => {
                assert_eq!(refusal(reply).failure.code, ErrorCode::HandshakeTimeout);
                assert_eq!(world.server.half_open(), 0);
            }
        }
    }
}

/// Proves A-5-9, A-5-13, A-5-17.
#[test]
fn threat_15_nonces_of_two_handshakes() {
    let mut world = World::new();
    let (first, hello) = world.begin(CLIENT);
    let challenge = sent(world.serve(&hello));
    let (first, first_proof) = world.challenged(first, &challenge).unwrap();
    let (second, hello) = world.begin(CLIENT);
    let challenge = sent(world.serve(&hello));
    let (_, second_proof) = world.challenged(second, &challenge).unwrap();
    let nonce_a = payload(&json(&first_proof)["proof_jws"])["nonce_a"].clone();
    let mixed = resign::<PROOF>(&second_proof, CLIENT, |it| it["nonce_a"] = nonce_a);
    let code = ErrorCode::HandshakeFailed;
    refused(&mut world, &mixed, code, Reason::NonceMismatch);
    let policy = sent(world.serve(&first_proof));
    first.handle_message(world.now(), &policy).unwrap();
}

/// Whatever a hop changes in HELLO, the server notices at PROOF, if the client did not before.
#[test]
fn threat_16_20_a_hop_changes_hello() {
    type Change = fn(&mut serde_json::Value);
    let changes: [Change; 4] = [
        |it| it["user_agent"] = json!("other/1.0"),
        |it| it["extensions"]["features"] = json!(["stream"]),
        |it| it["unknown"] = json!(1),
        |it| it["supported_versions"] = json!(["1.0", "0.9"]),
    ];
    for change in changes {
        let mut world = World::new();
        let (client, hello) = world.begin(CLIENT);
        let changed = edit(&hello, change);
        let challenge = sent(world.serve(&changed));
        let aborted = world.challenged(client, &challenge).unwrap_err();
        assert_eq!(aborted.failure.code, ErrorCode::UnverifiedAgent);

        // A client that would go on regardless.
        let mut hash = a2a_wire::Transcript::default();
        for message in [&hello, &challenge] {
            hash.add_received(&a2a_wire::Received::parse(message, 1 << 20).unwrap());
        }
        let (hello, value) = (json(&hello), json(&challenge));
        let name = did(CLIENT).to_string();
        let proof = crate::support::tree(&json!({"type": "proof", "agent_did": name}));
        let proof_hash = a2a_wire::message_hash(a2a_wire::Kind::Proof, &proof);
        let payload = json!({
            "issuer": name, "audience": did(SERVER).to_string(), "timestamp": crate::support::UNIX,
            "nonce_a": hello["nonce"], "nonce_b": value["nonce_b"],
            "server_manifest_hash": value["manifest_hash"],
            "client_manifest_hash": hello["manifest_hash"],
            "transcript_hash": hash.hash_with(&proof_hash).to_string(),
        });
        let proof = json!({"type": "proof", "agent_did": name, "proof_jws": forge::<PROOF>(&payload, CLIENT)});
        let code = ErrorCode::HandshakeFailed;
        let proof = proof.to_string().into_bytes();
        refused(&mut world, &proof, code, Reason::TranscriptMismatch);
        world.is_well();
    }
}

/// Goes on until ACCEPT_POLICY is there.
fn accept(world: &mut World, seed: u8) -> (Box<ExpectSession>, Vec<u8>) {
    let (client, hello) = world.begin(seed);
    let challenge = sent(world.serve(&hello));
    let (client, proof) = world.challenged(client, &challenge).unwrap();
    let policy = sent(world.serve(&proof));
    client.handle_message(world.now(), &policy).unwrap()
}

/// Proves A-5-24, A-5-26.
#[test]
fn threat_18_the_commitment_of_another() {
    let mut world = World::new();
    let (_, first) = accept(&mut world, CLIENT);
    let (_, second) = accept(&mut world, MALLORY);
    // An unknown commitment.
    let other = resign::<ACCEPT>(&first, CLIENT, |it| {
        it["session_commitment"] = json!(a2a_wire::Digest::of(b"other").to_string());
    });
    let code = ErrorCode::HandshakeFailed;
    refused(&mut world, &other, code, Reason::NonceMismatch);
    // The commitment of the victim, signed by someone else under his own name.
    let commitment = payload(&json(&first)["acceptance_jws"])["session_commitment"].clone();
    let stolen = resign::<ACCEPT>(&second, MALLORY, |it| it["session_commitment"] = commitment);
    refused(&mut world, &stolen, ErrorCode::HandshakeFailed, None);
    // And under the victim's name.
    let (_, third) = accept(&mut world, CLIENT);
    let forged = resign::<ACCEPT>(&third, MALLORY, |_| {});
    refused(
        &mut world,
        &forged,
        ErrorCode::UnverifiedAgent,
        Reason::VerificationFailed,
    );
    world.is_well();
}

#[test]
fn threat_19_out_of_order() {
    let mut world = World::new();
    let Shaken { messages, .. } = world.shake(CLIENT);
    let mut fresh = World::new();
    let [hello, challenge, proof, policy, accept, session] = messages;
    refused(&mut fresh, &accept, ErrorCode::HandshakeTimeout, None);
    refused(&mut fresh, &proof, ErrorCode::HandshakeTimeout, None);
    let request = br#"{"type":"request","session_id":"x","request_id":"y"}"#.to_vec();
    let unknown = br#"{"type":"salute"}"#.to_vec();
    let code = ErrorCode::InvalidMessage;
    for wrong in [challenge, policy, session, request, unknown] {
        refused(&mut fresh, &wrong, code.clone(), Reason::UnknownType);
    }
    let now = fresh.now();
    let refusal = Incoming::read(now, &hello, 1 << 20, None).unwrap_err();
    assert_eq!(refusal.failure.code, code);
    fresh.is_well();
}

/// Proves A-8-7, A-10-1 to A-10-3.
#[test]
fn threat_21_versions() {
    let mut world = World::new();
    let (_, hello) = world.begin(CLIENT);
    for version in ["2.0", "1", "1.0 "] {
        let wrong = edit(&hello, |it| {
            it["protocol_version"] = json!(version);
            it["supported_versions"] = json!([version]);
        });
        let code = ErrorCode::ProtocolVersionUnsupported;
        let refused = refused(&mut world, &wrong, code, None);
        let error = json(&refused.message);
        assert_eq!(error["details"]["supported_versions"], json!(["1.0"]));
    }
    let number = edit(&hello, |it| it["protocol_version"] = json!(1.0));
    refused(
        &mut world,
        &number,
        ErrorCode::InvalidMessage,
        Reason::BadField,
    );
    let inconsistent = edit(&hello, |it| it["supported_versions"] = json!(["0.9"]));
    refused(
        &mut world,
        &inconsistent,
        ErrorCode::InvalidMessage,
        Reason::BadField,
    );
    // The highest common one is taken.
    let several = edit(&hello, |it| {
        it["protocol_version"] = json!("2.0");
        it["supported_versions"] = json!(["2.0", "1.0"]);
    });
    let challenge = json(&sent(world.serve(&several)));
    assert_eq!(challenge["protocol_version"], "1.0");
}

/// Proves A-5-21.
#[test]
fn threat_26_a_client_that_gives_up() {
    let mut world = World::new();
    let mut config = world.client_config();
    config.demands.max_retention = policy::Retention::None;
    let (client, hello) = world.begin_with(CLIENT, config);
    let challenge = sent(world.serve(&hello));
    let (client, proof) = world.challenged(client, &challenge).unwrap();
    let policy = sent(world.serve(&proof));
    let aborted = client.handle_message(world.now(), &policy).unwrap_err();
    assert_eq!(aborted.failure.code, ErrorCode::PolicyViolation);
    assert_eq!(aborted.failure.reason, Some(Reason::PolicyUnacceptable));
    assert_eq!(world.server.half_open(), 1);
    let reply = world.serve(&aborted.message.unwrap());
    assert!(matches!(
        reply,
        Ok(Reply::GivenUp(ErrorCode::PolicyViolation))
    ));
    assert_eq!(world.server.half_open(), 0, "dropped at once");
    // A stranger knows no nonce to drop anything with.
    let (_, hello) = world.begin(CLIENT);
    sent(world.serve(&hello));
    let stranger = br#"{"type":"error","error_code":"X","extensions":{"nonce_b":"guess"}}"#;
    assert!(world.serve(stranger).is_ok());
    assert_eq!(world.server.half_open(), 1);
}

/// Proves A-5-25.
#[test]
fn threat_28_hashes_of_the_policy_that_differ() {
    let other = json!(a2a_wire::Digest::of(b"other").to_string());
    let mut world = World::new();
    let (_, message) = accept(&mut world, CLIENT);
    let outer = edit(&message, |it| it["policy_hash"] = other.clone());
    let code = ErrorCode::HandshakeFailed;
    refused(&mut world, &outer, code.clone(), Reason::PolicyMismatch);
    let (_, message) = accept(&mut world, CLIENT);
    let signed = resign::<ACCEPT>(&message, CLIENT, |it| it["policy_hash"] = other.clone());
    refused(&mut world, &signed, code.clone(), Reason::PolicyMismatch);
    let (_, message) = accept(&mut world, CLIENT);
    let both = resign::<ACCEPT>(&message, CLIENT, |it| it["policy_hash"] = other.clone());
    let both = edit(&both, |it| it["policy_hash"] = other.clone());
    refused(&mut world, &both, code, Reason::PolicyMismatch);
    world.is_well();
}

/// Proves A-2-11.
#[test]
fn threat_29_nobody_chooses_a_session_id() {
    let mut world = World::new();
    let chosen = "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE";
    let (_, hello) = world.begin(CLIENT);
    let fixed = edit(&hello, |it| it["session_id"] = json!(chosen));
    sent(world.serve(&fixed));
    let (_, accept) = accept(&mut world, CLIENT);
    let fixed = edit(&accept, |it| it["session_id"] = json!(chosen));
    // The member counts for the transcript, which the client did not sign.
    let code = ErrorCode::HandshakeFailed;
    refused(&mut world, &fixed, code, Reason::TranscriptMismatch);
    let shaken = world.shake(CLIENT);
    assert_ne!(shaken.server.session_id().as_str(), chosen);
}

/// Proves A-5-7.
#[test]
fn threat_33_timestamps() {
    for (skew, accepted) in [(300, true), (-300, true), (301, false), (-301, false)] {
        let mut world = World::new();
        let (_, hello) = world.begin(CLIENT);
        let hello = edit(&hello, |it| {
            it["timestamp"] = json!(crate::support::UNIX + skew);
        });
        match accepted {
            true => drop(sent(world.serve(&hello))),
            false => {
                let code = ErrorCode::HandshakeFailed;
                let refused = refused(&mut world, &hello, code, Reason::TimestampSkew);
                let told = &json(&refused.message)["details"]["server_time"];
                assert_eq!(*told, json!(crate::support::UNIX));
            }
        }
    }
    let mut world = World::new();
    let (_, hello) = world.begin(CLIENT);
    for wrong in [crate::support::UNIX * 1000, -crate::support::UNIX, 0] {
        let hello = edit(&hello, |it| it["timestamp"] = json!(wrong));
        refused(
            &mut world,
            &hello,
            ErrorCode::HandshakeFailed,
            Reason::TimestampSkew,
        );
    }
    for wrong in [json!(1.5), json!("1770000000"), json!(true), json!(null)] {
        let hello = edit(&hello, |it| it["timestamp"] = wrong);
        refused(
            &mut world,
            &hello,
            ErrorCode::InvalidMessage,
            Reason::BadField,
        );
    }
    // The signed one counts too.
    let (client, hello) = world.begin(CLIENT);
    let challenge = sent(world.serve(&hello));
    let (_, proof) = world.challenged(client, &challenge).unwrap();
    let late = resign::<PROOF>(&proof, CLIENT, |it| {
        it["timestamp"] = json!(crate::support::UNIX + 301);
    });
    refused(
        &mut world,
        &late,
        ErrorCode::HandshakeFailed,
        Reason::TimestampSkew,
    );
}

#[test]
fn threat_39_baseline_peers_that_are_not_served() {
    let mut world = World::new();
    let (_, hello) = world.begin(CLIENT);
    let bare = edit(&hello, |it| {
        it.as_object_mut().unwrap().remove("extensions");
    });
    let code = ErrorCode::UnverifiedAgent;
    world.book.baseline = Baseline::Refuse;
    refused(&mut world, &bare, code.clone(), Reason::BaselineNotAllowed);
    for setting in [Baseline::Accept, Baseline::Bound] {
        world.book.baseline = setting;
        world.book.profile.insert(did(CLIENT).to_string());
        refused(&mut world, &bare, code.clone(), Reason::BaselineNotAllowed);
    }
    world.book.profile.clear();
    sent(world.serve(&bare));
}

/// Proves A-2-23.
#[test]
fn threat_40_encryption_that_is_required() {
    let mut world = World::new();
    let policy = json!({"require_encryption": true});
    let policy = policy::Policy::read(&crate::support::tree(&policy), 1 << 26).unwrap();
    world.book.policy = policy.complete().unwrap();
    let (_, hello) = world.begin(CLIENT);
    let without = edit(&hello, |it| {
        it["extensions"].as_object_mut().unwrap().remove("kx");
    });
    let code = ErrorCode::PolicyViolation;
    refused(&mut world, &without, code, Reason::EncryptionRequired);
    for (alg, key) in [("X25519", [1; 31].as_slice()), ("P-256", &[1; 32])] {
        let key = canonical::base64url::encode(key);
        let wrong = edit(&hello, |it| {
            it["extensions"]["kx"] = json!({"alg": alg, "key": key})
        });
        refused(
            &mut world,
            &wrong,
            ErrorCode::InvalidMessage,
            Reason::BadField,
        );
    }
    assert!(world.shake(CLIENT).server.is_encrypted());
}

/// A client that answers CHALLENGE as if nothing were wrong with its own half.
#[test]
fn threat_41_a_point_of_low_order() {
    let mut world = World::new();
    let (_, hello) = world.begin(CLIENT);
    let low = canonical::base64url::encode(&[0; 32]);
    let hello = edit(&hello, |it| it["extensions"]["kx"]["key"] = json!(low));
    let mut client = crate::handshake_server::HandMade::new(CLIENT, hello);
    let challenge = sent(world.serve(&client.hello));
    let proof = client.prove(&challenge);
    let policy = sent(world.serve(&proof));
    let accept = client.accept(&policy);
    refused(&mut world, &accept, ErrorCode::HandshakeFailed, None);
    assert_eq!((world.server.sessions(), world.server.half_open()), (0, 0));
}

#[test]
fn threat_73_another_manifest_than_the_one_named() {
    let mut world = World::new();
    let (_, hello) = world.begin(CLIENT);
    let other = serde_json::to_value(canonical::Value::Object(manifest(MALLORY))).unwrap();
    let hello = edit(&hello, |it| it["extensions"]["manifest"] = other);
    let code = ErrorCode::InvalidManifest;
    refused(&mut world, &hello, code, Reason::ManifestInvalid);
}
