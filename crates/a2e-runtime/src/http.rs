//! A2E over HTTP: lines by `POST /send`, answers as server-sent events, or both over a WebSocket.

mod body;
mod guard;
mod metrics;
mod route;
mod sse;
mod visit;
mod ws;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, Weak};
use std::time::Duration;

use a2e_wire::LineTooLong;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::auth::Source;
use crate::clock::random_id;
use crate::connections::{ConnectionSlot, Connections};
use crate::host::{Full, Host};
use crate::newcomers::Newcomer;

use body::Answer;
pub use guard::Guard;
use metrics::MoreMetrics;
pub use route::{Guest, Route};
use sse::Mailbox;
use visit::Visitor;

/// Serves a host over HTTP connections. Cheap to clone; all clones have the same sessions.
#[derive(Clone)]
pub struct HttpServer {
    host: Host,
    guard: Arc<RwLock<Guard>>,
    mailboxes: Mailboxes,
    routes: Vec<Arc<dyn Route>>,
    more_metrics: Arc<OnceLock<MoreMetrics>>,
}

/// The sessions over HTTP, by their ids: 128 random bits each, known to their agents alone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Mailboxes(Arc<Mutex<HashMap<String, Arc<Mailbox>>>>);

/// Where a connection comes from and where it arrived.
#[derive(Debug, Clone, Copy)]
pub struct Connection {
    /// The peer.
    pub peer: SocketAddr,
    /// Our end.
    pub local: SocketAddr,
}

/// How long a peer may take to send the head of a request.
const HEAD: Duration = Duration::from_secs(10);

/// How long a peer may take to send the body of a request.
const BODY: Duration = Duration::from_secs(30);

/// How much of a body beyond the longest line is read, to answer it as any other bad line.
const MAX_EXCESS: usize = 64 * 1024 * 1024;

impl HttpServer {
    /// A server for a host that answers only requests the guard lets through.
    #[must_use]
    pub fn new(host: Host, guard: Guard) -> Self {
        Self {
            host,
            guard: Arc::new(RwLock::new(guard)),
            mailboxes: Mailboxes::default(),
            routes: Vec::new(),
            more_metrics: Arc::default(),
        }
    }

    /// Lets others through from now on.
    pub fn set_guard(&self, guard: Guard) {
        *self.guard.write().unwrap_or_else(PoisonError::into_inner) = guard;
    }

    /// The connections of its host.
    pub(crate) fn connections(&self) -> &Connections {
        self.host.connections()
    }

    /// Serves one connection until it ends.
    ///
    /// # Errors
    /// If reading or writing fails, or the peer does not speak HTTP.
    pub async fn serve(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        connection: Connection,
    ) -> Result<(), hyper::Error> {
        let newcomer = self.newcomer(Source::Address(connection.peer.ip()));
        let visitor = Visitor::new(connection, newcomer, Weak::new());
        self.serve_visitor(stream, visitor).await
    }

    /// Serves a connection that a listener has accepted and counted.
    pub(crate) async fn serve_accepted(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        connection: Connection,
        (newcomer, slot): (Option<Newcomer>, Weak<ConnectionSlot>),
    ) -> Result<(), hyper::Error> {
        let visitor = Visitor::new(connection, newcomer, slot);
        self.serve_visitor(stream, visitor).await
    }

    /// Counts a connection.
    pub(crate) fn newcomer(&self, source: Source) -> Option<Newcomer> {
        self.host.newcomer(source)
    }

    /// A connection for which there was no place is refused whatever it asks.
    async fn serve_visitor(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        visitor: Visitor,
    ) -> Result<(), hyper::Error> {
        // Boxed, so that a connection that only reads its stream does not keep the space.
        let service = service_fn(|request: Request<Incoming>| {
            let visitor = &visitor;
            Box::pin(async move {
                let (parts, mut body) = request.into_parts();
                let is_last = !visitor.is_admitted || is_chunked(&parts.headers);
                let mut response = match visitor.is_admitted {
                    true => self.answer(parts, &mut body, visitor).await?,
                    false => refuse(Full::Source),
                };
                if is_last || !body.is_end_stream() {
                    let close = HeaderValue::from_static("close");
                    response.headers_mut().insert(header::CONNECTION, close);
                }
                Ok::<_, hyper::Error>(response)
            })
        });
        let mut connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD)
            .max_headers(64)
            .max_buf_size(16 * 1024)
            .serve_connection(TokioIo::new(stream), service);
        let ended = (&mut connection).await;
        let http1::Parts { io, read_buf, .. } = connection.into_parts();
        let mut stream = io.into_inner();
        let source = Source::Address(visitor.connection.peer.ip());
        // Boxed, so that a connection that has not ended does not keep the space.
        match (&ended, visitor.into_websocket()) {
            (Ok(()), Some(session)) => {
                let stream = (stream, read_buf);
                Box::pin(ws::serve(&self.host, stream, source, session)).await;
            }
            // It had its time.
            (Err(error), _) if error.is_timeout() => {}
            _ => Box::pin(net::close(&mut stream, net::DiscardLimits::default())).await,
        }
        ended
    }

    async fn answer(
        &self,
        parts: Parts,
        body: &mut Incoming,
        visitor: &Visitor,
    ) -> Result<Response<Answer>, hyper::Error> {
        let connection = visitor.connection;
        let allowed = {
            let guard = self.guard.read().unwrap_or_else(PoisonError::into_inner);
            guard.check(&parts.headers, connection.local)
        };
        if let Err(refusal) = allowed {
            return Ok(refusal.response());
        }
        if let Some(route) = self.route_of(parts.uri.path()) {
            return self.take_route(route, (parts, body), visitor).await;
        }
        let source = Source::Address(connection.peer.ip());
        let headers = &parts.headers;
        let known = match (&parts.method, parts.uri.path()) {
            (&Method::POST, "/session") => return Ok(self.new_session(source)),
            (&Method::POST, "/send") => return self.send(headers, body, visitor).await,
            (&Method::GET, "/stream") => return Ok(self.stream(headers, visitor)),
            (&Method::GET, "/ws") => {
                return Ok(ws::upgrade(&self.host, headers, source, visitor));
            }
            (&Method::GET | &Method::HEAD, "/health") => {
                return Ok(json(StatusCode::OK, r#"{"status":"ok"}"#));
            }
            (&Method::GET | &Method::HEAD, "/healthz") => return Ok(text("ok\n")),
            (&Method::GET | &Method::HEAD, "/readyz") => return Ok(self.ready()),
            (&Method::GET | &Method::HEAD, "/metrics") => {
                return Ok(self.metrics(headers, connection).await);
            }
            (_, path) => PATHS.contains(&path),
        };
        Ok(match known {
            true => detail(
                StatusCode::METHOD_NOT_ALLOWED,
                "this path takes another method",
            ),
            false => detail(StatusCode::NOT_FOUND, "there is nothing at this path"),
        })
    }

    fn new_session(&self, source: Source) -> Response<Answer> {
        let admission = match self.host.admit(source) {
            Ok(admission) => admission,
            Err(full) => return refuse(full),
        };
        let id = random_id();
        let settings = self.host.settings();
        let limits = settings.limits;
        let link = self.mailboxes.add(
            id.clone(),
            settings.max_line_before(),
            limits.handshake,
            limits.resume,
        );
        self.host.serve_link(Box::new(link), source, admission);
        json(StatusCode::OK, &format!(r#"{{"session_id":"{id}"}}"#))
    }

    async fn send(
        &self,
        headers: &HeaderMap,
        body: &mut Incoming,
        visitor: &Visitor,
    ) -> Result<Response<Answer>, hyper::Error> {
        let mailbox = match self.mailbox(headers) {
            Ok(mailbox) => mailbox,
            Err(missing) => return Ok(missing.response()),
        };
        mailbox.visited(&visitor.visit);
        let limit = mailbox.max_line();
        let mut arriving = Arc::clone(&mailbox).receive();
        let line = read(body, limit, |bytes| arriving.add(bytes));
        let Ok(line) = tokio::time::timeout(BODY, line).await else {
            let text = "the body did not come in time";
            return Ok(detail(StatusCode::REQUEST_TIMEOUT, text));
        };
        let Some(line) = line? else {
            let text = "the body is far too long";
            return Ok(detail(StatusCode::PAYLOAD_TOO_LARGE, text));
        };
        // What is wrong with a message is said on the stream: clients send again what gets a status.
        Ok(match arriving.send(line).await {
            true => json(StatusCode::OK, r#"{"ok":true}"#),
            false => Missing::Session.response(),
        })
    }

    fn stream(&self, headers: &HeaderMap, visitor: &Visitor) -> Response<Answer> {
        let mailbox = match self.mailbox(headers) {
            Ok(mailbox) => mailbox,
            Err(missing) => return missing.response(),
        };
        let last = headers.get("last-event-id").and_then(|id| id.to_str().ok());
        let last = last.and_then(|id| id.parse().ok());
        let mut response = Response::new(Answer::Stream(mailbox.attach(last, &visitor.visit)));
        for (name, value) in [
            (header::CONTENT_TYPE, "text/event-stream; charset=utf-8"),
            (header::CACHE_CONTROL, "no-cache"),
            (header::CONNECTION, "keep-alive"),
        ] {
            let value = HeaderValue::from_static(value);
            response.headers_mut().insert(name, value);
        }
        response
    }

    fn ready(&self) -> Response<Answer> {
        match self.host.is_stopping() {
            false => text("ready\n"),
            true => detail(StatusCode::SERVICE_UNAVAILABLE, "the host is stopping"),
        }
    }

    fn mailbox(&self, headers: &HeaderMap) -> Result<Arc<Mailbox>, Missing> {
        let id = headers.get("x-session-id").ok_or(Missing::Header)?;
        let id = id.to_str().map_err(|_| Missing::Session)?;
        self.mailboxes.get(id).ok_or(Missing::Session)
    }
}

/// Why there is no session to send to or to read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Missing {
    Header,
    Session,
}

impl Missing {
    fn response(self) -> Response<Answer> {
        match self {
            Self::Header => detail(
                StatusCode::BAD_REQUEST,
                "the header X-Session-Id is missing; POST /session gives one",
            ),
            Self::Session => detail(
                StatusCode::NOT_FOUND,
                "there is no such session, or no longer; POST /session begins one",
            ),
        }
    }
}

/// Whether a request says its length by chunks. It may have said it twice (RFC 9112 §6.1), to make what
/// is behind it look like another request, so it is the last of its connection.
fn is_chunked(headers: &HeaderMap) -> bool {
    headers.contains_key(header::TRANSFER_ENCODING)
}

impl Mailboxes {
    fn get(&self, id: &str) -> Option<Arc<Mailbox>> {
        self.lock().get(id).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Mailbox>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const PATHS: [&str; 8] = [
    "/session", "/send", "/stream", "/ws", "/health", "/healthz", "/readyz", "/metrics",
];

/// Reads a body: a line, or that it is too long; nothing if it goes on and on. What is kept of it is counted.
async fn read(
    body: &mut Incoming,
    limit: usize,
    mut count: impl FnMut(usize),
) -> Result<Option<Result<Bytes, LineTooLong>>, hyper::Error> {
    let mut line = Vec::new();
    let mut size = 0_usize;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else {
            continue;
        };
        let is_whole = line.is_empty() && body.is_end_stream();
        size = size.saturating_add(data.len());
        if is_whole && size <= limit {
            count(data.len());
            return Ok(Some(Ok(data)));
        }
        if size > limit.saturating_add(MAX_EXCESS) {
            return Ok(None);
        }
        match size <= limit {
            true => {
                count(data.len());
                line.extend_from_slice(&data);
            }
            false => line = Vec::new(),
        }
    }
    Ok(Some(match size <= limit {
        true => Ok(line.into()),
        false => Err(LineTooLong { limit }),
    }))
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    value.strip_prefix("Bearer ")
}

/// Says that there is no place.
fn refuse(full: Full) -> Response<Answer> {
    let status = match full {
        Full::Host => StatusCode::SERVICE_UNAVAILABLE,
        Full::Source => StatusCode::TOO_MANY_REQUESTS,
    };
    detail(status, &full.failure().message)
}

/// A refusal, in the words of the Python host: `{"detail": …}`. The texts need no escapes.
fn detail(status: StatusCode, text: &str) -> Response<Answer> {
    json(status, &format!(r#"{{"detail":"{text}"}}"#))
}

fn json(status: StatusCode, json: &str) -> Response<Answer> {
    let mut response = Response::new(Answer::whole(json.to_owned()));
    *response.status_mut() = status;
    let value = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, value);
    response
}

fn text(text: impl Into<String>) -> Response<Answer> {
    let mut response = Response::new(Answer::whole(text.into()));
    let value = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, value);
    response
}
