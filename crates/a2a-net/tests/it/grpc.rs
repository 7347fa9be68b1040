//! gRPC frame by frame, by a client that does as it likes.

use std::time::Duration;

use a2a_net::transport::{Carrier, Place};
use a2a_wire::ErrorCode;
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::{BufMut, Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper::{HeaderMap, Request, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};

use crate::echo::{Server, answered, request};

const ONE: &str = "https://localhost/a2a.v1.A2A/Exchange";
const STREAM: &str = "https://localhost/a2a.v1.A2A/ExchangeStream";

/// What came of a call.
struct Outcome {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
    trailers: HeaderMap,
}

impl Outcome {
    fn grpc_status(&self) -> &str {
        let status = self.trailers.get("grpc-status");
        status.map_or("none", |status| status.to_str().unwrap())
    }

    fn error(&self) -> Value {
        let error = self.trailers.get("a2a-error-bin").unwrap();
        serde_json::from_slice(&STANDARD_NO_PAD.decode(error).unwrap()).unwrap()
    }
}

async fn connect(server: &Server) -> SendRequest<Full<Bytes>> {
    let stream = crate::reach::dial(server, b"h2").await;
    let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    sender
}

async fn call(
    sender: &mut SendRequest<Full<Bytes>>,
    uri: &str,
    headers: &[(&'static str, &str)],
    body: Bytes,
) -> Result<Outcome, hyper::Error> {
    let mut request = Request::post(uri)
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(body)).unwrap();
    let response = sender.send_request(request).await?;
    let (head, body) = response.into_parts();
    let body = body.collect().await?;
    let trailers = body.trailers().cloned();
    Ok(Outcome {
        status: head.status,
        body: body.to_bytes(),
        trailers: trailers.unwrap_or_else(|| head.headers.clone()),
        headers: head.headers,
    })
}

/// A message of protobuf in a frame.
fn framed(fields: &[u8]) -> Bytes {
    let mut out = BytesMut::new();
    out.put_u8(0);
    out.put_u32(u32::try_from(fields.len()).unwrap());
    out.extend_from_slice(fields);
    out.freeze()
}

/// `bytes json = 1`, of a message that is shorter than 128 bytes.
fn frame(message: &Value) -> Bytes {
    let json = message.to_string();
    framed(&[&[0x0a, u8::try_from(json.len()).unwrap()], json.as_bytes()].concat())
}

#[tokio::test]
async fn threat_131_metadata_decides_nothing() {
    let server = Server::start().await;
    let mut sender = connect(&server).await;
    let message = frame(&request("r1", "echo"));
    // One that differs is handed on, to whoever knows the session.
    let smuggled = [
        ("x-session-id", "other"),
        ("type", "close"),
        ("request-id", "r9"),
        ("session_id", "s9"),
    ];
    let outcome = call(&mut sender, ONE, &smuggled, message.clone())
        .await
        .unwrap();
    assert_eq!(
        (outcome.status, outcome.grpc_status()),
        (StatusCode::OK, "0")
    );
    let seen = server.echo.arrived.lock().unwrap().pop().unwrap();
    assert_eq!(seen["hint"], "other");
    assert_eq!(seen["message"], request("r1", "echo"));
    // One that is said twice could be read in two ways.
    let twice = [("x-session-id", "s1"), ("x-session-id", "s1")];
    let outcome = call(&mut sender, ONE, &twice, message.clone())
        .await
        .unwrap();
    assert_eq!(outcome.grpc_status(), "3");
    assert_eq!(outcome.error()["error_code"], "INVALID_MESSAGE");
    assert_eq!(outcome.error()["details"]["reason"], "header_mismatch");
    assert!(server.echo.arrived.lock().unwrap().is_empty());
    // A mebibyte of it is too much for the connection, or for the request.
    let large = "7".repeat(1024 * 1024);
    let outcome = call(&mut sender, ONE, &[("x-large", &large)], message.clone()).await;
    let is_refused = outcome.map_or(true, |outcome| outcome.status.as_u16() == 431);
    assert!(is_refused && server.echo.arrived.lock().unwrap().is_empty());
    let mut sender = connect(&server).await;
    let outcome = call(&mut sender, ONE, &[], message).await.unwrap();
    assert_eq!(outcome.grpc_status(), "0");
}

#[tokio::test]
async fn threat_132_frames_that_are_none() {
    let server = Server::start().await;
    let mut sender = connect(&server).await;
    let good = frame(&request("r1", "echo"));
    let two = Bytes::from([&*good, &*good].concat());
    let mut compressed = BytesMut::from(&*good);
    compressed[0] = 1;
    for (what, body) in [
        ("nothing", Bytes::new()),
        ("an empty message", framed(b"")),
        ("an empty field", framed(b"\x0a\x00")),
        ("no JSON", framed(b"\x0a\x03not")),
        ("no protobuf", framed(b"not")),
        ("two messages", two),
        ("half a message", good.slice(..good.len() - 1)),
        ("a compressed message", compressed.freeze()),
    ] {
        let outcome = call(&mut sender, ONE, &[], body).await.unwrap();
        assert_eq!(outcome.status, StatusCode::OK);
        assert_eq!(outcome.grpc_status(), "3", "{what}");
        assert_eq!(outcome.error()["error_code"], "INVALID_MESSAGE", "{what}");
    }
    assert!(server.echo.arrived.lock().unwrap().is_empty());
    // Fields that are not known are passed over.
    let json = request("r1", "echo").to_string();
    let mut fields = b"\x12\x03abc\x18\x07".to_vec();
    fields.extend([0x0a, u8::try_from(json.len()).unwrap()]);
    fields.extend(json.as_bytes());
    let outcome = call(&mut sender, ONE, &[], framed(&fields)).await.unwrap();
    assert_eq!(outcome.grpc_status(), "0");
    assert_eq!(outcome.headers["content-type"], "application/grpc");
    assert!(!outcome.body.is_empty());
}

#[tokio::test]
async fn threat_132_a_deadline_ends_the_work() {
    let server = Server::start().await;
    let mut sender = connect(&server).await;
    let message = frame(&request("r1", "hang"));
    let outcome = call(&mut sender, ONE, &[("grpc-timeout", "50m")], message)
        .await
        .unwrap();
    assert_eq!(outcome.grpc_status(), "4");
    assert_eq!(outcome.error()["error_code"], "TIMEOUT");
    server.echo.dropped.notified().await;
    let seen = server.echo.arrived.lock().unwrap().pop().unwrap();
    assert_eq!(
        seen["patience"],
        json!(Duration::from_millis(50).as_millis())
    );
    let message = frame(&request("r2", "echo"));
    let outcome = call(&mut sender, ONE, &[("grpc-timeout", "soon")], message)
        .await
        .unwrap();
    assert_eq!(outcome.grpc_status(), "3");
}

/// Proves A-3-8.
#[tokio::test]
async fn threat_133_every_transport_says_an_error_alike() {
    let server = Server::start().await;
    let mut sender = connect(&server).await;
    for (number, code) in ErrorCode::ALL.iter().enumerate() {
        let message = request(&format!("r{number}"), &format!("error {code}"));
        let mut said = Vec::new();
        for carrier in Carrier::ALL {
            let courier = server.courier(carrier);
            said.push(answered(&courier, Place::Request, &message).await.0);
        }
        let outcome = call(&mut sender, STREAM, &[], frame(&message))
            .await
            .unwrap();
        said.push(outcome.error());
        assert!(said.windows(2).all(|pair| pair[0] == pair[1]), "{said:?}");
        let expected = code.grpc().map(|status| (status as u8).to_string());
        assert_eq!(Some(outcome.grpc_status()), expected.as_deref(), "{code}");
        assert_eq!(outcome.status, StatusCode::OK);
    }
}

#[tokio::test]
async fn one_answer_cannot_be_a_stream_and_a_stream_can_be_one_answer() {
    let server = Server::start().await;
    let mut sender = connect(&server).await;
    let message = json!({"type": "request", "request_id": "r1", "do": "stream", "parts": 3});
    let outcome = call(&mut sender, ONE, &[], frame(&message)).await.unwrap();
    assert_eq!(outcome.grpc_status(), "3");
    let outcome = call(&mut sender, STREAM, &[], frame(&message))
        .await
        .unwrap();
    assert_eq!(outcome.grpc_status(), "0");
    let outcome = call(&mut sender, STREAM, &[], frame(&request("r2", "echo")))
        .await
        .unwrap();
    assert_eq!(outcome.grpc_status(), "0");
    // It is not offered where there are no trailers, nor for what is none of its types.
    let stream = crate::reach::dial(&server, b"http/1.1").await;
    let (mut plain, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    let request = Request::post("/a2a.v1.A2A/Exchange").header("content-type", "application/grpc");
    let response = plain
        .send_request(request.body(Full::new(frame(&message))).unwrap())
        .await;
    assert_eq!(response.unwrap().status(), StatusCode::NOT_FOUND);
    let request = Request::post(ONE).header("content-type", "application/json");
    let response = sender
        .send_request(request.body(Full::new(frame(&message))).unwrap())
        .await;
    assert_eq!(
        response.unwrap().status(),
        StatusCode::UNSUPPORTED_MEDIA_TYPE
    );
}
