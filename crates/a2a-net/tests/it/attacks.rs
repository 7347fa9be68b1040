//! A peer that does not keep to the rules, at the engine.

use std::sync::Arc;

use a2a_identity::Answer as Fetched;
use a2a_net::transport::{Answer, Place, Service as _};
use a2a_net::*;
use a2a_session::{ClientEvent, Own};
use serde_json::json;
use tokio::task::JoinSet;

use crate::hand::{Hand, code_of, hello, own, send, shake};
use crate::support::*;

/// Threats 13 and 14: of many that claim a state one has it.
#[tokio::test]
async fn threat_14_a_proof_on_fifty_connections_at_once() {
    let world = World::<InMemory>::new().await;
    let deliver = async |server: &Server, message: Vec<u8>| {
        let kind: serde_json::Value = serde_json::from_slice(&message).unwrap();
        if kind["type"] == "hello" {
            return send(server, Place::Handshake, message).await;
        }
        let mut tries = JoinSet::new();
        for _ in 0..50 {
            let (server, message) = (server.clone(), message.clone());
            tries.spawn(async move { send(&server, Place::Handshake, message).await });
        }
        let answers = tries.join_all().await;
        let (lost, won): (Vec<_>, Vec<_>) = answers
            .into_iter()
            .partition(|answer| code_of(answer) == "HANDSHAKE_TIMEOUT");
        assert_eq!((lost.len(), won.len()), (49, 1));
        won.into_iter().next().unwrap()
    };
    shake(&world.server, world.client_home.standing(), own(), deliver).await;
    assert_eq!(world.server.sessions().len(), 1);
    assert_eq!(world.server.half_open(), 0);
}

/// Threat 92: a hundred copies at once.
#[tokio::test]
async fn threat_92_copies_of_a_request_run_once() {
    let world = World::<InMemory>::new().await;
    let runs = counting(&world.server, "work");
    let mut hand = Hand::new(&world).await;
    let request = hand.request(&json!({"goal": "work"}));
    let mut copies = JoinSet::new();
    for _ in 0..100 {
        let (server, request) = (world.server.clone(), request.clone());
        copies.spawn(async move { code_of(&send(&server, Place::Request, request).await) });
    }
    let codes = copies.join_all().await;
    let replays = codes
        .iter()
        .filter(|code| *code == "REPLAY_DETECTED")
        .count();
    assert_eq!((replays, runs.count()), (99, 1));
}

/// Threat 99: two hundred at once, of which a hundred may pass.
#[tokio::test]
async fn threat_99_exactly_the_limit_passes_at_once() {
    let tree = value(&json!({"rate_limit": 100, "rate_period": 86400}));
    let policy = policy::Policy::read(tree.as_object().unwrap(), policy::limits::PAYLOAD_CEILING);
    let rules = Rules {
        policy: policy.unwrap().complete().unwrap(),
        ..Rules::default()
    };
    let world = World::<InMemory>::with(rules, |_| {}).await;
    let runs = counting(&world.server, "work");
    // Two sessions, so that no client keeps the rate for us.
    let mut hands = [Hand::new(&world).await, Hand::new(&world).await];
    let mut calls = JoinSet::new();
    for number in 0..200 {
        let request = hands[number % 2].request(&json!({"goal": "work"}));
        let server = world.server.clone();
        calls.spawn(async move { code_of(&send(&server, Place::Request, request).await) });
    }
    let codes = calls.join_all().await;
    let refused = codes
        .iter()
        .filter(|code| *code == "RATE_LIMIT_EXCEEDED")
        .count();
    assert_eq!((refused, runs.count()), (100, 100));
}

/// Threats 90 and 97: unknown sessions are expired ones.
#[tokio::test]
async fn threat_97_recorded_requests_after_a_restart() {
    let world = World::<InMemory>::new().await;
    let mut hand = Hand::new(&world).await;
    let request = hand.request(&json!({"goal": "frith.ping"}));
    assert_eq!(code_of(&hand.send(request.clone()).await), "none");
    let restarted = World::<InMemory>::new().await;
    let runs = counting(&restarted.server, "frith.ping");
    assert_eq!(
        code_of(&send(&restarted.server, Place::Request, request).await),
        "SESSION_EXPIRED"
    );
    assert_eq!(runs.count(), 0);
}

/// Threats 91 and 102: badly signed requests take nothing from the session's owner, and are counted.
/// Proves A-9-18, A-9-20.
#[tokio::test]
async fn threats_91_102_143_a_flood_on_a_stolen_session_id() {
    let rules = limited(&json!({"rate_limit": 10, "rate_period": 3600}));
    let world = World::<InMemory>::with(rules, |_| {}).await;
    let runs = counting(&world.server, "work");
    let mut hand = Hand::new(&world).await;
    let request = hand.request(&json!({"goal": "work"}));
    let mut forged: serde_json::Value = serde_json::from_slice(&request).unwrap();
    forged["intent"]["goal"] = json!("frith.ping");
    let before = world.served("request_received").len();
    for _ in 0..1000 {
        let answer = hand.send(forged.to_string().into_bytes()).await;
        assert_eq!(code_of(&answer), "UNVERIFIED_AGENT");
    }
    // Those that the session's rate allows are on record one by one, and the others are counted.
    let records = world.served("request_received").split_off(before);
    assert_eq!(records.len(), 10);
    for record in records {
        let checks = &record["policy_checks"];
        assert_eq!(checks["session_valid"], "passed", "{record}");
        assert_eq!(checks["signature_verified"], "failed", "{record}");
        assert_eq!(record["result"], "rejected");
        assert_eq!(record["remote_agent_did"], did(CLIENT).to_string());
        assert!(record["session_id"].is_string() && record["request_id"].is_string());
    }
    // The same id, from its owner.
    assert_eq!(code_of(&hand.send(request).await), "none");
    assert_eq!(runs.count(), 1);
    world.close_logs();
    let counted = world.served("rejections");
    assert_eq!(counted[0]["count"], 990, "{counted:?}");
}

/// Threat 138: what cannot be put on record does not happen.
#[tokio::test]
async fn threat_138_a_record_that_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let log = log(folder.path());
    let made = Made {
        log: Some(log.clone()),
        ..Made::of(SERVER)
    };
    let home = made.node().await.home;
    let server = Server::start(home, ServerSettings::new().unwrap());
    let runs = counting(&server, "work");
    let client = Made::of(CLIENT).node().await;
    let deliver = async |server: &Server, message| send(server, Place::Handshake, message).await;
    let session = shake(&server, client.home.standing(), own(), deliver).await;
    let mut hand = Hand {
        server: server.clone(),
        session,
        clock: clock(),
    };
    log.close();
    let request = hand.request(&json!({"goal": "work"}));
    assert_eq!(code_of(&hand.send(request).await), "SERVICE_UNAVAILABLE");
    assert_eq!(runs.count(), 0);
}

/// Threat 55: a key that is revoked while a session lives.
#[tokio::test]
async fn threat_55_a_revoked_key_ends_its_sessions() {
    const DELEGATE: u8 = 50;
    let world = World::<InMemory>::new().await;
    let deliver = async |server: &Server, message| send(server, Place::Handshake, message).await;
    let with = |at, status: &str| {
        manifest_with(CLIENT, at, |draft| {
            let mut delegate = jwk("d", DELEGATE);
            delegate["status"] = json!(status);
            draft["public_keys"] = json!([jwk("k", CLIENT), delegate]);
        })
    };
    let delegated = Own::new(
        with(UNIX - 100, "active"),
        "d".parse().unwrap(),
        key(DELEGATE),
    );
    let standing = world.client_home.standing();
    let session = shake(&world.server, standing, delegated.unwrap(), deliver).await;
    let mut hand = Hand {
        server: world.server.clone(),
        session,
        clock: clock(),
    };
    let request = hand.request(&json!({"goal": "frith.ping"}));
    assert_eq!(code_of(&hand.send(request).await), "none");
    // The agent comes again with a newer manifest, which gives the key up.
    let newer = Own::new(
        with(UNIX - 50, "revoked"),
        "k".parse().unwrap(),
        key(CLIENT),
    );
    shake(&world.server, standing, newer.unwrap(), deliver).await;
    let request = hand.request(&json!({"goal": "frith.ping"}));
    assert_eq!(code_of(&hand.send(request).await), "SESSION_EXPIRED");
    assert_eq!(world.server.sessions().len(), 1);
    assert_eq!(world.served("session_end")[0]["reason"], "key_revoked");
    assert_eq!(world.served("key_change").len(), 1);
}

/// Threat 110: an answer that is not the server's.
#[tokio::test]
async fn threat_110_an_answer_to_another_question() {
    let world = World::<InMemory>::new().await;
    let mut hand = Hand::new(&world).await;
    let first = hand.request(&json!({"goal": "frith.ping"}));
    let old = hand.send(first).await;
    let event = hand.session.handle_message(hand.clock.now(), &old).unwrap();
    assert!(matches!(event, ClientEvent::Response { .. }));
    world.link.intercept(move |place, _| match place {
        Place::Request => Some(Ok(reply(Answer::Message(old.clone())))),
        Place::Handshake | Place::Any => None,
    });
    let error = world.call(json!({"goal": "frith.ping"})).await.unwrap_err();
    assert!(matches!(error.last(), CallError::NotBelieved(_)), "{error}");
    assert!(world.client.sessions().await.is_empty());
    assert_eq!(
        world.called("request_sent")[0]["response_status"],
        "UNVERIFIED_AGENT"
    );
}

/// Threats 5 and 70: somebody else answers at the server's address.
#[tokio::test]
async fn threat_05_somebody_else_answers() {
    let world = World::<InMemory>::new().await;
    let mut made = Made::of(9);
    made.identity = Identity::new(
        manifest_with(9, UNIX - 100, |draft| {
            draft["endpoints"][0]["url"] = json!(format!("https://{HOST}/a2a/handshake"));
        }),
        "k".parse().unwrap(),
        key(9),
    )
    .unwrap();
    let mallory = Server::start(made.node().await.home, ServerSettings::new().unwrap());
    let link = InMemory::open(&mallory).await;
    let client = Client::new(
        Arc::clone(&world.client_home),
        ClientSettings::default(),
        link.couriers(),
        link.guard(),
    );
    let ping = value(&json!({"goal": "frith.ping"}));
    let error = client
        .call(&did(SERVER), ping, &CallOptions::default())
        .await
        .unwrap_err();
    assert_eq!(error.code(), a2a_wire::ErrorCode::UnverifiedAgent);
    // HELLO and the word that it is over: no PROOF left the client.
    assert_eq!(
        link.handshakes.load(std::sync::atomic::Ordering::Relaxed),
        2
    );
    assert!(mallory.sessions().is_empty() && mallory.half_open() == 0);
}

/// Threat 70: a manifest that is not the one pinned.
#[tokio::test]
async fn threat_70_a_pinned_manifest() {
    let made = Made::of(CLIENT);
    let mut rules = Rules::default();
    rules.pins.insert(
        did(SERVER).to_string(),
        a2a_identity::Pins {
            manifest: Some(canonical::Digest::of(b"another")),
            keys: Vec::new(),
        },
    );
    let node = Made { rules, ..made }.node().await;
    let world = World::<InMemory>::new().await;
    know(&node, &world.server);
    let client = Client::new(
        node.home,
        ClientSettings::default(),
        world.link.couriers(),
        world.link.guard(),
    );
    let ping = value(&json!({"goal": "frith.ping"}));
    let error = client
        .call(&did(SERVER), ping, &CallOptions::default())
        .await
        .unwrap_err();
    assert_eq!(error.code(), a2a_wire::ErrorCode::InvalidManifest);
    assert_eq!(
        world
            .link
            .handshakes
            .load(std::sync::atomic::Ordering::Relaxed),
        0
    );
}

/// Threat 84: endpoints that lead inside.
#[tokio::test]
async fn threat_84_endpoints_that_lead_inside() {
    let world = World::<InMemory>::new().await;
    for url in [
        "https://127.0.0.1/a2a/handshake",
        "https://localhost/a2a/handshake",
        "https://server.example.com:22/a2a/handshake",
    ] {
        let made = Made::of(CLIENT);
        let node = made.node().await;
        let inside = manifest_with(SERVER, UNIX - 50, |draft| {
            draft["endpoints"][0]["url"] = json!(url)
        });
        let bytes = canonical::Value::Object(inside).to_canonical();
        node.spy.publish(MANIFEST_URL, Fetched::Body(bytes));
        node.home.resolver().set_place(&did(SERVER), MANIFEST_URL);
        let client = Client::new(
            node.home,
            ClientSettings::default(),
            world.link.couriers(),
            world.link.guard(),
        );
        let ping = value(&json!({"goal": "frith.ping"}));
        let error = client
            .call(&did(SERVER), ping, &CallOptions::default())
            .await
            .unwrap_err();
        assert!(
            matches!(error, CallError::NotReachable { .. }),
            "{url}: {error}"
        );
    }
    assert_eq!(
        world
            .link
            .handshakes
            .load(std::sync::atomic::Ordering::Relaxed),
        0
    );
}

/// Threat 37: no one is asked about a HELLO, whatever name it has.
#[tokio::test]
async fn threat_37_no_one_is_asked_before_a_valid_proof() {
    let node = Made::of(SERVER).node().await;
    let server = Server::start(Arc::clone(&node.home), ServerSettings::new().unwrap());
    for number in 0..20 {
        let name = format!("did:web:agent{number}.example.com");
        let draft = manifest_with(CLIENT, UNIX, |draft| draft["agent_did"] = json!(name));
        let own = Own::new(draft, "k".parse().unwrap(), key(CLIENT)).unwrap();
        let hello = hello(own);
        assert_eq!(
            code_of(&send(&server, Place::Handshake, hello).await),
            "none"
        );
    }
    assert_eq!(server.half_open(), 20);
    assert!(node.spy.asked().is_empty());
}

/// Threat 132: a caller that says how long it waits.
#[tokio::test]
async fn threat_132_a_deadline_of_the_transport() {
    let world = World::<InMemory>::new().await;
    let stopped = Arc::new(tokio::sync::Notify::new());
    let stops = Arc::clone(&stopped);
    world.server.register(name("endless"), move |call: Call| {
        let stops = Arc::clone(&stops);
        tokio::spawn(async move {
            call.cancelled.cancelled().await;
            stops.notify_one();
        });
        std::future::pending()
    });
    let mut hand = Hand::new(&world).await;
    let request = hand.request(&json!({"goal": "endless", "constraints": {"timeout_ms": 300_000}}));
    let mut arrived = arrived(Place::Request, None, request.into());
    arrived.patience = Some(std::time::Duration::from_millis(20));
    let answer = world.server.handle(arrived).await;
    let Answer::Error { code, .. } = answer else {
        panic!("{answer:?}");
    };
    assert_eq!(code, a2a_wire::ErrorCode::Timeout);
    stopped.notified().await;
}

/// Threat 143: what nobody signed becomes few records.
#[tokio::test]
async fn threat_143_rejections_are_counted() {
    let world = World::<InMemory>::new().await;
    for _ in 0..500 {
        let answer = send(&world.server, Place::Request, b"{}".to_vec()).await;
        assert_eq!(code_of(&answer), "INVALID_MESSAGE");
    }
    assert!(world.served("request_received").is_empty());
    world.close_logs();
    let counted = world.served("rejections");
    assert_eq!(counted.len(), 1);
    assert_eq!(counted[0]["count"], 500);
}
