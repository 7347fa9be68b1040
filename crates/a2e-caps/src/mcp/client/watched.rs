//! Connections that say when they end, how far calls are, and what is logged while they run.

use std::borrow::Cow;
use std::sync::{Arc, Weak};

use a2e_wire::Object;
use a2e_wire::messages::mcp::McpNotification;
use rmcp::RoleClient;
use rmcp::model::{JsonRpcMessage, JsonRpcNotification, ServerNotification};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::server::Server;

/// A connection that says when it ends, and passes on what belongs to calls: here messages come in their
/// order, before the answers of the calls, while rmcp has a task for each notification.
pub(super) struct Watched<T> {
    inner: T,
    server: Weak<Server>,
    ended: Option<DropGuard>,
}

impl<T> Watched<T> {
    /// The same connection, and what ends with it.
    pub(super) fn new(inner: T, server: &Arc<Server>) -> (Self, CancellationToken) {
        let ended = CancellationToken::new();
        let watched = Self {
            inner,
            server: Arc::downgrade(server),
            ended: Some(ended.clone().drop_guard()),
        };
        (watched, ended)
    }
}

/// How much of the name of an unknown notification is passed on.
const MAX_METHOD: usize = 128;

impl<T> Watched<T> {
    /// Passes on what may have in it what a call has brought.
    fn tell(&self, method: McpNotification<'static>, params: &Value) {
        if let Some(server) = self.server.upgrade() {
            let params = Object::from_serialize(params).unwrap_or_default();
            server.tell_caller(method, params);
        }
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
                    ServerNotification::ProgressNotification(said) => {
                        if let Some(server) = self.server.upgrade() {
                            server.calls.hear(said.params);
                        }
                    }
                    ServerNotification::LoggingMessageNotification(said) => {
                        self.tell(McpNotification::Message, &json!(said.params));
                    }
                    ServerNotification::CustomNotification(said) => {
                        let method: String = said.method.chars().take(MAX_METHOD).collect();
                        let params = said.params.unwrap_or_else(|| json!({}));
                        self.tell(method.into(), &params);
                    }
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
