//! Peers that speak the base specification alone (profile §14).

use std::sync::Arc;

use a2a_identity::RootKeys;
use a2a_session::*;
use a2a_wire::{ErrorCode, Reason, UnixSeconds};
use canonical::Value;
use serde_json::json;

use crate::adversary::{
    ACCEPT, CHALLENGE, POLICY, PROOF, REQUEST, RESPONSE, check_error, edit, forge,
};
use crate::support::{
    Book, CLIENT, Duo, SERVER, UNIX, World, did, draft, established, json, jwk, key, own, sent,
    signed, source, text, tree, verified,
};
use crate::vectors::{at, script, vector};

fn bare(hello: &[u8]) -> Vec<u8> {
    edit(hello, |it| {
        it.as_object_mut().unwrap().remove("extensions");
    })
}

/// PROOF with no more in it than the base specification has.
fn proof(hello: &[u8], challenge: &[u8]) -> Vec<u8> {
    let (hello, challenge) = (json(hello), json(challenge));
    let payload = json!({
        "nonce_a": hello["nonce"], "nonce_b": challenge["nonce_b"], "timestamp": UNIX,
        "server_manifest_hash": challenge["manifest_hash"],
        "client_manifest_hash": hello["manifest_hash"],
    });
    text(&json!({"type": "proof", "agent_did": hello["agent_did"],
        "proof_jws": forge::<PROOF>(&payload, CLIENT)}))
}

fn accept(hello: &[u8], challenge: &[u8], policy: &[u8]) -> Vec<u8> {
    let (hello, challenge, policy) = (json(hello), json(challenge), json(policy));
    let [a, b] = [&hello["nonce"], &challenge["nonce_b"]];
    let [a, b] = [a, b].map(|nonce| nonce.as_str().unwrap().parse().unwrap());
    let hash = policy["policy_hash"].as_str().unwrap().parse().unwrap();
    let commitment = a2a_wire::session_commitment(&a, &b, &hash).to_string();
    let payload = json!({"policy_hash": policy["policy_hash"], "timestamp": UNIX,
        "session_commitment": commitment});
    text(
        &json!({"type": "accept_policy", "agent_did": hello["agent_did"],
        "policy_hash": policy["policy_hash"],
        "acceptance_jws": forge::<ACCEPT>(&payload, CLIENT)}),
    )
}

/// The session of a baseline client.
fn session(setting: Baseline, limits: SessionLimits) -> (Duo, String) {
    let mut world = World::new();
    world.book.baseline = setting;
    let (_, hello) = world.begin(CLIENT);
    let hello = bare(&hello);
    let challenge = sent(world.serve(&hello));
    assert!(json(&challenge)["extensions"].get("kx").is_none());
    let policy = sent(world.serve(&proof(&hello, &challenge)));
    let (session, _) = established(world.serve(&accept(&hello, &challenge, &policy)));
    assert_eq!(session.binding(), Binding::Baseline);
    assert!(session.peer().seen().is_none() && !session.is_encrypted());
    let id = session.session_id().to_string();
    let mut duo = Duo::with(world);
    duo.server = ServerSession::new(duo.world.now(), *session, limits);
    (duo, id)
}

fn uuid(number: u32) -> String {
    format!("7f1c0e0a-9a3b-4d7e-8f00-0000{number:08}")
}

fn request(session: &str, number: u32, signed: &serde_json::Value) -> Vec<u8> {
    text(
        &json!({"type": "request", "session_id": session, "request_id": uuid(number),
        "intent": {"goal": "echo", "inputs": {"say": "hi"}},
        "request_jws": forge::<REQUEST>(signed, CLIENT)}),
    )
}

fn intent() -> serde_json::Value {
    json!({"goal": "echo", "inputs": {"say": "hi"}})
}

#[test]
fn a_baseline_client_is_served_to_the_letter() {
    let (mut duo, id) = session(Baseline::Accept, SessionLimits::default());
    let message = request(&id, 1, &intent());
    let start = duo.start(&message);
    assert!(!start.stream);
    let answer = duo.respond(start.token, json!({"said": "hi"}));
    assert_eq!(answer.record.binding, Some(Binding::Baseline));
    assert_eq!(json(&answer.message)["status"], "success");
    // The ids beside the intent, or in it, are as good.
    let mut bound = intent();
    bound["session_id"] = json!(id);
    bound["request_id"] = json!(uuid(2));
    duo.start(&request(&id, 2, &bound));
    // What is there is checked.
    bound["request_id"] = json!(uuid(2));
    let refusal = duo.refused(&request(&id, 3, &bound));
    check_error(
        &refusal.message,
        &ErrorCode::UnverifiedAgent,
        Some(Reason::VerificationFailed),
    );
    // Another intent.
    let refusal = duo.refused(&request(&id, 4, &json!({"goal": "echo"})));
    assert_eq!(refusal.failure.code, ErrorCode::UnverifiedAgent);
    // An id is used once, and the code is one that the peer knows.
    let refusal = duo.refused(&message);
    assert_eq!(refusal.failure.code, ErrorCode::ReplayDetected);
    assert_eq!(json(&refusal.message)["error_code"], "POLICY_VIOLATION");
    // However long ago.
    duo.world.wait(3000);
    let refusal = duo.refused(&message);
    assert_eq!(refusal.failure.code, ErrorCode::ReplayDetected);
}

/// Document 004, §6 and §8: a request that is too large to be read is a POLICY_VIOLATION, signed like every
/// error of a session. A profile peer gets the code of the profile.
/// Proves A-6-7.
#[test]
fn unread_request_is_refused_with_a_code_of_the_document() {
    let (mut duo, id) = session(Baseline::Accept, SessionLimits::default());
    let now = duo.world.now();
    let failure = Failure::too_large(1000, Some(1001));
    let named = || uuid(1).parse().ok();
    let refusal = duo.server.refuse_unread(now, named(), failure.clone());
    let refusal = refusal.unwrap();
    check_error(&refusal.message, &ErrorCode::PolicyViolation, None);
    let message = json(&refusal.message);
    assert_eq!(message["session_id"], json!(id));
    assert_eq!(message["request_id"], json!(uuid(1)));
    assert_eq!(message["details"], json!({"limit": 1000, "size": 1001}));
    assert!(message["error_jws"].is_string());
    assert_eq!(refusal.record.checks.payload_size, Check::Failed);
    let over = now.unix.plus(3601);
    duo.world.wait(3601);
    assert_eq!(duo.world.now().unix, over);
    let refused = duo
        .server
        .refuse_unread(duo.world.now(), named(), failure.clone());
    assert_eq!(refused, None);

    let mut duo = Duo::new();
    let now = duo.world.now();
    let refusal = duo.server.refuse_unread(now, named(), failure).unwrap();
    let message = json(&refusal.message);
    assert_eq!(message["error_code"], "PAYLOAD_TOO_LARGE");
    assert!(message.get("error_jws").is_none());
}

#[test]
fn bound_demands_the_ids_inside() {
    let (mut duo, id) = session(Baseline::Bound, SessionLimits::default());
    let refusal = duo.refused(&request(&id, 1, &intent()));
    assert_eq!(refusal.failure.code, ErrorCode::UnverifiedAgent);
    let mut bound = intent();
    bound["session_id"] = json!(id);
    bound["request_id"] = json!(uuid(1));
    duo.start(&request(&id, 1, &bound));
}

#[test]
fn ids_of_a_baseline_session_are_never_forgotten() {
    let limits = SessionLimits {
        request_ids: 3,
        ..SessionLimits::default()
    };
    let (mut duo, id) = session(Baseline::Accept, limits);
    for number in 0..3 {
        duo.start(&request(&id, number, &intent()));
    }
    let refusal = duo.refused(&request(&id, 3, &intent()));
    assert_eq!(refusal.failure.code, ErrorCode::SessionExpired);
    assert_eq!(duo.server.is_over(), Some(EndReason::Exhausted));
}

/// Section `baseline` of the vectors: headers that name no key.
#[test]
fn the_signatures_of_the_vectors_are_taken() {
    let vectors = vector();
    let kid: a2a_wire::Kid = "sig-2026-01".parse().unwrap();
    let document = tree(&vectors["manifest"]["server"]["document"]);
    let own = Own::new(document, kid, key(SERVER)).unwrap();
    let mut server = Server::new(own.into(), ServerConfig::new().unwrap());
    let book = Book::default();
    let mut random = script(&[std::array::from_fn(|index| 0x20 + index as u8)]);
    let hello = bare(&text(&vectors["handshake"]["messages"][0]));
    let mut serve =
        |now, message: &[u8]| server.handle_message(now, source(1), message, &book, &mut random);
    sent(serve(at(0), &hello));
    let jws = &vectors["baseline"]["proof_jws"];
    let proof = json!({"type": "proof", "agent_did": did(CLIENT).to_string(), "proof_jws": jws});
    sent(serve(at(1), &text(&proof)));
    // The two forms of a request.
    let request = &vectors["session"]["request"]["message"];
    for (form, setting, taken) in [
        ("request_jws_accept", Baseline::Accept, true),
        ("request_jws_bound", Baseline::Accept, true),
        ("request_jws_accept", Baseline::Bound, false),
        ("request_jws_bound", Baseline::Bound, true),
    ] {
        let (mut duo, id) = session(setting, SessionLimits::default());
        let message = json!({"type": "request", "session_id": id,
            "request_id": request["request_id"], "intent": vectors["baseline"]["intent"],
            "request_jws": vectors["baseline"][form]});
        let handled = duo.serve(&text(&message));
        // The bound one names the session of the vectors, which is not this one.
        let expected = taken && form == "request_jws_accept";
        assert_eq!(handled.is_ok(), expected, "{form} {setting:?}");
    }
}

#[test]
fn errors_are_told_in_codes_that_a_baseline_peer_knows() {
    let mut world = World::new();
    let (_, hello) = world.begin(CLIENT);
    let wrong = edit(&bare(&hello), |it| it["nonce"] = json!("short"));
    let refused = world.serve(&wrong).unwrap_err();
    assert_eq!(refused.failure.code, ErrorCode::InvalidMessage);
    assert_eq!(json(&refused.message)["error_code"], "HANDSHAKE_FAILED");
}

#[test]
fn threat_39_a_manifest_that_says_profile() {
    let mut world = World::new();
    let name: a2a_identity::Did = "did:web:web.example.com".parse().unwrap();
    let root = a2a_identity::KeySet::new(vec![a2a_identity::Key {
        kid: "k".parse().unwrap(),
        key: key(CLIENT).verifying_key(),
        status: a2a_identity::KeyStatus::Active,
        expires_at: None,
    }]);
    let root = RootKeys::Document(root.unwrap());
    for (profile, served) in [("other", true), ("a2a-profile-1", false)] {
        let mut draft = draft(&name.to_string(), &[jwk("k", CLIENT)], "web.example.com");
        draft["metadata"] = json!({"profile": profile});
        let manifest = signed(&draft, "k", CLIENT, UNIX - 100);
        let verified = verified(&manifest, &name, &root, UnixSeconds(UNIX));
        let facts = Facts {
            endpoints: Vec::new(),
            root: root.clone(),
            manifest: Some(verified),
        };
        let hash = facts.manifest.as_ref().unwrap().hash().to_string();
        world.known.insert(name.to_string(), facts);
        let (_, hello) = world.begin(CLIENT);
        let hello = edit(&bare(&hello), |it| {
            it["agent_did"] = json!(name.to_string());
            it["manifest_hash"] = json!(hash);
        });
        let challenge = sent(world.serve(&hello));
        let reply = world.serve(&proof(&hello, &challenge));
        match served {
            true => drop(sent(reply)),
            false => {
                let refused = reply.unwrap_err();
                let reason = Some(Reason::BaselineNotAllowed);
                check_error(&refused.message, &ErrorCode::UnverifiedAgent, reason);
            }
        }
    }
}

/// Threat 67: the pseudo-code's spelling of a did:key, from a baseline peer only.
/// Proves A-4-2.
#[test]
fn threat_67_a_bare_did_key_has_one_name() {
    let mut world = World::new();
    let (_, hello) = world.begin(CLIENT);
    let bytes = key(CLIENT).verifying_key().to_bytes();
    let spelled = format!("did:key:z{}", bs58(&bytes));
    let with = edit(&hello, |it| it["agent_did"] = json!(spelled));
    let refused = world.serve(&with).unwrap_err();
    assert_eq!(refused.failure.code, ErrorCode::UnverifiedAgent);
    let hello = edit(&bare(&hello), |it| it["agent_did"] = json!(spelled));
    let challenge = sent(world.serve(&hello));
    let policy = sent(world.serve(&proof(&hello, &challenge)));
    let (session, _) = established(world.serve(&accept(&hello, &challenge, &policy)));
    assert_eq!(session.peer().did_text().as_str(), did(CLIENT).to_string());
}

/// Base58 of bytes that do not begin with zero.
fn bs58(bytes: &[u8]) -> String {
    let alphabet = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
    let mut digits: Vec<u32> = Vec::new();
    for byte in bytes {
        let mut carry = u32::from(*byte);
        for digit in &mut digits {
            carry += *digit << 8;
            *digit = carry % 58;
            carry /= 58;
        }
        while carry > 0 {
            digits.push(carry % 58);
            carry /= 58;
        }
    }
    let letters = digits
        .iter()
        .rev()
        .map(|digit| char::from(alphabet[*digit as usize]));
    letters.collect()
}

/// A session at its client.
type OfClient = Box<Established<policy::Policy>>;

/// A server that speaks the base specification alone, up to SESSION.
fn baseline_server(
    world: &mut World,
    sign_policy: fn(&serde_json::Value, &str) -> serde_json::Value,
) -> Result<OfClient, Aborted> {
    baseline_server_for(own(CLIENT), world, sign_policy).map(|(session, _)| session)
}

/// The same for this client, with the PROOF and ACCEPT_POLICY that it sends.
fn baseline_server_for(
    client: Arc<Own>,
    world: &mut World,
    sign_policy: fn(&serde_json::Value, &str) -> serde_json::Value,
) -> Result<(OfClient, [Vec<u8>; 2]), Aborted> {
    let policy = json!({"rate_limit": 1000, "rate_period": 3600, "session_timeout": 3600,
        "data_retention": "24h", "max_payload_size": 1_048_576, "allowed_intents": [],
        "blocked_intents": []});
    let hash = tree(&policy).digest_without(&[]).to_string();
    let config = world.client_config();
    let (client, _) = world.begin_as(client, config);
    let payload = sign_policy(&policy, &hash);
    let challenge = json!({"type": "challenge", "nonce_b": canonical::base64url::encode(
        &std::array::from_fn::<u8, 32, _>(|n| n as u8)), "server_did": did(SERVER).to_string(),
        "manifest_hash": hash, "public_keys": [jwk("k", SERVER)], "policy_hash": hash,
        "policy_signature": forge::<CHALLENGE>(&payload, SERVER), "timestamp": UNIX});
    let (client, proof) = world.challenged(client, &text(&challenge))?;
    let message = json!({"type": "policy", "policy": policy, "policy_hash": hash,
        "policy_signature": forge::<POLICY>(&payload, SERVER)});
    let (client, accept) = client.handle_message(world.now(), &text(&message))?;
    let session = json!({"type": "session", "session_id": canonical::base64url::encode(&[7; 32]),
        "server_did": did(SERVER).to_string(), "created_at": UNIX, "expires_at": UNIX + 3600,
        "message_count": 0, "public_keys": [jwk("k", SERVER)]});
    let established = client.handle_message(world.now(), &text(&session))?;
    Ok((established, [proof, accept]))
}

/// A key that was added to a did:key, and signs in its place.
const ADDED: u8 = 9;

/// The did:key of a seed after its rotation.
fn rotated(seed: u8) -> Arc<Own> {
    let keys = [jwk("k", seed), jwk("n", ADDED)];
    let draft = draft(&did(seed).to_string(), &keys, "server.example.com");
    let manifest = signed(&draft, "k", seed, UNIX - 100);
    let own = Own::new(manifest, "n".parse().unwrap(), key(ADDED)).unwrap();
    Arc::new(own.with_root("k".parse().unwrap(), key(seed)).unwrap())
}

/// Whose signature this is.
fn signer(message: &[u8], member: &str, seed: u8) -> u8 {
    let jws = json(message)[member].as_str().unwrap().to_owned();
    let (input, signature) = jws.rsplit_once('.').unwrap();
    let signature = canonical::base64url::decode(signature).unwrap();
    let signature = ed25519_dalek::Signature::from_slice(&signature).unwrap();
    let is_by = |seed: &u8| {
        let key = ed25519_dalek::SigningKey::from_bytes(&[*seed; 32]);
        key.verify(input.as_bytes(), &signature).is_ok()
    };
    [seed, ADDED].into_iter().find(is_by).unwrap()
}

/// Document 004, §4, did:key: "No network call required, key derived from DID directly". A peer that knows
/// the document alone cannot know a key that was added later (§9, "Key Rotation"), so the DID's own
/// signs for it, in both roles.
/// Proves A-4-3, A-9-12.
#[test]
fn did_key_that_has_rotated_signs_for_baseline_peers() {
    // As the server.
    let mut world = World::new();
    world.server.set_own(rotated(SERVER));
    let (_, hello) = world.begin(CLIENT);
    let challenge = sent(world.serve(&hello));
    assert_eq!(signer(&challenge, "policy_signature", SERVER), ADDED);
    let (_, hello) = world.begin(CLIENT);
    let hello = bare(&hello);
    let challenge = sent(world.serve(&hello));
    assert_eq!(signer(&challenge, "policy_signature", SERVER), SERVER);
    let policy = sent(world.serve(&proof(&hello, &challenge)));
    assert_eq!(signer(&policy, "policy_signature", SERVER), SERVER);
    let (session, message) = established(world.serve(&accept(&hello, &challenge, &policy)));
    assert_eq!(signer(&message, "session_jws", SERVER), SERVER);
    let id = session.session_id().to_string();
    world.server.set_own(own(SERVER));
    let mut duo = Duo::with(world);
    duo.server = ServerSession::new(duo.world.now(), *session, SessionLimits::default());
    let start = duo.start(&request(&id, 1, &intent()));
    let answer = duo.respond(start.token, json!({"said": "hi"}));
    assert_eq!(signer(&answer.message, "response_jws", SERVER), SERVER);
    let refusal = duo.refused(&request(&id, 1, &intent()));
    assert_eq!(signer(&refusal.message, "error_jws", SERVER), SERVER);

    // As the client.
    let mut world = unpublished();
    let form = |_: &serde_json::Value, hash: &str| json!({ "policy_hash": hash });
    let (session, [proof, accept]) =
        baseline_server_for(rotated(CLIENT), &mut world, form).unwrap();
    assert_eq!(signer(&proof, "proof_jws", CLIENT), CLIENT);
    assert_eq!(signer(&accept, "acceptance_jws", CLIENT), CLIENT);
    let mut client = ClientSession::new(world.now(), *session);
    let asked = Value::Object(tree(&intent()));
    let outgoing = client
        .request(world.now(), asked, &mut world.random)
        .unwrap();
    assert_eq!(signer(&outgoing.message, "request_jws", CLIENT), CLIENT);
}

#[test]
fn root_of_a_did_key_is_its_own_key_alone() {
    let manifest = signed(
        &draft(
            &did(SERVER).to_string(),
            &[jwk("k", SERVER), jwk("n", ADDED)],
            "a.example",
        ),
        "k",
        SERVER,
        UNIX - 100,
    );
    let own = || Own::new(manifest.clone(), "n".parse().unwrap(), key(ADDED)).unwrap();
    for (kid, seed, is_taken) in [
        ("k", SERVER, true),
        ("n", ADDED, false),
        ("x", SERVER, false),
    ] {
        let with_root = own().with_root(kid.parse().unwrap(), key(seed));
        assert_eq!(with_root.is_ok(), is_taken, "{kid}");
    }
}

/// A world in which nothing but its key is known of the server.
fn unpublished() -> World {
    let mut world = World::new();
    let facts = Facts {
        endpoints: Vec::new(),
        root: RootKeys::DidKey(key(SERVER).verifying_key()),
        manifest: None,
    };
    world.known.insert(did(SERVER).to_string(), facts);
    world
}

#[test]
fn a_baseline_server_is_called() {
    let forms: [fn(&serde_json::Value, &str) -> serde_json::Value; 3] = [
        |_, hash| json!({"policy_hash": hash}),
        |policy, _| json!({"policy": policy, "timestamp": UNIX}),
        |policy, _| policy.clone(),
    ];
    for form in forms {
        let mut world = unpublished();
        let session = baseline_server(&mut world, form).unwrap();
        assert_eq!(session.binding(), Binding::Baseline);
        assert!(session.peer().seen().is_none());
    }
    // One that signs something else, one that spoke the profile before, and none at all.
    let other = |_: &serde_json::Value, _: &str| json!({"x": 1});
    let aborted = baseline_server(&mut unpublished(), other).unwrap_err();
    assert_eq!(aborted.failure.code, ErrorCode::UnverifiedAgent);
    let mut world = unpublished();
    world.memory.profile.insert(did(SERVER).to_string());
    let aborted = baseline_server(&mut world, forms[0]).unwrap_err();
    assert_eq!(aborted.failure.reason, Some(Reason::BaselineNotAllowed));
}

#[test]
fn answers_of_a_baseline_server() {
    let mut world = unpublished();
    let session = baseline_server(&mut world, |_, hash| json!({"policy_hash": hash})).unwrap();
    let now = world.now();
    let mut client = ClientSession::new(now, *session);
    let asked = Value::Object(tree(&intent()));
    let outgoing = client.request(now, asked, &mut world.random).unwrap();
    let message = json(&outgoing.message);
    let signed = crate::adversary::payload(&message["request_jws"]);
    assert_eq!(signed, intent(), "the bare intent");
    let answer = |payload: &serde_json::Value, seed| {
        text(
            &json!({"type": "response", "session_id": message["session_id"],
            "request_id": message["request_id"], "status": "success", "result": {"n": 1},
            "response_jws": forge::<RESPONSE>(payload, seed)}),
        )
    };
    for (payload, seed) in [
        (json!({"n": 2}), SERVER),
        (json!({"n": 1}), CLIENT),
        (
            json!({"n": 1, "session_id": "QUFBQUFBQUFBQUFBQUFBQQ"}),
            SERVER,
        ),
    ] {
        let dropped = client
            .handle_message(now, &answer(&payload, seed))
            .unwrap_err();
        assert_eq!(dropped.failure.code, ErrorCode::UnverifiedAgent);
    }
    client
        .handle_message(now, &answer(&json!({"n": 1}), SERVER))
        .unwrap();
    let cancel = client.cancel(now, &outgoing.request_id, &mut world.random);
    assert_eq!(cancel, Err(CallError::Unsupported));
}
