//! A host that does as it is told, and one that keeps its sessions over connections.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use a2e_runtime::{AgentConfig, BoxFuture, Client, Handler, Link};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, DuplexStream};

/// The host's side of a connection.
pub(crate) struct Wire<S = DuplexStream>(BufReader<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self(BufReader::new(stream))
    }

    /// The next message; `None` when the client has closed its side.
    pub(crate) async fn hear(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.0.read_line(&mut line).await {
            Ok(size) if size > 0 => serde_json::from_str(&line).ok(),
            _ => None,
        }
    }

    /// The next line as it came.
    pub(crate) async fn hear_line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).await.unwrap();
        line
    }

    pub(crate) async fn say(&mut self, message: &Value) {
        let line = format!("{message}\n");
        // A client that has gone away hears nothing.
        let _ = self.0.write_all(line.as_bytes()).await;
    }

    /// Answers the handshake.
    pub(crate) async fn greet(&mut self) {
        let handshake = self.hear().await.unwrap();
        self.say(
            &json!({"type": "handshake/resp", "req_id": handshake["id"], "session_id": "S",
            "accepted_caps": [{"capability": "tools"}]}),
        )
        .await;
    }

    /// Hears a request and answers it with these, `req_id` filled in.
    pub(crate) async fn answer<const N: usize>(&mut self, messages: [Value; N]) -> Value {
        let request = self.hear().await.unwrap();
        for mut message in messages {
            message["req_id"] = request["id"].clone();
            self.say(&message).await;
        }
        request
    }
}

/// A client and the wire to its scripted host, which has greeted it.
pub(crate) async fn pair() -> (Client, Wire) {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let mut wire = Wire::new(theirs);
    let connect = Client::connect(ours, AgentConfig::default(), Handler::none());
    let (client, ()) = tokio::join!(connect, wire.greet());
    (client.unwrap(), wire)
}

/// A host with one session that outlives its connections: it numbers what it says, says it again
/// after a resumption, and answers a repeated request without running it again.
#[derive(Default)]
pub(crate) struct Keeper {
    /// What was said, by number.
    said: Vec<String>,
    /// How often each request ran.
    pub(crate) ran: BTreeMap<String, usize>,
    answers: BTreeMap<String, usize>,
    /// Connections so far.
    pub(crate) connections: usize,
    /// It has forgotten the session.
    pub(crate) forgetful: bool,
    /// How often it still fails to resume it.
    pub(crate) failures: usize,
}

pub(crate) type Kept = Arc<Mutex<Keeper>>;

impl Keeper {
    fn say(&mut self, mut message: Value) -> usize {
        message["eid"] = (self.said.len() + 1).into();
        self.said.push(format!("{message}\n"));
        self.said.len() - 1
    }

    /// What to write after a line; `from` is the first number that this connection has not been told.
    fn hear(&mut self, message: &Value, from: &mut usize) -> Vec<String> {
        let id = message["id"].as_str().unwrap().to_owned();
        match message["type"].as_str().unwrap() {
            "handshake/req" => match message["resume"]["last_eid"].as_u64() {
                Some(_) if self.failures > 0 => {
                    self.failures -= 1;
                    let refused = json!({"type": "handshake/resp", "req_id": id, "ok": false, "reason": "server_error"});
                    return vec![format!("{refused}\n")];
                }
                Some(_) if self.forgetful => {
                    self.forgetful = false;
                    self.said.clear();
                    let refused = json!({"type": "handshake/resp", "req_id": id, "ok": false, "reason": "auth_failed"});
                    return vec![format!("{refused}\n")];
                }
                Some(last) => {
                    *from = usize::try_from(last).unwrap();
                    let resumed = json!({"type": "handshake/resp", "req_id": id, "session_id": "S", "resumed": true});
                    let mut lines = vec![format!("{resumed}\n")];
                    lines.extend(self.rest(from));
                    return lines;
                }
                None => {
                    self.said.clear();
                    *from = 0;
                    self.say(json!({"type": "handshake/resp", "req_id": id, "session_id": "S"}));
                }
            },
            "ping" => match self.answers.get(&id) {
                // Known: said again, under a new number.
                Some(_) => drop(self.say(json!({"type": "pong", "req_id": id}))),
                None => {
                    *self.ran.entry(id.clone()).or_default() += 1;
                    self.say(json!({"type": "invoke/event", "req_id": id, "seq": 0}));
                    let at = self.say(json!({"type": "pong", "req_id": id}));
                    self.answers.insert(id, at);
                }
            },
            _ => {}
        }
        self.rest(from)
    }

    fn rest(&self, from: &mut usize) -> Vec<String> {
        let lines = self.said.get(*from..).unwrap_or_default().to_vec();
        *from = self.said.len();
        lines
    }
}

/// Serves so many messages of one connection, or all until it breaks.
async fn keep(kept: Kept, stream: DuplexStream, messages: usize) {
    let mut wire = Wire::new(stream);
    let mut from = 0;
    for _ in 0..messages {
        let Some(message) = wire.hear().await else {
            return;
        };
        let lines = kept.lock().unwrap().hear(&message, &mut from);
        for line in lines {
            if wire.0.write_all(line.as_bytes()).await.is_err() {
                return;
            }
        }
    }
}

/// Dials a keeper over links that `link` makes of the host's side of each connection.
pub(crate) fn dial(
    kept: &Kept,
    buffer: usize,
    link: impl Fn(usize, DuplexStream) -> Link + Send + Sync + 'static,
) -> impl Fn() -> BoxFuture<'static, io::Result<Link>> + Send + Sync + 'static {
    let kept = Arc::clone(kept);
    move || {
        let (ours, theirs) = tokio::io::duplex(buffer);
        let number = kept.lock().unwrap().connections;
        kept.lock().unwrap().connections += 1;
        tokio::spawn(keep(Arc::clone(&kept), theirs, usize::MAX));
        let link = link(number, ours);
        Box::pin(async move { Ok(link) })
    }
}

/// Dials a keeper that closes each connection after the handshake.
pub(crate) fn dial_closing(
    kept: &Kept,
) -> impl Fn() -> BoxFuture<'static, io::Result<Link>> + Send + Sync + 'static {
    let kept = Arc::clone(kept);
    move || {
        let (ours, theirs) = tokio::io::duplex(4096);
        kept.lock().unwrap().connections += 1;
        tokio::spawn(keep(Arc::clone(&kept), theirs, 1));
        Box::pin(async move { Ok(Link::new(ours)) })
    }
}
