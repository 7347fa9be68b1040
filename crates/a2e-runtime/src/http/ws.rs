//! A session over a WebSocket: each line of a text is a message.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use a2e_session::Transmit;
use a2e_wire::LineTooLong;
use base::Class;
use futures_util::{Sink, Stream};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Response, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::CapacityError;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Bytes, Error, Message, Utf8Bytes};

use super::body::Answer;
use super::visit::Visitor;
use super::{detail, refuse};
use crate::auth::Source;
use crate::connections::LinkSlot;
use crate::host::{Admission, Host};
use crate::link::{Link, Reader, Received};
use crate::slots::Holder;

/// Messages over a WebSocket.
struct WsLink<S> {
    socket: WebSocketStream<Rationed<S>>,
    max_line: usize,
    slot: LinkSlot,
    queued: VecDeque<Utf8Bytes>,
    queued_bytes: usize,
    /// Bytes that the library may not have written.
    unflushed: usize,
    /// A ping or a close was answered, and the answer is not written: nothing more is read until it
    /// is, or a peer that only sends would fill our memory with answers.
    owes_answer: bool,
}

/// How much is gathered before it is written.
const CHUNK: usize = 16 * 1024;

/// Answers a request to speak WebSocket; a session begins over it once the answer is sent.
pub(super) fn upgrade(
    host: &Host,
    headers: &HeaderMap,
    source: Source,
    visitor: &Visitor,
) -> Response<Answer> {
    let is_upgrade = has_word(headers, header::CONNECTION, "upgrade")
        && has_word(headers, header::UPGRADE, "websocket");
    let version = headers.get(header::SEC_WEBSOCKET_VERSION);
    let key = headers.get(header::SEC_WEBSOCKET_KEY);
    let (true, Some(key)) = (
        is_upgrade && version.is_some_and(|version| version == "13"),
        key,
    ) else {
        let mut response = detail(StatusCode::UPGRADE_REQUIRED, "this path speaks WebSocket");
        for (name, value) in [
            (header::UPGRADE, "websocket"),
            (header::CONNECTION, "upgrade"),
            (header::SEC_WEBSOCKET_VERSION, "13"),
        ] {
            let value = HeaderValue::from_static(value);
            response.headers_mut().insert(name, value);
        }
        return response;
    };
    let accept = derive_accept_key(key.as_bytes());
    let Ok(accept) = HeaderValue::from_str(&accept) else {
        return detail(StatusCode::BAD_REQUEST, "the key is not one");
    };
    let admission = match host.admit(source) {
        Ok(admission) => admission,
        Err(full) => return refuse(full),
    };
    visitor.upgrade(admission);
    let mut response = Response::new(Answer::whole(String::new()));
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    response
}

/// Begins a session over a connection that has become a WebSocket, of which these bytes are read.
pub(super) async fn serve(
    host: &Host,
    (stream, read): (impl AsyncRead + AsyncWrite + Send + Unpin + 'static, Bytes),
    source: Source,
    (admission, slot): (Admission, LinkSlot),
) {
    let settings = host.settings();
    let max_line = settings.max_line;
    // A message that is too long is answered, and the session goes on, unless it is much too long.
    let most = max_line.saturating_mul(2);
    let config = WebSocketConfig::default()
        .read_buffer_size(4 * 1024)
        .write_buffer_size(CHUNK)
        .max_message_size(Some(most))
        .max_frame_size(Some(most));
    let max_line = settings.max_line_before();
    let stream = Rationed {
        stream,
        left: Some(ration(max_line)),
        unread: 0,
    };
    let socket =
        WebSocketStream::from_partially_read(stream, read.into(), Role::Server, Some(config)).await;
    let link = WsLink {
        socket,
        max_line,
        slot,
        queued: VecDeque::new(),
        queued_bytes: 0,
        unflushed: 0,
        owes_answer: false,
    };
    host.serve_link(Box::new(link), source, admission);
}

/// How much of one message is read of somebody who has not shaken hands: with it, as much as may be
/// read beyond it.
const fn ration(max_line: usize) -> usize {
    max_line.saturating_mul(2).saturating_add(CHUNK)
}

impl<S: AsyncRead + AsyncWrite + Unpin> WsLink<S> {
    fn take(&mut self, text: &[u8], reader: &mut dyn Reader) {
        let limit = self.max_line;
        let left = &mut self.socket.get_mut().left;
        if left.is_some() {
            *left = Some(ration(limit));
        }
        reader.take_lines(text, limit);
    }
}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Link for WsLink<S> {
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        reader: &mut dyn Reader,
    ) -> Poll<io::Result<Received>> {
        let mut received = false;
        loop {
            if self.owes_answer {
                match Pin::new(&mut self.socket).poll_flush(cx) {
                    Poll::Ready(Ok(())) => {}
                    // A close is answered, and that was the last word.
                    Poll::Ready(Err(Error::ConnectionClosed)) => {
                        return Poll::Ready(Ok(Received::End));
                    }
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(io::Error::other(error))),
                    Poll::Pending if received => return Poll::Ready(Ok(Received::Lines)),
                    Poll::Pending => return Poll::Pending,
                }
                self.owes_answer = false;
            }
            // What a handshake changes must hold for what comes behind it.
            if received && self.socket.get_ref().left.is_some() {
                return Poll::Ready(Ok(Received::Lines));
            }
            let next = Pin::new(&mut self.socket).poll_next(cx);
            if next.is_ready() {
                self.socket.get_mut().unread = 0;
            }
            match next {
                Poll::Ready(Some(Ok(Message::Text(text)))) => self.take(text.as_bytes(), reader),
                Poll::Ready(Some(Ok(Message::Binary(bytes)))) => self.take(&bytes, reader),
                Poll::Ready(Some(Ok(Message::Ping(_) | Message::Close(_)))) => {
                    self.owes_answer = true;
                }
                Poll::Ready(Some(Ok(Message::Pong(_) | Message::Frame(_)))) => {}
                Poll::Ready(Some(Err(error))) if is_too_long(&error) => {
                    let limit = self.max_line;
                    reader.take_line(Err(LineTooLong { limit }));
                    return Poll::Ready(Ok(Received::End));
                }
                Poll::Ready(None | Some(Err(Error::ConnectionClosed))) => {
                    return Poll::Ready(Ok(Received::End));
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(io::Error::other(error))),
                Poll::Pending if received => return Poll::Ready(Ok(Received::Lines)),
                Poll::Pending => return Poll::Pending,
            }
            received = true;
        }
    }

    fn bytes(&self) -> usize {
        let unread = self.socket.get_ref().unread;
        self.unflushed.saturating_add(unread)
    }

    fn queue(&mut self, message: Transmit<'_>) {
        self.unflushed = self.unflushed.saturating_add(message.line.len());
        let line = Bytes::copy_from_slice(message.line);
        // What we write is JSON, so it is text.
        if let Ok(text) = Utf8Bytes::try_from(line) {
            self.queued_bytes = self.queued_bytes.saturating_add(message.line.len());
            self.queued.push_back(text);
        }
    }

    fn poll_evicted(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.slot.poll_evicted(cx)
    }

    fn welcome(&mut self, (agent, class): (&Holder, Class), max_line: usize) {
        self.slot.assign(agent, class);
        self.max_line = max_line;
        self.socket.get_mut().left = None;
    }

    fn transport(&self, _source: Source) -> &'static str {
        "websocket"
    }

    fn has_room(&self) -> bool {
        self.queued_bytes < CHUNK
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut socket = Pin::new(&mut self.socket);
        while !self.queued.is_empty() {
            ready!(socket.as_mut().poll_ready(cx)).map_err(io::Error::other)?;
            if let Some(text) = self.queued.pop_front() {
                let sent = socket.as_mut().start_send(Message::Text(text));
                sent.map_err(io::Error::other)?;
            }
        }
        self.queued = VecDeque::new();
        self.queued_bytes = 0;
        ready!(socket.poll_flush(cx)).map_err(io::Error::other)?;
        self.unflushed = 0;
        Poll::Ready(Ok(()))
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_flush(cx))?;
        Pin::new(&mut self.socket)
            .poll_close(cx)
            .map_err(io::Error::other)
    }
}

/// A stream of which only so much is read, until there is more to read: the WebSocket library cannot
/// be told later that messages may be longer.
struct Rationed<S> {
    stream: S,
    left: Option<usize>,
    /// Bytes of a message whose end has not come yet.
    unread: usize,
}

impl<S: AsyncRead + Unpin> AsyncRead for Rationed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.left == Some(0) {
            return Poll::Ready(Err(io::ErrorKind::QuotaExceeded.into()));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        let read = buffer.filled().len().saturating_sub(before);
        self.unread = self.unread.saturating_add(read);
        self.left = self.left.map(|left| left.saturating_sub(read));
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Rationed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

fn is_too_long(error: &Error) -> bool {
    if let Error::Io(error) = error {
        return error.kind() == io::ErrorKind::QuotaExceeded;
    }
    matches!(error, Error::Capacity(CapacityError::MessageTooLong { .. }))
}

/// Whether a header's list has a word.
fn has_word(headers: &HeaderMap, name: header::HeaderName, word: &str) -> bool {
    let values = headers.get_all(name).into_iter();
    let texts = values.filter_map(|value| value.to_str().ok());
    texts
        .flat_map(|text| text.split(','))
        .any(|known| known.trim().eq_ignore_ascii_case(word))
}
