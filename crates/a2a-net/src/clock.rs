//! Time and randomness: the system's in a program, a test's own in a test.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use a2a_identity::{NoRandomness, Randomness};
use a2a_session::Now;
use a2a_wire::UnixSeconds;
use tokio::time::Instant;

use crate::standing::lock;

/// Two clocks: tokio's, which never jumps, and the one on the wall.
#[derive(Clone)]
pub struct Clock {
    start: Instant,
    /// Time since 1970.
    wall: Arc<dyn Fn() -> Duration + Send + Sync>,
}

impl Clock {
    /// The system's.
    #[must_use]
    pub fn system() -> Self {
        Self::with_wall(|| {
            SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default()
        })
    }

    /// With another clock on the wall, which says how long ago 1970 was.
    #[must_use]
    pub fn with_wall(wall: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self {
            start: Instant::now(),
            wall: Arc::new(wall),
        }
    }

    /// The time, on both.
    #[must_use]
    pub fn now(&self) -> Now {
        let seconds = (self.wall)().as_secs();
        Now {
            monotonic: self.start.elapsed(),
            unix: UnixSeconds(i64::try_from(seconds).unwrap_or(i64::MAX)),
        }
    }

    /// The time on the wall, as a store has it.
    pub(crate) fn millis(&self) -> store::UnixMillis {
        let millis = (self.wall)().as_millis();
        store::UnixMillis(i64::try_from(millis).unwrap_or(i64::MAX))
    }

    /// The time since the start, as a store has it.
    pub(crate) fn uptime(&self) -> store::Uptime {
        self.start.elapsed().into()
    }

    /// The moment that a machine names by its time since the start.
    pub(crate) fn at(&self, monotonic: Duration) -> Instant {
        let far = || self.start + Duration::from_secs(30 * 365 * 24 * 3600);
        self.start.checked_add(monotonic).unwrap_or_else(far)
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clock").field(&self.now()).finish()
    }
}

/// Where random bytes come from.
#[derive(Clone)]
pub struct Entropy(Arc<Fill>);

/// Random bytes that wait to be used.
struct Supply {
    bytes: [u8; SUPPLY],
    used: usize,
}

/// Bytes of an id: a session has several with every request.
const SHORT: usize = 16;
const SUPPLY: usize = 32 * SHORT;

type Fill = dyn Fn(&mut [u8]) -> Result<(), NoRandomness> + Send + Sync;

impl Entropy {
    /// The system's. What is as short as an id comes from a supply; secrets are longer, and nobody
    /// has them before they are asked for.
    #[must_use]
    pub fn system() -> Self {
        let supply = Mutex::new(Supply::default());
        Self::new(move |bytes| match bytes.len() <= SHORT {
            true => lock(&supply).fill(bytes),
            false => system(bytes),
        })
    }

    /// Another source.
    #[must_use]
    pub fn new(
        fill: impl Fn(&mut [u8]) -> Result<(), NoRandomness> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(fill))
    }

    /// A random UUID of version 4, as intents and incidents are named.
    ///
    /// # Errors
    /// If there is no randomness.
    pub fn uuid(&self) -> Result<String, NoRandomness> {
        let mut bytes = [0; 16];
        (self.0)(&mut bytes)?;
        let bits = u128::from_be_bytes(bytes) & !(0xf << 76) & !(0b11 << 62);
        let digits = format!("{:032x}", bits | (4 << 76) | (0b10 << 62));
        let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default();
        let parts = [
            part(0, 8),
            part(8, 12),
            part(12, 16),
            part(16, 20),
            part(20, 32),
        ];
        Ok(parts.join("-"))
    }

    /// A number from 0 up to 1, for the spread of retries; 0 if there is no randomness.
    pub(crate) fn fraction(&self) -> f64 {
        let mut bytes = [0; 4];
        match (self.0)(&mut bytes) {
            Ok(()) => f64::from(u32::from_be_bytes(bytes)) / (f64::from(u32::MAX) + 1.0),
            Err(NoRandomness) => 0.0,
        }
    }
}

impl Supply {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), NoRandomness> {
        if self.rest().len() < bytes.len() {
            system(&mut self.bytes)?;
            self.used = 0;
        }
        let (rest, length) = (self.bytes.get_mut(self.used..), bytes.len());
        let next = rest.and_then(|rest| rest.get_mut(..length));
        bytes.swap_with_slice(next.ok_or(NoRandomness)?);
        self.used = self.used.saturating_add(length);
        Ok(())
    }

    fn rest(&self) -> &[u8] {
        self.bytes.get(self.used..).unwrap_or_default()
    }
}

impl Default for Supply {
    fn default() -> Self {
        let bytes = [0; SUPPLY];
        Self {
            used: bytes.len(),
            bytes,
        }
    }
}

fn system(bytes: &mut [u8]) -> Result<(), NoRandomness> {
    getrandom::fill(bytes).map_err(|_| NoRandomness)
}

impl Randomness for Entropy {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), NoRandomness> {
        (self.0)(bytes)
    }
}

impl fmt::Debug for Entropy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Entropy")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Proves A-7-2.
    #[test]
    fn no_id_comes_twice() {
        let mut entropy = Entropy::system();
        let mut seen = HashSet::new();
        // Lengths that do and do not divide a supply, and one that passes it by.
        for length in [8, SHORT - 1, SHORT, SHORT + 1].repeat(3 * SUPPLY / SHORT) {
            let mut bytes = vec![0; length];
            entropy.fill(&mut bytes).unwrap();
            assert!(seen.insert(bytes));
        }
    }
}
