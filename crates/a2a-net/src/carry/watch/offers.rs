//! What was answered and not taken yet. A connection of HTTP/2 can be alive and well while the peer leaves no
//! room for what it asked for; nothing else would ever end that.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use super::{NEVER, Pace};
use crate::standing::lock;

/// Since when the peer could have taken what there is for it, in the order it was offered.
#[derive(Debug)]
pub(super) struct Offers {
    waiting: Mutex<Waiting>,
    /// The first of them, to be seen without the lock.
    since: AtomicU64,
}

#[derive(Debug, Default)]
struct Waiting {
    last: u64,
    since: BTreeMap<u64, u64>,
}

/// The body of one answer: either there is something of it that the peer has not taken, or there is not.
#[derive(Debug)]
pub(in crate::carry) struct Offer {
    pace: Arc<Pace>,
    number: Option<u64>,
}

impl Default for Offers {
    fn default() -> Self {
        Self {
            waiting: Mutex::default(),
            since: AtomicU64::new(NEVER),
        }
    }
}

impl Offers {
    /// Since when the first of them waits.
    pub(super) fn since(&self) -> u64 {
        self.since.load(Relaxed)
    }

    /// Takes one out, if it is there, and puts another in, if there is one.
    fn replace(&self, old: Option<u64>, now: Option<u64>) -> Option<u64> {
        let mut waiting = lock(&self.waiting);
        if let Some(old) = old {
            waiting.since.remove(&old);
        }
        let new = now.map(|now| {
            waiting.last = waiting.last.saturating_add(1);
            let number = waiting.last;
            waiting.since.insert(number, now);
            number
        });
        let first = waiting.since.first_key_value();
        self.since
            .store(first.map_or(NEVER, |(_, since)| *since), Relaxed);
        new
    }
}

impl Offer {
    /// Something is there from now on.
    pub(in crate::carry) fn new(pace: &Arc<Pace>) -> Self {
        let mut offer = Self {
            pace: Arc::clone(pace),
            number: None,
        };
        offer.is_there();
        offer
    }

    /// The peer has taken what was there, and can take more.
    pub(in crate::carry) fn is_there(&mut self) {
        let now = self.pace.now();
        self.number = self.pace.offers.replace(self.number, Some(now));
    }

    /// It is not the peer who is waited for.
    pub(in crate::carry) fn is_not_there(&mut self) {
        if self.number.is_some() {
            self.number = self.pace.offers.replace(self.number, None);
        }
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        self.is_not_there();
    }
}
