//! Requests of HTTP, and of gRPC which comes as such: from a path to a message, from an answer to a response.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use a2a_wire::limits;
use bytes::Bytes;
use hyper::body::{Body as _, Incoming};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use memchr::memmem;
use net::StreamDiscard;
use tokio_util::sync::CancellationToken;

use super::body::{self, Answered, Body, Read, TooLarge};
use super::grpc::{self, Bad};
use super::limits::Limits;
use super::message_budget::MessageBudget;
use super::oversized;
use super::peek::peek;
use super::refusal::Refusal;
use super::watch::{Busy, Pace};
use super::{HANDSHAKE, REQUEST, WEBSOCKET, ws};
use crate::transport::{Answer, Arrived, Carrier, Oversized, Place, Service};

/// What all requests of a connection share.
pub(super) struct Exchange<S> {
    pub(super) service: Arc<S>,
    pub(super) limits: Arc<Limits>,
    pub(super) budget: MessageBudget,
    pub(super) source: SocketAddr,
    pub(super) carrier: Carrier,
    pub(super) pace: Arc<Pace>,
    /// Discards the rest of requests that were refused.
    pub(super) discard: StreamDiscard,
    /// Cancelled when the connection takes no more requests.
    pub(super) last_request: CancellationToken,
    /// Whether the connection becomes a WebSocket.
    pub(super) is_websocket: AtomicBool,
}

const SESSION_ID: HeaderName = HeaderName::from_static("x-session-id");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const NDJSON: HeaderValue = HeaderValue::from_static("application/x-ndjson");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// Bytes in which a message of JSON-RPC names its version: at most an id and a method stand before it.
const JSON_RPC_BEGINNING: usize = 512;

const WELL_KNOWN: &str = "/.well-known/";

impl<S: Service> Exchange<S> {
    /// Answers one request, with which the connection is busy.
    pub(super) async fn answer(
        &self,
        mut request: Request<Incoming>,
        busy: Busy,
    ) -> Response<Answered> {
        let is_http1 = self.carrier == Carrier::Http1;
        // A length by chunks may be meant to hide another request behind this one (RFC 9112 §6.1); whoever asks for another protocol
        // may already speak it. Both are the last of their connections.
        let mut is_last = is_http1
            && (request.headers().contains_key(header::TRANSFER_ENCODING)
                || request.headers().contains_key(header::UPGRADE));
        let mut response = match self.route(&mut request).await {
            Ok(response) => response,
            Err(refusal) => {
                is_last |= refusal.leaves_rest();
                refused(refusal)
            }
        };
        if !is_http1 && !request.body().is_end_stream() {
            let (discard, last_request) = (self.discard.clone(), self.last_request.clone());
            tokio::spawn(async move {
                if !discard.rest(request.into_body()).await {
                    last_request.cancel();
                }
            });
        }
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, NO_STORE);
        if is_last && is_http1 && !headers.contains_key(header::UPGRADE) {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response.map(|body| Answered::new(body, busy))
    }

    async fn route(&self, request: &mut Request<Incoming>) -> Result<Response<Body>, Refusal> {
        if self.pace.is_ambiguous() {
            return Err(Refusal::Ambiguous);
        }
        let is_http2 = self.carrier == Carrier::Http2;
        match request.uri().path() {
            REQUEST => {
                let limit = self.service.request_bytes();
                self.post(request, Place::Request, limit).await
            }
            HANDSHAKE => {
                let limit = self.limits.handshake_bytes;
                self.post(request, Place::Handshake, limit).await
            }
            grpc::EXCHANGE if is_http2 => self.call(request, Call::One).await,
            grpc::EXCHANGE_STREAM if is_http2 => self.call(request, Call::Stream).await,
            WEBSOCKET if !is_http2 => self.open_websocket(request),
            path => {
                let name = path.strip_prefix(WELL_KNOWN);
                let document = name.and_then(|name| self.service.document(name));
                let document = document.ok_or(Refusal::NoSuchPath)?;
                match *request.method() {
                    Method::GET | Method::HEAD => Ok(message(StatusCode::OK, document)),
                    _ => Err(Refusal::Method("GET, HEAD")),
                }
            }
        }
    }

    async fn post(
        &self,
        request: &mut Request<Incoming>,
        place: Place,
        limit: usize,
    ) -> Result<Response<Body>, Refusal> {
        if request.method() != Method::POST {
            return Err(Refusal::Method("POST"));
        }
        let headers = request.headers();
        if !has_media_type(headers, "application/json")
            || headers.contains_key(header::CONTENT_ENCODING)
        {
            return Err(Refusal::MediaType);
        }
        let session_hint = session_hint(headers)?;
        let (message, charge) = match self.read(request, limit).await? {
            Read::Whole(message, charge) => (message, charge),
            Read::TooLarge(message) => {
                let to = (self.carrier, place);
                let answer = self.too_large(request, to, session_hint, (limit, message));
                let mut response = respond(answer.await);
                if self.carrier == Carrier::Http1 {
                    let close = HeaderValue::from_static("close");
                    response.headers_mut().insert(header::CONNECTION, close);
                }
                return Ok(response);
            }
        };
        if is_json_rpc(&message) {
            return Err(Refusal::JsonRpc);
        }
        let answer = self.service.handle(Arrived {
            message: charge.attach(message),
            carrier: self.carrier,
            place,
            source: self.source,
            session_hint,
            patience: None,
        });
        Ok(respond(answer.await))
    }

    async fn read(&self, request: &mut Request<Incoming>, limit: usize) -> Result<Read, Refusal> {
        let charge = self.budget.begin();
        body::read(request.body_mut(), limit, &self.limits, charge).await
    }

    /// Has a message refused that is too large to be kept. One whose head names a session is read to its
    /// end first, unless its sender waits to be asked for it.
    async fn too_large(
        &self,
        request: &mut Request<Incoming>,
        (carrier, place): (Carrier, Place),
        session_hint: Option<Box<str>>,
        (limit, message): (usize, TooLarge),
    ) -> Answer {
        let is_waiting = request.headers().contains_key(header::EXPECT);
        let ids = match place {
            Place::Request | Place::Any if session_hint.is_some() && !is_waiting => {
                let is_grpc = carrier == Carrier::Grpc;
                let discard = (&self.discard, self.limits.discard.bytes);
                oversized::ids(message.begun, is_grpc, request.body_mut(), discard).await
            }
            Place::Handshake | Place::Request | Place::Any => None,
        };
        let oversized = Oversized {
            carrier,
            place,
            source: self.source,
            session_hint,
            ids,
            limit,
            size: message.size,
        };
        self.service.refuse_oversized(oversized).await
    }

    /// A call of gRPC. Whatever becomes of it, the status of HTTP is 200.
    async fn call(
        &self,
        request: &mut Request<Incoming>,
        call: Call,
    ) -> Result<Response<Body>, Refusal> {
        if request.method() != Method::POST {
            return Err(Refusal::Method("POST"));
        }
        if !has_media_type(request.headers(), grpc::MEDIA_TYPE) {
            return Err(Refusal::MediaType);
        }
        let mut response = match self.exchange(request, call).await {
            Ok(Answer::Message(message)) => framed(Some(grpc::framed(&message)), grpc::ok()),
            Ok(Answer::Nothing) => framed(Some(grpc::framed(b"")), grpc::ok()),
            Ok(Answer::Stream(messages)) => Response::new(Body::Frames(messages, Some(grpc::ok()))),
            Ok(Answer::Error { code, message, .. }) => {
                framed(None, grpc::from_error(&code, &message))
            }
            Err(refusal) => {
                let message = refusal.message(None);
                framed(None, grpc::from_error(&refusal.code(), &message))
            }
        };
        let media_type = HeaderValue::from_static(grpc::MEDIA_TYPE);
        response
            .headers_mut()
            .insert(header::CONTENT_TYPE, media_type);
        Ok(response)
    }

    async fn exchange(
        &self,
        request: &mut Request<Incoming>,
        call: Call,
    ) -> Result<Answer, Refusal> {
        let headers = request.headers();
        let session_hint = session_hint(headers)?;
        let patience = patience(headers)?;
        let limit = self.service.request_bytes();
        let most = limit.saturating_add(grpc::AROUND);
        let to = (Carrier::Grpc, Place::Any);
        let (body, charge) = match self.read(request, most).await? {
            Read::Whole(body, charge) => (body, charge),
            Read::TooLarge(message) => {
                let refused = self.too_large(request, to, session_hint, (limit, message));
                return Ok(refused.await);
            }
        };
        let message = match grpc::only(body.clone(), limit) {
            Ok(message) => message,
            Err(Bad::Malformed) => return Err(Refusal::Malformed),
            Err(Bad::Compressed) => return Err(Refusal::MediaType),
            Err(Bad::TooLong) => {
                let message = TooLarge {
                    size: None,
                    begun: body.into(),
                };
                let refused = self.too_large(request, to, session_hint, (limit, message));
                return Ok(refused.await);
            }
        };
        if message.is_empty() {
            return Err(Refusal::Malformed);
        }
        let handled = self.service.handle(Arrived {
            message: charge.attach(message),
            carrier: Carrier::Grpc,
            place: Place::Any,
            source: self.source,
            session_hint,
            patience,
        });
        let answer = match patience {
            // A caller that waits no longer has gone.
            Some(patience) => tokio::time::timeout(patience, handled)
                .await
                .map_err(|_| Refusal::Timeout)?,
            None => handled.await,
        };
        match (answer, call) {
            (Answer::Stream(_), Call::One) => Err(Refusal::NoStream),
            (answer, _) => Ok(answer),
        }
    }

    fn open_websocket(&self, request: &Request<Incoming>) -> Result<Response<Body>, Refusal> {
        let response = ws::accept(request.method(), request.headers(), &self.limits)?;
        self.is_websocket.store(true, Relaxed);
        Ok(response.map(|()| Body::Whole(None)))
    }
}

/// The two calls of gRPC.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    One,
    Stream,
}

fn respond(answer: Answer) -> Response<Body> {
    match answer {
        Answer::Message(bytes) => message(StatusCode::OK, bytes),
        Answer::Nothing => {
            let mut response = Response::new(Body::Whole(None));
            *response.status_mut() = StatusCode::NO_CONTENT;
            response
        }
        Answer::Stream(messages) => {
            let mut response = Response::new(Body::Lines(messages));
            response.headers_mut().insert(header::CONTENT_TYPE, NDJSON);
            response
        }
        Answer::Error {
            code,
            message: bytes,
            retry_after,
        } => {
            let status = code.http().and_then(|code| StatusCode::from_u16(code).ok());
            let mut response = message(status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), bytes);
            if let Some(seconds) = retry_after {
                let headers = response.headers_mut();
                headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
            }
            response
        }
    }
}

fn message(status: StatusCode, bytes: Bytes) -> Response<Body> {
    let mut response = Response::new(Body::Whole(Some(bytes)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, JSON);
    if status == StatusCode::UNAUTHORIZED {
        let scheme = HeaderValue::from_static("A2ADP");
        headers.insert(header::WWW_AUTHENTICATE, scheme);
    }
    response
}

fn refused(refusal: Refusal) -> Response<Body> {
    let mut response = message(refusal.status(), refusal.message(None));
    if let Refusal::Method(methods) = refusal {
        let methods = HeaderValue::from_static(methods);
        response.headers_mut().insert(header::ALLOW, methods);
    }
    response
}

/// An answer of gRPC. Without a message the trailers are all there is, and are the headers.
fn framed(message: Option<Bytes>, trailers: HeaderMap) -> Response<Body> {
    match message {
        Some(message) => Response::new(Body::Framed(Some(message), Some(trailers))),
        None => {
            let mut response = Response::new(Body::Framed(None, None));
            *response.headers_mut() = trailers;
            response
        }
    }
}

/// Whether the one `Content-Type` is this, whatever its parameters. gRPC may name its encoding behind a plus sign.
fn has_media_type(headers: &HeaderMap, wanted: &str) -> bool {
    let mut values = headers.get_all(header::CONTENT_TYPE).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return false;
    };
    let Ok(text) = value.to_str() else {
        return false;
    };
    let essence = text.split(';').next().unwrap_or_default().trim();
    let essence = match wanted {
        grpc::MEDIA_TYPE => essence.strip_suffix("+proto").unwrap_or(essence),
        _ => essence,
    };
    essence.eq_ignore_ascii_case(wanted)
}

/// Whether a message is one of JSON-RPC, which names its version near its beginning.
fn is_json_rpc(message: &[u8]) -> bool {
    let beginning = message.get(..JSON_RPC_BEGINNING).unwrap_or(message);
    memmem::find(beginning, b"\"jsonrpc\"").is_some()
        && str::from_utf8(message).is_ok_and(|text| peek(text).kind.is_none())
}

/// The session that a header names. It is kept while the message comes, so it is no longer than an id.
fn session_hint(headers: &HeaderMap) -> Result<Option<Box<str>>, Refusal> {
    match once(headers, &SESSION_ID)? {
        Some(hint) if hint.len() > limits::SESSION_ID => Err(Refusal::Header),
        hint => Ok(hint.map(Box::from)),
    }
}

fn patience(headers: &HeaderMap) -> Result<Option<Duration>, Refusal> {
    let name = HeaderName::from_static("grpc-timeout");
    let Some(text) = once(headers, &name)? else {
        return Ok(None);
    };
    grpc::timeout(text).map(Some).ok_or(Refusal::Malformed)
}

/// A header that may be there once.
fn once<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Refusal> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| Refusal::Header),
        (Some(_), Some(_)) => Err(Refusal::Header),
    }
}
