//! What a transport must know of a message that it carries among others: its type and which request it belongs to.

use canonical::LIMITS;
use strict_json::{Remember, Scanner};

/// The members that were looked for; of a text that is no message, none. They prove nothing.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Peek<'a> {
    pub(crate) kind: Option<&'a str>,
    pub(crate) request_id: Option<&'a str>,
    pub(crate) error_code: Option<&'a str>,
}

/// Looks at a message.
pub(crate) fn peek(text: &str) -> Peek<'_> {
    let mut seen = Peek::default();
    let scanned = Scanner::new(LIMITS).scan_with(text, |member| {
        let place = match member.plain_name() {
            Some(b"type") => &mut seen.kind,
            Some(b"request_id") => &mut seen.request_id,
            Some(b"error_code") => &mut seen.error_code,
            _ => return Remember::No,
        };
        *place = member.plain_string();
        Remember::No
    });
    match scanned {
        Ok(_) => seen,
        Err(_) => Peek::default(),
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
    use super::*;

    #[test]
    fn only_the_outermost_members_of_a_message_are_seen() {
        let text =
            r#"{"intent":{"type":"close","request_id":"b"},"request_id":"a","type":"request"}"#;
        let seen = peek(text);
        assert!(seen.is_request());
        assert_eq!(seen.request_id, Some("a"));
    }

    #[test]
    fn of_what_is_no_message_nothing_is_seen() {
        for text in [
            "",
            "[]",
            r#"{"type":"request","type":"close"}"#,
            r#"{"type":"request","request_id":"a""#,
            r#"{"type":7,"request_id":null}"#,
        ] {
            assert_eq!(peek(text), Peek::default(), "{text}");
        }
    }
}
