//! Reads and drops what a peer sends after it was refused.
//!
//! The system resets a connection that is closed with unread bytes in it, and HTTP/2 resets a stream
//! whose request did not end. A peer that writes the whole request before it reads would then lose
//! the response.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

/// How long a peer may send nothing.
const SILENCE: Duration = Duration::from_secs(1);

/// Bytes that are read at once.
const CHUNK: usize = 16 * 1024;

/// How much is read and dropped of what a peer sends after it was refused.
#[derive(Debug, Clone, Copy)]
pub struct DiscardLimits {
    /// Bytes of a connection that ends, and of all streams of one that goes on.
    pub bytes: usize,
    /// Time for a connection that ends, and for a stream.
    pub time: Duration,
}

/// Discards the rest of requests of one connection, whose streams share the bytes. Clones share them too.
#[derive(Debug, Clone)]
pub struct StreamDiscard {
    left: Arc<AtomicUsize>,
    time: Duration,
}

impl Default for DiscardLimits {
    fn default() -> Self {
        Self {
            bytes: 16 * 1024 * 1024,
            time: Duration::from_secs(10),
        }
    }
}

/// Ends our side of a connection, and reads until the peer ends its own.
pub async fn close(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), limits: DiscardLimits) {
    let discarded = async {
        if stream.shutdown().await.is_err() {
            return;
        }
        let mut chunk = vec![0; CHUNK];
        let mut left = limits.bytes;
        while left > 0 {
            match timeout(SILENCE, stream.read(&mut chunk)).await {
                Ok(Ok(read)) if read > 0 => left = left.saturating_sub(read),
                _ => return,
            }
        }
    };
    let _ = timeout(limits.time, discarded).await;
}

impl StreamDiscard {
    /// That of a new connection.
    #[must_use]
    pub fn new(limits: DiscardLimits) -> Self {
        Self {
            left: Arc::new(AtomicUsize::new(limits.bytes)),
            time: limits.time,
        }
    }

    /// Reads the rest of a request whose response needs no more of it. Says whether the connection has
    /// bytes left for the next one.
    pub async fn rest(&self, mut body: Incoming) -> bool {
        let _ = self.read(&mut body, |_| ()).await;
        self.left.load(Relaxed) > 0
    }

    /// Reads the rest of a request as it comes. Says whether it has come to its end.
    pub async fn read(&self, body: &mut Incoming, mut take: impl FnMut(&Bytes)) -> bool {
        let reading = async {
            while self.left.load(Relaxed) > 0 {
                match timeout(SILENCE, body.frame()).await {
                    Ok(Some(Ok(frame))) => {
                        let Some(data) = frame.data_ref() else {
                            continue;
                        };
                        let less = |left: usize| Some(left.saturating_sub(data.len()));
                        let _ = self.left.fetch_update(Relaxed, Relaxed, less);
                        take(data);
                    }
                    Ok(None) => return true,
                    Ok(Some(Err(_))) | Err(_) => return false,
                }
            }
            false
        };
        timeout(self.time, reading).await.unwrap_or(false)
    }
}
