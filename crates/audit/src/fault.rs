//! What can be wrong with a log, and where.

use std::fmt;
use std::sync::Arc;

/// A place in the files of a log.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The file, from the log's folder on.
    pub file: Arc<str>,
    /// The line, from 1 on.
    pub line: u64,
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Where it was found.
    pub place: Place,
    /// The log it belongs to, as far as that can be known.
    pub log_id: Option<String>,
    /// The record that should stand there, as far as that can be known.
    pub seq: Option<u64>,
    /// What it is.
    pub kind: FaultKind,
}

/// What can be wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FaultKind {
    /// The line is not a record.
    #[error("the line is no record: {0}")]
    Form(&'static str),
    /// The line is longer than any record.
    #[error("the line is longer than any record")]
    TooLong,
    /// The line has no end, and is not the last one.
    #[error("the line was cut off")]
    Unfinished,
    /// The link members do not fit `hash`.
    #[error(
        "log_id, seq, timestamp, event_type, prev_hash or body_hash was changed: they do not fit `hash`"
    )]
    Hash,
    /// The body does not fit `body_hash`.
    #[error("the body was changed: it does not fit `body_hash`")]
    BodyHash,
    /// The address beside the body does not fit the body's hash of it.
    #[error("the address was changed: it does not fit `remote_ip_hash`")]
    RemoteIp,
    /// A record of another log stands in this one.
    #[error("a record of the log {0} stands here")]
    ForeignRecord(String),
    /// A record is missing, or one too many.
    #[error("record {0} stands in its place")]
    Seq(u64),
    /// The record before it was changed or replaced.
    #[error("it does not follow the record before it: `prev_hash` is another")]
    PrevHash,
    /// A log begins as none does.
    #[error("a log cannot begin so: {0}")]
    Begins(&'static str),
    /// The record before the first one is missing, and no checkpoint stands for it.
    #[error("what came before it is missing, and no checkpoint stands for it")]
    NoAnchor,
    /// What came before was removed, and no purge is on record.
    #[error("what came before it was removed, and no purge is on record")]
    UnrecordedPurge,
    /// The body was erased, and no purge is on record.
    #[error("its body was erased at {0}, and no purge at that time is on record for it")]
    UnrecordedErasure(String),
    /// What keeps the chain together was erased.
    #[error("a record of this kind is never erased")]
    Erased,
    /// The checkpoint is not one.
    #[error("the checkpoint is not valid: {0}")]
    Checkpoint(String),
    /// Nobody knows whether the checkpoint is valid.
    #[error(
        "the checkpoint is signed with a key that is not known, and none after it stands for it"
    )]
    UnknownKey,
    /// A checkpoint says another hash than its record has.
    #[error("the signed checkpoint names another hash for this record")]
    CheckpointHash,
    /// A checkpoint stands for a record that is not there.
    #[error("the log ends before record {0}, for which there is a signed checkpoint")]
    HeadBelow(u64),
    /// The log ends elsewhere than the log after it says.
    #[error("the log should end with record {0}: the log after it says so")]
    OtherEnd(u64),
    /// The record names a checkpoint that is not there.
    #[error("the checkpoint that it names is missing")]
    MissingCheckpoint,
    /// After a checkpoint stands another record than the one that names it.
    #[error("the record before it has a checkpoint, and this one does not name it")]
    UnnamedCheckpoint,
    /// Nothing in the log is signed.
    #[error("the log has records and no checkpoint: anybody could have written it")]
    NoCheckpoint,
    /// There are checkpoints of a log, and no records.
    #[error("these are checkpoints of a log that is not here")]
    MissingLog,
}

impl FaultKind {
    /// One word for programs, and for `audit_gap`.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Form(_) | Self::TooLong => "not_a_record",
            Self::Unfinished => "cut_off",
            Self::Hash => "link_changed",
            Self::BodyHash => "body_changed",
            Self::RemoteIp => "remote_ip_changed",
            Self::ForeignRecord(_) => "foreign_record",
            Self::Seq(_) => "wrong_seq",
            Self::PrevHash => "broken_link",
            Self::Begins(_) => "wrong_beginning",
            Self::NoAnchor => "no_anchor",
            Self::UnrecordedPurge => "unrecorded_purge",
            Self::UnrecordedErasure(_) => "unrecorded_erasure",
            Self::Erased => "erased",
            Self::Checkpoint(_) => "bad_checkpoint",
            Self::UnknownKey => "unknown_key",
            Self::CheckpointHash => "checkpoint_mismatch",
            Self::HeadBelow(_) => "head_below_checkpoint",
            Self::OtherEnd(_) => "other_end",
            Self::MissingCheckpoint => "missing_checkpoint",
            Self::UnnamedCheckpoint => "unnamed_checkpoint",
            Self::NoCheckpoint => "no_checkpoint",
            Self::MissingLog => "missing_log",
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} line {}", self.file, self.line)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.place)?;
        match (&self.log_id, self.seq) {
            (Some(log_id), Some(seq)) => write!(f, " (record {seq} of {log_id})")?,
            (Some(log_id), None) => write!(f, " ({log_id})")?,
            (None, _) => {}
        }
        write!(f, ": {}", self.kind)
    }
}
