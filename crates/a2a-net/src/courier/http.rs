//! What both kinds of HTTP share: what a request is made of, and what a response means.

use a2a_wire::limits;
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::body::Body;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode, Uri};
use tokio::sync::mpsc;

use super::Remote;
use crate::carry::grpc as frames;
use crate::transport::{CarryError, Place, Reply};

/// The targets of requests, made once.
#[derive(Debug)]
pub(super) struct Targets {
    host: HeaderValue,
    handshake: Target,
    request: Target,
    exchange: Uri,
    exchange_stream: Uri,
    /// The URL of the WebSocket.
    pub(super) websocket: Uri,
}

/// A path, as each kind of HTTP says it.
#[derive(Debug)]
struct Target {
    path: Uri,
    url: Uri,
}

/// Messages of a stream that wait to be read. More wait with the peer.
pub(super) const QUEUE: usize = 16;

/// Bytes that a part of a stream may have. What is larger can only be the answer, which is the last
/// message: nothing behind it is read, so that at most one such waits.
pub(super) const PART: usize = limits::CHUNK_MESSAGE;

/// Bytes of a response's header block. Errors of gRPC are in there.
pub(super) const HEADER_BYTES: u32 = 32 * 1024;

const SESSION_ID: HeaderName = HeaderName::from_static("x-session-id");

impl Targets {
    pub(super) fn new(remote: &Remote) -> Result<Self, CarryError> {
        let authority = remote.authority();
        let wrong = |what: &str| CarryError::Connect(format!("{what:?}: it is no part of a URL"));
        let url = |scheme: &str, path: &str| {
            let text = format!("{scheme}://{authority}{path}");
            let url = text.parse::<Uri>().map_err(|_| wrong(&text))?;
            match path.starts_with('/') {
                true => Ok(url),
                false => Err(wrong(path)),
            }
        };
        let target = |path: &str| {
            Ok::<_, CarryError>(Target {
                path: path.parse().map_err(|_| wrong(path))?,
                url: url("https", path)?,
            })
        };
        Ok(Self {
            host: HeaderValue::try_from(&authority).map_err(|_| wrong(&authority))?,
            handshake: target(&remote.handshake)?,
            request: target(&remote.request)?,
            exchange: url("https", frames::EXCHANGE)?,
            exchange_stream: url("https", frames::EXCHANGE_STREAM)?,
            websocket: url("wss", &remote.websocket)?,
        })
    }

    pub(super) fn http1(
        &self,
        place: Place,
        session_id: Option<&str>,
        message: Bytes,
    ) -> Result<Request<Full<Bytes>>, CarryError> {
        let mut request = post(self.target(place).path.clone(), session_id)?;
        let headers = request.headers_mut();
        headers.insert(header::HOST, self.host.clone());
        Ok(request.map(|()| Full::new(message)))
    }

    pub(super) fn http2(
        &self,
        place: Place,
        session_id: Option<&str>,
    ) -> Result<Request<()>, CarryError> {
        post(self.target(place).url.clone(), session_id)
    }

    /// A handshake message has one answer. What a request has is not known before it comes.
    pub(super) fn grpc(
        &self,
        place: Place,
        session_id: Option<&str>,
    ) -> Result<Request<()>, CarryError> {
        let uri = match place {
            Place::Handshake => &self.exchange,
            Place::Request | Place::Any => &self.exchange_stream,
        };
        let mut request = post(uri.clone(), session_id)?;
        let headers = request.headers_mut();
        let media_type = HeaderValue::from_static(frames::MEDIA_TYPE);
        headers.insert(header::CONTENT_TYPE, media_type);
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
        Ok(request)
    }

    const fn target(&self, place: Place) -> &Target {
        match place {
            Place::Handshake => &self.handshake,
            Place::Request | Place::Any => &self.request,
        }
    }
}

/// A request, without what it carries.
fn post(uri: Uri, session_id: Option<&str>) -> Result<Request<()>, CarryError> {
    let mut request = Request::new(());
    *request.method_mut() = Method::POST;
    *request.uri_mut() = uri;
    let headers = request.headers_mut();
    let json = HeaderValue::from_static("application/json");
    headers.insert(header::CONTENT_TYPE, json);
    if let Some(id) = session_id {
        let id = HeaderValue::try_from(id)
            .map_err(|_| CarryError::Connect("a session id that no header can have".into()))?;
        headers.insert(SESSION_ID, id);
    }
    Ok(request)
}

/// Reads a response.
pub(super) async fn reply<B: Body<Data = Bytes> + Send + Unpin + 'static>(
    response: Response<B>,
    limit: usize,
) -> Result<Reply, CarryError>
where
    B::Error: Send,
{
    let (head, body) = response.into_parts();
    let status = head.status;
    if is_of_proxy(status.as_u16()) && media_type(&head.headers) != "application/json" {
        return Ok(without_message(status.as_u16(), &head.headers));
    }
    if status.is_redirection() {
        return Err(CarryError::Foreign(format!("a redirect (status {status})")));
    }
    if head.headers.contains_key(header::CONTENT_ENCODING) {
        return Err(CarryError::Foreign("it is compressed".into()));
    }
    if status == StatusCode::NO_CONTENT {
        return Ok(Reply::Nothing);
    }
    match media_type(&head.headers) {
        "application/x-ndjson" => Ok(Reply::Stream(lines(body, limit))),
        "application/json" => {
            let message = whole(body, limit).await?;
            Ok(Reply::Message {
                message,
                status: status.as_u16(),
                retry_after: retry_after(&head.headers),
            })
        }
        other => {
            let other: String = other.chars().take(64).collect();
            let text = format!("status {status} with media type {other:?}");
            Err(CarryError::Foreign(text))
        }
    }
}

/// Whether a status is one that proxies answer with when they cannot ask the agent.
pub(super) const fn is_of_proxy(status: u16) -> bool {
    matches!(status, 429 | 502..=504)
}

/// An answer of which nothing but the status counts.
pub(super) fn without_message(status: u16, headers: &hyper::HeaderMap) -> Reply {
    Reply::Message {
        message: Bytes::new(),
        status,
        retry_after: retry_after(headers),
    }
}

fn retry_after(headers: &hyper::HeaderMap) -> Option<u64> {
    let value = headers.get(header::RETRY_AFTER)?;
    value.to_str().ok()?.parse().ok()
}

pub(super) fn media_type(headers: &hyper::HeaderMap) -> &str {
    let value = headers.get(header::CONTENT_TYPE);
    let text = value.and_then(|value| value.to_str().ok());
    let text = text.unwrap_or_default();
    text.split(';').next().unwrap_or_default().trim()
}

pub(super) fn too_large(limit: usize) -> CarryError {
    CarryError::Foreign(format!("it is larger than {limit} bytes"))
}

async fn whole(
    mut body: impl Body<Data = Bytes> + Unpin,
    limit: usize,
) -> Result<Bytes, CarryError> {
    let declared = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if declared > limit {
        return Err(too_large(limit));
    }
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| CarryError::Broken)?.into_data() else {
            continue;
        };
        if data.len().saturating_add(whole.len()) > limit {
            return Err(too_large(limit));
        }
        if whole.is_empty() {
            if body.is_end_stream() {
                return Ok(data);
            }
            whole.reserve(declared.max(data.len()));
        }
        whole.extend_from_slice(&data);
    }
    Ok(whole.freeze())
}

/// The lines of a body as they come. Whoever no longer reads them ends the request.
fn lines<B: Body<Data = Bytes> + Send + Unpin + 'static>(
    mut body: B,
    limit: usize,
) -> mpsc::Receiver<Result<Bytes, CarryError>>
where
    B::Error: Send,
{
    let (sender, receiver) = mpsc::channel(QUEUE);
    tokio::spawn(async move {
        let reading = async {
            let mut buffer = BytesMut::new();
            while let Some(frame) = body.frame().await {
                let Ok(data) = frame.map_err(|_| CarryError::Broken)?.into_data() else {
                    continue;
                };
                let mut looked = buffer.len();
                buffer.extend_from_slice(&data);
                while let Some(end) = find(&buffer, looked) {
                    let line = buffer.split_to(end.saturating_add(1)).freeze();
                    looked = 0;
                    if end > limit {
                        return Err(too_large(limit));
                    }
                    let line = line.slice(..end);
                    let is_last = end > PART;
                    if sender.send(Ok(line)).await.is_err() {
                        return Err(CarryError::Broken);
                    }
                    if is_last {
                        return Ok(());
                    }
                }
                if buffer.len() > limit {
                    return Err(too_large(limit));
                }
            }
            match buffer.is_empty() {
                true => Ok(()),
                false => Err(CarryError::Broken),
            }
        };
        let read = tokio::select! {
            read = reading => read,
            () = sender.closed() => return,
        };
        if let Err(error) = read {
            // Nobody may be there to be told.
            let _ = sender.send(Err(error)).await;
        }
    });
    receiver
}

/// The first end of a line from here on.
fn find(buffer: &[u8], from: usize) -> Option<usize> {
    let rest = buffer.get(from..)?;
    let found = rest.iter().position(|byte| *byte == b'\n')?;
    Some(found.saturating_add(from))
}
