//! RFC 8785: the one text of a tree.

use std::borrow::Cow;
use std::cell::Cell;
use std::cmp::Ordering;

use sha2::{Digest as _, Sha256};
use strict_json::{Charset, push_name, push_string};

use crate::{Digest, Object, Value};

impl<'a> Value<'a> {
    /// The canonical text.
    #[must_use]
    pub fn to_canonical(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(BLOCK);
        self.push_canonical(&mut out);
        out
    }

    /// Appends the canonical text.
    pub fn push_canonical(&self, out: &mut Vec<u8>) {
        push_value(out, self);
    }

    /// `hash(x)` of profile §1: SHA-256 of the canonical text.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let mut out = Hashing::new();
        push_value(&mut out, self);
        out.finish()
    }
}

impl<'a> Object<'a> {
    /// The canonical text.
    #[must_use]
    pub fn to_canonical(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(BLOCK);
        push_object(&mut out, self, &[]);
        out
    }

    /// The digest of the object without its own members of these names (only at this level).
    #[must_use]
    pub fn digest_without(&self, names: &[&str]) -> Digest {
        let mut out = Hashing::new();
        push_object(&mut out, self, names);
        out.finish()
    }
}

/// Where canonical text goes.
trait Sink {
    /// The end of the text so far.
    fn text(&mut self) -> &mut Vec<u8>;
    /// Called between values: a chance to do away with what is written.
    fn settle(&mut self);
}

impl Sink for Vec<u8> {
    fn text(&mut self) -> &mut Vec<u8> {
        self
    }

    fn settle(&mut self) {}
}

/// Text that is hashed block by block, so that it is never in memory as a whole.
struct Hashing {
    block: Vec<u8>,
    hasher: Sha256,
}

/// Large enough that hashing dominates the calls to it, small enough to stay in the cache.
const BLOCK: usize = 4096;

thread_local! {
    /// The block of the digest before, which is still in the cache.
    static BEFORE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

impl Hashing {
    fn new() -> Self {
        let mut block = BEFORE.take();
        block.reserve(BLOCK);
        Self {
            block,
            hasher: Sha256::new(),
        }
    }

    fn finish(mut self) -> Digest {
        self.hasher.update(&self.block);
        self.block.clear();
        // A long text may have made it large.
        if self.block.capacity() <= 2 * BLOCK {
            BEFORE.set(self.block);
        }
        Digest::from(<[u8; 32]>::from(self.hasher.finalize()))
    }
}

impl Sink for Hashing {
    #[inline]
    fn text(&mut self) -> &mut Vec<u8> {
        &mut self.block
    }

    #[inline]
    fn settle(&mut self) {
        // The room that is left is for the next few tokens.
        if self.block.len() > BLOCK - 256 {
            self.hasher.update(&self.block);
            self.block.clear();
        }
    }
}

#[inline]
fn push_value(out: &mut impl Sink, value: &Value<'_>) {
    match value {
        Value::Null => out.text().extend_from_slice(b"null"),
        Value::Bool(true) => out.text().extend_from_slice(b"true"),
        Value::Bool(false) => out.text().extend_from_slice(b"false"),
        Value::Number(number) => number.push_canonical(out.text()),
        Value::String(text) => push_string(out.text(), text, Charset::Utf8),
        Value::Array(list) => push_array(out, list),
        Value::Object(object) => push_object(out, object, &[]),
    }
}

/// Writes an object without its own members of these names.
#[inline(never)]
fn push_object(out: &mut impl Sink, object: &Object<'_>, without: &[&str]) {
    let members = object.members();
    let is_kept = |(name, _): &(&str, _)| without.is_empty() || !without.contains(name);
    if members.len() > FEW {
        let mut all: Vec<_> = object.iter().filter(is_kept).collect();
        // Many programs write members in order; theirs need not be brought into it.
        all.sort_by(|(a, _), (b, _)| compare_utf16(a, b));
        return push_in_order(out, all.into_iter());
    }
    let order = order_of_few(members);
    let in_order = order.iter().filter_map(|&at| members.get(usize::from(at)));
    let in_order = in_order.map(|(name, value)| (name.as_ref(), value));
    push_in_order(out, in_order.take(members.len()).filter(is_kept));
}

/// Most objects are small; putting those in order takes no memory.
const FEW: usize = 8;

/// The places of up to [`FEW`] members by their names, by insertion: quicker than to set up a sort for any number.
#[inline]
fn order_of_few(members: &[(Cow<'_, str>, Value<'_>)]) -> [u8; FEW] {
    let mut order = [0, 1, 2, 3, 4, 5, 6, 7];
    let name = |at: u8| members.get(usize::from(at)).map_or("", |(name, _)| name);
    for end in 1..members.len().min(FEW) {
        let mut at = end;
        while let Some([before, after]) =
            at.checked_sub(1).and_then(|from| order.get_mut(from..=at))
        {
            if compare_utf16(name(*before), name(*after)).is_le() {
                break;
            }
            std::mem::swap(before, after);
            at = at.saturating_sub(1);
        }
    }
    order
}

fn push_in_order<'a>(out: &mut impl Sink, members: impl Iterator<Item = (&'a str, &'a Value<'a>)>) {
    let mut before = b'{';
    for (name, value) in members {
        out.settle();
        push_name(out.text(), before, name);
        push_value(out, value);
        before = b',';
    }
    match before {
        b'{' => out.text().extend_from_slice(b"{}"),
        _ => out.text().push(b'}'),
    }
}

#[inline(never)]
fn push_array(out: &mut impl Sink, list: &[Value<'_>]) {
    out.text().push(b'[');
    for (at, item) in list.iter().enumerate() {
        if at > 0 {
            out.settle();
            out.text().push(b',');
        }
        push_value(out, item);
    }
    out.text().push(b']');
}

/// By UTF-16 code units. That differs from bytes only where a character beyond the basic plane (as
/// UTF-8 it begins with 0xF0 or more, as UTF-16 with a surrogate) meets one from U+E000 up in it.
#[inline]
fn compare_utf16(a: &str, b: &str) -> Ordering {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    // Mostly the first letters decide.
    if let (Some(first), Some(other)) = (a.first(), b.first())
        && first != other
        && first.is_ascii()
        && other.is_ascii()
    {
        return first.cmp(other);
    }
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

    /// What is hashed in blocks is the same text, wherever a block ends.
    #[test]
    fn a_digest_is_that_of_the_text() {
        for length in [0, 1, BLOCK - 300, BLOCK - 256, BLOCK - 3, BLOCK, 3 * BLOCK] {
            let text = Value::String("x\n".repeat(length / 2).into());
            let list = Value::Array(vec![text, Value::Bool(true), Value::Null]);
            let mut object = Object::default();
            for name in ["b", "a", "c"] {
                object.insert(name, list.clone());
            }
            let value = Value::Object(object.clone());
            assert_eq!(value.digest(), Digest::of(&value.to_canonical()));
            let without = object.digest_without(&["a"]);
            object.remove("a");
            assert_eq!(Value::Object(object).digest(), without);
        }
    }

    /// At the number of members where memory is taken, and around it.
    #[test]
    fn objects_of_any_size_are_put_in_order() {
        for count in [0, 1, FEW - 1, FEW, FEW + 1, 100] {
            let names: Vec<String> = (0..count).map(|n| format!("{n:03}")).collect();
            let (mut object, mut in_order) = (Object::default(), Object::default());
            for name in names.iter().rev() {
                object.insert(name.clone(), Value::Null);
            }
            for name in &names {
                in_order.insert(name.clone(), Value::Null);
            }
            let text = String::from_utf8(Value::Object(object).to_canonical()).unwrap();
            assert_eq!(Value::Object(in_order).to_canonical(), text.as_bytes());
            let members: Vec<String> = names
                .iter()
                .map(|name| format!("\"{name}\":null"))
                .collect();
            assert_eq!(text, format!("{{{}}}", members.join(",")));
        }
    }
}
