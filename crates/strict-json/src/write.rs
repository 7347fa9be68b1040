//! Writing JSON text: strings with the fewest escapes, checked values without white space.
#![expect(
    clippy::arithmetic_side_effects,
    reason = "every sum is an offset into a text, so it is bounded by the text's length"
)]

use crate::{Checked, lex};

/// Which characters may stand unescaped in what is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Charset {
    /// All but the control characters, `"` and `\`.
    #[default]
    Utf8,
    /// Only ASCII: some readers of event streams break lines at U+0085, U+2028 and U+2029.
    Ascii,
}

/// Appends `text` as a JSON string. The escapes are those of RFC 8785.
#[inline]
pub fn push_string(out: &mut Vec<u8>, text: &str, charset: Charset) {
    if charset == Charset::Ascii || !push_enclosed(out, *b"\"", text.as_bytes(), *b"\"") {
        push_escaped(out, text, charset);
    }
}

/// Appends what stands before the value of a member: a brace or a comma, its name, a colon.
#[inline]
pub fn push_name(out: &mut Vec<u8>, before: u8, name: &str) {
    if !push_enclosed(out, [before, b'"'], name.as_bytes(), *b"\":") {
        out.push(before);
        push_escaped(out, name, Charset::Utf8);
        out.push(b':');
    }
}

/// Appends a text and what encloses it, unless something in the text must be escaped.
#[inline]
fn push_enclosed<const A: usize, const B: usize>(
    out: &mut Vec<u8>,
    before: [u8; A],
    bytes: &[u8],
    after: [u8; B],
) -> bool {
    let length = A + bytes.len() + B;
    if length > size_of::<u128>() {
        return match (bytes.first_chunk(), bytes.last_chunk()) {
            (Some(first), Some(last)) if bytes.len() <= 2 * HALF => {
                push_ends(out, &before, bytes.len(), first, last, &after)
            }
            _ => push_plain(out, &before, bytes, &after),
        };
    }
    let Some(word) = pack(bytes) else {
        return false;
    };
    let word_of = |bytes: &[u8]| {
        bytes
            .iter()
            .rev()
            .fold(0, |all, byte| all << 8 | u128::from(*byte))
    };
    let token = word_of(&before) | word << (8 * A) | word_of(&after) << (8 * (A + bytes.len()));
    let end = out.len() + length;
    // To write a fixed number of bytes is much quicker than to copy by length.
    out.extend_from_slice(&token.to_le_bytes());
    out.truncate(end);
    true
}

/// The bytes of a text of up to 16, the first one lowest, unless something in it must be escaped.
///
/// As many bytes from the beginning as from the end make up the text; where they overlap they are the same.
#[inline]
fn pack(bytes: &[u8]) -> Option<u128> {
    let shift = |ends: usize| 8 * (bytes.len() - ends);
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let is_plain = lex::is_plain_word(*first) && lex::is_plain_word(*last);
        let (first, last) = (u64::from_le_bytes(*first), u64::from_le_bytes(*last));
        return is_plain.then(|| u128::from(first) | u128::from(last) << shift(8));
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let (&[a, b, c, d], &[e, f, g, h]) = (first, last);
        let is_plain = lex::is_plain_word([a, b, c, d, e, f, g, h]);
        let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
        return is_plain.then(|| u128::from(u64::from(first) | u64::from(last) << shift(4)));
    }
    let few = bytes
        .iter()
        .rev()
        .fold(0, |all, byte| all << 8 | u32::from(*byte));
    bytes
        .iter()
        .copied()
        .all(lex::is_plain)
        .then_some(few.into())
}

/// Texts of up to twice as many bytes are appended by their ends.
const HALF: usize = 16;

/// Appends a text of [`HALF`] to twice as many bytes, given its ends, and what encloses it, unless something in the text must be
/// escaped.
#[inline]
fn push_ends(
    out: &mut Vec<u8>,
    before: &[u8],
    length: usize,
    first: &[u8; HALF],
    last: &[u8; HALF],
    after: &[u8],
) -> bool {
    let is_plain = |half: &[u8; HALF]| {
        let (words, _) = half.as_chunks();
        words.iter().all(|word| lex::is_plain_word(*word))
    };
    let is_plain = is_plain(first) && is_plain(last);
    if is_plain {
        out.extend_from_slice(before);
        let start = out.len();
        out.extend_from_slice(first);
        out.truncate(start + length - HALF);
        out.extend_from_slice(last);
        out.extend_from_slice(after);
    }
    is_plain
}

/// Appends a text of any length and what encloses it, unless something in the text must be escaped.
fn push_plain(out: &mut Vec<u8>, before: &[u8], bytes: &[u8], after: &[u8]) -> bool {
    let is_plain = lex::is_all_plain(bytes);
    if is_plain {
        out.reserve(before.len() + bytes.len() + after.len());
        out.extend_from_slice(before);
        out.extend_from_slice(bytes);
        out.extend_from_slice(after);
    }
    is_plain
}

/// As [`push_string`], for texts in which something may have to be escaped.
#[inline(never)]
fn push_escaped(out: &mut Vec<u8>, text: &str, charset: Charset) {
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut copied = 0;
    loop {
        let at = lex::plain_run(bytes, copied);
        let run = text.get(copied..at).unwrap_or_default();
        push_text(out, run, charset);
        match bytes.get(at) {
            Some(&byte) => push_escape(out, byte),
            None => break,
        }
        copied = at + 1;
    }
    out.push(b'"');
}

/// Appends checked text without white space between its tokens.
pub(crate) fn push_checked(out: &mut Vec<u8>, value: Checked<'_>, charset: Charset) {
    let text = value.as_str();
    if value.is_compact() {
        return push_text(out, text, charset);
    }
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let end = match byte {
            b' ' | b'\t' | b'\n' | b'\r' => {
                at += 1;
                continue;
            }
            b'"' => (lex::string_end(bytes, at + 1) + 1).min(bytes.len()),
            _ => at + 1,
        };
        push_text(out, text.get(at..end).unwrap_or_default(), charset);
        at = end;
    }
}

/// Appends text in which only the charset can call for an escape.
fn push_text(out: &mut Vec<u8>, text: &str, charset: Charset) {
    if charset == Charset::Utf8 || text.is_ascii() {
        out.extend_from_slice(text.as_bytes());
        return;
    }
    let mut units = [0; 2];
    for character in text.chars() {
        if character.is_ascii() {
            out.push(character as u8);
            continue;
        }
        for unit in character.encode_utf16(&mut units) {
            push_unicode_escape(out, *unit);
        }
    }
}

fn push_escape(out: &mut Vec<u8>, byte: u8) {
    let short = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        b'\t' => b't',
        b'\n' => b'n',
        0x0c => b'f',
        b'\r' => b'r',
        _ => return push_unicode_escape(out, byte.into()),
    };
    out.extend_from_slice(&[b'\\', short]);
}

fn push_unicode_escape(out: &mut Vec<u8>, unit: u16) {
    out.extend_from_slice(br"\u");
    for shift in [12, 8, 4, 0] {
        let digit = u32::from(unit >> shift & 0xf);
        out.push(char::from_digit(digit, 16).map_or(b'0', |digit| digit as u8));
    }
}

#[cfg(test)]
mod tests;
