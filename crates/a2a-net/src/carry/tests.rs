//! Peers that are slow, ambiguous or many, on virtual time and without a network.

mod http1;
mod http2;
mod websocket;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use a2a_session::Source;
use a2a_wire::ErrorCode;
use base::Budget;
use bytes::Bytes;
use net::DiscardLimits;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Limits, Visit, serve, shared_budget};
use crate::transport::{Answer, Arrived, Carrier, Oversized, Service};

/// What [`Echo`] takes.
const REQUEST_BYTES: usize = 1024 * 1024;

/// Answers everything with what came, after a second if told so, except what is told to hang or is refused without its name.
struct Echo;

impl Service for Echo {
    async fn handle(&self, arrived: Arrived) -> Answer {
        if arrived.message.windows(4).any(|word| word == b"hang") {
            std::future::pending::<()>().await;
        }
        if arrived.message.windows(6).any(|word| word == b"slowly") {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        for (told, code) in [
            (b"nope", ErrorCode::InvalidMessage),
            (b"wait", ErrorCode::RateLimitExceeded),
        ] {
            if arrived.message.windows(4).any(|word| word == told) {
                let message = format!(r#"{{"type":"error","error_code":"{}"}}"#, code.as_str());
                return Answer::Error {
                    code,
                    message: message.into(),
                    retry_after: None,
                };
            }
        }
        Answer::Message(arrived.message)
    }

    async fn refuse_oversized(&self, oversized: Oversized) -> Answer {
        let code = ErrorCode::PayloadTooLarge;
        let ids = oversized.ids.unwrap_or_default();
        let message = serde_json::json!({
            "type": "error", "error_code": code.as_str(), "session_id": ids.session_id,
            "request_id": ids.request_id, "hint": oversized.session_hint,
            "details": {"limit": oversized.limit, "size": oversized.size},
        });
        Answer::Error {
            code,
            message: message.to_string().into(),
            retry_after: None,
        }
    }

    fn request_bytes(&self) -> usize {
        REQUEST_BYTES
    }

    fn document(&self, name: &str) -> Option<Bytes> {
        (name == "did.json").then(|| Bytes::from_static(b"{}"))
    }
}

/// What the connections to one server have in common.
struct Site {
    limits: Arc<Limits>,
    budget: Budget<Source>,
}

impl Site {
    fn new(limits: Limits) -> Self {
        Self {
            budget: shared_budget(&limits),
            limits: Arc::new(limits),
        }
    }

    fn connect(&self, carrier: Carrier, source: &str) -> DuplexStream {
        let (client, server) = tokio::io::duplex(256 * 1024);
        let visit = Visit {
            service: Arc::new(Echo),
            budget: self.budget.clone(),
            limits: Arc::clone(&self.limits),
            source: SocketAddr::new(source.parse().unwrap(), 1000),
            stop: CancellationToken::new(),
        };
        tokio::spawn(serve(server, carrier, visit));
        client
    }
}

/// A connection to a server that speaks this.
fn connect(carrier: Carrier) -> DuplexStream {
    Site::new(Limits::default()).connect(carrier, "192.0.2.1")
}

/// What comes until the server closes, and after how many seconds it does.
async fn until_closed(stream: &mut DuplexStream) -> (String, u64) {
    let began = Instant::now();
    let mut answer = Vec::new();
    // A connection that is cut off rather than closed is closed too.
    let _ = stream.read_to_end(&mut answer).await;
    let text = String::from_utf8_lossy(&answer).into_owned();
    (text, began.elapsed().as_secs())
}

async fn send(stream: &mut DuplexStream, text: &str) {
    stream.write_all(text.as_bytes()).await.unwrap();
}

/// Lets this many seconds pass, once everybody has done what there is to do.
async fn pass(seconds: u64) {
    settle().await;
    tokio::time::advance(Duration::from_secs(seconds)).await;
    settle().await;
}

async fn settle() {
    for _ in 0..16 {
        tokio::task::yield_now().await;
    }
}
