//! The forms in which a server might repeat a secret, and where a text has them.
//!
//! A form may be written in any mixture of percent-encoding, escapes of JSON and of most programming
//! languages, and references of HTML and XML; base64 may be broken into lines.

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;

/// A secret, or an encoding of it.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Form {
    pub(super) bytes: Vec<u8>,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    /// Letters may be large or small.
    Hex,
    /// Lines may be broken.
    Base64,
}

/// Bytes of the longest way to write one byte: `&#x00000041;` and the like are longer than anybody
/// writes them.
pub(super) const LONGEST_UNIT: usize = 12;

/// All forms of a secret.
pub(super) fn forms(secret: &str) -> Vec<Form> {
    let form = |bytes: Vec<u8>, kind| Form { bytes, kind };
    let mut all = vec![form(secret.as_bytes().to_vec(), Kind::Plain)];
    all.push(form(hex::encode(secret).into_bytes(), Kind::Hex));
    // As UTF-16, of either order: the zeros between its bytes are the same.
    let wide: Vec<u8> = secret.bytes().flat_map(|byte| [byte, 0]).collect();
    let wide = wide.get(..wide.len().saturating_sub(1));
    if let Some(wide) = wide.filter(|_| secret.is_ascii()) {
        all.push(form(wide.to_vec(), Kind::Plain));
    }
    for bytes in in_base64(secret) {
        let url_safe = bytes.replace('+', "-").replace('/', "_");
        for bytes in [bytes, url_safe] {
            all.push(form(bytes.into_bytes(), Kind::Base64));
        }
    }
    all.dedup();
    all
}

/// The digits that a secret alone decides about, behind none, one or two bytes of something else.
fn in_base64(secret: &str) -> impl Iterator<Item = String> {
    [(0, 0), (1, 2), (2, 3)]
        .into_iter()
        .filter_map(move |(before, skipped)| {
            let mut bytes = vec![0; before];
            bytes.extend(secret.bytes());
            let decided = bytes.len().saturating_mul(8) / 6;
            let digits = STANDARD_NO_PAD.encode(&bytes);
            Some(digits.get(skipped..decided)?.to_owned())
        })
}

impl Form {
    /// Where this form ends if a text has it from here on.
    pub(super) fn end(&self, text: &[u8], start: usize) -> Option<usize> {
        let (mut at, mut rest) = (start, self.bytes.as_slice());
        while !rest.is_empty() {
            let unit = Unit::at(text, at)?;
            let bytes = unit.bytes();
            let is_break = self.kind == Kind::Base64 && matches!(bytes, b"\r" | b"\n");
            at = at.checked_add(unit.length)?;
            if is_break && rest.len() < self.bytes.len() {
                continue;
            }
            let (head, tail) = rest.split_at_checked(bytes.len())?;
            let is_same = match self.kind {
                Kind::Hex => head.eq_ignore_ascii_case(bytes),
                Kind::Plain | Kind::Base64 => head == bytes,
            };
            if !is_same {
                return None;
            }
            rest = tail;
        }
        Some(at)
    }

    /// The same for a text that is what it says, whatever it looks like.
    pub(super) fn end_as_it_is(&self, text: &[u8], start: usize) -> Option<usize> {
        let rest = text.get(start..)?;
        rest.starts_with(&self.bytes)
            .then(|| start.saturating_add(self.bytes.len()))
    }
}

/// One byte or letter of a text, and how long it is written there.
struct Unit {
    buffer: [u8; 4],
    size: usize,
    length: usize,
}

impl Unit {
    fn at(text: &[u8], at: usize) -> Option<Self> {
        let rest = text.get(at..)?;
        let first = *rest.first()?;
        let written = match first {
            b'%' => percent(rest),
            b'\\' => escape(rest),
            b'&' => reference(rest),
            _ => None,
        };
        Some(written.unwrap_or_else(|| Self::byte(first, 1)))
    }

    fn bytes(&self) -> &[u8] {
        self.buffer.get(..self.size).unwrap_or_default()
    }

    const fn byte(byte: u8, length: usize) -> Self {
        Self {
            buffer: [byte, 0, 0, 0],
            size: 1,
            length,
        }
    }

    fn letter(letter: char, length: usize) -> Self {
        let mut buffer = [0; 4];
        let size = letter.encode_utf8(&mut buffer).len();
        Self {
            buffer,
            size,
            length,
        }
    }
}

/// `%41`
fn percent(rest: &[u8]) -> Option<Unit> {
    let byte = u8::try_from(number(rest.get(1..3)?, 16)?).ok()?;
    Some(Unit::byte(byte, 3))
}

/// `\u0041`, `\x41`, `\/` and the like.
fn escape(rest: &[u8]) -> Option<Unit> {
    let byte = match rest.get(1)? {
        b'u' => return wide(rest),
        b'x' => {
            let byte = u8::try_from(number(rest.get(2..4)?, 16)?).ok()?;
            return Some(Unit::byte(byte, 4));
        }
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'f' => 12,
        other @ (b'/' | b'\\' | b'"' | b'\'') => *other,
        _ => return None,
    };
    Some(Unit::byte(byte, 2))
}

/// `\u0041`, or two such for a letter beyond the first plane.
fn wide(rest: &[u8]) -> Option<Unit> {
    let half = |from: usize| {
        let digits = rest.get(from..from.checked_add(6)?)?.strip_prefix(b"\\u")?;
        u16::try_from(number(digits, 16)?).ok()
    };
    let first = half(0)?;
    if let Some(Ok(letter)) = char::decode_utf16([first]).next() {
        return Some(Unit::letter(letter, 6));
    }
    let letter = char::decode_utf16([first, half(6)?]).next()?.ok()?;
    Some(Unit::letter(letter, 12))
}

/// `&#65;`, `&#x41;`, `&quot;`
fn reference(rest: &[u8]) -> Option<Unit> {
    let window = rest.get(..LONGEST_UNIT).unwrap_or(rest);
    let end = window.iter().position(|byte| *byte == b';')?;
    let name = window.get(1..end)?;
    let length = end.checked_add(1)?;
    let letter = match name {
        b"amp" => '&',
        b"lt" => '<',
        b"gt" => '>',
        b"quot" => '"',
        b"apos" => '\'',
        [b'#', b'x' | b'X', digits @ ..] => char::from_u32(number(digits, 16)?)?,
        [b'#', digits @ ..] => char::from_u32(number(digits, 10)?)?,
        _ => return None,
    };
    Some(Unit::letter(letter, length))
}

fn number(digits: &[u8], radix: u32) -> Option<u32> {
    // A sign is no digit here.
    let is_digit = |byte: &u8| char::from(*byte).is_digit(radix);
    let digits = Some(digits).filter(|digits| digits.iter().all(is_digit))?;
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, radix).ok()
}
