//! A thread that brings what was written to the disk every so often.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::disk::Tail;

/// Files with something that may not be on the disk yet.
#[derive(Default)]
pub(crate) struct Dirty {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    files: Vec<Arc<dyn Tail>>,
    is_closed: bool,
    /// Why a file could not be synced; nobody knows what of it is on the disk.
    failure: Option<io::Error>,
}

impl Dirty {
    /// Something was written to this file.
    pub(crate) fn mark(&self, file: &Arc<dyn Tail>) {
        let mut state = self.lock();
        if state.files.iter().any(|known| Arc::ptr_eq(known, file)) {
            return;
        }
        state.files.push(Arc::clone(file));
        drop(state);
        self.changed.notify_one();
    }

    /// Why syncing has failed, if it has since this was last asked. The files are then to be written
    /// again, so none of those that are known needs a sync any more.
    pub(crate) fn take_failure(&self) -> Option<io::Error> {
        let mut state = self.lock();
        let failure = state.failure.take()?;
        state.files.clear();
        Some(failure)
    }

    /// Brings the thread to its end; what is dirty then is synced.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_one();
    }

    /// Starts the thread. `failed` is called when something could not be synced.
    pub(crate) fn start(
        self: &Arc<Self>,
        every: Duration,
        failed: impl Fn() + Send + 'static,
    ) -> io::Result<JoinHandle<()>> {
        let dirty = Arc::clone(self);
        let builder = thread::Builder::new().name("audit-sync".into());
        builder.spawn(move || dirty.run(every, &failed))
    }

    fn run(&self, every: Duration, failed: &dyn Fn()) {
        loop {
            let state = self.lock();
            // Nothing to do until something is written, then not before the time has passed.
            let waited = self
                .changed
                .wait_while(state, |state| state.files.is_empty() && !state.is_closed);
            let state = waited.unwrap_or_else(PoisonError::into_inner);
            let waited = self
                .changed
                .wait_timeout_while(state, every, |state| !state.is_closed);
            let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            let files = std::mem::take(&mut state.files);
            let is_closed = state.is_closed;
            drop(state);
            for file in files {
                if let Err(error) = file.sync() {
                    self.lock().failure = Some(error);
                    failed();
                }
            }
            if is_closed {
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
