//! The WebSocket transport, against a server of the same library.

use std::sync::{Arc, Mutex};

use a2e_runtime::{Address, AgentConfig, CallOptions, Connector, Handler, Host, Source};
use a2e_wire::messages::base::Ping;
use a2e_wire::messages::tool::ToolListRequest;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio_tungstenite::tungstenite::Message;

use crate::support::{TOKEN, call, data, demo};

/// Serves WebSockets: each message becomes a line for the host, each of its lines a message. Every
/// `cut`th message of the first connection breaks it.
async fn serve(host: Host, cut: Option<usize>) -> Address {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("ws://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let mut cut = cut;
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(bridge(host.clone(), stream, cut.take()));
        }
    });
    address.parse().unwrap()
}

async fn bridge(host: Host, stream: tokio::net::TcpStream, cut: Option<usize>) {
    let Ok(mut socket) = tokio_tungstenite::accept_async(stream).await else {
        return;
    };
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    tokio::spawn(async move { host.serve(theirs, Source::Own).await });
    let (reader, mut writer) = tokio::io::split(ours);
    let mut lines = BufReader::new(reader).lines();
    let mut count = 0;
    loop {
        tokio::select! {
            message = socket.next() => {
                let Some(Ok(message)) = message else { return };
                if let Message::Text(text) = message {
                    writer.write_all(format!("{text}\n").as_bytes()).await.unwrap();
                }
            }
            line = lines.next_line() => {
                let Ok(Some(line)) = line else { return };
                count += 1;
                if cut == Some(count) {
                    return;
                }
                socket.send(Message::Ping(vec![1].into())).await.unwrap();
                socket.send(Message::Text(line.into())).await.unwrap();
            }
        }
    }
}

fn config() -> AgentConfig {
    AgentConfig {
        auth_token: TOKEN.into(),
        wanted: vec!["tools".into()],
        ..AgentConfig::default()
    }
}

#[tokio::test]
async fn calls_over_a_websocket() {
    let address = serve(demo().build(), None).await;
    let client = Connector::new(address)
        .agent(config())
        .connect()
        .await
        .unwrap();
    assert_eq!(
        client
            .request(ToolListRequest::new())
            .await
            .unwrap()
            .tools
            .len(),
        5
    );
    let calls =
        (0..50).map(|_| client.rpc(call("echo", r#"{"é":"\u2028"}"#), CallOptions::default()));
    for outcome in futures_util::future::join_all(calls).await {
        assert!(data(&outcome.unwrap()).contains("é"));
    }
    let seen = Arc::new(Mutex::new(0));
    let counter = Arc::clone(&seen);
    let options = CallOptions {
        event_callback: Handler::new(move |_| *counter.lock().unwrap() += 1),
        ..CallOptions::default()
    };
    let request = a2e_wire::messages::tool::ToolCallRequest {
        streaming: true,
        ..call("stream", r#"{"count":20}"#)
    };
    client.rpc(request, options).await.unwrap();
    assert_eq!(*seen.lock().unwrap(), 20);
    client.disconnect(std::time::Duration::from_secs(1)).await;
}

/// The connection breaks before an answer; the session, and with it the call, goes on over another.
#[tokio::test]
async fn a_websocket_that_breaks() {
    let address = serve(demo().build(), Some(2)).await;
    let connector = Connector::new(address).agent(config());
    let client = connector.connect().await.unwrap();
    let id = client.session_id();
    client
        .rpc(Ping::new(), CallOptions::default())
        .await
        .unwrap();
    assert_eq!(client.session_id(), id);
}

#[tokio::test]
async fn a_server_that_takes_no_websockets() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("ws://{}/elsewhere", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut reader = BufReader::new(&mut stream);
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            reader.read_line(&mut line).await.unwrap();
        }
        let answer = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n";
        stream.write_all(answer).await.unwrap();
    });
    let address: Address = address.parse().unwrap();
    let error = Connector::new(address).connect().await.unwrap_err();
    assert!(error.to_string().contains("HTTP status 404"), "{error}");
}

/// Document 002, "Framing": newlines delimit messages, also within one text.
/// Proves M-18.
#[tokio::test]
async fn lines_of_one_text_are_messages() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("ws://{}", listener.local_addr().unwrap());
    let address: Address = address.parse().unwrap();
    let serve = async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
        let hello = socket.next().await.unwrap().unwrap();
        let hello: Value = serde_json::from_str(hello.to_text().unwrap()).unwrap();
        let answer = json!({"type": "handshake/resp", "req_id": hello["id"], "session_id": "S"});
        let push = json!({"type": "my/push"});
        let text = format!("{answer}\n\n{push}\n");
        socket.send(Message::text(text)).await.unwrap();
        socket
    };
    let (pushed, mut pushes) = tokio::sync::mpsc::unbounded_channel();
    let handler = Handler::new(move |message| drop(pushed.send(message)));
    let connector = Connector::new(address).agent(config()).on_any(handler);
    let (client, _socket) = tokio::join!(connector.connect(), serve);
    let _client = client.unwrap();
    let push = pushes.recv().await.unwrap();
    assert_eq!(push.type_name(), "my/push");
}
