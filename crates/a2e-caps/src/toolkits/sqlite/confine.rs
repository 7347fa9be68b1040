//! A thread that can open files below one folder and nowhere else.
//!
//! SQLite opens a database by its path, and its journals later, when a path may lead elsewhere than
//! it did when it was checked. So the kernel is told (Landlock) what this thread may open at all. It
//! cannot be told otherwise again: each query has a thread of its own.

use std::os::fd::AsFd;

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr,
};
use tokio::sync::oneshot;

use crate::tool::ToolFailure;

/// The first that sees files cut short.
const LEVEL: ABI = ABI::V3;

/// Runs something on a thread of its own.
pub(super) async fn on_a_thread<T: Send + 'static>(
    run: impl FnOnce() -> Result<T, ToolFailure> + Send + 'static,
) -> Result<T, ToolFailure> {
    let (answer, outcome) = oneshot::channel();
    let thread = std::thread::Builder::new().name("sqlite".into());
    let started = thread.spawn(move || {
        // Nobody may wait for it any more.
        let _ = answer.send(run());
    });
    started.map_err(|error| ToolFailure::new(format!("no thread for the query: {error}")))?;
    outcome.await.map_err(|_| ToolFailure::crashed())?
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
        on_a_thread(move || {
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
