//! Document 004 (A2A protocol) over a network: what other tests leave out.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use a2a_identity::{Answer as Fetched, TrustLevel};
use a2a_net::transport::{Answer, Carrier, Ids, Oversized, Place, Reply, Service};
use a2a_net::*;
use a2a_wire::ErrorCode;
use bytes::Bytes;
use serde_json::json;
use testkit::Foreign;

use crate::hand::{Hand, send};
use crate::support::*;

/// §5: what a server says in its own name is checked whatever the status of its transport: a peer that
/// cannot prove who it is does not look like a proxy that is busy.
#[tokio::test(start_paused = true)]
async fn failed_identity_check_is_not_taken_for_a_proxy() {
    for status in [200, 429, 502, 503, 504] {
        let world = World::<InMemory>::new().await;
        let server = world.server.clone();
        world.link.intercept(move |place, message| {
            let is_hello = message.windows(7).any(|it| it == b"\"hello\"");
            if !is_hello {
                return None;
            }
            let handled = server.handle(arrived(place, None, Bytes::copy_from_slice(message)));
            let answer = futures_util::FutureExt::now_or_never(handled).expect("an answer");
            let Answer::Message(message) = answer else {
                panic!("{answer:?}");
            };
            let mut message: serde_json::Value = serde_json::from_slice(&message).unwrap();
            message["server_did"] = json!(did(9).to_string());
            Some(Ok(Reply::Message {
                message: Bytes::from(message.to_string()),
                status,
                retry_after: None,
            }))
        });
        let error = world.call(json!({"goal": "frith.ping"})).await.unwrap_err();
        assert_eq!(
            error.code(),
            ErrorCode::UnverifiedAgent,
            "{status}: {error}"
        );
        // HELLO, and that the client gives up.
        assert_eq!(world.link.handshakes.load(SeqCst), 2, "{status}");
    }
}

/// The same in a session: an answer with another signature is not a proxy's.
#[tokio::test(start_paused = true)]
async fn answer_that_is_not_signed_right_is_not_taken_for_a_proxy() {
    for status in [200, 429, 502, 503, 504] {
        let world = World::<InMemory>::new().await;
        world.link.intercept(move |place, message| {
            if place != Place::Request {
                return None;
            }
            let asked: serde_json::Value = serde_json::from_slice(message).unwrap();
            let message = json!({"type": "response", "session_id": asked["session_id"],
                "request_id": asked["request_id"], "status": "success", "result": {},
                "response_jws": asked["request_jws"]});
            Some(Ok(Reply::Message {
                message: Bytes::from(message.to_string()),
                status,
                retry_after: None,
            }))
        });
        let error = world.call(json!({"goal": "frith.ping"})).await.unwrap_err();
        assert!(
            matches!(error.last(), CallError::NotBelieved(_)),
            "{status}: {error}"
        );
        assert_eq!(world.link.requests.load(SeqCst), 1, "{status}");
    }
}

const WEB: &str = "did:web:translator.example.com:agent:translator";
const WEB_DOCUMENT: &str = "https://translator.example.com/.well-known/did.json";
const WEB_MANIFEST: &str = "https://translator.example.com/.well-known/agent-manifest.json";

/// A program that knows the document alone, as a did:web, and what it publishes: its `did.json`.
fn web_agent(side: &str) -> (Foreign, Vec<u8>) {
    let time = UNIX.to_string();
    let arguments = ["lines", side, "--did-web", WEB, "--time", &time];
    let mut foreign = Foreign::start("seed004_wire.py", &arguments);
    let agent = foreign.ask(&json!({"ask": "agent"}));
    let members: Vec<_> = agent["document"].as_object().unwrap().keys().collect();
    assert_eq!(members, ["agent_did", "endpoints", "public_keys"]);
    (foreign, agent["document"].to_string().into_bytes())
}

/// §4, did:web: HTTPS GET of `did.json` "returns" the agent's DID, its keys and its endpoints. With that alone
/// an agent is served, at the trust of a did:key without a manifest.
/// Proves A-4-4, A-4-5.
#[tokio::test]
async fn did_web_that_publishes_its_document_alone_is_served() {
    let (mut foreign, document) = web_agent("client");
    let node = Made::of(SERVER).node().await;
    node.spy.publish(WEB_DOCUMENT, Fetched::Body(document));
    let server = Server::start(Arc::clone(&node.home), ServerSettings::new().unwrap());
    let mut carry = async |ask: serde_json::Value| {
        let mut said = foreign.ask(&ask);
        while let Some(body) = said["body"].as_str() {
            let place = match said["place"].as_str() {
                Some("handshake") => Place::Handshake,
                _ => Place::Request,
            };
            let answer = send(&server, place, body.as_bytes().to_vec()).await;
            let answer = str::from_utf8(&answer).unwrap();
            said = foreign.ask(&json!({ "body": answer }));
        }
        said["done"].clone()
    };
    let server_did = did(SERVER).to_string();
    let done = carry(json!({"ask": "handshake", "did": server_did})).await;
    assert_eq!(done["server_did"], server_did, "{done}");
    let intent = json!({"goal": "ping", "domain": "frith", "inputs": {"echo": "hi"}});
    let done = carry(json!({"ask": "request", "intent": intent})).await;
    assert_eq!(done["echo"], "hi", "{done}");
    let [session] = &server.sessions()[..] else {
        panic!("one session");
    };
    assert_eq!(session.peer.did, WEB);
    assert_eq!(session.peer.binding, a2a_session::Binding::Baseline);
    assert_eq!(session.peer.trust_level, TrustLevel::Own);
    // It has no manifest.
    assert_eq!(node.spy.asked(), [WEB_DOCUMENT, WEB_MANIFEST]);
}

/// The other role: the document says where the agent is and with which keys it signs.
/// Proves A-4-4, A-4-5.
#[tokio::test]
async fn did_web_that_publishes_its_document_alone_is_called() {
    let (foreign, document) = web_agent("server");
    let nobody = Made::of(SERVER).node().await.home;
    let nobody = Server::start(nobody, ServerSettings::new().unwrap());
    let link = InMemory::open(&nobody).await;
    let foreign = std::sync::Mutex::new(foreign);
    link.intercept(move |place, message| {
        let message: serde_json::Value = serde_json::from_slice(message).unwrap();
        let place = match place {
            Place::Handshake => "handshake",
            Place::Request | Place::Any => "request",
        };
        let said = foreign.lock().unwrap().ask(&json!({"place": place,
            "body": message.to_string(), "session": message["session_id"]}));
        Some(Ok(Reply::Message {
            message: Bytes::from(said["body"].as_str().unwrap().to_owned()),
            status: said["status"].as_u64().unwrap().try_into().unwrap(),
            retry_after: None,
        }))
    });
    let node = Made::of(CLIENT).node().await;
    node.spy.publish(WEB_DOCUMENT, Fetched::Body(document));
    let client = Client::new(
        Arc::clone(&node.home),
        ClientSettings::default(),
        link.couriers(),
        link.guard(),
    );
    let intent = value(&json!({"goal": "echo", "inputs": {"say": "hi"}}));
    let options = CallOptions::default();
    let answered = client
        .call(&WEB.parse().unwrap(), intent, &options)
        .await
        .unwrap();
    assert_eq!(json_of(&answered.result), json!({"echo": {"say": "hi"}}));
    assert_eq!(answered.session.did, WEB);
    assert_eq!(answered.session.binding, a2a_session::Binding::Baseline);
    assert_eq!(answered.session.trust_level, TrustLevel::Own);
    assert_eq!(node.spy.asked(), [WEB_DOCUMENT, WEB_MANIFEST]);
}

/// §6, "Check payload size < max_payload_size", and §8: whoever sends more than is read, and is not known to
/// speak the profile, gets a code of the document.
/// Proves A-6-7.
#[tokio::test(start_paused = true)]
async fn oversized_message_of_an_unknown_sender_is_a_policy_violation() {
    let world = World::<InMemory>::new().await;
    let oversized = |place, session_hint: Option<&str>, ids| Oversized {
        carrier: Carrier::Http1,
        place,
        source: ([198, 51, 100, 7], 40_000).into(),
        session_hint: session_hint.map(Into::into),
        ids,
        limit: 1000,
        size: Some(1001),
    };
    let code = async |oversized| {
        let answer = world.server.refuse_oversized(oversized).await;
        let Answer::Error { code, message, .. } = answer else {
            panic!("{answer:?}");
        };
        let message: serde_json::Value = serde_json::from_slice(&message).unwrap();
        assert_eq!(message["error_code"], code.as_str());
        assert_eq!(message["details"], json!({"limit": 1000, "size": 1001}));
        (code, message["request_id"].clone())
    };
    let (unknown, known) = (ErrorCode::PolicyViolation, ErrorCode::PayloadTooLarge);
    let none = serde_json::Value::Null;
    for place in [Place::Handshake, Place::Request, Place::Any] {
        let said = code(oversized(place, None, None)).await;
        assert_eq!(said, (unknown.clone(), none.clone()));
    }
    let hand = Hand::new(&world).await;
    let id = hand.session.established().session_id().to_string();
    let said = code(oversized(Place::Request, Some(&id), None)).await;
    assert_eq!(said, (known.clone(), none.clone()));
    let request_id = "7f1c0e0a-9a3b-4d7e-8f00-0123456789ab";
    let ids = |session: &str| Ids {
        session_id: Some(session.to_owned()),
        request_id: Some(request_id.to_owned()),
    };
    let said = code(oversized(Place::Request, Some(&id), Some(ids(&id)))).await;
    assert_eq!(said, (known, json!(request_id)));
    // The head and the body name two sessions, so nobody is known.
    let said = code(oversized(Place::Request, Some(&id), Some(ids("another")))).await;
    assert_eq!(said, (unknown, none));
    world.close_logs();
    let recorded = world.served("request_received");
    assert_eq!(recorded.len(), 1, "{recorded:?}");
    assert_eq!(recorded[0]["policy_checks"]["payload_size"], "failed");
    assert_eq!(recorded[0]["request_id"], request_id);
}

/// §8: what a proxy on the way answers is retried like the code with its status. It is never taken
/// for an answer of the agent that cannot be verified.
/// Proves A-8-4, A-8-10, A-8-11.
#[tokio::test(start_paused = true)]
async fn answers_of_proxies_are_retried() {
    for (status, code) in [
        (429, ErrorCode::RateLimitExceeded),
        (502, ErrorCode::ServiceUnavailable),
        (503, ErrorCode::ServiceUnavailable),
        (504, ErrorCode::Timeout),
    ] {
        for (at, body) in [
            (Place::Request, ""),
            (Place::Request, r#"{"message":"upstream request timeout"}"#),
            (Place::Handshake, ""),
        ] {
            let world = World::<InMemory>::new().await;
            let asked = Arc::new(AtomicUsize::new(0));
            let counted = Arc::clone(&asked);
            world.link.intercept(move |place, _| {
                if place != at {
                    return None;
                }
                // The proxy is well again after the third.
                if counted.fetch_add(1, SeqCst) >= 3 {
                    return None;
                }
                Some(Ok(Reply::Message {
                    message: Bytes::from_static(body.as_bytes()),
                    status,
                    retry_after: None,
                }))
            });
            let options = CallOptions {
                timeout: Duration::from_secs(600),
                ..CallOptions::default()
            };
            let ping = value(&json!({"goal": "frith.ping"}));
            let answer = world
                .client
                .call(&did(SERVER), ping.clone(), &options)
                .await;
            assert_eq!(answer.unwrap().attempts, 4, "{status} {body}");

            let world = World::<InMemory>::new().await;
            world.link.intercept(move |place, _| {
                (place == at).then(|| {
                    Ok(Reply::Message {
                        message: Bytes::from_static(body.as_bytes()),
                        status,
                        retry_after: None,
                    })
                })
            });
            let error = world.client.call(&did(SERVER), ping, &options).await;
            assert_eq!(error.unwrap_err().code(), code, "{status} {body}");
        }
    }
}
