//! Results that may be given again.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use canonical::Digest;

use super::Finished;
use crate::tool::Arguments;

/// The results of one session. They hold until something may have changed.
#[derive(Debug, Default)]
pub(super) struct Cache(Mutex<VecDeque<Kept>>);

#[derive(Debug)]
struct Kept {
    key: Digest,
    /// How many changes there were before the tool ran.
    changes: u64,
    finished: Finished,
}

/// So many results are kept for a session; the oldest go first.
pub const MAX_CACHED: usize = 64;

impl Cache {
    /// What a call is known by: the same tool, unchanged, with the same arguments.
    pub(super) fn key(definition: &Digest, arguments: &Arguments) -> Digest {
        let mut text = definition.to_string();
        // Members of a tree are sorted, so the order in which an agent wrote them does not count.
        text.push_str(&arguments.value().to_string());
        Digest::of(text.as_bytes())
    }

    pub(super) fn get(&self, key: &Digest, changes: u64) -> Option<Finished> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|kept| kept.changes == changes);
        let found = kept.iter().find(|kept| kept.key == *key);
        found.map(|kept| kept.finished.clone())
    }

    /// Keeps a result, unless it failed or refers to artifacts, which do not last as long.
    pub(super) fn put(&self, key: Digest, changes: u64, finished: &Finished) {
        if finished.error.is_some() || finished.truncated {
            return;
        }
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|kept| kept.key != key);
        if kept.len() == MAX_CACHED {
            kept.pop_front();
        }
        kept.push_back(Kept {
            key,
            changes,
            finished: finished.clone(),
        });
    }
}
