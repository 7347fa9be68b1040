use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use serde_json::json;

use super::*;

#[test]
fn no_form_of_it_comes_back() {
    let mut hidden = Hidden::default();
    hidden.add("pass\"word/1");
    hidden.add("pass");
    for text in [
        "pass\"word/1",
        r#"{"a":"pass\"word/1"}"#,
        "?k=pass%22word%2F1&x",
        "pass",
    ] {
        assert!(hidden.is_in(text.as_bytes()));
        let shown = hidden.hide(text.to_owned());
        let is_hidden = !shown.contains("pass") && shown.contains(INSTEAD);
        assert!(is_hidden, "{shown}");
    }
    let value: Value = serde_json::from_str(r#"{"p\u0061ss": ["p\u0061ss", 1]}"#).unwrap();
    assert_eq!(hidden.hide_in(value), json!({INSTEAD: [INSTEAD, 1]}));
    assert_eq!(format!("{hidden:?}"), "Hidden(…)");
}

#[test]
fn what_is_too_short_is_in_every_text() {
    let mut hidden = Hidden::default();
    assert!(!hidden.has_any());
    hidden.add("abc");
    assert!(hidden.has_any() && !hidden.is_in(b"abc"));
    hidden.add("abcd");
    assert_eq!(hidden.hide("abcabcd".into()), "abc[secret]");
}

/// A server that repeats what it was sent need not do so letter by letter.
#[test]
fn encodings_of_it_are_hidden() {
    const SECRET: &str = "s3cr3t+k/y?ü";
    let mut hidden = Hidden::default();
    hidden.add(SECRET);
    let percent = |large: bool| -> String {
        let byte = |byte: u8| match large {
            true => format!("%{byte:02X}"),
            false => format!("%{byte:02x}"),
        };
        SECRET.bytes().map(byte).collect()
    };
    let each = |write: fn(char) -> String| SECRET.chars().map(write).collect::<String>();
    let mixed = format!("s%33c\\u0072&#51;{}", &SECRET[5..]);
    let mut texts = vec![
        percent(true),
        percent(false),
        each(|it| format!("\\u{:04X}", u32::from(it))),
        each(|it| format!("&#{};", u32::from(it))),
        each(|it| format!("&#x{:x};", u32::from(it))),
        SECRET.replace('/', "\\/"),
        hex::encode(SECRET),
        hex::encode_upper(SECRET),
        mixed,
    ];
    for before in ["", "a", "ab", "Authorization: Bearer "] {
        for after in ["", "z", "zz"] {
            let text = format!("{before}{SECRET}{after}");
            texts.extend([STANDARD.encode(&text), URL_SAFE.encode(&text)]);
        }
    }
    let encoded = STANDARD.encode(SECRET);
    texts.push(format!("{}\r\n{}", &encoded[..6], &encoded[6..]));
    texts.push(format!("{}\\n{}", &encoded[..6], &encoded[6..]));
    for text in texts {
        let text = format!("before {text} after");
        let shown = hidden.hide(text.clone());
        assert!(shown.contains(INSTEAD), "{text}: {shown}");
        assert!(
            shown.starts_with("before ") && shown.ends_with(" after"),
            "{shown}"
        );
        // At most the digits at the ends remain that are its neighbours' too.
        assert!(shown.len() < INSTEAD.len() + 60, "{shown}");
    }
    assert_eq!(hidden.hide("s3cr3t+k".into()), "s3cr3t+k");
    let mut ascii = Hidden::default();
    ascii.add("hunter22");
    let wide: Vec<u8> = "x hunter22"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    assert!(ascii.is_in(&wide));
    let wide: Vec<u8> = "x hunter22"
        .encode_utf16()
        .flat_map(u16::to_be_bytes)
        .collect();
    assert!(ascii.is_in(&wide));
    let mut number = Hidden::default();
    number.add("12345678");
    assert_eq!(number.hide_in(json!([123_456_789, 1])), json!([INSTEAD, 1]));
}

/// Escapes that are none do no harm, and a secret may look like one.
#[test]
fn what_only_looks_encoded() {
    let mut hidden = Hidden::default();
    hidden.add("a%41b");
    assert_eq!(hidden.hide("x a%41b y".into()), "x [secret] y");
    for text in [
        "%",
        "%4",
        "%zz",
        "\\",
        "\\u",
        "\\u12",
        "\\ud800\\u0041",
        "&",
        "&#;",
        "&#x;",
        "&#x110000;",
        "é%é",
    ] {
        assert_eq!(hidden.hide(text.into()), text);
    }
}

/// What is cut does not end with the half of a secret, nor does one that was hidden before move it.
#[test]
fn a_cut_does_not_show_half_of_it() {
    let mut hidden = Hidden::default();
    hidden.add("hunter2222");
    let text = "hunter2222 hunter2222 hunter2222";
    for most in 0..=text.len() {
        let shown = hidden.hide_and_cut(text.to_owned(), most);
        assert!(!shown.contains("hunt"), "{most}: {shown}");
    }
    assert_eq!(
        hidden.hide_and_cut(text.to_owned(), 12),
        "[secret] [secret]"
    );
    assert_eq!(hidden.hide_and_cut("aé".into(), 2), "a");
    assert!(hidden.beyond() >= 10 * 12);
    assert_eq!(Hidden::default().beyond(), 0);
}
