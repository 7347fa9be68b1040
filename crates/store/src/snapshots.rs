//! Records of a session: what it has written and what is kept for it, so that it outlives its
//! process.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension};

use crate::limits::{Size, check_name};
use crate::memory::{Kept, Memory};
use crate::scope::{Owner, SessionId};
use crate::sqlite::{Database, Metered, metered};
use crate::{Error, Limit, Pending, UnixMillis};

/// The records of one session, by name. Each write says until when its record is kept; one that
/// has expired is as good as gone.
///
/// A write fails with [`Error::TooLarge`] or [`Error::Full`] and then changes nothing: what a
/// session needs is never dropped for another.
pub trait Snapshots: fmt::Debug + Send + Sync {
    /// Adds to the end of a record, or begins it.
    fn append(
        &self,
        now: UnixMillis,
        name: &str,
        bytes: Vec<u8>,
        expires: UnixMillis,
    ) -> Pending<()>;

    /// Replaces a record as a whole.
    fn put(&self, now: UnixMillis, name: &str, bytes: Vec<u8>, expires: UnixMillis) -> Pending<()>;

    /// A record, if there is one.
    fn get(&self, now: UnixMillis, name: &str) -> Pending<Option<Vec<u8>>>;

    /// Removes a record, if there is one.
    fn remove(&self, name: &str) -> Pending<()>;

    /// Removes all records of the session.
    fn clear(&self) -> Pending<()>;
}

const WHAT: &str = "snapshot";

// In memory

#[derive(Debug)]
pub(crate) struct InMemory {
    memory: Memory,
    owner: Arc<str>,
    session: Arc<str>,
}

impl InMemory {
    pub(crate) fn new(memory: &Memory, owner: &Owner, session: &SessionId) -> Self {
        Self {
            memory: memory.clone(),
            owner: owner.shared(),
            session: session.as_str().into(),
        }
    }

    fn key(&self, name: &str) -> (Arc<str>, String) {
        (Arc::clone(&self.session), name.to_owned())
    }

    fn set(
        &self,
        now: UnixMillis,
        name: &str,
        bytes: &[u8],
        expires: UnixMillis,
        is_new: bool,
    ) -> Result<(), Error> {
        check_name(WHAT, name)?;
        let limit = self.memory.limits().snapshots;
        let mut tables = self.memory.tables();
        let known = tables.snapshots.live(&self.owner, &self.key(name), now);
        let mut value = match known {
            Some(kept) if !is_new => kept.value.clone(),
            _ => Vec::new(),
        };
        value.extend_from_slice(bytes);
        limit.take(WHAT, value.len())?;
        let kept = Kept {
            bytes: self.session.len() + name.len() + value.len(),
            value,
            expires,
        };
        let entry = BTreeMap::from([(self.key(name), kept)]);
        tables.snapshots.put(&self.owner, now, limit, WHAT, entry)
    }
}

impl Snapshots for InMemory {
    fn append(
        &self,
        now: UnixMillis,
        name: &str,
        bytes: Vec<u8>,
        expires: UnixMillis,
    ) -> Pending<()> {
        Pending::ready(self.set(now, name, &bytes, expires, false))
    }

    fn put(&self, now: UnixMillis, name: &str, bytes: Vec<u8>, expires: UnixMillis) -> Pending<()> {
        Pending::ready(self.set(now, name, &bytes, expires, true))
    }

    fn get(&self, now: UnixMillis, name: &str) -> Pending<Option<Vec<u8>>> {
        let tables = self.memory.tables();
        let kept = tables.snapshots.live(&self.owner, &self.key(name), now);
        Pending::ready(Ok(kept.map(|kept| kept.value.clone())))
    }

    fn remove(&self, name: &str) -> Pending<()> {
        let mut tables = self.memory.tables();
        tables.snapshots.remove(&self.owner, &self.key(name));
        Pending::ready(Ok(()))
    }

    fn clear(&self) -> Pending<()> {
        let mut tables = self.memory.tables();
        let is_other = |(session, _): &(Arc<str>, String), _: &_| *session != self.session;
        tables.snapshots.retain(&self.owner, is_other);
        Pending::ready(Ok(()))
    }
}

// In SQLite

/// A record is its parts in order, so that adding to it does not write it again.
pub(crate) const SCHEMA: &str = concat!(
    "CREATE TABLE snapshots (
        number INTEGER PRIMARY KEY,
        owner TEXT NOT NULL,
        session TEXT NOT NULL,
        name TEXT NOT NULL,
        parts INTEGER NOT NULL,
        expires INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        UNIQUE (owner, session, name)
    ) STRICT;
    CREATE TABLE snapshot_parts (
        snapshot INTEGER NOT NULL REFERENCES snapshots ON DELETE CASCADE,
        part INTEGER NOT NULL,
        body BLOB NOT NULL,
        PRIMARY KEY (snapshot, part)
    ) STRICT, WITHOUT ROWID;",
    metered!(triggers "snapshots")
);

pub(crate) const TABLE: Metered = metered!("snapshots", "snapshot", "number");

/// Finds a record. This and what follows is public for the benchmark.
pub const FIND: &str = "SELECT number, parts, expires, bytes FROM snapshots
    WHERE owner = ?1 AND session = ?2 AND name = ?3";
/// Notes an addition to a record.
pub const GROW: &str =
    "UPDATE snapshots SET parts = parts + 1, expires = ?2, bytes = ?3 WHERE number = ?1";
/// Adds to a record.
pub const ADD_PART: &str = "INSERT INTO snapshot_parts (snapshot, part, body) VALUES (?1, ?2, ?3)";
/// Reads a record.
pub const READ: &str = "SELECT body FROM snapshots
    JOIN snapshot_parts ON snapshot = number
    WHERE owner = ?1 AND session = ?2 AND name = ?3 AND expires > ?4 ORDER BY part";

#[derive(Debug)]
pub(crate) struct InSqlite {
    database: Arc<Database>,
    owner: Arc<str>,
    session: Arc<str>,
}

/// One record, for a change.
struct Place {
    owner: Arc<str>,
    session: Arc<str>,
    name: String,
}

struct Row {
    number: i64,
    parts: i64,
    expires: i64,
    bytes: usize,
}

impl InSqlite {
    pub(crate) fn new(database: &Arc<Database>, owner: &Owner, session: &SessionId) -> Self {
        Self {
            database: Arc::clone(database),
            owner: owner.shared(),
            session: session.as_str().into(),
        }
    }

    fn place(&self, name: &str) -> Place {
        Place {
            owner: Arc::clone(&self.owner),
            session: Arc::clone(&self.session),
            name: name.to_owned(),
        }
    }

    fn set(
        &self,
        now: UnixMillis,
        name: &str,
        bytes: Vec<u8>,
        expires: UnixMillis,
        is_new: bool,
    ) -> Pending<()> {
        let limit = self.database.limits().snapshots;
        let place = self.place(name);
        self.database.write(bytes.len(), move |connection| {
            check_name(WHAT, &place.name)?;
            let known = place.find(connection)?;
            let live = known.as_ref().filter(|row| row.expires > now.0);
            match live {
                Some(row) if !is_new => place.grow(connection, (now, expires), limit, row, &bytes),
                _ => place.replace(connection, (now, expires), limit, live, &bytes),
            }
        })
    }
}

impl Place {
    fn find(&self, connection: &Connection) -> Result<Option<Row>, Error> {
        let mut find = connection.prepare_cached(FIND)?;
        let row = find.query_row((&*self.owner, &*self.session, &*self.name), |row| {
            Ok(Row {
                number: row.get(0)?,
                parts: row.get(1)?,
                expires: row.get(2)?,
                bytes: row.get(3)?,
            })
        });
        Ok(row.optional()?)
    }

    /// What a record counts beside its content.
    fn base_size(&self) -> usize {
        self.session.len() + self.name.len()
    }

    fn grow(
        &self,
        connection: &Connection,
        (now, expires): (UnixMillis, UnixMillis),
        limit: Limit,
        row: &Row,
        bytes: &[u8],
    ) -> Result<(), Error> {
        let size = row.bytes + bytes.len();
        limit.take(WHAT, size - self.base_size())?;
        let (less, more) = (Size::one(row.bytes), Size::one(size));
        TABLE.make_room(connection, (&self.owner, now), limit, less, more)?;
        let mut grow = connection.prepare_cached(GROW)?;
        grow.execute((row.number, expires.0, size))?;
        add_part(connection, row.number, row.parts, bytes)
    }

    /// Begins a record anew; `live` is the one that counts until then.
    fn replace(
        &self,
        connection: &Connection,
        (now, expires): (UnixMillis, UnixMillis),
        limit: Limit,
        live: Option<&Row>,
        bytes: &[u8],
    ) -> Result<(), Error> {
        limit.take(WHAT, bytes.len())?;
        let size = self.base_size() + bytes.len();
        let less = live.map_or_else(Size::default, |row| Size::one(row.bytes));
        TABLE.make_room(connection, (&self.owner, now), limit, less, Size::one(size))?;
        self.remove(connection)?;
        let mut insert = connection.prepare_cached(
            "INSERT INTO snapshots (owner, session, name, parts, expires, bytes)
             VALUES (?1, ?2, ?3, 1, ?4, ?5)",
        )?;
        let names = (&*self.owner, &*self.session, &*self.name);
        insert.execute((names.0, names.1, names.2, expires.0, size))?;
        add_part(connection, connection.last_insert_rowid(), 0, bytes)
    }

    fn remove(&self, connection: &Connection) -> Result<(), Error> {
        let mut remove = connection.prepare_cached(
            "DELETE FROM snapshots WHERE owner = ?1 AND session = ?2 AND name = ?3",
        )?;
        remove.execute((&*self.owner, &*self.session, &*self.name))?;
        Ok(())
    }
}

fn add_part(connection: &Connection, number: i64, part: i64, bytes: &[u8]) -> Result<(), Error> {
    let mut add = connection.prepare_cached(ADD_PART)?;
    add.execute((number, part, bytes))?;
    Ok(())
}

impl Snapshots for InSqlite {
    fn append(
        &self,
        now: UnixMillis,
        name: &str,
        bytes: Vec<u8>,
        expires: UnixMillis,
    ) -> Pending<()> {
        self.set(now, name, bytes, expires, false)
    }

    fn put(&self, now: UnixMillis, name: &str, bytes: Vec<u8>, expires: UnixMillis) -> Pending<()> {
        self.set(now, name, bytes, expires, true)
    }

    fn get(&self, now: UnixMillis, name: &str) -> Pending<Option<Vec<u8>>> {
        self.database.read(|connection| {
            let mut read = connection.prepare_cached(READ)?;
            let mut rows = read.query((&*self.owner, &*self.session, name, now.0))?;
            let mut record: Option<Vec<u8>> = None;
            while let Some(row) = rows.next()? {
                let part = row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?;
                record.get_or_insert_default().extend_from_slice(part);
            }
            Ok(record)
        })
    }

    fn remove(&self, name: &str) -> Pending<()> {
        let place = self.place(name);
        self.database
            .write(name.len(), move |connection| place.remove(connection))
    }

    fn clear(&self) -> Pending<()> {
        let (owner, session) = (Arc::clone(&self.owner), Arc::clone(&self.session));
        self.database.write(0, move |connection| {
            let mut clear = connection
                .prepare_cached("DELETE FROM snapshots WHERE owner = ?1 AND session = ?2")?;
            clear.execute((&*owner, &*session))?;
            Ok(())
        })
    }
}
