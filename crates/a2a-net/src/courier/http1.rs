//! HTTP/1.1: a connection for each request in flight, kept for the next one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::Reach;
use super::dial::Dialer;
use super::http::{Finished, HEADER_BYTES, reply};
use crate::transport::{CarryError, Reply};

/// The connections that are free, the last used last, and places for more.
pub(super) struct Pool {
    free: Arc<Mutex<Vec<Free>>>,
    places: Arc<Semaphore>,
    keep: Duration,
}

struct Free {
    connection: SendRequest<Full<Bytes>>,
    since: Instant,
}

/// A connection in use.
struct Used {
    connection: SendRequest<Full<Bytes>>,
    free: Arc<Mutex<Vec<Free>>>,
    _place: OwnedSemaphorePermit,
}

impl Pool {
    pub(super) fn new(reach: &Reach) -> Self {
        Self {
            free: Arc::default(),
            places: Arc::new(Semaphore::new(reach.connections)),
            keep: reach.keep,
        }
    }

    pub(super) async fn send(
        &self,
        dialer: &Dialer,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Reply, CarryError> {
        let places = Arc::clone(&self.places);
        let place = places.acquire_owned().await;
        let place = place.map_err(|_| CarryError::Broken)?;
        loop {
            let (mut connection, is_fresh) = match self.take() {
                Some(connection) => (connection, false),
                None => (Box::pin(connect(dialer)).await?, true),
            };
            if connection.ready().await.is_err() && !is_fresh {
                continue;
            }
            let mut failure = match connection.try_send_request(request).await {
                Ok(response) => {
                    let used = Used {
                        connection,
                        free: Arc::clone(&self.free),
                        _place: place,
                    };
                    return reply(response, used, dialer.answer_bytes()).await;
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

    fn take(&self) -> Option<SendRequest<Full<Bytes>>> {
        let mut free = lock(&self.free);
        let kept = free
            .iter()
            .position(|free| free.since.elapsed() < self.keep);
        let stale = kept.unwrap_or(free.len());
        free.drain(..stale);
        while let Some(last) = free.pop() {
            if !last.connection.is_closed() {
                return Some(last.connection);
            }
        }
        None
    }
}

impl Finished for Used {
    fn finished(self) {
        if !self.connection.is_closed() {
            lock(&self.free).push(Free {
                connection: self.connection,
                since: Instant::now(),
            });
        }
    }
}

fn lock(free: &Mutex<Vec<Free>>) -> MutexGuard<'_, Vec<Free>> {
    free.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn connect(dialer: &Dialer) -> Result<SendRequest<Full<Bytes>>, CarryError> {
    let stream = dialer.http1().await?;
    let bytes = usize::try_from(HEADER_BYTES).unwrap_or(usize::MAX);
    let shaken = Builder::new()
        .max_header_size(bytes)
        .handshake(TokioIo::new(stream))
        .await;
    let (sender, connection) = shaken.map_err(|error| dialer.failed(&error))?;
    // Whoever waits for an answer sees it fail; it ends when nobody can send over it.
    tokio::spawn(connection);
    Ok(sender)
}

/// What a failure after the request may have left means.
fn broken(error: &hyper::Error) -> CarryError {
    match error.is_parse() || error.is_parse_too_large() {
        true => CarryError::Foreign("it is not HTTP".into()),
        false => CarryError::Broken,
    }
}
