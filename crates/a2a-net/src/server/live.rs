//! The sessions that are there, each with a lock of its own.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use a2a_identity::KeySet;
use a2a_session::{ServerSession, SessionSlot, Token};
use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::handler::PeerView;
use crate::record::{Room, Way};
use crate::standing::lock;
use crate::transport::Answer;

/// A session and the requests that run in it.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) slot: SessionSlot,
    pub(super) peer: PeerView,
    pub(super) inside: Mutex<Inside>,
}

#[derive(Debug)]
pub(super) struct Inside {
    pub(super) session: ServerSession,
    running: BTreeMap<Token, Running>,
}

/// A request that runs: how to stop it, and whom to answer.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) cancel: CancellationToken,
    pub(super) room: Room,
    pub(super) way: Way,
    pub(super) reply: ReplyTo,
}

/// Where an answer goes.
#[derive(Debug)]
pub(super) enum ReplyTo {
    One(oneshot::Sender<Answer>),
    /// The end of a stream. Its room was taken before the first part, so it never waits.
    Stream(mpsc::OwnedPermit<Bytes>),
}

impl Live {
    /// The id of the session.
    pub(super) fn id(&self) -> &str {
        self.slot.session_id().as_str()
    }
}

impl Inside {
    pub(super) const fn new(session: ServerSession) -> Self {
        Self {
            session,
            running: BTreeMap::new(),
        }
    }

    /// Enters a request among those that run. Returns whether it is the only one.
    pub(super) fn begin(&mut self, token: Token, running: Running) -> bool {
        self.running.insert(token, running);
        self.running.len() == 1
    }

    /// Whether no request runs.
    pub(super) fn is_idle(&self) -> bool {
        self.running.is_empty()
    }

    /// Takes out a request that is over; of several that do so one has it.
    pub(super) fn end(&mut self, token: Token) -> Option<Running> {
        let ended = self.running.remove(&token);
        if self.running.is_empty() {
            // The map would keep its last node, with room for eleven.
            self.running = BTreeMap::new();
        }
        ended
    }
}

const SHARDS: usize = 16;

/// The sessions by their ids, and their ids by agent.
#[derive(Debug)]
pub(super) struct Sessions {
    hasher: RandomState,
    shards: [RwLock<HashMap<String, Arc<Live>>>; SHARDS],
    by_agent: Mutex<BTreeMap<String, Agent>>,
}

/// What is there of an agent.
#[derive(Debug, Default)]
struct Agent {
    sessions: BTreeSet<String>,
    /// The keys that its sessions were told of last.
    keys: Option<KeySet>,
}

impl Sessions {
    pub(super) fn new() -> Self {
        Self {
            hasher: RandomState::new(),
            shards: std::array::from_fn(|_| RwLock::default()),
            by_agent: Mutex::default(),
        }
    }

    pub(super) fn get(&self, id: &str) -> Option<Arc<Live>> {
        let shard = self.shard(id)?;
        let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
        shard.get(id).cloned()
    }

    pub(super) fn insert(&self, live: Arc<Live>) {
        let mut by_agent = lock(&self.by_agent);
        let agent = by_agent.entry(live.peer.did.clone()).or_default();
        agent.sessions.insert(live.id().to_owned());
        if let Some(shard) = self.shard(live.id()) {
            let mut shard = shard.write().unwrap_or_else(PoisonError::into_inner);
            shard.insert(live.id().to_owned(), live);
        }
    }

    /// Takes a session out; of several that do so at once one has it.
    pub(super) fn remove(&self, live: &Live) -> Option<Arc<Live>> {
        let mut by_agent = lock(&self.by_agent);
        if let Some(agent) = by_agent.get_mut(&live.peer.did) {
            agent.sessions.remove(live.id());
            if agent.sessions.is_empty() {
                by_agent.remove(&live.peer.did);
            }
        }
        let shard = self.shard(live.id())?;
        let mut shard = shard.write().unwrap_or_else(PoisonError::into_inner);
        shard.remove(live.id())
    }

    pub(super) fn all(&self) -> Vec<Arc<Live>> {
        let mut all = Vec::new();
        for shard in &self.shards {
            let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
            all.extend(shard.values().cloned());
        }
        all
    }

    pub(super) fn of_agent(&self, did: &str) -> Vec<Arc<Live>> {
        let ids: Vec<String> = match lock(&self.by_agent).get(did) {
            Some(agent) => agent.sessions.iter().cloned().collect(),
            None => Vec::new(),
        };
        ids.iter().filter_map(|id| self.get(id)).collect()
    }

    pub(super) fn has_agent(&self, did: &str) -> bool {
        lock(&self.by_agent).contains_key(did)
    }

    /// The sessions of an agent that are to be told of its keys: none if they know these. Every
    /// handshake brings keys, and an agent may have thousands of sessions.
    pub(super) fn to_tell(&self, did: &str, keys: &KeySet) -> Vec<Arc<Live>> {
        match lock(&self.by_agent).get_mut(did) {
            Some(agent) if agent.keys.as_ref() == Some(keys) => return Vec::new(),
            Some(agent) => agent.keys = Some(keys.clone()),
            None => return Vec::new(),
        }
        self.of_agent(did)
    }

    fn shard(&self, id: &str) -> Option<&RwLock<HashMap<String, Arc<Live>>>> {
        let hash = usize::try_from(self.hasher.hash_one(id) % 16).ok()?;
        self.shards.get(hash)
    }
}
