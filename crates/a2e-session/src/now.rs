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

/// Makes the ids of one sender's messages: 32 hexadecimal digits, the first half random, the second
/// a count. They are unique and need not be secret, so one draw of randomness does for all.
#[derive(Debug)]
pub(crate) struct MessageIds(u128);

impl MessageIds {
    pub(crate) fn new(random: &mut dyn Random) -> Self {
        Self(random.bits() & !u128::from(u64::MAX))
    }

    pub(crate) fn next(&mut self) -> MessageId<'static> {
        self.0 = self.0.wrapping_add(1);
        hexadecimal(self.0).into()
    }
}

/// A fresh session id: 32 hexadecimal digits.
pub(crate) fn session_id(random: &mut dyn Random) -> SessionId<'static> {
    hexadecimal(random.bits()).into()
}

fn hexadecimal(bits: u128) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(32);
    for byte in bits.to_be_bytes() {
        for digit in [byte >> 4, byte & 15] {
            let digit = DIGITS.get(usize::from(digit)).copied().unwrap_or(b'0');
            text.push(char::from(digit));
        }
    }
    text
}
