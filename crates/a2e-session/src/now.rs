//! Time and randomness, as they are passed in.

use std::time::Duration;

use a2e_wire::{MessageId, SessionId, Timestamp};

/// The time of a call: on the clock on the wall, and on one that never jumps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Now {
    /// Time since some fixed moment; all timeouts are measured with it.
    pub monotonic: Duration,
    /// The time that messages carry.
    pub unix: Timestamp,
}

/// A source of unpredictable bits.
pub trait Random: Send {
    /// The next 128 bits.
    fn bits(&mut self) -> u128;
}

impl<F: FnMut() -> u128 + Send> Random for F {
    fn bits(&mut self) -> u128 {
        self()
    }
}

impl Now {
    /// The moment that much later.
    pub(crate) fn after(self, wait: Duration) -> Duration {
        self.monotonic.saturating_add(wait)
    }
}

/// A fresh id: 32 hexadecimal digits.
pub(crate) fn message_id(random: &mut dyn Random) -> MessageId<'static> {
    format!("{:032x}", random.bits()).into()
}

/// A fresh session id: 32 hexadecimal digits.
pub(crate) fn session_id(random: &mut dyn Random) -> SessionId<'static> {
    format!("{:032x}", random.bits()).into()
}
