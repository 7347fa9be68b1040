//! A bare axum server.

use std::io;
use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::extract::ws::{Message, Utf8Bytes, WebSocket, WebSocketUpgrade};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::serve::Listener;
use http_body_util::{BodyExt, Full};
use peers::tls;

use crate::grpc;
use crate::message::{Sizes, Talker, Trust};

/// Serves the messages with and without signatures, over every transport.
pub(crate) async fn serve(folder: &Path, sizes: Sizes) -> io::Result<()> {
    tls::make(folder)?;
    let listener = tls::Listener::bind(folder).await?;
    println!("{}", listener.local_addr()?);
    let routes = |trust| {
        Router::new()
            .route("/post", post(answer))
            .route("/grpc", post(answer_grpc))
            .route("/ws", get(upgrade))
            .with_state(Arc::new(Talker::server(trust, sizes)))
    };
    let router = Router::new()
        .nest("/bare", routes(Trust::Bare))
        .nest("/signed", routes(Trust::Signed));
    axum::serve(listener, router).await
}

async fn answer(State(talker): State<Arc<Talker>>, question: Bytes) -> Response {
    match talker.answer(&question) {
        Ok(answer) => ([(header::CONTENT_TYPE, "application/json")], answer).into_response(),
        Err(error) => (StatusCode::BAD_REQUEST, error).into_response(),
    }
}

async fn answer_grpc(State(talker): State<Arc<Talker>>, question: Bytes) -> Response {
    let answer = grpc::message(&question).and_then(|message| talker.answer(&message).ok());
    let Some(answer) = answer else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let body = Full::new(grpc::frame(&answer)).with_trailers(async {
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from_static("0"));
        Some(Ok(trailers))
    });
    ([(header::CONTENT_TYPE, grpc::MEDIA_TYPE)], Body::new(body)).into_response()
}

async fn upgrade(State(talker): State<Arc<Talker>>, upgrade: WebSocketUpgrade) -> Response {
    upgrade.on_upgrade(|socket| answer_messages(socket, talker))
}

async fn answer_messages(mut socket: WebSocket, talker: Arc<Talker>) {
    while let Some(Ok(message)) = socket.recv().await {
        let Message::Text(question) = message else {
            continue;
        };
        let answer = talker.answer(question.as_bytes());
        let answer = answer
            .ok()
            .and_then(|answer| Utf8Bytes::try_from(answer).ok());
        let Some(answer) = answer else {
            return;
        };
        if socket.send(Message::Text(answer)).await.is_err() {
            return;
        }
    }
}
