//! HTTP/2: one connection for all requests, gRPC's too.
//!
//! Requests go to `h2` itself: a message is there as a whole, so its head and its body leave together,
//! in one write, and the server is woken once. `hyper` would have a task for each request, and send the
//! body when it is asked for.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use h2::{Reason, RecvStream};
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{self, HeaderValue};
use hyper::{HeaderMap, Request, Response};
use tokio::sync::Mutex;

use super::dial::Dialer;
use super::http::HEADER_BYTES;
use crate::transport::CarryError;

/// The connection, if there is one. Who finds none makes it, and the others wait.
#[derive(Default)]
pub(super) struct Shared(Mutex<Option<SendRequest<Bytes>>>);

/// The body of a response.
pub(super) struct Arriving {
    stream: RecvStream,
    /// How much is still to come, if the server has said so.
    left: Option<u64>,
    /// There are only trailers now.
    is_read: bool,
}

/// Bytes of answers that may come before they are read: several small messages. A large answer gets more as it is read.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;

impl Shared {
    /// Sends a message; `head` makes the request for it.
    pub(super) async fn send(
        &self,
        dialer: &Dialer,
        head: impl Fn() -> Result<Request<()>, CarryError>,
        message: Bytes,
    ) -> Result<Response<Arriving>, CarryError> {
        loop {
            let mut request = head()?;
            let length = HeaderValue::from(message.len());
            request.headers_mut().insert(header::CONTENT_LENGTH, length);
            let (connection, is_fresh) = self.connection(dialer).await?;
            let sent = match connection.ready().await {
                Ok(mut connection) => connection.send_request(request, false),
                Err(error) => Err(error),
            };
            let (response, mut body) = match sent {
                Ok(sent) => sent,
                Err(error) if is_fresh => return Err(dialer.failed(&error)),
                // The server has closed it meanwhile, and nothing was sent.
                Err(_) => {
                    self.forget_closed().await;
                    continue;
                }
            };
            // What the server has no room for yet waits.
            body.send_data(message, true)
                .map_err(|_| CarryError::Broken)?;
            let response = match response.await {
                Ok(response) => response,
                // It was not looked at.
                Err(error) if error.reason() == Some(Reason::REFUSED_STREAM) => {
                    return Err(dialer.failed(&error));
                }
                Err(_) => return Err(CarryError::Broken),
            };
            let left = declared(response.headers());
            return Ok(response.map(|stream| Arriving {
                stream,
                left,
                is_read: false,
            }));
        }
    }

    async fn connection(&self, dialer: &Dialer) -> Result<(SendRequest<Bytes>, bool), CarryError> {
        let mut shared = self.0.lock().await;
        if let Some(connection) = shared.as_ref() {
            return Ok((connection.clone(), false));
        }
        let stream = dialer.http2().await?;
        let shaken = Builder::new()
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(HEADER_BYTES)
            .enable_push(false)
            .handshake(stream)
            .await;
        let (requests, connection) = shaken.map_err(|error| dialer.failed(&error))?;
        // Whoever waits for an answer sees it fail; it ends when nobody can send over it.
        tokio::spawn(connection);
        *shared = Some(requests.clone());
        Ok((requests, true))
    }

    /// A connection that took no request is of no use, even if it does not know yet that it is closed.
    async fn forget_closed(&self) {
        self.0.lock().await.take();
    }
}

impl Body for Arriving {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        if !self.is_read {
            match ready!(self.stream.poll_data(context)) {
                Some(Ok(data)) => {
                    // What was read makes room for more.
                    self.stream.flow_control().release_capacity(data.len())?;
                    let read = u64::try_from(data.len()).unwrap_or(u64::MAX);
                    self.left = self.left.map(|left| left.saturating_sub(read));
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                Some(Err(error)) => return Poll::Ready(failed(error)),
                None => self.is_read = true,
            }
        }
        Poll::Ready(match ready!(self.stream.poll_trailers(context)) {
            Ok(trailers) => trailers.map(|trailers| Ok(Frame::trailers(trailers))),
            Err(error) => failed(error),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.stream.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.left
            .map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

/// A server that needs no more of a request may say so and still have answered.
fn failed(error: h2::Error) -> Option<Result<Frame<Bytes>, h2::Error>> {
    (error.reason() != Some(Reason::NO_ERROR)).then_some(Err(error))
}

fn declared(headers: &HeaderMap) -> Option<u64> {
    let length = headers.get(header::CONTENT_LENGTH)?;
    length.to_str().ok()?.parse().ok()
}
