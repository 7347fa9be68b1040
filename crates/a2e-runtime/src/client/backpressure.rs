//! Backpressure: a handler that cannot keep up stops the reading of further messages.

use std::sync::{Arc, Weak};

use super::Client;
use super::shared::Shared;

/// Pauses the reading of a client's connection. Does not keep the client open.
#[derive(Debug, Clone)]
pub(crate) struct Backpressure(Weak<Shared>);

/// Nothing is read from the host while one of these exists.
#[derive(Debug)]
pub(crate) struct PausedReading(Weak<Shared>);

impl Client {
    /// The means to pause the reading of this client's connection.
    pub(crate) fn backpressure(&self) -> Backpressure {
        Backpressure(Arc::downgrade(&self.handle.shared))
    }
}

impl Backpressure {
    /// Reads nothing more from the host until the returned guard is dropped.
    pub(crate) fn pause(&self) -> PausedReading {
        if let Some(shared) = self.0.upgrade() {
            let mut state = shared.lock();
            state.pauses = state.pauses.saturating_add(1);
        }
        PausedReading(self.0.clone())
    }
}

impl Drop for PausedReading {
    fn drop(&mut self) {
        let shared = Weak::clone(&self.0);
        // What a handler holds may be dropped under the lock that this takes.
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(async move { resume(&shared) })),
            Err(_) => resume(&shared),
        }
    }
}

fn resume(shared: &Weak<Shared>) {
    if let Some(shared) = shared.upgrade() {
        let mut state = shared.lock();
        state.pauses = state.pauses.saturating_sub(1);
        state.wake_driver();
    }
}
