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
            monotonic: self.start.elapsed(),
            unix: Timestamp::from_unix_seconds(unix.as_secs_f64()).unwrap_or_default(),
        }
    }

    /// The moment that a session means by a time.
    pub(crate) fn instant(self, at: Duration) -> Instant {
        // Further away than the clock reaches is never.
        let never = Duration::from_secs(86_400 * 365);
        self.start
            .checked_add(at)
            .unwrap_or_else(|| Instant::now() + never)
    }

    /// Waits for the moment that a session means by a time; for none, for ever.
    pub(crate) async fn wait_until(self, at: Option<Duration>) {
        match at.and_then(|at| self.start.checked_add(at)) {
            Some(at) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
    }
}

/// Randomness of the operating system.
pub(crate) fn system_random() -> Box<dyn Random> {
    Box::new(|| {
        let mut bytes = [0; 16];
        // Without randomness ids would repeat; an id of zeros is refused by nobody, so say nothing
        // and go on is not an option.
        #[expect(
            clippy::expect_used,
            reason = "a machine without randomness cannot run a host"
        )]
        getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
        u128::from_le_bytes(bytes)
    })
}
