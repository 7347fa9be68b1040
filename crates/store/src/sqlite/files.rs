//! The files of a database: private, and still the ones that were opened.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::Error;

/// The two files that hold what was written, as they were when the database was opened.
#[derive(Debug, Clone)]
pub(super) struct Files {
    database: Known,
    log: Known,
}

#[derive(Debug, Clone)]
struct Known {
    path: PathBuf,
    device: u64,
    inode: u64,
}

/// Makes an empty file for a new database, for its owner alone; checks one that is there.
pub(super) fn prepare(path: &Path) -> Result<(), Error> {
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    match made {
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(Error::io("make", path, &error)),
    }
    let metadata = fs::metadata(path).map_err(|error| Error::io("look at", path, &error))?;
    let mode = metadata.mode() & 0o7777;
    match mode & 0o077 {
        _ if !metadata.is_file() => Err(Error::NotOurs {
            path: path.to_owned(),
        }),
        0 => Ok(()),
        _ => Err(Error::TooOpen {
            path: path.to_owned(),
            mode,
        }),
    }
}

/// The size of a database in bytes, without its log.
pub(super) fn size(path: &Path) -> Result<u64, Error> {
    let metadata = fs::metadata(path).map_err(|error| Error::io("look at", path, &error))?;
    Ok(metadata.len())
}

/// Where the log of a database is.
pub(super) fn log_path(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push("-wal");
    name.into()
}

/// Puts the entries of the folder that a file is in onto the disk.
pub(super) fn sync_folder(path: &Path) -> Result<(), Error> {
    let folder = folder_of(path);
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|error| Error::io("sync", folder, &error))
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

impl Files {
    /// Remembers the files of a database that was just opened and written to.
    pub(super) fn watch(path: &Path) -> Result<Self, Error> {
        Ok(Self {
            database: Known::look(path.to_owned())?,
            log: Known::look(log_path(path))?,
        })
    }

    /// Refuses if one of them is gone. A file that was deleted or replaced can be written to as
    /// before, and nobody would ever find it again.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.database.check()?;
        self.log.check()
    }

    /// The folder they are in.
    pub(super) fn folder(&self) -> &Path {
        folder_of(&self.database.path)
    }

    /// The log, to sync it. SQLite has no locks on it that closing this would drop.
    pub(super) fn open_log(&self) -> Result<File, Error> {
        let path = &self.log.path;
        File::open(path).map_err(|error| Error::io("open", path, &error))
    }
}

impl Known {
    fn look(path: PathBuf) -> Result<Self, Error> {
        let metadata = fs::metadata(&path).map_err(|error| Error::io("look at", &path, &error))?;
        Ok(Self {
            path,
            device: metadata.dev(),
            inode: metadata.ino(),
        })
    }

    fn check(&self) -> Result<(), Error> {
        let is_same =
            |metadata: fs::Metadata| metadata.dev() == self.device && metadata.ino() == self.inode;
        match fs::metadata(&self.path) {
            Ok(metadata) if is_same(metadata.clone()) => Ok(()),
            _ => Err(Error::Gone {
                path: self.path.clone(),
            }),
        }
    }
}
