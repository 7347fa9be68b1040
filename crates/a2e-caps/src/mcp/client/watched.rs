//! Connections that say when they end, and how far calls are.

use std::borrow::Cow;
use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::model::{JsonRpcMessage, JsonRpcNotification, ServerNotification};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::calls::Calls;

/// A connection that says when it ends, and tells calls of their progress: here messages come in their
/// order, while rmcp has a task for each notification, however many there are.
pub(super) struct Watched<T> {
    inner: T,
    calls: Arc<Calls>,
    ended: Option<DropGuard>,
}

impl<T> Watched<T> {
    /// The same connection, and what ends with it.
    pub(super) fn new(inner: T, calls: Arc<Calls>) -> (Self, CancellationToken) {
        let ended = CancellationToken::new();
        let watched = Self {
            inner,
            calls,
            ended: Some(ended.clone().drop_guard()),
        };
        (watched, ended)
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Watched<T> {
    type Error = T::Error;

    /// What stands in its errors.
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("its connection")
    }

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            match self.inner.receive().await {
                Some(JsonRpcMessage::Notification(told)) => match told.notification {
                    ServerNotification::ProgressNotification(said) => self.calls.hear(said.params),
                    notification => {
                        let told = JsonRpcNotification {
                            notification,
                            ..told
                        };
                        return Some(JsonRpcMessage::Notification(told));
                    }
                },
                None => {
                    self.ended = None;
                    return None;
                }
                received => return received,
            }
        }
    }

    async fn close(&mut self) -> Result<(), T::Error> {
        self.ended = None;
        self.inner.close().await
    }
}
