//! The bare limits of HTTP: an axum POST echo and an axum WebSocket echo of typed messages. Prints
//! where it listens.

use axum::Router;
use axum::body::Bytes;
use axum::extract::ws::{Message, Utf8Bytes, WebSocket, WebSocketUpgrade};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::serve::ListenerExt;
use benches::echo;

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    let router = Router::new()
        .route("/echo", post(echo_post))
        .route("/ws", get(upgrade));
    axum::serve(listener, router).await
}

async fn echo_post(call: Bytes) -> Response {
    let mut answer = Vec::with_capacity(512);
    match echo::answer(&call, 1, &mut answer) {
        Ok(()) => ([(header::CONTENT_TYPE, "application/json")], answer).into_response(),
        Err(error) => (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    }
}

async fn upgrade(upgrade: WebSocketUpgrade) -> Response {
    upgrade.on_upgrade(echo_messages)
}

async fn echo_messages(mut socket: WebSocket) {
    let mut eid = 0;
    while let Some(Ok(message)) = socket.recv().await {
        let Message::Text(call) = message else {
            continue;
        };
        eid += 1;
        let mut answer = Vec::with_capacity(512);
        if echo::answer(call.as_bytes(), eid, &mut answer).is_err() {
            return;
        }
        let Ok(answer) = Utf8Bytes::try_from(answer) else {
            return;
        };
        if socket.send(Message::Text(answer)).await.is_err() {
            return;
        }
    }
}
