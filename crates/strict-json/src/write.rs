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
    if charset == Charset::Ascii || !push_short(out, *b"\"", text.as_bytes(), *b"\"") {
        push_any_string(out, text, charset);
    }
}

/// Appends what stands before the value of a member: a brace or a comma, its name, a colon.
#[inline]
pub fn push_name(out: &mut Vec<u8>, before: u8, name: &str) {
    if !push_short(out, [before, b'"'], name.as_bytes(), *b"\":") {
        push_any_name(out, before, name);
    }
}

/// As [`push_string`], for texts of any length.
#[inline(never)]
fn push_any_string(out: &mut Vec<u8>, text: &str, charset: Charset) {
    if charset == Charset::Ascii || !push_enclosed(out, b"\"", text.as_bytes(), b"\"") {
        push_escaped(out, text, charset);
    }
}

/// As [`push_name`], for names of any length.
#[inline(never)]
fn push_any_name(out: &mut Vec<u8>, before: u8, name: &str) {
    if !push_enclosed(out, &[before, b'"'], name.as_bytes(), b"\":") {
        out.push(before);
        push_escaped(out, name, Charset::Utf8);
        out.push(b':');
    }
}

/// Appends a text and what encloses it, unless something in the text must be escaped.
fn push_enclosed(out: &mut Vec<u8>, before: &[u8], bytes: &[u8], after: &[u8]) -> bool {
    match (bytes.first_chunk(), bytes.last_chunk()) {
        (Some(first), Some(last)) if bytes.len() <= 2 * HALF => {
            push_ends(out, before, bytes.len(), first, last, after)
        }
        _ => push_plain(out, before, bytes, after),
    }
}

/// Appends a text and what encloses it, unless it is longer than [`HALF`] or something in it must be escaped.
#[inline]
fn push_short<const A: usize, const B: usize>(
    out: &mut Vec<u8>,
    before: [u8; A],
    bytes: &[u8],
    after: [u8; B],
) -> bool {
    if bytes.len() > HALF {
        return false;
    }
    let start = out.len();
    // To write a fixed number of bytes is much quicker than to copy by length.
    out.extend_from_slice(&[0; ROOM]);
    let is_plain = out
        .last_chunk_mut()
        .is_some_and(|room| enclose_short(room, before, bytes, after));
    let written = if is_plain { A + bytes.len() + B } else { 0 };
    out.truncate(start + written);
    is_plain
}

/// Room for a short text and for two bytes before and after it.
const ROOM: usize = 24;

/// Writes a text of up to [`HALF`] bytes and what encloses it, unless something in the text must be escaped.
///
/// As many bytes from the beginning as from the end make up the text; where they overlap they are the same.
#[inline]
fn enclose_short<const A: usize, const B: usize>(
    room: &mut [u8; ROOM],
    before: [u8; A],
    bytes: &[u8],
    after: [u8; B],
) -> bool {
    put(room, 0, before);
    put(room, A + bytes.len(), after);
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        put(room, A, *first);
        put(room, A + bytes.len() - 8, *last);
        return lex::is_plain_word(*first) && lex::is_plain_word(*last);
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        put(room, A, *first);
        put(room, A + bytes.len() - 4, *last);
        let (&[a, b, c, d], &[e, f, g, h]) = (first, last);
        return lex::is_plain_word([a, b, c, d, e, f, g, h]);
    }
    let middle = bytes.len() / 2;
    let (Some(&a), Some(&b), Some(&c)) = (bytes.first(), bytes.get(middle), bytes.last()) else {
        return true;
    };
    put(room, A, [a]);
    put(room, A + middle, [b]);
    put(room, A + bytes.len() - 1, [c]);
    lex::is_plain_word([a, b, c, c, c, c, c, c])
}

/// Writes a few bytes into the room.
#[inline]
fn put<const N: usize>(room: &mut [u8; ROOM], at: usize, bytes: [u8; N]) {
    if let Some(place) = room.get_mut(at..at + N) {
        place.copy_from_slice(&bytes);
    }
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
