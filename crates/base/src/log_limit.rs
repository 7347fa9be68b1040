//! Messages of a log that repeat.
#![expect(
    clippy::disallowed_types,
    reason = "an `Instant` is what is passed in; no clock is read"
)]

use std::fmt;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Limits how often one message is logged, however often its cause occurs.
///
/// ```
/// use std::time::{Duration, Instant};
/// use base::LogLimit;
/// static CLOSED: LogLimit = LogLimit::new(1, Duration::from_secs(10));
/// let now = Instant::now();
/// assert_eq!(CLOSED.admit(now).unwrap().to_string(), "");
/// assert!(CLOSED.admit(now).is_none());
/// let later = now + Duration::from_secs(10);
/// assert_eq!(CLOSED.admit(later).unwrap().to_string(), " (1 more like this)");
/// ```
#[derive(Debug)]
pub struct LogLimit {
    burst: u32,
    period: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// When the current period began.
    began: Option<Instant>,
    /// Messages that were logged in it.
    logged: u32,
    /// Messages that were left out since one was logged last.
    left_out: u64,
}

/// How many messages were left out before this one. Displays as the end of the message: nothing, or
/// ` (12 more like this)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeftOut(u64);

impl LogLimit {
    /// Lets so many messages through in each period.
    #[must_use]
    pub const fn new(burst: u32, period: Duration) -> Self {
        Self {
            burst,
            period,
            state: Mutex::new(State {
                began: None,
                logged: 0,
                left_out: 0,
            }),
        }
    }

    /// Whether to log a message now.
    pub fn admit(&self, now: Instant) -> Option<LeftOut> {
        let mut state = self.state.lock();
        let is_over = |began: Instant| now.saturating_duration_since(began) >= self.period;
        if state.began.is_none_or(is_over) {
            state.began = Some(now);
            state.logged = 0;
        }
        if state.logged >= self.burst {
            state.left_out = state.left_out.saturating_add(1);
            return None;
        }
        state.logged = state.logged.saturating_add(1);
        Some(LeftOut(std::mem::take(&mut state.left_out)))
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            count => write!(f, " ({count} more like this)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_has_so_many_messages_and_the_next_one_counts_the_rest() {
        let limit = LogLimit::new(2, Duration::from_secs(10));
        let start = Instant::now();
        let at = |seconds: u64| limit.admit(start + Duration::from_secs(seconds));
        assert_eq!((at(0), at(1)), (Some(LeftOut(0)), Some(LeftOut(0))));
        assert_eq!((at(2), at(9)), (None, None));
        assert_eq!((at(10), at(11)), (Some(LeftOut(2)), Some(LeftOut(0))));
        assert_eq!(at(12), None);
    }
}
