//! Text from elsewhere, on its way to a terminal.

use std::fmt::Display;
use std::path::Path;

/// A text as it may be shown: what could steer a terminal or turn its writing around is escaped.
pub(crate) fn plain(text: impl Display) -> String {
    let mut out = String::new();
    for letter in text.to_string().chars() {
        match letter {
            '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                out.extend(letter.escape_unicode());
            }
            _ if letter.is_control() => out.extend(letter.escape_default()),
            _ => out.push(letter),
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

/// A word of a command that somebody will paste into a shell: whatever it says, it is one word.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-./:@%+,".contains(letter);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", plain(word).replace('\'', r"'\''")),
    }
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
    }

    #[test]
    fn a_word_stays_one() {
        for (word, shown) in [
            ("mounted:a/x@sha256:00", "mounted:a/x@sha256:00"),
            ("a;rm", "'a;rm'"),
            ("$(x)`y`", "'$(x)`y`'"),
            ("it's", r"'it'\''s'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(word), shown);
        }
    }
}
