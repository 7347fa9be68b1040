//! Document 004 (A2A protocol) over a network: what other tests leave out.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use a2a_net::transport::{Place, Reply};
use a2a_net::*;
use a2a_wire::ErrorCode;
use bytes::Bytes;
use serde_json::json;

use crate::support::*;

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
