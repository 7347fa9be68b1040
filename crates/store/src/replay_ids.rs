//! Ids that may be used once: nonces, single-use credentials.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::limits::{Size, check_name};
use crate::memory::{Kept, Memory};
use crate::scope::Owner;
use crate::sqlite::{Database, Metered, metered};
use crate::{Error, Pending, UnixMillis};

/// The ids that one agent (or peer) has used.
pub trait ReplayIds: fmt::Debug + Send + Sync {
    /// Uses an id; of several at once one is the first. It is remembered at least until it expires, which
    /// is when the caller refuses it for its age, and then until its room is needed: the clock may be set
    /// back, and its age with it.
    ///
    /// Fails with [`Error::Full`] rather than forget one that has not expired: that one could be
    /// used again.
    fn use_once(&self, now: UnixMillis, id: &str, expires: UnixMillis) -> Pending<Use>;
}

/// Whether an id was used before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// It was not.
    First,
    /// It was: this is a replay.
    Again,
}

const WHAT: &str = "replay id";

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
}

impl ReplayIds for InMemory {
    fn use_once(&self, now: UnixMillis, id: &str, expires: UnixMillis) -> Pending<Use> {
        if let Err(error) = check_name(WHAT, id) {
            return Pending::ready(Err(error));
        }
        let mut tables = self.memory.tables();
        let ids = &mut tables.replay_ids;
        if ids.contains(&self.owner, &id.to_owned()) {
            return Pending::ready(Ok(Use::Again));
        }
        let limit = self.memory.limits().replay_ids;
        ids.make_room(&self.owner, now, limit, Size::one(id.len()));
        let kept = Kept {
            value: (),
            bytes: id.len(),
            expires,
        };
        let entry = BTreeMap::from([(id.to_owned(), kept)]);
        let put = ids.put(&self.owner, now, limit, WHAT, entry);
        Pending::ready(put.map(|()| Use::First))
    }
}

// In SQLite

pub(crate) const SCHEMA: &str = concat!(
    "CREATE TABLE replay_ids (
        owner TEXT NOT NULL,
        id TEXT NOT NULL,
        expires INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        PRIMARY KEY (owner, id)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX replay_ids_by_end ON replay_ids (expires);",
    metered!(triggers "replay_ids")
);

/// Rows do not go when they expire, but when there is no room.
pub(crate) const TABLE: Metered = metered!("replay_ids", "replay id");

/// Removes the id of an owner that has expired first.
const REMOVE_OLDEST: &str = "DELETE FROM replay_ids WHERE owner = ?1 AND id =
    (SELECT id FROM replay_ids WHERE owner = ?1 AND expires <= ?2 ORDER BY expires LIMIT 1)";

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

impl ReplayIds for InSqlite {
    fn use_once(&self, now: UnixMillis, id: &str, expires: UnixMillis) -> Pending<Use> {
        let limit = self.database.limits().replay_ids;
        let (owner, id) = (Arc::clone(&self.owner), id.to_owned());
        self.database.write_here(id.len(), move |connection| {
            check_name(WHAT, &id)?;
            let mut find = connection
                .prepare_cached("SELECT 1 FROM replay_ids WHERE owner = ?1 AND id = ?2")?;
            if find.exists((&*owner, &*id))? {
                return Ok(Use::Again);
            }
            let more = Size::one(id.len());
            let mut remove_oldest = connection.prepare_cached(REMOVE_OLDEST)?;
            while !limit.holds(TABLE.usage(connection, &owner)?.plus(more)) {
                if remove_oldest.execute((&*owner, now.0))? == 0 {
                    return Err(Error::Full { what: WHAT });
                }
            }
            let mut keep = connection.prepare_cached(
                "INSERT INTO replay_ids (owner, id, expires, bytes) VALUES (?1, ?2, ?3, ?4)",
            )?;
            keep.execute((&*owner, &*id, expires.0, id.len()))?;
            Ok(Use::First)
        })
    }
}
