//! HTTP with server-sent events, against a server of our own that counts, cuts and closes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use a2e_runtime::{
    Address, AgentConfig, CallOptions, Client, ClientError, Connector, Host, Source,
};
use a2e_wire::messages::base::Ping;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use crate::support::{TOKEN, call, data, demo};

/// How a server behaves.
#[derive(Debug, Clone, Copy, Default)]
struct Manner {
    /// Answers with `Connection: close` after so many posts on a connection.
    closes_after: Option<usize>,
    /// Closes the stream after so many events.
    cuts_after: Option<usize>,
    /// Sends the stream as it is instead of in chunks.
    unchunked: bool,
    /// Answers every post with this.
    status: Option<&'static str>,
}

/// One session: what the host said, and the way to say something to it.
struct Session {
    said: Mutex<Vec<String>>,
    more: Notify,
    input: tokio::sync::Mutex<WriteHalf<DuplexStream>>,
}

#[derive(Default)]
struct Seen {
    posts: usize,
    connections: usize,
    resumed_from: Vec<String>,
}

struct Server {
    host: Host,
    manner: Manner,
    session: Mutex<Option<Arc<Session>>>,
    seen: Mutex<Seen>,
}

impl Server {
    async fn start(manner: Manner) -> (Arc<Self>, Address) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/base/", listener.local_addr().unwrap());
        let server = Arc::new(Self {
            host: demo().build(),
            manner,
            session: Mutex::new(None),
            seen: Mutex::default(),
        });
        let serving = Arc::clone(&server);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                serving.seen.lock().unwrap().connections += 1;
                tokio::spawn(Arc::clone(&serving).connection(stream));
            }
        });
        (server, address.parse().unwrap())
    }

    async fn connection(self: Arc<Self>, stream: TcpStream) {
        let mut stream = BufReader::new(stream);
        let mut posts = 0;
        while let Some((line, headers, body)) = request(&mut stream).await {
            match &*line {
                "POST /base/session HTTP/1.1" => {
                    self.open_session();
                    answer(&mut stream, "200 OK", "", "{\"session_id\":\"abc\"}").await;
                }
                "POST /base/send HTTP/1.1" => {
                    assert_eq!(headers["x-session-id"], "abc");
                    self.seen.lock().unwrap().posts += 1;
                    posts += 1;
                    if let Some(status) = self.manner.status {
                        answer(&mut stream, status, "", "{}").await;
                        continue;
                    }
                    let session = self.session.lock().unwrap().clone().unwrap();
                    let line = format!("{body}\n");
                    session
                        .input
                        .lock()
                        .await
                        .write_all(line.as_bytes())
                        .await
                        .unwrap();
                    let close = self.manner.closes_after == Some(posts);
                    let header = if close { "connection: close\r\n" } else { "" };
                    answer(&mut stream, "200 OK", header, "{\"ok\":true}").await;
                    if close {
                        return;
                    }
                }
                "GET /base/stream HTTP/1.1" => return self.stream(stream, &headers).await,
                other => panic!("{other}"),
            }
        }
    }

    fn open_session(&self) {
        let (ours, theirs) = tokio::io::duplex(1024 * 1024);
        let host = self.host.clone();
        tokio::spawn(async move { host.serve(theirs, Source::Own).await });
        let (reader, writer) = tokio::io::split(ours);
        let session = Arc::new(Session {
            said: Mutex::default(),
            more: Notify::new(),
            input: tokio::sync::Mutex::new(writer),
        });
        *self.session.lock().unwrap() = Some(Arc::clone(&session));
        tokio::spawn(async move {
            let mut lines = BufReader::new(reader).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                session.said.lock().unwrap().push(line);
                session.more.notify_waiters();
            }
        });
    }

    async fn stream(&self, mut stream: BufReader<TcpStream>, headers: &BTreeMap<String, String>) {
        let session = self.session.lock().unwrap().clone().unwrap();
        let mut next: usize = 0;
        if let Some(last) = headers.get("last-event-id") {
            self.seen.lock().unwrap().resumed_from.push(last.clone());
            next = last.parse().unwrap();
        }
        let encoding = match self.manner.unchunked {
            true => "",
            false => "transfer-encoding: chunked\r\n",
        };
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n{encoding}\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut sent = 0;
        loop {
            let more = session.more.notified();
            let line = session.said.lock().unwrap().get(next).cloned();
            let Some(line) = line else {
                more.await;
                continue;
            };
            next += 1;
            let event = format!(": beat\n\nid: {next}\ndata: {line}\n\n");
            let chunk = match self.manner.unchunked {
                true => event,
                false => format!("{:x}\r\n{event}\r\n", event.len()),
            };
            if stream.write_all(chunk.as_bytes()).await.is_err() {
                return;
            }
            sent += 1;
            if self.manner.cuts_after == Some(sent) {
                return;
            }
        }
    }
}

async fn answer(stream: &mut BufReader<TcpStream>, status: &str, headers: &str, body: &str) {
    let length = body.len();
    let text = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n{headers}\r\n{body}");
    stream.write_all(text.as_bytes()).await.unwrap();
}

/// The next request: its first line, its headers, its body.
async fn request(
    stream: &mut BufReader<TcpStream>,
) -> Option<(String, BTreeMap<String, String>, String)> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            text => lines.push(text.to_owned()),
        }
    }
    let headers: BTreeMap<String, String> = lines[1..]
        .iter()
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let length = headers
        .get("content-length")
        .map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some((lines[0].clone(), headers, String::from_utf8(body).unwrap()))
}

async fn client(address: Address) -> Result<Client, ClientError> {
    let config = AgentConfig {
        auth_token: TOKEN.into(),
        wanted: vec!["tools".into()],
        ..AgentConfig::default()
    };
    Connector::new(address)
        .agent(config)
        .reconnect(None)
        .connect()
        .await
}

/// Many calls at once, in their order, on two connections in all.
#[tokio::test]
async fn calls_over_http() {
    for unchunked in [false, true] {
        let manner = Manner {
            unchunked,
            ..Manner::default()
        };
        let (server, address) = Server::start(manner).await;
        let client = client(address).await.unwrap();
        let calls = (0..50).map(|_| client.rpc(Ping::new(), CallOptions::default()));
        for outcome in futures_util::future::join_all(calls).await {
            outcome.unwrap();
        }
        let echo = client
            .rpc(call("echo", r#"{"é":1}"#), CallOptions::default())
            .await;
        assert_eq!(data(&echo.unwrap()), r#"{"é":1}"#);
        client.disconnect(Duration::from_secs(1)).await;
        let seen = server.seen.lock().unwrap();
        // Handshake, calls, goodbye.
        assert_eq!((seen.posts, seen.connections), (1 + 51 + 1, 2));
    }
}

/// Order is kept even if the server closes the connection all the time.
#[tokio::test]
async fn a_server_that_closes_its_connections() {
    let (server, address) = Server::start(Manner {
        closes_after: Some(3),
        ..Manner::default()
    })
    .await;
    let client = client(address).await.unwrap();
    let calls = (0..50).map(|_| client.rpc(Ping::new(), CallOptions::default()));
    for outcome in futures_util::future::join_all(calls).await {
        outcome.unwrap();
    }
    let seen = server.seen.lock().unwrap();
    // The first time it closes, an answer may be lost on its way and its request come again; from then
    // on requests go one by one.
    assert!((51..=53).contains(&seen.posts), "{}", seen.posts);
    assert!(seen.connections > 17);
}

/// The stream is opened again where it was, and nothing is lost or heard twice.
#[tokio::test]
async fn a_stream_that_breaks() {
    let (server, address) = Server::start(Manner {
        cuts_after: Some(2),
        ..Manner::default()
    })
    .await;
    let client = client(address).await.unwrap();
    for _ in 0..10 {
        client
            .rpc(Ping::new(), CallOptions::default())
            .await
            .unwrap();
    }
    let seen = server.seen.lock().unwrap();
    assert_eq!(seen.resumed_from[..3], ["2", "4", "6"]);
}

#[tokio::test]
async fn what_a_server_may_refuse() {
    for (status, hint) in [
        ("404 Not Found", "does not know the session"),
        ("500 x", "status 500"),
    ] {
        let (_server, address) = Server::start(Manner {
            status: Some(status),
            ..Manner::default()
        })
        .await;
        let error = client(address).await.unwrap_err().to_string();
        assert!(error.contains(hint), "{error}");
    }
}
