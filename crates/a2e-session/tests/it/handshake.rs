//! Seeds 000 and 001: the handshake, negotiation, and what is refused around them.

use a2e_session::{CloseReason, HostEvent, Limits, Offer};
use serde_json::json;

use crate::support::{Host, call, handshake, kinds, offer};

/// Proves H-2, H-21, H-25 to H-29, H-31 to H-33, N-1, N-19, N-23.
#[test]
fn a_good_handshake_is_answered_with_what_was_negotiated() {
    let mut host = Host::new(Limits::default());
    let answers = host.say(&handshake(&["tools", "chains"]));
    let response = &answers[0];
    assert_eq!(response["type"], "handshake/resp");
    assert_eq!(response["req_id"], "h");
    assert_eq!(
        (&response["ok"], &response["reason"]),
        (&json!(true), &json!(""))
    );
    assert_eq!(response["max_parallel"], 4);
    assert_eq!(response["session_id"].as_str().unwrap().len(), 32);
    assert_eq!(response["eid"], 1);
    assert_eq!(
        response["accepted_caps"][0],
        json!({"capability": "tools", "enabled": true, "metadata": {
            "name": "mytools", "type": "tools", "priority": 0, "exclusive": false}})
    );
    assert_eq!(response["accepted_caps"][1]["enabled"], false);
    assert_eq!(
        response["accepted_caps"][1]["metadata"]["reason"],
        "no plugin loaded"
    );
}

/// Proves H-29, H-30, H-34 to H-36.
#[test]
fn each_reason_to_refuse() {
    for (message, reason) in [
        (
            json!({"type": "handshake/req", "id": "h", "agent_caps": ["tools"], "auth_token": "wrong"}),
            "auth_failed",
        ),
        (
            json!({"type": "handshake/req", "id": "h", "agent_caps": ["tools"]}),
            "auth_failed",
        ),
        (
            json!({"a2e": "2.0", "type": "handshake/req", "id": "h"}),
            "version_mismatch",
        ),
        (handshake(&["chains"]), "no_caps"),
    ] {
        let mut host = Host::new(Limits::default());
        let answers = host.say(&message);
        assert_eq!(answers.len(), 1);
        assert_eq!(
            (&answers[0]["ok"], &answers[0]["reason"]),
            (&json!(false), &json!(reason))
        );
        // The session is unharmed: the next try may be right.
        assert_eq!(host.say(&handshake(&["tools"]))[0]["ok"], true);
    }
}

/// Proves H-1.
#[test]
fn before_the_handshake_only_base_messages_are_served() {
    let mut host = Host::new(Limits::default());
    assert_eq!(
        kinds(&host.say(&json!({"type": "ping", "id": "p"}))),
        ["pong"]
    );
    assert_eq!(kinds(&host.say(&call("1"))), ["unauthorized"]);
    assert_eq!(
        kinds(&host.say(&json!({"type": "new/req", "id": "2"}))),
        ["unauthorized"]
    );
    let mut open = Host::with_offer(
        Limits::default(),
        Offer {
            authentication: false,
            ..offer()
        },
    );
    let answers = open.say(&call("1"));
    assert_eq!(kinds(&answers), ["capability_missing"]);
    assert_eq!(answers[0]["capability_name"], "tools");
    assert!(host.started().is_empty() && open.started().is_empty());
}

/// Proves N-26, N-27.
#[test]
fn a_capability_that_was_not_accepted_is_refused() {
    let mut host = Host::active(Limits::default());
    let answers = host.say(&json!({"type": "memory/init/req", "id": "m"}));
    assert_eq!(kinds(&answers), ["capability_missing"]);
    assert_eq!(
        (&answers[0]["req_id"], &answers[0]["capability_name"]),
        (&json!("m"), &json!("memory"))
    );
}

#[test]
fn a_second_handshake_is_answered_with_a_new_session() {
    let mut host = Host::active(Limits::default());
    host.say(&call("1"));
    let again = host.say(&handshake(&["memory"]));
    assert_eq!(again[0]["ok"], true);
    assert_eq!(kinds(&host.say(&call("2"))), ["capability_missing"]);
    assert_eq!(host.started().len(), 1);
    let wrong = host.say(&json!({"type": "handshake/req", "id": "x", "auth_token": "wrong"}));
    assert_eq!(wrong[0]["reason"], "auth_failed");
    // The refused one changes nothing.
    assert_eq!(
        kinds(&host.say(&json!({"type": "memory/init/req", "id": "m"}))),
        Vec::<String>::new()
    );
    assert_eq!(host.started().len(), 1);
}

#[test]
fn a_peer_that_does_not_shake_hands_is_let_go() {
    let mut host = Host::new(Limits::default());
    host.wait(9);
    assert!(!host.session.is_closed());
    host.wait(1);
    assert_eq!(host.events, [HostEvent::Closed(CloseReason::NoHandshake)]);
}

/// Lines that arrive while a token is checked wait for the outcome, in order and bounded.
#[test]
fn lines_behind_a_handshake_wait_for_it() {
    let mut host = Host::new(Limits {
        max_queue: 2,
        ..Limits::default()
    });
    let now = host.now();
    host.session
        .handle_line(now, Ok(handshake(&["tools"]).to_string().as_bytes()));
    assert!(!host.session.wants_input());
    for id in ["1", "2", "3"] {
        host.session
            .handle_line(now, Ok(call(id).to_string().as_bytes()));
    }
    let answers = host.drain();
    assert_eq!(kinds(&answers), ["runtime_error", "handshake/resp"]);
    assert_eq!(
        (&answers[0]["req_id"], &answers[0]["detail"]["reason"]),
        (&json!("3"), &json!("queue_full"))
    );
    let started: Vec<_> = host
        .started()
        .into_iter()
        .map(|request| request.message.envelope.id.to_string())
        .collect();
    assert_eq!(started, ["1", "2"]);
}

/// A session that ends while a token is checked does not come back to life.
/// Proves H-37.
#[test]
fn a_login_does_not_outlive_the_end_of_its_session() {
    let mut host = Host::new(Limits::default());
    let now = host.now();
    host.session
        .handle_line(now, Ok(handshake(&["tools"]).to_string().as_bytes()));
    host.session
        .shutdown(now, std::time::Duration::from_secs(5));
    assert!(!host.session.is_closed());
    let answers = host.drain();
    assert_eq!(answers[0]["reason"], "server_error");
    assert_eq!(host.events, [HostEvent::Closed(CloseReason::Shutdown)]);
}
