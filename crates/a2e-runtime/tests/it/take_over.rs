//! Who has a session that more than one connection asks for (`resume`).

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::support::{TRANSPORTS, Wire, demo, handshake};

fn resume(session: &Value) -> Value {
    let mut hello = handshake();
    hello["resume"] = json!({"session_id": session, "last_eid": 1});
    hello
}

/// The session is with whoever came last. The connection that had it ends in good order: the agent
/// may have lost it without either side having noticed.
#[tokio::test]
async fn the_old_connection_is_still_open() {
    for transport in TRANSPORTS {
        let place = transport.place(&demo().build()).await;
        let mut old = place.wire().await;
        let session = old.ask(&handshake()).await["session_id"].clone();
        let mut new = place.wire().await;
        let answer = new.ask(&resume(&session)).await;
        assert_eq!(answer["resumed"], true, "{transport:?} {answer}");
        assert!(old.is_over().await, "{transport:?}");
        let echo =
            json!({"type": "tool/call/req", "id": "e", "tool_name": "echo", "arguments": {"n": 1}});
        assert_eq!(new.ask(&echo).await["data"]["data"], json!({"n": 1}));
    }
}

/// Everyone is told, be it only to be followed by the next at once; in the end one has the session.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn thirty_at_once() {
    for transport in TRANSPORTS {
        let place = transport.place(&demo().build()).await;
        let mut first = place.wire().await;
        let session = first.ask(&handshake()).await["session_id"].clone();
        let hello = resume(&session);
        let mut wires = Vec::new();
        for _ in 0..30 {
            wires.push(place.wire().await);
        }
        let tell = |mut wire: Wire| {
            let hello = hello.clone();
            tokio::spawn(async move {
                let answer = wire.ask(&hello).await;
                assert_eq!(answer["resumed"], true, "{transport:?} {answer}");
                wire
            })
        };
        let wires = join_all(wires.into_iter().map(tell)).await;
        let holds = wires.into_iter().map(|wire| {
            let mut wire = wire.unwrap();
            tokio::spawn(async move {
                wire.say(r#"{"type":"ping","id":"p"}"#);
                // Whoever has lost it sees the end, or that it cannot write.
                let answer = wire.0.next().await.ok().flatten();
                answer.map(|line| serde_json::from_slice::<Value>(&line).unwrap()["type"].clone())
            })
        });
        let answers = join_all(holds).await.into_iter().filter_map(Result::unwrap);
        assert_eq!(answers.collect::<Vec<_>>(), ["pong"], "{transport:?}");
        assert!(first.is_over().await, "{transport:?}");
    }
}
