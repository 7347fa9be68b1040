//! When what was written reaches the disk.

use std::fmt;
use std::fs::File;
use std::io;
use std::str::FromStr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::CHECKPOINT_PAGES;
use super::files::Files;
use crate::pending::Promise;
use crate::{Error, Pending};

/// When writes reach the disk. Either way an acknowledged one survives the death of the process:
/// it is in the kernel's hands. This is about the death of the machine.
///
/// Written as `commit` or as milliseconds, such as `100ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncMode {
    /// Before they are acknowledged: each group is synced (`synchronous=FULL`). What is written before
    /// an effect, such as a mark of work that must be done once, is on the disk when the effect begins.
    Commit,
    /// This long after the first write that is not on the disk yet (`synchronous=NORMAL`, and a
    /// sync of the log in the background). A power cut loses at most what was written since then;
    /// the database stays whole.
    Every(Duration),
}

/// A word that is not a [`SyncMode`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`sync` is `commit` or a time from `1ms` to `10000ms`, such as `100ms`")]
pub struct NotASyncMode;

/// What the writer and the syncing thread both know.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// Why nothing can be written any more.
    pub(super) broken: OnceLock<Error>,
    pub(super) writes: AtomicU64,
    pub(super) groups: AtomicU64,
    pub(super) syncs: AtomicU64,
    /// Pages in the log after the last commit.
    pub(super) log_pages: AtomicU32,
    /// How long a write may wait for the disk; nothing if SQLite syncs each group.
    interval: Option<Duration>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Something was written that may not be on the disk.
    is_dirty: bool,
    is_closed: bool,
    waiting: Vec<Promise<()>>,
}

/// Syncs the log in the background, and when it is asked to.
#[derive(Debug)]
pub(super) struct Syncer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Default for SyncMode {
    fn default() -> Self {
        Self::Every(Duration::from_millis(100))
    }
}

impl FromStr for SyncMode {
    type Err = NotASyncMode;

    fn from_str(text: &str) -> Result<Self, NotASyncMode> {
        if text == "commit" {
            return Ok(Self::Commit);
        }
        let digits = text.strip_suffix("ms").ok_or(NotASyncMode)?;
        let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
        match digits.parse() {
            Ok(millis @ 1..=10_000) if is_plain => Ok(Self::Every(Duration::from_millis(millis))),
            _ => Err(NotASyncMode),
        }
    }
}

impl fmt::Display for SyncMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Commit => f.write_str("commit"),
            Self::Every(time) => write!(f, "{}ms", time.as_millis()),
        }
    }
}

impl Syncer {
    pub(super) fn start(mode: SyncMode, files: &Files) -> Result<Self, Error> {
        let log = files.open_log()?;
        let interval = match mode {
            SyncMode::Commit => None,
            SyncMode::Every(interval) => Some(interval),
        };
        // The first time also that there are these files. It takes as long as a whole start, so
        // that nobody waits for it who has nothing to lose yet.
        let mut folder = Some(files.folder().to_owned());
        Self::with(interval, move || {
            if let Some(folder) = folder.take() {
                File::open(folder)?.sync_all()?;
            }
            log.sync_data()
        })
    }

    /// One that syncs in some other way, for tests.
    pub(super) fn with(
        interval: Option<Duration>,
        sync: impl FnMut() -> io::Result<()> + Send + 'static,
    ) -> Result<Self, Error> {
        let shared = Arc::new(Shared {
            interval,
            ..Shared::default()
        });
        let thread = thread::Builder::new().name("store-sync".into()).spawn({
            let shared = Arc::clone(&shared);
            move || shared.run(sync)
        });
        let thread = thread.map_err(|error| Error::Sql(format!("no thread to sync: {error}")))?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    pub(super) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    pub(super) fn flush(&self) -> Pending<()> {
        if let Some(error) = self.shared.broken.get() {
            return Pending::ready(Err(error.clone()));
        }
        let (promise, pending) = Pending::promised();
        self.shared.lock().waiting.push(promise);
        self.shared.changed.notify_one();
        pending
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Whether a commit is with the kernel and not yet on the disk.
    pub(super) const fn is_synced_later(&self) -> bool {
        self.interval.is_some()
    }

    /// Whether it is time to move the log into the database.
    pub(super) fn is_log_long(&self) -> bool {
        self.log_pages.load(Ordering::Relaxed) >= CHECKPOINT_PAGES
    }

    /// Something was written.
    pub(super) fn mark(&self) {
        if self.interval.is_none() {
            return;
        }
        let mut state = self.lock();
        let was_dirty = std::mem::replace(&mut state.is_dirty, true);
        drop(state);
        if !was_dirty {
            self.changed.notify_one();
        }
    }

    fn run(&self, mut sync: impl FnMut() -> io::Result<()>) {
        loop {
            let mut state = self.wait(self.lock(), None, |state| {
                !state.is_dirty && !state.is_closed && state.waiting.is_empty()
            });
            if !state.is_dirty && state.waiting.is_empty() {
                return;
            }
            // More may come meanwhile and go with it.
            state = self.wait(state, Some(self.interval.unwrap_or_default()), |state| {
                !state.is_closed && state.waiting.is_empty()
            });
            state.is_dirty = false;
            let waiting = std::mem::take(&mut state.waiting);
            drop(state);
            let outcome = sync().map_err(|error| {
                // The kernel may have dropped what it could not write: it cannot be tried again.
                Error::Sql(format!("the log cannot be synced to the disk: {error}"))
            });
            match &outcome {
                Ok(()) => drop(self.syncs.fetch_add(1, Ordering::Relaxed)),
                Err(error) => drop(self.broken.set(error.clone())),
            }
            for promise in waiting {
                promise.settle(outcome.clone());
            }
        }
    }

    fn wait<'a>(
        &self,
        state: MutexGuard<'a, State>,
        at_most: Option<Duration>,
        condition: impl FnMut(&mut State) -> bool,
    ) -> MutexGuard<'a, State> {
        match at_most {
            Some(time) => {
                let waited = self.changed.wait_timeout_while(state, time, condition);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
            None => {
                let waited = self.changed.wait_while(state, condition);
                waited.unwrap_or_else(PoisonError::into_inner)
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
