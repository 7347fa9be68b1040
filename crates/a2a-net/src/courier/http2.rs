//! HTTP/2: one connection for all requests, gRPC's too.
//!
//! Requests go to `h2` itself: a message is there as a whole, so its head and its body leave together,
//! in one write, and the server is woken once. `hyper` would have a task for each request, and send the
//! body when it is asked for.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use h2::{Ping, PingPong, Reason, RecvStream};
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{self, HeaderValue};
use hyper::{HeaderMap, Request, Response};
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::dial::Dialer;
use super::http::HEADER_BYTES;
use crate::transport::CarryError;

/// The connection, if there is one. Who finds none makes it, and the others wait.
#[derive(Default)]
pub(super) struct Shared(Arc<Mutex<Option<Live>>>);

/// A connection that takes requests, as far as is known.
#[derive(Clone)]
struct Live {
    requests: SendRequest<Bytes>,
    pings: Arc<Mutex<PingPong>>,
}

/// A request that has no answer. If nobody waits for it any more, the peer is asked whether it is there
/// at all: a connection that was cut without a word would take the next ones too, and give none back.
struct Unanswered {
    shared: Arc<Mutex<Option<Live>>>,
    pings: Option<Arc<Mutex<PingPong>>>,
    patience: Duration,
}

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

/// Requests at once before the server has said how many it takes; no server should take fewer (RFC 9113,
/// 6.5.2).
const FIRST_STREAMS: usize = 100;

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
            let waiting = self.unanswered(&connection, dialer);
            let sent = match connection.requests.ready().await {
                Ok(mut connection) => connection.send_request(request, false),
                Err(error) => Err(error),
            };
            let (response, mut body) = match sent {
                Ok(sent) => sent,
                Err(error) if is_fresh => return Err(dialer.failed(&error)),
                // The server has closed it meanwhile, and nothing was sent.
                Err(_) => {
                    forget(&self.0, &connection.pings).await;
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
            waiting.answered();
            let left = declared(response.headers());
            return Ok(response.map(|stream| Arriving {
                stream,
                left,
                is_read: false,
            }));
        }
    }

    async fn connection(&self, dialer: &Dialer) -> Result<(Live, bool), CarryError> {
        let mut shared = self.0.lock().await;
        if let Some(connection) = shared.as_ref() {
            return Ok((connection.clone(), false));
        }
        // It happens seldom, and whoever sends would move all that it needs about.
        let live = Box::pin(connect(dialer)).await?;
        *shared = Some(live.clone());
        Ok((live, true))
    }

    fn unanswered(&self, over: &Live, dialer: &Dialer) -> Unanswered {
        Unanswered {
            shared: Arc::clone(&self.0),
            pings: Some(Arc::clone(&over.pings)),
            patience: dialer.reach().connect,
        }
    }
}

/// A new connection.
async fn connect(dialer: &Dialer) -> Result<Live, CarryError> {
    let stream = dialer.http2().await?;
    let shaken = Builder::new()
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(HEADER_BYTES)
        .initial_max_send_streams(FIRST_STREAMS)
        .enable_push(false)
        .handshake(stream)
        .await;
    let (requests, mut connection) = shaken.map_err(|error| dialer.failed(&error))?;
    let Some(pings) = connection.ping_pong() else {
        return Err(CarryError::Broken);
    };
    // Whoever waits for an answer sees it fail; it ends when nobody can send over it.
    tokio::spawn(connection);
    Ok(Live {
        requests,
        pings: Arc::new(Mutex::new(pings)),
    })
}

/// A connection that takes no request or gives no answer is of no use.
async fn forget(shared: &Mutex<Option<Live>>, dead: &Arc<Mutex<PingPong>>) {
    let mut shared = shared.lock().await;
    shared.take_if(|live| Arc::ptr_eq(&live.pings, dead));
}

impl Unanswered {
    fn answered(mut self) {
        self.pings = None;
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        let (Some(pings), Ok(runtime)) = (self.pings.take(), Handle::try_current()) else {
            return;
        };
        let (shared, patience) = (Arc::clone(&self.shared), self.patience);
        runtime.spawn(async move {
            // One at a time; who comes meanwhile knows by the first.
            let Ok(mut asked) = pings.try_lock() else {
                return;
            };
            let answer = timeout(patience, asked.ping(Ping::opaque())).await;
            if !matches!(answer, Ok(Ok(_))) {
                forget(&shared, &pings).await;
            }
        });
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
