//! Requests to MCP servers over HTTP, with this program's own client: it connects to addresses that
//! may be reached and to no others, follows nothing and keeps no cookies.

use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, StatusCode};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorData, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::{Error as SseError, Sse, SseStream};
use tokio_util::task::AbortOnDropHandle;

use super::login::{Challenge, Login};
use super::pages::{MAX_PAGE, asks_for_page};
use crate::http::{Ask, Client, Opened, Reach, Target};
use crate::tool::ToolFailure;

/// The longest message of a server, in bytes.
pub(super) const MAX_MESSAGE: usize = 16 * 1024 * 1024;

/// Makes requests to one server.
#[derive(Clone)]
pub(super) struct Poster {
    pub(super) client: Arc<Client>,
    pub(super) reach: Reach,
    /// Those that the operator has set, secrets among them.
    pub(super) headers: HeaderMap,
    /// Where the token is from that they have beside.
    pub(super) login: Option<Arc<Login>>,
}

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum HttpError {
    /// It could not be made.
    #[error("{0}")]
    Ask(#[from] ToolFailure),
    /// What came broke off.
    #[error("the answer broke off: {0}")]
    Broken(#[from] hyper::Error),
    /// What came was too long.
    #[error("a message is too long")]
    TooLong,
    /// The server said no.
    #[error("the server answered {0}")]
    Status(StatusCode),
    /// It wants to know who asks.
    #[error("the server wants a login")]
    Login,
    /// It said something else.
    #[error("{0}")]
    Unexpected(&'static str),
}

/// The body of an answer that goes on, in pieces that end.
pub(super) struct Events {
    body: Incoming,
    /// The connection lives as long as its body.
    _connection: AbortOnDropHandle<()>,
    /// Bytes since the last event ended, and how many there may be.
    since: usize,
    most: usize,
}

impl fmt::Debug for Poster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Poster").finish_non_exhaustive()
    }
}

impl Poster {
    /// Makes a request, with the token that there is for the server. If it refuses that, once more with
    /// another one.
    async fn open(
        &self,
        method: Method,
        url: &str,
        headers: HeaderMap,
        body: Vec<u8>,
    ) -> Result<Opened, HttpError> {
        let Some(login) = &self.login else {
            return self.once(method, url, headers, body, None).await;
        };
        let token = login.token().await;
        let (again, more) = (method.clone(), (headers.clone(), body.clone()));
        let opened = self.once(method, url, headers, body, token.as_deref());
        let opened = opened.await?;
        let Some(refused) = Challenge::of(&opened.head) else {
            return Ok(opened);
        };
        if !login.renew(token.as_deref(), refused).await {
            return Err(HttpError::Login);
        }
        let token = login.token().await;
        let opened = self.once(again, url, more.0, more.1, token.as_deref());
        let opened = opened.await?;
        match Challenge::of(&opened.head) {
            None => Ok(opened),
            Some(refused) => {
                login.refuse(refused);
                Err(HttpError::Login)
            }
        }
    }

    /// Makes a request with these headers beside the operator's.
    async fn once(
        &self,
        method: Method,
        url: &str,
        mut headers: HeaderMap,
        body: Vec<u8>,
        token: Option<&str>,
    ) -> Result<Opened, HttpError> {
        for (name, value) in &self.headers {
            headers.insert(name, value.clone());
        }
        if let Some(token) = token {
            let value = HeaderValue::from_str(&format!("Bearer {token}"));
            let wrong = |_| HttpError::Unexpected("the token cannot be sent");
            let mut value = value.map_err(wrong)?;
            value.set_sensitive(true);
            headers.insert(header::AUTHORIZATION, value);
        }
        let ask = Ask {
            target: Target::parse(url)?,
            method,
            headers,
            body,
            time: None,
            reach: self.reach,
            body_bytes: MAX_MESSAGE,
        };
        Ok(self.client.open(ask).await?)
    }

    /// The events at an address.
    pub(super) async fn events(
        &self,
        url: &str,
        mut headers: HeaderMap,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, HttpError> {
        headers.insert(
            header::ACCEPT,
            HeaderValue::from_static("text/event-stream"),
        );
        let opened = self.open(Method::GET, url, headers, Vec::new()).await?;
        match opened.head.status {
            StatusCode::OK if is(&opened.head.headers, "text/event-stream") => {
                Ok(events(opened, MAX_MESSAGE))
            }
            StatusCode::OK => Err(HttpError::Unexpected("there are no events at this address")),
            status => Err(HttpError::Status(status)),
        }
    }

    /// Sends a message whose answer comes elsewhere.
    pub(super) async fn post(&self, url: &str, body: Vec<u8>) -> Result<(), HttpError> {
        let mut headers = HeaderMap::new();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        );
        let opened = self.open(Method::POST, url, headers, body).await?;
        match opened.head.status {
            status if status.is_success() => Ok(()),
            status => Err(HttpError::Status(status)),
        }
    }
}

impl StreamableHttpClient for Poster {
    type Error = HttpError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, StreamableHttpError<HttpError>> {
        let mut headers = request_headers(session_id.as_deref(), custom_headers);
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        );
        headers.insert(
            header::ACCEPT,
            HeaderValue::from_static("application/json, text/event-stream"),
        );
        let body = serde_json::to_vec(&message)?;
        let most = match &message {
            ClientJsonRpcMessage::Request(asked) if asks_for_page(&asked.request) => MAX_PAGE,
            _ => MAX_MESSAGE,
        };
        let opened = self.open(Method::POST, &uri, headers, body).await;
        let opened = opened.map_err(StreamableHttpError::Client)?;
        let status = opened.head.status;
        match status {
            StatusCode::ACCEPTED | StatusCode::NO_CONTENT => {
                return Ok(StreamableHttpPostResponse::Accepted);
            }
            StatusCode::NOT_FOUND if session_id.is_some() => {
                return Err(StreamableHttpError::SessionExpired);
            }
            status if !status.is_success() => {
                let text = read(opened, MAX_MESSAGE).await.unwrap_or_default();
                return older(&message, session_id.is_some(), status, &text)
                    .ok_or(StreamableHttpError::Client(HttpError::Status(status)));
            }
            _ => {}
        }
        let begun = opened.head.headers.get("mcp-session-id");
        let begun = begun.and_then(|id| id.to_str().ok()).map(str::to_owned);
        if is(&opened.head.headers, "text/event-stream") {
            return Ok(StreamableHttpPostResponse::Sse(events(opened, most), begun));
        }
        let body = read(opened, most)
            .await
            .map_err(StreamableHttpError::Client)?;
        match serde_json::from_slice(&body) {
            Ok(message) => Ok(StreamableHttpPostResponse::Json(message, begun)),
            // What is no request need not be answered with a message.
            Err(_) if !matches!(message, ClientJsonRpcMessage::Request(_)) => {
                Ok(StreamableHttpPostResponse::Accepted)
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        _: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), StreamableHttpError<HttpError>> {
        let headers = request_headers(Some(&session_id), custom_headers);
        let opened = self.open(Method::DELETE, &uri, headers, Vec::new()).await;
        match opened.map_err(StreamableHttpError::Client)?.head.status {
            StatusCode::METHOD_NOT_ALLOWED => {
                Err(StreamableHttpError::ServerDoesNotSupportDeleteSession)
            }
            status if status.is_success() || status == StatusCode::NOT_FOUND => Ok(()),
            status => Err(StreamableHttpError::Client(HttpError::Status(status))),
        }
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, StreamableHttpError<HttpError>> {
        let mut headers = request_headers(session_id.as_deref(), custom_headers);
        if let Some(id) = last_event_id.and_then(|id| HeaderValue::from_str(&id).ok()) {
            headers.insert("last-event-id", id);
        }
        match self.events(&uri, headers).await {
            Ok(events) => Ok(events),
            Err(HttpError::Status(StatusCode::METHOD_NOT_ALLOWED)) => {
                Err(StreamableHttpError::ServerDoesNotSupportSse)
            }
            Err(HttpError::Status(StatusCode::NOT_FOUND)) if session_id.is_some() => {
                Err(StreamableHttpError::SessionExpired)
            }
            Err(error) => Err(StreamableHttpError::Client(error)),
        }
    }
}

/// A server of an older era does not know what `server/discover` is, and may say so with a status.
fn older(
    message: &ClientJsonRpcMessage,
    in_session: bool,
    status: StatusCode,
    body: &[u8],
) -> Option<StreamableHttpPostResponse> {
    let ClientJsonRpcMessage::Request(request) = message else {
        return None;
    };
    let is_discover = matches!(request.request, ClientRequest::DiscoverRequest(_));
    let is_barred = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    if in_session || !is_discover || !status.is_client_error() || is_barred {
        return None;
    }
    let error = match serde_json::from_slice(body) {
        Ok(ServerJsonRpcMessage::Error(error)) => error.error,
        _ => ErrorData::invalid_request(format!("server/discover was answered {status}"), None),
    };
    let answer = ServerJsonRpcMessage::error(error, Some(request.id.clone()));
    Some(StreamableHttpPostResponse::Json(answer, None))
}

fn request_headers(
    session_id: Option<&str>,
    custom: HashMap<HeaderName, HeaderValue>,
) -> HeaderMap {
    let mut headers: HeaderMap = custom.into_iter().collect();
    if let Some(id) = session_id.and_then(|id| HeaderValue::from_str(id).ok()) {
        headers.insert("mcp-session-id", id);
    }
    headers
}

fn is(headers: &HeaderMap, kind: &str) -> bool {
    let value = headers.get(header::CONTENT_TYPE);
    let value = value.and_then(|value| value.to_str().ok());
    value.is_some_and(|value| {
        let value = value.split(';').next().unwrap_or_default();
        value.trim().eq_ignore_ascii_case(kind)
    })
}

fn events(opened: Opened, most: usize) -> BoxStream<'static, Result<Sse, SseError>> {
    let events = Events {
        body: opened.body,
        _connection: opened.connection,
        since: 0,
        most,
    };
    SseStream::new(events).boxed()
}

/// All of a body that ends.
pub(super) async fn read(mut opened: Opened, most: usize) -> Result<Vec<u8>, HttpError> {
    let mut body = Vec::new();
    while let Some(frame) = opened.body.frame().await {
        let Ok(data) = frame?.into_data() else {
            continue;
        };
        if body.len().saturating_add(data.len()) > most {
            return Err(HttpError::TooLong);
        }
        body.extend_from_slice(&data);
    }
    Ok(body)
}

impl Events {
    /// Counts a piece; says whether the event it belongs to may go on.
    fn count(&mut self, data: &[u8]) -> bool {
        let blank = |end: &[u8]| {
            let mut windows = data.windows(end.len()).rev();
            windows.position(|window| window == end)
        };
        // Bytes behind the last blank line.
        let behind = [blank(b"\n\n"), blank(b"\r\n\r\n"), blank(b"\r\r")];
        self.since = match behind.into_iter().flatten().min() {
            Some(behind) => behind,
            None => self.since.saturating_add(data.len()),
        };
        self.since <= self.most
    }
}

impl Body for Events {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        let Poll::Ready(Some(Ok(frame))) = &polled else {
            return polled.map_err(HttpError::Broken);
        };
        let fits = frame.data_ref().is_none_or(|data| self.count(data));
        match fits {
            true => polled.map_err(HttpError::Broken),
            false => Poll::Ready(Some(Err(HttpError::TooLong))),
        }
    }
}
