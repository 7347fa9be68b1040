//! One process writes a log.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::error::at;
use crate::{Error, regular};

/// Held as long as it is open; the kernel drops it with its process, so it is never stale.
#[derive(Debug)]
pub(crate) struct Lock(File);

impl Lock {
    /// Takes the log in a folder for this process.
    pub(crate) fn take(folder: &Path) -> Result<Self, Error> {
        let path = folder.join("lock");
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        let file = regular::open(&path, options.mode(0o600));
        let mut file = file.map_err(at("open", &path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                // Only to tell the user; a holder that has not written yet stays unnamed.
                let _ = file.take(32).read_to_string(&mut pid);
                return Err(Error::InUse {
                    path: folder.to_owned(),
                    holder: match pid.trim() {
                        "" => "another process".to_owned(),
                        pid => format!("process {pid}"),
                    },
                });
            }
            Err(TryLockError::Error(source)) => return Err(at("lock", &path)(source)),
        }
        file.set_len(0)
            .and_then(|()| writeln!(file, "{}", std::process::id()))
            .map_err(at("write", &path))?;
        Ok(Self(file))
    }

    /// Whether the folder still has this lock, so that it keeps others out.
    pub(crate) fn holds(&self, folder: &Path) -> bool {
        let place = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        let own = self.0.metadata().map(place).ok();
        own.is_some() && own == fs::symlink_metadata(folder.join("lock")).map(place).ok()
    }
}
