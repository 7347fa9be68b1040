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
use http_body_util::Full;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{Builder, Connection, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};
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
    /// Whether somebody comes to close those that nobody takes.
    is_swept: bool,
}

struct Kept {
    line: Line,
    since: Instant,
}

/// A connection and what drives it.
struct Line {
    sender: Sender,
    driver: Pin<Box<Connection<TokioIo<TlsStream<TcpStream>>, Full<Bytes>>>>,
    is_over: bool,
}

type Sender = SendRequest<Full<Bytes>>;

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
        if !std::mem::replace(&mut self.0.lock().is_swept, true) {
            tokio::spawn(sweep(Arc::downgrade(&self.0), self.0.keep));
        }
        Ok(Line {
            sender,
            driver: Box::pin(driver),
            is_over: false,
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
        // Those before one that is too old are older.
        while let Some(kept) = free
            .connections
            .pop_if(|kept| kept.since.elapsed() < self.keep)
        {
            let mut line = kept.line;
            if line.is_ready() {
                return Some(line);
            }
        }
        None
    }

    /// Those that were kept for too long; nothing, if there is nothing and none is in use.
    fn stale(&self) -> Option<Vec<Kept>> {
        let mut free = self.lock();
        if free.connections.is_empty() && self.places.available_permits() == self.connections {
            free.is_swept = false;
            return None;
        }
        let mut connections = free.connections.iter();
        let kept = connections.position(|kept| kept.since.elapsed() < self.keep);
        let stale = kept.unwrap_or(free.connections.len());
        Some(free.connections.drain(..stale).collect())
    }
}

/// Closes connections that nobody takes, as long as there are any.
async fn sweep(shared: Weak<Shared>, keep: Duration) {
    loop {
        tokio::time::sleep(keep).await;
        let stale = shared.upgrade().and_then(|shared| shared.stale());
        let Some(stale) = stale else {
            return;
        };
        for Kept { line, .. } in stale {
            line.close().await;
        }
    }
}

impl Line {
    /// Reads and writes what can be.
    fn drive(&mut self, cx: &mut Context<'_>) {
        // Why it ends is seen by who waits for the answer.
        self.is_over = self.is_over || self.driver.as_mut().poll(cx).is_ready();
    }

    /// Whether a request can be sent at once. What the peer said since the last one is read for that.
    fn is_ready(&mut self) -> bool {
        self.drive(&mut quiet());
        !self.is_over && matches!(self.sender.poll_ready(&mut quiet()), Poll::Ready(Ok(())))
    }

    async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, TrySendError<Request<Full<Bytes>>>> {
        let mut response = pin!(self.sender.try_send_request(request));
        poll_fn(|cx| {
            self.is_over = self.is_over || self.driver.as_mut().poll(cx).is_ready();
            response.as_mut().poll(&mut quiet())
        })
        .await
    }

    /// Says goodbye.
    async fn close(self) {
        drop(self.sender);
        if !self.is_over {
            // A peer that does not take it is left.
            let _ = timeout(GOODBYE, self.driver).await;
        }
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
            line.drive(cx);
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
        let line = self.line.take().filter(|line| is_whole && !line.is_over);
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
