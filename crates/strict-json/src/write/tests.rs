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

#[test]
fn checked_text_loses_its_white_space_and_nothing_else() {
    let raw = Raw::parse("{ \"a b\" :\n[ 1 ,\t\"é \\u2028\" ] }", Limits::default()).unwrap();
    let mut out = Vec::new();
    raw.checked().push_to(&mut out, Charset::Ascii);
    assert_eq!(out, br#"{"a b":[1,"\u00e9 \u2028"]}"#);
}
