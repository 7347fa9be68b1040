//! Requests (threats, section E; profile §10.3).

use std::sync::Arc;

use a2a_session::*;
use a2a_wire::{ErrorCode, Reason};
use serde_json::json;

use crate::adversary::{
    CONTROL, ERROR, REQUEST, bad_forms, check_error, edit, forge, payload, resign,
};
use crate::support::{
    CLIENT, Duo, MALLORY, UNIX, World, did, draft, echo, json, jwk, key, signed, text,
};

/// G1, G4 and the record of a refusal in a session, and that the session goes on (G5).
fn refused(duo: &mut Duo, message: &[u8], code: ErrorCode, reason: Option<Reason>) -> Refusal {
    let running = duo.server.in_flight();
    let refusal = *duo.refused(message);
    check_error(&refusal.message, &code, reason);
    assert_eq!(refusal.failure.code, code);
    assert_eq!(refusal.record.response_status, code.as_str());
    assert!(!refusal.record.approved && refusal.record.reason.is_some());
    assert_eq!(duo.server.in_flight(), running);
    if code != ErrorCode::SessionExpired {
        duo.is_well();
    }
    refusal
}

#[test]
fn a_session_plain_and_encrypted() {
    for mut duo in [Duo::new(), Duo::sealed()] {
        for _ in 0..3 {
            duo.is_well();
        }
        assert_eq!(duo.client.outstanding(), 0);
        assert_eq!(duo.server.in_flight(), 0);
    }
    let asked = Duo::sealed().ask(json!({"goal": "echo", "inputs": {"secret": "marker"}}));
    assert!(!String::from_utf8_lossy(&asked.message).contains("goal"));
}

/// Proves A-5-29, A-6-2, A-8-9.
#[test]
fn threat_90_unknown_expired_and_closed_look_alike() {
    let mut duo = Duo::new();
    let asked = duo.ask(echo());
    let id = json(&asked.message)["session_id"].clone();
    let other = edit(&asked.message, |it| {
        it["session_id"] = json!("QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE");
    });
    let unknown = refused(&mut duo, &other, ErrorCode::SessionExpired, None);
    let mut unknown = json(&unknown.message);
    unknown["session_id"] = id;
    duo.is_well();
    let later = duo.ask(echo());
    duo.world.wait(3600);
    let expired = refused(&mut duo, &asked.message, ErrorCode::SessionExpired, None);
    assert_eq!(json(&expired.message), unknown);
    assert_eq!(duo.server.is_over(), Some(EndReason::Expired));
    assert_eq!(expired.record.checks.session_valid, Check::Failed);
    drop(later);

    let mut duo = Duo::new();
    let now = duo.world.now();
    let close = duo.client.close(now, &mut duo.world.random).unwrap();
    let asked = duo.ask(echo());
    let Ok(Handled::Answer { answer, .. }) = duo.serve(&close.message) else {
        panic!("it is not closed");
    };
    assert_eq!(json(&answer.message)["result"], json!({"closed": true}));
    let closed = refused(&mut duo, &asked.message, ErrorCode::SessionExpired, None);
    let mut closed = json(&closed.message);
    for name in ["session_id", "request_id"] {
        closed[name] = unknown[name].clone();
    }
    assert_eq!(closed, unknown);
    duo.hear(&answer.message).unwrap();
    let now = duo.world.now();
    assert!(duo.client.is_over(now));
    let more = duo.client.close(now, &mut duo.world.random);
    assert_eq!(more, Err(CallError::Over));
}

/// Proves A-6-4, A-7-4, A-8-1.
#[test]
fn threat_91_102_a_stolen_session_id() {
    let mut duo = Duo::new();
    let asked = duo.ask(echo());
    let forged = resign::<REQUEST>(&asked.message, MALLORY, |_| {});
    let unsigned = edit(&asked.message, |it| {
        it.as_object_mut().unwrap().remove("request_jws");
    });
    for wrong in [forged, unsigned] {
        for _ in 0..5 {
            let refusal = duo.refused(&wrong);
            check_error(
                &refusal.message,
                &ErrorCode::UnverifiedAgent,
                Some(Reason::VerificationFailed),
            );
            assert_eq!(refusal.record.checks.signature_verified, Check::Failed);
            assert_eq!(refusal.record.checks.rate_limit, Check::Skipped);
        }
    }
    // Neither the id nor a token of the victim is gone.
    duo.start(&asked.message);
}

/// Proves A-6-3, A-9-3.
#[test]
fn threat_92_93_replays() {
    let mut duo = Duo::new();
    let asked = duo.ask(echo());
    duo.start(&asked.message);
    for _ in 0..99 {
        let refusal = duo.refused(&asked.message);
        assert_eq!(refusal.failure.reason, Some(Reason::RequestIdReused));
        assert_eq!(refusal.failure.code, ErrorCode::ReplayDetected);
    }
    let fresh = "7f1c0e0a-9a3b-4d7e-8f00-0123456789ab";
    let renamed = edit(&asked.message, |it| it["request_id"] = json!(fresh));
    let code = ErrorCode::UnverifiedAgent;
    refused(&mut duo, &renamed, code, Some(Reason::VerificationFailed));
}

/// Two that were looked up before either was let in: one wins.
#[test]
fn threat_92_the_loser_of_a_race() {
    let mut duo = Duo::new();
    let asked = duo.ask(echo());
    let now = duo.world.now();
    let incoming = Incoming::read(now, &asked.message, 1 << 20, None).unwrap();
    let looks = [(); 2].map(|()| duo.server.look(now, &incoming).unwrap());
    let [first, second] = looks.map(|look| look.verify(now, &incoming).unwrap());
    let (agents, host) = (&mut duo.agents, &duo.host);
    let won = duo.server.admit(now, &incoming, first, agents, host);
    assert!(matches!(won, Ok(Handled::Start(_))));
    let lost = duo.server.admit(now, &incoming, second, agents, host);
    assert_eq!(lost.unwrap_err().failure.code, ErrorCode::ReplayDetected);
}

/// Proves A-9-4.
#[test]
fn threat_94_splices() {
    let mut duo = Duo::new();
    let (mut other, _) = duo.another();
    let now = duo.world.now();
    let intent = canonical::Value::Object(crate::support::tree(&echo()));
    let elsewhere = other.request(now, intent, &mut duo.world.random).unwrap();
    let id = json(&duo.ask(echo()).message)["session_id"].clone();
    let code = ErrorCode::UnverifiedAgent;
    // From another session of the same client.
    let spliced = edit(&elsewhere.message, |it| it["session_id"] = id);
    refused(
        &mut duo,
        &spliced,
        code.clone(),
        Some(Reason::VerificationFailed),
    );
    // For another server.
    let asked = duo.ask(echo());
    let audience = did(MALLORY).to_string();
    let foreign = resign::<REQUEST>(&asked.message, CLIENT, |it| {
        it["audience"] = json!(audience)
    });
    refused(
        &mut duo,
        &foreign,
        code.clone(),
        Some(Reason::VerificationFailed),
    );
    // With another intent, or any other member.
    for change in [
        |it: &mut serde_json::Value| it["intent"]["inputs"] = json!({"say": "bye"}),
        |it: &mut serde_json::Value| it["extra"] = json!(1),
        |it: &mut serde_json::Value| it["intent"]["goal"] = json!("nlp.translate"),
    ] {
        let asked = duo.ask(echo());
        let changed = edit(&asked.message, change);
        refused(
            &mut duo,
            &changed,
            code.clone(),
            Some(Reason::VerificationFailed),
        );
        duo.start(&asked.message);
    }
    // An intent signed for another request.
    let (first, second) = (duo.ask(echo()), duo.ask(echo()));
    let jws = json(&first.message)["request_jws"].clone();
    let swapped = edit(&second.message, |it| it["request_jws"] = jws);
    refused(&mut duo, &swapped, code, Some(Reason::VerificationFailed));
}

#[test]
fn threat_52_what_a_request_signs() {
    for name in [
        "issuer",
        "audience",
        "session_id",
        "request_id",
        "seq",
        "message_hash",
        "timestamp",
    ] {
        let mut duo = Duo::new();
        let asked = duo.ask(echo());
        let without = resign::<REQUEST>(&asked.message, CLIENT, |it| {
            it.as_object_mut().unwrap().remove(name);
        });
        let code = ErrorCode::UnverifiedAgent;
        refused(&mut duo, &without, code, Some(Reason::VerificationFailed));
    }
}

/// Proves A-2-14.
#[test]
fn threat_95_counters_and_times() {
    let mut duo = Duo::new();
    let with = |duo: &mut Duo, name: &str, value: i64| {
        let asked = duo.ask(echo());
        resign::<REQUEST>(&asked.message, CLIENT, |it| it[name] = json!(value))
    };
    let now = duo.world.now().unix.0;
    for (at, accepted) in [
        (now - 300, true),
        (now + 300, true),
        (now - 301, false),
        (now + 301, false),
    ] {
        let message = with(&mut duo, "timestamp", at);
        match duo.serve(&message) {
            Ok(_) => assert!(accepted, "{at}"),
            Err(refusal) => {
                assert!(!accepted, "{at}");
                assert_eq!(refusal.failure.reason, Some(Reason::StaleTimestamp));
            }
        }
    }
    let reused = with(&mut duo, "seq", 1);
    let refusal = duo.refused(&reused);
    assert_eq!(refusal.failure.reason, Some(Reason::SeqReused));
    let zero = with(&mut duo, "seq", 0);
    assert_eq!(duo.refused(&zero).failure.code, ErrorCode::UnverifiedAgent);
    // A jump is accepted once; what lies below the window is gone.
    let jump = with(&mut duo, "seq", 9_007_199_254_740_991);
    duo.start(&jump);
    for seq in [1, 100, 9_007_199_254_740_991 - 1024] {
        let lower = with(&mut duo, "seq", seq);
        assert_eq!(duo.refused(&lower).failure.reason, Some(Reason::SeqReused));
    }
    let within = with(&mut duo, "seq", 9_007_199_254_740_991 - 1023);
    duo.start(&within);
}

#[test]
fn threat_96_in_reverse_order() {
    for mut duo in [Duo::new(), Duo::sealed()] {
        let mut asked: Vec<_> = (0..64).map(|_| duo.ask(echo())).collect();
        asked.reverse();
        for asked in &asked {
            duo.start(&asked.message);
        }
        assert_eq!(duo.server.in_flight(), 64);
    }
}

#[test]
fn threat_97_after_a_restart_sessions_are_gone() {
    let mut duo = Duo::new();
    let asked = duo.ask(echo());
    duo.start(&asked.message);
    // A new process knows no session of that id.
    let (_, fresh) = duo.another();
    duo.server = fresh;
    let refusal = duo.refused(&asked.message);
    assert_eq!(refusal.failure.code, ErrorCode::SessionExpired);
}

/// Proves A-7-14.
#[test]
fn threat_98_the_header_and_the_body() {
    let mut duo = Duo::new();
    let asked = duo.ask(echo());
    let now = duo.world.now();
    let id = json(&asked.message)["session_id"]
        .as_str()
        .unwrap()
        .to_owned();
    for (header, accepted) in [
        (None, true),
        (Some(id.as_str()), true),
        (Some("other"), false),
    ] {
        let read = Incoming::read(now, &asked.message, 1 << 20, header);
        match accepted {
            true => assert_eq!(read.unwrap().session_id(), id),
            false => {
                let refusal = read.unwrap_err();
                let code = ErrorCode::InvalidMessage;
                check_error(&refusal.message, &code, Some(Reason::HeaderMismatch));
            }
        }
    }
}

#[test]
fn threat_56_59_61_62_64_messages_that_are_none() {
    let duo = Duo::new();
    let now = duo.world.now();
    let deep = format!(
        "{{\"type\":\"request\",\"x\":{}1{}}}",
        "[".repeat(64),
        "]".repeat(64)
    );
    let many = format!("[{}1]", "1,".repeat(20_000));
    for (wrong, reason) in [
        (
            r#"{"type":"request","type":"request"}"#,
            Some(Reason::DuplicateMember),
        ),
        (r#"{"a":1,"\u0061":2}"#, Some(Reason::DuplicateMember)),
        (
            r#"{"a":{"b":[{"c":1,"c":1}]}}"#,
            Some(Reason::DuplicateMember),
        ),
        (
            r#"{"type":"request","n":9007199254740992}"#,
            Some(Reason::Malformed),
        ),
        (r#"{"type":"request","n":1e400}"#, Some(Reason::Malformed)),
        (r#"{"type":"request","n":NaN}"#, Some(Reason::Malformed)),
        (r#"{"type":"request"} "x""#, Some(Reason::Malformed)),
        ("", Some(Reason::Malformed)),
        ("[]", Some(Reason::BadField)),
        ("null", Some(Reason::BadField)),
        ("\u{feff}{}", Some(Reason::Malformed)),
        (deep.as_str(), Some(Reason::Malformed)),
        (many.as_str(), Some(Reason::Malformed)),
        (r#"{"type":"request"}"#, Some(Reason::MissingField)),
        (
            r#"{"type":"request","session_id":1}"#,
            Some(Reason::BadField),
        ),
        (r#"{"type":"hello"}"#, Some(Reason::MissingField)),
        (r#"{"type":"x"}"#, Some(Reason::UnknownType)),
        (
            r#"{"jsonrpc":"2.0","type":"request"}"#,
            Some(Reason::BadField),
        ),
    ] {
        let refusal = Incoming::read(now, wrong.as_bytes(), 1 << 20, None).unwrap_err();
        check_error(&refusal.message, &ErrorCode::InvalidMessage, reason);
        assert!(!String::from_utf8_lossy(&refusal.message).contains("offset"));
    }
    let large = Incoming::read(now, b"{}", 1, None).unwrap_err();
    assert_eq!(large.failure.code, ErrorCode::PayloadTooLarge);
}

#[test]
fn threat_57_58_65_66_what_a_hop_may_and_may_not_do() {
    let mut duo = Duo::new();
    let odd = json!({"goal": "echo", "inputs": {"\u{7f}": 1, "é": 0.1, "😀": "é", "n": 1}});
    let asked = duo.ask(odd.clone());
    // Written differently, it is the same.
    let spaced = serde_json::to_string_pretty(&json(&asked.message)).unwrap();
    let escaped = spaced.replace('é', "\\u00e9");
    duo.start(escaped.as_bytes());
    for change in [
        |it: &mut serde_json::Value| it["inputs"]["n"] = json!("1"),
        |it: &mut serde_json::Value| it["inputs"]["é"] = json!(0.100_000_000_000_000_02),
        |it: &mut serde_json::Value| it["inputs"]["😀"] = json!("e\u{301}"),
    ] {
        let asked = duo.ask(odd.clone());
        let changed = edit(&asked.message, |it| change(&mut it["intent"]));
        let code = ErrorCode::UnverifiedAgent;
        refused(&mut duo, &changed, code, Some(Reason::VerificationFailed));
    }
}

#[test]
fn threat_43_44_45_46_48_50_51_forms_of_a_jws() {
    let mut duo = Duo::new();
    for form in bad_forms("a2a-request+jws") {
        let asked = duo.ask(echo());
        let wrong = edit(&asked.message, |it| {
            it["request_jws"] = json!(form(&it["request_jws"]))
        });
        let refusal = duo.refused(&wrong);
        let code = ErrorCode::UnverifiedAgent;
        check_error(&refusal.message, &code, Some(Reason::VerificationFailed));
        duo.start(&asked.message);
    }
    let asked = duo.ask(echo());
    let long = edit(&asked.message, |it| {
        it["request_jws"] = json!("x.".repeat(1 << 19))
    });
    assert_eq!(duo.refused(&long).failure.code, ErrorCode::UnverifiedAgent);
    let payload = "A".repeat(1 << 20);
    let long = edit(&asked.message, |it| {
        it["request_jws"] = json!(format!("x.{payload}.x"))
    });
    assert_eq!(duo.refused(&long).failure.code, ErrorCode::InvalidMessage);
}

#[test]
fn threat_47_signatures_made_for_another_place() {
    let mut duo = Duo::new();
    let asked = duo.ask(echo());
    let signed = payload(&json(&asked.message)["request_jws"]);
    for jws in [
        forge::<CONTROL>(&signed, CLIENT),
        forge::<ERROR>(&signed, CLIENT),
    ] {
        let confused = edit(&asked.message, |it| it["request_jws"] = json!(jws));
        let code = ErrorCode::UnverifiedAgent;
        refused(&mut duo, &confused, code, Some(Reason::VerificationFailed));
    }
    let now = duo.world.now();
    let target = asked.request_id;
    let cancel = duo
        .client
        .cancel(now, &target, &mut duo.world.random)
        .unwrap();
    let signed = payload(&json(&cancel.message)["control_jws"]);
    let confused = edit(&cancel.message, |it| {
        it["control_jws"] = json!(forge::<REQUEST>(&signed, CLIENT));
    });
    let code = ErrorCode::UnverifiedAgent;
    refused(&mut duo, &confused, code, Some(Reason::VerificationFailed));
}

#[test]
fn threat_55_a_key_that_is_revoked() {
    let mut duo = Duo::new();
    let asked = duo.ask(echo());
    let started = duo.start(&asked.message);
    let key = duo.server.established().proof().key().clone();
    let with = |status| {
        let key = a2a_identity::Key {
            status,
            ..key.clone()
        };
        a2a_identity::KeySet::new(vec![key]).unwrap()
    };
    duo.server
        .keys_changed(&with(a2a_identity::KeyStatus::Deprecated));
    assert_eq!(duo.server.is_over(), None);
    duo.server
        .keys_changed(&with(a2a_identity::KeyStatus::Revoked));
    assert_eq!(duo.server.is_over(), Some(EndReason::KeyRevoked));
    let ended = duo.server.handle_timeout(duo.world.now());
    assert_eq!(ended[0].token, started.token);
    let asked = duo.ask(echo());
    assert_eq!(
        duo.refused(&asked.message).failure.code,
        ErrorCode::SessionExpired
    );
}

/// Profile §3, §10.3: a session takes requests from any key of its snapshot, so each of them ends it; one
/// that was revoked before it began, or that it never knew, does not.
#[test]
fn threat_55_any_key_that_a_session_takes_requests_from() {
    let (spare, lost, other) = (50, 51, 52);
    let mut keys = [jwk("k", CLIENT), jwk("spare", spare), jwk("lost", lost)];
    keys[2]["status"] = json!("revoked");
    let draft = draft(&did(CLIENT).to_string(), &keys, "agent1.example.com");
    let manifest = signed(&draft, "k", CLIENT, UNIX - 100);
    let own = Own::new(manifest, "k".parse().unwrap(), key(CLIENT)).unwrap();
    let (mut world, own) = (World::new(), Arc::new(own));
    for (seed, expected) in [
        (CLIENT, Some(EndReason::KeyRevoked)),
        (spare, Some(EndReason::KeyRevoked)),
        (lost, None),
        (other, None),
    ] {
        let shaken = world.shake_as(Arc::clone(&own), world.client_config());
        let limits = SessionLimits::default();
        let mut session = ServerSession::new(world.now(), *shaken.server, limits);
        let revoked = a2a_identity::Key {
            kid: "any".parse().unwrap(),
            key: key(seed).verifying_key(),
            status: a2a_identity::KeyStatus::Revoked,
            expires_at: None,
        };
        session.keys_changed(&a2a_identity::KeySet::new(vec![revoked]).unwrap());
        assert_eq!(session.is_over(), expected, "{seed}");
    }
}

#[test]
fn threat_107_deadlines() {
    let mut duo = Duo::new();
    let with = |timeout: serde_json::Value| json!({"goal": "echo", "constraints": {"timeout_ms": timeout}});
    for wrong in [json!(0), json!(-1), json!(1.5), json!("30000"), json!([])] {
        // A client of ours would not send it.
        let asked = duo.ask(echo());
        let mut message = json(&asked.message);
        message["intent"] = with(wrong);
        let hash = crate::support::tree(&message).digest_without(&["request_jws"]);
        let message = resign::<REQUEST>(&text(&message), CLIENT, |it| {
            it["message_hash"] = json!(hash.to_string());
        });
        refused(
            &mut duo,
            &message,
            ErrorCode::InvalidIntent,
            Some(Reason::BadField),
        );
    }
    let time = duo.world.time;
    let asked = duo.ask(with(json!(1_000_000_000_000_i64)));
    let start = duo.start(&asked.message);
    assert_eq!(
        start.deadline,
        time + std::time::Duration::from_secs(300),
        "capped"
    );
    let asked = duo.ask(with(json!(1500)));
    let start = duo.start(&asked.message);
    assert_eq!(
        start.deadline,
        time + std::time::Duration::from_millis(1500)
    );
    assert_eq!(duo.server.poll_timeout(), Some(start.deadline));
    duo.world.wait(1);
    assert!(duo.server.handle_timeout(duo.world.now()).is_empty());
    duo.world.wait(1);
    let ended = duo.server.handle_timeout(duo.world.now());
    assert_eq!((ended.len(), ended[0].token), (1, start.token));
    check_error(&ended[0].answer.message, &ErrorCode::Timeout, None);
    assert_eq!(ended[0].answer.record.response_status, "TIMEOUT");
    let event = duo.hear(&ended[0].answer.message).unwrap();
    assert!(matches!(event, ClientEvent::Failed { .. }));
    // No late result.
    let now = duo.world.now();
    let late = duo
        .server
        .respond(now, start.token, Ok(canonical::Value::Null));
    assert_eq!(late, Err(NotRunning));
}

#[test]
fn threat_108_cancellations() {
    let mut duo = Duo::new();
    let asked = duo.ask(echo());
    let start = duo.start(&asked.message);
    let now = duo.world.now();
    let cancel = |duo: &mut Duo, target: &a2a_wire::RequestId| {
        let now = duo.world.now();
        duo.client
            .cancel(now, target, &mut duo.world.random)
            .unwrap()
    };
    let answered = |duo: &mut Duo, message: &[u8]| {
        let Ok(Handled::Answer { answer, ended }) = duo.serve(message) else {
            panic!("no answer");
        };
        let told = json(&answer.message)["result"]["cancelled"]
            .as_bool()
            .unwrap();
        duo.hear(&answer.message).unwrap();
        (told, ended)
    };
    // Unsigned.
    let message = cancel(&mut duo, &asked.request_id).message;
    let unsigned = edit(&message, |it| {
        it.as_object_mut().unwrap().remove("control_jws");
    });
    assert_eq!(
        duo.refused(&unsigned).failure.code,
        ErrorCode::UnverifiedAgent
    );
    // A request of another session.
    let (mut other, mut session) = duo.another();
    let foreign = other
        .cancel(now, &asked.request_id, &mut duo.world.random)
        .unwrap();
    let incoming = Incoming::read(now, &foreign.message, 1 << 20, None).unwrap();
    let handled = session.handle_message(now, &incoming, &mut duo.agents, &duo.host);
    let Ok(Handled::Answer { answer, ended }) = handled else {
        panic!("{handled:?}");
    };
    assert_eq!(json(&answer.message)["result"], json!({"cancelled": false}));
    assert!(ended.is_empty() && duo.server.in_flight() == 1);
    // An unknown target, the right one, and the right one again.
    let unknown: a2a_wire::RequestId = "7f1c0e0a-9a3b-4d7e-8f00-0123456789ab".parse().unwrap();
    let message = cancel(&mut duo, &unknown).message;
    assert!(!answered(&mut duo, &message).0);
    let message = cancel(&mut duo, &asked.request_id).message;
    let (told, ended) = answered(&mut duo, &message);
    assert!(told);
    assert_eq!(ended[0].token, start.token);
    check_error(&ended[0].answer.message, &ErrorCode::Cancelled, None);
    let message = cancel(&mut duo, &asked.request_id).message;
    assert!(!answered(&mut duo, &message).0);
    duo.is_well();
}

#[test]
fn threat_116_a_session_that_ends_while_a_request_runs() {
    let mut duo = Duo::sealed();
    let asked = duo.ask(echo());
    let start = duo.start(&asked.message);
    duo.world.wait(3600);
    let ended = duo.server.handle_timeout(duo.world.now());
    // Its own time is up too.
    assert_eq!(ended[0].token, start.token);
    assert_eq!(duo.server.is_over(), Some(EndReason::Expired));

    let mut duo = Duo::sealed();
    let asked = duo.ask(echo());
    duo.start(&asked.message);
    let now = duo.world.now();
    let close = duo.client.close(now, &mut duo.world.random).unwrap();
    let Ok(Handled::Answer { ended, .. }) = duo.serve(&close.message) else {
        panic!("it is not closed");
    };
    assert_eq!(ended[0].answer.record.response_status, "CANCELLED");
    assert_eq!(duo.server.is_over(), Some(EndReason::Closed));
    // A request without a name ends with its connection.
    let mut duo = Duo::new();
    let asked = duo.ask(echo());
    let start = duo.start(&asked.message);
    let now = duo.world.now();
    assert!(duo.server.disconnected(now, start.token).is_some());
    let named = json!({"goal": "echo", "intent_id": "0e9f2a5c-1111-4222-8333-444455556666"});
    let asked = duo.ask(named);
    let start = duo.start(&asked.message);
    assert!(duo.server.disconnected(now, start.token).is_none());
}

#[test]
fn threat_34_clocks_that_jump() {
    let mut duo = Duo::new();
    duo.is_well();
    // Back an hour: the session ends by the other clock.
    duo.world.jump = -3600;
    duo.world.wait(3599);
    duo.server.handle_timeout(duo.world.now());
    assert_eq!(duo.server.is_over(), None);
    duo.world.wait(1);
    duo.server.handle_timeout(duo.world.now());
    assert_eq!(duo.server.is_over(), Some(EndReason::Expired));
    // Forward an hour: it ends at once, at both ends.
    let mut duo = Duo::new();
    duo.is_well();
    duo.world.jump = 3600;
    duo.server.handle_timeout(duo.world.now());
    assert_eq!(duo.server.is_over(), Some(EndReason::Expired));
    let now = duo.world.now();
    assert!(duo.client.is_over(now));
}

/// A profile session that has used up its room for ids goes on: its counter stops replays.
#[test]
fn ids_of_a_profile_session_may_be_forgotten() {
    let mut duo = Duo::new();
    let shaken = duo.world.shake(CLIENT);
    let limits = SessionLimits {
        request_ids: 2,
        ..SessionLimits::default()
    };
    let now = duo.world.now();
    duo.client = ClientSession::new(now, *shaken.client);
    duo.server = ServerSession::new(now, *shaken.server, limits);
    let asked: Vec<_> = (0..3).map(|_| duo.ask(echo()).message).collect();
    for message in &asked {
        duo.start(message);
    }
    let reasons = asked.iter().map(|it| duo.refused(it).failure.reason);
    let expected = [
        Reason::SeqReused,
        Reason::RequestIdReused,
        Reason::RequestIdReused,
    ];
    assert_eq!(reasons.collect::<Vec<_>>(), expected.map(Some));
}
