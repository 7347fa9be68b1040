//! The check of a database that the process before this one did not close.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::files::sync_folder;
use crate::Error;

/// Whether a database was checked after an unclean end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Integrity {
    /// The process before this one closed it.
    NotNeeded,
    /// The check has not finished; [`Sqlite::finish_check`](super::Sqlite::finish_check) runs it.
    Running,
    /// The check found nothing.
    Passed,
    /// The check found damage, or failed.
    Damaged,
}

/// An empty file beside a database that exists while the database is open, and stays if its process is
/// killed or the machine loses power.
#[derive(Debug)]
pub(super) struct OpenMark(PathBuf);

impl OpenMark {
    /// The mark of a database, set or not.
    pub(super) fn of(database: &Path) -> Self {
        let mut name = OsString::from(database);
        name.push("-open");
        Self(name.into())
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.exists()
    }

    /// Sets the mark, on the disk too.
    pub(super) fn set(&self) -> Result<(), Error> {
        let mark = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&self.0);
        mark.map_err(|error| Error::io("make", &self.0, &error))?;
        sync_folder(&self.0)
    }

    pub(super) fn remove(&self) -> io::Result<()> {
        match fs::remove_file(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// Checks the structure of a database.
///
/// # Errors
/// [`Error::Damaged`] with the first problem.
pub(super) fn quick_check(connection: &Connection) -> Result<(), Error> {
    let found = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0))?;
    match found.as_str() {
        "ok" => Ok(()),
        _ => Err(Error::Damaged {
            why: found.replace('\n', " "),
        }),
    }
}
