//! A store that ends with its process: for tests, and for hosts that keep nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::approvals::{self, Approvals, HeldCalls};
use crate::chains::{self, Chains};
use crate::learning::{self, Learning};
use crate::limits::Size;
use crate::memories::{self, Memories, Vectors};
use crate::pins::{self, PinKind, Pins};
use crate::plans::{self, Plans};
use crate::rate_buckets::{self, RateBuckets};
use crate::replay_ids::{self, ReplayIds};
use crate::results::{self, Results};
use crate::scope::{Backend, Owner, SessionId, Swept};
use crate::secrets::{self, SealedValues};
use crate::snapshots::{self, Snapshots};
use crate::{AgentId, Error, Limit, Limits, Moment, Pending, UnixMillis};

/// A back end in memory. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Memory(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    limits: Limits,
    tables: Mutex<Tables>,
}

/// Everything, behind one lock: an operation sees and changes all of it or nothing.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    pub(crate) results: results::Table,
    pub(crate) snapshots: Shelves<(Arc<str>, String), Vec<u8>>,
    pub(crate) replay_ids: Shelves<String, ()>,
    pub(crate) rate_buckets: Shelves<String, Vec<u8>>,
    pub(crate) approvals: approvals::Table,
    pub(crate) pins: Shelves<String, pins::Pin>,
    pub(crate) chains: chains::Table,
    pub(crate) learning: learning::Table,
    pub(crate) plans: plans::Table,
    pub(crate) secrets: Shelves<String, Vec<u8>>,
    pub(crate) memories: memories::Table,
}

impl Memory {
    /// An empty one.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self(Arc::new(Inner {
            limits,
            tables: Mutex::default(),
        }))
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.0.limits
    }

    pub(crate) fn tables(&self) -> MutexGuard<'_, Tables> {
        self.0.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Backend for Memory {
    fn results(&self, owner: &Owner) -> Arc<dyn Results> {
        Arc::new(results::InMemory::new(self, owner))
    }

    fn snapshots(&self, owner: &Owner, session: &SessionId) -> Arc<dyn Snapshots> {
        Arc::new(snapshots::InMemory::new(self, owner, session))
    }

    fn replay_ids(&self, owner: &Owner) -> Arc<dyn ReplayIds> {
        Arc::new(replay_ids::InMemory::new(self, owner))
    }

    fn rate_buckets(&self, owner: &Owner) -> Arc<dyn RateBuckets> {
        Arc::new(rate_buckets::InMemory::new(self, owner))
    }

    fn held_calls(&self, owner: &Owner) -> Arc<dyn HeldCalls> {
        Arc::new(approvals::InMemory::new(self, owner))
    }

    fn approvals(&self) -> Arc<dyn Approvals> {
        Arc::new(approvals::InMemory::new(self, &Owner::node()))
    }

    fn pins(&self, kind: &PinKind) -> Arc<dyn Pins> {
        Arc::new(pins::InMemory::new(self, kind))
    }

    fn memories(&self, owner: &Owner, session: &SessionId, space: &str) -> Arc<dyn Memories> {
        Arc::new(memories::InMemory::new(self, owner, session, space))
    }

    fn vectors(&self, model: &str) -> Arc<dyn Vectors> {
        Arc::new(memories::VectorsInMemory::new(self, model))
    }

    fn chains(&self, owner: &Owner) -> Arc<dyn Chains> {
        Arc::new(chains::InMemory::new(self, owner))
    }

    fn open_chains(&self) -> Pending<Vec<(AgentId, i64)>> {
        Pending::ready(Ok(chains::open_in_memory(self)))
    }

    fn learning(&self, owner: &Owner) -> Arc<dyn Learning> {
        Arc::new(learning::InMemory::new(self, owner))
    }

    fn plans(&self, owner: &Owner) -> Arc<dyn Plans> {
        Arc::new(plans::InMemory::new(self, owner))
    }

    fn sealed_values(&self, owner: &Owner) -> Arc<dyn SealedValues> {
        Arc::new(secrets::InMemory::new(self, owner))
    }

    fn sweep(&self, now: Moment) -> Pending<Swept> {
        let tables = &mut *self.tables();
        let cutoff = now.uptime.minus(self.limits().results_kept);
        let Moment { unix: now, .. } = now;
        let removed = [
            tables.results.sweep(cutoff),
            tables.snapshots.sweep(now),
            tables.rate_buckets.sweep(now),
            tables.approvals.sweep(now),
            tables.memories.sweep(now),
            tables.chains.sweep(now, cutoff),
        ];
        Pending::ready(Ok(Swept {
            removed: removed.iter().sum(),
            has_more: false,
            is_erased: true,
        }))
    }

    fn flush(&self) -> Pending<()> {
        Pending::ready(Ok(()))
    }
}

/// What each owner has of one kind, with its size and its end.
#[derive(Debug)]
pub(crate) struct Shelves<K, V>(BTreeMap<Arc<str>, Shelf<K, V>>);

#[derive(Debug)]
struct Shelf<K, V> {
    entries: BTreeMap<K, Kept<V>>,
    /// Of all, expired or not.
    size: Size,
}

#[derive(Debug, Clone)]
pub(crate) struct Kept<V> {
    pub(crate) value: V,
    pub(crate) bytes: usize,
    pub(crate) expires: UnixMillis,
}

impl<K, V> Default for Shelves<K, V> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K, V> Default for Shelf<K, V> {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
            size: Size::default(),
        }
    }
}

impl<K: Clone + Ord, V> Shelves<K, V> {
    /// An entry that has not expired.
    pub(crate) fn live(&self, owner: &Arc<str>, key: &K, now: UnixMillis) -> Option<&Kept<V>> {
        let kept = self.0.get(owner)?.entries.get(key)?;
        (kept.expires > now).then_some(kept)
    }

    /// Whether an owner has it, expired or not.
    pub(crate) fn contains(&self, owner: &Arc<str>, key: &K) -> bool {
        let shelf = self.0.get(owner);
        shelf.is_some_and(|shelf| shelf.entries.contains_key(key))
    }

    /// Removes expired ones of an owner, oldest first, until there is room for more.
    pub(crate) fn make_room(&mut self, owner: &Arc<str>, now: UnixMillis, limit: Limit, more: Size)
    where
        K: Clone,
    {
        let Some(shelf) = self.0.get_mut(owner) else {
            return;
        };
        while !limit.holds(shelf.size.plus(more)) {
            let expired = shelf.entries.iter().filter(|(_, kept)| kept.expires <= now);
            let oldest = expired.min_by_key(|(_, kept)| kept.expires);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else {
                return;
            };
            shelf.remove(&oldest);
        }
    }

    /// All of an owner's that have not expired, by name.
    pub(crate) fn all_live(
        &self,
        owner: &Arc<str>,
        now: UnixMillis,
    ) -> impl Iterator<Item = (&K, &Kept<V>)> {
        let entries = self.0.get(owner).map(|shelf| shelf.entries.iter());
        let entries = entries.into_iter().flatten();
        entries.filter(move |(_, kept)| kept.expires > now)
    }

    /// All owners, with what they have that has not expired.
    pub(crate) fn everything(
        &self,
        now: UnixMillis,
    ) -> impl Iterator<Item = (&Arc<str>, &K, &Kept<V>)> {
        let shelves = self.0.iter();
        let all = shelves.flat_map(|(owner, shelf)| {
            let entries = shelf.entries.iter();
            entries.map(move |(key, kept)| (owner, key, kept))
        });
        all.filter(move |(_, _, kept)| kept.expires > now)
    }

    /// Puts entries there, in place of those of the same name, all or none.
    pub(crate) fn put(
        &mut self,
        owner: &Arc<str>,
        now: UnixMillis,
        limit: Limit,
        what: &'static str,
        new: BTreeMap<K, Kept<V>>,
    ) -> Result<(), Error> {
        let shelf = self.0.entry(Arc::clone(owner)).or_default();
        let is_live = |kept: &&Kept<V>| kept.expires > now;
        let replaced = new.keys().filter_map(|key| shelf.entries.get(key));
        let (less, more) = (size_of(replaced.filter(is_live)), size_of(new.values()));
        let fits = |used: Size| limit.holds(used.minus(less).plus(more));
        if !fits(shelf.size) {
            if !fits(size_of(shelf.entries.values().filter(is_live))) {
                return Err(Error::Full { what });
            }
            shelf.retain(|_, kept| kept.expires > now);
        }
        for (key, kept) in new {
            shelf.remove(&key);
            shelf.size = shelf.size.plus(Size::one(kept.bytes));
            shelf.entries.insert(key, kept);
        }
        Ok(())
    }

    pub(crate) fn live_mut(
        &mut self,
        owner: &Arc<str>,
        key: &K,
        now: UnixMillis,
    ) -> Option<&mut Kept<V>> {
        let kept = self.0.get_mut(owner)?.entries.get_mut(key)?;
        (kept.expires > now).then_some(kept)
    }

    pub(crate) fn remove(&mut self, owner: &Arc<str>, key: &K) {
        if let Some(shelf) = self.0.get_mut(owner) {
            shelf.remove(key);
        }
    }

    /// Removes all of an owner's that a rule does not keep.
    pub(crate) fn retain(&mut self, owner: &Arc<str>, keep: impl Fn(&K, &Kept<V>) -> bool) {
        if let Some(shelf) = self.0.get_mut(owner) {
            shelf.retain(keep);
        }
    }

    /// Removes all of anybody's that a rule does not keep.
    pub(crate) fn retain_all(&mut self, keep: impl Fn(&Arc<str>, &K, &Kept<V>) -> bool) {
        for (owner, shelf) in &mut self.0 {
            shelf.retain(|key, kept| keep(owner, key, kept));
        }
    }

    /// Removes what has expired; returns how much that was.
    pub(crate) fn sweep(&mut self, now: UnixMillis) -> usize {
        let mut removed = 0;
        self.0.retain(|_, shelf| {
            let before = shelf.entries.len();
            shelf.retain(|_, kept| kept.expires > now);
            removed += before - shelf.entries.len();
            !shelf.entries.is_empty()
        });
        removed
    }
}

impl<K: Ord, V> Shelf<K, V> {
    fn remove(&mut self, key: &K) {
        if let Some(kept) = self.entries.remove(key) {
            self.size = self.size.minus(Size::one(kept.bytes));
        }
    }

    fn retain(&mut self, keep: impl Fn(&K, &Kept<V>) -> bool) {
        self.entries.retain(|key, kept| keep(key, kept));
        self.size = size_of(self.entries.values());
    }
}

fn size_of<'a, V: 'a>(kept: impl Iterator<Item = &'a Kept<V>>) -> Size {
    let sizes = kept.map(|kept| Size::one(kept.bytes));
    sizes.fold(Size::default(), Size::plus)
}
