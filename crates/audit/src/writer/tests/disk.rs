//! A disk that does as it is told, and loses what was not synced when the power goes.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use crate::disk::{Disk, RealDisk, Tail};

/// What is wrong with a disk, and what was asked of it.
#[derive(Debug, Default)]
pub(super) struct Fate {
    /// Bytes that can still be written; then the disk is full.
    pub(super) space: Option<u64>,
    /// Whether space can be reserved.
    pub(super) can_allocate: bool,
    /// The next write fails, and nothing of it is written.
    pub(super) fails_write: bool,
    /// Space that a file releases is taken by another program at once.
    pub(super) is_shared: bool,
    pub(super) fails_sync: bool,
    pub(super) fails_truncate: bool,
    pub(super) fails_open: bool,
    pub(super) syncs: u64,
}

#[derive(Default)]
pub(super) struct FaultyDisk {
    pub(super) fate: Mutex<Fate>,
    pub(super) changed: Condvar,
    platters: Mutex<BTreeMap<PathBuf, Arc<Mutex<Platter>>>>,
}

/// What of a file is on the disk.
#[derive(Default)]
struct Platter {
    content: Vec<u8>,
    /// From here on the kernel has something to write.
    dirty_from: usize,
}

impl Platter {
    /// Writes what the kernel has to write. If that fails it does not try again.
    fn sync(&mut self, file: &[u8], fails: bool) {
        if !fails {
            let start = self.dirty_from.min(file.len());
            self.content.resize(start, 0);
            self.content.extend_from_slice(&file[start..]);
        }
        self.dirty_from = file.len();
    }
}

impl FaultyDisk {
    pub(super) fn set(&self, change: impl FnOnce(&mut Fate)) {
        change(&mut self.fate.lock().unwrap());
    }

    /// Leaves of the files in a folder what a power failure leaves.
    pub(super) fn cut_power(&self) {
        for (path, platter) in &*self.platters.lock().unwrap() {
            fs::write(path, &platter.lock().unwrap().content).unwrap();
        }
    }

    fn platter(&self, path: &Path) -> Arc<Mutex<Platter>> {
        let mut platters = self.platters.lock().unwrap();
        Arc::clone(platters.entry(path.to_owned()).or_default())
    }
}

struct FaultyTail {
    disk: Arc<FaultyDisk>,
    real: Arc<dyn Tail>,
    path: PathBuf,
    platter: Arc<Mutex<Platter>>,
    /// Up to which length the file has reserved space.
    reserved: AtomicU64,
}

/// The same disk, for the log and for the test.
pub(super) struct Shared(pub(super) Arc<FaultyDisk>);

impl Disk for Shared {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn Tail>> {
        if self.0.fate.lock().unwrap().fails_open {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        Ok(Arc::new(FaultyTail {
            disk: Arc::clone(&self.0),
            real: RealDisk.open(path)?,
            path: path.to_owned(),
            platter: self.0.platter(path),
            reserved: AtomicU64::new(0),
        }))
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        RealDisk.sync_folder(path)
    }

    fn rewrite(&self, path: &Path) -> io::Result<()> {
        if self.0.fate.lock().unwrap().fails_sync {
            return Err(io::ErrorKind::Other.into());
        }
        RealDisk.rewrite(path)?;
        let content = fs::read(path)?;
        let copy = Platter {
            dirty_from: content.len(),
            content,
        };
        let mut platters = self.0.platters.lock().unwrap();
        platters.insert(path.to_owned(), Arc::new(Mutex::new(copy)));
        Ok(())
    }
}

impl Tail for FaultyTail {
    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let mut fate = self.disk.fate.lock().unwrap();
        if std::mem::take(&mut fate.fails_write) {
            return Err(io::ErrorKind::Other.into());
        }
        let Some(space) = &mut fate.space else {
            return self.real.write(bytes);
        };
        // As a real one: what fits is written, then it is full.
        let reserved = self.reserved.load(Ordering::Relaxed);
        let reserved = reserved.saturating_sub(self.real.len()?) as usize;
        let fits = bytes.len().min(reserved + *space as usize);
        *space -= fits.saturating_sub(reserved) as u64;
        self.real.write(&bytes[..fits])?;
        match fits == bytes.len() {
            true => Ok(()),
            false => Err(io::ErrorKind::StorageFull.into()),
        }
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut fate = self.disk.fate.lock().unwrap();
        if fate.fails_truncate {
            return Err(io::ErrorKind::Other.into());
        }
        let reserved = self.reserved.swap(0, Ordering::Relaxed);
        let released = reserved.max(self.real.len()?).saturating_sub(length);
        let mut platter = self.platter.lock().unwrap();
        platter.dirty_from = platter.dirty_from.min(length as usize);
        let is_shared = fate.is_shared;
        if let Some(space) = fate.space.as_mut().filter(|_| !is_shared) {
            *space += released;
        }
        self.real.set_len(length)
    }

    fn len(&self) -> io::Result<u64> {
        self.real.len()
    }

    fn sync(&self) -> io::Result<()> {
        let mut fate = self.disk.fate.lock().unwrap();
        fate.syncs += 1;
        self.disk.changed.notify_all();
        let mut platter = self.platter.lock().unwrap();
        platter.sync(&fs::read(&self.path)?, fate.fails_sync);
        match fate.fails_sync {
            true => Err(io::ErrorKind::Other.into()),
            false => self.real.sync(),
        }
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        let mut fate = self.disk.fate.lock().unwrap();
        if !fate.can_allocate {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let has = self.reserved.load(Ordering::Relaxed).max(self.real.len()?);
        let more = length.saturating_sub(has);
        if let Some(space) = &mut fate.space {
            *space = space.checked_sub(more).ok_or(io::ErrorKind::StorageFull)?;
        }
        self.reserved.store(length, Ordering::Relaxed);
        self.real.allocate(length)
    }

    fn is_whole(&self, length: u64) -> io::Result<bool> {
        self.real.is_whole(length)
    }

    fn is_at(&self, path: &Path) -> io::Result<bool> {
        self.real.is_at(path)
    }
}
