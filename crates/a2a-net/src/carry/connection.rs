//! Driving one connection until it ends, is told to, or has taken too long.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::Poll;
use std::time::Duration;

use a2a_session::Source;
use base::Budget;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use net::StreamDiscard;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::http::Exchange;
use super::limits::Limits;
use super::message_budget::MessageBudget;
use super::watch::{Pace, Watched};
use super::ws;
use crate::transport::{Carrier, Service};

/// Bytes of requests that a connection and each of its streams may send before we have read them: several small messages. A large
/// body gets more as it is read.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;

/// Streams that a peer begins and takes back before we have seen them. More is a flood (CVE-2023-44487).
const RESET_STREAMS: usize = 20;

/// Streams that we had to end because of what the peer did. More is a flood too (CVE-2025-8671).
const FAULTY_STREAMS: usize = 100;

/// Time to say goodbye to a connection that has taken too long.
const GOODBYE: Duration = Duration::from_secs(1);

/// What a connection needs to be served.
pub(crate) struct Visit<S> {
    pub(crate) service: Arc<S>,
    pub(crate) limits: Arc<Limits>,
    /// What all connections share for the bytes of messages.
    pub(crate) budget: Budget<Source>,
    pub(crate) source: SocketAddr,
    pub(crate) stop: CancellationToken,
}

impl<S> Visit<S> {
    /// Counts the bytes of the messages of this connection.
    pub(super) fn message_budget(&self) -> MessageBudget {
        MessageBudget::new(&self.limits, &self.budget, self.source.ip())
    }
}

/// Serves a connection that speaks HTTP/1.1 (and perhaps WebSocket then) or HTTP/2, until it ends.
pub(crate) async fn serve<S: Service>(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    carrier: Carrier,
    visit: Visit<S>,
) {
    let ended = match carrier {
        Carrier::Http2 | Carrier::Grpc => serve_http2(stream, &visit).await,
        Carrier::Http1 | Carrier::WebSocket => serve_http1(stream, visit).await,
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "an A2A connection broke");
    }
}

async fn serve_http1<S, T>(stream: T, visit: Visit<S>) -> Result<(), hyper::Error>
where
    S: Service,
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let pace = Pace::new(&visit.limits);
    let stream = Watched::http1(stream, &pace);
    let stop = visit.stop.child_token();
    let exchange = exchange(&visit, Carrier::Http1, (&pace, &stop));
    let service = service_fn(|request: Request<Incoming>| {
        let exchange = &exchange;
        let busy = exchange.pace.busy();
        async move { Ok::<_, Infallible>(exchange.answer(request, busy).await) }
    });
    let bytes = usize::try_from(visit.limits.header_bytes).unwrap_or(usize::MAX);
    let mut connection = http1::Builder::new()
        // Watched instead: the library has no timer then, and none to make for each request.
        .header_read_timeout(None)
        .max_header_size(bytes)
        .serve_connection(TokioIo::new(stream), service);
    let ended = drive(Pin::new(&mut connection), &pace, &stop).await;
    let parts = connection.into_parts();
    let mut stream = parts.io.into_inner();
    if exchange.is_websocket.load(Relaxed) && matches!(ended, Ok(Ended::InTime)) {
        stream.release();
        ws::serve(stream, &parts.read_buf, visit).await;
        return Ok(());
    }
    close(&mut stream, ended, &visit.limits).await
}

async fn serve_http2<S: Service>(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    visit: &Visit<S>,
) -> Result<(), hyper::Error> {
    let pace = Pace::new(&visit.limits);
    let mut stream = Watched::http2(stream, &pace);
    let stop = visit.stop.child_token();
    let exchange = Arc::new(exchange(visit, Carrier::Http2, (&pace, &stop)));
    let service = service_fn(move |request: Request<Incoming>| {
        let exchange = Arc::clone(&exchange);
        // From now on, not from when its task begins: what is answered meanwhile waits for it.
        let busy = exchange.pace.busy();
        // In a box, since the library moves it from hand to hand.
        Box::pin(async move { Ok::<_, Infallible>(exchange.answer(request, busy).await) })
    });
    let connection = http2::Builder::new(TokioExecutor::new())
        .max_concurrent_streams(visit.limits.streams)
        .max_header_list_size(visit.limits.header_bytes)
        .max_pending_accept_reset_streams(RESET_STREAMS)
        .max_local_error_reset_streams(FAULTY_STREAMS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .serve_connection(TokioIo::new(&mut stream), service);
    let ended = drive(pin!(connection), &pace, &stop).await;
    close(&mut stream, ended, &visit.limits).await
}

/// Closes a connection so that the peer reads what it was sent last, unless it took too long already.
async fn close(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    ended: Result<Ended, hyper::Error>,
    limits: &Limits,
) -> Result<(), hyper::Error> {
    if !matches!(ended, Ok(Ended::Late)) {
        net::close(stream, limits.discard).await;
    }
    ended.map(|_| ())
}

fn exchange<S>(
    visit: &Visit<S>,
    carrier: Carrier,
    (pace, last_request): (&Arc<Pace>, &CancellationToken),
) -> Exchange<S> {
    Exchange {
        service: Arc::clone(&visit.service),
        limits: Arc::clone(&visit.limits),
        budget: visit.message_budget(),
        source: visit.source,
        carrier,
        pace: Arc::clone(pace),
        discard: StreamDiscard::new(visit.limits.discard),
        last_request: last_request.clone(),
        is_websocket: AtomicBool::new(false),
    }
}

/// What both kinds of connections can be told.
trait WindDown: Future<Output = Result<(), hyper::Error>> {
    /// Finishes what has begun and takes nothing more.
    fn wind_down(self: Pin<&mut Self>);
}

impl<I, S, B> WindDown for http1::Connection<I, S>
where
    S: hyper::service::HttpService<Incoming, ResBody = B>,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    I: hyper::rt::Read + hyper::rt::Write + Unpin,
    B: hyper::body::Body + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    fn wind_down(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

impl<I, S, B, E> WindDown for http2::Connection<I, S, E>
where
    S: hyper::service::HttpService<Incoming, ResBody = B>,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    I: hyper::rt::Read + hyper::rt::Write + Unpin,
    B: hyper::body::Body + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    E: hyper::rt::bounds::Http2ServerConnExec<S::Future, B>,
{
    fn wind_down(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

/// How a connection ended that did not break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    InTime,
    /// It took too long.
    Late,
}

async fn drive(
    mut connection: Pin<&mut impl WindDown>,
    pace: &Pace,
    stop: &CancellationToken,
) -> Result<Ended, hyper::Error> {
    let mut stopped = pin!(stop.cancelled());
    let mut timer = pin!(sleep_until(first_look(pace)));
    let (mut is_stopping, mut is_late) = (false, false);
    poll_fn(|cx| {
        if !is_stopping && stopped.as_mut().poll(cx).is_ready() {
            is_stopping = true;
            connection.as_mut().wind_down();
        }
        if let Poll::Ready(ended) = connection.as_mut().poll(cx) {
            let how = match is_late {
                true => Ended::Late,
                false => Ended::InTime,
            };
            return Poll::Ready(ended.map(|()| how));
        }
        if let Some(deadline) = pace.deadline()
            && deadline < timer.deadline()
            && !is_late
        {
            timer.as_mut().reset(deadline);
        }
        while timer.as_mut().poll(cx).is_ready() {
            let now = Instant::now();
            match pace.deadline() {
                Some(deadline) if deadline <= now => {
                    if is_late {
                        return Poll::Ready(Ok(Ended::Late));
                    }
                    is_late = true;
                    timer.as_mut().reset(now + GOODBYE);
                    connection.as_mut().wind_down();
                    if let Poll::Ready(ended) = connection.as_mut().poll(cx) {
                        return Poll::Ready(ended.map(|()| Ended::Late));
                    }
                }
                later => {
                    is_late = false;
                    let later = later.unwrap_or_else(|| pace.idle_from(now));
                    timer.as_mut().reset(later);
                }
            }
        }
        Poll::Pending
    })
    .await
}

fn first_look(pace: &Pace) -> Instant {
    pace.deadline().unwrap_or_else(Instant::now)
}
