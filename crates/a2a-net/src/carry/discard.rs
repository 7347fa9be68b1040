//! Reads and drops what a peer sends after it was refused.
//!
//! The system resets a connection that is closed with unread bytes in it, and HTTP/2 resets a stream
//! whose request did not end. A peer that writes the whole request before it reads would then lose
//! the response.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use super::limits::Limits;

/// How long a peer may send nothing.
const SILENCE: Duration = Duration::from_secs(1);

/// Bytes that are read at once.
const CHUNK: usize = 16 * 1024;

/// Ends our side of a connection, and reads until the peer ends its own.
pub(crate) async fn close(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), limits: &Limits) {
    let discarded = async {
        if stream.shutdown().await.is_err() {
            return;
        }
        let mut chunk = vec![0; CHUNK];
        let mut left = limits.discard_bytes;
        while left > 0 {
            match timeout(SILENCE, stream.read(&mut chunk)).await {
                Ok(Ok(read)) if read > 0 => left = left.saturating_sub(read),
                _ => return,
            }
        }
    };
    let _ = timeout(limits.discard_time, discarded).await;
}

/// Reads the rest of a request whose response needs no more of it.
pub(super) async fn rest(mut body: Incoming, limits: &Limits) {
    let discarded = async {
        let mut left = limits.discard_bytes;
        while left > 0 {
            match timeout(SILENCE, body.frame()).await {
                Ok(Some(Ok(frame))) => {
                    left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
                }
                _ => return,
            }
        }
    };
    let _ = timeout(limits.discard_time, discarded).await;
}
