//! What was seen before: nonces of handshakes, counters and request ids of sessions.
//!
//! Every look-up costs the same however much there is to remember.
#![expect(
    clippy::disallowed_types,
    reason = "what the hasher draws decides where things lie, and nothing that can be seen: they are never listed"
)]

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use a2a_wire::RequestId;
use base::{Limits, Table};
use canonical::Digest;

use crate::Holder;

/// Counters that a receiver tells apart behind the highest one.
pub const WINDOW: u64 = 1024;
const WORDS: usize = 16;

/// The counters seen in one direction of a session: the highest, and which of the [`WINDOW`] behind
/// it (profile §10.2).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Window {
    highest: u64,
    /// Bit n % 1024 is set if n was seen, for n within the window.
    seen: [u64; WORDS],
}

/// Why a counter is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Stale {
    /// It was seen before.
    #[error("the counter was seen before")]
    Seen,
    /// It lies too far behind to tell.
    #[error("the counter lies below the window")]
    Below,
}

impl Window {
    /// Whether a counter is fresh; nothing is marked.
    ///
    /// # Errors
    /// If it was seen, or lies below the window.
    pub fn check(&self, counter: u64) -> Result<(), Stale> {
        if counter > self.highest {
            return Ok(());
        }
        if counter == 0 || self.highest.saturating_sub(counter) >= WINDOW {
            return Err(Stale::Below);
        }
        let (word, bit) = place(counter);
        match self.seen.get(word).is_some_and(|word| word & bit != 0) {
            true => Err(Stale::Seen),
            false => Ok(()),
        }
    }

    /// Marks a counter as seen, if it is fresh.
    ///
    /// # Errors
    /// As [`Window::check`]; then nothing is marked.
    pub fn take(&mut self, counter: u64) -> Result<(), Stale> {
        self.check(counter)?;
        if counter.saturating_sub(self.highest) >= WINDOW {
            self.seen = [0; WORDS];
        } else {
            // What moves into the window is new: the bits that stand there are of old counters.
            self.clear(self.highest.saturating_add(1), counter);
        }
        self.set(counter, true);
        self.highest = self.highest.max(counter);
        Ok(())
    }

    /// The highest counter seen.
    #[must_use]
    pub const fn highest(&self) -> u64 {
        self.highest
    }

    /// Forgets the counters from one up to but not including another, by whole words where it can.
    fn clear(&mut self, from: u64, to: u64) {
        let mut counter = from;
        while counter < to {
            if counter.is_multiple_of(64) && to.saturating_sub(counter) >= 64 {
                let (word, _) = place(counter);
                self.seen
                    .get_mut(word)
                    .into_iter()
                    .for_each(|word| *word = 0);
                counter = counter.saturating_add(64);
            } else {
                self.set(counter, false);
                counter = counter.saturating_add(1);
            }
        }
    }

    fn set(&mut self, counter: u64, seen: bool) {
        let (word, bit) = place(counter);
        if let Some(word) = self.seen.get_mut(word) {
            match seen {
                true => *word |= bit,
                false => *word &= !bit,
            }
        }
    }
}

fn place(counter: u64) -> (usize, u64) {
    let word = usize::try_from(counter / 64).unwrap_or_default() % WORDS;
    (word, 1 << (counter % 64))
}

/// Things that were seen, each remembered for a fixed time, and never more than fit. They are found
/// by a hash with a secret of the process, so that a peer who chooses them cannot choose their places.
#[derive(Debug, Clone)]
pub struct Memory<K> {
    keep: Duration,
    capacity: usize,
    /// Each with the moment it is forgotten.
    seen: HashMap<K, Duration>,
    /// In the order they came, which is the order they go.
    order: VecDeque<K>,
}

/// There is no room to remember more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there is no room to remember more")]
pub struct Full;

impl<K: Hash + Eq + Clone> Memory<K> {
    /// Remembers up to `capacity` things, each for this long.
    #[must_use]
    pub fn new(keep: Duration, capacity: usize) -> Self {
        Self {
            keep,
            capacity,
            seen: HashMap::new(),
            order: VecDeque::new(),
        }
    }

    /// Whether it was seen and is still remembered.
    #[must_use]
    pub fn contains(&self, now: Duration, key: &K) -> bool {
        self.seen.get(key).is_some_and(|until| now < *until)
    }

    /// Remembers something.
    ///
    /// # Errors
    /// If there is no room; nothing that is still remembered is given up for it.
    pub fn insert(&mut self, now: Duration, key: K) -> Result<(), Full> {
        self.forget_old(now, 2);
        if self.order.len() >= self.capacity {
            self.forget_old(now, usize::MAX);
        }
        if self.order.len() >= self.capacity {
            return Err(Full);
        }
        let until = now.saturating_add(self.keep);
        if self.seen.insert(key.clone(), until).is_none() {
            self.order.push_back(key);
        }
        Ok(())
    }

    /// Gives up the oldest, whether or not its time has come.
    pub fn forget_oldest(&mut self) {
        if let Some(key) = self.order.pop_front() {
            self.seen.remove(&key);
        }
    }

    /// How much is remembered, what is about to be forgotten included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether nothing is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Forgets what is too old, at most so many: with two for each that comes, all go in time.
    pub fn forget_old(&mut self, now: Duration, most: usize) {
        for _ in 0..most {
            let Some(key) = self.order.front() else {
                return;
            };
            if self.seen.get(key).is_some_and(|until| now < *until) {
                return;
            }
            self.forget_oldest();
        }
    }
}

/// Nonces that were seen, each remembered for a fixed time and counted for whose it was.
#[derive(Debug, Clone)]
pub(crate) struct Nonces {
    keep: Duration,
    /// Each with the moment it is forgotten.
    seen: Table<Holder, Digest, Duration>,
    order: BTreeSet<(Duration, Digest)>,
}

impl Nonces {
    pub(crate) const fn new(keep: Duration, limits: Limits) -> Self {
        Self {
            keep,
            seen: Table::new(limits),
            order: BTreeSet::new(),
        }
    }

    /// Whether it was seen and is still remembered.
    pub(crate) fn contains(&self, now: Duration, nonce: &Digest) -> bool {
        self.seen.get(nonce).is_some_and(|until| now < *until)
    }

    /// Remembers a nonce. If there is no room, the oldest of the same holder is forgotten early, or that
    /// of the stranger with the most. Replaying it gains nothing: PROOF must sign a fresh nonce of the
    /// server too.
    pub(crate) fn insert(
        &mut self,
        now: Duration,
        holder: Holder,
        nonce: Digest,
    ) -> Result<(), Full> {
        self.forget_old(now);
        let until = now.saturating_add(self.keep);
        if let Some(before) = self.seen.remove(&nonce) {
            self.order.remove(&(before, nonce));
        }
        let inserted = self.seen.insert(holder, holder.class(), nonce, until);
        if let Some((gone, until)) = inserted.map_err(|_| Full)? {
            self.order.remove(&(until, gone));
        }
        self.order.insert((until, nonce));
        Ok(())
    }

    pub(crate) fn forget_old(&mut self, now: Duration) {
        while let Some((until, nonce)) = self.order.first().copied()
            && until <= now
        {
            self.order.remove(&(until, nonce));
            self.seen.remove(&nonce);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.seen.len()
    }

    /// What there is, in an order that does not depend on how it came to be.
    #[cfg(test)]
    pub(crate) fn content(&self) -> String {
        format!("{:?}", self.order)
    }
}

/// A request id as the number it is: short to keep and quick to compare.
pub(crate) fn id_key(id: &RequestId) -> u128 {
    let digit = |digit: u8| char::from(digit).to_digit(16);
    let digits = id.as_str().bytes().filter_map(digit);
    digits.fold(0, |number, digit| (number << 4) | u128::from(digit))
}

/// The nonce of a handshake, by agent.
pub(crate) fn nonce_key(did: &str, nonce: &str) -> Digest {
    Digest::of(format!("{did}|{nonce}").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Profile §10.2, against a set of everything that was ever seen.
    #[test]
    fn a_window_is_a_set_of_what_was_seen() {
        let mut window = Window::default();
        let mut all = BTreeSet::new();
        let mut random = 7_u64;
        for _ in 0..20_000 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let jump = match random >> 60 {
                0 => 3000,
                1 => 1025,
                2 => 1024,
                3 => 1023,
                _ => 40,
            };
            let counter = window.highest().saturating_sub(1100) + (random >> 20) % (1100 + jump);
            let fresh =
                counter > 0 && counter + WINDOW > window.highest() && !all.contains(&counter);
            assert_eq!(window.check(counter).is_ok(), fresh, "{counter}");
            assert_eq!(window.take(counter).is_ok(), fresh);
            if fresh {
                all.insert(counter);
            }
        }
    }

    #[test]
    fn the_edges_of_a_window() {
        let mut window = Window::default();
        assert_eq!(window.check(0), Err(Stale::Below));
        window.take(WINDOW).unwrap();
        assert_eq!(window.check(0), Err(Stale::Below));
        assert_eq!(window.take(1), Ok(()), "1023 behind the highest");
        assert_eq!(window.take(1), Err(Stale::Seen));
        window.take(WINDOW + 2).unwrap();
        assert_eq!(window.check(2), Err(Stale::Below), "1024 behind");
        assert_eq!(window.check(3), Ok(()));
        window.take(u64::MAX).unwrap();
        assert_eq!(window.check(u64::MAX), Err(Stale::Seen));
        assert_eq!(window.check(u64::MAX - 1), Ok(()));
    }

    #[test]
    fn a_request_id_is_a_number() {
        let id = |text: &str| id_key(&text.parse().unwrap());
        let number = id("7f1c0e0a-9a3b-4d7e-8f00-0123456789ab");
        assert_eq!(number, 0x7f1c_0e0a_9a3b_4d7e_8f00_0123_4567_89ab);
    }

    #[test]
    fn memory_keeps_for_its_time_and_within_its_room() {
        let second = Duration::from_secs;
        let mut memory = Memory::new(second(10), 2);
        memory.insert(second(0), 1).unwrap();
        memory.insert(second(5), 2).unwrap();
        assert_eq!(memory.insert(second(9), 3), Err(Full));
        assert!(memory.contains(second(9), &1) && !memory.contains(second(10), &1));
        memory.insert(second(10), 3).unwrap();
        assert!(memory.contains(second(14), &2) && memory.contains(second(14), &3));
        memory.forget_old(second(100), usize::MAX);
        assert!(memory.is_empty());
    }
}
