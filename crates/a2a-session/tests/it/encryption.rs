//! Encrypted sessions (threats 114, 115; profile §9).

use a2a_session::*;
use a2a_wire::{ErrorCode, Reason};
use canonical::base64url;
use serde_json::json;

use crate::adversary::{check_error, edit};
use crate::support::{Duo, echo, json};

fn refused(duo: &mut Duo, message: &[u8], code: ErrorCode, reason: Reason) {
    let refusal = duo.refused(message);
    assert_eq!(refusal.failure.code, code, "{}", refusal.failure);
    assert_eq!(refusal.failure.reason, Some(reason));
    let error = json(&refusal.message);
    assert!(error["enc"].is_object() && error.get("details").is_none());
    duo.is_well();
}

#[test]
fn threat_114_ciphertexts_that_are_changed() {
    let mut duo = Duo::sealed();
    let (mut other, _) = duo.another();
    let asked = duo.ask(echo());
    let mut bytes = base64url::decode(json(&asked.message)["enc"]["ct"].as_str().unwrap()).unwrap();
    bytes[7] ^= 1;
    let code = ErrorCode::InvalidMessage;
    let reason = Reason::DecryptFailed;
    let altered = edit(&asked.message, |it| {
        it["enc"]["ct"] = json!(base64url::encode(&bytes))
    });
    refused(&mut duo, &altered, code.clone(), reason);
    let renamed = edit(&asked.message, |it| {
        it["request_id"] = json!("7f1c0e0a-9a3b-4d7e-8f00-0123456789ab");
    });
    refused(&mut duo, &renamed, code.clone(), reason);
    let moved = edit(&asked.message, |it| it["enc"]["n"] = json!(500));
    refused(&mut duo, &moved, code.clone(), reason);
    let doubled = edit(&asked.message, |it| it["intent"] = json!({"goal": "echo"}));
    refused(&mut duo, &doubled, code.clone(), reason);
    // Of another session.
    let now = duo.world.now();
    let intent = canonical::Value::Object(crate::support::tree(&echo()));
    let foreign = other.request(now, intent, &mut duo.world.random).unwrap();
    let id = json(&asked.message)["session_id"].clone();
    let foreign = edit(&foreign.message, |it| {
        it["session_id"] = id;
        it["enc"]["n"] = json!(400);
    });
    refused(&mut duo, &foreign, code, reason);
    // The true one, then its counter again.
    duo.start(&asked.message);
    let code = ErrorCode::ReplayDetected;
    refused(&mut duo, &asked.message, code.clone(), Reason::SeqReused);
    let fresh = edit(&asked.message, |it| {
        it["request_id"] = json!("7f1c0e0a-9a3b-4d7e-8f00-0123456789ab");
    });
    refused(&mut duo, &fresh, code, Reason::SeqReused);
}

#[test]
fn threat_114_answers_that_are_changed() {
    let mut duo = Duo::sealed();
    let asked = duo.ask(echo());
    let token = duo.start(&asked.message).token;
    let answer = duo.respond(token, json!({"n": 1})).message;
    let echoed = edit(&answer, |it| {
        it["enc"] = json(&asked.message)["enc"].clone()
    });
    let status = edit(&answer, |it| it["status"] = json!("failure"));
    let plain = edit(&answer, |it| {
        it.as_object_mut().unwrap().remove("enc");
        it["result"] = json!({"n": 1});
    });
    for wrong in [echoed, status, plain] {
        let dropped = duo.hear(&wrong).unwrap_err();
        assert_eq!(dropped.failure.code, ErrorCode::UnverifiedAgent);
    }
    duo.hear(&answer).unwrap();
    assert!(duo.hear(&answer).is_err());
}

#[test]
fn threat_115_plain_and_encrypted() {
    let mut duo = Duo::sealed();
    let mut plain = Duo::new();
    let id = json(&duo.ask(echo()).message)["session_id"].clone();
    let asked = plain.ask(echo());
    let message = edit(&asked.message, |it| it["session_id"] = id);
    let code = ErrorCode::PolicyViolation;
    refused(&mut duo, &message, code, Reason::EncryptionRequired);
    let id = json(&asked.message)["session_id"].clone();
    let asked = duo.ask(echo());
    let message = edit(&asked.message, |it| it["session_id"] = id);
    let refusal = plain.refused(&message);
    check_error(
        &refusal.message,
        &ErrorCode::InvalidMessage,
        Some(Reason::BadField),
    );
    plain.is_well();
}

/// Both offer, or the policy requires: what becomes of it.
#[test]
fn when_a_session_is_encrypted() {
    use crate::support::{CLIENT, World, tree};
    for (client, server, required, encrypted) in [
        (Sealing::Offered, Sealing::Offered, false, true),
        (Sealing::Offered, Sealing::IfRequired, false, false),
        (Sealing::IfRequired, Sealing::Offered, false, false),
        (Sealing::Offered, Sealing::IfRequired, true, true),
    ] {
        let mut world = World::with(|config| config.sealing = server);
        let policy = tree(&json!({"require_encryption": required}));
        let policy = policy::Policy::read(&policy, 1 << 26).unwrap();
        world.book.policy = policy.complete().unwrap();
        let mut config = world.client_config();
        config.sealing = client;
        let shaken = world.shake_with(CLIENT, config);
        assert_eq!(shaken.client.is_encrypted(), encrypted);
        assert_eq!(shaken.server.is_encrypted(), encrypted);
    }
}

/// Threat 144, as far as these types go: no key is shown.
#[test]
fn threat_144_nothing_shows_keys() {
    let duo = Duo::sealed();
    let shown = format!("{:?} {:?}", duo.client, duo.server);
    assert!(shown.contains("Channel(..)"));
    assert!(!shown.contains("SigningKey(["));
}
