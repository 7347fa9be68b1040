//! A thread that can open files below one folder and nowhere else.
//!
//! SQLite opens a database by its path, and its journals later, when a path may lead elsewhere than
//! it did when it was checked. So the kernel is told (Landlock) what this thread may open at all. It
//! cannot be told otherwise again: each query has a thread of its own.
//!
//! A FIFO would keep such a thread for as long as nothing writes to it, so that nothing is opened that
//! is no regular file. Commands of the same agent could still put one there in between: a thread
//! counts for its agent until it has ended, however long nobody has waited for it, and what an agent
//! blocks is its own.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr,
};
use rustix::fs::FileType;
use tokio::sync::oneshot;

use crate::shares::Share;
use crate::tool::ToolFailure;

/// The first that sees files cut short.
const LEVEL: ABI = ABI::V3;

/// What SQLite opens beside a database, by what is added to its name.
const BESIDE: [&str; 3] = ["-journal", "-wal", "-shm"];

/// Runs something on a thread of its own, which is one of its agent's until it ends.
pub(super) async fn on_a_thread<T: Send + 'static>(
    share: Share,
    run: impl FnOnce() -> Result<T, ToolFailure> + Send + 'static,
) -> Result<T, ToolFailure> {
    let (answer, outcome) = oneshot::channel();
    let thread = std::thread::Builder::new().name("sqlite".into());
    let started = thread.spawn(move || {
        let outcome = run();
        drop(share);
        // Nobody may wait for it any more.
        let _ = answer.send(outcome);
    });
    started.map_err(|error| ToolFailure::new(format!("no thread for the query: {error}")))?;
    outcome.await.map_err(|_| ToolFailure::crashed())?
}

/// Refuses a database beside which there is something that SQLite would take for a file of its own,
/// and that is no regular file.
pub(super) fn check_beside(database: &Path) -> Result<(), ToolFailure> {
    for suffix in BESIDE {
        let mut path = OsString::from(database);
        path.push(suffix);
        let kind = match rustix::fs::lstat(&path) {
            Ok(stat) => FileType::from_raw_mode(stat.st_mode),
            Err(rustix::io::Errno::NOENT) => continue,
            Err(errno) => {
                let error = io::Error::from(errno);
                return Err(ToolFailure::new(format!(
                    "what lies beside the database as `{suffix}` cannot be looked at: {error}"
                )));
            }
        };
        if kind != FileType::RegularFile {
            let text = format!(
                "beside the database lies something as `{suffix}` that is no regular file, so it is \
                 not opened; remove that first"
            );
            return Err(ToolFailure::denied("not_regular", text));
        }
    }
    Ok(())
}

/// Has this thread open nothing but what is below a folder, for as long as it lives.
pub(super) fn keep_below(folder: impl AsFd) -> Result<(), ToolFailure> {
    confine(folder).map_err(|error| {
        tracing::warn!(%error, "a query cannot be confined");
        ToolFailure::new("queries need Landlock, which this machine's kernel does not offer")
    })
}

fn confine(folder: impl AsFd) -> Result<(), Box<dyn std::error::Error>> {
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
    use std::fs::{self, File};

    use super::*;
    use crate::shares::{Kind, Shares};

    #[test]
    fn only_regular_files_lie_beside_a_database() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("x.db");
        assert_eq!(check_beside(&database), Ok(()));
        for suffix in BESIDE {
            let beside = folder.path().join(format!("x.db{suffix}"));
            fs::write(&beside, "").unwrap();
            assert_eq!(check_beside(&database), Ok(()), "{suffix}");
            fs::remove_file(&beside).unwrap();
            std::os::unix::fs::symlink("elsewhere", &beside).unwrap();
            assert!(check_beside(&database).is_err(), "{suffix}");
            fs::remove_file(&beside).unwrap();
            fs::create_dir(&beside).unwrap();
            assert!(check_beside(&database).is_err(), "{suffix}");
            fs::remove_dir(&beside).unwrap();
        }
    }

    #[tokio::test]
    async fn only_what_is_below_opens() {
        let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (a, b) = (inside.path().join("a"), outside.path().join("b"));
        fs::write(&a, "a").unwrap();
        fs::write(&b, "b").unwrap();
        std::os::unix::fs::symlink(&b, inside.path().join("link")).unwrap();
        let folder = File::open(inside.path()).unwrap();
        let link = inside.path().join("link");
        let (read, new) = (b.clone(), outside.path().join("c"));
        let shares = Shares::new(Kind::Queries, 1);
        let agent = "ada".into();
        on_a_thread(shares.take(&agent).unwrap(), move || {
            keep_below(&folder)?;
            assert!(fs::read(&a).is_ok());
            assert!(fs::write(&a, "c").is_ok());
            assert!(fs::read(&read).is_err());
            assert!(fs::read(&link).is_err());
            assert!(fs::write(&new, "c").is_err());
            Ok(())
        })
        .await
        .unwrap();
        // Other threads are as they were.
        assert_eq!(fs::read(&b).unwrap(), b"b");
    }
}
