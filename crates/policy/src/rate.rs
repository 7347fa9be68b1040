//! How often: a rate, and the token bucket that keeps to it (profile §11.5).

use std::time::Duration;

use crate::buckets::Limited;
use crate::limits;

/// `rate_limit` requests per `rate_period`: a bucket of that many tokens, refilled continuously.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    limit: u32,
    period: u32,
}

/// A token bucket.
///
/// Time is that of a monotonic clock, since any fixed moment; time that goes backwards refills
/// nothing. The arithmetic is exact: in any time t no more than `limit` + t·`limit`/`period` tokens
/// are given, however many requests come and whenever they do.
#[derive(Debug, Clone)]
pub struct TokenBucket {
    rate: Rate,
    /// Tokens, each worth as many units as the period has nanoseconds: then one nanosecond adds
    /// `limit` units, and nothing is ever rounded.
    level: u128,
    /// When the level was true, in nanoseconds.
    at: u64,
    seen: Seen,
}

/// Why there is no token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{current_rate} requests in {} s are more than {}", rate.period(), rate.limit())]
pub struct Exceeded {
    /// What the bucket keeps to.
    pub rate: Rate,
    /// Requests seen in the trailing period, those refused included.
    pub current_rate: u32,
    /// After this long a token will be there.
    pub retry_after: Duration,
}

impl Rate {
    /// That of a server which states none (§11.1).
    pub const DEFAULT: Self = Self {
        limit: 1000,
        period: 3600,
    };

    /// So many requests in so many seconds; `None` if either is 0 or above its limit.
    #[must_use]
    pub const fn new(limit: u32, period: u32) -> Option<Self> {
        if limit == 0 || limit > limits::RATE_LIMIT || period == 0 || period > limits::RATE_PERIOD {
            return None;
        }
        Some(Self { limit, period })
    }

    /// Requests in a period, and at once.
    #[must_use]
    pub const fn limit(self) -> u32 {
        self.limit
    }

    /// Seconds in which that many tokens come back.
    #[must_use]
    pub const fn period(self) -> u32 {
        self.period
    }

    /// Whether this rate never lets through what the other does not: neither in the long run nor at
    /// once.
    #[must_use]
    pub const fn is_within(self, other: Self) -> bool {
        self.limit <= other.limit && self.is_at_most(other)
    }

    /// Whether limit/period is no larger than the other's.
    #[must_use]
    pub const fn is_at_most(self, other: Self) -> bool {
        // Both products are below 2^45.
        (self.limit as u64).saturating_mul(other.period as u64)
            <= (other.limit as u64).saturating_mul(self.period as u64)
    }

    /// A rate within both: the slower of the two, but with no larger bucket than either has.
    #[must_use]
    pub fn tightened_by(self, other: Self) -> Self {
        let (slower, faster) = match self.is_at_most(other) {
            true => (self, other),
            false => (other, self),
        };
        if slower.limit <= faster.limit {
            return slower;
        }
        // The slower has the larger bucket: `faster.limit` tokens, refilled as slowly as `slower` is.
        let product = u64::from(faster.limit).saturating_mul(u64::from(slower.period));
        let period = product.div_ceil(u64::from(slower.limit));
        Self {
            limit: faster.limit,
            period: u32::try_from(period).unwrap_or(slower.period),
        }
    }

    fn period_nanos(self) -> u64 {
        u64::from(self.period).saturating_mul(1_000_000_000)
    }

    /// Units of a full bucket.
    fn capacity(self) -> u128 {
        u128::from(self.limit).saturating_mul(u128::from(self.period_nanos()))
    }
}

impl TokenBucket {
    /// A full bucket.
    #[must_use]
    pub fn new(rate: Rate, now: Duration) -> Self {
        let now = nanos(now);
        Self {
            rate,
            level: rate.capacity(),
            at: now,
            seen: Seen::new(now),
        }
    }

    /// Takes a token.
    ///
    /// # Errors
    /// If there is none; then nothing is taken, but the request is counted as seen.
    pub fn take(&mut self, now: Duration) -> Result<(), Exceeded> {
        let now = nanos(now);
        self.refill(now);
        self.seen.add(now, self.rate.period_nanos());
        let token = u128::from(self.rate.period_nanos());
        match self.level.checked_sub(token) {
            Some(rest) => {
                self.level = rest;
                Ok(())
            }
            None => Err(self.exceeded(now)),
        }
    }

    /// Takes a token from each of these buckets, or none from any.
    ///
    /// # Errors
    /// Which of them is empty: of several, the one that takes longest.
    pub fn take_all<const N: usize>(
        now: Duration,
        mut buckets: [&mut Self; N],
    ) -> Result<(), Limited> {
        let outcomes = buckets.each_mut().map(|bucket| bucket.take(now));
        let empty = outcomes.iter().enumerate().filter_map(|(index, outcome)| {
            let exceeded = outcome.err()?;
            Some(Limited { index, exceeded })
        });
        // Of equals the first.
        let longest = empty
            .rev()
            .max_by_key(|limited| limited.exceeded.retry_after);
        let Some(limited) = longest else {
            return Ok(());
        };
        for (bucket, outcome) in buckets.into_iter().zip(outcomes) {
            if outcome.is_ok() {
                bucket.put_back();
            }
        }
        Err(limited)
    }

    /// Whether it is full, and so no different from a new one.
    #[must_use]
    pub fn is_full(&self, now: Duration) -> bool {
        self.full_after(now).is_zero()
    }

    /// Gives back the token that was just taken.
    pub(crate) fn put_back(&mut self) {
        let token = u128::from(self.rate.period_nanos());
        self.level = self.level.saturating_add(token).min(self.rate.capacity());
    }

    /// Goes on with another rate: the tokens there are stay, as far as the new bucket holds them.
    pub fn set_rate(&mut self, rate: Rate, now: Duration) {
        if rate == self.rate {
            return;
        }
        self.refill(nanos(now));
        // At most 2^22·10^9 · 10^7·2^22·10^9, which is below 2^127.
        let scaled = self
            .level
            .saturating_mul(u128::from(rate.period_nanos()))
            .checked_div(u128::from(self.rate.period_nanos()))
            .unwrap_or_default();
        self.rate = rate;
        self.level = scaled.min(rate.capacity());
    }

    /// What it keeps to.
    #[must_use]
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// Requests seen in the trailing period, those refused included. Of the part of the period that
    /// lies before the last full one, an even spread is assumed.
    #[must_use]
    pub fn current_rate(&self, now: Duration) -> u32 {
        self.seen.count(nanos(now), self.rate.period_nanos())
    }

    /// How long until it is full, and so no different from a new one.
    pub(crate) fn full_after(&self, now: Duration) -> Duration {
        let missing = self
            .rate
            .capacity()
            .saturating_sub(self.level_at(nanos(now)));
        let nanos = missing.div_ceil(u128::from(self.rate.limit.max(1)));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    fn refill(&mut self, now: u64) {
        self.level = self.level_at(now);
        self.at = self.at.max(now);
    }

    fn level_at(&self, now: u64) -> u128 {
        let elapsed = u128::from(now.saturating_sub(self.at));
        let gained = elapsed.saturating_mul(u128::from(self.rate.limit));
        self.level.saturating_add(gained).min(self.rate.capacity())
    }

    fn exceeded(&self, now: u64) -> Exceeded {
        // Less than a token is missing, and that fits into 52 bits: no division of 128 bits.
        let level = u64::try_from(self.level).unwrap_or(u64::MAX);
        let missing = self.rate.period_nanos().saturating_sub(level);
        let wait = missing.div_ceil(u64::from(self.rate.limit.max(1)));
        // From a time that lies behind, the way is longer.
        let behind = self.at.saturating_sub(now);
        Exceeded {
            rate: self.rate,
            current_rate: self.seen.count(now, self.rate.period_nanos()),
            retry_after: Duration::from_nanos(wait.saturating_add(behind)),
        }
    }
}

impl Exceeded {
    /// `reset_at`: the first whole Unix second at which a request can pass, but no later than
    /// `rate_period` from now. `unix` is the time since 1970.
    #[must_use]
    pub fn reset_at(&self, unix: Duration) -> u64 {
        let then = unix.saturating_add(self.retry_after);
        let second = match then.subsec_nanos() {
            0 => then.as_secs(),
            _ => then.as_secs().saturating_add(1),
        };
        second.min(unix.as_secs().saturating_add(u64::from(self.rate.period)))
    }

    /// `retry_after_ms`
    #[must_use]
    pub fn retry_after_ms(&self) -> u64 {
        let millis = self.retry_after.as_nanos().div_ceil(1_000_000);
        u64::try_from(millis).unwrap_or(u64::MAX)
    }
}

/// How many requests came, in the present window and the one before.
#[derive(Debug, Clone)]
struct Seen {
    /// When the present window began.
    since: u64,
    present: u32,
    before: u32,
}

impl Seen {
    const fn new(now: u64) -> Self {
        Self {
            since: now,
            present: 0,
            before: 0,
        }
    }

    fn add(&mut self, now: u64, period: u64) {
        *self = self.moved_to(now, period);
        self.present = self.present.saturating_add(1);
    }

    fn count(&self, now: u64, period: u64) -> u32 {
        let moved = self.moved_to(now, period);
        let gone = now.saturating_sub(moved.since).min(period);
        // In milliseconds the product of both fits into 64 bits.
        let left = period.saturating_sub(gone) / 1_000_000;
        let before = u64::from(moved.before)
            .saturating_mul(left)
            .checked_div(period / 1_000_000)
            .unwrap_or_default();
        moved
            .present
            .saturating_add(u32::try_from(before).unwrap_or(u32::MAX))
    }

    fn moved_to(&self, now: u64, period: u64) -> Self {
        let elapsed = now.saturating_sub(self.since);
        if elapsed < period {
            return self.clone();
        }
        let windows = elapsed.checked_div(period).unwrap_or_default();
        Self {
            since: self.since.saturating_add(windows.saturating_mul(period)),
            present: 0,
            before: match windows {
                1 => self.present,
                _ => 0,
            },
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
