//! Looking again at the manifests of agents that have sessions: what they say may have changed.
//!
//! What was found out stays in the resolver's cache as long as it holds (an hour, of did:github six),
//! and is fetched anew after that; so a key that an agent revokes ends its sessions no later.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use a2a_identity::{Did, ResolveError};
use a2a_session::{Directory as _, Freshness, Holder};

use super::Inner;
use super::live::Live;
use crate::standing::lock;

/// How often it is looked whether what is known of an agent still holds.
const AGAIN: Duration = Duration::from_secs(300);
/// How soon it is tried again if there was no room for it.
const SOON: Duration = Duration::from_secs(5);

/// When to look again, by agent. One that is being looked at is not among them.
#[derive(Debug, Default)]
pub(super) struct Refreshes {
    agents: BTreeMap<String, Option<Duration>>,
    due: BTreeSet<(Duration, String)>,
}

impl Refreshes {
    /// Has an agent looked at from now on, unless it is already.
    pub(super) fn watch(&mut self, did: &str, now: Duration) {
        if !self.agents.contains_key(did) {
            self.at(did, now.saturating_add(AGAIN));
        }
    }

    fn at(&mut self, did: &str, at: Duration) {
        self.agents.insert(did.to_owned(), Some(at));
        self.due.insert((at, did.to_owned()));
    }

    fn forget(&mut self, did: &str) {
        if let Some(Some(at)) = self.agents.remove(did) {
            self.due.remove(&(at, did.to_owned()));
        }
    }

    /// Takes out those whose time has come.
    fn due(&mut self, now: Duration) -> Vec<String> {
        let mut due = Vec::new();
        while let Some((at, _)) = self.due.first() {
            if now < *at {
                break;
            }
            if let Some((_, did)) = self.due.pop_first() {
                self.agents.insert(did.clone(), None);
                due.push(did);
            }
        }
        due
    }
}

impl Inner {
    /// Stops looking at an agent whose last session has ended: how many are looked at is limited by how
    /// many sessions there are.
    pub(super) fn unwatch(&self, did: &str) {
        // Under the lock, so that one that begins meanwhile is watched after this.
        let mut refreshes = lock(&self.refreshes);
        if !self.sessions.has_agent(did) {
            refreshes.forget(did);
        }
    }

    /// Looks again at agents whose time has come. How many fetches there are at once, and of each
    /// host, is the resolver's to say: who waits for a slow host takes nothing from others.
    pub(super) fn refresh(self: &Arc<Self>, now: Duration) {
        let due = lock(&self.refreshes).due(now);
        for name in due {
            let session = self.sessions.of_agent(&name).into_iter().next();
            let agent = session.map(|live| {
                let inside = lock(&live.inside);
                let established = inside.session.established();
                (established.peer().did().clone(), established.holder())
            });
            match agent {
                Some(agent) => drop(tokio::spawn(look_again(Arc::downgrade(self), agent))),
                None => self.unwatch(&name),
            }
        }
    }
}

impl Inner {
    /// Looks up the keys of a session's peer, which has signed with one that is not known: at most once
    /// a minute for an agent, as the resolver has it.
    pub(super) async fn renew_keys(self: &Arc<Self>, live: &Arc<Live>) {
        let (did, holder) = {
            let inside = lock(&live.inside);
            let established = inside.session.established();
            (established.peer().did().clone(), established.holder())
        };
        let resolver = &self.home.resolver;
        let facts = resolver.session_facts(&did, holder, Freshness::Newer).await;
        let Ok(facts) = facts else {
            return;
        };
        let pins = self.home.standing.pins(&did);
        let over = {
            let session = &mut lock(&live.inside).session;
            if let Some(keys) = session.established().renewed_keys(&facts, &pins) {
                session.renew_keys(keys);
            }
            session.is_over()
        };
        if let Some(reason) = over {
            self.end(live, reason);
        }
    }
}

async fn look_again(inner: Weak<Inner>, (did, holder): (Did, Holder)) {
    let Some(resolver) = inner.upgrade().map(|inner| inner.home.resolver.clone()) else {
        return;
    };
    // If a manifest is fetched for it, the server is told as of any other.
    let facts = resolver.session_facts(&did, holder, Freshness::Any).await;
    let Some(inner) = inner.upgrade() else {
        return;
    };
    let name = did.to_string();
    let wait = match &facts {
        Err(ResolveError::Busy) => SOON,
        Ok(_) | Err(_) => AGAIN,
    };
    if let Ok(facts) = facts
        && let Some(keys) = facts.root.set()
    {
        inner.keys_changed(&name, keys);
    }
    let now = inner.home.clock.now().monotonic;
    lock(&inner.refreshes).at(&name, now.saturating_add(wait));
    inner.unwatch(&name);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_looked_at_once_in_a_while() {
        let mut refreshes = Refreshes::default();
        refreshes.watch("a", Duration::ZERO);
        refreshes.watch("a", Duration::from_secs(1));
        refreshes.watch("b", Duration::from_secs(1));
        assert!(refreshes.due(AGAIN - Duration::from_nanos(1)).is_empty());
        assert_eq!(refreshes.due(AGAIN), ["a"]);
        // It is being looked at.
        refreshes.watch("a", AGAIN);
        assert_eq!(refreshes.due(AGAIN * 2), ["b"]);
        refreshes.at("a", AGAIN * 3);
        refreshes.at("b", AGAIN * 3);
        refreshes.forget("b");
        assert_eq!(refreshes.due(AGAIN * 3), ["a"]);
        refreshes.forget("a");
        assert!(refreshes.agents.is_empty() && refreshes.due.is_empty());
    }
}
