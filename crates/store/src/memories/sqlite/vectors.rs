//! Vectors in SQLite, and in memory those of places that are searched.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, OptionalExtension};

use super::super::FORGET;
use super::super::matrix::Matrix;
use super::super::vectors::{EntryNumber, Near, Unread, Vectors, from_bytes, normalized, to_bytes};
use super::put::split_tags;
use crate::sqlite::Database;
use crate::{Error, Pending, UnixMillis};

#[derive(Debug)]
pub(crate) struct VectorsInSqlite {
    database: Arc<Database>,
    model: Arc<str>,
}

/// The vectors of places that were searched lately.
#[derive(Debug, Default)]
pub(crate) struct VectorCache(Mutex<Cache>);

#[derive(Debug, Default)]
struct Cache {
    places: HashMap<(i64, String), Loaded>,
    /// Counts searches, to tell what was used last.
    turn: u64,
}

#[derive(Debug, Clone, Default)]
struct Loaded {
    matrix: Arc<Matrix>,
    /// The latest vector that is in it.
    last: i64,
    used: u64,
}

/// Bytes of vectors that stay in memory.
const MAX_CACHED: usize = 1 << 30;

impl VectorsInSqlite {
    pub(crate) fn new(database: &Arc<Database>, model: &str) -> Self {
        Self {
            database: Arc::clone(database),
            model: model.into(),
        }
    }
}

impl Vectors for VectorsInSqlite {
    fn missing(&self, now: UnixMillis, at_most: usize) -> Pending<Vec<Unread>> {
        self.database.read(|connection| {
            let mut find = connection.prepare_cached(
                "SELECT number, key, content, tags FROM memories
                 WHERE embedded = 0 AND (expires IS NULL OR expires > ?1) LIMIT ?2",
            )?;
            let rows = find.query_map((now.0, at_most), |row| {
                Ok(Unread {
                    number: EntryNumber(row.get(0)?),
                    key: row.get(1)?,
                    content: row.get(2)?,
                    tags: split_tags(&row.get::<_, String>(3)?),
                })
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    fn put(&self, vectors: Vec<(EntryNumber, Vec<f32>)>) -> Pending<()> {
        let model = Arc::clone(&self.model);
        let size = vectors.iter().map(|(_, vector)| vector.len() * 4).sum();
        self.database.write(size, move |connection| {
            let model = model_id(connection, &model)?;
            let mut mark = connection.prepare_cached(
                "UPDATE memories SET embedded = 1 WHERE number = ?1 RETURNING place",
            )?;
            let mut keep = connection.prepare_cached(
                "INSERT OR REPLACE INTO memory_vectors (id, number, place, model, vector)
                 VALUES (?1, ?2, ?3, ?4, ?5)",
            )?;
            let first = take_ids(connection, vectors.len())?;
            for (id, (EntryNumber(number), vector)) in (first..).zip(&vectors) {
                let place: Option<i64> = mark.query_row([number], |row| row.get(0)).optional()?;
                // Who has no direction is near to nothing; it is not asked about again.
                if let (Some(place), Some(vector)) = (place, normalized(vector)) {
                    keep.execute((id, number, place, model, to_bytes(&vector)))?;
                }
            }
            Ok(())
        })
    }

    fn retire(&self) -> Pending<usize> {
        let model = Arc::clone(&self.model);
        self.database.write(0, move |connection| {
            let model = model_id(connection, &model)?;
            let mut find = connection
                .prepare_cached("SELECT number FROM memory_vectors WHERE model <> ?1 LIMIT ?2")?;
            let numbers = find.query_map((model, FORGET), |row| row.get(0))?;
            let numbers: Vec<i64> = numbers.collect::<Result<_, _>>()?;
            let mut again =
                connection.prepare_cached("UPDATE memories SET embedded = 0 WHERE number = ?1")?;
            let mut drop_it =
                connection.prepare_cached("DELETE FROM memory_vectors WHERE number = ?1")?;
            for number in &numbers {
                again.execute([number])?;
                drop_it.execute([number])?;
            }
            Ok(numbers.len())
        })
    }
}

/// The first of so many ids. None is ever given again: who has read up to one asks for those after it.
fn take_ids(connection: &Connection, count: usize) -> Result<i64, Error> {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    let mut take = connection.prepare_cached(
        "INSERT INTO node (name, value) VALUES ('vectors', ?1)
         ON CONFLICT (name) DO UPDATE SET value = value + ?1 RETURNING value",
    )?;
    let last: i64 = take.query_row([count], |row| row.get(0))?;
    Ok(last - count + 1)
}

/// The number that stands for a model.
fn model_id(connection: &Connection, model: &str) -> Result<i64, Error> {
    let mut make = connection.prepare_cached(
        "INSERT INTO memory_models (name) VALUES (?1) ON CONFLICT (name) DO UPDATE SET name = name
         RETURNING id",
    )?;
    Ok(make.query_row([model], |row| row.get(0))?)
}

impl VectorCache {
    /// The vectors of a place, with those that have come since it was last asked for.
    pub(super) fn matrix(
        &self,
        connection: &Connection,
        place: i64,
        near: &Near,
    ) -> Result<Arc<Matrix>, Error> {
        let key = (place, near.model.clone());
        let cache = self.lock();
        let mut loaded = cache.places.get(&key).cloned().unwrap_or_default();
        let is_look = cache.turn % 64 == 63;
        drop(cache);
        if is_look {
            let mut count = connection
                .prepare_cached("SELECT count(*) FROM memory_vectors WHERE place = ?1")?;
            let count: usize = count.query_row([place], |row| row.get(0))?;
            // What is gone is passed over; when it is much, all is read anew.
            if loaded.matrix.len() > count + count / 4 + 64 {
                loaded = Loaded::default();
            }
        }
        let mut find = connection.prepare_cached(
            "SELECT v.id, v.number, v.vector FROM memory_vectors v JOIN memory_models m
             ON m.id = v.model WHERE v.place = ?1 AND v.id > ?2 AND m.name = ?3 ORDER BY v.id",
        )?;
        let mut rows = find.query((place, loaded.last, &near.model))?;
        while let Some(row) = rows.next()? {
            loaded.last = row.get(0)?;
            let bytes = row.get_ref(2)?.as_blob().unwrap_or_default();
            Arc::make_mut(&mut loaded.matrix).push(row.get(1)?, &from_bytes(bytes));
        }
        Ok(self.keep(key, loaded))
    }

    fn keep(&self, key: (i64, String), mut loaded: Loaded) -> Arc<Matrix> {
        let mut cache = self.lock();
        cache.turn += 1;
        loaded.used = cache.turn;
        let matrix = Arc::clone(&loaded.matrix);
        cache.places.insert(key, loaded);
        let bytes = |cache: &Cache| -> usize {
            cache
                .places
                .values()
                .map(|loaded| loaded.matrix.bytes())
                .sum()
        };
        while bytes(&cache) > MAX_CACHED && cache.places.len() > 1 {
            let oldest = cache.places.iter().min_by_key(|(_, loaded)| loaded.used);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else {
                break;
            };
            cache.places.remove(&oldest);
        }
        matrix
    }

    fn lock(&self) -> MutexGuard<'_, Cache> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
