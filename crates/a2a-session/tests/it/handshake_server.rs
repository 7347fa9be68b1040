//! A client made by hand, and attacks on what a server demands (threats, sections A to D).

use a2a_session::*;
use a2a_wire::{ErrorCode, Kind, Reason, Received, Transcript, message_hash};
use serde_json::json;

use crate::adversary::{ACCEPT, PROOF, bad_forms, forge, refusal, refused, with_part};
use crate::support::{
    CLIENT, MALLORY, SERVER, UNIX, World, did, draft, established, json, jwk, sent, signed, text,
    tree,
};

/// A client that signs whatever it is told to.
pub(crate) struct HandMade {
    pub(crate) seed: u8,
    pub(crate) hello: Vec<u8>,
    transcript: Transcript,
    challenge: serde_json::Value,
}

impl HandMade {
    pub(crate) fn new(seed: u8, hello: Vec<u8>) -> Self {
        let mut transcript = Transcript::default();
        transcript.add_received(&Received::parse(&hello, 1 << 20).unwrap());
        Self {
            seed,
            hello,
            transcript,
            challenge: json!(null),
        }
    }

    pub(crate) fn prove(&mut self, challenge: &[u8]) -> Vec<u8> {
        self.prove_with(challenge, |_| {})
    }

    pub(crate) fn prove_with(
        &mut self,
        challenge: &[u8],
        change: impl FnOnce(&mut serde_json::Value),
    ) -> Vec<u8> {
        self.take(challenge);
        self.challenge = json(challenge);
        let hello = json(&self.hello);
        let mut payload = json!({
            "issuer": did(self.seed).to_string(), "audience": did(SERVER).to_string(),
            "timestamp": UNIX, "nonce_a": hello["nonce"], "nonce_b": self.challenge["nonce_b"],
            "server_manifest_hash": self.challenge["manifest_hash"],
            "client_manifest_hash": hello["manifest_hash"],
        });
        let mut message = json!({"type": "proof", "agent_did": hello["agent_did"]});
        payload["transcript_hash"] = json!(self.hash(Kind::Proof, &message));
        change(&mut payload);
        message["proof_jws"] = json!(forge::<PROOF>(&payload, self.seed));
        let message = text(&message);
        self.take(&message);
        message
    }

    pub(crate) fn accept(&mut self, policy: &[u8]) -> Vec<u8> {
        self.accept_with(policy, |_| {})
    }

    pub(crate) fn accept_with(
        &mut self,
        policy: &[u8],
        change: impl FnOnce(&mut serde_json::Value),
    ) -> Vec<u8> {
        self.take(policy);
        let hello = json(&self.hello);
        let hash = &json(policy)["policy_hash"];
        let [a, b, c] = [&hello["nonce"], &self.challenge["nonce_b"], hash];
        let [a, b, c] = [a, b, c].map(|text| text.as_str().unwrap());
        let commitment = a2a_wire::Digest::of(format!("{a}|{b}|{c}").as_bytes());
        let mut payload = json!({
            "issuer": did(self.seed).to_string(), "audience": did(SERVER).to_string(),
            "timestamp": UNIX, "policy_hash": hash, "session_commitment": commitment.to_string(),
        });
        let mut message =
            json!({"type": "accept_policy", "agent_did": hello["agent_did"], "policy_hash": hash});
        payload["transcript_hash"] = json!(self.hash(Kind::AcceptPolicy, &message));
        change(&mut payload);
        message["acceptance_jws"] = json!(forge::<ACCEPT>(&payload, self.seed));
        text(&message)
    }

    fn take(&mut self, message: &[u8]) {
        let received = Received::parse(message, 1 << 20).unwrap();
        self.transcript.add_received(&received);
    }

    fn hash(&self, kind: Kind, message: &serde_json::Value) -> String {
        let hash = message_hash(kind, &tree(message));
        self.transcript.hash_with(&hash).to_string()
    }
}

fn hand_made(world: &mut World) -> HandMade {
    let (_, hello) = world.begin(CLIENT);
    HandMade::new(CLIENT, hello)
}

/// Proves A-5-3.
#[test]
fn a_client_made_by_hand_gets_through() {
    let mut world = World::new();
    let mut client = hand_made(&mut world);
    let challenge = sent(world.serve(&client.hello));
    let policy = sent(world.serve(&client.prove(&challenge)));
    established(world.serve(&client.accept(&policy)));
}

/// Threats 43 to 46, 48, 50 and 51, for proof and acceptance: whatever is wrong with the form of a JWS,
/// its handshake is over; if its payload cannot be read, no state is touched.
#[test]
fn threat_43_44_45_46_48_50_51_forms_of_a_jws() {
    for form in bad_forms("a2a-proof+jws") {
        let mut world = World::new();
        let mut client = hand_made(&mut world);
        let challenge = sent(world.serve(&client.hello));
        let mut proof = json(&client.prove(&challenge));
        proof["proof_jws"] = json!(form(&proof["proof_jws"]));
        let code = ErrorCode::UnverifiedAgent;
        refused(&mut world, &text(&proof), code, Reason::VerificationFailed);
        assert_eq!(world.server.half_open(), 0);
    }
    for form in bad_forms("a2a-accept+jws") {
        let mut world = World::new();
        let mut client = hand_made(&mut world);
        let challenge = sent(world.serve(&client.hello));
        let policy = sent(world.serve(&client.prove(&challenge)));
        let mut accept = json(&client.accept(&policy));
        accept["acceptance_jws"] = json!(form(&accept["acceptance_jws"]));
        let code = ErrorCode::UnverifiedAgent;
        refused(&mut world, &text(&accept), code, Reason::VerificationFailed);
        assert_eq!(world.server.half_open(), 0);
    }
    // What cannot be read belongs to no handshake.
    let mut world = World::new();
    let mut client = hand_made(&mut world);
    let challenge = sent(world.serve(&client.hello));
    let proof = client.prove(&challenge);
    let value = json(&proof);
    let jws = &value["proof_jws"];
    let twice = r#"{"nonce_b":"x","nonce_b":"y"}"#;
    for wrong in [
        with_part(jws, 1, ""),
        with_part(jws, 1, "!"),
        with_part(jws, 1, &canonical::base64url::encode(twice.as_bytes())),
        "x".into(),
        "x".repeat(1 << 20),
    ] {
        let mut message = value.clone();
        message["proof_jws"] = json!(wrong);
        let refused = refusal(world.serve(&text(&message)));
        let expected = [ErrorCode::InvalidMessage, ErrorCode::PayloadTooLarge];
        assert!(
            expected.contains(&refused.failure.code),
            "{}",
            refused.failure
        );
    }
    sent(world.serve(&proof));
}

#[test]
fn threat_47_a_signature_made_for_another_place() {
    let mut world = World::new();
    let mut client = hand_made(&mut world);
    let challenge = sent(world.serve(&client.hello));
    let mut proof = json(&client.prove(&challenge));
    let payload = crate::adversary::payload(&proof["proof_jws"]);
    proof["proof_jws"] = json!(forge::<ACCEPT>(&payload, CLIENT));
    let code = ErrorCode::UnverifiedAgent;
    refused(&mut world, &text(&proof), code, Reason::VerificationFailed);
}

/// The right signature over the wrong words.
#[test]
fn threat_52_what_a_handshake_signs() {
    let other = did(MALLORY).to_string();
    type Change = Box<dyn Fn(&mut serde_json::Value)>;
    let changes: Vec<Change> = vec![
        Box::new({
            let other = other.clone();
            move |it| it["issuer"] = json!(other)
        }),
        Box::new(move |it| it["audience"] = json!(other)),
        Box::new(|it| drop(it.as_object_mut().unwrap().remove("issuer"))),
        Box::new(|it| drop(it.as_object_mut().unwrap().remove("audience"))),
        Box::new(|it| drop(it.as_object_mut().unwrap().remove("transcript_hash"))),
    ];
    for change in &changes {
        let mut world = World::new();
        let mut client = hand_made(&mut world);
        let challenge = sent(world.serve(&client.hello));
        let proof = client.prove_with(&challenge, change);
        refused(&mut world, &proof, ErrorCode::HandshakeFailed, None);

        let mut client = hand_made(&mut world);
        let challenge = sent(world.serve(&client.hello));
        let policy = sent(world.serve(&client.prove(&challenge)));
        // The nonce of a proven handshake is remembered; that it was tried is all that stays.
        let accept = client.accept_with(&policy, change);
        refused(&mut world, &accept, ErrorCode::HandshakeFailed, None);
        world.is_well();
    }
}

#[test]
fn threat_53_keys_of_hello() {
    let mut world = World::new();
    let (_, hello) = world.begin(CLIENT);
    let good = jwk("k", CLIENT);
    let changed = |change: fn(&mut serde_json::Value)| {
        let mut key = good.clone();
        change(&mut key);
        json!([key])
    };
    let many: Vec<_> = (1..=11)
        .map(|seed| jwk(&format!("k{seed}"), seed))
        .collect();
    for keys in [
        json!([]),
        json!(many),
        json!([jwk("k", CLIENT), jwk("l", CLIENT)]),
        json!([jwk("k", CLIENT), jwk("k", 9)]),
        changed(|key| key["kty"] = json!("RSA")),
        changed(|key| key["crv"] = json!("X25519")),
        changed(|key| key["x"] = json!("AAAA")),
        changed(|key| key["key"] = json!(canonical::base64url::encode(&[1; 33]))),
        changed(|key| key["d"] = json!("c2VjcmV0LW1hcmtlcg")),
    ] {
        let hello = crate::adversary::edit(&hello, |it| it["public_keys"] = keys);
        let code = ErrorCode::InvalidManifest;
        let refused = refused(&mut world, &hello, code, Reason::ManifestInvalid);
        assert!(
            !format!("{refused:?}").contains("c2VjcmV0"),
            "never the value"
        );
    }
}

#[test]
fn threat_54_a_deprecated_key_proves_until_its_end() {
    for (end, accepted) in [(UNIX + 1, true), (UNIX, false)] {
        let mut world = World::new();
        let mut old = jwk("old", 9);
        old["status"] = json!("deprecated");
        old["expires_at"] = json!(end);
        let draft = draft(
            &did(CLIENT).to_string(),
            &[jwk("k", CLIENT), old],
            "a.example.com",
        );
        let manifest = signed(&draft, "k", CLIENT, UNIX - 100);
        let own = Own::new(manifest, "old".parse().unwrap(), crate::support::key(9)).unwrap();
        let config = world.client_config();
        let now = world.now();
        let begun = ExpectChallenge::begin(own.into(), config.into(), now, &mut world.random);
        let (client, hello) = begun.unwrap();
        let challenge = sent(world.serve(&hello));
        let (_, proof) = world.challenged(client, &challenge).unwrap();
        match accepted {
            true => drop(sent(world.serve(&proof))),
            false => {
                let code = ErrorCode::UnverifiedAgent;
                refused(&mut world, &proof, code, Reason::VerificationFailed);
            }
        }
    }
}

#[test]
fn threat_67_other_spellings_of_a_key() {
    let mut world = World::new();
    let (_, hello) = world.begin(CLIENT);
    let good = did(CLIENT).to_string();
    for name in [
        format!("{good}#k"),
        format!("{good} "),
        good.replace("z6Mk", "1z6Mk"),
        "did:key:z6LSbysY2xFMRpGMhb7tFTLMpeuPRaqaWM1yECx2AtzE3KCc".into(),
        "did:example:x".into(),
    ] {
        let hello = crate::adversary::edit(&hello, |it| it["agent_did"] = json!(name));
        let refused = refusal(world.serve(&hello));
        let expected = [ErrorCode::UnverifiedAgent, ErrorCode::InvalidMessage];
        assert!(expected.contains(&refused.failure.code), "{name}");
    }
}

#[test]
fn threat_68_69_70_71_72_manifests_that_are_sent_along() {
    let name = did(CLIENT).to_string();
    let plain = draft(&name, &[jwk("k", CLIENT)], "a.example.com");
    let value = |tree| serde_json::to_value(canonical::Value::Object(tree)).unwrap();
    let mut expired = plain.clone();
    expired["expires_at"] = json!(UNIX);
    let mut cases = vec![
        (
            value(signed(&expired, "k", CLIENT, UNIX - 9)),
            Reason::ManifestExpired,
        ),
        (
            value(signed(&plain, "k", CLIENT, UNIX + 301)),
            Reason::ManifestInvalid,
        ),
        (
            value(signed(
                &plain,
                "k",
                CLIENT,
                UNIX - a2a_identity::MAX_AGE - 1,
            )),
            Reason::ManifestInvalid,
        ),
    ];
    let mut wrong_hash = value(signed(&plain, "k", CLIENT, UNIX));
    wrong_hash["manifest_hash"] = json!(a2a_wire::Digest::of(b"other").to_string());
    cases.push((wrong_hash, Reason::ManifestInvalid));
    for (manifest, reason) in cases {
        let mut world = World::new();
        let hello = greeting(&mut world, &manifest);
        refused(&mut world, &hello, ErrorCode::InvalidManifest, reason);
    }
    // Another root signs.
    let mut world = World::new();
    let forged = value(signed(&plain, "k", MALLORY, UNIX));
    let hello = greeting(&mut world, &forged);
    refused(
        &mut world,
        &hello,
        ErrorCode::UnverifiedAgent,
        Reason::VerificationFailed,
    );
    // Rollback and pins.
    let good = value(signed(&plain, "k", CLIENT, UNIX - 50));
    let hello = greeting(&mut world, &good);
    let newer = a2a_identity::Seen {
        hash: a2a_wire::Digest::of(b"newer"),
        timestamp: a2a_wire::UnixSeconds(UNIX - 50),
    };
    world.book.last.insert(name.clone(), newer);
    refused(
        &mut world,
        &hello,
        ErrorCode::InvalidManifest,
        Reason::ManifestRollback,
    );
    world.book.last.clear();
    let pins = a2a_identity::Pins {
        manifest: Some(a2a_wire::Digest::of(b"pinned")),
        keys: Vec::new(),
    };
    world.book.pins.insert(name, pins);
    refused(
        &mut world,
        &hello,
        ErrorCode::InvalidManifest,
        Reason::PinMismatch,
    );
    world.book.pins.clear();
    sent(world.serve(&hello));
}

/// HELLO of the usual client with another manifest.
fn greeting(world: &mut World, manifest: &serde_json::Value) -> Vec<u8> {
    let (_, hello) = world.begin(CLIENT);
    let hash = tree(manifest).digest_without(a2a_wire::NOT_HASHED);
    crate::adversary::edit(&hello, |it| {
        it["manifest_hash"] = json!(hash.to_string());
        it["extensions"]["manifest"] = manifest.clone();
    })
}

#[test]
fn threat_74_a_manifest_is_required() {
    let mut world = World::with(|config| config.trust.require_manifest = RequireManifest::Yes);
    let mut config = world.client_config();
    config.show_manifest = ShowManifest::ByHash;
    let (client, hello) = world.begin_with(CLIENT, config);
    let challenge = sent(world.serve(&hello));
    let (_, proof) = world.challenged(client, &challenge).unwrap();
    let code = ErrorCode::InvalidManifest;
    refused(&mut world, &proof, code, Reason::ManifestRequired);
    // Repeated with it.
    let shaken = world.shake(CLIENT);
    assert!(shaken.server.peer().seen().is_some());
    // Without the demand the key alone is enough, and that is known.
    let mut world = World::new();
    let mut config = world.client_config();
    config.show_manifest = ShowManifest::ByHash;
    let shaken = world.shake_with(CLIENT, config);
    assert!(shaken.server.peer().seen().is_none());
}

#[test]
fn threat_89_a_trust_level_that_is_not_reached() {
    let level = a2a_identity::TrustLevel::Verified;
    let mut world = World::with(|config| config.trust.min_trust_level = level);
    let mut client = hand_made(&mut world);
    let challenge = sent(world.serve(&client.hello));
    let proof = client.prove(&challenge);
    refused(
        &mut world,
        &proof,
        ErrorCode::UnverifiedAgent,
        Reason::TrustLevel,
    );
}

/// §8.2, PROOF 8: who was blocked since HELLO is told so, having proven who it is.
#[test]
fn threat_117_blocked_agents_get_no_session() {
    let mut world = World::new();
    let mut client = hand_made(&mut world);
    let challenge = sent(world.serve(&client.hello));
    world.book.blocked.insert(did(CLIENT).to_string());
    let proof = client.prove(&challenge);
    refused(
        &mut world,
        &proof,
        ErrorCode::PolicyViolation,
        Reason::AgentBlocked,
    );
    let (_, hello) = world.begin(CLIENT);
    refused(
        &mut world,
        &hello,
        ErrorCode::UnverifiedAgent,
        Reason::VerificationFailed,
    );
    world.is_well();
}
