//! What verification reads, and what it says.

use std::io;

use canonical::Digest;

use crate::{Fault, Place, PurgeKind, UnixMillis};

/// Where records and checkpoints are read from.
pub trait Source {
    /// The next line of the log, without its end, put into `line`.
    ///
    /// # Errors
    /// If it cannot be read.
    fn next_record(&mut self, line: &mut Vec<u8>) -> io::Result<Option<Found>>;

    /// From now on [`Source::next_checkpoint`] gives those of this log.
    ///
    /// # Errors
    /// If they cannot be read.
    fn begin_checkpoints(&mut self, log_id: &str) -> io::Result<()>;

    /// The next checkpoint of the log, put into `line`.
    ///
    /// # Errors
    /// If it cannot be read.
    fn next_checkpoint(&mut self, line: &mut Vec<u8>) -> io::Result<Option<Found>>;

    /// Where there are checkpoints, and of which logs.
    ///
    /// # Errors
    /// If that cannot be read.
    fn checkpoint_logs(&mut self) -> io::Result<Vec<(String, Place)>>;
}

/// A line that was found.
#[derive(Debug, Clone)]
pub struct Found {
    /// Where.
    pub place: Place,
    /// How it ends.
    pub end: End,
    /// Whether it was written after verification began, so that what it speaks of may be later
    /// than what is read.
    pub is_fresh: bool,
}

/// How a line ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// With a newline.
    Newline,
    /// The file ends.
    CutOff,
    /// It goes on beyond what is read of any line.
    TooLong,
}

/// What verification found.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Records that were verified, those without body included.
    pub records: u64,
    /// Records whose body was erased.
    pub erased: u64,
    /// Those of them whose purge is on record, but does not say which records it meant: purges of
    /// earlier versions did not. Whoever can write the files could have blanked others instead.
    pub unproven: u64,
    /// Bytes that were read.
    pub bytes: u64,
    /// Checkpoints that were verified.
    pub checkpoints: u64,
    /// Logs that were found; more than one means that there was a gap.
    pub logs: u64,
    /// The last record.
    pub head: Option<Head>,
    /// Records after the last checkpoint.
    pub unsigned: u64,
    /// Where records say that something is missing, the first hundred.
    pub gaps: Vec<Gap>,
    /// The purges on record, the first ten thousand.
    pub purges: Vec<RecordedPurge>,
    /// Last lines that have no end: a crash cut them off, or they are being written. Nothing that
    /// was acknowledged is in them.
    pub unfinished: Vec<Place>,
    /// The hash of the last checkpoint, if it is that of the last record and no record names it yet.
    pub(crate) to_name: Option<Digest>,
    /// What is wrong, the first hundred. In each log only the first broken record is named: what
    /// comes after it proves nothing.
    pub faults: Vec<Fault>,
}

/// The last record of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The log.
    pub log_id: String,
    /// Its number.
    pub seq: u64,
    /// Its hash.
    pub hash: Digest,
}

/// A record that says that something is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// Where it stands.
    pub place: Place,
    /// The log it is in.
    pub log_id: String,
    /// Its number; 1 if a new log begins with it.
    pub seq: u64,
    /// When it was written.
    pub timestamp: UnixMillis,
    /// What was found.
    pub reason: String,
}

/// A record that says that something was purged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedPurge {
    /// Where it stands.
    pub place: Place,
    /// The log it is in.
    pub log_id: String,
    /// Its number.
    pub seq: u64,
    /// When it was written.
    pub timestamp: UnixMillis,
    /// What was taken away.
    pub kind: PurgeKind,
    /// Of how many records.
    pub count: u64,
    /// The earliest time of these records. Purges of earlier versions do not say it.
    pub from: Option<UnixMillis>,
    /// The latest time of these records.
    pub to: Option<UnixMillis>,
}

impl Report {
    /// Whether nothing is wrong.
    #[must_use]
    pub const fn is_intact(&self) -> bool {
        self.faults.is_empty()
    }
}
