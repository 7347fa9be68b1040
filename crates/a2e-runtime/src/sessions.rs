//! The sessions of a host, by their ids.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use a2e_wire::SessionId;
use tokio::sync::{Notify, mpsc};

use crate::auth::Owner;
use crate::driver::Command;

/// The sessions that can be gone on with.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    by_id: Mutex<HashMap<SessionId<'static>, Entry>>,
    places: Arc<Places>,
}

#[derive(Debug, Default)]
struct Places {
    taken: AtomicUsize,
    /// Told when the last is given back.
    none_left: Notify,
}

/// A session that can be gone on with.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) owner: Owner,
    pub(crate) commands: mpsc::Sender<Command>,
}

/// A place among the sessions of a host, given back when dropped.
#[derive(Debug)]
pub(crate) struct Place(Arc<Places>);

impl Drop for Place {
    fn drop(&mut self) {
        if self.0.taken.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.none_left.notify_waiters();
        }
    }
}

impl Sessions {
    /// A place for one more session, if there are fewer than `max`.
    pub(crate) fn place(&self, max: usize) -> Option<Place> {
        let taken = self
            .places
            .taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
                (count < max).then(|| count.saturating_add(1))
            });
        taken.is_ok().then(|| Place(Arc::clone(&self.places)))
    }

    /// How many sessions there are, those before their handshake included.
    pub(crate) fn count(&self) -> usize {
        self.places.taken.load(Ordering::Relaxed)
    }

    /// Waits until there are no sessions.
    pub(crate) async fn none_left(&self) {
        loop {
            let told = self.places.none_left.notified();
            if self.count() == 0 {
                return;
            }
            told.await;
        }
    }

    /// Takes a session.
    pub(crate) fn insert(&self, id: SessionId<'static>, entry: Entry) {
        self.lock().insert(id, entry);
    }

    /// How many sessions belong to these.
    pub(crate) fn count_of(&self, is_meant: impl Fn(&Owner) -> bool) -> usize {
        let by_id = self.lock();
        by_id.values().filter(|it| is_meant(&it.owner)).count()
    }

    pub(crate) fn remove(&self, id: &SessionId<'static>) {
        self.lock().remove(id);
    }

    /// A session that its owner asks for; `restore` is asked where it is not running.
    pub(crate) fn find(
        &self,
        id: &SessionId<'static>,
        owner: &Owner,
        restore: impl FnOnce() -> Option<Entry>,
    ) -> Option<Entry> {
        let mut by_id = self.lock();
        let entry = match by_id.get(id) {
            Some(entry) => entry.clone(),
            None => {
                // Under the lock, so that it is restored once.
                let entry = restore()?;
                by_id.insert(id.clone(), entry.clone());
                entry
            }
        };
        (entry.owner == *owner).then_some(entry)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId<'static>, Entry>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
