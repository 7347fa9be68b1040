//! A service that says what came, and a server around it.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use a2a_net::courier::{Pool, Post, Reach, Remote};
use a2a_net::listen::{Limits, Listeners};
use a2a_net::tls::{Certificate, ClientTls, DevelopmentCa, Roots};
use a2a_net::transport::{Answer, Arrived, Carrier, Courier, Oversized, Place, Reply, Service};
use a2a_wire::ErrorCode;
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

/// Does what `do` of a message says, and counts.
#[derive(Default)]
pub(crate) struct Echo {
    pub(crate) arrived: Mutex<Vec<Value>>,
    /// A request that hangs has begun.
    pub(crate) begun: Notify,
    /// A request that hung was dropped.
    pub(crate) dropped: Notify,
    /// Parts of a stream that were taken from us.
    pub(crate) parts: Mutex<usize>,
    /// What ends when its request is cancelled, by `request_id`.
    running: Mutex<HashMap<String, CancellationToken>>,
}

struct Dropped<'a>(&'a Notify);

impl Drop for Dropped<'_> {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl Service for Arced {
    async fn handle(&self, arrived: Arrived) -> Answer {
        let echo = &self.0;
        let message: Value = match serde_json::from_slice(&arrived.message) {
            Ok(message) => message,
            Err(_) => {
                return Answer::Error {
                    code: ErrorCode::InvalidMessage,
                    message: error(&ErrorCode::InvalidMessage, &Value::Null),
                    retry_after: None,
                };
            }
        };
        let answer = json!({
            "type": if message["type"] == "request" { "response" } else { "challenge" },
            "request_id": message["request_id"],
            "message": message,
            "bytes": arrived.message.len(),
            "carrier": arrived.carrier.name(),
            "place": format!("{:?}", arrived.place),
            "source": arrived.source.ip().to_string(),
            "port": arrived.source.port(),
            "hint": arrived.session_hint,
            "patience": arrived.patience.map(|patience| patience.as_millis()),
        });
        echo.arrived.lock().unwrap().push(answer.clone());
        let what = message["do"].as_str().unwrap_or_default();
        if let Some(code) = what.strip_prefix("error ") {
            let code = ErrorCode::from(code);
            return Answer::Error {
                message: error(&code, &message["request_id"]),
                code,
                retry_after: Some(7),
            };
        }
        if message["type"] == "cancel" {
            let cancelled = echo.running(&message["target_request_id"]);
            cancelled.cancel();
        }
        match what {
            "hang" => {
                let _dropped = Dropped(&echo.dropped);
                let cancelled = echo.running(&message["request_id"]);
                echo.begun.notify_one();
                cancelled.cancelled().await;
                Answer::Error {
                    code: ErrorCode::Cancelled,
                    message: error(&ErrorCode::Cancelled, &message["request_id"]),
                    retry_after: None,
                }
            }
            "nothing" => Answer::Nothing,
            "stream" => stream(Arc::clone(echo), &message),
            _ => Answer::Message(Bytes::from(answer.to_string())),
        }
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
        1024 * 1024
    }

    fn document(&self, name: &str) -> Option<Bytes> {
        matches!(name, "did.json" | "agent-manifest.json")
            .then(|| Bytes::from(json!({ "document": name }).to_string()))
    }
}

impl Echo {
    fn running(&self, request_id: &Value) -> CancellationToken {
        let mut running = self.running.lock().unwrap();
        let id = request_id.as_str().unwrap_or_default().to_owned();
        running.entry(id).or_default().clone()
    }
}

/// The service as a server has it, while a test looks at it too.
pub(crate) struct Arced(Arc<Echo>);

fn stream(echo: Arc<Echo>, message: &Value) -> Answer {
    let (sender, receiver) = mpsc::channel(1);
    let id = message["request_id"].clone();
    let parts = message["parts"].as_u64().unwrap();
    let pad = "7".repeat(usize::try_from(message["pad"].as_u64().unwrap_or_default()).unwrap());
    tokio::spawn(async move {
        let _dropped = Dropped(&echo.dropped);
        let cancelled = echo.running(&id);
        for index in 0..parts {
            if cancelled.is_cancelled() {
                let _ = sender.send(error(&ErrorCode::Cancelled, &id)).await;
                return;
            }
            let part =
                json!({"type": "response_chunk", "request_id": id, "index": index, "data": pad});
            if sender.send(Bytes::from(part.to_string())).await.is_err() {
                return;
            }
            *echo.parts.lock().unwrap() += 1;
        }
        let last = json!({"type": "response", "request_id": id, "stream": {"chunks": parts}});
        let _ = sender.send(Bytes::from(last.to_string())).await;
    });
    Answer::Stream(receiver)
}

fn error(code: &ErrorCode, request_id: &Value) -> Bytes {
    let mut error =
        json!({"type": "error", "error_code": code.as_str(), "error_message": code.text()});
    if request_id.is_string() {
        error["request_id"] = request_id.clone();
    }
    Bytes::from(error.to_string())
}

/// A server with a development certificate.
pub(crate) struct Server {
    pub(crate) echo: Arc<Echo>,
    pub(crate) address: SocketAddr,
    pub(crate) ca: DevelopmentCa,
    pub(crate) stop: CancellationToken,
    /// Permits come when it has stopped.
    pub(crate) stopped: Arc<Semaphore>,
    _folder: tempfile::TempDir,
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::with(Limits::default()).await
    }

    pub(crate) async fn with(limits: Limits) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ca = DevelopmentCa::open(folder.path().join("frith/ca")).unwrap();
        let listeners = Listeners::bind(&["127.0.0.1:0".parse().unwrap()])
            .await
            .unwrap();
        let certificate = Arc::new(ca.issue().unwrap());
        let tls = listeners.tls(&certificate).unwrap();
        let address = listeners.addresses()[0];
        let (echo, stop) = (Arc::new(Echo::default()), CancellationToken::new());
        let stopped = Arc::new(Semaphore::new(0));
        let service = Arc::new(Arced(Arc::clone(&echo)));
        let serving = listeners.serve(tls, service, limits, stop.clone());
        let done = Arc::clone(&stopped);
        tokio::spawn(async move {
            serving.await;
            done.add_permits(1);
        });
        Self {
            echo,
            address,
            ca,
            stop,
            stopped,
            _folder: folder,
        }
    }

    /// Serves elsewhere too.
    pub(crate) fn serve(
        &self,
        listeners: Listeners,
        certificate: &Arc<Certificate>,
    ) -> CancellationToken {
        let tls = listeners.tls(certificate).unwrap();
        let service = Arc::new(Arced(Arc::clone(&self.echo)));
        let stop = CancellationToken::new();
        tokio::spawn(listeners.serve(tls, service, Limits::default(), stop.clone()));
        stop
    }

    pub(crate) fn tls(&self) -> ClientTls {
        let roots = Roots::none().with_development(&self.ca).unwrap();
        ClientTls::new(roots).unwrap()
    }

    pub(crate) fn courier(&self, carrier: Carrier) -> Post {
        self.reaching(Reach::default()).courier(carrier)
    }

    pub(crate) fn reaching(&self, reach: Reach) -> Pool {
        Pool::new(self.tls(), &Remote::new("localhost", self.address), reach).unwrap()
    }

    /// The CA, for programs.
    pub(crate) fn ca(&self) -> PathBuf {
        self.ca.file()
    }
}

/// A request.
pub(crate) fn request(id: &str, what: &str) -> Value {
    json!({"type": "request", "session_id": "s1", "request_id": id, "do": what})
}

/// What stops a request.
pub(crate) fn cancel(id: &str, request: &str) -> Value {
    json!({"type": "cancel", "session_id": "s1", "request_id": id, "target_request_id": request})
}

/// Sends a request and reads the one message of its answer.
pub(crate) async fn ask(courier: &Post, message: &Value) -> Value {
    let (answer, status) = answered(courier, Place::Request, message).await;
    assert_eq!(status, 200, "{answer}");
    answer
}

/// Sends a message and reads the one message of its answer, and what the transport said of it.
pub(crate) async fn answered(courier: &Post, place: Place, message: &Value) -> (Value, u16) {
    let bytes = Bytes::from(message.to_string());
    match courier.send(place, Some("s1"), bytes).await.unwrap() {
        Reply::Message {
            message, status, ..
        } => (serde_json::from_slice(&message).unwrap(), status),
        other @ (Reply::Nothing | Reply::Stream(_)) => panic!("{other:?}"),
    }
}
