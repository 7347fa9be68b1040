//! A copy of a database, whole and of one moment.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rusqlite::OpenFlags;

use super::check::{check, open};
use super::files::{log_path, sync_folder};
use super::{connect, migrations, run};
use crate::Error;

/// What to do with a file that is in the place of the backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// Leave it there and refuse.
    Keep,
    /// Put the backup in its place.
    Replace,
}

/// A backup that was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backup {
    /// Its size in bytes.
    pub bytes: u64,
    /// The version of the database in it.
    pub version: i64,
}

/// Copies a database into one new file that only its owner may read, also while a node writes to
/// it: the copy is of one moment, with everything that was acknowledged before. It is checked
/// before it gets its name.
///
/// The copy is marked as one: the node that opens it first interrupts what it has open (see
/// [`Restored`](super::Restored)), since it may have gone on after the copy was made.
///
/// Who reads in a transaction of his own sees one state and holds up nobody, so this needs no help
/// of the process that writes. Encrypted secrets are in the copy, the key to them is not.
///
/// # Errors
/// If there is no database, something is in the way, or the copy is not well.
pub fn backup(database: &Path, target: &Path, existing: Existing) -> Result<Backup, Error> {
    let connection = open(database)?;
    let version = migrations::version(&connection, database)?;
    refuse_own(database, target)?;
    let reserved = Reserved::take(target, existing)?;
    // SQLite fills an empty file as it is, with its mode.
    let name = reserved.temporary.to_str();
    let name = name.ok_or_else(|| refused(target, "its name is not UTF-8"))?;
    connection.execute("VACUUM INTO ?1", [name])?;
    mark(&reserved.temporary)?;
    let report = check(&reserved.temporary)?;
    if let Some(problem) = report.problems.into_iter().next() {
        return Err(Error::Damaged { why: problem });
    }
    let bytes = reserved.keep()?;
    Ok(Backup { bytes, version })
}

/// Says in a copy that it is one: what was done after it was made is not known to it, so that it is
/// not done again by the node that opens it.
fn mark(copy: &Path) -> Result<(), Error> {
    let connection = connect(copy, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    // Nobody else has the file, and it is synced as a whole later.
    connection.pragma_update_and_check(None, "journal_mode", "memory", |_| Ok(()))?;
    run::mark_copy(&connection)
}

/// The database's own files are no place for its backup.
fn refuse_own(database: &Path, target: &Path) -> Result<(), Error> {
    let identity = |path: &Path| fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
    let mut memory = OsString::from(database);
    memory.push("-shm");
    let own = [database.to_owned(), log_path(database), memory.into()];
    let target_identity = identity(target);
    match target_identity.is_some() && own.iter().any(|own| identity(own) == target_identity) {
        true => Err(refused(target, "it is a part of the database itself")),
        false => Ok(()),
    }
}

fn refused(target: &Path, why: &str) -> Error {
    Error::Io {
        what: "write to",
        path: target.to_owned(),
        why: why.to_owned(),
    }
}

/// A place for the backup: its name, empty if it is new, and a file beside it to write into. Unless
/// it is kept nothing of both is left.
struct Reserved<'a> {
    target: &'a Path,
    temporary: PathBuf,
    is_new: bool,
    is_kept: bool,
}

impl<'a> Reserved<'a> {
    fn take(target: &'a Path, existing: Existing) -> Result<Self, Error> {
        let is_new = match make(target) {
            Ok(()) => true,
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(Error::io("make", target, &error));
            }
            Err(_) if !target.is_file() => return Err(refused(target, "it is not a file")),
            Err(_) if existing == Existing::Replace => false,
            Err(_) => {
                return Err(Error::FileExists {
                    path: target.to_owned(),
                });
            }
        };
        let mut temporary = OsString::from(target);
        temporary.push(format!(".{}.new", std::process::id()));
        let temporary = PathBuf::from(temporary);
        let reserved = Self {
            target,
            temporary,
            is_new,
            is_kept: false,
        };
        let made = make(&reserved.temporary);
        made.map_err(|error| Error::io("make", &reserved.temporary, &error))?;
        Ok(reserved)
    }

    /// Gives the file its name, once it is on the disk; returns its size.
    fn keep(mut self) -> Result<u64, Error> {
        let target = self.target;
        let moved = File::open(&self.temporary).and_then(|file| {
            file.sync_all()?;
            fs::rename(&self.temporary, target)?;
            file.metadata()
        });
        let metadata = moved.map_err(|error| Error::io("write", target, &error))?;
        self.is_kept = true;
        sync_folder(target)?;
        Ok(metadata.len())
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        let _ = fs::remove_file(&self.temporary);
        if self.is_new {
            let _ = fs::remove_file(self.target);
        }
    }
}

fn make(path: &Path) -> io::Result<()> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map(drop)
}
