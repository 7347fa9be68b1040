//! What was approved once and must not change unseen: tool definitions, scripts, manifests.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row};

use crate::limits::{Size, check_name};
use crate::memory::{Kept, Memory};
use crate::sqlite::{Database, Metered, metered};
use crate::{Error, Hash, Pending, UnixMillis};

/// The pins of one kind, by name.
pub trait Pins: fmt::Debug + Send + Sync {
    /// Compares something with its pin. What is unknown or has changed is remembered as offered,
    /// so that the operator can see and approve exactly that.
    fn compare(&self, now: UnixMillis, name: &str, hash: Hash) -> Pending<Compared>;

    /// Pins something as it is, in place of what was pinned.
    fn pin(&self, now: UnixMillis, name: &str, hash: Hash) -> Pending<()>;

    /// Pins something that has a version of its own, such as a manifest its time of signing: in
    /// place of another only if it is strictly newer.
    fn advance(&self, now: UnixMillis, name: &str, hash: Hash, version: i64) -> Pending<Advanced>;

    /// A pin by its name.
    fn get(&self, name: &str) -> Pending<Option<Pin>>;

    /// All pins of this kind, by name.
    fn list(&self) -> Pending<Vec<(String, Pin)>>;

    /// Forgets a pin and what was offered for it.
    fn remove(&self, name: &str) -> Pending<()>;
}

/// What is pinned: `tool`, `script`, `manifest`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PinKind(&'static str);

/// What is known about something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pin {
    /// What was approved; nothing if it was only offered.
    pub pinned: Option<Hash>,
    /// The version of it; 0 if it has none.
    pub version: i64,
    /// What was last seen instead, and waits to be approved.
    pub offered: Option<Hash>,
    /// When something was first pinned or offered under this name.
    pub since: UnixMillis,
    /// When this last changed.
    pub at: UnixMillis,
}

/// How something compares with its pin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compared {
    /// Nothing was approved under this name.
    Unknown,
    /// It is what was approved.
    Same,
    /// It is not.
    Changed {
        /// What was.
        pinned: Hash,
    },
}

/// What came of an [advance](Pins::advance).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advanced {
    /// It is pinned now.
    Pinned,
    /// It was pinned already.
    Same,
    /// Something else is pinned that is as new or newer: this one is an older state played back.
    Rollback {
        /// What is pinned.
        pinned: Hash,
        /// Its version.
        version: i64,
    },
}

const WHAT: &str = "pin";

impl PinKind {
    /// Definitions of tools.
    pub const TOOL: Self = Self("tool");
    /// Skills, scripts and commands.
    pub const SCRIPT: Self = Self("script");
    /// Manifests of other agents.
    pub const MANIFEST: Self = Self("manifest");
    /// Agents that bound what they signed, and must not be believed when they no longer do.
    pub const PROFILE: Self = Self("profile");
    /// Repositories and their owners, by their numbers.
    pub const REPOSITORY: Self = Self("repository");

    /// Its name.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        self.0
    }
}

/// The size of a pin: its name and two hashes.
const fn size(name: &str) -> usize {
    name.len() + 64
}

/// What becomes of a pin when it is compared: the answer, and the pin if it changes.
fn compared(known: Option<&Pin>, now: UnixMillis, hash: Hash) -> (Compared, Option<Pin>) {
    let answer = match known.and_then(|pin| pin.pinned) {
        Some(pinned) if pinned == hash => return (Compared::Same, None),
        Some(pinned) => Compared::Changed { pinned },
        None => Compared::Unknown,
    };
    let offered = Pin {
        pinned: known.and_then(|pin| pin.pinned),
        version: known.map_or(0, |pin| pin.version),
        offered: Some(hash),
        since: known.map_or(now, |pin| pin.since),
        at: now,
    };
    let is_new = known.is_none_or(|pin| pin.offered != Some(hash));
    (answer, is_new.then_some(offered))
}

/// What becomes of a pin when something with a version comes.
fn advanced(known: Option<&Pin>, now: UnixMillis, new: (Hash, i64)) -> (Advanced, Option<Pin>) {
    let (hash, version) = new;
    let pin = Pin {
        version,
        ..approved(known, now, hash)
    };
    let Some((pinned, before)) = known.and_then(|pin| Some((pin.pinned?, pin.version))) else {
        return (Advanced::Pinned, Some(pin));
    };
    if pinned == hash {
        // A later signature over the same is remembered, an earlier one is none of a rollback.
        return (Advanced::Same, (version > before).then_some(pin));
    }
    match version > before {
        true => (Advanced::Pinned, Some(pin)),
        false => {
            let version = before;
            (Advanced::Rollback { pinned, version }, None)
        }
    }
}

fn approved(known: Option<&Pin>, now: UnixMillis, hash: Hash) -> Pin {
    Pin {
        pinned: Some(hash),
        version: 0,
        offered: None,
        since: known.map_or(now, |pin| pin.since),
        at: now,
    }
}

// In memory

#[derive(Debug)]
pub(crate) struct InMemory {
    memory: Memory,
    kind: Arc<str>,
}

impl InMemory {
    pub(crate) fn new(memory: &Memory, kind: &PinKind) -> Self {
        Self {
            memory: memory.clone(),
            kind: kind.as_str().into(),
        }
    }

    fn change<T>(
        &self,
        name: &str,
        decide: impl FnOnce(Option<&Pin>) -> (T, Option<Pin>),
    ) -> Result<T, Error> {
        check_name(WHAT, name)?;
        let pins = &mut self.memory.tables().pins;
        let known = pins.live(&self.kind, &name.to_owned(), UnixMillis(0));
        let (answer, pin) = decide(known.map(|kept| &kept.value));
        if let Some(value) = pin {
            let kept = Kept {
                value,
                bytes: size(name),
                expires: UnixMillis::NEVER,
            };
            let entry = BTreeMap::from([(name.to_owned(), kept)]);
            let limit = self.memory.limits().pins;
            pins.put(&self.kind, UnixMillis(0), limit, WHAT, entry)?;
        }
        Ok(answer)
    }
}

impl Pins for InMemory {
    fn compare(&self, now: UnixMillis, name: &str, hash: Hash) -> Pending<Compared> {
        Pending::ready(self.change(name, |known| compared(known, now, hash)))
    }

    fn pin(&self, now: UnixMillis, name: &str, hash: Hash) -> Pending<()> {
        Pending::ready(self.change(name, |known| ((), Some(approved(known, now, hash)))))
    }

    fn advance(&self, now: UnixMillis, name: &str, hash: Hash, version: i64) -> Pending<Advanced> {
        Pending::ready(self.change(name, |known| advanced(known, now, (hash, version))))
    }

    fn get(&self, name: &str) -> Pending<Option<Pin>> {
        let tables = self.memory.tables();
        let kept = tables
            .pins
            .live(&self.kind, &name.to_owned(), UnixMillis(0));
        Pending::ready(Ok(kept.map(|kept| kept.value)))
    }

    fn list(&self) -> Pending<Vec<(String, Pin)>> {
        let tables = self.memory.tables();
        let all = tables.pins.all_live(&self.kind, UnixMillis(0));
        Pending::ready(Ok(all
            .map(|(name, kept)| (name.clone(), kept.value))
            .collect()))
    }

    fn remove(&self, name: &str) -> Pending<()> {
        let mut tables = self.memory.tables();
        tables.pins.remove(&self.kind, &name.to_owned());
        Pending::ready(Ok(()))
    }
}

// In SQLite

/// `owner` is the kind.
pub(crate) const SCHEMA: &str = concat!(
    "CREATE TABLE pins (
        owner TEXT NOT NULL,
        name TEXT NOT NULL,
        pinned BLOB,
        version INTEGER NOT NULL,
        offered BLOB,
        at INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        PRIMARY KEY (owner, name)
    ) STRICT, WITHOUT ROWID;",
    metered!(triggers "pins")
);

/// Adds the time at which something was first pinned or offered under a name.
pub(crate) const SINCE: &str = "
ALTER TABLE pins ADD COLUMN since INTEGER NOT NULL DEFAULT 0;
UPDATE pins SET since = at;
";

pub(crate) const TABLE: Metered = metered!("pins", "pin");

/// Finds a pin; public for the benchmark.
pub const FIND: &str =
    "SELECT pinned, version, offered, at, since FROM pins WHERE owner = ?1 AND name = ?2";

#[derive(Debug)]
pub(crate) struct InSqlite {
    database: Arc<Database>,
    kind: &'static str,
}

impl InSqlite {
    pub(crate) fn new(database: &Arc<Database>, kind: &PinKind) -> Self {
        Self {
            database: Arc::clone(database),
            kind: kind.as_str(),
        }
    }

    fn change<T: Send + 'static>(
        &self,
        name: &str,
        decide: impl Fn(Option<&Pin>) -> (T, Option<Pin>) + Send + 'static,
    ) -> Pending<T> {
        let (kind, limit) = (self.kind, self.database.limits().pins);
        let name = name.to_owned();
        self.database.write(name.len(), move |connection| {
            check_name(WHAT, &name)?;
            let known = find(connection, kind, &name)?;
            let (answer, pin) = decide(known.as_ref());
            let Some(pin) = pin else {
                return Ok(answer);
            };
            if known.is_none() {
                let more = Size::one(size(&name));
                let place = (kind, UnixMillis(0));
                TABLE.make_room(connection, place, limit, Size::default(), more)?;
            }
            let mut keep = connection.prepare_cached(
                "INSERT INTO pins (owner, name, pinned, version, offered, at, bytes, since)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
                 ON CONFLICT (owner, name) DO UPDATE SET pinned = excluded.pinned,
                 version = excluded.version, offered = excluded.offered, at = excluded.at",
            )?;
            let hash = |hash: Option<Hash>| hash.map(|hash| hash.0);
            let (pinned, offered) = (hash(pin.pinned), hash(pin.offered));
            let values = (
                kind,
                &*name,
                pinned,
                pin.version,
                offered,
                pin.at.0,
                size(&name),
                pin.since.0,
            );
            keep.execute(values)?;
            Ok(answer)
        })
    }
}

impl Pins for InSqlite {
    fn compare(&self, now: UnixMillis, name: &str, hash: Hash) -> Pending<Compared> {
        // Most often nothing has changed, and then nothing needs to be written.
        let known = self
            .database
            .read(|connection| find(connection, self.kind, name));
        match known.wait() {
            Ok(Some(pin)) if pin.pinned == Some(hash) => Pending::ready(Ok(Compared::Same)),
            Ok(_) => self.change(name, move |known| compared(known, now, hash)),
            Err(error) => Pending::ready(Err(error)),
        }
    }

    fn pin(&self, now: UnixMillis, name: &str, hash: Hash) -> Pending<()> {
        self.change(name, move |known| ((), Some(approved(known, now, hash))))
    }

    fn advance(&self, now: UnixMillis, name: &str, hash: Hash, version: i64) -> Pending<Advanced> {
        self.change(name, move |known| advanced(known, now, (hash, version)))
    }

    fn get(&self, name: &str) -> Pending<Option<Pin>> {
        self.database
            .read(|connection| find(connection, self.kind, name))
    }

    fn list(&self) -> Pending<Vec<(String, Pin)>> {
        self.database.read(|connection| {
            let mut list = connection.prepare_cached(
                "SELECT pinned, version, offered, at, since, name FROM pins
                 WHERE owner = ?1 ORDER BY name",
            )?;
            let pins = list.query_map([self.kind], |row| Ok((row.get(5)?, pin(row)?)))?;
            Ok(pins.collect::<Result<_, _>>()?)
        })
    }

    fn remove(&self, name: &str) -> Pending<()> {
        let (kind, name) = (self.kind, name.to_owned());
        self.database.write(name.len(), move |connection| {
            let mut remove =
                connection.prepare_cached("DELETE FROM pins WHERE owner = ?1 AND name = ?2")?;
            remove.execute((kind, &*name))?;
            Ok(())
        })
    }
}

fn find(connection: &Connection, kind: &str, name: &str) -> Result<Option<Pin>, Error> {
    let mut find = connection.prepare_cached(FIND)?;
    Ok(find.query_row((kind, name), pin).optional()?)
}

fn pin(row: &Row<'_>) -> rusqlite::Result<Pin> {
    let hash = |index| Ok::<_, rusqlite::Error>(row.get::<_, Option<[u8; 32]>>(index)?.map(Hash));
    Ok(Pin {
        pinned: hash(0)?,
        version: row.get(1)?,
        offered: hash(2)?,
        since: UnixMillis(row.get(4)?),
        at: UnixMillis(row.get(3)?),
    })
}
