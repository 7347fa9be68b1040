//! Many token buckets: taken together or not at all, and never more than fit.
#![expect(
    clippy::disallowed_types,
    reason = "what the hasher draws decides where things lie, and nothing that can be seen: they are never listed"
)]

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use crate::{Exceeded, Rate, TokenBucket};

/// Token buckets by key: a session, an agent, all agents of a kind.
///
/// A request takes one token from each bucket it names, or none. There are at most as many buckets
/// as the capacity says. **Only a full bucket is evicted**: it is no different from the new one that
/// its key gets later, so that eviction never gives tokens. While no bucket is full, requests of
/// keys that have none are refused ([`Refused::NoRoom`]); those that have one go on.
///
/// A bucket stays as long as it is not full. If all requests of some agents also take from one
/// common bucket of g tokens a second (as new agents of level `self` do), these agents hold at most
/// g·`period`/`limit` buckets, however many they are: that is what the capacity must allow for.
///
/// Keys are hashed to find a bucket, with a secret of the process: peers choose their keys, and must
/// not find some that share a place. Short ones without pointers are best: a session can keep the
/// digest of its agent's DID, made once.
#[derive(Debug)]
pub struct Buckets<K> {
    capacity: usize,
    buckets: HashMap<K, TokenBucket>,
    /// Before this time no bucket is looked at to be evicted.
    next_sweep: Duration,
}

/// Why a request may not go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A bucket is empty.
    #[error(transparent)]
    Exceeded(#[from] Limited),
    /// There are as many buckets as there may be, and none is full.
    #[error("too many agents at once")]
    NoRoom {
        /// After this long one may be.
        retry_after: Duration,
    },
}

/// Which bucket is empty: of several, the one that takes longest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{exceeded}")]
pub struct Limited {
    /// Its index among those asked for.
    pub index: usize,
    /// Its figures.
    pub exceeded: Exceeded,
}

/// What was done to a bucket of a request that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Done {
    Nothing,
    Taken,
    /// Taken, and the bucket is new.
    Made,
}

impl<K: Hash + Eq + Clone> Buckets<K> {
    /// How far apart two searches for full buckets are at least: each looks at all of them.
    pub const SWEEP: Duration = Duration::from_secs(1);

    /// No buckets yet, and at most this many.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity,
            buckets: HashMap::new(),
            next_sweep: Duration::ZERO,
        }
    }

    /// Takes a token from each of these buckets, or none from any. A bucket that is not there yet
    /// is full; one that has another rate goes on with this one.
    ///
    /// Of a refused request nothing remains but that it was seen. Name a bucket that many share
    /// first: if it refuses, no bucket is made for the others.
    ///
    /// # Errors
    /// If one of them is empty, or there is no room for a new one.
    pub fn take<const N: usize>(
        &mut self,
        now: Duration,
        wanted: [(&K, Rate); N],
    ) -> Result<(), Refused> {
        let mut done = [Done::Nothing; N];
        let mut refused: Option<Refused> = None;
        for (index, ((key, rate), done)) in wanted.iter().zip(&mut done).enumerate() {
            match self.take_one(now, key, *rate, refused.is_some()) {
                Ok(outcome) => *done = outcome,
                Err(Attempt::Empty(exceeded)) => {
                    refused = Some(longest(refused, Limited { index, exceeded }));
                }
                Err(Attempt::NoRoom(retry_after)) => {
                    refused = refused.or(Some(Refused::NoRoom { retry_after }));
                }
            }
        }
        let Some(refused) = refused else {
            return Ok(());
        };
        // Backwards, so that a bucket named twice is made last of all.
        for ((key, _), done) in wanted.iter().zip(done).rev() {
            self.undo(key, done);
        }
        Err(refused)
    }

    /// Drops the bucket of a key that never comes back, such as a session that has ended.
    pub fn forget(&mut self, key: &K) {
        self.buckets.remove(key);
    }

    /// The bucket of a key, if it has one.
    #[must_use]
    pub fn get(&self, key: &K) -> Option<&TokenBucket> {
        self.buckets.get(key)
    }

    /// How many buckets there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.buckets.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    fn take_one(
        &mut self,
        now: Duration,
        key: &K,
        rate: Rate,
        refused: bool,
    ) -> Result<Done, Attempt> {
        if let Some(bucket) = self.buckets.get_mut(key) {
            bucket.set_rate(rate, now);
            return bucket
                .take(now)
                .map(|()| Done::Taken)
                .map_err(Attempt::Empty);
        }
        // A new bucket would not refuse, and what was refused leaves none.
        if refused {
            return Ok(Done::Nothing);
        }
        self.make_room(now).map_err(Attempt::NoRoom)?;
        let mut bucket = TokenBucket::new(rate, now);
        bucket.take(now).map_err(Attempt::Empty)?;
        self.buckets.insert(key.clone(), bucket);
        Ok(Done::Made)
    }

    fn undo(&mut self, key: &K, done: Done) {
        match done {
            Done::Nothing => {}
            Done::Made => drop(self.buckets.remove(key)),
            Done::Taken => {
                if let Some(bucket) = self.buckets.get_mut(key) {
                    bucket.put_back();
                }
            }
        }
    }

    /// Evicts what is full, if there is no room; or says when to try again.
    fn make_room(&mut self, now: Duration) -> Result<(), Duration> {
        if self.buckets.len() < self.capacity {
            return Ok(());
        }
        if now < self.next_sweep {
            return Err(self.next_sweep.saturating_sub(now));
        }
        let mut soonest = Duration::MAX;
        self.buckets.retain(|_, bucket| {
            let wait = bucket.full_after(now);
            soonest = soonest.min(wait);
            !wait.is_zero()
        });
        self.next_sweep = now.saturating_add(Self::SWEEP);
        match self.buckets.len() < self.capacity {
            true => Ok(()),
            false => Err(soonest.max(Self::SWEEP)),
        }
    }
}

/// Why one bucket gave nothing.
enum Attempt {
    Empty(Exceeded),
    NoRoom(Duration),
}

fn longest(known: Option<Refused>, other: Limited) -> Refused {
    match known {
        Some(Refused::Exceeded(known))
            if known.exceeded.retry_after >= other.exceeded.retry_after =>
        {
            Refused::Exceeded(known)
        }
        _ => Refused::Exceeded(other),
    }
}
