//! Clients of other protocols learn which one is spoken.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::echo::Server;
use crate::oversize::{REQUEST_BYTES, TRIES, post, written_first};

/// The Agent2Agent protocol of agent cards and JSON-RPC has the same name.
#[tokio::test(flavor = "multi_thread")]
async fn other_protocols_learn_what_is_spoken() {
    let server = Server::start().await;
    let get =
        |path: &str| format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let rpc = r#"{"id":1,"jsonrpc":"2.0","method":"message/send","params":{"type":"request"}}"#;
    let rpc_to = |path: &str| {
        format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{rpc}",
            rpc.len()
        )
    };
    for (request, status, said) in [
        (get("/.well-known/agent-card.json"), "404", "agent cards"),
        (get("/.well-known/agent.json"), "404", "agent cards"),
        (rpc_to("/"), "404", "JSON-RPC"),
        (rpc_to("/a2a/request"), "400", "JSON-RPC"),
        (rpc_to("/a2a/handshake"), "400", "JSON-RPC"),
    ] {
        let response = written_first(&server, request.as_bytes()).await.unwrap();
        assert!(
            response.starts_with(&format!("HTTP/1.1 {status}")),
            "{response}"
        );
        assert!(
            response.contains("This port speaks the A2A trust protocol"),
            "{response}"
        );
        assert!(response.contains(said), "{response}");
    }
    // A request of A2A may be about JSON-RPC.
    let about = r#"{"inputs":{"jsonrpc":"2.0"},"type":"request","request_id":"r","do":"echo"}"#;
    let length = about.len();
    let request = format!(
        "POST /a2a/request HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{about}"
    );
    let response = written_first(&server, request.as_bytes()).await.unwrap();
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
}

/// Without TLS nothing is answered but what is spoken here.
#[tokio::test(flavor = "multi_thread")]
async fn threat_122_plain_http_learns_that_tls_is_spoken() {
    let server = Server::start().await;
    for request in [
        post("/a2a/handshake", 2),
        post("/a2a/request", 2 * REQUEST_BYTES),
    ] {
        for _ in 0..TRIES {
            let mut stream = TcpStream::connect(server.address).await.unwrap();
            stream.write_all(&request).await.unwrap();
            let mut response = String::new();
            stream.read_to_string(&mut response).await.unwrap();
            assert!(response.starts_with("HTTP/1.1 400"), "{response}");
            assert!(
                response.contains("This port speaks A2A over TLS"),
                "{response}"
            );
        }
    }
    assert!(server.echo.arrived.lock().unwrap().is_empty());
}
