//! HTTP/1.1: a connection for each request in flight, kept for the next one.
//!
//! No task drives a connection: whoever waits for an answer does, since nobody else uses it meanwhile. One that
//! is kept is looked at when it is taken, and closed when it was kept for too long.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http_body_util::Full;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{Builder, Connection, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinHandle, unconstrained};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::client::TlsStream;

use super::Reach;
use super::dial::Dialer;
use super::http::{HEADER_BYTES, reply};
use crate::transport::{CarryError, Reply};

/// The connections to one peer.
pub(super) struct Pool(Arc<Shared>);

struct Shared {
    free: Mutex<Free>,
    places: Arc<Semaphore>,
    /// How many places there are.
    connections: usize,
    keep: Duration,
}

#[derive(Default)]
struct Free {
    /// The last used last.
    connections: Vec<Kept>,
    /// What closes those that nobody takes.
    sweeper: Option<JoinHandle<()>>,
}

struct Kept {
    line: Line,
    since: Instant,
}

/// A connection and what drives it.
struct Line {
    sender: SendRequest<Full<Bytes>>,
    /// Until it is over: a request that it has not taken comes back when it is dropped.
    driver: Option<Pin<Box<Driver>>>,
}

type Driver = Connection<TokioIo<TlsStream<TcpStream>>, Full<Bytes>>;

/// A response that comes over a connection.
struct Answering {
    body: Incoming,
    is_whole: bool,
    /// Until it is given back.
    line: Option<Line>,
    shared: Arc<Shared>,
    _place: OwnedSemaphorePermit,
}

/// Time to say goodbye.
const GOODBYE: Duration = Duration::from_secs(1);

impl Pool {
    pub(super) fn new(reach: &Reach) -> Self {
        Self(Arc::new(Shared {
            free: Mutex::default(),
            places: Arc::new(Semaphore::new(reach.connections)),
            connections: reach.connections,
            keep: reach.keep,
        }))
    }

    pub(super) async fn send(
        &self,
        dialer: &Dialer,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Reply, CarryError> {
        let places = Arc::clone(&self.0.places);
        let place = places.acquire_owned().await;
        let place = place.map_err(|_| CarryError::Broken)?;
        loop {
            let (mut line, is_fresh) = match self.0.take() {
                Some(line) => (line, false),
                None => (Box::pin(self.connect(dialer)).await?, true),
            };
            let mut failure = match line.send(request).await {
                Ok(response) => {
                    let response = response.map(|body| Answering {
                        body,
                        is_whole: false,
                        line: Some(line),
                        shared: Arc::clone(&self.0),
                        _place: place,
                    });
                    return reply(response, dialer.answer_bytes()).await;
                }
                Err(failure) => failure,
            };
            // The server may have closed a connection that was kept; then the request comes back
            // unsent, which is no reason to fail.
            request = match failure.take_message() {
                Some(unsent) if !is_fresh => unsent,
                Some(_) => return Err(dialer.failed(failure.error())),
                None => return Err(broken(failure.error())),
            };
        }
    }

    async fn connect(&self, dialer: &Dialer) -> Result<Line, CarryError> {
        let stream = dialer.http1().await?;
        let bytes = usize::try_from(HEADER_BYTES).unwrap_or(usize::MAX);
        let shaken = Builder::new()
            .max_header_size(bytes)
            .handshake(TokioIo::new(stream))
            .await;
        let (sender, driver) = shaken.map_err(|error| dialer.failed(&error))?;
        let mut free = self.0.lock();
        // The last one may have ended with its runtime.
        if free.sweeper.as_ref().is_none_or(JoinHandle::is_finished) {
            free.sweeper = Some(tokio::spawn(sweep(Arc::downgrade(&self.0), self.0.keep)));
        }
        Ok(Line {
            sender,
            driver: Some(Box::pin(driver)),
        })
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection that was kept, and that the peer has not closed.
    fn take(&self) -> Option<Line> {
        let mut free = self.lock();
        let stale = free.stale(self.keep);
        if !stale.is_empty() {
            tokio::spawn(close(stale));
        }
        while let Some(Kept { mut line, .. }) = free.connections.pop() {
            if line.is_ready() {
                return Some(line);
            }
        }
        None
    }

    /// Those that were kept for too long, and when to look again; nothing, if there is nothing and none is in use.
    fn sweep(&self) -> Option<(Vec<Kept>, Instant)> {
        let mut free = self.lock();
        if free.connections.is_empty() && self.places.available_permits() == self.connections {
            free.sweeper = None;
            return None;
        }
        let stale = free.stale(self.keep);
        let oldest = free.connections.first();
        let oldest = oldest.map_or_else(Instant::now, |kept| kept.since);
        Some((stale, oldest + self.keep))
    }
}

impl Free {
    fn stale(&mut self, keep: Duration) -> Vec<Kept> {
        let mut connections = self.connections.iter();
        let kept = connections.position(|kept| kept.since.elapsed() < keep);
        let stale = kept.unwrap_or(self.connections.len());
        self.connections.drain(..stale).collect()
    }
}

/// Closes connections that nobody takes, as long as there are any.
async fn sweep(shared: Weak<Shared>, keep: Duration) {
    let mut next = Instant::now() + keep;
    loop {
        sleep_until(next).await;
        let swept = shared.upgrade().and_then(|shared| shared.sweep());
        let Some((stale, again)) = swept else {
            return;
        };
        close(stale).await;
        next = again;
    }
}

/// Says goodbye over all of them.
async fn close(stale: Vec<Kept>) {
    let goodbyes = stale.into_iter().map(|Kept { line, .. }| async {
        drop(line.sender);
        if let Some(driver) = line.driver {
            // A peer that does not take it is left.
            let _ = timeout(GOODBYE, driver).await;
        }
    });
    join_all(goodbyes).await;
}

impl Line {
    /// Whether a request can be sent at once. What the peer said since the last one is read for that.
    fn is_ready(&mut self) -> bool {
        drive(&mut self.driver, &mut quiet());
        self.driver.is_some() && matches!(self.sender.poll_ready(&mut quiet()), Poll::Ready(Ok(())))
    }

    async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, TrySendError<Request<Full<Bytes>>>> {
        // Without a budget, as nobody is woken for it when there is one again.
        let mut response = pin!(unconstrained(self.sender.try_send_request(request)));
        poll_fn(|cx| {
            drive(&mut self.driver, cx);
            response.as_mut().poll(&mut quiet())
        })
        .await
    }
}

/// Reads and writes what can be.
fn drive(driver: &mut Option<Pin<Box<Driver>>>, cx: &mut Context<'_>) {
    // Why it ends is seen by who waits for the answer.
    if let Some(running) = driver
        && running.as_mut().poll(cx).is_ready()
    {
        *driver = None;
    }
}

/// For what changes by the driver alone: nobody needs to be woken for it who has just driven.
fn quiet() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

impl Body for Answering {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = self.get_mut();
        if let Some(line) = &mut this.line {
            drive(&mut line.driver, cx);
        }
        let frame = Pin::new(&mut this.body).poll_frame(&mut quiet());
        this.is_whole = this.is_whole || matches!(frame, Poll::Ready(None));
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.is_whole || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Whoever has read all of it leaves the connection for others.
impl Drop for Answering {
    fn drop(&mut self) {
        let is_whole = self.is_end_stream();
        let line = self
            .line
            .take()
            .filter(|line| is_whole && line.driver.is_some());
        if let Some(line) = line {
            let since = Instant::now();
            self.shared.lock().connections.push(Kept { line, since });
        }
    }
}

/// What a failure after the request may have left means.
fn broken(error: &hyper::Error) -> CarryError {
    match error.is_parse() || error.is_parse_too_large() {
        true => CarryError::Foreign("it is not HTTP".into()),
        false => CarryError::Broken,
    }
}
