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
pub(crate) struct MessageIds([u8; 32]);

impl MessageIds {
    pub(crate) fn new(random: &mut dyn Random) -> Self {
        Self(hexadecimal(random.bits() & !u128::from(u64::MAX)))
    }

    pub(crate) fn next(&mut self) -> MessageId<'static> {
        let (_, count) = self.0.split_at_mut(16);
        for digit in count.iter_mut().rev() {
            *digit = match *digit {
                b'9' => b'a',
                b'f' => b'0',
                digit => digit.wrapping_add(1),
            };
            if *digit != b'0' {
                break;
            }
        }
        text(&self.0).into()
    }
}

/// A fresh session id: 32 hexadecimal digits.
pub(crate) fn session_id(random: &mut dyn Random) -> SessionId<'static> {
    text(&hexadecimal(random.bits())).into()
}

fn text(digits: &[u8]) -> String {
    str::from_utf8(digits).unwrap_or_default().to_owned()
}

fn hexadecimal(bits: u128) -> [u8; 32] {
    let mut rest = bits;
    let mut digits = [b'0'; 32];
    for digit in digits.iter_mut().rev() {
        *digit = match (rest & 15) as u8 {
            value @ 0..=9 => b'0'.wrapping_add(value),
            value => b'a'.wrapping_sub(10).wrapping_add(value),
        };
        rest >>= 4;
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_count_in_hexadecimal() {
        let mut ids = MessageIds::new(&mut || 0xabcd_ef01_2345_6789_ffff_ffff_ffff_ffff);
        let mut last = MessageId::default();
        for _ in 0..0x1234 {
            last = ids.next();
        }
        assert_eq!(last.as_str(), "abcdef01234567890000000000001234");
    }
}
