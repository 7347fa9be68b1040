//! What servers tell, on its way to agents.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use a2e_runtime::Session;
use a2e_wire::Object;
use a2e_wire::messages::mcp::{McpNotification, McpServerPush};
use tokio::sync::watch;

use super::Ground;
use super::server::Server;
use crate::tool::Snapshot;

/// The sessions that have asked for something of MCP, by their keys.
#[derive(Debug, Default)]
pub(super) struct Listeners(Mutex<HashMap<String, Listener>>);

#[derive(Debug)]
struct Listener {
    session: Weak<Session>,
    /// The tools that it was last told of.
    tools: u64,
}

/// What of this host's own has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Changed {
    Tools,
    Prompts,
}

/// How long an agent that is behind may keep others waiting.
const PATIENCE: Duration = Duration::from_secs(1);

/// Larger notifications are not passed on.
const MAX_PUSH: usize = 256 * 1024;

impl Listeners {
    fn has(&self, session: &Session) -> bool {
        self.lock().contains_key(session.key())
    }

    fn add(&self, session: &Arc<Session>, tools: u64) {
        let listener = Listener {
            session: Arc::downgrade(session),
            tools,
        };
        self.lock().insert(session.key().to_owned(), listener);
    }

    pub(super) fn remove(&self, session: &Session) {
        self.lock().remove(session.key());
    }

    /// Those who may hear of a server.
    fn of(&self, server: &Server) -> Vec<Arc<Session>> {
        let mut all = self.all();
        all.retain(|session| server.is_for(&session.identity().agent));
        all
    }

    fn all(&self) -> Vec<Arc<Session>> {
        let all = self.lock();
        let all = all.values().map(|listener| &listener.session);
        all.filter_map(Weak::upgrade).collect()
    }

    /// Whether a session was last told of other tools than these; it is told of these now.
    fn knows_others(&self, session: &Session, tools: u64) -> bool {
        let mut all = self.lock();
        let known = all.get_mut(session.key());
        known.is_some_and(|known| std::mem::replace(&mut known.tools, tools) != tools)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Listener>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ground {
    /// Tells a session from now on what servers tell, and when what it can use changes.
    pub(super) async fn listen(self: &Arc<Self>, session: &Arc<Session>) {
        if self.listeners.has(session) {
            return;
        }
        // First, so that no change is missed.
        let watch = |changes, what| {
            tokio::spawn(watch(Arc::downgrade(self), changes, what));
        };
        self.watching_tools
            .call_once(|| watch(self.catalogue.changes(), Changed::Tools));
        if let Some(shelf) = self.skills.get() {
            self.watching_skills
                .call_once(|| watch(shelf.changes(), Changed::Prompts));
        }
        let tools = self.catalogue.current_for(&session.identity().agent).await;
        self.listeners.add(session, seen(&tools));
    }

    /// Tells those whose tools are others than those they were told of.
    async fn tell_of_tools(&self) {
        for session in self.listeners.all() {
            let tools = self.catalogue.current_for(&session.identity().agent).await;
            if self.listeners.knows_others(&session, seen(&tools)) {
                tell_of(&session, McpNotification::ToolsListChanged).await;
            }
        }
    }

    /// Tells everybody that there are other prompts.
    async fn tell_of_prompts(&self) {
        for session in self.listeners.all() {
            tell_of(&session, McpNotification::PromptsListChanged).await;
        }
    }
}

/// A change of what this host has itself: it is no server's.
async fn tell_of(session: &Session, method: McpNotification<'static>) {
    let push = McpServerPush {
        method,
        ..McpServerPush::new()
    };
    let _ = tokio::time::timeout(PATIENCE, session.push(push)).await;
}

/// What tells tools from others, by their names and definitions.
fn seen(tools: &Snapshot) -> u64 {
    let mut hasher = DefaultHasher::new();
    for entry in tools.entries() {
        entry.listed.name.hash(&mut hasher);
        entry.hash.as_bytes().hash(&mut hasher);
    }
    hasher.finish()
}

/// Tells of changes, until there can be no more.
async fn watch(ground: Weak<Ground>, mut changes: watch::Receiver<u64>, what: Changed) {
    while changes.changed().await.is_ok() {
        let Some(ground) = ground.upgrade() else {
            return;
        };
        match what {
            Changed::Tools => ground.tell_of_tools().await,
            Changed::Prompts => ground.tell_of_prompts().await,
        }
    }
}

impl Server {
    /// Who is asked what the server wants to know of an agent: whose call it works on, or who listens if
    /// there is no call.
    ///
    /// # Errors
    /// If that could be more than one agent. What the server asks may have in it what one of them said,
    /// and what is answered goes into its result: neither is another's business.
    pub(super) fn asked_of(&self) -> Result<Arc<Session>, &'static str> {
        let mut sessions = self.calls.callers();
        if sessions.is_empty() {
            sessions = self.ground.listeners.of(self);
        }
        let last = sessions.pop().ok_or("there is no agent to ask")?;
        let agent = &last.identity().agent;
        match sessions.iter().all(|it| it.identity().agent == *agent) {
            true => Ok(last),
            false => {
                Err("several agents use this server, and nobody can say for which of them this is")
            }
        }
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
