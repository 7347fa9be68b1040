//! Time, as it is passed in.

use std::time::Duration;

use a2a_wire::UnixSeconds;

/// The time of a call: on the clock on the wall, and on one that never jumps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Time since some fixed moment; all timeouts and token buckets are measured with it.
    pub monotonic: Duration,
    /// The time that messages carry.
    pub unix: UnixSeconds,
}

impl Now {
    /// The moment that much later.
    pub(crate) const fn after(self, wait: Duration) -> Duration {
        self.monotonic.saturating_add(wait)
    }

    /// The time on the wall as time since 1970.
    pub(crate) fn since_epoch(self) -> Duration {
        Duration::from_secs(u64::try_from(self.unix.0).unwrap_or_default())
    }
}
