//! Answers at the client (threats 52, 110; profile §10.4).

use a2a_session::*;
use a2a_wire::ErrorCode;
use serde_json::json;

use crate::adversary::{ERROR, RESPONSE, bad_forms, edit, resign};
use crate::support::{Duo, MALLORY, SERVER, echo, json, text};

fn dropped(duo: &mut Duo, message: &[u8]) {
    let dropped = duo.hear(message).unwrap_err();
    assert_eq!(dropped.failure.code, ErrorCode::UnverifiedAgent);
}

/// Proves A-6-11, A-6-12.
#[test]
fn threat_110_answers_that_are_none() {
    for mut duo in [Duo::new(), Duo::sealed()] {
        let (first, second) = (duo.ask(echo()), duo.ask(echo()));
        let tokens = [&first, &second].map(|asked| duo.start(&asked.message).token);
        let answers = tokens.map(|token| duo.respond(token, json!({"n": 1})).message);
        // Swapped.
        let id = json(&second.message)["request_id"].clone();
        let swapped = edit(&answers[0], |it| it["request_id"] = id);
        dropped(&mut duo, &swapped);
        // To a question that nobody asked.
        let id = json!("7f1c0e0a-9a3b-4d7e-8f00-0123456789ab");
        let unknown = edit(&answers[0], |it| it["request_id"] = id);
        dropped(&mut duo, &unknown);
        // Of another session.
        let id = json!("QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE");
        let elsewhere = edit(&answers[0], |it| it["session_id"] = id);
        dropped(&mut duo, &elsewhere);
        // The true ones still count, once.
        for answer in &answers {
            duo.hear(answer).unwrap();
            dropped(&mut duo, answer);
        }
        assert_eq!(duo.client.outstanding(), 0);
    }
}

#[test]
fn threat_43_44_45_46_48_50_51_forms_of_a_jws() {
    let mut duo = Duo::new();
    let asked = duo.ask(echo());
    let token = duo.start(&asked.message).token;
    let answer = duo.respond(token, json!({"n": 1})).message;
    for form in bad_forms("a2a-response+jws") {
        let wrong = edit(&answer, |it| {
            it["response_jws"] = json!(form(&it["response_jws"]));
        });
        dropped(&mut duo, &wrong);
    }
    duo.hear(&answer).unwrap();
}

/// Proves A-6-13, A-9-4.
#[test]
fn threat_52_110_what_an_answer_signs() {
    let mut duo = Duo::new();
    let asked = duo.ask(echo());
    let token = duo.start(&asked.message).token;
    let answer = duo.respond(token, json!({"n": 1})).message;
    dropped(&mut duo, &resign::<RESPONSE>(&answer, MALLORY, |_| {}));
    dropped(
        &mut duo,
        &edit(&answer, |it| it["result"] = json!({"n": 2})),
    );
    dropped(&mut duo, &edit(&answer, |it| it["extra"] = json!(1)));
    dropped(
        &mut duo,
        &edit(&answer, |it| it["status"] = json!("failure")),
    );
    for name in [
        "issuer",
        "audience",
        "timestamp",
        "session_id",
        "request_id",
        "seq",
        "message_hash",
        "request_hash",
        "status",
    ] {
        let without = resign::<RESPONSE>(&answer, SERVER, |it| {
            it.as_object_mut().unwrap().remove(name);
        });
        dropped(&mut duo, &without);
    }
    let hash = a2a_wire::Digest::of(b"other question").to_string();
    let other = resign::<RESPONSE>(&answer, SERVER, |it| it["request_hash"] = json!(hash));
    dropped(&mut duo, &other);
    let old = resign::<RESPONSE>(&answer, SERVER, |it| {
        it["timestamp"] = json!(it["timestamp"].as_i64().unwrap() - 301);
    });
    dropped(&mut duo, &old);
    let confused = resign::<ERROR>(
        &edit(&answer, |it| {
            it["error_jws"] = it["response_jws"].clone();
        }),
        SERVER,
        |_| {},
    );
    let confused = edit(&confused, |it| it["response_jws"] = it["error_jws"].clone());
    dropped(&mut duo, &confused);
    duo.hear(&answer).unwrap();
    // Nothing that a client sends is an answer, and neither is nonsense.
    dropped(&mut duo, &asked.message);
    dropped(&mut duo, b"{}");
}

#[test]
fn threat_42_118_an_unsigned_error_is_a_hint() {
    let mut duo = Duo::sealed();
    let asked = duo.ask(echo());
    let id = json(&asked.message)["request_id"].clone();
    let error = json!({"type": "error", "request_id": id, "error_code": "SESSION_EXPIRED",
        "details": {"reason": "agent_blocked", "retry_after_ms": 5, "path": "/secret"}});
    let event = duo.hear(&text(&error)).unwrap();
    let ClientEvent::Hint {
        request_id,
        failure,
    } = event
    else {
        panic!("{event:?}");
    };
    assert_eq!(request_id, Some(asked.request_id.to_string()));
    assert_eq!(failure.code, ErrorCode::SessionExpired);
    assert!(failure.figure("retry_after_ms").is_some() && failure.figure("path").is_none());
    // The session is not believed to be over: that is for a new handshake to find out.
    duo.is_well();
}
