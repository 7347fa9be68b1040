//! The small values that several traits take.

use std::fmt;
use std::time::Duration;

/// Milliseconds since 1970, by the clock of the caller: a store has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct UnixMillis(pub i64);

impl UnixMillis {
    /// Later than any other.
    pub const NEVER: Self = Self(i64::MAX);

    /// This long after it.
    #[must_use]
    pub fn plus(self, time: Duration) -> Self {
        let millis = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(millis))
    }

    /// This long before it.
    #[must_use]
    pub fn minus(self, time: Duration) -> Self {
        let millis = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        Self(self.0.saturating_sub(millis))
    }
}

/// Milliseconds since the process started, by a clock that never jumps.
///
/// What must not be done twice is remembered by this time: a system clock that is set, forwards or
/// backwards, must not decide that it is done again. A store that outlives the process adds the
/// time of earlier processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Uptime(pub i64);

impl Uptime {
    /// This long before it.
    #[must_use]
    pub fn minus(self, time: Duration) -> Self {
        Self(self.0.saturating_sub(Self::from(time).0))
    }
}

impl From<Duration> for Uptime {
    fn from(since_start: Duration) -> Self {
        Self(i64::try_from(since_start.as_millis()).unwrap_or(i64::MAX))
    }
}

/// A moment on both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// By the system's clock.
    pub unix: UnixMillis,
    /// By the clock that never jumps.
    pub uptime: Uptime,
}

/// A SHA-256, made by the caller: a store hashes nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash(pub [u8; 32]);

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hash(")?;
        for byte in self.0 {
            write!(f, "{byte:02x}")?;
        }
        f.write_str(")")
    }
}
