//! What must hold over every transport.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use a2e_runtime::{CallOptions, ClientError, Handler, Host, Limits, Source};
use a2e_session::ConnectError;
use a2e_wire::messages::base::HandshakeReason;
use a2e_wire::messages::tool::{ToolCallRequest, ToolListRequest};
use a2e_wire::{Body, Capability, ErrorCode};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::time::Instant;

use crate::support::{Late, TOKEN, TRANSPORTS, Transport, call, data, demo, handshake};

/// Proves C-1, C-2, C-8, C-9, C-11, C-14, C-16, C-39.
#[tokio::test]
async fn connect_list_call_and_leave() {
    for transport in TRANSPORTS {
        let client = transport.client(&demo().build()).await;
        assert_eq!(client.session_id().as_str().len(), 32);
        assert_eq!(client.capabilities()[0].capability, Capability::Tools);
        assert_eq!(client.max_parallel(), 4);
        client.ping().await.unwrap();
        let list = client
            .rpc(ToolListRequest::new(), CallOptions::default())
            .await
            .unwrap();
        let Body::ToolListResponse(list) = list.body else {
            panic!()
        };
        assert_eq!(list.tools.len(), 5);
        let echo = client
            .rpc(call("echo", r#"{"text":"hé\n"}"#), CallOptions::default())
            .await
            .unwrap();
        let text: serde_json::Value = serde_json::from_str(&data(&echo)).unwrap();
        assert_eq!(text, serde_json::json!({"text": "hé\n"}));
        client.disconnect(Duration::from_secs(1)).await;
        assert!(
            matches!(client.ping().await, Err(ClientError::Closed)),
            "{transport:?}"
        );
    }
}

/// Proves C-13.
#[tokio::test]
async fn refusals() {
    for transport in TRANSPORTS {
        let place = transport.place(&demo().build()).await;
        for (token, wanted, reason) in [
            ("wrong", "tools", HandshakeReason::AuthFailed),
            (TOKEN, "chains", HandshakeReason::NoCaps),
        ] {
            let refused = place.client(token, &[wanted]).await;
            let Err(ClientError::Connect(error)) = refused else {
                panic!("{refused:?}")
            };
            assert_eq!(error, ConnectError::Refused(reason), "{transport:?}");
        }
    }
}

/// Proves C-43, C-48.
#[tokio::test]
async fn errors_carry_everything() {
    for transport in TRANSPORTS {
        let client = transport.client(&demo().build()).await;
        for (tool, code, retryable) in [
            ("fail", ErrorCode::ToolError, true),
            ("none", ErrorCode::UnknownTool, false),
        ] {
            let outcome = client.rpc(call(tool, "{}"), CallOptions::default()).await;
            let Err(ClientError::Host(error)) = outcome else {
                panic!("{outcome:?}")
            };
            assert_eq!((&error.code, error.retryable), (&code, retryable));
            assert_eq!(
                (
                    &*error.capability_name,
                    error.req_id.as_str().len(),
                    error.events.len()
                ),
                ("tools", 32, 0)
            );
        }
    }
}

/// Events come numbered and before the response, however slowly they are read.
/// Proves C-18, C-22, M-36.
#[tokio::test]
async fn events_before_the_response() {
    for transport in TRANSPORTS {
        let limits = Limits {
            max_outbound: 1000,
            ..Limits::default()
        };
        let client = transport.client(&demo().limits(limits).build()).await;
        let seqs = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&seqs);
        let options = CallOptions {
            event_callback: Handler::new(move |event| {
                let Body::ToolEvent(event) = event.body else {
                    panic!()
                };
                seen.lock().unwrap().push(event.seq);
            }),
            ..CallOptions::default()
        };
        let request = ToolCallRequest {
            streaming: true,
            ..call("stream", r#"{"count":200}"#)
        };
        let response = client.rpc(request, options).await.unwrap();
        assert_eq!(data(&response), r#"{"counted":200}"#);
        let expected: Vec<i64> = (0..200).collect();
        assert_eq!(*seqs.lock().unwrap(), expected, "{transport:?}");
    }
}

#[tokio::test]
async fn many_calls_at_once() {
    for transport in TRANSPORTS {
        let limits = Limits {
            max_queue: 100,
            ..Limits::default()
        };
        let client = transport.client(&demo().limits(limits).build()).await;
        let calls: Vec<_> = (0..100)
            .map(|_| {
                let client = client.clone();
                tokio::spawn(async move {
                    client
                        .rpc(call("echo", r#"{"n":1}"#), CallOptions::default())
                        .await
                })
            })
            .collect();
        for outcome in calls {
            assert_eq!(data(&outcome.await.unwrap().unwrap()), r#"{"n":1}"#);
        }
    }
}

/// A thousand sessions at once, over one listener each.
#[tokio::test]
async fn many_sessions_at_once() {
    for transport in [
        Transport::Memory,
        Transport::Unix,
        Transport::Tcp,
        Transport::Http,
        Transport::WebSocket,
    ] {
        let host = demo().build();
        let place = transport.place(&host).await;
        let mut clients = Vec::new();
        for _ in 0..if transport == Transport::Memory {
            1000
        } else {
            200
        } {
            clients.push(place.client(TOKEN, &["tools"]).await.unwrap());
        }
        assert_eq!(host.sessions(), clients.len());
        for client in &clients {
            client.ping().await.unwrap();
        }
    }
}

/// The limit of sessions, at it and one past it.
#[tokio::test]
async fn no_more_sessions_than_allowed() {
    for transport in TRANSPORTS {
        let host = demo().max_sessions(2).build();
        let place = transport.place(&host).await;
        let first = place.client(TOKEN, &["tools"]).await.unwrap();
        let second = place.client(TOKEN, &["tools"]).await.unwrap();
        place.client(TOKEN, &["tools"]).await.unwrap_err();
        second.ping().await.unwrap();
        first.disconnect(Duration::from_secs(1)).await;
        while host.sessions() > 1 {
            tokio::task::yield_now().await;
        }
        place.client(TOKEN, &["tools"]).await.unwrap();
    }
}

/// A peer that does not read holds up its own session only, and gets everything once it reads.
#[tokio::test]
async fn a_slow_reader() {
    for transport in TRANSPORTS {
        let limits = Limits {
            max_outbound: 10_000,
            ..Limits::default()
        };
        let host = demo().limits(limits).build();
        let place = transport.place(&host).await;
        let neighbour = place.client(TOKEN, &["tools"]).await.unwrap();
        let mut wire = place.wire().await;
        assert_eq!(wire.ask(&handshake()).await["ok"], true);
        wire.say(r#"{"type":"tool/call/req","id":"s","tool_name":"stream","arguments":{"count":1000},"streaming":true}"#);
        for _ in 0..20 {
            neighbour.ping().await.unwrap();
        }
        for number in 0..1000 {
            let event = wire.hear().await.unwrap();
            assert_eq!(event["seq"], number, "{transport:?} {event}");
        }
        assert_eq!(wire.hear().await.unwrap()["type"], "tool/call/resp");
    }
}

/// A peer that goes in the middle of a stream: its session waits, its neighbours go on.
#[tokio::test]
async fn a_client_that_is_gone() {
    for transport in TRANSPORTS {
        let limits = Limits {
            resume: Duration::ZERO,
            ..Limits::default()
        };
        let host = demo().limits(limits).build();
        let place = transport.place(&host).await;
        let neighbour = place.client(TOKEN, &["tools"]).await.unwrap();
        let mut wire = place.wire().await;
        assert_eq!(wire.ask(&handshake()).await["ok"], true);
        wire.say(r#"{"type":"tool/call/req","id":"s","tool_name":"stream","arguments":{"count":1000},"streaming":true}"#);
        wire.hear().await.unwrap();
        drop(wire);
        neighbour.ping().await.unwrap();
        while host.sessions() > 1 {
            neighbour.ping().await.unwrap();
        }
    }
}

/// A session goes on over another connection, of whichever kind.
#[tokio::test]
async fn going_on_over_another_transport() {
    let host = demo().build();
    let mut session = None;
    let mut last_eid = 0;
    for (number, transport) in TRANSPORTS.into_iter().chain(TRANSPORTS).enumerate() {
        let mut wire = transport.place(&host).await.wire().await;
        let mut hello = handshake();
        if let Some(session) = &session {
            hello["resume"] = serde_json::json!({"session_id": session, "last_eid": last_eid});
        }
        let answer = wire.ask(&hello).await;
        assert_eq!(answer["ok"], true, "{transport:?} {answer}");
        assert_eq!(answer["resumed"] == true, number > 0, "{transport:?}");
        if let Some(session) = &session {
            assert_eq!(answer["session_id"], *session);
            // What it had not seen comes first.
            let missed = wire.hear().await.unwrap();
            assert_eq!(
                missed["req_id"],
                format!("unread{}", number - 1),
                "{transport:?}"
            );
        }
        session = Some(answer["session_id"].clone());
        let seen = wire.ask_line(r#"{"type":"ping","id":"p"}"#).await;
        last_eid = seen["eid"].as_u64().unwrap();
        let unread = format!(r#"{{"type":"ping","id":"unread{number}"}}"#);
        assert_eq!(wire.ask_line(&unread).await["type"], "pong");
    }
    assert_eq!(host.sessions(), 1);
}

#[tokio::test]
async fn a_host_that_stops_ends_its_sessions() {
    for transport in TRANSPORTS {
        let host: Host = demo().build();
        let client = transport.client(&host).await;
        host.stop();
        while client.ping().await.is_ok() {}
        assert!(matches!(client.ping().await, Err(ClientError::Closed)));
    }
}

/// A session that has nothing more to say ends at once, not when its time is over, also if what it said
/// last was as much as its connection takes, and left late.
#[tokio::test(start_paused = true)]
async fn a_stopped_session_ends_when_all_is_said() {
    let text = "x".repeat(70_000);
    let call = json!({"type": "tool/call/req", "tool_name": "echo", "arguments": {"text": text}});
    let host = demo().build();
    let (mut ours, theirs) = tokio::io::duplex(32 * 1024);
    let served = host.clone();
    tokio::spawn(async move { served.serve(Late::new(theirs), Source::Own).await });
    ours.write_all(format!("{}\n", handshake()).as_bytes())
        .await
        .unwrap();
    let mut ours = BufReader::new(ours);
    let mut lines = String::new();
    ours.read_line(&mut lines).await.unwrap();
    for _ in 0..2 {
        ours.write_all(format!("{call}\n").as_bytes())
            .await
            .unwrap();
    }
    a_while().await;
    // The second answer waits for the first, not even half of which has left.
    host.stop();
    a_while().await;
    let stopped = Instant::now();
    ours.read_to_string(&mut lines).await.unwrap();
    assert!(lines.contains(&text));
    assert_eq!(stopped.elapsed(), Duration::ZERO);
}

/// Lets everything else have its turn, often.
async fn a_while() {
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
}
