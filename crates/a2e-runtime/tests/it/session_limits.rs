//! How many sessions an agent may have, over every kind of connection.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Place, TOKEN, TRANSPORTS, Transport, Wire, demo, handshake};

/// A connection on which a handshake was answered.
async fn begin(place: &Place, hello: &Value) -> (Wire, Value) {
    let mut wire = place.wire().await;
    let answer = wire.ask(hello).await;
    (wire, answer)
}

/// A session, as soon as the host has one for this agent.
async fn begin_eventually(place: &Place) -> (Wire, Value) {
    loop {
        let (wire, answer) = begin(place, &handshake()).await;
        if answer["ok"] == true {
            return (wire, answer["session_id"].clone());
        }
    }
}

fn resume(session: &Value) -> Value {
    let mut hello = handshake();
    hello["resume"] = json!({"session_id": session, "last_eid": 1});
    hello
}

/// At the limit of one agent and past it. The refusal names the limit and how to change it, the
/// agent's other sessions go on, and one that ends makes room.
#[tokio::test]
async fn an_agent_has_so_many_sessions() {
    for transport in TRANSPORTS {
        let host = demo().max_sessions_per_agent(2).build();
        let place = transport.place(&host).await;
        let first = place.client(TOKEN, &["tools"]).await.unwrap();
        let (mut second, answer) = begin(&place, &handshake()).await;
        assert_eq!(answer["ok"], true, "{transport:?}");
        let (third, answer) = begin(&place, &handshake()).await;
        assert_eq!(answer["ok"], false, "{transport:?}");
        let reason = answer["reason"].as_str().unwrap();
        for part in [
            "too_many_sessions",
            "`default`",
            ", 2;",
            "global_limits.max_sessions_per_agent",
        ] {
            assert!(reason.contains(part), "{transport:?} {reason}");
        }
        let again = second.ask(&handshake()).await;
        assert_eq!(again["ok"], true, "{transport:?}: it keeps its slot");
        first.ping().await.unwrap();
        first.disconnect(Duration::from_secs(1)).await;
        begin_eventually(&place).await;
        drop(third);
    }
}

/// A session whose connection broke gives way to a new one of its agent, and cannot be resumed; one
/// that is connected never gives way.
#[tokio::test]
async fn detached_sessions_give_way_to_new_ones_of_their_agent() {
    for transport in TRANSPORTS {
        let host = demo().max_sessions_per_agent(2).build();
        let place = transport.place(&host).await;
        let (mut connected, _) = begin_eventually(&place).await;
        let (wire, first) = begin_eventually(&place).await;
        drop(wire);
        let (wire, second) = begin_eventually(&place).await;
        let (_, answer) = begin(&place, &resume(&first)).await;
        assert_eq!(answer["reason"], "auth_failed", "{transport:?}");
        drop(wire);
        let (_, answer) = begin(&place, &resume(&second)).await;
        assert_eq!(answer["resumed"], true, "{transport:?}");
        let ping = json!({"type": "ping", "id": "p"});
        assert_eq!(connected.ask(&ping).await["type"], "pong", "{transport:?}");
    }
}

/// Past its share of the connections an agent's oldest ends, and its session can be resumed.
#[tokio::test]
async fn an_agents_oldest_connection_gives_way_to_its_newest() {
    for transport in [
        Transport::Tcp,
        Transport::Tls,
        Transport::Unix,
        Transport::WebSocket,
    ] {
        // Half of them are one agent's.
        let place = transport.place(&demo().max_connections(4).build()).await;
        let (mut oldest, first) = begin(&place, &handshake()).await;
        let (mut second, _) = begin(&place, &handshake()).await;
        let (mut newest, _) = begin(&place, &handshake()).await;
        assert!(
            !matches!(oldest.0.next().await, Ok(Some(_))),
            "{transport:?}"
        );
        let ping = json!({"type": "ping", "id": "p"});
        for wire in [&mut second, &mut newest] {
            assert_eq!(wire.ask(&ping).await["type"], "pong", "{transport:?}");
        }
        drop(second);
        let (_, answer) = begin(&place, &resume(&first["session_id"])).await;
        assert_eq!(answer["resumed"], true, "{transport:?} {answer}");
    }
}
