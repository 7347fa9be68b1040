//! What a query can open.
//!
//! SQLite opens a database by its path, and other files by what is added to that path, later, when a path
//! may lead elsewhere than it did when it was checked. So the kernel is told (Landlock) what the thread of
//! a query may open at all: the folder of the database.
//!
//! A FIFO would block a query for as long as nothing writes to it, so nothing is opened that is no regular
//! file. Commands of the same agent could still put one there in between, which the time limit of the
//! process is for.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr,
};
use rustix::fs::FileType;

use super::query::QueryError;

/// The first that sees files cut short.
const LEVEL: ABI = ABI::V3;

/// The journal of a transaction, by what is added to the name of its database.
const JOURNAL: &str = "-journal";

/// What SQLite opens beside a database. Databases that are attached and temporary files would be others:
/// both are ruled out by how a connection is set up.
const BESIDE: [&str; 3] = [JOURNAL, "-wal", "-shm"];

/// What a journal ends with if it names a super-journal: the length of the name, its checksum, this.
const MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];

/// Refuses a database beside which there is something that SQLite would take for a file of its own,
/// and that is no regular file; or a journal that names other files.
pub(super) fn check_beside(database: &Path) -> Result<(), QueryError> {
    let beside = |suffix: &str| {
        let mut path = OsString::from(database);
        path.push(suffix);
        path
    };
    for suffix in BESIDE {
        let kind = match rustix::fs::lstat(beside(suffix)) {
            Ok(stat) => FileType::from_raw_mode(stat.st_mode),
            Err(rustix::io::Errno::NOENT) => continue,
            Err(errno) => {
                let error = io::Error::from(errno);
                return Err(QueryError::Failed(format!(
                    "what lies beside the database as `{suffix}` cannot be looked at: {error}"
                )));
            }
        };
        if kind != FileType::RegularFile {
            return Err(QueryError::NotRegular(format!(
                "beside the database lies something as `{suffix}` that is no regular file, so it is \
                 not opened; remove that first"
            )));
        }
    }
    match names_super_journal(Path::new(&beside(JOURNAL))) {
        Ok(false) => Ok(()),
        Ok(true) => Err(QueryError::NotRegular(format!(
            "the `{JOURNAL}` beside the database names a super-journal, so it is not opened: the \
             program that changed several databases at once has to finish that"
        ))),
        Err(error) => Err(QueryError::Failed(format!(
            "the `{JOURNAL}` beside the database cannot be read: {error}"
        ))),
    }
}

/// Whether a journal ends with the name of a super-journal. SQLite would open that file by any path that
/// stands there, read names of more journals from it, open those, and remove it.
fn names_super_journal(journal: &Path) -> io::Result<bool> {
    let mut file = match File::open(journal) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    let size = file.seek(SeekFrom::End(0))?;
    let Some(end) = size.checked_sub(16) else {
        return Ok(false);
    };
    file.seek(SeekFrom::Start(end))?;
    let (mut length, mut checksum, mut magic) = ([0; 4], [0; 4], [0; 8]);
    file.read_exact(&mut length)?;
    file.read_exact(&mut checksum)?;
    file.read_exact(&mut magic)?;
    let length = u64::from(u32::from_be_bytes(length));
    Ok(magic == MAGIC && (1..=end).contains(&length))
}

/// Has this thread open nothing but what is in the folder that the process is in, for as long as it
/// lives.
pub(super) fn stay_in_folder() -> Result<(), QueryError> {
    confine(Path::new(".")).map_err(|error| {
        QueryError::Failed(format!(
            "queries need Landlock, which this machine's kernel does not offer: {error}"
        ))
    })
}

fn confine(folder: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let folder = PathFd::new(folder)?;
    let rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(LEVEL))?
        .create()?
        .add_rule(PathBeneath::new(folder, AccessFs::from_all(LEVEL)))?;
    // What SQLite's random numbers begin with, for the whole process.
    let random = PathFd::new("/dev/urandom")?;
    let rules = rules.add_rule(PathBeneath::new(random, AccessFs::ReadFile))?;
    rules.restrict_self()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_regular_files_lie_beside_a_database() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("x.db");
        assert!(check_beside(&database).is_ok());
        for suffix in BESIDE {
            let beside = folder.path().join(format!("x.db{suffix}"));
            fs::write(&beside, "").unwrap();
            assert!(check_beside(&database).is_ok(), "{suffix}");
            fs::remove_file(&beside).unwrap();
            std::os::unix::fs::symlink("elsewhere", &beside).unwrap();
            assert!(check_beside(&database).is_err(), "{suffix}");
            fs::remove_file(&beside).unwrap();
            fs::create_dir(&beside).unwrap();
            assert!(check_beside(&database).is_err(), "{suffix}");
            fs::remove_dir(&beside).unwrap();
        }
    }

    #[test]
    fn a_journal_must_not_name_a_super_journal() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("x.db");
        let journal = folder.path().join("x.db-journal");
        let end = |name: &[u8], length: u32, magic: &[u8]| {
            let mut end = vec![0; 512];
            end.extend_from_slice(name);
            end.extend_from_slice(&length.to_be_bytes());
            end.extend_from_slice(&[0; 4]);
            end.extend_from_slice(magic);
            end
        };
        let name = b"/tmp/x-mj123456912";
        let length = u32::try_from(name.len()).unwrap();
        for (content, is_refused) in [
            (end(name, length, &MAGIC), true),
            (end(name, 0, &MAGIC), false),
            (end(name, 10_000, &MAGIC), false),
            (end(name, length, &[0; 8]), false),
            (MAGIC.to_vec(), false),
        ] {
            fs::write(&journal, content).unwrap();
            assert_eq!(check_beside(&database).is_err(), is_refused);
        }
    }

    #[test]
    fn only_what_is_below_opens() {
        let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (a, b) = (inside.path().join("a"), outside.path().join("b"));
        fs::write(&a, "a").unwrap();
        fs::write(&b, "b").unwrap();
        let link = inside.path().join("link");
        std::os::unix::fs::symlink(&b, &link).unwrap();
        let thread = std::thread::spawn({
            let (folder, b, c) = (
                inside.path().to_owned(),
                b.clone(),
                outside.path().join("c"),
            );
            move || {
                confine(&folder).unwrap();
                assert!(fs::read(&a).is_ok());
                assert!(fs::write(&a, "c").is_ok());
                assert!(fs::read(&b).is_err());
                assert!(fs::read(&link).is_err());
                assert!(fs::write(&c, "c").is_err());
            }
        });
        thread.join().unwrap();
        // Other threads are as they were.
        assert_eq!(fs::read(&b).unwrap(), b"b");
    }
}
