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
    let bytes = text.as_bytes();
    let done = charset == Charset::Utf8
        && match bytes.len() {
            0..=SHORT => push_short(out, bytes),
            _ => push_plain(out, bytes),
        };
    if !done {
        push_escaped(out, text, charset);
    }
}

/// Texts up to this many bytes are appended by [`push_short`].
const SHORT: usize = 16;

/// Appends a short text, as most names and many values are, unless something in it must be escaped.
#[inline]
fn push_short(out: &mut Vec<u8>, bytes: &[u8]) -> bool {
    // As many bytes from the beginning as from the end, which may overlap: to copy a fixed number
    // twice is much quicker than to copy by length.
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        return lex::is_plain_word(*first)
            && lex::is_plain_word(*last)
            && push_ends::<8>(out, bytes.len(), first, last);
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let (&[a, b, c, d], &[e, f, g, h]) = (first, last);
        return lex::is_plain_word([a, b, c, d, e, f, g, h])
            && push_ends::<4>(out, bytes.len(), first, last);
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let all = first.iter().chain(last);
        return all.copied().all(lex::is_plain) && push_ends::<2>(out, bytes.len(), first, last);
    }
    push_plain(out, bytes)
}

/// Appends a text of N to 2N bytes, given its ends.
#[inline]
fn push_ends<const N: usize>(
    out: &mut Vec<u8>,
    length: usize,
    first: &[u8; N],
    last: &[u8; N],
) -> bool {
    out.push(b'"');
    let start = out.len();
    out.extend_from_slice(first);
    out.truncate(start + length - N);
    out.extend_from_slice(last);
    out.push(b'"');
    true
}

/// Appends a text of any length, unless something in it must be escaped.
fn push_plain(out: &mut Vec<u8>, bytes: &[u8]) -> bool {
    let plain = lex::is_all_plain(bytes);
    if plain {
        out.reserve(bytes.len() + 2);
        out.push(b'"');
        out.extend_from_slice(bytes);
        out.push(b'"');
    }
    plain
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
