//! What is tested: a fresh store on each back end.

use std::ops::Deref;
use std::path::PathBuf;

use store::{
    AgentId, Hash, Limit, Limits, Memory, Moment, Options, Sqlite, Store, UnixMillis, Uptime,
};
use tempfile::TempDir;

/// Some time; the clock of a test is a number.
pub(crate) const NOW: UnixMillis = UnixMillis(1_770_000_000_000);

/// A store, with whatever it lives in.
pub(crate) struct Subject {
    store: Store,
    /// Removed with it.
    _folder: Option<TempDir>,
}

/// How a contract test gets its store.
pub(crate) type Make = fn(Limits) -> Subject;

pub(crate) fn memory(limits: Limits) -> Subject {
    Subject {
        store: Store::new(Memory::new(limits)),
        _folder: None,
    }
}

pub(crate) fn sqlite(limits: Limits) -> Subject {
    sqlite_at(limits).0
}

/// One in SQLite, and where its file is.
pub(crate) fn sqlite_at(limits: Limits) -> (Subject, PathBuf) {
    let folder = folder();
    let path = folder.path().join("store.db");
    let sqlite = Sqlite::open(&Options {
        limits,
        ..Options::new(&path)
    });
    let subject = Subject {
        store: Store::new(sqlite.unwrap()),
        _folder: Some(folder),
    };
    (subject, path)
}

/// A folder in memory if there is such a thing: these tests wait for no disk.
pub(crate) fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}

impl Deref for Subject {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.store
    }
}

/// Runs each test of a contract against each back end. A new back end is one more line here.
macro_rules! contract {
    ($($test:ident),+ $(,)?) => {
        mod memory {
            $(#[test] fn $test() { super::$test($crate::subject::memory); })+
        }
        mod sqlite {
            $(#[test] fn $test() { super::$test($crate::subject::sqlite); })+
        }
    };
}
pub(crate) use contract;

pub(crate) fn ada() -> AgentId {
    AgentId::new("ada").unwrap()
}

pub(crate) fn bob() -> AgentId {
    AgentId::new("bob").unwrap()
}

pub(crate) const fn hash(number: u8) -> Hash {
    Hash([number; 32])
}

/// Seconds after [`NOW`].
pub(crate) const fn at(seconds: i64) -> UnixMillis {
    UnixMillis(NOW.0 + seconds * 1000)
}

/// A process has just started.
pub(crate) const START: Uptime = Uptime(0);

/// Seconds after [`START`].
pub(crate) const fn up(seconds: i64) -> Uptime {
    Uptime(START.0 + seconds * 1000)
}

/// Seconds after [`NOW`] and [`START`].
pub(crate) const fn moment(seconds: i64) -> Moment {
    Moment {
        unix: at(seconds),
        uptime: up(seconds),
    }
}

pub(crate) const fn limit(value: usize, entries: usize, bytes: usize) -> Limit {
    Limit {
        value,
        entries,
        bytes,
    }
}
