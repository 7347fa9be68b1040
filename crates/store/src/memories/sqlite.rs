//! Memories in SQLite, with an FTS5 index of their words.
//!
//! The entries of one tier of a space are a *place*. Its number is the upper half of the numbers of
//! its entries, and they have them in the order they are written: so a range of numbers is all that
//! a search can reach, in the index too, and the lowest number is what was written first.

mod erase;
mod place;
mod put;
mod schema;
mod vectors;

use std::collections::HashSet;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row};

use super::find::{self, AT_ONCE, check, check_lists};
use super::{
    Entry, Forgotten, Found, MAX_FOUND, MAX_FOUND_BYTES, Memories, NewEntry, Rooms, Tier, TierSize,
    Unwanted, Wanted, check_space,
};
use crate::limits::Bytes;
use crate::scope::{Owner, SessionId};
use crate::sqlite::Database;
use crate::{Error, Pending, UnixMillis};

use place::InPlace;
use put::Prepared;

pub(crate) use erase::{EraseProgress, LastErasure, SCHEMA as ERASURE, erase};
pub(crate) use schema::{SCHEMA, SWEEP_PLACES, TABLE};
pub(crate) use vectors::{VectorCache, VectorsInSqlite};

pub use place::LATEST_MATCHING;
pub use put::INSERT;

const FIND_PLACE: &str = "SELECT id, entries, words, last FROM memory_places
     WHERE owner = ?1 AND tier = ?2 AND session = ?3 AND space = ?4";

/// A place with what has expired there, a row for each; one row if there is nothing.
const FIND_PLACE_AND_EXPIRED: &str = "SELECT p.id, p.entries, p.words, p.last, m.number
     FROM memory_places p LEFT JOIN memories m ON m.place = p.id AND m.expires <= ?5
     WHERE p.owner = ?1 AND p.tier = ?2 AND p.session = ?3 AND p.space = ?4";

/// The columns of an entry, in the order that [`read`] takes them.
macro_rules! columns {
    ($before:literal, $after:literal) => {
        concat!(
            $before,
            " m.key, m.created, m.updated, m.expires, m.weight, m.source, m.tags, m.content ",
            $after
        )
    };
}
use columns;

/// What has a key; public for the benchmark.
pub const BY_KEY: &str = columns!(
    "SELECT",
    "FROM memory_places p JOIN memories m ON m.place = p.id AND m.key = ?5
     WHERE p.owner = ?1 AND p.tier = ?2 AND p.session = ?3 AND p.space = ?4
     AND (m.expires IS NULL OR m.expires > ?6)"
);

const PAGE: &str = columns!(
    "SELECT m.number,",
    "FROM memories m WHERE m.number BETWEEN ?1 AND ?2
     AND (m.expires IS NULL OR m.expires > ?3) ORDER BY m.number LIMIT ?4"
);

/// What is counted for a place, without what has expired.
const SIZE: &str = "SELECT p.entries - count(m.number), p.bytes - coalesce(sum(m.bytes), 0)
     FROM memory_places p LEFT JOIN memories m ON m.place = p.id AND m.expires <= ?5
     WHERE p.owner = ?1 AND p.tier = ?2 AND p.session = ?3 AND p.space = ?4 GROUP BY p.id";

#[derive(Debug)]
pub(crate) struct InSqlite {
    database: Arc<Database>,
    whose: Whose,
}

/// Whose entries they are.
#[derive(Debug, Clone)]
struct Whose {
    owner: Arc<str>,
    session: Arc<str>,
    space: Arc<str>,
}

impl InSqlite {
    pub(crate) fn new(
        database: &Arc<Database>,
        owner: &Owner,
        session: &SessionId,
        space: &str,
    ) -> Self {
        Self {
            database: Arc::clone(database),
            whose: Whose {
                owner: owner.shared(),
                session: session.as_str().into(),
                space: space.into(),
            },
        }
    }
}

impl Memories for InSqlite {
    fn put(
        &self,
        now: UnixMillis,
        entries: Vec<NewEntry>,
        rooms: Rooms,
    ) -> Pending<Vec<Result<(), Error>>> {
        if let Err(error) = check_space(&self.whose.space) {
            return Pending::ready(Err(error));
        }
        let limits = *self.database.limits();
        // Read into words here, not on the thread that everybody waits for.
        let prepared: Vec<Result<Prepared, Error>> = entries
            .into_iter()
            .map(|entry| Prepared::new(entry, limits.memories))
            .collect();
        let sizes = prepared.iter().flatten().map(Prepared::weight);
        let whose = self.whose.clone();
        self.database.write(sizes.sum(), move |connection| {
            put::put(connection, &whose, now, &prepared, (&limits, rooms))
        })
    }

    fn find(&self, now: UnixMillis, wanted: &Wanted) -> Pending<Found> {
        if let Err(error) = check(wanted) {
            return Pending::ready(Err(error));
        }
        self.database
            .read(|connection| match wanted.keys.as_slice() {
                [key] if wanted.tags.is_empty() && wanted.query.is_empty() => {
                    self.whose.one(connection, now, key, wanted)
                }
                _ => {
                    let state = OneState::of(connection)?;
                    let vectors = Some(self.database.vectors());
                    let tiers = &wanted.tiers;
                    let places = self.whose.places(state.0, now, tiers, vectors)?;
                    find::find(&places, wanted)
                }
            })
    }

    fn forget(&self, now: UnixMillis, unwanted: &Unwanted) -> Pending<Forgotten> {
        if let Err(error) = check_lists(&unwanted.keys, &unwanted.tags) {
            return Pending::ready(Err(error));
        }
        let (whose, unwanted) = (self.whose.clone(), unwanted.clone());
        self.database.write(0, move |connection| {
            let mut forgotten = Forgotten::default();
            for place in whose.places(connection, now, &unwanted.tiers, None)? {
                let left = AT_ONCE - forgotten.removed;
                let (numbers, has_more) = find::unwanted(&place, &unwanted, left)?;
                forgotten.removed += numbers.len();
                forgotten.has_more |= has_more;
                remove(connection, &numbers)?;
            }
            Ok(forgotten)
        })
    }

    fn page(
        &self,
        now: UnixMillis,
        tier: Tier,
        after: i64,
        at_most: usize,
    ) -> Pending<Vec<(i64, Entry)>> {
        self.database.read(|connection| {
            let Some(found) = self.whose.place(connection, tier)? else {
                return Ok(Vec::new());
            };
            let mut page = connection.prepare_cached(PAGE)?;
            let first = found
                .base()
                .saturating_add(after.clamp(0, LAST))
                .saturating_add(1);
            let at_most = at_most.min(MAX_FOUND);
            let mut rows = page.query((first, found.end(), now.0, at_most))?;
            let (mut page, mut room) = (Vec::new(), Bytes::new(MAX_FOUND_BYTES));
            while let Some(row) = rows.next()? {
                let number: i64 = row.get(0)?;
                let entry = read(row, 1, tier)?;
                if !room.take(entry.size()) {
                    break;
                }
                page.push((number - found.base(), entry));
            }
            Ok(page)
        })
    }

    fn sizes(&self, now: UnixMillis) -> Pending<[TierSize; 3]> {
        self.database.read(|connection| {
            let mut sizes = [TierSize::default(); 3];
            for (size, tier) in sizes.iter_mut().zip(Tier::ALL) {
                let mut sum = connection.prepare_cached(SIZE)?;
                let (owner, number, session, space) = self.whose.names(tier);
                let found = sum.query_row((owner, number, session, space, now.0), |row| {
                    Ok(TierSize {
                        entries: row.get(0)?,
                        bytes: row.get(1)?,
                    })
                });
                *size = found.optional()?.unwrap_or_default();
            }
            Ok(sizes)
        })
    }

    fn end_session(&self) -> Pending<Forgotten> {
        let whose = self.whose.clone();
        self.database.write(0, move |connection| {
            let mut find = connection.prepare_cached(
                "SELECT m.number FROM memory_places p CROSS JOIN memories m
                 ON m.number BETWEEN p.id << 32 AND (p.id << 32) + 4294967295
                 WHERE p.owner = ?1 AND p.tier = 0 AND p.session = ?2
                 ORDER BY p.space, m.number LIMIT ?3",
            )?;
            let numbers = find.query_map((&*whose.owner, &*whose.session, AT_ONCE + 1), |row| {
                row.get(0)
            })?;
            let mut numbers: Vec<i64> = numbers.collect::<Result<_, _>>()?;
            let has_more = numbers.len() > AT_ONCE;
            numbers.truncate(AT_ONCE);
            remove(connection, &numbers)?;
            Ok(Forgotten {
                removed: numbers.len(),
                has_more,
            })
        })
    }
}

/// The most entries that are ever written in one place.
const LAST: i64 = u32::MAX as i64;

/// A place, as its row has it.
#[derive(Debug, Clone, Copy)]
struct PlaceRow {
    id: i64,
    entries: usize,
    words: usize,
    last: i64,
}

/// One state of the database, whatever is written while it is read. What begins and ends it is
/// prepared once: a transaction of `rusqlite` prepares both each time, which a short search feels.
struct OneState<'c>(&'c Connection);

impl<'c> OneState<'c> {
    fn of(connection: &'c Connection) -> Result<Self, Error> {
        connection.prepare_cached("BEGIN")?.execute([])?;
        Ok(Self(connection))
    }
}

impl Drop for OneState<'_> {
    fn drop(&mut self) {
        // Nothing was written, so nothing can be lost; a connection that stays where it was would
        // refuse to begin again, which whoever asks next is told.
        let ended = self.0.prepare_cached("COMMIT");
        let _ = ended.and_then(|mut end| end.execute([]));
    }
}

impl PlaceRow {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: row.get(0)?,
            entries: row.get(1)?,
            words: row.get(2)?,
            last: row.get(3)?,
        })
    }

    const fn base(&self) -> i64 {
        self.id << 32
    }

    const fn end(&self) -> i64 {
        self.base() + LAST
    }
}

impl Whose {
    /// What names the place of a tier.
    fn names(&self, tier: Tier) -> (&str, i64, &str, &str) {
        let (owner, session) = match tier {
            Tier::Working => (&*self.owner, &*self.session),
            Tier::Episodic => (&*self.owner, ""),
            Tier::Semantic => ("", ""),
        };
        (owner, tier.number(), session, &self.space)
    }

    fn place(&self, connection: &Connection, tier: Tier) -> Result<Option<PlaceRow>, Error> {
        let mut find = connection.prepare_cached(FIND_PLACE)?;
        let found = find.query_row(self.names(tier), PlaceRow::read);
        Ok(found.optional()?)
    }

    /// The places of these tiers that are there.
    fn places<'c>(
        &self,
        connection: &'c Connection,
        now: UnixMillis,
        tiers: &[Tier],
        vectors: Option<&'c VectorCache>,
    ) -> Result<Vec<InPlace<'c>>, Error> {
        let mut places = Vec::new();
        for tier in tiers {
            let (owner, number, session, space) = self.names(*tier);
            let mut find = connection.prepare_cached(FIND_PLACE_AND_EXPIRED)?;
            let mut rows = find.query((owner, number, session, space, now.0))?;
            let (mut place, mut expired) = (None, HashSet::new());
            while let Some(row) = rows.next()? {
                place = Some(PlaceRow::read(row)?);
                expired.extend(row.get::<_, Option<i64>>(4)?);
            }
            let place = place.map(|row| InPlace::new(connection, *tier, row, expired, vectors));
            places.extend(place);
        }
        Ok(places)
    }

    /// What has one key: what is asked most, with one statement for each tier.
    fn one(
        &self,
        connection: &Connection,
        now: UnixMillis,
        key: &str,
        wanted: &Wanted,
    ) -> Result<Found, Error> {
        let mut entries = Vec::new();
        for tier in &wanted.tiers {
            let (owner, number, session, space) = self.names(*tier);
            let mut find = connection.prepare_cached(BY_KEY)?;
            let names = (owner, number, session, space, key, now.0);
            let entry = find
                .query_row(names, |row| read(row, 0, *tier))
                .optional()?;
            entries.extend(entry.map(|entry| (entry, 1.0)));
        }
        if wanted.min_score > 1.0 {
            entries.clear();
        }
        let total = entries.len();
        entries.sort_by_key(|(entry, _)| (std::cmp::Reverse(entry.updated), entry.tier));
        entries.truncate(wanted.limit.min(MAX_FOUND));
        let mut room = Bytes::new(MAX_FOUND_BYTES);
        let fitting = entries
            .iter()
            .take_while(|(entry, _)| room.take(entry.size()));
        entries.truncate(fitting.count());
        Ok(Found {
            entries,
            total,
            is_more: false,
        })
    }
}

/// An entry, from the column on that is named.
fn read(row: &Row<'_>, first: usize, tier: Tier) -> rusqlite::Result<Entry> {
    let tags: String = row.get(first + 6)?;
    let expires: Option<i64> = row.get(first + 3)?;
    Ok(Entry {
        tier,
        key: row.get(first)?,
        created: UnixMillis(row.get(first + 1)?),
        updated: UnixMillis(row.get(first + 2)?),
        expires: expires.map_or(UnixMillis::NEVER, UnixMillis),
        weight: row.get(first + 4)?,
        source: row.get(first + 5)?,
        tags: put::split_tags(&tags),
        content: row.get(first + 7)?,
    })
}

fn remove(connection: &Connection, numbers: &[i64]) -> Result<(), Error> {
    let mut remove = connection.prepare_cached("DELETE FROM memories WHERE number = ?1")?;
    for number in numbers {
        remove.execute([number])?;
    }
    Ok(())
}
