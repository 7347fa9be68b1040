//! Where sessions are put on record, so that they survive their process.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

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

/// Records as files in one folder.
#[derive(Debug)]
pub struct FileStore {
    folder: PathBuf,
    /// Files lately added to, so that a busy session does not open its file each time.
    open: Mutex<HashMap<String, Arc<File>>>,
}

/// What the names of files end with.
const SUFFIX: &str = ".ndjson";

/// How many files are kept open.
const MAX_OPEN: usize = 256;

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

impl FileStore {
    /// Records in a folder, which is made if need be and readable by its owner alone. Those that
    /// nobody has added to for `kept` are removed.
    ///
    /// # Errors
    /// If the folder cannot be made or read.
    pub fn open(folder: impl Into<PathBuf>, kept: Duration) -> io::Result<Self> {
        let folder = folder.into();
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)?;
        sweep(&folder, kept)?;
        Ok(Self {
            folder,
            open: Mutex::default(),
        })
    }

    fn path(&self, key: &str) -> PathBuf {
        self.folder.join(format!("{key}{SUFFIX}"))
    }

    /// The file to add to.
    fn file(&self, key: &str) -> io::Result<Arc<File>> {
        let mut open = self.lock();
        if let Some(file) = open.get(key) {
            return Ok(Arc::clone(file));
        }
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(self.path(key))?;
        let file = Arc::new(file);
        if open.len() >= MAX_OPEN {
            // Any will do: a busy one is opened again.
            let any = open.keys().next().cloned();
            any.and_then(|key| open.remove(&key));
        }
        open.insert(key.to_owned(), Arc::clone(&file));
        Ok(file)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<File>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SnapshotStore for FileStore {
    fn append(&self, key: &str, bytes: &[u8]) -> io::Result<()> {
        let file = self.file(key)?;
        (&*file).write_all(bytes)
    }

    fn put(&self, key: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.path(key);
        let fresh = path.with_extension("new");
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&fresh)?;
        file.write_all(bytes)?;
        let renamed = fs::rename(&fresh, &path);
        self.lock().remove(key);
        renamed
    }

    fn get(&self, key: &str) -> io::Result<Option<Vec<u8>>> {
        let mut record = Vec::new();
        match File::open(self.path(key)) {
            Ok(mut file) => file.read_to_end(&mut record)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        Ok(Some(record))
    }

    fn remove(&self, key: &str) -> io::Result<()> {
        self.lock().remove(key);
        match fs::remove_file(self.path(key)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn keys(&self) -> io::Result<Vec<String>> {
        let mut keys = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let name = entry?.file_name();
            let key = name.to_str().and_then(|name| name.strip_suffix(SUFFIX));
            keys.extend(key.map(ToOwned::to_owned));
        }
        Ok(keys)
    }
}

/// Removes the files that nobody has touched for that long.
fn sweep(folder: &Path, kept: Duration) -> io::Result<()> {
    let now = SystemTime::now();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let age = now.duration_since(entry.metadata()?.modified()?);
        // What is no file is none of ours.
        if age.is_ok_and(|age| age > kept) && entry.file_type()?.is_file() {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contract(store: &dyn SnapshotStore) {
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

    #[test]
    fn files_keep_records() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sessions");
        contract(&FileStore::open(&path, Duration::from_secs(60)).unwrap());
        let again = FileStore::open(&path, Duration::from_secs(60)).unwrap();
        assert_eq!(again.get("a").unwrap().unwrap(), b"new\n");
        let modes = |path: &Path| {
            use std::os::unix::fs::PermissionsExt;
            fs::metadata(path).unwrap().permissions().mode() & 0o777
        };
        assert_eq!((modes(&path), modes(&again.path("a"))), (0o700, 0o600));
        let swept = FileStore::open(&path, Duration::ZERO).unwrap();
        assert_eq!(swept.get("a").unwrap(), None);
    }

    #[test]
    fn more_records_than_open_files() {
        let folder = tempfile::tempdir().unwrap();
        let store = FileStore::open(folder.path(), Duration::from_secs(60)).unwrap();
        for round in 0..2 {
            for key in 0..MAX_OPEN + 10 {
                store.append(&key.to_string(), &[b'0' + round]).unwrap();
            }
        }
        assert_eq!(store.lock().len(), MAX_OPEN);
        for key in 0..MAX_OPEN + 10 {
            assert_eq!(store.get(&key.to_string()).unwrap().unwrap(), b"01");
        }
    }
}
