//! The thread that writes, and how others write when it has nothing to do.

use std::collections::VecDeque;
use std::ffi::c_int;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::hooks::Wal;

use super::PATIENCE;
use super::files::Files;
use super::sync::Shared;
use crate::pending::Promise;
use crate::{Error, Pending};

/// How many changes may wait, and how much memory they may take.
pub(super) const MAX_WAITING: usize = 16 * 1024;
pub(super) const MAX_WAITING_BYTES: usize = 128 * 1024 * 1024;

/// What goes into one transaction at most, so that it does not keep the first of it waiting.
const MAX_GROUP: usize = 1024;
const MAX_GROUP_BYTES: usize = 16 * 1024 * 1024;

/// What a change takes while it waits, beside its data.
const CHANGE: usize = 256;

/// What is written on the caller's thread at most.
pub(super) const MAX_HERE: usize = 64 * 1024;

/// The writer's handle. The thread ends, with everything written that was taken, when it is dropped.
#[derive(Debug)]
pub(super) struct Writer {
    queue: Arc<Queue>,
    work: Arc<Mutex<Work>>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// Whether the log was emptied after a change, so that what the change deleted is on no disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Truncated {
    Yes,
    No,
}

/// What waits to be written.
#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    /// There is something to do.
    more: Condvar,
}

#[derive(Default)]
struct State {
    changes: VecDeque<Waiting>,
    bytes: usize,
    is_closed: bool,
    /// The log has grown long.
    wants_checkpoint: bool,
    /// The writer waits for something to do. To wake it when it does not is a system call too.
    is_idle: bool,
}

struct Waiting {
    change: Box<dyn Change>,
    bytes: usize,
}

/// One caller's change, whatever it gives back.
trait Change: Send {
    fn apply(&mut self, connection: &Connection) -> Result<(), Error>;
    fn wants_truncation(&self) -> bool;
    fn settle(self: Box<Self>, outcome: Result<Truncated, Error>);
}

struct Typed<A, G, T, U> {
    act: A,
    give: G,
    wants_truncation: fn(&T) -> bool,
    /// What came of it, refusals included.
    value: Option<Result<T, Error>>,
    promise: Promise<U>,
}

impl Writer {
    pub(super) fn start(
        mut connection: Connection,
        files: Files,
        shared: Arc<Shared>,
    ) -> Result<Self, Error> {
        // It stands in for SQLite's own checkpoints, which are part of whichever commit is due: they
        // take long, and a commit may be made on a thread that others wait for.
        let log = Arc::clone(&shared);
        connection.wal_hook(Some(move |_: &mut Wal, pages: c_int| {
            let pages = u32::try_from(pages).unwrap_or_default();
            log.log_pages.store(pages, Ordering::Relaxed);
            Ok(())
        }))?;
        let queue = Arc::new(Queue::default());
        let work = Arc::new(Mutex::new(Work {
            connection,
            files,
            shared: Arc::clone(&shared),
        }));
        let thread = thread::Builder::new().name("store-writer".into()).spawn({
            let (queue, work) = (Arc::clone(&queue), Arc::clone(&work));
            move || run(&queue, &work)
        });
        let thread = thread.map_err(|error| Error::Sql(format!("no thread to write: {error}")))?;
        Ok(Self {
            queue,
            work,
            shared,
            thread: Some(thread),
        })
    }

    pub(super) fn write<T: Send + 'static>(
        &self,
        size: usize,
        act: impl FnMut(&Connection) -> Result<T, Error> + Send + 'static,
    ) -> Pending<T> {
        match self.change(size, act, |value, _| value, |_| false) {
            Ok((waiting, pending)) => self.submit(waiting, pending),
            Err(error) => Pending::ready(Err(error)),
        }
    }

    /// As [`Self::write`]; on this thread and at once if nobody else writes and no disk is waited
    /// for. To hand a few rows to another thread and be woken by it takes longer than to write them.
    pub(super) fn write_here<T: Send + 'static>(
        &self,
        size: usize,
        act: impl FnMut(&Connection) -> Result<T, Error> + Send + 'static,
    ) -> Pending<T> {
        let (waiting, pending) = match self.change(size, act, |value, _| value, |_| false) {
            Ok(made) => made,
            Err(error) => return Pending::ready(Err(error)),
        };
        if size > MAX_HERE || !self.shared.is_synced_later() {
            return self.submit(waiting, pending);
        }
        // What came before is written before.
        let free = {
            let state = self.queue.lock();
            let is_free = state.is_idle && state.changes.is_empty() && !state.is_closed;
            is_free.then(|| self.work.try_lock().ok()).flatten()
        };
        let Some(work) = free else {
            return self.submit(waiting, pending);
        };
        match work.begin_at_once() {
            Ok(()) => work.write_begun(waiting.change),
            // Another process writes; this thread does not wait for it.
            Err(_) => return self.submit(waiting, pending),
        }
        drop(work);
        if self.shared.is_log_long() {
            self.queue.want_checkpoint();
        }
        pending
    }

    /// Changes the database and then empties the log, if the outcome asks for that and nobody reads from
    /// it; `give` is told.
    pub(super) fn write_and_truncate<T: Send + 'static, U: Send + 'static>(
        &self,
        act: impl FnMut(&Connection) -> Result<T, Error> + Send + 'static,
        wants_truncation: fn(&T) -> bool,
        give: impl FnOnce(T, Truncated) -> U + Send + 'static,
    ) -> Pending<U> {
        match self.change(0, act, give, wants_truncation) {
            Ok((waiting, pending)) => self.submit(waiting, pending),
            Err(error) => Pending::ready(Err(error)),
        }
    }

    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.queue.lock().is_idle
    }

    fn change<T: Send + 'static, U: Send + 'static>(
        &self,
        size: usize,
        act: impl FnMut(&Connection) -> Result<T, Error> + Send + 'static,
        give: impl FnOnce(T, Truncated) -> U + Send + 'static,
        wants_truncation: fn(&T) -> bool,
    ) -> Result<(Waiting, Pending<U>), Error> {
        if let Some(error) = self.shared.broken.get() {
            return Err(error.clone());
        }
        let (promise, pending) = Pending::promised();
        let change = Box::new(Typed {
            act,
            give,
            wants_truncation,
            value: None,
            promise,
        });
        let bytes = size.saturating_add(CHANGE);
        Ok((Waiting { change, bytes }, pending))
    }

    fn submit<U>(&self, waiting: Waiting, pending: Pending<U>) -> Pending<U> {
        match self.queue.push(waiting) {
            Ok(()) => pending,
            Err(error) => Pending::ready(Err(error)),
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue.close();
        if let Some(thread) = self.thread.take()
            // The last handle may be dropped by a task that the writer just woke.
            && thread.thread().id() != thread::current().id()
        {
            // It panics with nothing that is not told to the callers anyway.
            let _ = thread.join();
        }
    }
}

impl Queue {
    fn push(&self, waiting: Waiting) -> Result<(), Error> {
        let mut state = self.lock();
        if state.is_closed {
            return Err(Error::Closed);
        }
        let bytes = state.bytes.saturating_add(waiting.bytes);
        // Even the largest value is taken, if it is alone.
        let has_room = bytes <= MAX_WAITING_BYTES || state.changes.is_empty();
        if state.changes.len() >= MAX_WAITING || !has_room {
            return Err(Error::Busy);
        }
        state.bytes = bytes;
        state.changes.push_back(waiting);
        let is_idle = std::mem::take(&mut state.is_idle);
        drop(state);
        if is_idle {
            self.more.notify_one();
        }
        Ok(())
    }

    /// Waits for something to do; false when all is done and no more will come.
    fn take(&self, group: &mut Vec<Box<dyn Change>>) -> bool {
        let mut state = self.lock();
        while state.changes.is_empty() && !state.is_closed && !state.wants_checkpoint {
            state.is_idle = true;
            state = self
                .more
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.is_idle = false;
        let is_wanted = std::mem::take(&mut state.wants_checkpoint);
        let mut bytes = 0_usize;
        while group.len() < MAX_GROUP
            && let Some(next) = state.changes.front()
            && (group.is_empty() || bytes.saturating_add(next.bytes) <= MAX_GROUP_BYTES)
            && let Some(next) = state.changes.pop_front()
        {
            bytes = bytes.saturating_add(next.bytes);
            group.push(next.change);
        }
        state.bytes = state.bytes.saturating_sub(bytes);
        is_wanted || !group.is_empty()
    }

    /// Has the writer look after the log before anything else is written.
    fn want_checkpoint(&self) {
        let mut state = self.lock();
        state.wants_checkpoint = true;
        state.is_idle = false;
        drop(state);
        self.more.notify_one();
    }

    fn close(&self) {
        self.lock().is_closed = true;
        self.more.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Queue({} waiting)", self.lock().changes.len())
    }
}

/// What whoever writes works with.
#[derive(Debug)]
struct Work {
    connection: Connection,
    files: Files,
    shared: Arc<Shared>,
}

/// Where a group failed.
enum Failure {
    /// In one of the changes: the others are not to blame.
    Change(Error),
    /// Before or after them.
    Group(Error),
}

/// Closes the queue even if the thread panics: what waits is then told that the store is closed.
struct Closing<'a>(&'a Queue);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
        let waiting = std::mem::take(&mut self.0.lock().changes);
        drop(waiting);
    }
}

/// Writes what waits, until there will be no more.
fn run(queue: &Queue, work: &Mutex<Work>) {
    let _closing = Closing(queue);
    let mut group = Vec::new();
    while queue.take(&mut group) {
        // Whoever panicked with it may have left it in the middle of something.
        let Ok(work) = work.lock() else { return };
        if !group.is_empty() {
            work.write(std::mem::take(&mut group));
        }
        if work.shared.is_log_long() {
            work.checkpoint();
        }
    }
}

impl Work {
    /// One transaction for all; if a change fails in it, one for each.
    fn write(&self, mut group: Vec<Box<dyn Change>>) {
        match self.commit(&mut group) {
            Ok(()) => self.settle(group),
            Err(Failure::Change(_)) if group.len() > 1 => {
                for change in group {
                    self.write(vec![change]);
                }
            }
            Err(Failure::Change(error) | Failure::Group(error)) => {
                for change in group {
                    change.settle(Err(error.clone()));
                }
            }
        }
    }

    fn commit(&self, group: &mut [Box<dyn Change>]) -> Result<(), Failure> {
        if let Some(error) = self.shared.broken.get() {
            return Err(Failure::Group(error.clone()));
        }
        let begun = self.run_cached("BEGIN IMMEDIATE").map_err(Failure::Group);
        begun.and_then(|()| self.commit_begun(group))
    }

    /// Begins a transaction, unless somebody else is in one.
    fn begin_at_once(&self) -> Result<(), Error> {
        self.connection.busy_timeout(Duration::ZERO)?;
        let begun = self.run_cached("BEGIN IMMEDIATE");
        self.connection.busy_timeout(PATIENCE)?;
        begun
    }

    /// Makes one change in the transaction that was begun for it.
    fn write_begun(&self, change: Box<dyn Change>) {
        let mut group = [change];
        let outcome = match self.commit_begun(&mut group) {
            Ok(()) => Ok(Truncated::No),
            Err(Failure::Change(error) | Failure::Group(error)) => Err(error),
        };
        let [change] = group;
        change.settle(outcome);
    }

    fn commit_begun(&self, group: &mut [Box<dyn Change>]) -> Result<(), Failure> {
        let done = self.transact(group);
        if done.is_err() && !self.connection.is_autocommit() {
            // If this fails too, so does the next transaction.
            let _ = self.run_cached("ROLLBACK");
        }
        done?;
        // Only now is it known that what was written can be found again.
        if let Err(error) = self.files.check() {
            let _ = self.shared.broken.set(error.clone());
            return Err(Failure::Group(error));
        }
        self.shared.mark();
        let count = u64::try_from(group.len()).unwrap_or(u64::MAX);
        self.shared.writes.fetch_add(count, Ordering::Relaxed);
        self.shared.groups.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn transact(&self, group: &mut [Box<dyn Change>]) -> Result<(), Failure> {
        for change in group {
            change.apply(&self.connection).map_err(Failure::Change)?;
        }
        self.run_cached("COMMIT").map_err(Failure::Group)
    }

    fn settle(&self, group: Vec<Box<dyn Change>>) {
        let (truncating, plain): (Vec<_>, Vec<_>) = group
            .into_iter()
            .partition(|change| change.wants_truncation());
        for change in plain {
            change.settle(Ok(Truncated::No));
        }
        if truncating.is_empty() {
            return;
        }
        let outcome = self.truncate();
        for change in truncating {
            change.settle(outcome.clone());
        }
    }

    /// Moves what can be moved of the log into the database.
    fn checkpoint(&self) {
        self.shared.log_pages.store(0, Ordering::Relaxed);
        // What is not moved now is with one of the next, and nothing is lost.
        let _ = self
            .connection
            .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
    }

    /// Moves the log into the database and empties it. Who reads an older state is not waited for.
    fn truncate(&self) -> Result<Truncated, Error> {
        self.connection.busy_timeout(Duration::ZERO)?;
        let busy = self
            .connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0));
        self.connection.busy_timeout(PATIENCE)?;
        Ok(match busy? {
            0 => Truncated::Yes,
            _ => Truncated::No,
        })
    }

    fn run_cached(&self, sql: &str) -> Result<(), Error> {
        self.connection.prepare_cached(sql)?.execute([])?;
        Ok(())
    }
}

impl<A, G, T, U> Change for Typed<A, G, T, U>
where
    A: FnMut(&Connection) -> Result<T, Error> + Send,
    G: FnOnce(T, Truncated) -> U + Send,
    T: Send,
    U: Send,
{
    fn apply(&mut self, connection: &Connection) -> Result<(), Error> {
        let before = connection.total_changes();
        match (self.act)(connection) {
            Err(error) if !error.is_refusal() => return Err(error),
            outcome => {
                debug_assert!(
                    outcome.is_ok() || connection.total_changes() == before,
                    "refused after writing"
                );
                self.value = Some(outcome);
            }
        }
        Ok(())
    }

    fn wants_truncation(&self) -> bool {
        let value = self.value.as_ref();
        value.is_some_and(|value| value.as_ref().is_ok_and(self.wants_truncation))
    }

    fn settle(self: Box<Self>, outcome: Result<Truncated, Error>) {
        let Self {
            give,
            value,
            promise,
            ..
        } = *self;
        let value = value.unwrap_or(Err(Error::Closed));
        promise.settle(outcome.and_then(|truncated| Ok(give(value?, truncated))));
    }
}
