//! Numbers: the value, the form it was written in, and the form ECMAScript gives it.

/// A finite number.
///
/// Protocol integers must be *written* as integers (profile §1), so `1` and `1.0` are told apart
/// here although their canonical form is the same.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Number(Form);

#[derive(Debug, Clone, Copy, PartialEq)]
enum Form {
    Integer(i64),
    Real(f64),
}

impl Number {
    /// The largest integer that every JSON implementation reads alike: 2^53−1.
    pub const MAX_INTEGER: i64 = (1 << 53) - 1;

    /// An integer; `None` beyond ±(2^53−1).
    #[must_use]
    pub const fn integer(value: i64) -> Option<Self> {
        if value.unsigned_abs() <= Self::MAX_INTEGER.unsigned_abs() {
            return Some(Self(Form::Integer(value)));
        }
        None
    }

    /// A number with a fraction or an exponent; `None` for infinities and NaN.
    #[must_use]
    pub const fn real(value: f64) -> Option<Self> {
        if value.is_finite() {
            return Some(Self(Form::Real(value)));
        }
        None
    }

    /// The integer, if it is written as one.
    #[must_use]
    pub const fn as_i64(self) -> Option<i64> {
        match self.0 {
            Form::Integer(value) => Some(value),
            Form::Real(_) => None,
        }
    }

    /// The value.
    #[must_use]
    pub const fn as_f64(self) -> f64 {
        match self.0 {
            Form::Integer(value) => value as f64,
            Form::Real(value) => value,
        }
    }

    /// A literal that passed the scanner's grammar and range checks.
    pub(crate) fn from_checked(literal: &str) -> Self {
        // With `Integers::Any` an integer may be too large to be exact; then it is a real.
        literal
            .parse()
            .ok()
            .and_then(Self::integer)
            .unwrap_or_else(|| Self(Form::Real(literal.parse().unwrap_or_default())))
    }

    /// Appends the number as ECMAScript's `Number::toString` writes it (RFC 8785 §3.2.2.3).
    #[inline]
    pub(crate) fn push_canonical(self, out: &mut Vec<u8>) {
        match self.0 {
            // Most numbers are small.
            Form::Integer(value @ 0..=9) => out.push(digit(value)),
            Form::Integer(value @ 10..=99) => {
                out.extend_from_slice(&[digit(value / 10), digit(value % 10)]);
            }
            Form::Integer(value @ 100..=999) => {
                out.extend_from_slice(&[
                    digit(value / 100),
                    digit(value / 10 % 10),
                    digit(value % 10),
                ]);
            }
            // Writing to memory cannot fail, and this way takes none for itself.
            Form::Integer(value) => drop(serde_json::to_writer(&mut *out, &value)),
            Form::Real(0.0) => out.push(b'0'),
            Form::Real(value) => push_real(out, value),
        }
    }
}

/// The digit of a number below ten.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is below ten"
)]
const fn digit(value: i64) -> u8 {
    b'0'.wrapping_add(value as u8)
}

/// `serde_json` writes the shortest digits that read back as the same number and, of two equally
/// near ones, the even (std's `{:e}` takes the larger), as ECMAScript asks; only their arrangement
/// differs.
fn push_real(out: &mut Vec<u8>, value: f64) {
    let text = serde_json::to_string(&value.abs()).unwrap_or_default();
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    let digits = all.trim_start_matches('0');
    let leading_zeros = all.len().saturating_sub(digits.len());
    let before_point = exponent
        .parse::<i32>()
        .unwrap_or_default()
        .saturating_add(i32::try_from(whole.len()).unwrap_or_default())
        .saturating_sub(i32::try_from(leading_zeros).unwrap_or_default());
    if value.is_sign_negative() {
        out.push(b'-');
    }
    out.extend_from_slice(arrange(digits.trim_end_matches('0'), before_point).as_bytes());
}

/// Places the decimal point: the value is 0.`digits` × 10^`before_point` (ECMAScript's `n`).
fn arrange(digits: &str, before_point: i32) -> String {
    match usize::try_from(before_point) {
        Ok(n) if n >= digits.len() && n <= 21 => format!("{digits:0<n$}"),
        Ok(n) if n > 0 && n <= 21 => {
            let (whole, fraction) = digits.split_at_checked(n).unwrap_or((digits, ""));
            format!("{whole}.{fraction}")
        }
        _ if before_point > -6 && before_point <= 0 => {
            let zeros = "0".repeat(before_point.unsigned_abs() as usize);
            format!("0.{zeros}{digits}")
        }
        _ => {
            let exponent = before_point.saturating_sub(1);
            match digits.split_at_checked(1) {
                Some((first, rest)) if !rest.is_empty() => format!("{first}.{rest}e{exponent:+}"),
                _ => format!("{digits}e{exponent:+}"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(value: f64) -> String {
        let mut out = Vec::new();
        Number::real(value).unwrap().push_canonical(&mut out);
        String::from_utf8(out).unwrap()
    }

    /// RFC 8785 appendix B.
    #[test]
    fn samples_of_the_rfc() {
        for (bits, expected) in [
            (0x0000_0000_0000_0000, "0"),
            (0x8000_0000_0000_0000, "0"),
            (0x0000_0000_0000_0001, "5e-324"),
            (0x8000_0000_0000_0001, "-5e-324"),
            (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
            (0xffef_ffff_ffff_ffff, "-1.7976931348623157e+308"),
            (0x4340_0000_0000_0000, "9007199254740992"),
            (0xc340_0000_0000_0000, "-9007199254740992"),
            (0x4430_0000_0000_0000, "295147905179352830000"),
            (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
            (0x44b5_2d02_c7e1_4af6, "1e+23"),
            (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
            (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
            (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
            (0x444b_1ae4_d6e2_ef50, "1e+21"),
            (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
            (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
            (0x41b3_de43_5555_5553, "333333333.3333332"),
            (0x41b3_de43_5555_5554, "333333333.33333325"),
            (0x41b3_de43_5555_5555, "333333333.3333333"),
            (0x41b3_de43_5555_5556, "333333333.3333334"),
            (0x41b3_de43_5555_5557, "333333333.33333343"),
            (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
            (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
        ] {
            assert_eq!(canonical(f64::from_bits(bits)), expected);
        }
    }

    /// Small ones are written here, the others by `serde_json`.
    #[test]
    fn integers_are_written_in_one_way() {
        for value in (-1100..=1100).chain([9_999, -Number::MAX_INTEGER, Number::MAX_INTEGER]) {
            let mut out = Vec::new();
            Number::integer(value).unwrap().push_canonical(&mut out);
            assert_eq!(String::from_utf8(out).unwrap(), value.to_string());
        }
    }

    #[test]
    fn integers_at_the_limit_and_past_it() {
        assert!(Number::integer(Number::MAX_INTEGER).is_some());
        assert!(Number::integer(-Number::MAX_INTEGER).is_some());
        assert!(Number::integer(Number::MAX_INTEGER + 1).is_none());
        assert!(Number::integer(i64::MIN).is_none());
        assert!(Number::real(f64::NAN).is_none());
        assert!(Number::real(f64::INFINITY).is_none());
    }

    #[test]
    fn the_written_form_is_kept() {
        assert_eq!(Number::from_checked("1").as_i64(), Some(1));
        assert_eq!(Number::from_checked("-0").as_i64(), Some(0));
        assert_eq!(Number::from_checked("1.0").as_i64(), None);
        assert_eq!(Number::from_checked("1e3").as_f64(), 1000.0);
    }
}
