//! The tokens of JSON, over bytes that are already known to be UTF-8.
#![expect(
    clippy::arithmetic_side_effects,
    reason = "every sum is an offset into a text, so it is bounded by the text's length"
)]

use std::borrow::Cow;

use crate::{Fault, FaultKind, Integers};

/// A string token with escapes, from behind its opening quote.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EscapedString {
    /// Offset of the closing quote.
    pub(crate) end: usize,
    /// Offset of the first lone surrogate.
    pub(crate) lone: Option<usize>,
}

/// Reads a string without escapes, whose opening quote stands before `at`: the offset of its
/// closing quote. Most strings are such; for others there is [`escaped_string`].
#[inline]
pub(crate) fn plain_string(bytes: &[u8], at: usize) -> Option<usize> {
    let end = plain_run(bytes, at);
    (bytes.get(end) == Some(&b'"')).then_some(end)
}

/// Reads any string, whose opening quote stands before `at`.
#[cold]
pub(crate) fn escaped_string(bytes: &[u8], mut at: usize) -> Result<EscapedString, Box<Fault>> {
    let mut lone = None;
    loop {
        at = plain_run(bytes, at);
        match bytes.get(at) {
            Some(b'"') => {
                return Ok(EscapedString { end: at, lone });
            }
            Some(b'\\') => {
                let (next, broken) = escape(bytes, at)?;
                if broken && lone.is_none() {
                    lone = Some(at);
                }
                at = next;
            }
            Some(_) => return Err(syntax("no raw control character in a string", at)),
            None => return Err(incomplete(bytes)),
        }
    }
}

/// The first byte at or after `at` that is a quote, a backslash or a control character.
#[inline]
pub(crate) fn plain_run(bytes: &[u8], mut at: usize) -> usize {
    while let Some(&[a, b, c, d, e, f, g, h]) = bytes.get(at..at + 8) {
        let found = special(u64::from_le_bytes([a, b, c, d, e, f, g, h]));
        if found != 0 {
            return at + (found.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    while bytes.get(at).is_some_and(|&byte| is_plain(byte)) {
        at += 1;
    }
    at
}

/// Whether nothing in a text is a quote, a backslash or a control character.
#[inline]
pub(crate) fn is_all_plain(bytes: &[u8]) -> bool {
    // Eight words at a time, because that many the compiler looks at in a few instructions.
    let (lines, rest) = bytes.as_chunks::<64>();
    let line_is_plain = |line: &[u8; 64]| {
        let words = line.as_chunks::<8>().0.iter();
        words.fold(0, |found, word| found | special(u64::from_le_bytes(*word))) == 0
    };
    let (words, rest) = rest.as_chunks::<8>();
    lines.iter().all(line_is_plain)
        && words.iter().all(|word| is_plain_word(*word))
        && rest.iter().all(|&byte| is_plain(byte))
}

/// Whether nothing in a machine word is a quote, a backslash or a control character.
#[inline]
pub(crate) const fn is_plain_word(word: [u8; 8]) -> bool {
    special(u64::from_le_bytes(word)) == 0
}

/// Marks (with the top bit) the lowest byte of a word that is a quote, a backslash or a control.
///
/// Bytes above the lowest marked one may be marked wrongly by the borrow; only the lowest counts.
#[inline]
const fn special(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const TOPS: u64 = 0x8080_8080_8080_8080;
    // With this bit turned a quote (0x22) stands right behind the controls, and a space behind it.
    let quote_or_control = (word ^ (ONES * 0x02)).wrapping_sub(ONES * 0x21);
    let slash = (word ^ (ONES * b'\\' as u64)).wrapping_sub(ONES);
    // Bytes from 0x80 up are never special.
    (quote_or_control | slash) & !word & TOPS
}

pub(crate) const fn is_plain(byte: u8) -> bool {
    byte >= 0x20 && byte != b'"' && byte != b'\\'
}

/// Reads the escape at `at`: where it ends, and whether it is a lone surrogate.
fn escape(bytes: &[u8], at: usize) -> Result<(usize, bool), Box<Fault>> {
    match bytes.get(at + 1) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok((at + 2, false)),
        Some(b'u') => {
            let unit = hex4(bytes, at + 2)?;
            match unit {
                0xD800..=0xDBFF => match low_surrogate(bytes, at + 6) {
                    Some(_) => Ok((at + 12, false)),
                    None => Ok((at + 6, true)),
                },
                0xDC00..=0xDFFF => Ok((at + 6, true)),
                _ => Ok((at + 6, false)),
            }
        }
        Some(_) => Err(syntax("a known escape", at)),
        None => Err(incomplete(bytes)),
    }
}

fn low_surrogate(bytes: &[u8], at: usize) -> Option<u32> {
    if bytes.get(at..at + 2)? != br"\u" {
        return None;
    }
    hex4(bytes, at + 2)
        .ok()
        .filter(|unit| (0xDC00..=0xDFFF).contains(unit))
}

fn hex4(bytes: &[u8], at: usize) -> Result<u32, Box<Fault>> {
    let Some(digits) = bytes.get(at..at + 4) else {
        return Err(incomplete(bytes));
    };
    digits.iter().try_fold(0, |unit, &digit| {
        char::from(digit)
            .to_digit(16)
            .map(|value| unit * 16 + value)
            .ok_or_else(|| syntax("four hexadecimal digits", at))
    })
}

/// The end of a checked string, whose opening quote stands before `at`.
#[inline]
pub(crate) fn string_end(bytes: &[u8], at: usize) -> usize {
    match plain_string(bytes, at) {
        Some(end) => end,
        None => escaped_string(bytes, at).map_or(bytes.len(), |token| token.end),
    }
}

/// The text of a checked string token; a lone surrogate becomes U+FFFD.
pub(crate) fn unescape(inner: &str) -> Cow<'_, str> {
    let Some(first) = inner.find('\\') else {
        return Cow::Borrowed(inner);
    };
    let bytes = inner.as_bytes();
    let mut out = String::with_capacity(inner.len());
    let mut copied = 0;
    let mut at = first;
    loop {
        out.push_str(inner.get(copied..at).unwrap_or_default());
        let (next, decoded) = decode_escape(bytes, at);
        out.push(decoded);
        copied = next;
        match inner.get(next..).and_then(|rest| rest.find('\\')) {
            Some(distance) => at = next + distance,
            None => break,
        }
    }
    out.push_str(inner.get(copied..).unwrap_or_default());
    Cow::Owned(out)
}

fn decode_escape(bytes: &[u8], at: usize) -> (usize, char) {
    let simple = match bytes.get(at + 1) {
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => return decode_unicode_escape(bytes, at),
        Some(&same) => char::from(same),
        None => char::REPLACEMENT_CHARACTER,
    };
    (at + 2, simple)
}

fn decode_unicode_escape(bytes: &[u8], at: usize) -> (usize, char) {
    let unit = hex4(bytes, at + 2).unwrap_or(0xFFFD);
    if (0xD800..=0xDBFF).contains(&unit)
        && let Some(low) = low_surrogate(bytes, at + 6)
    {
        let code = 0x1_0000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
        return (
            at + 12,
            char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER),
        );
    }
    (
        at + 6,
        char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER),
    )
}

/// A number token.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NumberToken {
    /// Offset behind its last digit.
    pub(crate) end: usize,
    /// Whether it is written as an integer.
    pub(crate) integer: bool,
    has_exponent: bool,
}

/// Reads the number that starts at `at`.
pub(crate) fn number(bytes: &[u8], at: usize) -> Result<NumberToken, Box<Fault>> {
    let mut end = at + usize::from(bytes.get(at) == Some(&b'-'));
    end = match bytes.get(end) {
        Some(b'0') => end + 1,
        Some(b'1'..=b'9') => digits(bytes, end),
        Some(_) => return Err(syntax("a digit", end)),
        None => return Err(incomplete(bytes)),
    };
    let mut token = NumberToken {
        end,
        integer: true,
        has_exponent: false,
    };
    if bytes.get(token.end) == Some(&b'.') {
        token.integer = false;
        token.end = some_digits(bytes, token.end + 1)?;
    }
    if let Some(b'e' | b'E') = bytes.get(token.end) {
        token.integer = false;
        token.has_exponent = true;
        let sign = usize::from(matches!(bytes.get(token.end + 1), Some(b'+' | b'-')));
        token.end = some_digits(bytes, token.end + 1 + sign)?;
    }
    Ok(token)
}

impl NumberToken {
    /// Whether a number that starts at `at` is within range.
    pub(crate) fn range(self, text: &str, at: usize, integers: Integers) -> Result<(), Box<Fault>> {
        // Up to 15 digits every integer is exact, and nothing overflows without an exponent.
        if !self.has_exponent && self.end - at <= 15 {
            return Ok(());
        }
        let literal = text.get(at..self.end).unwrap_or_default();
        if integers == Integers::Exact
            && self.integer
            && !literal
                .parse::<i64>()
                .is_ok_and(|value| value.unsigned_abs() < 1 << 53)
        {
            return Err(Box::new(Fault {
                kind: FaultKind::InexactInteger,
                at,
            }));
        }
        // Without an exponent it takes 309 digits to leave binary64.
        let may_overflow = self.has_exponent || literal.len() > 308;
        if may_overflow && !literal.parse::<f64>().is_ok_and(f64::is_finite) {
            return Err(Box::new(Fault {
                kind: FaultKind::NumberOverflow,
                at,
            }));
        }
        Ok(())
    }
}

fn some_digits(bytes: &[u8], at: usize) -> Result<usize, Box<Fault>> {
    match bytes.get(at) {
        Some(b'0'..=b'9') => Ok(digits(bytes, at)),
        Some(_) => Err(syntax("a digit", at)),
        None => Err(incomplete(bytes)),
    }
}

fn digits(bytes: &[u8], mut at: usize) -> usize {
    while bytes.get(at).is_some_and(u8::is_ascii_digit) {
        at += 1;
    }
    at
}

/// Reads one of `true`, `false`, `null` at `at`.
pub(crate) fn word(bytes: &[u8], at: usize) -> Result<usize, Box<Fault>> {
    let rest = bytes.get(at..).unwrap_or_default();
    if rest.starts_with("\u{feff}".as_bytes()) {
        return Err(syntax("a value, not a byte order mark", at));
    }
    for word in [b"true".as_slice(), b"false", b"null"] {
        if rest.starts_with(word) {
            return Ok(at + word.len());
        }
        if word.starts_with(rest) {
            return Err(incomplete(bytes));
        }
    }
    Err(syntax("a value", at))
}

/// The first byte at or after `at` that is not white space.
pub(crate) fn white_space(bytes: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\t' | b'\n' | b'\r') = bytes.get(at) {
        at += 1;
    }
    at
}

#[cold]
pub(crate) fn syntax(expected: &'static str, at: usize) -> Box<Fault> {
    Box::new(Fault {
        kind: FaultKind::Syntax(expected),
        at,
    })
}

#[cold]
pub(crate) fn incomplete(bytes: &[u8]) -> Box<Fault> {
    Box::new(Fault {
        kind: FaultKind::Incomplete,
        at: bytes.len(),
    })
}
