//! What was too large to send, kept for a while.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use crate::tool::Caller;

/// Texts that were too large to send. They live in memory, as long as the session that has made
/// them, and at most so many bytes for each agent; the oldest go first.
#[derive(Debug)]
pub struct Artifacts {
    limit: usize,
    shelves: Mutex<HashMap<Arc<str>, Shelf>>,
}

/// What an agent has.
#[derive(Debug, Default)]
struct Shelf {
    bytes: usize,
    kept: VecDeque<Artifact>,
}

#[derive(Debug)]
struct Artifact {
    id: String,
    session: Arc<str>,
    text: Arc<str>,
}

/// How many bytes of artifacts an agent may have, unless configured otherwise.
pub const MAX_ARTIFACT_BYTES: usize = 64 * 1024 * 1024;

impl Artifacts {
    /// Room for so many bytes for each agent.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            shelves: Mutex::default(),
        }
    }

    /// Keeps a text; gives its id. Nothing is kept that is larger than all the room.
    pub fn keep(&self, caller: &Caller, text: String) -> Option<String> {
        if text.len() > self.limit {
            return None;
        }
        let mut id = [0; 16];
        getrandom::fill(&mut id).ok()?;
        let id = hex::encode(id);
        let mut shelves = self.shelves();
        let shelf = shelves.entry(Arc::clone(&caller.agent)).or_default();
        shelf.bytes = shelf.bytes.saturating_add(text.len());
        shelf.kept.push_back(Artifact {
            id: id.clone(),
            session: Arc::clone(&caller.session),
            text: text.into(),
        });
        while shelf.bytes > self.limit
            && let Some(oldest) = shelf.kept.pop_front()
        {
            shelf.bytes = shelf.bytes.saturating_sub(oldest.text.len());
        }
        Some(id)
    }

    /// A text by its id, if it is that agent's.
    #[must_use]
    pub fn get(&self, caller: &Caller, id: &str) -> Option<Arc<str>> {
        let shelves = self.shelves();
        let mut kept = shelves.get(&caller.agent)?.kept.iter();
        let found = kept.find(|artifact| artifact.id == id)?;
        Some(Arc::clone(&found.text))
    }

    /// Forgets all of a session.
    pub fn clear(&self, caller: &Caller) {
        let mut shelves = self.shelves();
        let Some(shelf) = shelves.get_mut(&caller.agent) else {
            return;
        };
        shelf.kept.retain(|kept| kept.session != caller.session);
        shelf.bytes = shelf.kept.iter().map(|kept| kept.text.len()).sum();
        if shelf.kept.is_empty() {
            shelves.remove(&caller.agent);
        }
    }

    fn shelves(&self) -> std::sync::MutexGuard<'_, HashMap<Arc<str>, Shelf>> {
        self.shelves.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(agent: &str, session: &str) -> Caller {
        Caller {
            agent: agent.into(),
            session: session.into(),
        }
    }

    #[test]
    fn the_oldest_go_when_there_is_no_room() {
        let (artifacts, ada) = (Artifacts::new(10), caller("ada", "1"));
        let keep = |text: &str| artifacts.keep(&ada, text.into());
        let first = keep("12345").unwrap();
        let second = keep("67890").unwrap();
        assert_eq!(artifacts.get(&ada, &first).as_deref(), Some("12345"));
        let third = keep("x").unwrap();
        assert_eq!(artifacts.get(&ada, &first), None);
        assert!(artifacts.get(&ada, &second).is_some() && artifacts.get(&ada, &third).is_some());
        assert!(keep("0123456789").is_some());
        assert!(keep("0123456789a").is_none());
    }

    #[test]
    fn they_are_the_agents_own_and_end_with_the_session() {
        let artifacts = Artifacts::new(100);
        let (ada, again) = (caller("ada", "1"), caller("ada", "2"));
        let (one, two) = (
            artifacts.keep(&ada, "one".into()).unwrap(),
            artifacts.keep(&again, "two".into()).unwrap(),
        );
        assert_eq!(artifacts.get(&caller("bob", "1"), &one), None);
        assert!(artifacts.get(&again, &one).is_some());
        artifacts.clear(&ada);
        assert!(artifacts.get(&again, &one).is_none() && artifacts.get(&again, &two).is_some());
        artifacts.clear(&again);
        assert!(artifacts.shelves().is_empty());
    }
}
