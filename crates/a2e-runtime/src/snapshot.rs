//! Where sessions are put on record, so that they survive their process.

mod files;
mod frame;

use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use files::FileStore;

/// Keeps records by key. What [`append`](SnapshotStore::append) and [`put`](SnapshotStore::put) took
/// survives `kill -9` where the store outlives the process at all.
pub trait SnapshotStore: Send + Sync + 'static {
    /// Adds to the end of a record.
    ///
    /// # Errors
    /// If it cannot be kept.
    fn append(&self, key: &str, bytes: &[u8]) -> io::Result<()>;

    /// Replaces a record as a whole.
    ///
    /// # Errors
    /// If it cannot be kept; then the earlier one is still there.
    fn put(&self, key: &str, bytes: &[u8]) -> io::Result<()>;

    /// A record, if there is one.
    ///
    /// # Errors
    /// If it cannot be read.
    fn get(&self, key: &str) -> io::Result<Option<Vec<u8>>>;

    /// Removes a record, if there is one.
    ///
    /// # Errors
    /// If it cannot be removed.
    fn remove(&self, key: &str) -> io::Result<()>;

    /// Whether it promises that records survive a power loss, if they are [synced](SnapshotStore::sync).
    fn syncs(&self) -> bool {
        false
    }

    /// Returns when what was added to a record survives a power loss, if the store promises that.
    ///
    /// # Errors
    /// If it cannot be promised.
    fn sync(&self, _key: &str) -> io::Result<()> {
        Ok(())
    }

    /// The keys of all records, in no order.
    ///
    /// # Errors
    /// If they cannot be read.
    fn keys(&self) -> io::Result<Vec<String>>;
}

/// Who saves the state of plugins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SnapshotMode {
    /// The host does, with the session.
    Host,
    /// Each plugin does; the host saves the session alone.
    Plugin,
    /// The host saves what plugins give it, and plugins may have more.
    #[default]
    Hybrid,
}

/// Records that end with the process.
#[derive(Debug, Default)]
pub struct MemoryStore(Mutex<HashMap<String, Vec<u8>>>);

impl MemoryStore {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SnapshotStore for MemoryStore {
    fn append(&self, key: &str, bytes: &[u8]) -> io::Result<()> {
        let mut records = self.lock();
        match records.get_mut(key) {
            Some(record) => record.extend_from_slice(bytes),
            None => drop(records.insert(key.to_owned(), bytes.to_vec())),
        }
        Ok(())
    }

    fn put(&self, key: &str, bytes: &[u8]) -> io::Result<()> {
        self.lock().insert(key.to_owned(), bytes.to_vec());
        Ok(())
    }

    fn get(&self, key: &str) -> io::Result<Option<Vec<u8>>> {
        Ok(self.lock().get(key).cloned())
    }

    fn remove(&self, key: &str) -> io::Result<()> {
        self.lock().remove(key);
        Ok(())
    }

    fn keys(&self) -> io::Result<Vec<String>> {
        Ok(self.lock().keys().cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn contract(store: &dyn SnapshotStore) {
        assert_eq!(store.get("a").unwrap(), None);
        store.append("a", b"one\n").unwrap();
        store.append("b", b"other\n").unwrap();
        store.append("a", b"two\n").unwrap();
        assert_eq!(store.get("a").unwrap().unwrap(), b"one\ntwo\n");
        store.put("a", b"three\n").unwrap();
        store.append("a", b"four\n").unwrap();
        assert_eq!(store.get("a").unwrap().unwrap(), b"three\nfour\n");
        store.remove("a").unwrap();
        store.remove("a").unwrap();
        assert_eq!(store.get("a").unwrap(), None);
        store.append("a", b"new\n").unwrap();
        assert_eq!(store.get("a").unwrap().unwrap(), b"new\n");
        assert_eq!(store.get("b").unwrap().unwrap(), b"other\n");
        let mut keys = store.keys().unwrap();
        keys.sort();
        assert_eq!(keys, ["a", "b"]);
    }

    #[test]
    fn memory_keeps_records() {
        contract(&MemoryStore::default());
    }
}
