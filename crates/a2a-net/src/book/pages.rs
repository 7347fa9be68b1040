//! Both books of a running node, as one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};

use a2a_identity::{Anchor, Did, Pins};

use super::{Book, Peer, Pin};

/// The books of a running node.
#[derive(Debug, Default)]
pub struct Books {
    pages: RwLock<Arc<Pages>>,
}

/// Both books as they are at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pages {
    /// What the configuration says.
    pub configured: Book,
    /// What commands said.
    pub stored: Book,
}

impl Books {
    /// These two.
    #[must_use]
    pub fn new(configured: Book, stored: Book) -> Self {
        let pages = Pages { configured, stored };
        Self {
            pages: RwLock::new(Arc::new(pages)),
        }
    }

    /// Both as they are now.
    #[must_use]
    pub fn pages(&self) -> Arc<Pages> {
        Arc::clone(&self.pages.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Goes on with another configuration.
    pub fn configure(&self, configured: Book) {
        let mut pages = self.pages.write().unwrap_or_else(PoisonError::into_inner);
        let stored = pages.stored.clone();
        *pages = Arc::new(Pages { configured, stored });
    }

    /// Goes on with what a command made of the other book.
    pub fn store(&self, stored: Book) {
        let mut pages = self.pages.write().unwrap_or_else(PoisonError::into_inner);
        let configured = pages.configured.clone();
        *pages = Arc::new(Pages { configured, stored });
    }
}

impl Pages {
    /// The agent of this name.
    #[must_use]
    pub fn peer(&self, name: &str) -> Option<&Peer> {
        let found = self.configured.peers.get(name);
        found.or_else(|| self.stored.peers.get(name))
    }

    /// Where an agent is, if someone said so.
    #[must_use]
    pub fn place_of(&self, did: &Did) -> Option<&str> {
        let mut peers = self.books().flat_map(|book| book.peers.values());
        let found = peers.find(|peer| peer.did == *did);
        found.map(|peer| peer.url.as_str())
    }

    /// All agents. Of two with one DID the configuration's comes last, since it is right.
    pub fn peers(&self) -> impl Iterator<Item = &Peer> {
        let stored = self.stored.peers.values();
        stored.chain(self.configured.peers.values())
    }

    /// All agents that are not spoken to, by DID.
    #[must_use]
    pub fn blocked(&self) -> BTreeSet<String> {
        let blocked = self.books().flat_map(|book| book.blocked.keys());
        blocked.cloned().collect()
    }

    /// What all agents must show, by DID.
    #[must_use]
    pub fn all_pins(&self) -> BTreeMap<String, Pins> {
        let dids = self.books().flat_map(|book| book.pins.keys());
        dids.map(|did| (did.clone(), self.pins_of(did))).collect()
    }

    /// Those whose endorsements count.
    #[must_use]
    pub fn anchors(&self) -> Vec<Anchor> {
        let added = self.stored.anchors.iter();
        let added = added.filter(|(name, _)| !self.configured.anchors.contains_key(*name));
        let all = self.configured.anchors.iter().chain(added);
        let anchors = all.map(|(_, anchor)| Anchor {
            did: anchor.did.clone(),
            public_key: anchor.public_key.clone(),
            min_trust_level: anchor.min_trust_level,
        });
        anchors.collect()
    }

    /// What an agent must show.
    #[must_use]
    pub fn pins(&self, did: &Did) -> Pins {
        if self.books().all(|book| book.pins.is_empty()) {
            return Pins::default();
        }
        self.pins_of(&did.to_string())
    }

    fn pins_of(&self, did: &str) -> Pins {
        let pins = self.books().filter_map(|book| book.pins.get(did));
        let pins: Vec<&Pin> = pins.collect();
        let keys = pins.iter().find(|pin| !pin.keys.is_empty());
        Pins {
            manifest: pins.iter().find_map(|pin| pin.manifest),
            keys: keys.map(|pin| pin.keys.clone()).unwrap_or_default(),
        }
    }

    /// Whether an agent is not spoken to.
    #[must_use]
    pub fn is_blocked(&self, did: &Did) -> bool {
        // Most nodes block nobody, and this is asked for every request.
        if self.books().all(|book| book.blocked.is_empty()) {
            return false;
        }
        let name = did.to_string();
        self.books().any(|book| book.blocked.contains_key(&name))
    }

    /// Both, the one that is right first.
    fn books(&self) -> impl Iterator<Item = &Book> {
        [&self.configured, &self.stored].into_iter()
    }
}
