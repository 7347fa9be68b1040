//! Connections that say when they end.

use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio_util::sync::{CancellationToken, DropGuard};

/// A connection that says when it ends.
pub(super) struct Watched<T> {
    inner: T,
    ended: Option<DropGuard>,
}

impl<T> Watched<T> {
    /// The same connection, and what ends with it.
    pub(super) fn new(inner: T) -> (Self, CancellationToken) {
        let ended = CancellationToken::new();
        let watched = Self {
            inner,
            ended: Some(ended.clone().drop_guard()),
        };
        (watched, ended)
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Watched<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let received = self.inner.receive().await;
        if received.is_none() {
            self.ended = None;
        }
        received
    }

    async fn close(&mut self) -> Result<(), T::Error> {
        self.ended = None;
        self.inner.close().await
    }
}
