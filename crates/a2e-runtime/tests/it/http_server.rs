//! What is particular to the host's HTTP side, by peers that speak bytes.

use std::net::SocketAddr;

use a2e_runtime::{Guard, Host, HttpServer, serve_http};
use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::support::{demo, handshake};

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
