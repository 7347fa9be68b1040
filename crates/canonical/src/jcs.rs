//! RFC 8785: the one text of a tree.

use std::cmp::Ordering;

use strict_json::{Charset, push_string};

use crate::{Digest, Object, Value};

impl<'a> Value<'a> {
    /// The canonical text.
    #[must_use]
    pub fn to_canonical(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(ROOM);
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
        let mut out = Vec::with_capacity(ROOM);
        self.push_canonical_without(&mut out, names);
        Digest::of(&out)
    }

    fn push_canonical_without(&self, out: &mut Vec<u8>, names: &[&str]) {
        let members = self.iter().filter(|(name, _)| !names.contains(name));
        if self.iter().len() > FEW {
            return push_members(out, &mut members.collect::<Vec<_>>());
        }
        // Most objects are small; putting those in order takes no memory.
        let mut few = [("", &NULL); FEW];
        let mut used: usize = 0;
        for (slot, member) in few.iter_mut().zip(members) {
            *slot = member;
            used = used.saturating_add(1);
        }
        push_members(out, few.get_mut(..used).unwrap_or_default());
    }
}

/// Room for the text of a usual message.
const ROOM: usize = 1024;
const FEW: usize = 8;
static NULL: Value<'static> = Value::Null;

fn push_members(out: &mut Vec<u8>, members: &mut [(&str, &Value<'_>)]) {
    members.sort_unstable_by(|(a, _), (b, _)| compare_utf16(a, b));
    push_list(out, [b'{', b'}'], members, |out, (name, value)| {
        push_string(out, name, Charset::Utf8);
        out.push(b':');
        value.push_canonical(out);
    });
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

/// By UTF-16 code units. That differs from bytes only where a character beyond the basic plane (as
/// UTF-8 it begins with 0xF0 or more, as UTF-16 with a surrogate) meets one from U+E000 up in it.
fn compare_utf16(a: &str, b: &str) -> Ordering {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    match a.iter().zip(b).find(|(a, b)| a != b) {
        Some((&a, &b)) if a >= 0xEE && b >= 0xEE && (a >= 0xF0) != (b >= 0xF0) => b.cmp(&a),
        Some((a, b)) => a.cmp(b),
        None => a.len().cmp(&b.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_as_utf16() {
        let names = [
            "",
            "a",
            "ab",
            "b",
            "\u{7f}",
            "\u{80}",
            "\u{7ff}",
            "\u{800}",
            "\u{d7ff}",
            "\u{e000}",
            "\u{efff}",
            "\u{f000}",
            "\u{ffff}",
            "\u{10000}",
            "\u{1f600}",
            "\u{10ffff}",
            "x\u{fb33}",
            "x\u{1f600}",
        ];
        for a in names {
            for b in names {
                let expected = a.encode_utf16().cmp(b.encode_utf16());
                assert_eq!(compare_utf16(a, b), expected, "{a:?} {b:?}");
            }
        }
    }

    /// At the number of members where memory is taken, and around it.
    #[test]
    fn objects_of_any_size_are_put_in_order() {
        for count in [0, 1, FEW - 1, FEW, FEW + 1, 100] {
            let names: Vec<String> = (0..count).map(|n| format!("{n:03}")).collect();
            let mut object = Object::default();
            for name in names.iter().rev() {
                object.insert(name.clone(), Value::Null);
            }
            let text = String::from_utf8(Value::Object(object).to_canonical()).unwrap();
            let members: Vec<String> = names
                .iter()
                .map(|name| format!("\"{name}\":null"))
                .collect();
            assert_eq!(text, format!("{{{}}}", members.join(",")));
        }
    }
}
