//! Rules, records and endings.

use std::sync::Arc;
use std::time::Duration;

use a2a_net::*;
use a2a_wire::ErrorCode;
use serde_json::json;
use tokio::sync::Notify;

use crate::support::*;

/// Threat 107.
pub(super) async fn threat_107_the_deadline_of_a_handler<L: Link>() {
    let world = World::<L>::new().await;
    world
        .server
        .register(name("endless"), |_: Call| std::future::pending());
    let options = CallOptions {
        name_work: NameWork::No,
        ..CallOptions::default()
    };
    let intent = value(&json!({"goal": "endless", "constraints": {"timeout_ms": 20}}));
    let error = world
        .client
        .call(&did(SERVER), intent, &options)
        .await
        .unwrap_err();
    assert!(told(&error).signed);
    assert_eq!(error.code(), ErrorCode::Timeout);
}

/// Threat 112.
pub(super) async fn threat_112_a_handler_that_breaks<L: Link>() {
    let world = World::<L>::new().await;
    world.server.register(name("panics"), |_: Call| async {
        if std::hint::black_box(true) {
            panic!("MARKER-IN-A-PANIC");
        }
        Ok(value(&json!(null)))
    });
    world.server.register(name("fails"), |_: Call| async {
        Err(HandlerError::Failed("the disk is full"))
    });
    let options = CallOptions {
        name_work: NameWork::No,
        ..CallOptions::default()
    };
    for goal in ["panics", "fails"] {
        let intent = value(&json!({ "goal": goal }));
        let error = world
            .client
            .call(&did(SERVER), intent, &options)
            .await
            .unwrap_err();
        let told = told(&error);
        assert!(told.signed);
        assert_eq!(error.code(), ErrorCode::InternalError);
        let incident = told.failure.figure("incident").unwrap();
        assert_eq!(incident.as_str().unwrap().len(), 36);
    }
    for record in world.served("request_received") {
        assert!(!record.to_string().contains("MARKER"), "{record}");
    }
    assert!(world.call(json!({"goal": "frith.ping"})).await.is_ok());
}

/// Threat 111.
pub(super) async fn threat_111_nobody_serves_that<L: Link>() {
    let world = World::<L>::new().await;
    let error = world.call(json!({"goal": "nobody"})).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::UnsupportedCapability);
    assert!(told(&error).signed);
}

/// Threat 117.
pub(super) async fn threat_117_blocked_during_a_session<L: Link>() {
    let world = World::<L>::new().await;
    let runs = counting(&world.server, "work");
    world.call(json!({"goal": "work"})).await.unwrap();
    let mut rules = Rules::default();
    rules.blocked.insert(did(CLIENT).to_string());
    world.server.set_rules(rules);
    let error = world.call(json!({"goal": "work"})).await.unwrap_err();
    assert_eq!(reason(&error), "agent_blocked");
    assert_eq!(runs.count(), 1);
    assert_eq!(world.served("policy_change").len(), 1);
    world.server.set_rules(Rules::default());
    assert!(world.call(json!({"goal": "work"})).await.is_ok());
}

pub(super) async fn a_tighter_policy_holds_at_once<L: Link>() {
    let world = World::<L>::new().await;
    let runs = counting(&world.server, "work");
    world.call(json!({"goal": "work"})).await.unwrap();
    let tree = value(&json!({"blocked_intents": ["work"]}));
    let policy = policy::Policy::read(tree.as_object().unwrap(), policy::limits::PAYLOAD_CEILING);
    let policy = policy.unwrap().complete().unwrap();
    world.server.set_rules(Rules {
        policy,
        ..Rules::default()
    });
    let error = world.call(json!({"goal": "work"})).await.unwrap_err();
    assert_eq!(reason(&error), "intent_blocked");
    assert_eq!(runs.count(), 1);
}

/// Transports carry what the policy allows, be it more or less than usual; the server refuses more.
pub(super) async fn a_request_may_be_as_large_as_the_policy_says<L: Link>() {
    for (limit, fits) in [(4096, 100), (4 * 1024 * 1024, 2 * 1024 * 1024)] {
        let world = World::<L>::with(limited(&json!({ "max_payload_size": limit })), |_| {}).await;
        let runs = counting(&world.server, "work");
        let work = |bytes: usize| json!({"goal": "work", "inputs": {"text": "x".repeat(bytes)}});
        for encrypt in [Encrypt::AsAgreed, Encrypt::Required] {
            let options = CallOptions {
                encrypt,
                ..CallOptions::default()
            };
            let server = did(SERVER);
            let answer = world.client.call(&server, value(&work(fits)), &options);
            assert_eq!(answer.await.unwrap().attempts, 1, "{limit}");
        }
        // The client knows what was agreed, and sends no more.
        let error = world.call(work(limit)).await.unwrap_err();
        assert!(matches!(error, CallError::Request(_)), "{error}");
        assert_eq!(runs.count(), 2);
    }
}

pub(super) async fn sessions_are_closed_on_both_sides<L: Link>() {
    let world = World::<L>::new().await;
    world.call(json!({"goal": "frith.ping"})).await.unwrap();
    world.client.close(Duration::from_secs(30)).await;
    assert!(world.server.sessions().is_empty());
    assert!(world.client.sessions().await.is_empty());
    assert_eq!(world.served("session_end")[0]["reason"], "closed");
    assert!(world.call(json!({"goal": "frith.ping"})).await.is_ok());
}

pub(super) async fn many_requests_at_once_share_a_session<L: Link>() {
    let world = World::<L>::new().await;
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..64 {
        let client = world.client.clone();
        calls.spawn(async move {
            let ping = value(&json!({"goal": "frith.ping", "inputs": {"echo": number}}));
            let answer = client
                .call(&did(SERVER), ping, &CallOptions::default())
                .await
                .unwrap();
            assert_eq!(json_of(&answer.result)["echo"], number);
            answer.session.session_id
        });
    }
    let ids: std::collections::BTreeSet<_> = calls.join_all().await.into_iter().collect();
    assert_eq!(ids.len(), 1);
    assert_eq!(world.served("request_received").len(), 64);
}

/// Who has met an agent calls it without another handshake.
pub(super) async fn an_agent_can_be_met_before_it_is_called<L: Link>() {
    let world = World::<L>::new().await;
    let met = world.client.meet(&did(SERVER), Encrypt::AsAgreed).await;
    let met = met.unwrap().session_id;
    let again = world.client.meet(&did(SERVER), Encrypt::AsAgreed).await;
    assert_eq!(again.unwrap().session_id, met);
    let answer = world.call(json!({"goal": "frith.ping"})).await.unwrap();
    assert_eq!(answer.session.session_id, met);
    assert_eq!(world.server.sessions().len(), 1);
}

pub(super) async fn a_handshake_can_be_shown<L: Link>() {
    let world = World::<L>::new().await;
    let shown = world
        .client
        .introduce(&did(SERVER), Encrypt::AsAgreed)
        .await
        .unwrap();
    let types: Vec<String> = shown
        .said
        .iter()
        .map(|said| {
            let message: serde_json::Value = serde_json::from_slice(&said.message).unwrap();
            message["type"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(
        types,
        [
            "hello",
            "challenge",
            "proof",
            "policy",
            "accept_policy",
            "session"
        ]
    );
    assert_eq!(shown.said[0].by, Speaker::Client);
    assert!(world.server.sessions().is_empty());
}

/// Threat 145, over the engine: one record for each outcome, written before the answer.
pub(super) async fn threat_145_every_outcome_is_on_record<L: Link>() {
    let world = World::<L>::new().await;
    world
        .call(json!({"goal": "frith.ping", "intent_id": "6f1c5b8e-3f57-4d1e-9a53-1f1b7e0c9d13"}))
        .await
        .unwrap();
    let _ = world.call(json!({"goal": "nobody"})).await.unwrap_err();
    let served = world.served("request_received");
    assert_eq!(served.len(), 2);
    let body = &served[0];
    assert_eq!(body["result"], "approved");
    assert_eq!(body["response_status"], "success");
    assert_eq!(body["remote_agent_did"], did(CLIENT).to_string());
    assert_eq!(body["intent_goal"], "frith.ping");
    assert_eq!(body["binding"], "profile");
    assert_eq!(body["trust_level"], "self");
    assert_eq!(body["kid"], "k");
    for check in [
        "session_valid",
        "signature_verified",
        "rate_limit",
        "intent_allowed",
        "payload_size",
    ] {
        assert_eq!(body["policy_checks"][check], "passed", "{check}");
    }
    for member in [
        "session_id",
        "request_id",
        "intent_id",
        "manifest_hash",
        "policy_hash",
        "request_hash",
        "response_hash",
        "transport",
        "remote_ip_hash",
        "processing_time_ms",
    ] {
        assert!(!body[member].is_null(), "{member}");
    }
    let body = &served[1];
    assert_eq!(
        (&body["result"], &body["response_status"]),
        (&json!("rejected"), &json!("UNSUPPORTED_CAPABILITY"))
    );
    assert_eq!(world.served("handshake").len(), 1);
    // The client's side of the same.
    let called = world.called("request_sent");
    assert_eq!(called.len(), 2);
    assert_eq!(called[0]["response_status"], "success");
    assert_eq!(called[0]["response_hash"], served[0]["response_hash"]);
    assert_eq!(called[1]["response_status"], "UNSUPPORTED_CAPABILITY");
    assert_eq!(world.called("handshake_sent").len(), 1);
}

pub(super) async fn a_server_that_stops_lets_work_finish<L: Link>() {
    let world = World::<L>::new().await;
    let (begun, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (told, waits) = (Arc::clone(&begun), Arc::clone(&go));
    world.server.register(name("slow"), move |_: Call| {
        told.notify_one();
        let waits = Arc::clone(&waits);
        async move {
            waits.notified().await;
            Ok(value(&json!("finished")))
        }
    });
    let stopping = async {
        begun.notified().await;
        let stop = world.server.stop(Duration::from_secs(60));
        tokio::join!(stop, async { go.notify_one() });
    };
    let (answer, ()) = tokio::join!(world.call(json!({"goal": "slow"})), stopping);
    assert_eq!(json_of(&answer.unwrap().result), json!("finished"));
    assert!(world.server.sessions().is_empty());
    let options = CallOptions {
        timeout: Duration::from_millis(1),
        ..CallOptions::default()
    };
    let ping = value(&json!({"goal": "frith.ping"}));
    let error = world
        .client
        .call(&did(SERVER), ping, &options)
        .await
        .unwrap_err();
    assert!(
        matches!(error.last(), CallError::TimedOut | CallError::Refused(_)),
        "{error}"
    );
}
