//! Wall-clock time as records have it: RFC 3339, UTC.

use std::fmt;
use std::time::Duration;

/// Milliseconds since 1970, UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixMillis(pub i64);

/// A source of wall-clock time. A program passes the system's; a test its own.
pub trait Clock: Send + Sync {
    /// The time now.
    fn now(&self) -> UnixMillis;

    /// The time since some fixed moment, on a clock that is never set. The log compares both: records
    /// are purged by their age, and a wall clock that was set wrong must not make them old.
    fn uptime(&self) -> Duration;
}

/// A clock that is never set: its uptime is its time.
impl<F: Fn() -> UnixMillis + Send + Sync> Clock for F {
    fn now(&self) -> UnixMillis {
        self()
    }

    fn uptime(&self) -> Duration {
        Duration::from_millis(self().0.try_into().unwrap_or_default())
    }
}

impl UnixMillis {
    /// One second before the year 10000, the last time that RFC 3339 can write.
    const LAST: i64 = 253_402_300_799_999;

    /// Reads `2026-02-02T02:40:01Z`, with or without milliseconds.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (main, rest) = text.split_at_checked(19)?;
        let millis = match rest.as_bytes() {
            b"Z" => 0,
            [b'.', digits @ .., b'Z'] if digits.len() == 3 => number(digits)?,
            _ => return None,
        };
        let [
            y0,
            y1,
            y2,
            y3,
            b'-',
            m0,
            m1,
            b'-',
            d0,
            d1,
            b'T',
            h0,
            h1,
            b':',
            i0,
            i1,
            b':',
            s0,
            s1,
        ] = *main.as_bytes()
        else {
            return None;
        };
        let (year, month, day) = (
            number(&[y0, y1, y2, y3])?,
            number(&[m0, m1])?,
            number(&[d0, d1])?,
        );
        let (hour, minute, second) = (number(&[h0, h1])?, number(&[i0, i1])?, number(&[s0, s1])?);
        let days = days_of(year, month, day)?;
        if hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let seconds = days * 86_400 + hour * 3_600 + minute * 60 + second;
        Some(Self(seconds * 1_000 + millis))
    }

    /// Whole seconds since 1970.
    #[must_use]
    pub const fn seconds(self) -> i64 {
        self.0.div_euclid(1_000)
    }

    /// So many milliseconds earlier.
    #[must_use]
    pub const fn minus(self, millis: i64) -> Self {
        Self(self.0.saturating_sub(millis))
    }

    /// Appends the text, with milliseconds. Times that RFC 3339 cannot write become the nearest
    /// one from 1970 on.
    pub fn push_to(self, out: &mut Vec<u8>) {
        let millis = self.0.clamp(0, Self::LAST);
        let (days, in_day) = (millis.div_euclid(86_400_000), millis.rem_euclid(86_400_000));
        let (year, month, day) = date_of(days);
        let mut text = *b"0000-00-00T00:00:00.000Z";
        let parts = [
            (0, 4, year),
            (5, 2, month),
            (8, 2, day),
            (11, 2, in_day / 3_600_000),
            (14, 2, in_day / 60_000 % 60),
            (17, 2, in_day / 1_000 % 60),
            (20, 3, in_day % 1_000),
        ];
        for (start, width, mut value) in parts {
            for slot in text.iter_mut().skip(start).take(width).rev() {
                *slot = b'0' + u8::try_from(value % 10).unwrap_or_default();
                value /= 10;
            }
        }
        out.extend_from_slice(&text);
    }
}

impl fmt::Display for UnixMillis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Vec::with_capacity(24);
        self.push_to(&mut text);
        f.write_str(&String::from_utf8_lossy(&text))
    }
}

fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |number, digit| {
        digit
            .is_ascii_digit()
            .then(|| number * 10 + i64::from(digit - b'0'))
    })
}

/// Days since 1970 of a date that exists.
fn days_of(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Years that begin in March, so that the leap day is a year's last.
    let shifted = if month > 2 { year } else { year - 1 };
    let (era, in_era) = (shifted.div_euclid(400), shifted.rem_euclid(400));
    let in_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = era * 146_097 + in_era * 365 + in_era / 4 - in_era / 100 + in_year - 719_468;
    // 31 April is 1 May, and does not exist.
    (date_of(days) == (year, month, day)).then_some(days)
}

/// Year, month and day of a number of days since 1970.
const fn date_of(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let (era, in_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (in_era - in_era / 1_460 + in_era / 36_524 - in_era / 146_096) / 365;
    let in_year = in_era - (365 * year + year / 4 - year / 100);
    let month = (5 * in_year + 2) / 153;
    let day = in_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400;
    (if month > 2 { year } else { year + 1 }, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_they_are_written() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (1_770_000_001_234, "2026-02-02T02:40:01.234Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_164_800_000, "2024-02-29T00:00:00.000Z"),
            (UnixMillis::LAST, "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(UnixMillis(millis).to_string(), text);
            assert_eq!(UnixMillis::parse(text), Some(UnixMillis(millis)), "{text}");
        }
        assert_eq!(UnixMillis(-5).to_string(), "1970-01-01T00:00:00.000Z");
        assert_eq!(UnixMillis(i64::MAX).to_string(), "9999-12-31T23:59:59.999Z");
    }

    #[test]
    fn every_day_has_one_date() {
        for days in 0..200_000 {
            let (year, month, day) = date_of(days);
            assert_eq!(days_of(year, month, day), Some(days));
        }
    }

    #[test]
    fn what_is_no_time_is_not_taken() {
        let seconds = UnixMillis::parse("2026-02-02T02:40:01Z");
        assert_eq!(seconds, Some(UnixMillis(1_770_000_001_000)));
        for wrong in [
            "",
            "2026-02-02",
            "2026-02-02T02:40:01",
            "2026-02-02T02:40:01+00:00",
            "2026-02-02t02:40:01Z",
            "2026-02-02 02:40:01Z",
            "2026-02-02T02:40:01.1Z",
            "2026-02-02T02:40:01.1234Z",
            "2026-02-02T24:00:00Z",
            "2026-02-02T23:60:00Z",
            "2026-02-02T23:59:60Z",
            "2026-00-02T02:40:01Z",
            "2026-13-02T02:40:01Z",
            "2026-02-29T02:40:01Z",
            "2026-04-31T02:40:01Z",
            "2026-02-00T02:40:01Z",
            "2026-02-0xT02:40:01Z",
            "2026-02-02T02:40:0éZ",
        ] {
            assert_eq!(UnixMillis::parse(wrong), None, "{wrong}");
        }
    }
}
