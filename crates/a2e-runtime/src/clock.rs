//! The clock and the randomness that sessions are given.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use a2e_session::{Now, Random};
use a2e_wire::Timestamp;
use tokio::time::Instant;

/// Reads both clocks. Its monotonic one is tokio's, so that tests can pause it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self {
            start: Instant::now(),
        }
    }

    pub(crate) fn now(self) -> Now {
        let unix = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Now {
            monotonic: self.monotonic(),
            unix: Timestamp::from_unix_seconds(unix.as_secs_f64()).unwrap_or_default(),
        }
    }

    /// The time on the clock that never jumps.
    pub(crate) fn monotonic(self) -> Duration {
        self.start.elapsed()
    }

    /// The moment that a session means by a time.
    pub(crate) fn instant(self, at: Duration) -> Instant {
        // What is too far off for the clock is never.
        self.start
            .checked_add(at)
            .unwrap_or_else(|| Instant::now() + FAR)
    }
}

/// As good as never.
const FAR: Duration = Duration::from_secs(86400 * 365);

/// Randomness of the operating system.
pub(crate) fn system_random() -> Box<dyn Random> {
    Box::new(random_bits)
}

/// A fresh secret: 32 hexadecimal digits.
pub(crate) fn random_id() -> String {
    format!("{:032x}", random_bits())
}

fn random_bits() -> u128 {
    let mut bytes = [0; 16];
    // Without randomness ids would repeat; an id of zeros is refused by nobody, so say nothing
    // and go on is not an option.
    #[expect(
        clippy::expect_used,
        reason = "a machine without randomness cannot run a host"
    )]
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    u128::from_le_bytes(bytes)
}
