use super::*;
use crate::{Limits, Raw};

fn string(text: &str, charset: Charset) -> String {
    let mut out = Vec::new();
    push_string(&mut out, text, charset);
    String::from_utf8(out).unwrap()
}

#[test]
fn only_what_must_be_escaped_is() {
    let text = "a\"\\/\u{8}\t\n\u{c}\r\u{1f}\u{7f}é\u{2028}😀";
    assert_eq!(
        string(text, Charset::Utf8),
        "\"a\\\"\\\\/\\b\\t\\n\\f\\r\\u001f\u{7f}é\u{2028}😀\""
    );
    assert_eq!(
        string(text, Charset::Ascii),
        "\"a\\\"\\\\/\\b\\t\\n\\f\\r\\u001f\u{7f}\\u00e9\\u2028\\ud83d\\ude00\""
    );
}

/// Every byte that must be escaped, at every place of short and long texts.
#[test]
fn an_escape_is_found_wherever_it_is() {
    for length in (0..40).chain([63, 64, 65, 72, 131]) {
        let plain = "é".repeat(length / 2) + &"x".repeat(length % 2);
        assert_eq!(string(&plain, Charset::Utf8), format!("\"{plain}\""));
        for at in 0..length {
            for special in ["\"", "\\", "\u{0}", "\n", "\u{1f}"] {
                let text = format!("{}{special}{}", "x".repeat(at), "y".repeat(length - at - 1));
                let written = string(&text, Charset::Utf8);
                assert_eq!(serde_json::from_str::<String>(&written).unwrap(), text);
                assert!(written.len() > text.len() + 2, "{written}");
            }
            for other in [" ", "!", "#", "[", "]", "\u{7f}"] {
                let text = format!("{}{other}{}", "x".repeat(at), "y".repeat(length - at - 1));
                assert_eq!(string(&text, Charset::Utf8), format!("\"{text}\""));
            }
        }
    }
}

#[test]
fn checked_text_loses_its_white_space_and_nothing_else() {
    let raw = Raw::parse("{ \"a b\" :\n[ 1 ,\t\"é \\u2028\" ] }", Limits::default()).unwrap();
    let mut out = Vec::new();
    raw.checked().push_to(&mut out, Charset::Ascii);
    assert_eq!(out, br#"{"a b":[1,"\u00e9 \u2028"]}"#);
}
