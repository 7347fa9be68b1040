//! Reading checked text, value by value.
#![expect(
    clippy::arithmetic_side_effects,
    reason = "every sum is an offset into a text, so it is bounded by the text's length"
)]

use std::borrow::Cow;

use crate::{Checked, lex};

/// A position in checked text.
///
/// Because the text was checked there are no syntax errors here: a method that asks for a kind of
/// value answers `None` when another kind stands there, and does not move then.
#[derive(Debug, Clone)]
pub struct Cursor<'a> {
    text: &'a str,
    at: usize,
    compact: bool,
}

/// The kinds of JSON values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `null`
    Null,
    /// `true` or `false`
    Bool,
    /// A number.
    Number,
    /// A string.
    String,
    /// An array.
    Array,
    /// An object.
    Object,
}

/// Where a cursor is inside an object; see [`Cursor::begin_object`].
#[derive(Debug)]
pub struct Members(());

/// Where a cursor is inside an array; see [`Cursor::begin_array`].
#[derive(Debug)]
pub struct Elements(());

impl<'a> Cursor<'a> {
    /// A cursor at the start of a value.
    #[must_use]
    pub const fn new(value: Checked<'a>) -> Self {
        Self {
            text: value.as_str(),
            at: 0,
            compact: value.is_compact(),
        }
    }

    /// What kind of value stands here.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self.text.as_bytes().get(self.at) {
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::Array,
            Some(b'"') => Kind::String,
            Some(b't' | b'f') => Kind::Bool,
            Some(b'-' | b'0'..=b'9') => Kind::Number,
            _ => Kind::Null,
        }
    }

    /// Takes a `null`; says whether there was one.
    pub fn null(&mut self) -> bool {
        let is_null = self.kind() == Kind::Null;
        if is_null {
            self.at += 4;
        }
        is_null
    }

    /// Takes a boolean.
    pub fn bool(&mut self) -> Option<bool> {
        let (value, length) = match self.text.as_bytes().get(self.at)? {
            b't' => (true, 4),
            b'f' => (false, 5),
            _ => return None,
        };
        self.at += length;
        Some(value)
    }

    /// Takes a number, as it is written.
    pub fn number(&mut self) -> Option<&'a str> {
        if self.kind() != Kind::Number {
            return None;
        }
        let start = self.at;
        // A cursor at its start has exactly one value before it.
        self.at = match start {
            0 => self.text.len(),
            _ => lex::number(self.text.as_bytes(), start).ok()?.end,
        };
        self.text.get(start..self.at)
    }

    /// Takes a string, unescaped; borrowed when it has no escapes.
    pub fn string(&mut self) -> Option<Cow<'a, str>> {
        if self.kind() != Kind::String {
            return None;
        }
        let start = self.at + 1;
        let bytes = self.text.as_bytes();
        if let Some(end) = lex::plain_string(bytes, start) {
            self.at = end + 1;
            return self.text.get(start..end).map(Cow::Borrowed);
        }
        let end = lex::string_end(bytes, start);
        self.at = end + 1;
        self.text.get(start..end).map(lex::unescape)
    }

    /// Takes any value, as it is written.
    pub fn raw(&mut self) -> Checked<'a> {
        let start = self.at;
        self.skip();
        Checked::assume(
            self.text.get(start..self.at).unwrap_or("null"),
            self.compact,
        )
    }

    /// Passes over any value.
    pub fn skip(&mut self) {
        // A cursor at its start has exactly one value before it.
        if self.at == 0 {
            self.at = self.text.len();
            return;
        }
        let bytes = self.text.as_bytes();
        let mut depth = 0_usize;
        loop {
            match bytes.get(self.at) {
                Some(b'"') => self.at = lex::string_end(bytes, self.at + 1) + 1,
                Some(b'{' | b'[') => {
                    depth += 1;
                    self.at += 1;
                }
                Some(b'}' | b']') => {
                    depth = depth.saturating_sub(1);
                    self.at += 1;
                }
                Some(b',' | b':' | b' ' | b'\t' | b'\n' | b'\r') => self.at += 1,
                Some(_) => self.at = scalar_end(bytes, self.at),
                None => return,
            }
            if depth == 0 {
                return;
            }
        }
    }

    /// Enters an object; then [`Cursor::next_member`] names its members one by one.
    pub fn begin_object(&mut self) -> Option<Members> {
        if self.kind() != Kind::Object {
            return None;
        }
        self.at += 1;
        Some(Members(()))
    }

    /// The next member's name, with the cursor on its value, which the caller must take or skip.
    /// After the last one the cursor stands behind the object.
    pub fn next_member(&mut self, _members: &mut Members) -> Option<Cow<'a, str>> {
        self.next_token(b'}')?;
        let name = self.string()?;
        self.pass(b':');
        self.spaces();
        Some(name)
    }

    /// Enters an array; then [`Cursor::next_element`] moves to its elements one by one.
    pub fn begin_array(&mut self) -> Option<Elements> {
        if self.kind() != Kind::Array {
            return None;
        }
        self.at += 1;
        Some(Elements(()))
    }

    /// Moves to the next element, which the caller must take or skip; `None` behind the last one.
    pub fn next_element(&mut self, _elements: &mut Elements) -> Option<()> {
        self.next_token(b']')
    }

    /// Passes a comma; `None`, and behind `close`, at the end of the container.
    fn next_token(&mut self, close: u8) -> Option<()> {
        self.pass(b',');
        self.spaces();
        match self.text.as_bytes().get(self.at) {
            Some(&byte) if byte != close => Some(()),
            Some(_) => {
                self.at += 1;
                None
            }
            None => None,
        }
    }

    fn pass(&mut self, byte: u8) {
        self.spaces();
        if self.text.as_bytes().get(self.at) == Some(&byte) {
            self.at += 1;
        }
    }

    #[inline]
    fn spaces(&mut self) {
        if self
            .text
            .as_bytes()
            .get(self.at)
            .is_some_and(|&byte| byte > b' ')
        {
            return;
        }
        self.at = lex::white_space(self.text.as_bytes(), self.at);
    }
}

fn scalar_end(bytes: &[u8], mut at: usize) -> usize {
    at += 1;
    while bytes
        .get(at)
        .is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
    {
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests;
