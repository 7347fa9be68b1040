//! What servers tell, on its way to agents.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use a2e_runtime::Session;
use a2e_wire::Object;
use a2e_wire::messages::mcp::{McpNotification, McpServerPush};

use super::server::Server;

/// The sessions that have asked for something of MCP, by their keys.
#[derive(Debug, Default)]
pub(super) struct Listeners(Mutex<HashMap<String, Weak<Session>>>);

/// How long an agent that is behind may keep others waiting.
const PATIENCE: Duration = Duration::from_secs(1);

/// Larger notifications are not passed on.
const MAX_PUSH: usize = 256 * 1024;

impl Listeners {
    pub(super) fn add(&self, session: &Arc<Session>) {
        let mut all = self.lock();
        if !all.contains_key(session.key()) {
            all.insert(session.key().to_owned(), Arc::downgrade(session));
        }
    }

    pub(super) fn remove(&self, session: &Session) {
        self.lock().remove(session.key());
    }

    /// Those who may hear of a server.
    fn of(&self, server: &Server) -> Vec<Arc<Session>> {
        let all = self.lock();
        let all = all.values().filter_map(Weak::upgrade);
        all.filter(|session| server.is_for(&session.identity().agent))
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Weak<Session>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Server {
    /// Some agent's session that uses this server.
    pub(super) fn listener(&self) -> Option<Arc<Session>> {
        self.ground.listeners.of(self).into_iter().next()
    }

    /// Tells agents of a notification, and looks again at what has changed. A server that tells more
    /// than can be passed on is not heard in between.
    pub(super) fn tell(
        self: &Arc<Self>,
        method: McpNotification<'static>,
        params: Object<'static>,
    ) {
        if params.raw().as_str().len() > MAX_PUSH {
            return tracing::warn!(server = self.name(), "a notification is too large");
        }
        let Ok(place) = Arc::clone(&self.telling).try_acquire_owned() else {
            return tracing::debug!(server = self.name(), "a notification is passed over");
        };
        let server = Arc::clone(self);
        tokio::spawn(async move {
            server.look_again(&method).await;
            let push = McpServerPush {
                server_id: server.name().to_owned().into(),
                method,
                params,
            };
            for session in server.ground.listeners.of(&server) {
                let _ = tokio::time::timeout(PATIENCE, session.push(push.clone())).await;
            }
            drop(place);
        });
    }

    async fn look_again(self: &Arc<Self>, method: &McpNotification<'_>) {
        let is_list = matches!(
            method,
            McpNotification::ToolsListChanged
                | McpNotification::ResourcesListChanged
                | McpNotification::PromptsListChanged
        );
        let Some(connection) = self.current().await.filter(|_| is_list) else {
            return;
        };
        match method {
            McpNotification::ToolsListChanged => self.refresh_tools(&connection).await,
            McpNotification::ResourcesListChanged => self.refresh_resources(&connection).await,
            _ => self.refresh_prompts(&connection).await,
        }
    }
}
