//! The sessions of a host, by their ids.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use a2e_wire::SessionId;
use tokio::sync::mpsc;

use crate::auth::Owner;
use crate::driver::Command;

/// The sessions that can be gone on with.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    by_id: Mutex<HashMap<SessionId<'static>, Entry>>,
}

/// A session that can be gone on with.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) owner: Owner,
    pub(crate) commands: mpsc::Sender<Command>,
}

impl Sessions {
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
