//! Memories that end with their process.

mod seen;
mod vectors;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::analysis::Analysis;
use super::find::{self, AT_ONCE, check, check_lists};
use super::query::Pattern;
use super::{
    Entry, Forgotten, Found, MAX_FOUND, MAX_FOUND_BYTES, Memories, NewEntry, Overflow, Rooms, Tier,
    TierSize, Unwanted, WHAT, Wanted, check_space,
};
use crate::limits::{Bytes, Size};
use crate::memory::Memory;
use crate::scope::{Owner, SessionId};
use crate::{Error, Pending, UnixMillis};

use seen::Seen;

pub(crate) use vectors::VectorsInMemory;

#[derive(Debug)]
pub(crate) struct InMemory {
    memory: Memory,
    owner: Arc<str>,
    session: Arc<str>,
    space: Arc<str>,
}

/// All memories.
#[derive(Debug, Default)]
pub(crate) struct Table {
    places: BTreeMap<Name, Shelf>,
    last_id: i64,
}

/// Whose place it is: owner, tier, session and space.
type Name = (Arc<str>, Tier, Arc<str>, Arc<str>);

#[derive(Debug, Default)]
struct Shelf {
    rows: BTreeMap<i64, Row>,
    keys: HashMap<String, i64>,
    words: usize,
    last: i64,
}

#[derive(Debug)]
struct Row {
    /// Among all entries.
    id: i64,
    /// Its vector, or that it has none, by its model.
    vector: Option<(Arc<str>, Option<Vec<f32>>)>,
    entry: Entry,
    words: String,
    grams: String,
    length: usize,
    bytes: usize,
}

impl InMemory {
    pub(crate) fn new(memory: &Memory, owner: &Owner, session: &SessionId, space: &str) -> Self {
        Self {
            memory: memory.clone(),
            owner: owner.shared(),
            session: session.as_str().into(),
            space: space.into(),
        }
    }

    fn name(&self, tier: Tier) -> Name {
        let space = Arc::clone(&self.space);
        match tier {
            Tier::Working => (
                Arc::clone(&self.owner),
                tier,
                Arc::clone(&self.session),
                space,
            ),
            Tier::Episodic => (Arc::clone(&self.owner), tier, "".into(), space),
            Tier::Semantic => (Owner::node().shared(), tier, "".into(), space),
        }
    }

    /// Runs something on the places of these tiers that are there.
    fn on<T>(
        &self,
        now: UnixMillis,
        tiers: &[Tier],
        run: impl FnOnce(&[Seen<'_>]) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let tables = self.memory.tables();
        let places = tiers.iter().filter_map(|tier| {
            let shelf = tables.memories.places.get(&self.name(*tier))?;
            Some(Seen::new(shelf, *tier, now))
        });
        run(&places.collect::<Vec<_>>())
    }
}

impl Memories for InMemory {
    fn put(
        &self,
        now: UnixMillis,
        entries: Vec<NewEntry>,
        rooms: Rooms,
    ) -> Pending<Vec<Result<(), Error>>> {
        if let Err(error) = check_space(&self.space) {
            return Pending::ready(Err(error));
        }
        let limits = *self.memory.limits();
        let mut tables = self.memory.tables();
        let outcomes = entries.into_iter().map(|mut entry| {
            entry.check(limits.memories)?;
            let name = self.name(entry.tier);
            let table = &mut tables.memories;
            table.open(&name, limits.memory_spaces)?;
            let analysis = Analysis::of(&entry.text);
            let bytes = entry.bytes(&analysis);
            let going = table.going(&name, now, (&entry, bytes), limits.memories, rooms)?;
            table.last_id += 1;
            let id = table.last_id;
            let shelf = table.places.entry(name).or_default();
            entry.created = shelf.created(now, &entry);
            for number in going {
                shelf.remove(number);
            }
            shelf.insert(now, (entry, analysis, bytes), id);
            Ok(())
        });
        Pending::ready(Ok(outcomes.collect()))
    }

    fn find(&self, now: UnixMillis, wanted: &Wanted) -> Pending<Found> {
        let found = check(wanted)
            .and_then(|()| self.on(now, &wanted.tiers, |places| find::find(places, wanted)));
        Pending::ready(found)
    }

    fn forget(&self, now: UnixMillis, unwanted: &Unwanted) -> Pending<Forgotten> {
        if let Err(error) = check_lists(&unwanted.keys, &unwanted.tags) {
            return Pending::ready(Err(error));
        }
        let mut tables = self.memory.tables();
        let mut forgotten = Forgotten::default();
        for tier in &unwanted.tiers {
            let Some(shelf) = tables.memories.places.get_mut(&self.name(*tier)) else {
                continue;
            };
            let left = AT_ONCE - forgotten.removed;
            let chosen = find::unwanted(&Seen::new(shelf, *tier, now), unwanted, left);
            let (numbers, has_more) = match chosen {
                Ok(chosen) => chosen,
                Err(error) => return Pending::ready(Err(error)),
            };
            forgotten.removed += numbers.len();
            forgotten.has_more |= has_more;
            for number in numbers {
                shelf.remove(number);
            }
        }
        Pending::ready(Ok(forgotten))
    }

    fn page(
        &self,
        now: UnixMillis,
        tier: Tier,
        after: i64,
        at_most: usize,
    ) -> Pending<Vec<(i64, Entry)>> {
        let page = self.on(now, &[tier], |places| {
            let rows = places.iter().flat_map(|place| place.shelf.rows.iter());
            let live = rows.filter(|(number, row)| **number > after && row.entry.expires > now);
            let live = live.take(at_most.min(MAX_FOUND));
            let mut room = Bytes::new(MAX_FOUND_BYTES);
            let live = live.take_while(|(_, row)| room.take(row.entry.size()));
            Ok(live
                .map(|(number, row)| (*number, row.entry.clone()))
                .collect())
        });
        Pending::ready(page)
    }

    fn sizes(&self, now: UnixMillis) -> Pending<[TierSize; 3]> {
        let tables = self.memory.tables();
        let sizes = Tier::ALL.map(|tier| {
            let shelf = tables.memories.places.get(&self.name(tier));
            let rows = shelf.into_iter().flat_map(|shelf| shelf.rows.values());
            let live = rows.filter(|row| row.entry.expires > now);
            live.fold(TierSize::default(), |size, row| TierSize {
                entries: size.entries + 1,
                bytes: size.bytes + row.bytes,
            })
        });
        Pending::ready(Ok(sizes))
    }

    fn end_session(&self) -> Pending<Forgotten> {
        let mut tables = self.memory.tables();
        let mut forgotten = Forgotten::default();
        for ((owner, tier, session, _), shelf) in &mut tables.memories.places {
            if *tier != Tier::Working || *owner != self.owner || *session != self.session {
                continue;
            }
            let left = AT_ONCE - forgotten.removed;
            let numbers: Vec<i64> = shelf.rows.keys().take(left).copied().collect();
            forgotten.removed += numbers.len();
            for number in numbers {
                shelf.remove(number);
            }
            forgotten.has_more |= !shelf.rows.is_empty();
        }
        Pending::ready(Ok(forgotten))
    }
}

impl Table {
    /// Makes sure that a place is there, or may be.
    fn open(&mut self, name: &Name, at_most: usize) -> Result<(), Error> {
        if self.places.contains_key(name) {
            return Ok(());
        }
        let owned = |other: &Name| other.0 == name.0;
        if self.places.keys().filter(|other| owned(other)).count() >= at_most {
            self.places
                .retain(|other, shelf| !owned(other) || !shelf.rows.is_empty());
            if self.places.keys().filter(|other| owned(other)).count() >= at_most {
                return Err(Error::Full { what: "memory" });
            }
        }
        self.places.insert(name.clone(), Shelf::default());
        Ok(())
    }

    fn usage(&self, owner: &str) -> Size {
        let shelves = self.places.iter().filter(|(name, _)| *name.0 == *owner);
        let rows = shelves.flat_map(|(_, shelf)| shelf.rows.values());
        rows.fold(Size::default(), |size, row| size.plus(Size::one(row.bytes)))
    }

    /// What goes for an entry: the one it replaces, and as many others as it takes.
    fn going(
        &self,
        name: &Name,
        now: UnixMillis,
        (entry, bytes): (&NewEntry, usize),
        limit: crate::Limit,
        rooms: Rooms,
    ) -> Result<Vec<i64>, Error> {
        let empty = Shelf::default();
        let shelf = self.places.get(name).unwrap_or(&empty);
        let replaced = shelf.keys.get(&entry.key).copied();
        let mut going: Vec<i64> = replaced.into_iter().collect();
        let mut room = super::Room {
            entries: shelf.rows.len() + 1 - going.len(),
            at_most: rooms.of(entry.tier),
            used: self.usage(&name.0).plus(Size::one(bytes)),
            limit,
        };
        let replaced_row = replaced.and_then(|number| shelf.rows.get(&number));
        room.used = room
            .used
            .minus(replaced_row.map_or_else(Size::default, Row::size));
        let expired = |row: &Row| row.entry.expires <= now;
        let others = |wants_expired: bool| {
            let rows = shelf.rows.iter();
            rows.filter(move |(number, row)| {
                Some(**number) != replaced && expired(row) == wants_expired
            })
        };
        let evicted = others(false).filter(|_| rooms.overflow == Overflow::Evict);
        let mut candidates = others(true).chain(evicted);
        while !room.is_enough() {
            let Some((number, row)) = candidates.next() else {
                return Err(Error::Full { what: WHAT });
            };
            room.free(row.size());
            going.push(*number);
        }
        Ok(going)
    }

    /// Removes what has expired, and places that are empty; returns how many entries that were.
    pub(crate) fn sweep(&mut self, now: UnixMillis) -> usize {
        let mut removed = 0;
        self.places.retain(|_, shelf| {
            let expired = shelf
                .rows
                .iter()
                .filter(|(_, row)| row.entry.expires <= now);
            let expired: Vec<i64> = expired.map(|(number, _)| *number).collect();
            removed += expired.len();
            for number in expired {
                shelf.remove(number);
            }
            !shelf.rows.is_empty()
        });
        removed
    }
}

impl Shelf {
    /// When an entry with that key was first kept.
    fn created(&self, now: UnixMillis, new: &NewEntry) -> UnixMillis {
        let known = self
            .keys
            .get(&new.key)
            .and_then(|number| self.rows.get(number));
        let known = known.filter(|row| row.entry.expires > now);
        known.map_or_else(|| new.created.min(now), |row| row.entry.created)
    }

    fn remove(&mut self, number: i64) {
        if let Some(row) = self.rows.remove(&number) {
            self.words -= row.length;
            self.keys.remove(&row.entry.key);
        }
    }

    fn insert(
        &mut self,
        now: UnixMillis,
        (new, analysis, bytes): (NewEntry, Analysis, usize),
        id: i64,
    ) {
        let Analysis {
            words,
            length,
            grams,
        } = analysis;
        self.last += 1;
        self.words += length;
        self.keys.insert(new.key.clone(), self.last);
        let entry = Entry {
            tier: new.tier,
            key: new.key,
            content: new.content,
            tags: new.tags,
            source: new.source,
            weight: new.weight,
            created: new.created,
            updated: now,
            expires: new.expires,
        };
        let row = Row {
            id,
            vector: None,
            entry,
            words,
            grams,
            length,
            bytes,
        };
        self.rows.insert(self.last, row);
    }
}

impl Row {
    const fn size(&self) -> Size {
        Size::one(self.bytes)
    }

    fn fits(&self, pattern: &Pattern) -> bool {
        match pattern {
            Pattern::Word(word) => self.words.split(' ').any(|other| other == word),
            Pattern::Prefix(prefix) => {
                let mut words = self.words.split(' ');
                words.any(|other| other.starts_with(prefix.as_str()))
            }
            Pattern::Grams(groups) => groups.iter().any(|group| {
                let has = |gram: &String| self.grams.split(' ').any(|other| other == gram);
                group.iter().all(has)
            }),
            Pattern::All(all) => all.iter().all(|pattern| self.fits(pattern)),
            Pattern::Any(any) => any.iter().any(|pattern| self.fits(pattern)),
        }
    }
}
