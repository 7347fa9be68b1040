//! Records as files.
//!
//! A busy session adds to its record for each answer, and begins it anew every few thousand. To grow a
//! file costs several times what it costs to write over one, and so does to replace it. So a record
//! that is begun anew is written over what an earlier life of it has left, in a second file that
//! changes places with the first; `frame.rs` tells what is of now from what was left.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use base::sync_folder;
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::listen::is_too_many;

use super::SnapshotStore;
use super::frame::{self, Frames};

/// Records as files in one folder.
#[derive(Debug)]
pub struct FileStore {
    folder: PathBuf,
    /// Whether records are synced when that is asked for.
    syncs: bool,
    records: Mutex<HashMap<String, Arc<Mutex<Record>>>>,
    /// Files lately written to, so that a busy session does not open its file each time.
    open: Mutex<HashMap<String, Arc<File>>>,
}

/// Where the next frame of a record goes.
#[derive(Debug, Clone, Copy, Default)]
struct Record {
    life: u64,
    end: u64,
    /// Whether the name of its file is known to be on the disk.
    is_named: bool,
}

/// What the names of files end with.
const SUFFIX: &str = ".record";

/// The same of those that are written next.
const SPARE: &str = "spare";

/// How many files are kept open.
const MAX_OPEN: usize = 256;

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
            syncs: false,
            records: Mutex::default(),
            open: Mutex::default(),
        })
    }

    /// The same store, in which records that are [synced](SnapshotStore::sync) survive a power loss.
    #[must_use]
    pub fn synced(mut self) -> Self {
        self.syncs = true;
        self
    }

    fn path(&self, key: &str) -> PathBuf {
        self.folder.join(format!("{key}{SUFFIX}"))
    }

    /// Where to add to a record.
    fn record(&self, key: &str) -> Arc<Mutex<Record>> {
        let mut records = lock(&self.records);
        if let Some(record) = records.get(key) {
            return Arc::clone(record);
        }
        let record = Arc::default();
        records.insert(key.to_owned(), Arc::clone(&record));
        record
    }

    /// The file to add to.
    fn file(&self, key: &str) -> io::Result<Arc<File>> {
        if let Some(file) = lock(&self.open).get(key) {
            return Ok(Arc::clone(file));
        }
        let path = self.path(key);
        let file = Arc::new(self.make_room_for(|| writable(&path))?);
        keep(&mut lock(&self.open), key, &file);
        Ok(file)
    }

    /// Opens a file. If that is one too many, those that are only kept open make room.
    fn make_room_for<T>(&self, open: impl Fn() -> io::Result<T>) -> io::Result<T> {
        match open() {
            Err(error) if is_too_many(&error) => {
                lock(&self.open).clear();
                open()
            }
            opened => opened,
        }
    }
}

/// Keeps a file open.
fn keep(open: &mut HashMap<String, Arc<File>>, key: &str, file: &Arc<File>) {
    if open.len() >= MAX_OPEN && !open.contains_key(key) {
        // Any will do: a busy one is opened again.
        let any = open.keys().next().cloned();
        any.and_then(|key| open.remove(&key));
    }
    open.insert(key.to_owned(), Arc::clone(file));
}

impl SnapshotStore for FileStore {
    fn append(&self, key: &str, bytes: &[u8]) -> io::Result<()> {
        let record = self.record(key);
        let mut record = lock(&record);
        if record.end == 0 {
            // It is of an earlier process, or new.
            let path = self.path(key);
            let file = self.make_room_for(|| contents(&path))?;
            *record = Record::read(&file.unwrap_or_default())?;
        }
        let file = self.file(key)?;
        record.write(&file, bytes)
    }

    fn put(&self, key: &str, bytes: &[u8]) -> io::Result<()> {
        let record = self.record(key);
        let mut record = lock(&record);
        let path = self.path(key);
        let spare = path.with_extension(SPARE);
        let file = self.make_room_for(|| writable(&spare))?;
        let mut fresh = Record::begin()?;
        fresh.write(&file, bytes)?;
        if self.syncs {
            // Else the name could be on the disk before the content is, and the earlier record lost.
            file.sync_data()?;
        }
        if let Err(error) = renameat_with(CWD, &spare, CWD, &path, RenameFlags::EXCHANGE) {
            // There is no earlier one, or the file system cannot exchange two.
            tracing::trace!(%error, "a record takes its place");
            fs::rename(&spare, &path)?;
        }
        *record = fresh;
        keep(&mut lock(&self.open), key, &Arc::new(file));
        Ok(())
    }

    fn syncs(&self) -> bool {
        self.syncs
    }

    fn sync(&self, key: &str) -> io::Result<()> {
        if !self.syncs {
            return Ok(());
        }
        let record = self.record(key);
        let before = *lock(&record);
        // Without the lock, so that others may add meanwhile.
        self.file(key)?.sync_data()?;
        if !before.is_named {
            sync_folder(&self.folder)?;
            let mut record = lock(&record);
            // Another file may have taken its name meanwhile.
            record.is_named |= record.life == before.life;
        }
        Ok(())
    }

    fn get(&self, key: &str) -> io::Result<Option<Vec<u8>>> {
        let path = self.path(key);
        let file = self.make_room_for(|| contents(&path))?;
        let frames = file.as_deref().and_then(Frames::of);
        Ok(frames.map(|frames| frames.collect::<Vec<_>>().concat()))
    }

    fn remove(&self, key: &str) -> io::Result<()> {
        // Whoever adds to it meanwhile does so before, or begins another.
        let record = lock(&self.records).remove(key).unwrap_or_default();
        let _record = lock(&record);
        lock(&self.open).remove(key);
        let path = self.path(key);
        let spare = path.with_extension(SPARE);
        // Both are tried, whatever becomes of the first.
        let removed = remove_file(&path);
        remove_file(&spare)?;
        removed
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

impl Record {
    /// The next life of a file. What was left in it is of another.
    fn begin() -> io::Result<Self> {
        let life = getrandom::u64().map_err(io::Error::other)?;
        Ok(Self {
            life,
            ..Self::default()
        })
    }

    /// What a file has.
    fn read(file: &[u8]) -> io::Result<Self> {
        let Some(mut frames) = Frames::of(file) else {
            return Self::begin();
        };
        frames.by_ref().for_each(drop);
        Ok(Self {
            life: frames.life(),
            end: frames.at(),
            is_named: false,
        })
    }

    fn write(&mut self, file: &File, bytes: &[u8]) -> io::Result<()> {
        let mut frame = Vec::new();
        frame::push(&mut frame, self.life, self.end, bytes);
        file.write_all_at(&frame, self.end)?;
        self.end = self.end.saturating_add(frame.len() as u64);
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file of a record, as it is.
fn writable(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
}

fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn contents(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
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
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::snapshot::tests::contract;

    const MINUTE: Duration = Duration::from_secs(60);

    fn store(folder: &Path) -> FileStore {
        FileStore::open(folder, MINUTE).unwrap()
    }

    #[test]
    fn files_keep_records() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sessions");
        contract(&store(&path));
        let again = store(&path);
        assert_eq!(again.get("a").unwrap().unwrap(), b"new\n");
        let modes = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((modes(&path), modes(&again.path("a"))), (0o700, 0o600));
        let swept = FileStore::open(&path, Duration::ZERO).unwrap();
        assert_eq!(swept.get("a").unwrap(), None);
    }

    /// What earlier lives have left, longer or shorter, is never read.
    #[test]
    fn records_are_begun_anew_over_what_they_left() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path());
        for life in 0..9_u8 {
            let lines = 100 / (usize::from(life) + 1);
            let mut expected = vec![life; 50];
            store.put("a", &expected).unwrap();
            for _ in 0..lines {
                store.append("a", &[life; 7]).unwrap();
                expected.extend([life; 7]);
            }
            assert_eq!(store.get("a").unwrap().unwrap(), expected);
        }
        assert_eq!(store.keys().unwrap(), ["a"]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        store.remove("a").unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    /// The next process goes on behind the last whole frame.
    #[test]
    fn what_was_cut_off_is_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let first = store(folder.path());
        first.put("a", b"whole\n").unwrap();
        first.append("a", b"cut off\n").unwrap();
        let path = first.path("a");
        let size = fs::metadata(&path).unwrap().len();
        writable(&path).unwrap().set_len(size - 3).unwrap();
        let next = store(folder.path());
        assert_eq!(next.get("a").unwrap().unwrap(), b"whole\n");
        next.append("a", b"next\n").unwrap();
        assert_eq!(next.get("a").unwrap().unwrap(), b"whole\nnext\n");
    }

    /// Files that are only kept open make room for one that is needed.
    #[test]
    fn more_records_than_descriptors() {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        use std::os::fd::AsRawFd;
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path());
        for key in 0..20 {
            store.append(&key.to_string(), b"0").unwrap();
        }
        // No descriptor from this one on.
        let next = File::open(folder.path()).unwrap();
        let before = getrlimit(Resource::Nofile);
        let most = u64::try_from(next.as_raw_fd()).unwrap();
        drop(next);
        let current = Some(most);
        setrlimit(Resource::Nofile, Rlimit { current, ..before }).unwrap();
        assert!(is_too_many(&File::open(folder.path()).unwrap_err()));
        store.append("one more", b"0").unwrap();
        store.put("0", b"1").unwrap();
        setrlimit(Resource::Nofile, before).unwrap();
        assert_eq!(store.get("one more").unwrap().unwrap(), b"0");
        assert_eq!(store.get("0").unwrap().unwrap(), b"1");
    }

    #[test]
    fn more_records_than_open_files() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path());
        for round in 0..2 {
            for key in 0..MAX_OPEN + 10 {
                store.append(&key.to_string(), &[b'0' + round]).unwrap();
            }
        }
        store.put("one more", b"01").unwrap();
        assert_eq!(lock(&store.open).len(), MAX_OPEN);
        for key in 0..MAX_OPEN + 10 {
            assert_eq!(store.get(&key.to_string()).unwrap().unwrap(), b"01");
        }
    }
}
