//! Coming back after a connection broke.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::link::Link;
use crate::plugin::BoxFuture;

/// How long a host may take to accept a connection, with all that comes before the A2E handshake.
const DIAL: Duration = Duration::from_secs(10);

/// Makes connections to one host.
pub trait Dial: Send + Sync + 'static {
    /// A new connection.
    fn dial(self: Arc<Self>) -> BoxFuture<'static, io::Result<Link>>;

    /// A new connection, or an error if the host does not take it within 10 s.
    fn dial_in_time(self: Arc<Self>) -> BoxFuture<'static, io::Result<Link>> {
        let dialing = self.dial();
        Box::pin(async {
            let dialed = tokio::time::timeout(DIAL, dialing).await;
            dialed.map_err(|_| {
                let text = format!("timed out: no connection within {} s", DIAL.as_secs());
                io::Error::new(io::ErrorKind::TimedOut, text)
            })?
        })
    }

    /// Whether another connection can reach the same host: not if it was started for this one.
    fn can_redial(&self) -> bool {
        true
    }
}

impl<F> Dial for F
where
    F: Fn() -> BoxFuture<'static, io::Result<Link>> + Send + Sync + 'static,
{
    fn dial(self: Arc<Self>) -> BoxFuture<'static, io::Result<Link>> {
        self()
    }
}

/// How often to try to come back, and how long to wait before each attempt. Each wait is twice as
/// long as the one before, and up to half of it is left to chance, so that the clients of a host that
/// comes back do not come all at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reconnect {
    /// Attempts in a row.
    pub attempts: u32,
    /// The wait before the first attempt.
    pub first: Duration,
    /// The longest wait.
    pub longest: Duration,
}

impl Default for Reconnect {
    /// For 40 to 80 seconds.
    fn default() -> Self {
        Self {
            attempts: 10,
            first: Duration::from_millis(100),
            longest: Duration::from_secs(30),
        }
    }
}

impl Reconnect {
    /// The wait before an attempt, counted from 0.
    #[must_use]
    pub fn wait(&self, attempt: u32, random: u128) -> Duration {
        let factor = 1_u32.checked_shl(attempt).unwrap_or(u32::MAX);
        let full = self.first.saturating_mul(factor).min(self.longest);
        let chance = u32::try_from(random & 0xffff).unwrap_or_default();
        let left_out = full.saturating_mul(chance) / 0x2_0000;
        full.saturating_sub(left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest() {
        let policy = Reconnect::default();
        let waits: Vec<_> = (0..11)
            .map(|attempt| policy.wait(attempt, 0).as_millis())
            .collect();
        assert_eq!(
            waits,
            [
                100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000
            ]
        );
        assert_eq!(policy.wait(40, 0), policy.longest);
        assert_eq!(policy.wait(u32::MAX, 0), policy.longest);
    }

    #[test]
    fn at_most_half_is_left_to_chance() {
        let policy = Reconnect::default();
        for random in [0, 1, 0x7fff, 0xffff, u128::MAX] {
            let wait = policy.wait(3, random);
            assert!(wait <= Duration::from_millis(800) && wait >= Duration::from_millis(400));
        }
    }
}
