//! HTTP/2: one connection for all requests, gRPC's too.

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::sync::Mutex;

use super::dial::Dialer;
use super::http::HEADER_BYTES;
use super::http1::broken;
use crate::transport::CarryError;

/// The connection, if there is one. Who finds none makes it, and the others wait.
#[derive(Default)]
pub(super) struct Shared(Mutex<Option<SendRequest<Full<Bytes>>>>);

/// Bytes of answers that may come before they are read: several small messages. A large answer gets more as it is read.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;

impl Shared {
    pub(super) async fn send(
        &self,
        dialer: &Dialer,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, CarryError> {
        loop {
            let (mut connection, is_fresh) = self.connection(dialer).await?;
            let mut failure = match connection.try_send_request(request).await {
                Ok(response) => return Ok(response),
                Err(failure) => failure,
            };
            // The server may have closed it meanwhile; then the request comes back unsent.
            request = match failure.take_message() {
                Some(unsent) if !is_fresh => unsent,
                Some(_) => return Err(dialer.failed(failure.error())),
                None => return Err(broken(failure.error())),
            };
            self.forget_closed().await;
        }
    }

    async fn connection(
        &self,
        dialer: &Dialer,
    ) -> Result<(SendRequest<Full<Bytes>>, bool), CarryError> {
        let mut shared = self.0.lock().await;
        if let Some(connection) = shared.as_ref().filter(|shared| !shared.is_closed()) {
            return Ok((connection.clone(), false));
        }
        let stream = dialer.http2().await?;
        let shaken = Builder::new(TokioExecutor::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(HEADER_BYTES)
            .handshake(TokioIo::new(stream))
            .await;
        let (sender, connection) = shaken.map_err(|error| dialer.failed(&error))?;
        // Whoever waits for an answer sees it fail; it ends when nobody can send over it.
        tokio::spawn(connection);
        *shared = Some(sender.clone());
        Ok((sender, true))
    }

    /// A connection that took no request is of no use, even if it does not know yet that it is closed.
    async fn forget_closed(&self) {
        self.0.lock().await.take();
    }
}
