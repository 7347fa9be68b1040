//! Text from elsewhere, on its way to a terminal.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::Write as _;
use std::path::Path;

/// Writes a line on standard error. If nobody reads that, nobody has to be told, and the command goes on.
pub(crate) fn tell(text: std::fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// A text as it may be shown: what could steer a terminal, turn its writing around or not be seen is
/// escaped.
pub(crate) fn plain(text: impl Display) -> String {
    let mut out = String::new();
    for letter in text.to_string().chars() {
        match acts(letter) {
            true if letter.is_control() => out.extend(letter.escape_default()),
            true => out.extend(letter.escape_unicode()),
            false => out.push(letter),
        }
    }
    out
}

/// Whether a letter does something rather than show something.
fn acts(letter: char) -> bool {
    let mut buffer = [0; 4];
    let text: &str = letter.encode_utf8(&mut buffer);
    matches!(audit::printable(text), Cow::Owned(_))
}

/// Columns of a line that fits into any terminal.
pub(crate) const WIDTH: usize = 80;

/// A text of at most so many letters; one that ends in `…` goes on.
pub(crate) fn cut(text: &str, width: usize) -> String {
    let mut letters = text.char_indices();
    match (letters.nth(width.saturating_sub(1)), letters.next()) {
        (Some((end, _)), Some(_)) => format!("{}…", text.get(..end).unwrap_or_default()),
        _ => text.to_owned(),
    }
}

/// A text in one line, where its line breaks say nothing.
pub(crate) fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    plain(words.join(" "))
}

/// JSON as it may be shown: escaped by its own rules, so it says the same.
pub(crate) fn json(text: &str) -> String {
    let mut out = String::new();
    for letter in text.chars() {
        // Outside texts there are no such letters but line breaks.
        match letter != '\n' && acts(letter) {
            true => {
                for unit in letter.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
            false => out.push(letter),
        }
    }
    out
}

/// A file name as it may be shown.
pub(crate) fn shown(path: &Path) -> String {
    plain(path.display())
}

/// A message as it may be shown; it may have several lines.
pub(crate) fn message(text: impl Display) -> String {
    let text = text.to_string();
    let lines: Vec<String> = text.split('\n').map(plain).collect();
    lines.join("\n")
}

/// So many of something, in words: `1 record`, `2 records`.
pub(crate) fn count(number: u64, one: &str, many: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        _ => format!("{number} {many}"),
    }
}

/// A word of a command that somebody will paste into a shell: whatever it says, it is one word.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-./:@%+,".contains(letter);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", plain(word).replace('\'', r"'\''")),
    }
}

/// A path as one word of such a command; absolute, as it may be pasted in another folder.
pub(crate) fn quoted_path(path: &Path) -> String {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    quoted(&path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_steers_the_terminal() {
        let hostile = "a\u{1b}[2J\rb\n\u{9b}31m\u{202e}c\u{7f}é\tx";
        assert_eq!(
            plain(hostile),
            r"a\u{1b}[2J\rb\n\u{9b}31m\u{202e}c\u{7f}é\tx"
        );
        assert_eq!(message("a\nb\rc"), "a\nb\\rc");
        assert_eq!(one_line(" a\n\tb\u{1b} "), r"a b\u{1b}");
        assert_eq!(plain("a\u{200b}\u{e0041}"), r"a\u{200b}\u{e0041}");
    }

    #[test]
    fn json_says_the_same() {
        let value = serde_json::json!({"a\u{9b}": "\u{202e}\u{e0041}\u{7f}é\n"});
        let text = json(&format!("{value:#}"));
        assert!(text.contains(r"\u202e\udb40\udc41\u007fé\n"), "{text}");
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&text).unwrap(),
            value
        );
    }

    #[test]
    fn one_is_not_many() {
        let records = |number| count(number, "record", "records");
        assert_eq!(
            [0, 1, 2].map(records),
            ["0 records", "1 record", "2 records"]
        );
    }

    #[test]
    fn a_word_stays_one() {
        for (word, shown) in [
            ("remote_plugin:a/x@sha256:00", "remote_plugin:a/x@sha256:00"),
            ("a;rm", "'a;rm'"),
            ("$(x)`y`", "'$(x)`y`'"),
            ("it's", r"'it'\''s'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(word), shown);
        }
    }
}
