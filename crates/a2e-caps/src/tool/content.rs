//! What runs behind a tool, as far as an operator can look at it.

use canonical::Digest;
use serde_json::{Value, json};

/// What runs behind a tool, where that lies in a file that somebody could change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    hash: Digest,
    bytes: usize,
    /// As far as it is text, and not too long.
    lines: Option<Vec<String>>,
}

/// Bytes of a text that an operator is shown; the hash covers all of it.
pub const MAX_READABLE: usize = 64 * 1024;

impl Content {
    /// A program that people can read.
    #[must_use]
    pub fn text(bytes: &[u8]) -> Self {
        let shown = bytes.get(..MAX_READABLE).unwrap_or(bytes);
        let shown = String::from_utf8_lossy(shown);
        Self {
            lines: Some(shown.lines().map(ToOwned::to_owned).collect()),
            ..Self::binary(Digest::of(bytes), bytes.len())
        }
    }

    /// One that only machines can.
    #[must_use]
    pub const fn binary(hash: Digest, bytes: usize) -> Self {
        Self {
            hash,
            bytes,
            lines: None,
        }
    }

    /// As it stands in what is pinned: a line of a text is a line there, so that a change of it can be
    /// shown.
    pub(super) fn to_value(&self) -> Value {
        let mut value = json!({"hash": self.hash.to_string(), "bytes": self.bytes});
        if let (Some(lines), Value::Object(members)) = (&self.lines, &mut value) {
            members.insert("lines".into(), json!(lines));
            let left_out = self.bytes.saturating_sub(MAX_READABLE);
            if left_out > 0 {
                members.insert("bytes_not_shown".into(), json!(left_out));
            }
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_shown_as_far_as_there_is_room() {
        let short = Content::text(b"a\nb\n").to_value();
        assert_eq!(short["lines"], json!(["a", "b"]));
        assert_eq!(short["bytes"], 4);
        let at = Content::text(&vec![b'x'; MAX_READABLE]).to_value();
        assert_eq!(at.get("bytes_not_shown"), None);
        let past = Content::text(&vec![b'x'; MAX_READABLE + 1]).to_value();
        assert_eq!(past["bytes_not_shown"], 1);
        assert_ne!(at["hash"], past["hash"]);
        let binary = Content::binary(Digest::of(b"x"), 1).to_value();
        assert_eq!(binary.get("lines"), None);
    }
}
