//! Secrets that requests carry, and that no answer may carry back.
//!
//! What a server repeats of a request is hidden as it was sent, in hexadecimal digits, in base64 and
//! in UTF-16, each also where it is escaped. Nobody can hide what a server makes of a secret beyond
//! that: a part of it, its letters in another order, an encoding of its own, a hash, a compressed or
//! encrypted text. A server that is given a secret must be one that may know it.

use std::fmt;
use std::ops::Range;

use serde_json::Value;

use super::forms::{Form, LONGEST_UNIT, forms};

/// Secrets in all the forms in which a server might repeat them.
#[derive(Clone, Default)]
pub(crate) struct Hidden {
    has_any: bool,
    /// The longest first: one may be a part of another.
    forms: Vec<Form>,
}

/// What is shorter stands in too many texts by chance.
const SHORTEST: usize = 4;

/// What stands in the place of a secret.
const INSTEAD: &str = "[secret]";

impl Hidden {
    /// Hides one more.
    pub(crate) fn add(&mut self, secret: &str) {
        self.has_any = true;
        if secret.len() < SHORTEST {
            return;
        }
        for form in forms(secret) {
            if form.bytes.len() >= SHORTEST && !self.forms.contains(&form) {
                self.forms.push(form);
            }
        }
        let length = |form: &Form| std::cmp::Reverse(form.bytes.len());
        self.forms.sort_by_key(length);
    }

    /// Whether there is anything to hide.
    pub(crate) const fn has_any(&self) -> bool {
        self.has_any
    }

    /// Bytes that must be known of a text beyond those that are shown, so that a secret is not
    /// overlooked because its end is missing.
    pub(super) fn beyond(&self) -> usize {
        let longest = self.forms.first().map_or(0, |form| form.bytes.len());
        longest.saturating_mul(LONGEST_UNIT)
    }

    /// Whether bytes show one of them.
    pub(super) fn is_in(&self, bytes: &[u8]) -> bool {
        self.ranges(bytes).next().is_some()
    }

    /// A text without the secrets.
    pub(crate) fn hide(&self, text: String) -> String {
        let most = text.len();
        self.hide_and_cut(text, most)
    }

    /// The same of a text of which so many bytes are shown. A secret that begins in them does not end
    /// them half.
    pub(super) fn hide_and_cut(&self, mut text: String, most: usize) -> String {
        let ranges: Vec<Range<usize>> = self.ranges(text.as_bytes()).collect();
        let mut shown = String::new();
        let mut done = 0;
        for range in ranges.into_iter().take_while(|range| range.start < most) {
            shown.push_str(text.get(done..range.start).unwrap_or_default());
            shown.push_str(INSTEAD);
            done = range.end;
        }
        let most = text.floor_char_boundary(most);
        if done == 0 {
            text.truncate(most);
            return text;
        }
        shown.push_str(text.get(done..most).unwrap_or_default());
        shown
    }

    /// The same for all texts in a value, however they were escaped.
    pub(super) fn hide_in(&self, value: Value) -> Value {
        match value {
            _ if self.forms.is_empty() => value,
            Value::String(text) => Value::String(self.hide(text)),
            Value::Number(number) if self.is_in(number.to_string().as_bytes()) => INSTEAD.into(),
            Value::Array(list) => list.into_iter().map(|it| self.hide_in(it)).collect(),
            Value::Object(members) => {
                let hide = |(name, value)| (self.hide(name), self.hide_in(value));
                Value::Object(members.into_iter().map(hide).collect())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value,
        }
    }

    /// Where secrets are, in order.
    fn ranges<'t>(&'t self, text: &'t [u8]) -> impl Iterator<Item = Range<usize>> + 't {
        let mut starts = [false; 256];
        let firsts = self.forms.iter().filter_map(|form| form.bytes.first());
        let firsts = firsts.flat_map(|byte| [byte.to_ascii_lowercase(), byte.to_ascii_uppercase()]);
        let escapes = b"%\\&".iter().filter(|_| !self.forms.is_empty());
        for byte in firsts.chain(escapes.copied()) {
            if let Some(start) = starts.get_mut(usize::from(byte)) {
                *start = true;
            }
        }
        let mut at = 0;
        std::iter::from_fn(move || {
            while let Some(byte) = text.get(at) {
                let end = match starts.get(usize::from(*byte)) {
                    Some(true) => self.end(text, at),
                    Some(false) | None => None,
                };
                match end {
                    Some(end) => {
                        let start = std::mem::replace(&mut at, end);
                        return Some(start..end);
                    }
                    None => at += 1,
                }
            }
            None
        })
    }

    /// Where the longest secret ends that begins here.
    fn end(&self, text: &[u8], start: usize) -> Option<usize> {
        let ends = self.forms.iter().filter_map(|form| {
            let written = form.end(text, start);
            written.max(form.end_as_it_is(text, start))
        });
        ends.max()
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hidden(…)")
    }
}

#[cfg(test)]
mod tests;
