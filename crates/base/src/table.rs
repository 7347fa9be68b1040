//! Entries that holders fill, bounded, with an eviction that a flood turns against itself.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::{Class, Exceeded, Limits, Quota};

/// A bounded table of entries, each counted for a holder.
///
/// A new entry always finds room if something may be evicted for it:
/// 1. a holder whose share is used up gives its own oldest entry;
/// 2. in a full table the stranger with the most entries gives its oldest; of several such
///    strangers the new entry's own holder, or else the one whose entry is the oldest;
/// 3. entries of known holders give way only to those of known holders, and last.
///
/// Entries that are in use ([`Table::set_in_use`]) are never evicted.
#[derive(Debug, Clone)]
pub struct Table<H, K, V> {
    quota: Quota<H>,
    entries: BTreeMap<K, Entry<H, V>>,
    /// What may be evicted, for each holder, the oldest first.
    evictable: BTreeMap<(Class, H), BTreeMap<u64, K>>,
    /// Holders by how much of theirs may be evicted, then by the age of the oldest entry.
    heaviest: BTreeMap<Class, BTreeSet<Weight<H>>>,
    last: u64,
}

/// How many entries of a holder may be evicted, and the age of the oldest.
type Weight<H> = (usize, Reverse<u64>, H);

#[derive(Debug, Clone)]
struct Entry<H, V> {
    holder: H,
    class: Class,
    number: u64,
    in_use: bool,
    value: V,
}

impl<H: Ord + Clone, K: Ord + Clone, V> Table<H, K, V> {
    /// An empty table.
    #[must_use]
    pub const fn new(limits: Limits) -> Self {
        Self {
            quota: Quota::new(limits),
            entries: BTreeMap::new(),
            evictable: BTreeMap::new(),
            heaviest: BTreeMap::new(),
            last: 0,
        }
    }

    /// Sets other limits. Entries that exceed them stay, and give way to new ones.
    pub const fn set_limits(&mut self, limits: Limits) {
        self.quota.set_limits(limits);
    }

    /// Whether a holder may have another entry without one that gives way to it.
    ///
    /// # Errors
    /// Which limit it would exceed.
    pub fn check(&self, holder: &H, class: Class) -> Result<(), Exceeded> {
        self.quota.check(holder, class, 1)
    }

    /// Adds an entry, in place of one with the same key. Returns what was evicted for it.
    ///
    /// # Errors
    /// Which limit it would exceed, if nothing may be evicted for it. One with the same key is gone then.
    pub fn insert(
        &mut self,
        holder: H,
        class: Class,
        key: K,
        value: V,
    ) -> Result<Option<(K, V)>, Exceeded> {
        self.remove(&key);
        let evicted = match self.quota.check(&holder, class, 1) {
            Ok(()) => None,
            Err(exceeded) => Some(self.evict(&holder, class, exceeded).ok_or(exceeded)?),
        };
        self.quota.take(holder.clone(), class, 1)?;
        self.last = self.last.saturating_add(1);
        let entry = Entry {
            holder,
            class,
            number: self.last,
            in_use: false,
            value,
        };
        self.index(&key, &entry);
        self.entries.insert(key, entry);
        Ok(evicted)
    }

    /// Evicts the entry that gives way to one of this holder which exceeds a limit; also to one that
    /// exceeds a limit which is counted elsewhere, such as one of bytes.
    pub fn evict(&mut self, holder: &H, class: Class, exceeded: Exceeded) -> Option<(K, V)> {
        let victim = self.victim(holder, class, exceeded)?;
        self.remove(&victim).map(|value| (victim, value))
    }

    /// Says whether an entry is in use, and so cannot be evicted.
    pub fn set_in_use(&mut self, key: &K, in_use: bool) {
        let Some(mut entry) = self.take(key) else {
            return;
        };
        entry.in_use = in_use;
        self.index(key, &entry);
        self.entries.insert(key.clone(), entry);
    }

    /// Makes an entry the newest of its holder.
    pub fn touch(&mut self, key: &K) {
        let Some(mut entry) = self.take(key) else {
            return;
        };
        self.last = self.last.saturating_add(1);
        entry.number = self.last;
        self.index(key, &entry);
        self.entries.insert(key.clone(), entry);
    }

    /// An entry.
    #[must_use]
    pub fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key).map(|entry| &entry.value)
    }

    /// An entry, to be changed.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.entries.get_mut(key).map(|entry| &mut entry.value)
    }

    /// Removes an entry.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let entry = self.take(key)?;
        self.quota.give_back(&entry.holder, entry.class, 1);
        Some(entry.value)
    }

    /// All entries, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.entries.iter().map(|(key, entry)| (key, &entry.value))
    }

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many entries a holder has.
    #[must_use]
    pub fn held(&self, holder: &H, class: Class) -> usize {
        self.quota.held(holder, class)
    }

    /// How many entries the holder of a class has that has the most of those that may be evicted.
    #[must_use]
    pub fn most_evictable(&self, class: Class) -> usize {
        let heaviest = self.heaviest.get(&class).and_then(BTreeSet::last);
        heaviest.map_or(0, |(most, ..)| *most)
    }

    /// Which entry gives way to a new one.
    fn victim(&self, holder: &H, class: Class, exceeded: Exceeded) -> Option<K> {
        match exceeded {
            Exceeded::Share => self.oldest(class, holder),
            Exceeded::Total => self
                .victim_of(Class::Stranger, holder)
                .or_else(|| self.victim_of(class, holder)),
        }
    }

    /// The oldest entry of the heaviest holder of a class; of this holder if none is heavier.
    fn victim_of(&self, class: Class, holder: &H) -> Option<K> {
        let (most, _, heaviest) = self.heaviest.get(&class)?.last()?;
        let own = self.evictable.get(&(class, holder.clone()));
        match own.is_some_and(|own| own.len() >= *most) {
            true => self.oldest(class, holder),
            false => self.oldest(class, heaviest),
        }
    }

    fn oldest(&self, class: Class, holder: &H) -> Option<K> {
        let own = self.evictable.get(&(class, holder.clone()))?;
        own.first_key_value().map(|(_, key)| key.clone())
    }

    /// Takes an entry out, still counted.
    fn take(&mut self, key: &K) -> Option<Entry<H, V>> {
        let entry = self.entries.remove(key)?;
        let of = (entry.class, entry.holder.clone());
        self.unweigh(&of);
        if let Some(own) = self.evictable.get_mut(&of) {
            own.remove(&entry.number);
            if own.is_empty() {
                self.evictable.remove(&of);
            }
        }
        self.weigh(&of);
        Some(entry)
    }

    /// Makes an entry evictable, unless it is in use.
    fn index(&mut self, key: &K, entry: &Entry<H, V>) {
        if entry.in_use {
            return;
        }
        let of = (entry.class, entry.holder.clone());
        self.unweigh(&of);
        let own = self.evictable.entry(of.clone()).or_default();
        own.insert(entry.number, key.clone());
        self.weigh(&of);
    }

    fn weight(&self, of: &(Class, H)) -> Option<Weight<H>> {
        let own = self.evictable.get(of)?;
        let (oldest, _) = own.first_key_value()?;
        Some((own.len(), Reverse(*oldest), of.1.clone()))
    }

    fn weigh(&mut self, of: &(Class, H)) {
        if let Some(weight) = self.weight(of) {
            self.heaviest.entry(of.0).or_default().insert(weight);
        }
    }

    fn unweigh(&mut self, of: &(Class, H)) {
        if let Some(weight) = self.weight(of)
            && let Some(weights) = self.heaviest.get_mut(&of.0)
        {
            weights.remove(&weight);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn table(total: usize, per_holder: usize, reserved: usize) -> Table<u8, u32, ()> {
        Table::new(Limits {
            total,
            per_holder,
            reserved,
        })
    }

    fn keys(table: &Table<u8, u32, ()>) -> Vec<u32> {
        table.iter().map(|(key, ())| *key).collect()
    }

    #[test]
    fn a_holder_past_its_share_loses_its_own_oldest_entry() {
        let mut table = table(10, 2, 0);
        for key in 1..=3 {
            table.insert(1, Class::Stranger, key, ()).unwrap();
        }
        assert_eq!(keys(&table), [2, 3]);
    }

    #[test]
    fn a_check_evicts_nothing() {
        let mut table = table(10, 2, 0);
        table.insert(1, Class::Stranger, 1, ()).unwrap();
        assert_eq!(table.check(&1, Class::Stranger), Ok(()));
        table.insert(1, Class::Stranger, 2, ()).unwrap();
        assert_eq!(table.check(&1, Class::Stranger), Err(Exceeded::Share));
        assert_eq!(table.check(&2, Class::Stranger), Ok(()));
        table.set_limits(Limits {
            total: 2,
            per_holder: 2,
            reserved: 0,
        });
        assert_eq!(table.check(&2, Class::Stranger), Err(Exceeded::Total));
        assert_eq!(keys(&table), [1, 2]);
    }

    #[test]
    fn a_flood_evicts_itself() {
        let mut table = table(4, 3, 0);
        table.insert(1, Class::Stranger, 100, ()).unwrap();
        for key in 1..50 {
            table.insert(2, Class::Stranger, key, ()).unwrap();
        }
        // Others come while the table is full: the heaviest gives way.
        table.insert(3, Class::Stranger, 200, ()).unwrap();
        table.insert(4, Class::Stranger, 300, ()).unwrap();
        assert_eq!(keys(&table), [49, 100, 200, 300]);
        // All have the same: the oldest goes.
        table.insert(5, Class::Stranger, 400, ()).unwrap();
        assert_eq!(keys(&table), [49, 200, 300, 400]);
    }

    #[test]
    fn a_holder_as_heavy_as_any_evicts_its_own() {
        let mut table = table(3, 3, 0);
        for key in 1..=3 {
            table
                .insert(key.try_into().unwrap(), Class::Stranger, key, ())
                .unwrap();
        }
        for key in 10..20 {
            table.insert(3, Class::Stranger, key, ()).unwrap();
        }
        assert_eq!(keys(&table), [1, 2, 19]);
    }

    #[test]
    fn strangers_never_evict_known_holders() {
        let mut table = table(3, 3, 1);
        table.insert(1, Class::Known, 1, ()).unwrap();
        table.insert(1, Class::Known, 2, ()).unwrap();
        table.insert(9, Class::Stranger, 10, ()).unwrap();
        table.insert(9, Class::Stranger, 11, ()).unwrap();
        assert_eq!(keys(&table), [1, 2, 11]);
        table.insert(1, Class::Known, 3, ()).unwrap();
        assert_eq!(keys(&table), [1, 2, 3]);
        let refused = table.insert(9, Class::Stranger, 12, ());
        assert_eq!(refused, Err(Exceeded::Total));
        table.insert(2, Class::Known, 4, ()).unwrap();
        assert_eq!(keys(&table), [2, 3, 4], "the known one with the most");
    }

    #[test]
    fn entries_in_use_are_never_evicted() {
        let mut table = table(2, 2, 0);
        table.insert(1, Class::Stranger, 1, ()).unwrap();
        table.insert(1, Class::Stranger, 2, ()).unwrap();
        table.set_in_use(&1, true);
        let evicted = table.insert(1, Class::Stranger, 3, ()).unwrap();
        assert_eq!(evicted, Some((2, ())));
        table.set_in_use(&3, true);
        let refused = table.insert(1, Class::Stranger, 4, ());
        assert_eq!(refused, Err(Exceeded::Share));
        table.set_in_use(&1, false);
        table.insert(1, Class::Stranger, 4, ()).unwrap();
        assert_eq!(keys(&table), [3, 4]);
    }

    #[test]
    fn the_heaviest_stranger_is_evicted_and_nothing_in_use() {
        let mut table = table(10, 5, 0);
        table.insert(1, Class::Stranger, 1, ()).unwrap();
        table.insert(2, Class::Stranger, 2, ()).unwrap();
        table.insert(2, Class::Stranger, 3, ()).unwrap();
        table.insert(3, Class::Known, 4, ()).unwrap();
        let full =
            |table: &mut Table<u8, u32, ()>| table.evict(&9, Class::Stranger, Exceeded::Total);
        assert_eq!(full(&mut table), Some((2, ())));
        assert_eq!(table.most_evictable(Class::Stranger), 1);
        table.set_in_use(&1, true);
        assert_eq!(full(&mut table), Some((3, ())));
        assert_eq!(table.most_evictable(Class::Stranger), 0);
        assert_eq!(full(&mut table), None);
        assert_eq!(keys(&table), [1, 4]);
    }

    #[test]
    fn a_touched_entry_is_the_newest() {
        let mut table = table(10, 2, 0);
        table.insert(1, Class::Stranger, 1, ()).unwrap();
        table.insert(1, Class::Stranger, 2, ()).unwrap();
        table.touch(&1);
        table.insert(1, Class::Stranger, 3, ()).unwrap();
        assert_eq!(keys(&table), [1, 3]);
    }

    proptest! {
        /// Whatever is done, the limits hold, the indexes agree with the entries, and no stranger's
        /// entry takes the place of a known holder's.
        #[test]
        fn limits_and_indexes_hold(
            steps in prop::collection::vec((0_u8..5, any::<bool>(), 0_u32..40, 0_u8..8), 1..200)
        ) {
            let mut table = table(12, 5, 3);
            for (holder, known, key, what) in steps {
                let class = if known { Class::Known } else { Class::Stranger };
                match what {
                    0 => drop(table.remove(&key)),
                    1 => table.set_in_use(&key, true),
                    2 => table.set_in_use(&key, false),
                    3 => table.touch(&key),
                    _ => {
                        table.remove(&key);
                        let before = table.entries.clone();
                        if let Ok(Some((gone, ()))) = table.insert(holder, class, key, ()) {
                            let gone = before.get(&gone).unwrap();
                            prop_assert!(!gone.in_use);
                            prop_assert!(gone.class <= class);
                        }
                    }
                }
                let strangers = table.entries.values().filter(|it| it.class == Class::Stranger);
                prop_assert!(strangers.count() <= 9);
                prop_assert!(table.len() <= 12);
                prop_assert_eq!(table.quota.total(), table.len());
                let free = table.entries.values().filter(|it| !it.in_use).count();
                let indexed: usize = table.evictable.values().map(BTreeMap::len).sum();
                prop_assert_eq!(free, indexed);
                let weighed: usize = table.heaviest.values().flatten().map(|(count, ..)| *count).sum();
                prop_assert_eq!(free, weighed);
                for holder in 0..5 {
                    for class in [Class::Stranger, Class::Known] {
                        prop_assert!(table.held(&holder, class) <= 5);
                    }
                }
            }
        }
    }
}
