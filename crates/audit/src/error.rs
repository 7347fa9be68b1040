//! Why something cannot be put on record, or a log not be opened.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::NoRandomness;
use crate::regular::OfFile;

/// What can go wrong. Whoever gets one for a request must not execute it, or not answer it: it is
/// not on record.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// More waits to be written than may.
    #[error("the audit log cannot keep up: too many records wait to be written")]
    QueueFull,
    /// Nothing is written any more.
    #[error("the audit log is closed")]
    Closed,
    /// The operating system refuses something.
    #[error("the audit log cannot be written: cannot {what} {}: {error}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why not. It is no `source`: the text has it already.
        error: Arc<io::Error>,
    },
    /// Nothing can come after a file with this number.
    #[error("the audit log cannot be written: what is in {} has the highest number there is, which no node writes: move it away", path.display())]
    LastNumber {
        /// The file, or the folder it is in.
        path: PathBuf,
    },
    /// The file is not the one that was written.
    #[error("the audit log cannot be written: {} was removed, replaced or changed by another program", path.display())]
    Replaced {
        /// The file.
        path: PathBuf,
    },
    /// There are no salts.
    #[error("the audit log cannot be written: {0}")]
    NoRandomness(NoRandomness),
    /// Another process writes the log.
    #[error("the audit log {} is in use by {holder}: stop the node first", path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
        /// The other process.
        holder: String,
    },
    /// Records must be kept longer.
    #[error("records are kept for at least 7 days")]
    TooYoung,
    /// The clock may be wrong, and with it what is said of the age of records.
    #[error(
        "the clock is {} days ahead of the records of the audit log: if it is right, give a date instead of an age",
        ahead.as_secs() / 86_400
    )]
    ClockAhead {
        /// By so much.
        ahead: Duration,
    },
    /// Records are dropped only up to a checkpoint.
    #[error(
        "records can be dropped only up to a checkpoint, and record {seq} of {log_id} has none"
    )]
    NoCheckpoint {
        /// The log.
        log_id: String,
        /// The record.
        seq: u64,
    },
    /// There is no signature under what must be signed.
    #[error("the audit log cannot be signed: {0}")]
    NotSigned(String),
}

impl From<NoRandomness> for Error {
    fn from(error: NoRandomness) -> Self {
        Self::NoRandomness(error)
    }
}

/// Puts what was tried and where before why it failed. If the error knows which file it was, it is that
/// one.
pub(crate) fn at(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |error| {
        let (path, error) = match error.downcast::<OfFile>() {
            Ok(known) => (known.path, known.error),
            Err(error) => (path, error),
        };
        Error::Io {
            what,
            path,
            error: Arc::new(error),
        }
    }
}
