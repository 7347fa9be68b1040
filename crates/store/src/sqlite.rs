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
mod integrity;
mod meter;
mod migrations;
mod readers;
mod run;
mod sync;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::approvals::{self, Approvals, HeldCalls};
use crate::chains::{self, Chains};
use crate::learning::{self, Learning};
use crate::limits::DEFAULT_MAX_BYTES;
use crate::memories::{self, EraseProgress, Memories, Vectors};
use crate::pins::{self, PinKind, Pins};
use crate::plans::{self, Plans};
use crate::rate_buckets::{self, RateBuckets};
use crate::replay_ids::{self, ReplayIds};
use crate::results::{self, Results};
use crate::scope::{Backend, Owner, SessionId, Swept};
use crate::secrets::{self, SealedValues};
use crate::snapshots::{self, Snapshots};
use crate::{AgentId, Error, Limits, Moment, Pending, Uptime};

pub use backup::{Backup, Existing, backup};
pub use check::{Report, TableUse, check};
pub use integrity::Integrity;
pub use meter::USAGE;
pub(crate) use meter::{Expiring, Metered, metered};
pub use run::Restored;
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
    /// The largest size of a file in bytes that is checked before it is used, if the process before
    /// this one did not close it. A larger one is checked by [`Sqlite::finish_check`].
    pub checked_first: u64,
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
    run: run::Run,
    readers: readers::Readers,
    writer: writer::Writer,
    syncer: sync::Syncer,
    vectors: memories::VectorCache,
    last_erasure: Arc<memories::LastErasure>,
    mark: integrity::OpenMark,
    integrity: Mutex<Integrity>,
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
            max_bytes: DEFAULT_MAX_BYTES,
            checked_first: 256 * 1024 * 1024,
        }
    }
}

impl Sqlite {
    /// Opens a database, makes it if it is not there, and brings an older one up to date.
    ///
    /// The caller sees to it that no other process writes to it: requests that another one has
    /// begun count as cut off. If the process before this one did not close it, a small database is
    /// checked first; [`Self::integrity`] says whether a larger one still has to be.
    ///
    /// # Errors
    /// If it cannot be opened, is damaged, belongs to something else, is open to other users, or was
    /// written by a newer version.
    pub fn open(options: &Options) -> Result<Self, Error> {
        let path = &options.path;
        files::prepare(path)?;
        let mut connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let version = migrations::version(&connection, path)?;
        let mark = integrity::OpenMark::of(path);
        let integrity = match (mark.is_set(), files::size(path)?) {
            (false, _) => Integrity::NotNeeded,
            (true, size) if size > options.checked_first => Integrity::Running,
            (true, _) => {
                integrity::quick_check(&connection)?;
                Integrity::Passed
            }
        };
        mark.set()?;
        configure(&connection, options)?;
        migrations::migrate(&mut connection, version)?;
        let run = run::Run::begin(&mut connection, options.limits.results_kept)?;
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
            last_erasure: Arc::default(),
            mark,
            integrity: Mutex::new(integrity),
        })))
    }

    /// Whether the database was checked after an unclean end.
    #[must_use]
    pub fn integrity(&self) -> Integrity {
        *self.0.integrity()
    }

    /// Runs the check of a large database that is [`Integrity::Running`]; blocks until it ends, which
    /// may take minutes. The database can be used meanwhile.
    ///
    /// # Errors
    /// [`Error::Damaged`] with the first problem, or why the database cannot be checked.
    pub fn finish_check(&self) -> Result<(), Error> {
        if self.integrity() != Integrity::Running {
            return Ok(());
        }
        let checked = check::open(&self.0.path).and_then(|it| integrity::quick_check(&it));
        *self.0.integrity() = match &checked {
            Ok(()) => Integrity::Passed,
            Err(_) => Integrity::Damaged,
        };
        checked
    }

    /// Notes that the process ends in order: the next one need not check the database. One that is
    /// damaged, or whose check has not finished, is checked in any case. Dropping the last handle does
    /// the same.
    pub fn close(&self) {
        self.0.close();
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// What was interrupted and withdrawn because the database is a copy that [`backup()`] made, and is
    /// opened for the first time.
    #[must_use]
    pub fn restored(&self) -> Option<Restored> {
        self.0.run.restored
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

    fn integrity(&self) -> MutexGuard<'_, Integrity> {
        let integrity = self.integrity.lock();
        integrity.unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        let is_sound = matches!(*self.integrity(), Integrity::NotNeeded | Integrity::Passed);
        if is_sound && self.syncer.shared().broken.get().is_none() {
            // A mark that stays costs a check at the next start.
            let _ = self.mark.remove();
        }
    }

    pub(crate) const fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(crate) const fn vectors(&self) -> &memories::VectorCache {
        &self.vectors
    }

    /// Which opening of this database this is.
    pub(crate) const fn run(&self) -> i64 {
        self.run.number
    }

    /// See [`run::Run::stamp`].
    pub(crate) const fn stamp(&self, now: Uptime) -> i64 {
        self.run.stamp(now)
    }

    /// What ended up to this moment is not sent again.
    pub(crate) fn cutoff(&self, now: Uptime) -> i64 {
        self.stamp(now.minus(self.limits.results_kept))
    }

    /// See [`run::Run::unknown_for`].
    pub(crate) fn unknown_for(&self, now: Uptime) -> Option<Duration> {
        self.run.unknown_for(now)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.close();
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

    fn sweep(&self, now: Moment) -> Pending<Swept> {
        let Moment { unix, uptime } = now;
        let (run, cutoff) = (self.0.run(), self.0.cutoff(uptime));
        let stamp = self.0.stamp(uptime);
        let last = Arc::clone(&self.0.last_erasure);
        let sweep = move |connection: &Connection| {
            run::Run::sweep(connection, stamp)?;
            let swept = meter::sweep(connection, unix, run, cutoff)?;
            Ok((swept, memories::erase(connection, unix, &last)?))
        };
        let give = |(swept, erased): (Swept, EraseProgress), truncated| Swept {
            has_more: swept.has_more || erased == EraseProgress::Unfinished,
            is_erased: erased == EraseProgress::Complete && truncated == writer::Truncated::Yes,
            ..swept
        };
        // While a merge goes on, the log is emptied once, at its end.
        let is_due = |(_, erased): &(Swept, EraseProgress)| *erased != EraseProgress::Unfinished;
        self.0.writer.write_and_truncate(sweep, is_due, give)
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
