//! What a transport must know of a message that it carries among others: its type and which request it belongs to.
//!
//! Nothing is checked here, as whoever gets the message reads all of it: strings are jumped over, and what is nested too.

use memchr::memchr2;

/// The members that were looked for; of a text that is no message, none. They prove nothing.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Peek<'a> {
    pub(crate) kind: Option<&'a str>,
    pub(crate) request_id: Option<&'a str>,
    pub(crate) error_code: Option<&'a str>,
}

/// Looks at a message.
pub(crate) fn peek(text: &str) -> Peek<'_> {
    look(text).unwrap_or_default()
}

fn look(text: &str) -> Option<Peek<'_>> {
    let mut seen = Peek::default();
    let mut rest = text.trim_ascii().as_bytes().strip_prefix(b"{")?;
    loop {
        rest = rest.trim_ascii_start().strip_prefix(b"\"")?;
        let name = string(&mut rest)?;
        rest = rest.trim_ascii_start().strip_prefix(b":")?;
        rest = rest.trim_ascii_start();
        let place = match name {
            b"type" => Some(&mut seen.kind),
            b"request_id" => Some(&mut seen.request_id),
            b"error_code" => Some(&mut seen.error_code),
            _ => None,
        };
        match (place, rest.strip_prefix(b"\"")) {
            // Twice is never.
            (Some(Some(_)), _) => return None,
            (Some(place), Some(value)) => {
                rest = value;
                let value = string(&mut rest)?;
                let plain = Some(value).filter(|value| !value.contains(&b'\\'));
                *place = plain.and_then(|plain| str::from_utf8(plain).ok());
                rest = rest.trim_ascii_start();
            }
            _ => skip_value(&mut rest)?,
        }
        match rest.split_first()? {
            (b',', more) => rest = more,
            (b'}', []) => return Some(seen),
            _ => return None,
        }
    }
}

/// What is in a string as it is written; `rest` begins behind the first quote, and then behind the last.
fn string<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let whole = *rest;
    let mut length = 0_usize;
    loop {
        let found = memchr2(b'"', b'\\', rest)?;
        length = length.checked_add(found)?;
        if rest.get(found) == Some(&b'"') {
            *rest = rest.get(found.checked_add(1)?..)?;
            return whole.get(..length);
        }
        // What is escaped ends nothing.
        *rest = rest.get(found.checked_add(2)?..)?;
        length = length.checked_add(2)?;
    }
}

/// Goes on to what is behind a value: a comma, or the end of what it is in.
fn skip_value(rest: &mut &[u8]) -> Option<()> {
    let mut depth = 0_usize;
    loop {
        let (byte, behind) = rest.split_first()?;
        match byte {
            b',' | b'}' if depth == 0 => return Some(()),
            b'{' | b'[' => depth = depth.checked_add(1)?,
            b'}' | b']' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        *rest = behind;
        if *byte == b'"' {
            string(rest)?;
        }
    }
}

impl Peek<'_> {
    /// Whether it is a part of a stream, with more behind it.
    pub(crate) fn is_chunk(&self) -> bool {
        self.kind == Some("response_chunk")
    }

    /// Whether it asks for something in a session: its answer names its `request_id`, so that others may come before it.
    pub(crate) fn is_request(&self) -> bool {
        matches!(self.kind, Some("request" | "cancel" | "close")) && self.request_id.is_some()
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;
    use strict_json::{Remember, Scanner};

    use super::*;

    #[test]
    fn only_the_outermost_members_of_a_message_are_seen() {
        let text =
            r#"{"intent":{"type":"close","request_id":"b"},"request_id":"a","type":"request"}"#;
        let seen = peek(text);
        assert!(seen.is_request());
        assert_eq!(seen.request_id, Some("a"));
    }

    /// What the lexer finds that reads the message later.
    fn read(text: &str) -> Peek<'_> {
        let mut seen = Peek::default();
        let scanned = Scanner::new(canonical::LIMITS).scan_with(text, |member| {
            match member.plain_name() {
                Some(b"type") => seen.kind = member.plain_string(),
                Some(b"request_id") => seen.request_id = member.plain_string(),
                Some(b"error_code") => seen.error_code = member.plain_string(),
                _ => {}
            }
            Remember::No
        });
        assert!(scanned.is_ok(), "{text}");
        seen
    }

    /// Members, those that are looked for among them, with everything that could be taken for an end.
    fn members() -> impl Strategy<Value = serde_json::Value> {
        let text = "[a\"\\\\{}\\[\\]:, é]{0,6}";
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<i32>().prop_map(serde_json::Value::from),
            text.prop_map(serde_json::Value::from),
        ];
        let name = prop_oneof![
            Just("type".to_owned()),
            Just("request_id".to_owned()),
            Just("error_code".to_owned()),
            text,
        ];
        let value = leaf.prop_recursive(3, 24, 4, {
            let name = name.clone();
            move |inner| {
                let list = vec(inner.clone(), 0..4).prop_map(serde_json::Value::from);
                let object = btree_map(name.clone(), inner, 0..4);
                prop_oneof![list, object.prop_map(|it| it.into_iter().collect())]
            }
        });
        btree_map(name, value, 0..6).prop_map(|it| it.into_iter().collect())
    }

    proptest! {
        #[test]
        fn nobody_sees_anything_else_in_a_message_than_who_reads_it(message in members()) {
            for text in [message.to_string(), format!("{message:#}")] {
                prop_assert_eq!(peek(&text), read(&text));
            }
        }
    }

    #[test]
    fn what_lies_between_is_jumped_over() {
        let text = r#" { "a" : "\\\"}, \"type\":\"close\"" , "b":[{"c":[1,"]}"]},2],"type" : "request" ,"request_id":"x" } "#;
        let seen = peek(text);
        assert_eq!((seen.kind, seen.request_id), (Some("request"), Some("x")));
        // A name or a value that is spelled otherwise is not looked for.
        let text = r#"{"\u0074ype":"close","type":"request","request_id":"\u0061"}"#;
        let seen = peek(text);
        assert_eq!((seen.kind, seen.request_id), (Some("request"), None));
    }

    #[test]
    fn of_what_is_no_message_nothing_is_seen() {
        for text in [
            "",
            "[]",
            r#"{"type":"request","type":"close"}"#,
            r#"{"type":"request","request_id":"a""#,
            r#"{"type":7,"request_id":null}"#,
            r#"{"type":"request","request_id":"a"}}"#,
            r#"{"type":"request" "request_id":"a"}"#,
            r#"{"type":"request","request_id":"a\"}"#,
            r#"{"type":"request","x":{"#,
        ] {
            assert_eq!(peek(text), Peek::default(), "{text}");
        }
    }
}
