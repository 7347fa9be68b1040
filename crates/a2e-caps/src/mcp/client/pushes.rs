//! What servers tell, on its way to agents.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use a2e_runtime::Session;
use a2e_wire::messages::mcp::{
    McpNotification, McpPromptListRequest, McpResourceListRequest, McpResourceSubscribeRequest,
    McpServerPush,
};
use a2e_wire::{Body, Object};
use rmcp::model::ResourceUpdatedNotificationParam;
use serde_json::json;
use tokio::sync::watch;

use super::Ground;
use super::calls::Callers;
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

/// The sessions that get a notification.
#[derive(Debug)]
enum Audience {
    These(Vec<Arc<Session>>),
    /// All who listen, and whom the rules let ask for this.
    Permitted(Box<Body<'static>>),
}

/// How long an agent that is behind may keep others waiting.
const PUSH_TIMEOUT: Duration = Duration::from_secs(1);

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

    /// Returns whether it was there.
    pub(super) fn remove(&self, session: &Session) -> bool {
        self.lock().remove(session.key()).is_some()
    }

    /// Those who may hear of a server: it is theirs or the operator's, and the rules let them use it and
    /// ask it for this.
    fn of(&self, server: &Server, asks: &Body<'static>) -> Vec<Arc<Session>> {
        let mut all = self.all();
        let info = server.info();
        let may_hear = |session: &Arc<Session>| {
            server.is_for(&session.identity().agent)
                && session.may_use(&info)
                && session.permits(asks.clone())
        };
        all.retain(may_hear);
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
        // Else it is removed when it ends.
        if session.ended().is_cancelled() {
            self.listeners.remove(session);
        }
    }

    /// Notifies sessions whose list of tools has changed since the last notification.
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

/// The request of an agent that may hear of a server.
fn resource_list(server: &Server) -> McpResourceListRequest<'static> {
    McpResourceListRequest {
        server_id: server.name().to_owned().into(),
        ..McpResourceListRequest::new()
    }
}

/// A change of what this host has itself: it is no server's.
async fn tell_of(session: &Session, method: McpNotification<'static>) {
    let push = McpServerPush {
        method,
        ..McpServerPush::new()
    };
    let _ = tokio::time::timeout(PUSH_TIMEOUT, session.push(push)).await;
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
        let Callers {
            mut sessions,
            agents,
        } = self.calls.callers();
        if sessions.is_empty() {
            let asks = resource_list(self).into();
            sessions = self.ground.listeners.of(self, &asks);
        }
        let last = sessions.pop().ok_or("there is no agent to ask")?;
        let agent = &last.identity().agent;
        let is_its = |it: &Arc<Session>| it.identity().agent == *agent;
        match sessions.iter().all(is_its) && agents.iter().all(|it| **it == **agent) {
            true => Ok(last),
            false => {
                Err("several agents use this server, and nobody can say for which of them this is")
            }
        }
    }

    /// Tells sessions that a list has changed, and looks at it again: those whom the rules let ask for it.
    pub(super) fn tell_changed(self: &Arc<Self>, method: McpNotification<'static>) {
        let asks = match method {
            McpNotification::PromptsListChanged => McpPromptListRequest {
                server_id: self.name().to_owned().into(),
                ..McpPromptListRequest::new()
            }
            .into(),
            _ => resource_list(self).into(),
        };
        self.tell(
            method,
            Object::default(),
            Audience::Permitted(Box::new(asks)),
        );
    }

    /// Tells the sessions that have subscribed to a resource, if the rules still let them, that it has
    /// changed.
    pub(super) fn tell_updated(self: &Arc<Self>, updated: &ResourceUpdatedNotificationParam) {
        let params = Object::from_serialize(&json!(updated)).unwrap_or_default();
        let asks = McpResourceSubscribeRequest {
            server_id: self.name().to_owned().into(),
            uri: updated.uri.clone().into(),
        };
        let mut sessions = self.subscriptions.of(&updated.uri);
        sessions.retain(|session| session.permits(asks.clone()));
        let method = McpNotification::ResourcesUpdated;
        self.tell(method, params, Audience::These(sessions));
    }

    /// Notifies the agent whose calls alone are running, cancelled ones included. What a server sends of its
    /// own accord, such as a log message, may contain data of any of them.
    pub(super) fn tell_caller(
        self: &Arc<Self>,
        method: McpNotification<'static>,
        params: Object<'static>,
    ) {
        let Callers {
            mut sessions,
            agents,
        } = self.calls.callers();
        sessions.sort_by(|one, other| one.key().cmp(other.key()));
        sessions.dedup_by(|one, other| one.key() == other.key());
        if agents.len() > 1 {
            sessions.clear();
        }
        self.tell(method, params, Audience::These(sessions));
    }

    /// Tells sessions of a notification, and looks again at what has changed. A server that tells more
    /// than can be passed on is not heard in between.
    fn tell(
        self: &Arc<Self>,
        method: McpNotification<'static>,
        params: Object<'static>,
        audience: Audience,
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
            let sessions = match audience {
                Audience::These(sessions) => sessions,
                Audience::Permitted(asks) => server.ground.listeners.of(&server, &asks),
            };
            let push = McpServerPush {
                server_id: server.name().to_owned().into(),
                method,
                params,
            };
            for session in sessions {
                let _ = tokio::time::timeout(PUSH_TIMEOUT, session.push(push.clone())).await;
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
