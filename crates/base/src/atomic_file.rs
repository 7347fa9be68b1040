//! Files that are replaced whole or not at all.
#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the one module of this crate that touches files"
)]

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

/// The mode of a file that only its owner may read.
pub const PRIVATE: u32 = 0o600;

/// How the name of a file ends that a crash may have left behind.
pub const TEMPORARY: &str = "tmp";

/// Whether a file must survive a crash of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// It is on the disk when [`replace_file`] returns.
    Durable,
    /// After a crash of the machine the earlier one may be there, or none.
    Volatile,
}

/// Replaces a file by what `write` writes. A reader sees the earlier file or the new one, also after
/// a crash of this process; the new one has this mode, less the umask.
///
/// The content is written to a new file beside it, which is renamed. If the file must be durable,
/// first the content and then the folder, which has the name, are synced.
///
/// # Errors
/// If it cannot be written. Then the earlier file is there, unless only syncing the folder failed.
pub fn replace_file(
    path: &Path,
    mode: u32,
    durability: Durability,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    replace_and_sync(path, mode, durability, write, sync_folder)
}

/// Syncs a folder: a file that was made, renamed or removed in it stays so after a crash of the
/// machine.
///
/// # Errors
/// If it cannot be opened or synced.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn replace_and_sync(
    path: &Path,
    mode: u32,
    durability: Durability,
    write: impl FnOnce(&mut File) -> io::Result<()>,
    sync: impl FnOnce(&Path) -> io::Result<()>,
) -> io::Result<()> {
    replace_by(&temporary(path)?, path, mode, durability, write)?;
    match durability {
        Durability::Durable => sync(folder_of(path)),
        Durability::Volatile => Ok(()),
    }
}

/// Writes the temporary file, and renames it.
fn replace_by(
    temporary: &Path,
    path: &Path,
    mode: u32,
    durability: Durability,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    // One that an earlier process left, or that was put there for us to write through.
    match fs::remove_file(temporary) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(temporary)?;
    let written = write(&mut file).and_then(|()| match durability {
        Durability::Durable => file.sync_all(),
        Durability::Volatile => Ok(()),
    });
    written
        .and_then(|()| fs::rename(temporary, path))
        .inspect_err(|_| drop(fs::remove_file(temporary)))
}

/// A name beside the file that no other writer has: not in this process, and in no other.
fn temporary(path: &Path) -> io::Result<PathBuf> {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let number = LAST.fetch_add(1, Ordering::Relaxed);
    let Some(name) = path.file_name() else {
        return Err(io::Error::new(ErrorKind::IsADirectory, "it is not a file"));
    };
    let mut name = OsString::from(name);
    name.push(format!(".{}-{number}.{TEMPORARY}", process::id()));
    Ok(path.with_file_name(name))
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::io::Write;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn put(path: &Path, text: &str) -> io::Result<()> {
        let write = |file: &mut File| file.write_all(text.as_bytes());
        replace_file(path, PRIVATE, Durability::Durable, write)
    }

    fn names(folder: &Path) -> Vec<OsString> {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name()).collect()
    }

    #[test]
    fn a_replaced_file_is_private_and_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        for text in ["one", "another"] {
            put(&path, text).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
            let mode = fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, PRIVATE);
            assert_eq!(names(folder.path()), ["key"]);
        }
    }

    #[test]
    fn the_folder_is_synced_after_the_new_name_is_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        for (durability, is_synced) in [(Durability::Durable, true), (Durability::Volatile, false)]
        {
            let synced = RefCell::new(None);
            let write = |file: &mut File| file.write_all(b"new");
            let sync = |folder: &Path| {
                *synced.borrow_mut() = Some((folder.to_owned(), fs::read(&path)?));
                Ok(())
            };
            replace_and_sync(&path, PRIVATE, durability, write, sync).unwrap();
            let expected = (folder.path().to_owned(), b"new".to_vec());
            assert_eq!(synced.into_inner(), is_synced.then_some(expected));
            fs::remove_file(&path).unwrap();
        }
        let failed = |_: &Path| Err(io::Error::other("the disk is gone"));
        let write = |file: &mut File| file.write_all(b"new");
        let result = replace_and_sync(&path, PRIVATE, Durability::Durable, write, failed);
        assert_eq!(result.unwrap_err().to_string(), "the disk is gone");
        assert_eq!(folder_of(Path::new("key")), Path::new("."));
    }

    #[test]
    fn a_failed_write_leaves_the_earlier_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        put(&path, "earlier").unwrap();
        let write = |file: &mut File| {
            file.write_all(b"half")?;
            Err(io::Error::other("no more"))
        };
        replace_file(&path, PRIVATE, Durability::Durable, write).unwrap_err();
        assert_eq!(fs::read_to_string(&path).unwrap(), "earlier");
        assert_eq!(names(folder.path()), ["key"]);
    }

    #[test]
    fn a_temporary_file_that_is_there_is_not_written_through() {
        let folder = tempfile::tempdir().unwrap();
        let [path, temporary, other] = ["key", "key.tmp", "other"].map(|it| folder.path().join(it));
        fs::write(&other, "other").unwrap();
        symlink(&other, &temporary).unwrap();
        let write = |file: &mut File| file.write_all(b"secret");
        replace_by(&temporary, &path, PRIVATE, Durability::Durable, write).unwrap();
        assert_eq!(fs::read_to_string(&other).unwrap(), "other");
        let metadata = fs::symlink_metadata(&path).unwrap();
        assert!(metadata.is_file());
        assert_eq!(metadata.permissions().mode() & 0o777, PRIVATE);
    }

    #[test]
    fn a_link_in_the_place_of_the_file_is_replaced_and_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("key"), folder.path().join("other"));
        fs::write(&other, "other").unwrap();
        symlink(&other, &path).unwrap();
        put(&path, "secret").unwrap();
        assert_eq!(fs::read_to_string(&other).unwrap(), "other");
        assert!(fs::symlink_metadata(&path).unwrap().is_file());
    }

    #[test]
    fn writers_at_once_each_write_a_whole_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let texts = ["a", "b", "c", "d"].map(|letter| letter.repeat(50_000));
        std::thread::scope(|scope| {
            for text in &texts {
                scope.spawn(|| (0..8).for_each(|_| put(&path, text).unwrap()));
            }
        });
        assert!(texts.contains(&fs::read_to_string(&path).unwrap()));
        assert_eq!(names(folder.path()), ["key"]);
    }
}
