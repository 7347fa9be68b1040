//! Peers that want more than their share.

use std::net::SocketAddr;

use a2a_net::listen::Limits;
use a2a_net::transport::Carrier;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::echo::{Server, ask, request};
use crate::reach::secured;

async fn from(source: &str, server: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(format!("{source}:0").parse().unwrap()).unwrap();
    socket.connect(server).await.unwrap()
}

#[tokio::test]
async fn threat_124_idle_connections_of_one_source_leave_room_for_others() {
    let server = Server::with(Limits {
        connections: 5,
        connections_per_source: 3,
        ..Limits::default()
    })
    .await;
    let mut idle = Vec::new();
    for _ in 0..3 {
        let stream = from("127.0.0.2", server.address).await;
        idle.push(secured(&server, b"http/1.1", stream).await.unwrap());
    }
    let stream = from("127.0.0.2", server.address).await;
    assert!(secured(&server, b"http/1.1", stream).await.is_err());
    // Others are served, one after the other.
    for _ in 0..3 {
        ask(&server.courier(Carrier::Http2), &request("r1", "echo")).await;
    }
    // Up to the cap of all.
    for source in ["127.0.0.3", "127.0.0.4"] {
        let stream = from(source, server.address).await;
        let mut stream = secured(&server, b"http/1.1", stream).await;
        // The place of whoever has just gone may not be free yet.
        while stream.is_err() {
            let again = from(source, server.address).await;
            stream = secured(&server, b"http/1.1", again).await;
        }
        idle.push(stream.unwrap());
    }
    // In a full table one of the source with the most gives way: the one that was used least recently.
    let stream = from("127.0.0.5", server.address).await;
    let new = secured(&server, b"http/1.1", stream).await;
    assert!(new.is_ok());
    let mut end = Vec::new();
    let _ = idle[0].read_to_end(&mut end).await;
    assert!(end.is_empty());
    // Connections that are left leave nothing behind.
    drop((idle, new));
    let stream = from("127.0.0.2", server.address).await;
    let mut stream = secured(&server, b"http/1.1", stream).await;
    while stream.is_err() {
        let again = from("127.0.0.2", server.address).await;
        stream = secured(&server, b"http/1.1", again).await;
    }
}

#[tokio::test]
async fn threat_124_who_never_shakes_hands_is_left() {
    let server = Server::with(Limits {
        tls_time: std::time::Duration::from_millis(50),
        ..Limits::default()
    })
    .await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(&[22, 3, 1]).await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    assert!(answer.is_empty());
}

#[tokio::test]
async fn threat_130_a_websocket_confers_nothing() {
    let server = Server::start().await;
    // What is said over one is handed on just as what is said over another, with nothing of what came before.
    let (one, two) = (
        server.courier(Carrier::WebSocket),
        server.courier(Carrier::WebSocket),
    );
    let hello = serde_json::json!({"type": "hello"});
    crate::echo::answered(&one, a2a_net::transport::Place::Handshake, &hello).await;
    for (courier, id) in [(&one, "r1"), (&two, "r2")] {
        let seen = ask(courier, &request(id, "echo")).await;
        assert_eq!(seen["message"], request(id, "echo"));
        assert_eq!(seen["place"], "Any");
        assert_eq!(seen["hint"], serde_json::Value::Null);
    }
}

/// Threat 63: messages that have begun have a limit together, at it and one past it.
#[tokio::test]
async fn threat_63_bodies_that_are_not_whole() {
    let server = Server::with(Limits {
        buffered_bytes_per_source: 1000,
        buffered_bytes_per_connection: 0,
        ..Limits::default()
    })
    .await;
    for (last, status) in [(500, "200"), (501, "503")] {
        let stream = from("127.0.0.2", server.address).await;
        let mut stream = secured(&server, b"http/1.1", stream).await.unwrap();
        let start = format!("{{\"type\":\"hello\",\"x\":\"{}", "x".repeat(500 - 21));
        let end = format!("{}\"}}", "x".repeat(last - 2));
        assert_eq!((start.len(), end.len()), (500, last));
        let text = format!(
            "POST /a2a/handshake HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Transfer-Encoding: chunked\r\n\r\n1f4\r\n{start}\r\n{last:x}\r\n{end}\r\n0\r\n\r\n"
        );
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{answer}"
        );
    }
}
