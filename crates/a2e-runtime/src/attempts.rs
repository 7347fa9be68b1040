//! How often a source may fail to log in.
//!
//! A source that has failed too often makes no more guesses: of what it brings only credentials that
//! cannot be guessed are looked at, so that one agent with a wrong token does not lock out the others
//! behind its address. What is
//! remembered has a fixed size and nothing is ever thrown out of it, so nobody can have a count
//! forgotten by making many others: each source is a cell in each of a few rows, chosen by a hash
//! with a secret seed, and counts for what its emptiest cell says. Sources that share all their
//! cells share a count; that takes thousands of failing sources to become likely.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use a2e_wire::messages::base::HandshakeReason;
use tokio::time::Instant;

use crate::auth::{Authenticator, Counted, Identity, Login, Source};
use crate::plugin::BoxFuture;

/// Failures that a source may have at once.
const BURST: u32 = 10;

/// After so long one failure is forgiven.
const PER_FAILURE: Duration = Duration::from_secs(6);

/// The same for all processes of this machine that come over TCP together: one that retries with a
/// wrong token must not lock out the others.
const PER_LOOPBACK_FAILURE: Duration = Duration::from_millis(100);

const ROWS: usize = 4;
const CELLS: usize = 16 * 1024;

/// An authenticator that takes no guesses of sources which have failed too often.
pub struct Limited<A> {
    inner: A,
    start: Instant,
    attempts: Mutex<Attempts>,
}

/// What failed before. Time is passed in: it only must not go back.
#[derive(Debug)]
struct Attempts<H = RandomState> {
    /// A flood from the network must not lock out the users of this machine.
    remote: Rows<H>,
    local: Rows<H>,
}

/// Each cell is the time at which its failures are forgiven, in milliseconds: memory that was never
/// written costs nothing.
#[derive(Debug)]
struct Rows<H> {
    hasher: H,
    cells: Vec<u64>,
}

impl<A: Authenticator> Limited<A> {
    /// Asks this authenticator. A source may fail ten times at once, and then once in six seconds;
    /// beyond that only what [`Authenticator::recognise`] knows is let in.
    #[must_use]
    pub fn new(inner: A) -> Self {
        Self {
            inner,
            start: Instant::now(),
            attempts: Mutex::new(Attempts::new(RandomState::new(), RandomState::new())),
        }
    }

    fn with<T>(&self, act: impl FnOnce(&mut Attempts, Duration) -> T) -> T {
        let mut attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        act(&mut attempts, self.start.elapsed())
    }
}

impl<A> std::fmt::Debug for Limited<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Limited").finish_non_exhaustive()
    }
}

impl<A: Authenticator> Authenticator for Limited<A> {
    fn required(&self) -> bool {
        self.inner.required()
    }

    fn authenticate<'a>(
        &'a self,
        login: &'a Login,
        source: Source,
    ) -> BoxFuture<'a, Result<Identity, HandshakeReason<'static>>> {
        Box::pin(async move {
            let known = || {
                let known = self.inner.recognise(login);
                known.ok_or(HandshakeReason::AuthFailed)
            };
            if !self.with(|attempts, now| attempts.may_try(now, source)) {
                return known();
            }
            let result = self.inner.authenticate(login, source).await;
            let heard = self.with(|attempts, now| {
                // Asked again: many attempts made at once must not each count as the first.
                let may_try = attempts.may_try(now, source);
                if may_try && matches!(result, Err(HandshakeReason::AuthFailed)) {
                    attempts.failed(now, source);
                }
                may_try
            });
            match heard {
                true => result,
                false => known(),
            }
        })
    }

    fn recognise(&self, login: &Login) -> Option<Identity> {
        self.inner.recognise(login)
    }
}

impl<H: BuildHasher> Attempts<H> {
    fn new(remote: H, local: H) -> Self {
        Self {
            remote: Rows::new(remote),
            local: Rows::new(local),
        }
    }

    /// Counts a failure.
    fn failed(&mut self, now: Duration, source: Source) {
        if let Some((counted, rows)) = self.rows_of(source) {
            rows.add(now, counted);
        }
    }

    /// Whether a source may try.
    fn may_try(&mut self, now: Duration, source: Source) -> bool {
        self.rows_of(source)
            .is_none_or(|(counted, rows)| rows.has_room(now, counted))
    }

    fn rows_of(&mut self, source: Source) -> Option<(Counted, &mut Rows<H>)> {
        let counted = Counted::of(source)?;
        let rows = match counted {
            Counted::User(_) | Counted::Loopback => &mut self.local,
            Counted::V4(_) | Counted::V6(_) => &mut self.remote,
        };
        Some((counted, rows))
    }
}

impl<H: BuildHasher> Rows<H> {
    fn new(hasher: H) -> Self {
        Self {
            hasher,
            cells: vec![0; ROWS * CELLS],
        }
    }

    fn add(&mut self, now: Duration, source: Counted) {
        let forgiven = self.forgiven(source).max(milliseconds(now)) + milliseconds(source.cost());
        for row in 0..ROWS {
            let at = self.cell(row, source);
            if let Some(cell) = self.cells.get_mut(at) {
                *cell = forgiven.max(*cell);
            }
        }
    }

    fn has_room(&self, now: Duration, source: Counted) -> bool {
        let owed = self.forgiven(source).saturating_sub(milliseconds(now));
        owed <= milliseconds(PER_FAILURE * (BURST - 1))
    }

    /// When all that this source did is forgiven.
    fn forgiven(&self, source: Counted) -> u64 {
        let cells = (0..ROWS).filter_map(|row| self.cells.get(self.cell(row, source)));
        cells.min().copied().unwrap_or_default()
    }

    fn cell(&self, row: usize, source: Counted) -> usize {
        let hash = self.hasher.hash_one((row, source));
        row * CELLS + usize::try_from(hash % CELLS as u64).unwrap_or_default()
    }
}

impl Counted {
    /// How long one failure counts.
    const fn cost(self) -> Duration {
        match self {
            Self::Loopback => PER_LOOPBACK_FAILURE,
            Self::User(_) | Self::V4(_) | Self::V6(_) => PER_FAILURE,
        }
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
