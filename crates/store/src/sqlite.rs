//! A store in one SQLite file.
//!
//! One thread writes ([`writer`]): it takes all that waits, makes one transaction of it, and then
//! tells everybody; a small change is made by its caller if that thread has nothing to do. What was acknowledged is in the kernel's hands (the write-ahead log was
//! written), so it survives the death of the process; [`SyncMode`] says when it reaches the disk.
//! Readers ([`readers`]) have connections of their own, see the last commit, and wait for nobody.
//!
//! A trait's table, its SQL and its two implementations are in the trait's own file; the schema is
//! the list in [`migrations`].

mod backup;
mod check;
mod files;
mod meter;
mod migrations;
mod readers;
mod sync;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::approvals::{self, Approvals, HeldCalls};
use crate::chains::{self, Chains};
use crate::learning::{self, Learning};
use crate::memories::{self, Memories, Vectors};
use crate::pins::{self, PinKind, Pins};
use crate::plans::{self, Plans};
use crate::rate_buckets::{self, RateBuckets};
use crate::replay_ids::{self, ReplayIds};
use crate::results::{self, Results};
use crate::scope::{Backend, Owner, SessionId, Swept};
use crate::secrets::{self, SealedValues};
use crate::snapshots::{self, Snapshots};
use crate::{AgentId, Error, Limits, Pending, UnixMillis};

pub use backup::{Backup, Existing, backup};
pub use check::{Report, TableUse, check};
pub use meter::USAGE;
pub(crate) use meter::{Expiring, Metered, metered};
pub use sync::{NotASyncMode, SyncMode};

/// How to open a database.
#[derive(Debug, Clone)]
pub struct Options {
    /// The file. It is made if it is not there, for its owner alone.
    pub path: PathBuf,
    /// When writes reach the disk.
    pub sync: SyncMode,
    /// What is taken at most.
    pub limits: Limits,
    /// The largest size of the file in bytes, for all agents together.
    pub max_bytes: u64,
}

/// A back end in one SQLite file. Clones are the same; the file is closed with the last of them and
/// of its handles.
#[derive(Debug, Clone)]
pub struct Sqlite(Arc<Database>);

/// How much was written since the database was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Figures {
    /// Operations that were acknowledged.
    pub writes: u64,
    /// Transactions they were grouped into.
    pub groups: u64,
    /// How often the log was synced to the disk in the background.
    pub syncs: u64,
}

/// The open database: its writer and its readers.
#[derive(Debug)]
pub(crate) struct Database {
    path: PathBuf,
    limits: Limits,
    /// Which opening of this database this is. What another one left running was cut off.
    run: i64,
    readers: readers::Readers,
    writer: writer::Writer,
    syncer: sync::Syncer,
    vectors: memories::VectorCache,
}

/// How long a connection waits for a lock of another process, such as a checkpoint by `sqlite3`.
const PATIENCE: Duration = Duration::from_secs(5);

/// Pages of the log after which they are moved into the database: 16 MiB.
const CHECKPOINT_PAGES: u32 = 4096;

/// The log is cut to this size when it was larger.
const KEPT_LOG: i64 = 64 * 1024 * 1024;

/// More than all statements there are.
const STATEMENTS: usize = 256;

impl Options {
    /// The defaults, for a file.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            sync: SyncMode::default(),
            limits: Limits::default(),
            max_bytes: 16 * 1024 * 1024 * 1024,
        }
    }
}

impl Sqlite {
    /// Opens a database, makes it if it is not there, and brings an older one up to date.
    ///
    /// The caller sees to it that no other process writes to it: requests that another one has
    /// begun count as cut off.
    ///
    /// # Errors
    /// If it cannot be opened, belongs to something else, is open to other users, or was written
    /// by a newer version.
    pub fn open(options: &Options) -> Result<Self, Error> {
        let path = &options.path;
        files::prepare(path)?;
        let mut connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let version = migrations::version(&connection, path)?;
        configure(&connection, options)?;
        migrations::migrate(&mut connection, version)?;
        let run = migrations::begin_run(&connection)?;
        let files = files::Files::watch(path)?;
        let syncer = sync::Syncer::start(options.sync, &files)?;
        let writer = writer::Writer::start(connection, files, syncer.shared())?;
        Ok(Self(Arc::new(Database {
            path: path.clone(),
            limits: options.limits,
            run,
            readers: readers::Readers::new(path.clone()),
            writer,
            syncer,
            vectors: memories::VectorCache::default(),
        })))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// What was done since it was opened.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let shared = self.0.syncer.shared();
        Figures {
            writes: shared.writes.load(Ordering::Relaxed),
            groups: shared.groups.load(Ordering::Relaxed),
            syncs: shared.syncs.load(Ordering::Relaxed),
        }
    }
}

impl Database {
    /// Changes the database, together with others in one transaction; all of this change or
    /// nothing. `size` is about how much memory it takes while it waits.
    ///
    /// A change that refuses ([`Error::is_refusal`]) must do so before it writes. One that fails
    /// otherwise may be run again, alone.
    pub(crate) fn write<T: Send + 'static>(
        &self,
        size: usize,
        change: impl FnMut(&Connection) -> Result<T, Error> + Send + 'static,
    ) -> Pending<T> {
        self.writer.write(size, change)
    }

    /// As [`Self::write`], for a change of a few rows: it is made at once, on the caller's thread, if
    /// nobody else writes.
    pub(crate) fn write_here<T: Send + 'static>(
        &self,
        size: usize,
        change: impl FnMut(&Connection) -> Result<T, Error> + Send + 'static,
    ) -> Pending<T> {
        self.writer.write_here(size, change)
    }

    /// Reads from the last commit, at once, on the caller's thread.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&Connection) -> Result<T, Error>) -> Pending<T> {
        Pending::ready(self.readers.read(read))
    }

    pub(crate) const fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(crate) const fn vectors(&self) -> &memories::VectorCache {
        &self.vectors
    }

    pub(crate) const fn run(&self) -> i64 {
        self.run
    }
}

impl Backend for Sqlite {
    fn results(&self, owner: &Owner) -> Arc<dyn Results> {
        Arc::new(results::InSqlite::new(&self.0, owner))
    }

    fn snapshots(&self, owner: &Owner, session: &SessionId) -> Arc<dyn Snapshots> {
        Arc::new(snapshots::InSqlite::new(&self.0, owner, session))
    }

    fn replay_ids(&self, owner: &Owner) -> Arc<dyn ReplayIds> {
        Arc::new(replay_ids::InSqlite::new(&self.0, owner))
    }

    fn rate_buckets(&self, owner: &Owner) -> Arc<dyn RateBuckets> {
        Arc::new(rate_buckets::InSqlite::new(&self.0, owner))
    }

    fn held_calls(&self, owner: &Owner) -> Arc<dyn HeldCalls> {
        Arc::new(approvals::InSqlite::new(&self.0, owner))
    }

    fn approvals(&self) -> Arc<dyn Approvals> {
        Arc::new(approvals::InSqlite::new(&self.0, &Owner::node()))
    }

    fn pins(&self, kind: &PinKind) -> Arc<dyn Pins> {
        Arc::new(pins::InSqlite::new(&self.0, kind))
    }

    fn memories(&self, owner: &Owner, session: &SessionId, space: &str) -> Arc<dyn Memories> {
        Arc::new(memories::InSqlite::new(&self.0, owner, session, space))
    }

    fn vectors(&self, model: &str) -> Arc<dyn Vectors> {
        Arc::new(memories::VectorsInSqlite::new(&self.0, model))
    }

    fn chains(&self, owner: &Owner) -> Arc<dyn Chains> {
        Arc::new(chains::InSqlite::new(&self.0, owner))
    }

    fn open_chains(&self) -> Pending<Vec<(AgentId, i64)>> {
        chains::open_in_sqlite(&self.0)
    }

    fn learning(&self, owner: &Owner) -> Arc<dyn Learning> {
        Arc::new(learning::InSqlite::new(&self.0, owner))
    }

    fn plans(&self, owner: &Owner) -> Arc<dyn Plans> {
        Arc::new(plans::InSqlite::new(&self.0, owner))
    }

    fn sealed_values(&self, owner: &Owner) -> Arc<dyn SealedValues> {
        Arc::new(secrets::InSqlite::new(&self.0, owner))
    }

    fn sweep(&self, now: UnixMillis) -> Pending<Swept> {
        let (run, cutoff) = (self.0.run, now.minus(self.0.limits.results_kept));
        let sweep = move |connection: &Connection| {
            let results = results::sweep(connection, cutoff, run, meter::SWEEP)?;
            meter::sweep(connection, now, results)
        };
        let give = |swept: Swept, truncated| Swept {
            is_erased: truncated == writer::Truncated::Yes,
            ..swept
        };
        self.0.writer.write_and_truncate(sweep, give)
    }

    fn flush(&self) -> Pending<()> {
        self.0.syncer.flush()
    }
}

/// A connection to a database that is there.
fn connect(path: &Path, access: OpenFlags) -> Result<Connection, Error> {
    // A connection is used by one thread at a time, so SQLite needs no lock of its own.
    let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(PATIENCE)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // Statements are prepared once, also those that FTS5 has of its own: without this, SQLite
    // prepares one again whenever a parameter that could change its plan gets another value, such
    // as a limit. That took a third of the time of a search.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(connection)
}

fn configure(connection: &Connection, options: &Options) -> Result<(), Error> {
    let mode: String =
        connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
    if mode != "wal" {
        return Err(Error::Sql(format!(
            "the file system of {} has no shared memory, which a write-ahead log needs",
            options.path.display()
        )));
    }
    let synchronous = match options.sync {
        SyncMode::Commit => "FULL",
        SyncMode::Every(_) => "NORMAL",
    };
    connection.pragma_update(None, "synchronous", synchronous)?;
    // What is deleted is overwritten: a result that may not be kept must not be in the file.
    connection.pragma_update(None, "secure_delete", "ON")?;
    connection.pragma_update(None, "foreign_keys", "ON")?;
    connection.pragma_update(None, "journal_size_limit", KEPT_LOG)?;
    let page: i64 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
    let pages = options.max_bytes / u64::try_from(page.max(1)).unwrap_or(1);
    let pages = i64::try_from(pages).unwrap_or(i64::MAX).max(1);
    connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))?;
    Ok(())
}

#[cfg(test)]
mod tests;
