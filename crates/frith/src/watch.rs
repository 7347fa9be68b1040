//! Notices that a file has changed.
//!
//! By looking twice a second: whatever an editor, a package or a cluster does to replace a file, and on
//! every file system, its size, its time or its inode is another one afterwards.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior, interval};

/// How often one looks.
const EVERY: Duration = Duration::from_millis(500);

/// A file that is watched.
pub(crate) struct Watch {
    file: Option<PathBuf>,
    /// What it was when it was last read.
    read: Option<Mark>,
    /// What it was at the last look.
    last: Option<Mark>,
    looks: Interval,
}

/// What a file cannot be changed without: device, inode and size, and the time of its change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark {
    inode: (u64, u64),
    size: u64,
    changed: (i64, i64),
}

impl Watch {
    /// Begins; there may be no file.
    pub(crate) fn new(file: Option<&Path>) -> Self {
        let mut looks = interval(EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut watch = Self {
            file: file.map(Path::to_owned),
            read: None,
            last: None,
            looks,
        };
        watch.reading();
        watch
    }

    /// Watches another file from now on, if it is another.
    pub(crate) fn follow(&mut self, file: &Path) {
        if self.file.as_deref() != Some(file) {
            self.file = Some(file.to_owned());
            self.reading();
        }
    }

    /// It is about to be read: only what changes from now on counts.
    pub(crate) fn reading(&mut self) {
        self.read = self.mark();
        self.last = self.read;
    }

    /// Waits until it is another one than was read, and has been so for two looks: whoever writes it
    /// may not be done. A file that is gone is not another one. May be dropped and called again.
    pub(crate) async fn changed(&mut self) {
        loop {
            self.looks.tick().await;
            let now = self.mark();
            let rests = now == self.last;
            self.last = now;
            if rests && now.is_some() && now != self.read {
                return self.reading();
            }
        }
    }

    fn mark(&self) -> Option<Mark> {
        let found = std::fs::metadata(self.file.as_ref()?).ok()?;
        Some(Mark {
            inode: (found.dev(), found.ino()),
            size: found.size(),
            changed: (found.ctime(), found.ctime_nsec()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a change is noticed before a minute of virtual time is over.
    async fn is_noticed(watch: &mut Watch) -> bool {
        let minute = Duration::from_secs(60);
        tokio::time::timeout(minute, watch.changed()).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_is_noticed_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("frith.yaml");
        std::fs::write(&file, "one").unwrap();
        let mut watch = Watch::new(Some(&file));
        assert!(!is_noticed(&mut watch).await);
        std::fs::write(&file, "another").unwrap();
        assert!(is_noticed(&mut watch).await);
        assert!(!is_noticed(&mut watch).await);
        // As editors do it, with the size it had.
        let beside = folder.path().join("beside");
        std::fs::write(&beside, "renamed").unwrap();
        std::fs::rename(&beside, &file).unwrap();
        assert!(is_noticed(&mut watch).await);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_read_by_other_means_is_no_change() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("frith.yaml");
        std::fs::write(&file, "one").unwrap();
        let mut watch = Watch::new(Some(&file));
        std::fs::write(&file, "another").unwrap();
        watch.reading();
        assert!(!is_noticed(&mut watch).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_is_gone_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("frith.yaml");
        std::fs::write(&file, "one").unwrap();
        let mut watch = Watch::new(Some(&file));
        std::fs::remove_file(&file).unwrap();
        assert!(!is_noticed(&mut watch).await);
        std::fs::write(&file, "back again").unwrap();
        assert!(is_noticed(&mut watch).await);
        assert!(!is_noticed(&mut Watch::new(None)).await);
    }
}
