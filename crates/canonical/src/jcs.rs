//! RFC 8785: the one text of a tree.

use strict_json::{Charset, push_string};

use crate::{Digest, Object, Value};

impl<'a> Value<'a> {
    /// The canonical text.
    #[must_use]
    pub fn to_canonical(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.push_canonical(&mut out);
        out
    }

    /// Appends the canonical text.
    pub fn push_canonical(&self, out: &mut Vec<u8>) {
        match self {
            Self::Null => out.extend_from_slice(b"null"),
            Self::Bool(true) => out.extend_from_slice(b"true"),
            Self::Bool(false) => out.extend_from_slice(b"false"),
            Self::Number(number) => number.push_canonical(out),
            Self::String(text) => push_string(out, text, Charset::Utf8),
            Self::Array(list) => {
                push_list(out, [b'[', b']'], list, |out, item| {
                    item.push_canonical(out)
                });
            }
            Self::Object(object) => object.push_canonical_without(out, &[]),
        }
    }

    /// `hash(x)` of profile §1: SHA-256 of the canonical text.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of(&self.to_canonical())
    }
}

impl<'a> Object<'a> {
    /// The digest of the object without its own members of these names (only at this level).
    #[must_use]
    pub fn digest_without(&self, names: &[&str]) -> Digest {
        let mut out = Vec::new();
        self.push_canonical_without(&mut out, names);
        Digest::of(&out)
    }

    fn push_canonical_without(&self, out: &mut Vec<u8>, names: &[&str]) {
        let mut members: Vec<(&str, &Value<'a>)> = self
            .iter()
            .filter(|(name, _)| !names.contains(name))
            .collect();
        members.sort_unstable_by(|(a, _), (b, _)| compare_utf16(a, b));
        push_list(out, [b'{', b'}'], &members, |out, (name, value)| {
            push_string(out, name, Charset::Utf8);
            out.push(b':');
            value.push_canonical(out);
        });
    }
}

fn push_list<T>(
    out: &mut Vec<u8>,
    [open, close]: [u8; 2],
    items: &[T],
    push_item: impl Fn(&mut Vec<u8>, &T),
) {
    out.push(open);
    let mut items = items.iter();
    if let Some(first) = items.next() {
        push_item(out, first);
    }
    for item in items {
        out.push(b',');
        push_item(out, item);
    }
    out.push(close);
}

/// By UTF-16 code units, which differs from bytes only where a name leaves the basic plane.
fn compare_utf16(a: &str, b: &str) -> std::cmp::Ordering {
    if a.is_ascii() || b.is_ascii() {
        return a.cmp(b);
    }
    a.encode_utf16().cmp(b.encode_utf16())
}
