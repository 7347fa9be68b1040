//! Disks that fail, as a process sees them.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::preload;

/// Has writes or syncs of a process fail. The rule and the library that follows it lie in a folder of
/// the test.
#[derive(Debug)]
pub struct DiskFaults {
    folder: PathBuf,
}

/// A call that may fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskCall {
    /// A write to a file.
    Write,
    /// A sync of a file or a folder.
    Sync,
}

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It fails with EIO and does nothing.
    Fail,
    /// Half of the bytes are written, and it fails with EIO.
    Tear,
    /// Half of the bytes are written, and it says so.
    Short,
    /// It takes this long, and is well then.
    Delay(Duration),
}

impl DiskFaults {
    /// Compiles the library into a folder. Nothing fails yet.
    ///
    /// # Panics
    /// If there is no C compiler, which the build of SQLite needs as well.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        preload::compile("faults", folder);
        Self {
            folder: folder.to_owned(),
        }
    }

    /// What a process has in its environment so that its calls can fail.
    #[must_use]
    pub fn variables(&self) -> [(&'static str, OsString); 2] {
        [
            ("LD_PRELOAD", self.folder.join("faults.so").into()),
            ("DISK_FAULTS", self.folder.clone().into()),
        ]
    }

    /// From now on these calls have this fault, for files with this in their path.
    ///
    /// # Panics
    /// If the rule cannot be written.
    pub fn begin(&self, call: DiskCall, file: &str, fault: Fault) {
        let call = match call {
            DiskCall::Write => "write",
            DiskCall::Sync => "sync",
        };
        let fault = match fault {
            Fault::Fail => "fail".to_owned(),
            Fault::Tear => "tear".to_owned(),
            Fault::Short => "short".to_owned(),
            Fault::Delay(time) => format!("delay {}", time.as_millis()),
        };
        let new = self.folder.join("new");
        let written = fs::write(&new, format!("{call} {file} {fault}"));
        let named = written.and_then(|()| fs::rename(&new, self.folder.join("rule")));
        named.unwrap_or_else(|error| panic!("{}: {error}", new.display()));
    }

    /// From now on nothing fails.
    ///
    /// # Panics
    /// If the rule cannot be removed.
    pub fn end(&self) {
        let rule = self.folder.join("rule");
        fs::remove_file(&rule).unwrap_or_else(|error| panic!("{}: {error}", rule.display()));
    }

    /// How many calls had a fault.
    #[must_use]
    pub fn hits(&self) -> u64 {
        fs::metadata(self.folder.join("hits")).map_or(0, |hits| hits.len())
    }
}
