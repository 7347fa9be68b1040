//! Texts that a peer had a say in, as records may have them.

use std::borrow::Cow;

use canonical::Value;

/// Appends a text as JSON, with at most `limit` characters and none that could make one line look
/// like two, or a terminal do something (threat 137).
///
/// JSON escapes the control characters of ASCII. RFC 8785 allows no escape for any other
/// character, so those that act on a terminal or a reader are replaced by U+FFFD.
pub(crate) fn push_text(out: &mut Vec<u8>, text: &str, limit: usize) {
    // All bytes are looked at, without a way out: several at once that way.
    let is_strange = text
        .bytes()
        .fold(false, |found, byte| found | (byte >= 0x7f));
    let text = match text.len() <= limit && !is_strange {
        true => Cow::Borrowed(text),
        false => bounded(text, limit),
    };
    Value::String(text).push_canonical(out);
}

/// A text as it may be shown on a terminal, wherever it comes from.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    let acts =
        |character: char| character.is_control() || is_active(character) || is_invisible(character);
    match text.contains(acts) {
        false => Cow::Borrowed(text),
        true => Cow::Owned(text.replace(acts, "\u{fffd}")),
    }
}

/// The text without what acts on its reader, cut to so many characters; a cut one ends in `…`.
fn bounded(text: &str, limit: usize) -> Cow<'_, str> {
    let is_cut = text.chars().nth(limit).is_some();
    if !is_cut && !text.contains(is_active) {
        return Cow::Borrowed(text);
    }
    let kept = if is_cut {
        limit.saturating_sub(1)
    } else {
        limit
    };
    let shown = text
        .chars()
        .take(kept)
        .map(|character| match is_active(character) {
            true => char::REPLACEMENT_CHARACTER,
            false => character,
        });
    Cow::Owned(shown.chain(is_cut.then_some('…')).collect())
}

/// Whether a character does something rather than show something: deletes, begins a command of a
/// terminal, ends a line, or turns the direction of writing. (Those below U+0020 JSON escapes.)
const fn is_active(character: char) -> bool {
    matches!(
        character,
        '\u{7f}'..='\u{9f}'
            | '\u{61c}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}'
    )
}

/// Whether a character has no width: two texts look the same that differ in it. Records keep them,
/// since some languages are written with them.
const fn is_invisible(character: char) -> bool {
    matches!(
        character,
        '\u{ad}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2060}'..='\u{2064}'
            | '\u{feff}'
            // Whole texts can be written in these, for machines alone.
            | '\u{e0000}'..='\u{e007f}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pushed(text: &str, limit: usize) -> String {
        let mut out = Vec::new();
        push_text(&mut out, text, limit);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn at_the_limit_and_past_it() {
        assert_eq!(pushed("abcd", 4), "\"abcd\"");
        assert_eq!(pushed("abcde", 4), "\"abc…\"");
        assert_eq!(pushed("éééé", 4), "\"éééé\"");
        assert_eq!(pushed("ééééé", 4), "\"ééé…\"");
        assert_eq!(pushed("", 4), "\"\"");
    }

    #[test]
    fn threat_137_nothing_acts_on_the_reader() {
        assert_eq!(pushed("a\nb\r\u{1b}[31m", 99), r#""a\nb\r\u001b[31m""#);
        assert_eq!(printable("plain é"), "plain é");
        assert_eq!(
            printable("a\n\u{1b}[2J\u{9b}\u{202e}"),
            "a\u{fffd}\u{fffd}[2J\u{fffd}\u{fffd}"
        );
        for shown in [
            '\u{ad}',
            '\u{200b}',
            '\u{200f}',
            '\u{2060}',
            '\u{2064}',
            '\u{feff}',
            '\u{e0041}',
        ] {
            assert_eq!(printable(&format!("a{shown}b")), "a\u{fffd}b");
        }
        for kept in ['\u{200a}', '\u{2010}', '\u{205f}', '\u{fefe}'] {
            assert!(printable(&format!("a{kept}b")).contains(kept));
        }
        assert_eq!(pushed("\u{200b}", 9), "\"\u{200b}\"");
        assert_eq!(pushed("a\u{7f}\u{9b}31m", 99), "\"a��31m\"");
        assert_eq!(pushed("a\u{2028}\u{202e}b\u{85}", 99), "\"a��b�\"");
    }
}
