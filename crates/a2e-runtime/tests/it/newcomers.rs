//! What somebody may take who has not said who he is.

use serde_json::json;

use crate::support::{Place, TOKEN, TRANSPORTS, Transport, Wire, demo, handshake};

/// A connection that the host has taken, or nothing if it refuses any more.
async fn silent(place: &Place) -> Option<Wire> {
    let mut wire = match place.try_wire().await {
        Ok(wire) => wire,
        Err(error) => {
            assert!(error.to_string().contains("429"), "{error}");
            return None;
        }
    };
    let answer = wire.ask_line(r#"{"type":"ping","id":"p"}"#).await;
    if answer["type"] == "pong" {
        return Some(wire);
    }
    assert_eq!(answer["code"], "runtime_error");
    assert_eq!(answer["retryable"], true);
    assert_eq!(answer["detail"]["reason"], "too_many_newcomers");
    assert_eq!(wire.hear().await, None);
    None
}

/// At the limit of one source, and past it; whoever shakes hands makes room, and who has done so
/// before notices nothing.
#[tokio::test]
async fn connections_that_say_nothing() {
    for transport in [
        Transport::Tcp,
        Transport::Unix,
        Transport::WebSocket,
        Transport::Http,
    ] {
        let host = demo().max_newcomers(9).build();
        let place = transport.place(&host).await;
        let neighbour = place.client(TOKEN, &["tools"]).await.unwrap();
        let mut silence = Vec::new();
        while let Some(wire) = silent(&place).await {
            silence.push(wire);
        }
        // Sessions over HTTP come over connections, which count too, a WebSocket's only at first.
        let sessions = if transport == Transport::Http {
            1..=8
        } else if transport == Transport::WebSocket {
            8..=8
        } else {
            9..=9
        };
        assert!(
            sessions.contains(&silence.len()),
            "{transport:?} {}",
            silence.len()
        );
        neighbour.ping().await.unwrap();
        let mut first = silence.swap_remove(0);
        assert_eq!(first.ask(&handshake()).await["ok"], true, "{transport:?}");
        let mut second = loop {
            // Over HTTP the end of a connection is noticed a little later.
            if let Some(wire) = silent(&place).await {
                break wire;
            }
        };
        assert_eq!(second.ask(&handshake()).await["ok"], true, "{transport:?}");
        // What is gone counts no longer.
        drop(silence);
        while host.sessions() > 3 {
            tokio::task::yield_now().await;
        }
        neighbour.ping().await.unwrap();
    }
}

/// Sessions that have shaken hands count no longer, with none of their connections, however silent
/// they are from then on.
#[tokio::test]
async fn silence_after_the_handshake() {
    for transport in [Transport::Tcp, Transport::Http, Transport::WebSocket] {
        let place = transport.place(&demo().max_newcomers(9).build()).await;
        let mut wires = Vec::new();
        for _ in 0..30 {
            let mut wire = place.wire().await;
            assert_eq!(wire.ask(&handshake()).await["ok"], true, "{transport:?}");
            wires.push(wire);
        }
    }
}

/// Before the handshake 64 KiB are the longest line; afterwards what the host takes of everybody.
#[tokio::test]
async fn lines_before_the_handshake() {
    let ping = |length: usize| format!(r#"{{"type":"ping","x":"{}"}}"#, "x".repeat(length - 22));
    for transport in TRANSPORTS {
        let mut wire = transport.place(&demo().build()).await.wire().await;
        assert_eq!(ping(65_536).len(), 65_536);
        let answer = wire.ask_line(&ping(65_536)).await;
        assert_eq!(answer["type"], "pong", "{transport:?}");
        let answer = wire.ask_line(&ping(65_537)).await;
        assert_eq!(answer["code"], "invalid_message", "{transport:?}");
        assert_eq!(wire.ask(&handshake()).await["ok"], true, "{transport:?}");
        assert_eq!(
            wire.ask_line(&ping(300_000)).await["type"],
            "pong",
            "{transport:?}"
        );
    }
}

/// Who sends more without waiting for the answer to the handshake is not cut short either.
#[tokio::test]
async fn a_long_line_behind_the_handshake() {
    for transport in TRANSPORTS {
        if matches!(transport, Transport::Http | Transport::Https) {
            continue; // Two requests come over HTTP, and the second knows nothing of the first.
        }
        let mut wire = transport.place(&demo().build()).await.wire().await;
        wire.say(&handshake().to_string());
        let arguments = json!({"text": "x".repeat(200_000)});
        let call = json!({"type": "tool/call/req", "id": "c", "tool_name": "echo", "arguments": arguments});
        assert_eq!(wire.ask(&call).await["ok"], true, "{transport:?}");
        let answer = wire.hear().await.unwrap();
        assert_eq!(answer["data"]["data"], arguments, "{transport:?}");
    }
}
