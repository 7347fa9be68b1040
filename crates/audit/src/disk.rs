//! The few things that are asked of a disk, so that tests can have one that fails.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use base::{Durability, PRIVATE, replace_file};
use rustix::fs::FallocateFlags;

use crate::regular;

/// Where files are.
pub(crate) trait Disk: Send + Sync {
    /// Opens a file to write at its end; makes it if it is not there.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn Tail>>;

    /// Sees to it that the names in a folder are on the disk.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;

    /// Replaces a file by a copy of it that is on the disk. After a failed sync the kernel does not
    /// write the same pages again, so that a later sync succeeds without them.
    fn rewrite(&self, path: &Path) -> io::Result<()>;
}

/// A file that is written at its end.
pub(crate) trait Tail: Send + Sync {
    /// Hands all of it to the kernel.
    fn write(&self, bytes: &[u8]) -> io::Result<()>;

    /// Makes the file this long. What was kept free behind that is given back.
    fn set_len(&self, length: u64) -> io::Result<()>;

    /// How long it is.
    fn len(&self) -> io::Result<u64>;

    /// Sees to it that what was written is on the disk.
    fn sync(&self) -> io::Result<()>;

    /// Keeps space free for the file up to this length, without making it longer.
    fn allocate(&self, length: u64) -> io::Result<()>;

    /// Whether the file still has a name, and is as long as it was left.
    fn is_whole(&self, length: u64) -> io::Result<bool>;

    /// Whether the file is still the one of that name.
    fn is_at(&self, path: &Path) -> io::Result<bool>;
}

/// The disk of the machine.
#[derive(Debug)]
pub(crate) struct RealDisk;

struct RealTail(File);

impl Disk for RealDisk {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn Tail>> {
        let mut options = OpenOptions::new();
        let options = options.append(true).create(true).mode(PRIVATE);
        let file = regular::open(path, options)?;
        Ok(Arc::new(RealTail(file)))
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        base::sync_folder(path)
    }

    fn rewrite(&self, path: &Path) -> io::Result<()> {
        let mut source = regular::open_to_read(path)?;
        replace_file(path, PRIVATE, Durability::Durable, |file| {
            io::copy(&mut source, file).map(drop)
        })
    }
}

impl Tail for RealTail {
    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        (&self.0).write_all(bytes)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        let from = self.len()?;
        let more = length.saturating_sub(from);
        rustix::fs::fallocate(&self.0, FallocateFlags::KEEP_SIZE, from, more)?;
        Ok(())
    }

    fn is_whole(&self, length: u64) -> io::Result<bool> {
        let own = self.0.metadata()?;
        Ok(own.nlink() > 0 && own.len() == length)
    }

    fn is_at(&self, path: &Path) -> io::Result<bool> {
        let own = self.0.metadata()?;
        match fs::symlink_metadata(path) {
            Ok(found) => Ok(found.ino() == own.ino() && found.dev() == own.dev()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Makes a folder that only its owner may read.
pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}
