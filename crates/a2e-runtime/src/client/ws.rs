//! A WebSocket: each line of a text is a message, and each message of ours a text of its own.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use a2e_wire::{LineTooLong, MAX_LINE};
use futures_util::{Sink, Stream as _};
use tokio_tungstenite::tungstenite::error::{CapacityError, UrlError};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use super::link::{Lines, Link, Output, Transport};
use super::net::{Endpoint, Roots, Stream};
use crate::link::lines_of;

struct WsLink {
    socket: WebSocketStream<Box<dyn Stream>>,
}

/// Connects and upgrades.
pub(super) async fn connect_ws(endpoint: &Endpoint, path: &str, roots: &Roots) -> io::Result<Link> {
    let stream = endpoint.connect(roots).await?;
    let config = WebSocketConfig::default()
        .max_message_size(Some(MAX_LINE))
        .max_frame_size(Some(MAX_LINE))
        // Read a few KiB at a time; an idle connection should not hold more.
        .read_buffer_size(8 * 1024);
    let address = format!("ws://{}{path}", endpoint.authority());
    let (socket, _) = client_async_with_config(address, stream, Some(config))
        .await
        .map_err(failed)?;
    Ok(Link(Box::new(WsLink { socket })))
}

/// An error, with what a user can do about it.
fn failed(error: Error) -> io::Error {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "others speak for themselves"
    )]
    match error {
        Error::Io(error) => error,
        Error::Http(response) => {
            let text = format!(
                "the host does not take WebSockets here (HTTP status {}); is the path right?",
                response.status().as_u16()
            );
            io::Error::other(text)
        }
        Error::Capacity(CapacityError::MessageTooLong { size, .. }) => {
            io::Error::other(format!("the host sent a message of {size} bytes"))
        }
        Error::Url(UrlError::UnableToConnect(text)) => io::Error::other(text),
        other => io::Error::other(other),
    }
}

impl Transport for WsLink {
    fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        output: &mut Output,
    ) -> Poll<io::Result<()>> {
        while let Some(line) = output.line() {
            ready!(Pin::new(&mut self.socket).poll_ready(context)).map_err(failed)?;
            let text = String::from_utf8_lossy(line).into_owned();
            Pin::new(&mut self.socket)
                .start_send(Message::Text(text.into()))
                .map_err(failed)?;
            output.advance_line();
        }
        // Also what answers the host's pings.
        Pin::new(&mut self.socket)
            .poll_flush(context)
            .map_err(failed)
    }

    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        lines: &mut dyn Lines,
    ) -> Poll<io::Result<bool>> {
        match ready!(Pin::new(&mut self.socket).poll_next(context)) {
            Some(Ok(Message::Text(text))) => {
                lines_of(text.as_bytes()).for_each(|line| lines.line(Ok(line)));
            }
            Some(Ok(Message::Binary(bytes))) => {
                lines_of(&bytes).for_each(|line| lines.line(Ok(line)));
            }
            Some(Ok(Message::Close(_))) | None => return Poll::Ready(Ok(false)),
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
            Some(Err(Error::Capacity(CapacityError::MessageTooLong { max_size, .. }))) => {
                lines.line(Err(LineTooLong { limit: max_size }));
                return Poll::Ready(Ok(false));
            }
            Some(Err(Error::ConnectionClosed | Error::AlreadyClosed)) => {
                return Poll::Ready(Ok(false));
            }
            Some(Err(error)) => return Poll::Ready(Err(failed(error))),
        }
        Poll::Ready(Ok(true))
    }

    fn poll_close(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket)
            .poll_close(context)
            .map_err(failed)
    }
}
