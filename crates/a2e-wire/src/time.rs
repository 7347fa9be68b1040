//! Points in time. This crate has no clock.

use crate::wire::{Decode, Describe, Encode, Reader, Writer};
use crate::{Invalid, Real};

/// Seconds since 1970, with a fraction.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Timestamp(Real);

impl Timestamp {
    /// A point in time; `None` for infinities and NaN.
    #[must_use]
    pub const fn from_unix_seconds(seconds: f64) -> Option<Self> {
        match Real::new(seconds) {
            Some(seconds) => Some(Self(seconds)),
            None => None,
        }
    }

    /// Seconds since 1970.
    #[must_use]
    pub const fn unix_seconds(self) -> f64 {
        self.0.get()
    }
}

impl<'de> Decode<'de> for Timestamp {
    fn decode(reader: &mut Reader<'de>) -> Result<Self, Invalid> {
        Real::decode(reader).map(Self)
    }

    fn absent(default: &'static str, ts: Self) -> Result<Self, Invalid> {
        if default == "(now)" {
            return Ok(ts);
        }
        Real::absent(default, ts).map(Self)
    }
}

impl Encode for Timestamp {
    fn encode(&self, out: &mut Writer<'_>) {
        out.time(self.unix_seconds());
    }
}

impl Describe for Timestamp {
    fn wire_type() -> String {
        Real::wire_type()
    }
}

#[cfg(test)]
mod tests {
    use strict_json::Charset;

    use super::*;

    #[test]
    fn times_are_written_alike_however_often_they_come() {
        let times = [0.0, 1.5, 1.5, 0.0, 0.0, -0.0, 1_758_000_000.123_456, 1.5];
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out, Charset::Utf8);
        for time in times {
            Timestamp::from_unix_seconds(time)
                .unwrap()
                .encode(&mut writer);
            writer.push(b' ');
        }
        let expected = "0.0 1.5 1.5 0.0 0.0 -0.0 1758000000.123456 1.5 ";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
