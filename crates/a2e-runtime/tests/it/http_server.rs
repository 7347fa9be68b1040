//! What is particular to the host's HTTP side, by peers that speak bytes.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use a2e_runtime::demo::Demo;
use a2e_runtime::{BoxFuture, Guard, Guest, Host, HttpServer, Route, serve_http, serve_tcp};
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use http_body_util::combinators::BoxBody;
use hyper::{Request, Response};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::support::{certificate, demo, handshake};

async fn connect(host: &Host) -> TcpStream {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = HttpServer::new(host.clone(), Guard::default());
    tokio::spawn(serve_http(server, listener, None));
    TcpStream::connect(address).await.unwrap()
}

async fn web_socket(host: &Host) -> WebSocketStream<TcpStream> {
    let stream = connect(host).await;
    let url = format!("ws://{}/ws", stream.peer_addr().unwrap());
    client_async(url, stream).await.unwrap().0
}

/// RFC 6455 §5.5.1: a Close is answered with a Close, also by a session that goes on without its peer.
#[tokio::test]
async fn a_close_is_answered() {
    for shakes_hands in [true, false] {
        let mut socket = web_socket(&demo().build()).await;
        if shakes_hands {
            let hello = Message::text(handshake().to_string());
            socket.send(hello).await.unwrap();
            let answer = socket.next().await.unwrap().unwrap();
            let answer: Value = serde_json::from_str(answer.to_text().unwrap()).unwrap();
            assert_eq!(answer["ok"], true);
        }
        socket.send(Message::Close(None)).await.unwrap();
        let answer = socket.next().await.unwrap();
        assert!(matches!(answer, Ok(Message::Close(_))), "{answer:?}");
        assert!(socket.next().await.is_none());
    }
}

/// Handshake, two pings and a line that is none, in one text: blank lines are passed over.
fn several_lines() -> String {
    let ping = |id: &str| format!(r#"{{"type":"ping","id":"{id}"}}"#);
    format!("{}\n\n{}\r\nnothing\n{}", handshake(), ping("1"), ping("2"))
}

/// Type and `req_id` of what [`several_lines`] is answered with.
const ANSWERS: [(&str, &str); 4] = [
    ("handshake/resp", "h"),
    ("pong", "1"),
    ("error", ""),
    ("pong", "2"),
];

/// Seed 002, "Framing": newlines delimit messages, also within one text.
/// Proves M-18.
#[tokio::test]
async fn lines_of_one_web_socket_text_are_messages() {
    let mut socket = web_socket(&demo().build()).await;
    socket.send(Message::text(several_lines())).await.unwrap();
    for (kind, req_id) in ANSWERS {
        let answer = socket.next().await.unwrap().unwrap();
        let answer: Value = serde_json::from_str(answer.to_text().unwrap()).unwrap();
        assert_eq!(
            (&answer["type"], &answer["req_id"]),
            (&kind.into(), &req_id.into())
        );
    }
}

async fn response(host: SocketAddr, request: String) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(host).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    BufReader::new(stream)
}

/// The first line that begins so.
async fn line_of(response: &mut BufReader<TcpStream>, start: &str) -> String {
    loop {
        let mut line = String::new();
        assert_ne!(response.read_line(&mut line).await.unwrap(), 0, "{start}");
        if let Some(rest) = line.strip_prefix(start) {
            return rest.trim_end().to_owned();
        }
    }
}

/// The same for a body.
/// Proves M-18.
#[tokio::test]
async fn lines_of_one_post_are_messages() {
    let host = connect(&demo().build()).await.peer_addr().unwrap();
    let post = |path: &str, headers: &str, body: &str| {
        let length = body.len();
        format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
        )
    };
    let mut session = response(host, post("/session", "Connection: close\r\n", "")).await;
    let id = line_of(&mut session, r#"{"session_id":""#).await;
    let id = format!("X-Session-Id: {}\r\n", id.trim_end_matches(r#""}"#));
    let stream = format!("GET /stream HTTP/1.1\r\nHost: {host}\r\n{id}\r\n");
    let mut stream = response(host, stream).await;
    let headers = format!("{id}Connection: close\r\n");
    let mut sent = response(host, post("/send", &headers, &several_lines())).await;
    line_of(&mut sent, r#"{"ok":true"#).await;
    for (kind, req_id) in ANSWERS {
        let answer: Value = serde_json::from_str(&line_of(&mut stream, "data: ").await).unwrap();
        assert_eq!(
            (&answer["type"], &answer["req_id"]),
            (&kind.into(), &req_id.into())
        );
    }
}

/// RFC 9112 §6.1: what may have two lengths is the last of its connection, so that nothing behind it
/// is taken for a request.
#[tokio::test]
async fn two_lengths() {
    let chunked = "Transfer-Encoding: chunked\r\n";
    for lengths in [
        format!("Content-Length: 5\r\n{chunked}"),
        format!("{chunked}content-length: 5\r\n"),
        chunked.to_owned(),
    ] {
        let mut stream = connect(&demo().build()).await;
        let host = stream.peer_addr().unwrap();
        let text = format!(
            "POST /session HTTP/1.1\r\nHost: {host}\r\n{lengths}\r\n0\r\n\r\n\
             GET /none HTTP/1.1\r\nHost: {host}\r\n\r\n"
        );
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        // That the rest is not read can break the connection, once all of the answer has come.
        let _ = stream.read_to_end(&mut answer).await;
        let answer = String::from_utf8(answer).unwrap();
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer}");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.contains("connection: close"), "{answer}");
    }
}

/// Answers nothing, and says when it is asked.
struct Silent(mpsc::UnboundedSender<()>);

impl Route for Silent {
    fn path(&self) -> &'static str {
        "/silent"
    }

    fn answer(
        &self,
        _: Request<Bytes>,
        _: Guest,
    ) -> BoxFuture<'_, Response<BoxBody<Bytes, Infallible>>> {
        self.0.send(()).unwrap();
        Box::pin(std::future::pending())
    }
}

/// A connection that gives way ends, even if nothing is read from it or written to it: a byte of the next
/// request has come, and this one is not answered yet.
#[tokio::test]
async fn an_evicted_connection_ends_while_its_request_is_served() {
    let (asked, mut arrived) = mpsc::unbounded_channel();
    let host = Host::builder()
        .plugin(Demo::default())
        .max_connections(4)
        .build();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = HttpServer::new(host, Guard::default()).route(Arc::new(Silent(asked)));
    tokio::spawn(serve_http(server, listener, None));
    let mut all = Vec::new();
    // Half of the connections are this agent's.
    for _ in 0..3 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET /silent HTTP/1.1\r\nHost: {address}\r\n\r\nG");
        stream.write_all(request.as_bytes()).await.unwrap();
        arrived.recv().await.unwrap();
        all.push(stream);
    }
    let mut answer = Vec::new();
    let _ = all[0].read_to_end(&mut answer).await;
    assert_eq!(answer, b"");
}

/// A peer that writes its whole body before it reads, reads why it is refused.
#[tokio::test(flavor = "multi_thread")]
async fn whole_body_first_reads_the_refusal() {
    const MIB: usize = 1024 * 1024;
    let host = demo().max_line(1024).build();
    let to = "POST /send HTTP/1.1\r\nX-Session-Id: none\r\n";
    for (head, bytes, status) in [
        ("POST /none HTTP/1.1\r\n", MIB, "404"),
        ("POST /health HTTP/1.1\r\n", 12 * MIB, "405"),
        ("POST /send HTTP/1.1\r\n", MIB, "400"),
        (to, MIB, "404"),
        (
            "POST /send HTTP/1.1\r\nOrigin: http://evil.example\r\n",
            MIB,
            "403",
        ),
    ] {
        // A reset comes only sometimes before the response is read.
        for _ in 0..20 {
            let mut stream = connect(&host).await;
            let name = stream.peer_addr().unwrap();
            let head = format!("{head}Host: {name}\r\nContent-Length: {bytes}\r\n\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
            stream.write_all(&vec![b'7'; bytes]).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status}")),
                "{answer}"
            );
            assert!(answer.contains("connection: close"), "{answer}");
        }
    }
}

/// Of a line that is far too long not all is read before it is refused.
#[tokio::test(flavor = "multi_thread")]
async fn far_too_long_a_line_is_refused() {
    const BYTES: usize = 72 * 1024 * 1024;
    let mut stream = connect(&demo().build()).await;
    let name = stream.peer_addr().unwrap();
    let begin = format!("POST /session HTTP/1.1\r\nHost: {name}\r\nContent-Length: 0\r\n\r\n");
    stream.write_all(begin.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\"}") {
        answer.push(stream.read_u8().await.unwrap());
    }
    let answer = String::from_utf8(answer).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let session: Value = serde_json::from_str(body).unwrap();
    let id = session["session_id"].as_str().unwrap();
    let send = format!(
        "POST /send HTTP/1.1\r\nHost: {name}\r\nX-Session-Id: {id}\r\nContent-Length: {BYTES}\r\n\r\n"
    );
    stream.write_all(send.as_bytes()).await.unwrap();
    stream.write_all(&vec![b'7'; BYTES]).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
}

/// Where TLS is spoken a peer that speaks HTTP without it learns what is.
#[tokio::test]
async fn plain_http_learns_that_tls_is_spoken() {
    let folder = tempfile::tempdir().unwrap();
    let (tls, _) = certificate(folder.path());
    let host = demo().build();
    for is_http in [true, false] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (host, tls) = (host.clone(), Some(tls.clone()));
        let said = match is_http {
            true => {
                let server = HttpServer::new(host, Guard::default());
                tokio::spawn(serve_http(server, listener, tls));
                "This port speaks A2E over TLS"
            }
            false => {
                tokio::spawn(serve_tcp(host, listener, tls));
                "This port speaks A2E as NDJSON over TLS"
            }
        };
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET /health HTTP/1.1\r\nHost: {address}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
        assert!(answer.contains(said), "{answer}");
    }
}
