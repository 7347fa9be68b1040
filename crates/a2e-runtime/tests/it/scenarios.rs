//! What must hold over every transport.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use a2e_runtime::{CallOptions, ClientError, Handler, Host, Limits};
use a2e_wire::messages::base::HandshakeReason;
use a2e_wire::messages::tool::{ToolCallRequest, ToolListRequest};
use a2e_wire::{Body, Capability, ErrorCode};

use crate::support::{TOKEN, TRANSPORTS, Transport, call, client, data, demo};

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
        assert_eq!(data(&echo), r#"{"text":"hé\n"}"#);
        client.disconnect(Duration::from_secs(1)).await;
        assert!(
            matches!(client.ping().await, Err(ClientError::Closed)),
            "{transport:?}"
        );
    }
}

#[tokio::test]
async fn refusals() {
    for transport in TRANSPORTS {
        let host = demo().build();
        let refused = client(transport.connect(&host).await, "wrong", &["tools"]).await;
        let Err(ClientError::Connect(error)) = refused else {
            panic!("{refused:?}")
        };
        assert_eq!(
            error,
            a2e_session::ConnectError::Refused(HandshakeReason::AuthFailed)
        );
        let refused = client(transport.connect(&host).await, TOKEN, &["chains"]).await;
        let Err(ClientError::Connect(error)) = refused else {
            panic!("{refused:?}")
        };
        assert_eq!(
            error,
            a2e_session::ConnectError::Refused(HandshakeReason::NoCaps)
        );
    }
}

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
            on_event: Handler::new(move |event| {
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

#[tokio::test]
async fn many_sessions_at_once() {
    let host = demo().build();
    let mut clients = Vec::new();
    for _ in 0..1000 {
        clients.push(Transport::Memory.client(&host).await);
    }
    for client in &clients {
        client.ping().await.unwrap();
    }
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
