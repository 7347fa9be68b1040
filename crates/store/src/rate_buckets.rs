//! How far rates are used up, so that a restart does not refill them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension};

use crate::limits::{Size, check_name};
use crate::memory::{Kept, Memory};
use crate::scope::Owner;
use crate::sqlite::{Database, Metered, metered};
use crate::{Error, Limit, Pending, UnixMillis};

/// The rate buckets of one owner. What a state means is for whoever counts; the counting itself is
/// done in memory and saved from time to time and at the end.
pub trait RateBuckets: fmt::Debug + Send + Sync {
    /// Saves buckets in place of those of the same names, all or none of them.
    fn save(&self, now: UnixMillis, buckets: Vec<Bucket>) -> Pending<()>;

    /// The buckets that are not full, by name.
    fn load(&self, now: UnixMillis) -> Pending<Vec<Bucket>>;
}

/// A bucket on record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bucket {
    /// What it limits.
    pub name: String,
    /// How far it is used up.
    pub state: Vec<u8>,
    /// When it will be full again if nothing is taken.
    pub full_at: UnixMillis,
}

const WHAT: &str = "rate bucket";

impl Bucket {
    fn size(&self) -> usize {
        self.name.len() + self.state.len()
    }
}

/// The last of each name, checked.
fn checked(limit: Limit, buckets: Vec<Bucket>) -> Result<BTreeMap<String, Bucket>, Error> {
    for bucket in &buckets {
        check_name(WHAT, &bucket.name)?;
        limit.take(WHAT, bucket.state.len())?;
    }
    let named = buckets.into_iter();
    Ok(named.map(|bucket| (bucket.name.clone(), bucket)).collect())
}

// In memory

#[derive(Debug)]
pub(crate) struct InMemory {
    memory: Memory,
    owner: Arc<str>,
}

impl InMemory {
    pub(crate) fn new(memory: &Memory, owner: &Owner) -> Self {
        Self {
            memory: memory.clone(),
            owner: owner.shared(),
        }
    }

    fn put(&self, now: UnixMillis, buckets: Vec<Bucket>) -> Result<(), Error> {
        let limit = self.memory.limits().rate_buckets;
        let kept = |bucket: Bucket| Kept {
            bytes: bucket.size(),
            value: bucket.state,
            expires: bucket.full_at,
        };
        let buckets = checked(limit, buckets)?.into_iter();
        let entries = buckets.map(|(name, bucket)| (name, kept(bucket))).collect();
        let mut tables = self.memory.tables();
        tables
            .rate_buckets
            .put(&self.owner, now, limit, WHAT, entries)
    }
}

impl RateBuckets for InMemory {
    fn save(&self, now: UnixMillis, buckets: Vec<Bucket>) -> Pending<()> {
        Pending::ready(self.put(now, buckets))
    }

    fn load(&self, now: UnixMillis) -> Pending<Vec<Bucket>> {
        let tables = self.memory.tables();
        let live = tables.rate_buckets.all_live(&self.owner, now);
        let buckets = live.map(|(name, kept)| Bucket {
            name: name.clone(),
            state: kept.value.clone(),
            full_at: kept.expires,
        });
        Pending::ready(Ok(buckets.collect()))
    }
}

// In SQLite

pub(crate) const SCHEMA: &str = concat!(
    "CREATE TABLE rate_buckets (
        owner TEXT NOT NULL,
        name TEXT NOT NULL,
        state BLOB NOT NULL,
        expires INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        PRIMARY KEY (owner, name)
    ) STRICT, WITHOUT ROWID;",
    metered!(triggers "rate_buckets")
);

pub(crate) const TABLE: Metered = metered!("rate_buckets", "rate bucket", "owner, name");

#[derive(Debug)]
pub(crate) struct InSqlite {
    database: Arc<Database>,
    owner: Arc<str>,
}

impl InSqlite {
    pub(crate) fn new(database: &Arc<Database>, owner: &Owner) -> Self {
        Self {
            database: Arc::clone(database),
            owner: owner.shared(),
        }
    }
}

impl RateBuckets for InSqlite {
    fn save(&self, now: UnixMillis, buckets: Vec<Bucket>) -> Pending<()> {
        let limit = self.database.limits().rate_buckets;
        let owner = Arc::clone(&self.owner);
        let buckets = match checked(limit, buckets) {
            Ok(buckets) => buckets,
            Err(error) => return Pending::ready(Err(error)),
        };
        let size = buckets.values().map(Bucket::size).sum();
        self.database.write_here(size, move |connection| {
            let (mut less, mut more) = (Size::default(), Size::default());
            for bucket in buckets.values() {
                less = less.plus(live_size(connection, &owner, now, &bucket.name)?);
                more = more.plus(Size::one(bucket.size()));
            }
            TABLE.make_room(connection, (&owner, now), limit, less, more)?;
            let mut save = connection.prepare_cached(
                "INSERT INTO rate_buckets (owner, name, state, expires, bytes)
                 VALUES (?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT (owner, name) DO UPDATE SET
                 state = excluded.state, expires = excluded.expires, bytes = excluded.bytes",
            )?;
            for bucket in buckets.values() {
                let (name, state) = (&*bucket.name, &*bucket.state);
                save.execute((&*owner, name, state, bucket.full_at.0, bucket.size()))?;
            }
            Ok(())
        })
    }

    fn load(&self, now: UnixMillis) -> Pending<Vec<Bucket>> {
        self.database.read(|connection| {
            let mut load = connection.prepare_cached(
                "SELECT name, state, expires FROM rate_buckets
                 WHERE owner = ?1 AND expires > ?2 ORDER BY name",
            )?;
            let buckets = load.query_map((&*self.owner, now.0), |row| {
                Ok(Bucket {
                    name: row.get(0)?,
                    state: row.get(1)?,
                    full_at: UnixMillis(row.get(2)?),
                })
            })?;
            Ok(buckets.collect::<Result<_, _>>()?)
        })
    }
}

/// What a bucket that is not full counts.
fn live_size(
    connection: &Connection,
    owner: &str,
    now: UnixMillis,
    name: &str,
) -> Result<Size, Error> {
    let mut find = connection.prepare_cached(
        "SELECT bytes FROM rate_buckets WHERE owner = ?1 AND name = ?2 AND expires > ?3",
    )?;
    let bytes = find.query_row((owner, name, now.0), |row| row.get(0));
    Ok(bytes.optional()?.map_or_else(Size::default, Size::one))
}
