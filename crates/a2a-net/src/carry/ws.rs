//! Messages over a WebSocket, one a text frame: up to so many requests at once, handshake messages one after the other.

mod counted;
mod talk;

use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, Response, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use super::SUBPROTOCOL;
use super::connection::Visit;
use super::limits::Limits;
use super::refusal::Refusal;
use crate::transport::Service;
use counted::CountedStream;

/// How much is gathered before it is written.
const GATHERED: usize = 16 * 1024;

/// How much is read at once. The library zeroes as much before each read, and there is more than one for each message, so
/// that more would cost more than it saves: most messages are shorter.
const READ: usize = 4 * 1024;

/// Answers a request to speak WebSocket. A web page that is not on the list learns nothing but that.
pub(super) fn accept(
    method: &Method,
    headers: &HeaderMap,
    limits: &Limits,
) -> Result<Response<()>, Refusal> {
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let is_listed = |origin: &HeaderValue| {
        let mut listed = limits.origins.iter();
        listed.any(|listed| listed.as_bytes() == origin.as_bytes())
    };
    if !origins.all(is_listed) {
        return Err(Refusal::Origin);
    }
    if method != Method::GET {
        return Err(Refusal::Method("GET"));
    }
    let is_upgrade = has_word(headers, &header::CONNECTION, "upgrade")
        && has_word(headers, &header::UPGRADE, "websocket")
        && has_word(headers, &header::SEC_WEBSOCKET_VERSION, "13");
    // The base specification names no subprotocol: a client that asks for none means ours.
    let is_named = headers.contains_key(header::SEC_WEBSOCKET_PROTOCOL);
    let is_ours = !is_named || has_word(headers, &header::SEC_WEBSOCKET_PROTOCOL, SUBPROTOCOL);
    let key = headers.get(header::SEC_WEBSOCKET_KEY);
    let (true, Some(key)) = (is_upgrade && is_ours, key) else {
        return Err(Refusal::Subprotocol);
    };
    let accept = derive_accept_key(key.as_bytes());
    let accept = HeaderValue::try_from(accept).map_err(|_| Refusal::Header)?;
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    // A client refuses a subprotocol that it has not asked for.
    if is_named {
        let subprotocol = HeaderValue::from_static(SUBPROTOCOL);
        headers.insert(header::SEC_WEBSOCKET_PROTOCOL, subprotocol);
    }
    Ok(response)
}

/// Serves what a connection has become, until it ends. `begun` was read of it already.
pub(super) async fn serve<S: Service>(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    begun: &[u8],
    visit: Visit<S>,
) {
    let stream = CountedStream::new(stream, visit.message_budget());
    let config = Some(config(visit.service.request_bytes()));
    let begun = begun.to_vec();
    let socket = WebSocketStream::from_partially_read(stream, begun, Role::Server, config).await;
    talk::talk(socket, visit).await;
}

/// How both ends speak.
pub(crate) fn config(message_bytes: usize) -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(READ)
        .write_buffer_size(GATHERED)
        .max_message_size(Some(message_bytes))
        .max_frame_size(Some(message_bytes))
}

/// Whether a header's list has a word.
fn has_word(headers: &HeaderMap, name: &header::HeaderName, word: &str) -> bool {
    let values = headers.get_all(name).into_iter();
    let texts = values.filter_map(|value| value.to_str().ok());
    texts
        .flat_map(|text| text.split(','))
        .any(|known| known.trim().eq_ignore_ascii_case(word))
}
