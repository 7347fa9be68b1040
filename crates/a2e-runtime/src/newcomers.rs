//! Connections whose agents are not known yet, counted by where they come from: nobody may take the
//! places of all others with connections over which he says nothing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::auth::{Counted, Source};

/// How many connections of each source have not shaken hands. Cheap to clone; all clones are one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Newcomers(Arc<Mutex<HashMap<Counted, usize>>>);

/// One that was counted, until it is dropped.
#[derive(Debug)]
pub(crate) struct Newcomer {
    all: Newcomers,
    /// Nobody, if it does not count.
    source: Option<Counted>,
}

impl Newcomers {
    /// Counts one more of a source, if there are fewer than `max`.
    pub(crate) fn count(&self, source: Source, max: usize) -> Option<Newcomer> {
        let source = Counted::of(source);
        if let Some(source) = source {
            let mut counts = self.lock();
            let count = counts.entry(source).or_default();
            if *count >= max {
                return None;
            }
            *count = count.saturating_add(1);
        }
        Some(Newcomer {
            all: self.clone(),
            source,
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Counted, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Newcomer {
    fn drop(&mut self) {
        let Some(source) = self.source else {
            return;
        };
        let mut counts = self.all.lock();
        if let Some(count) = counts.get_mut(&source) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                counts.remove(&source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At the limit and one past it; others have their own, and what goes makes room and leaves nothing.
    #[test]
    fn each_source_has_its_own_count() {
        let newcomers = Newcomers::default();
        let from = |address: &str| Source::Address(address.parse().unwrap());
        let first = newcomers.count(from("192.0.2.1"), 2).unwrap();
        let second = newcomers.count(from("192.0.2.1"), 2).unwrap();
        assert!(newcomers.count(from("192.0.2.1"), 2).is_none());
        assert!(newcomers.count(from("::ffff:192.0.2.1"), 2).is_none());
        let other = newcomers.count(from("192.0.2.2"), 2);
        assert!(other.is_some() && newcomers.count(Source::User(1), 2).is_some());
        let own: Vec<_> = (0..9).map(|_| newcomers.count(Source::Own, 2)).collect();
        assert!(own.iter().all(Option::is_some));
        drop(first);
        assert!(newcomers.count(from("192.0.2.1"), 2).is_some());
        drop((second, other, own));
        assert!(newcomers.lock().is_empty());
    }
}
