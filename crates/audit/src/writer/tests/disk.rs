//! A disk that does as it is told.

use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};

use crate::disk::{Disk, RealDisk, Tail};

/// What is wrong with a disk, and what was asked of it.
#[derive(Debug, Default)]
pub(super) struct Fate {
    /// Bytes that can still be written; then the disk is full.
    pub(super) space: Option<u64>,
    /// Whether space can be kept free.
    pub(super) can_allocate: bool,
    pub(super) fails_sync: bool,
    pub(super) fails_truncate: bool,
    pub(super) fails_open: bool,
    pub(super) syncs: u64,
}

#[derive(Default)]
pub(super) struct FaultyDisk {
    pub(super) fate: Mutex<Fate>,
    pub(super) changed: Condvar,
}

impl FaultyDisk {
    pub(super) fn set(&self, change: impl FnOnce(&mut Fate)) {
        change(&mut self.fate.lock().unwrap());
    }
}

struct FaultyTail {
    disk: Arc<FaultyDisk>,
    real: Arc<dyn Tail>,
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
        }))
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        RealDisk.sync_folder(path)
    }
}

impl Tail for FaultyTail {
    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let mut fate = self.disk.fate.lock().unwrap();
        let Some(space) = &mut fate.space else {
            return self.real.write(bytes);
        };
        // As a real one: what fits is written, then it is full.
        let fits = bytes.len().min(*space as usize);
        *space -= fits as u64;
        self.real.write(&bytes[..fits])?;
        match fits == bytes.len() {
            true => Ok(()),
            false => Err(io::ErrorKind::StorageFull.into()),
        }
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        if self.disk.fate.lock().unwrap().fails_truncate {
            return Err(io::ErrorKind::Other.into());
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
        match fate.fails_sync {
            true => Err(io::ErrorKind::Other.into()),
            false => self.real.sync(),
        }
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        let fate = self.disk.fate.lock().unwrap();
        match (fate.can_allocate, fate.space) {
            (false, _) => Err(io::ErrorKind::Unsupported.into()),
            (true, Some(_)) => Err(io::ErrorKind::StorageFull.into()),
            (true, None) => self.real.allocate(length),
        }
    }

    fn is_whole(&self, length: u64) -> io::Result<bool> {
        self.real.is_whole(length)
    }

    fn is_at(&self, path: &Path) -> io::Result<bool> {
        self.real.is_at(path)
    }
}
