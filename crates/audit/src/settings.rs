//! How a log is written.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::{Clock, Error, KeyCheck, Randomness, Signer};

/// When what the kernel has goes to the disk. In every case a record is with the kernel before it
/// is acknowledged, so it survives the end of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncWhen {
    /// Before records are acknowledged: they survive a power failure.
    Commit,
    /// Every so often: a power failure loses at most the records of that time.
    Every(Duration),
    /// When the kernel sees fit.
    Never,
}

/// A setting of `sync` that is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be `commit`, or a time from 1ms to 60s such as `100ms`")]
pub struct NotASync;

impl FromStr for SyncWhen {
    type Err = NotASync;

    fn from_str(text: &str) -> Result<Self, NotASync> {
        if text == "commit" {
            return Ok(Self::Commit);
        }
        let (digits, unit) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
            (Some(digits), _) => (digits, 1),
            (None, Some(digits)) => (digits, 1_000),
            (None, None) => return Err(NotASync),
        };
        let is_number = digits.bytes().all(|digit| digit.is_ascii_digit());
        let number: u64 = digits.parse().map_err(|_| NotASync)?;
        match number.saturating_mul(unit) {
            millis @ 1..=60_000 if is_number => Ok(Self::Every(Duration::from_millis(millis))),
            _ => Err(NotASync),
        }
    }
}

/// Limits and times of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// When records go to the disk.
    pub sync: SyncWhen,
    /// Bytes after which a segment is sealed and another begun.
    pub segment_bytes: u64,
    /// Age at which a segment is sealed.
    pub segment_age: Duration,
    /// Records after which a checkpoint is signed.
    pub checkpoint_records: u64,
    /// Time after which one is signed, if anything happened.
    pub checkpoint_age: Duration,
    /// Bytes that may wait to be written. So much of the disk is kept free for them.
    pub queue_bytes: usize,
    /// Records that may wait to be written.
    pub queue_records: usize,
    /// What `start` says: who writes.
    pub name: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            sync: SyncWhen::Every(Duration::from_millis(100)),
            segment_bytes: 16 << 20,
            segment_age: Duration::from_secs(24 * 3600),
            checkpoint_records: 1_000,
            checkpoint_age: Duration::from_secs(60),
            queue_bytes: 16 << 20,
            queue_records: 65_536,
            name: "frith".to_owned(),
        }
    }
}

/// What a log takes from outside: keys, randomness, time, and who is told when something is wrong.
pub struct Parts {
    /// Signs checkpoints.
    pub signer: Box<dyn Signer>,
    /// Knows the keys that signed earlier ones.
    pub keys: Box<dyn KeyCheck>,
    /// Gives salts.
    pub random: Box<dyn Randomness>,
    /// Gives the time of records.
    pub clock: Box<dyn Clock>,
    /// Is told what an operator should know. It runs on the thread that writes, so it must be quick.
    pub alarm: Box<dyn Fn(&Alarm) + Send>,
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Parts(..)")
    }
}

/// Something an operator should know.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Alarm {
    /// The log was not as it should be; another one was begun.
    #[error(
        "the audit log is not as it was left ({reason}): records may be missing or changed; `frith audit verify` says which. The log {log_id} begins"
    )]
    Gap {
        /// What was found.
        reason: &'static str,
        /// The log that begins.
        log_id: String,
    },
    /// The last writing was cut off; nothing that was acknowledged is missing.
    #[error(
        "the audit log ended in the middle of a line, as after a crash: {bytes} bytes that nobody was answered for were dropped"
    )]
    Torn {
        /// What was dropped.
        bytes: u64,
    },
    /// Nothing can be put on record; requests are refused.
    #[error("{0}; requests are refused until it can")]
    Failing(Error),
    /// It can again.
    #[error("the audit log can be written again; {refused} records were refused")]
    Working {
        /// What was refused in the meantime.
        refused: u64,
    },
    /// A checkpoint could not be made; it is tried again.
    #[error("a checkpoint of the audit log could not be made: {0}")]
    NoCheckpoint(Error),
    /// The next segment could not be begun; the old one goes on.
    #[error("the next segment of the audit log could not be begun: {0}")]
    NotRotated(Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sync_is_commit_or_a_time() {
        let every = |millis| Ok(SyncWhen::Every(Duration::from_millis(millis)));
        for (text, expected) in [
            ("commit", Ok(SyncWhen::Commit)),
            ("100ms", every(100)),
            ("1ms", every(1)),
            ("60s", every(60_000)),
            ("60000ms", every(60_000)),
            ("60001ms", Err(NotASync)),
            ("61s", Err(NotASync)),
            ("0ms", Err(NotASync)),
            ("0s", Err(NotASync)),
            ("", Err(NotASync)),
            ("ms", Err(NotASync)),
            ("+5ms", Err(NotASync)),
            ("100", Err(NotASync)),
            ("99999999999999999999s", Err(NotASync)),
        ] {
            assert_eq!(text.parse(), expected, "{text}");
        }
    }
}
