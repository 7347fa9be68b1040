//! All MCP servers there are: the operator's, and those that agents have registered.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use a2e_runtime::Session;
use a2e_runtime::config::{McpPlace, McpServer};

use super::Ground;
use super::server::{Owner, Server};
use crate::http::Web;
use crate::skills::Shelf;
use crate::turns::Turns;

/// The servers. It stays when the configuration is read again.
#[derive(Debug)]
pub struct Fleet {
    pub(super) ground: Arc<Ground>,
    servers: Mutex<Vec<Arc<Server>>>,
    /// Pages of lists may have many megabytes.
    pub(super) listing: Turns,
}

/// How many servers an agent may register.
pub const MAX_OWN_SERVERS: usize = 16;

/// How many servers of agents there may be in all.
pub const MAX_AGENTS_SERVERS: usize = 256;

/// Why a server cannot be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotAdded {
    /// Another one has its name.
    #[error("there is a server of this name; unregister it first, or choose another `server_id`")]
    Known,
    /// There are as many as there may be.
    #[error("there are as many registered servers as there may be; unregister one")]
    TooMany,
}

impl Fleet {
    /// No servers yet.
    #[must_use]
    pub fn new(ground: Ground) -> Arc<Self> {
        Arc::new(Self {
            ground: Arc::new(ground),
            servers: Mutex::default(),
            listing: Turns::default(),
        })
    }

    /// Tells agents when these skills change: they are prompts to those who speak MCP.
    pub fn show(&self, skills: &Arc<Shelf>) {
        // A node has one shelf.
        let _ = self.ground.skills.set(Arc::clone(skills));
    }

    /// Has exactly these of the operator's servers from now on; they and those of agents are reached
    /// so. Those that are as they were go on. A program whose tools are known from before is started
    /// when it is first of use; all other new ones are connected to in the background, and their tools
    /// appear when they answer.
    pub fn configure(&self, wanted: &[McpServer], web: Option<Web>) {
        if let Some(web) = web {
            self.ground.web.store(Arc::new(web));
        }
        let mut servers = self.lock();
        let is_wanted = |server: &Arc<Server>| {
            server.owner.is_some() || wanted.iter().any(|one| *one == server.settings)
        };
        for server in servers.extract_if(.., |server| !is_wanted(server)) {
            remove(&server);
        }
        for settings in wanted {
            let is_there =
                |known: &Arc<Server>| known.owner.is_none() && known.settings == *settings;
            if servers.iter().any(is_there) {
                continue;
            }
            let server = Server::new(settings.clone(), None, Arc::clone(&self.ground));
            servers.push(Arc::clone(&server));
            tokio::spawn(begin(server));
        }
    }

    /// Adds a server of the agent of a session. It ends when the agent's access is revoked.
    pub(super) fn add(
        self: &Arc<Self>,
        session: &Session,
        settings: McpServer,
    ) -> Result<Arc<Server>, NotAdded> {
        let agent = session.identity().agent.as_str();
        let mut servers = self.lock();
        let is_known =
            |server: &Arc<Server>| server.is_for(agent) && server.settings.name == settings.name;
        if servers.iter().any(is_known) {
            return Err(NotAdded::Known);
        }
        let owned = servers.iter().filter(|server| server.owner.is_some());
        let own = owned.clone().filter(|server| server.agent() == Some(agent));
        if own.count() >= MAX_OWN_SERVERS || owned.count() >= MAX_AGENTS_SERVERS {
            return Err(NotAdded::TooMany);
        }
        let owner = Owner {
            agent: agent.into(),
            access: session.access().clone(),
        };
        let server = Server::new(settings, Some(owner), Arc::clone(&self.ground));
        servers.push(Arc::clone(&server));
        tokio::spawn(end_with_access(Arc::downgrade(self), Arc::clone(&server)));
        Ok(server)
    }

    /// Removes a server of an agent's, if it has one of that name.
    pub(super) fn remove(&self, agent: &str, name: &str) -> Option<Arc<Server>> {
        let mut servers = self.lock();
        let is_it = |server: &mut Arc<Server>| {
            server.agent() == Some(agent) && server.settings.name == name
        };
        let mut removed = servers.extract_if(.., is_it);
        let found = removed.next();
        if let Some(server) = &found {
            remove(server);
        }
        found
    }

    /// The servers that an agent may use, the operator's first.
    pub(super) fn of(&self, agent: &str) -> Vec<Arc<Server>> {
        let servers = self.lock();
        let mut found: Vec<_> = servers
            .iter()
            .filter(|server| server.is_for(agent))
            .cloned()
            .collect();
        found.sort_by_key(|server| server.owner.is_some());
        found
    }

    /// All of them, the operator's first.
    pub(super) fn all(&self) -> Vec<Arc<Server>> {
        let mut servers = self.lock().clone();
        servers.sort_by_key(|server| server.owner.is_some());
        servers
    }

    /// A session has ended: it gets no more notifications, and nothing is kept open for it.
    pub(super) fn leave(&self, session: &Session) {
        if !self.ground.listeners.remove(session) {
            return;
        }
        let servers = self.lock().clone();
        for server in servers {
            server.unsubscribe_all(session);
        }
    }

    /// Those of the operator.
    pub(super) fn operators(&self) -> Vec<Arc<Server>> {
        let servers = self.lock();
        let own = servers.iter().filter(|server| server.owner.is_none());
        own.cloned().collect()
    }

    /// Ends all of them.
    pub(super) fn end(&self) {
        for server in self.lock().drain(..) {
            server.over.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Server>>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn begin(server: Arc<Server>) {
    let is_program = matches!(server.settings.place, McpPlace::Command(_));
    if is_program && server.recall_tools().await {
        return;
    }
    if let Err(error) = server.connection().await {
        tracing::warn!("{}", server.told_in_full(&error.to_string()));
        server.come_back().await;
    }
}

/// Ends a server when the access of its agent is revoked.
async fn end_with_access(fleet: Weak<Fleet>, server: Arc<Server>) {
    server.over.cancelled().await;
    let is_revoked = |owner: &Owner| owner.access.is_revoked();
    // Else its agent has taken it away.
    if !server.owner.as_ref().is_some_and(is_revoked) {
        return;
    }
    // Before its name is free: an agent that is let in anew may register a server of the same name.
    remove(&server);
    if let Some(fleet) = fleet.upgrade() {
        fleet.lock().retain(|known| !Arc::ptr_eq(known, &server));
    }
    server.release().await;
}

fn remove(server: &Server) {
    server.over.cancel();
    server.withdraw();
}
