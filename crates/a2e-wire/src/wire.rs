//! How Rust types stand for the types of the catalogue: read, written, named.
//!
//! Everything here is used by the `record!` and `open_enum!` macros; what a message contains is
//! said in [`crate::messages`] alone.

use std::borrow::Cow;
use std::ops::Range;

use strict_json::{Charset, Checked, Cursor, Kind, Limits, Scanner, push_string};

use crate::{Invalid, Timestamp};

/// A position in a message that is being read.
#[derive(Debug, Clone)]
pub struct Reader<'de> {
    pub(crate) cursor: Cursor<'de>,
    /// The message's own time: what a missing `created_at` means.
    pub(crate) ts: Timestamp,
}

/// A buffer that a message is being written to.
#[derive(Debug)]
pub struct Writer<'o> {
    out: &'o mut Vec<u8>,
    charset: Charset,
    /// A time that was written, as its bits, and where.
    time: Option<(u64, Range<usize>)>,
}

/// Reads a value of the wire.
pub trait Decode<'de>: Sized {
    /// Takes the value the reader stands on.
    ///
    /// # Errors
    /// If it is of another type or out of range.
    fn decode(reader: &mut Reader<'de>) -> Result<Self, Invalid>;

    /// The value of a string without escapes, for types that are written as strings; a short cut
    /// around [`Decode::decode`] for the most common kind of field.
    #[must_use]
    fn from_plain(text: &'de str) -> Option<Self> {
        let _ = text;
        None
    }

    /// The value of a missing field: `default` is a JSON literal, or `(name)` for what a sender
    /// would have made up itself, such as `(now)`.
    ///
    /// # Errors
    /// If there is no such default for this type, which a test over all messages rules out.
    fn absent(default: &'static str, ts: Timestamp) -> Result<Self, Invalid> {
        match Scanner::new(Limits::default()).scan(default) {
            Ok(literal) => Self::decode(&mut Reader::new(literal, ts)),
            Err(_) => Err(Invalid::missing()),
        }
    }
}

/// Writes a value of the wire.
pub trait Encode {
    /// Appends the value.
    fn encode(&self, out: &mut Writer<'_>);
}

/// Bytes of a value as it is sent.
#[must_use]
pub fn encoded_size(value: &impl Encode) -> usize {
    let mut json = Vec::new();
    value.encode(&mut Writer::new(&mut json, Charset::Utf8));
    json.len()
}

/// Names a type as the catalogue does.
pub trait Describe {
    /// The type, in the catalogue's notation, such as `optional<list<string>>`.
    fn wire_type() -> String;

    /// The enumeration whose values are expected here.
    fn enumeration() -> Option<&'static str> {
        None
    }
}

/// Cuts a value loose from the text it was read from.
pub trait ToStatic {
    /// The same type without borrowed parts.
    type Static;

    /// Copies what is still borrowed.
    fn to_static(self) -> Self::Static;
}

/// Where a record's members come from: a nested object, or the members a scan has remembered.
pub(crate) trait MemberSource<'de> {
    /// The next member's name.
    fn next_name(&mut self) -> Option<Cow<'de, str>>;
    /// The reader, on that member's value.
    fn value(&mut self) -> &mut Reader<'de>;
    /// That member's value, taken, if it is known to be a string without escapes.
    fn plain_string(&mut self) -> Option<&'de str>;
    /// Passes over that member's value.
    fn skip(&mut self);
    /// The message's time.
    fn ts(&self) -> Timestamp;
}

/// Reads a record from its members.
pub(crate) trait FromMembers<'de>: Sized {
    fn from_members<M: MemberSource<'de>>(members: &mut M) -> Result<Self, Invalid>;
}

/// Writes a record's members, without the braces.
pub(crate) trait WriteMembers {
    fn write_members(&self, out: &mut Writer<'_>);
}

impl<'de> Reader<'de> {
    pub(crate) const fn new(value: Checked<'de>, ts: Timestamp) -> Self {
        Self {
            cursor: Cursor::new(value),
            ts,
        }
    }

    /// The error that says what stands here instead of `expected`.
    pub(crate) fn unexpected(&self, expected: &'static str) -> Invalid {
        match self.cursor.kind() {
            Kind::Null => Invalid::null(expected),
            kind @ (Kind::Bool | Kind::Number | Kind::String | Kind::Array | Kind::Object) => {
                Invalid::kind(expected, kind)
            }
        }
    }

    /// Whether exactly this literal stands here; takes it if so.
    pub(crate) fn take_literal(&mut self, literal: &str) -> bool {
        let mut ahead = self.cursor.clone();
        let found = ahead.raw();
        let spaced = |byte: &u8| !byte.is_ascii_whitespace();
        let same = found
            .as_str()
            .bytes()
            .filter(spaced)
            .eq(literal.bytes().filter(spaced));
        if same {
            self.cursor = ahead;
        }
        same
    }

    /// Reads an object's members into a record.
    pub(crate) fn record<T: FromMembers<'de>>(&mut self) -> Result<T, Invalid> {
        let Some(open) = self.cursor.begin_object() else {
            return Err(self.unexpected("an object"));
        };
        T::from_members(&mut Nested { reader: self, open })
    }
}

/// The members of an object inside a message.
struct Nested<'r, 'de> {
    reader: &'r mut Reader<'de>,
    open: strict_json::Members,
}

impl<'de> MemberSource<'de> for Nested<'_, 'de> {
    fn next_name(&mut self) -> Option<Cow<'de, str>> {
        self.reader.cursor.next_member(&mut self.open)
    }

    fn value(&mut self) -> &mut Reader<'de> {
        self.reader
    }

    fn plain_string(&mut self) -> Option<&'de str> {
        None
    }

    fn skip(&mut self) {
        self.reader.cursor.skip();
    }

    fn ts(&self) -> Timestamp {
        self.reader.ts
    }
}

impl<'o> Writer<'o> {
    pub(crate) const fn new(out: &'o mut Vec<u8>, charset: Charset) -> Self {
        Self {
            out,
            charset,
            time: None,
        }
    }

    /// Starts a member; `key` is its name with quotes and colon.
    #[inline]
    pub(crate) fn key(&mut self, key: &'static str) {
        self.separate(b'{');
        self.out.extend_from_slice(key.as_bytes());
    }

    /// Writes a comma unless the container has only just been opened by `open`.
    #[inline]
    pub(crate) fn separate(&mut self, open: u8) {
        if self.out.last() != Some(&open) {
            self.out.push(b',');
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, byte: u8) {
        self.out.push(byte);
    }

    #[inline]
    pub(crate) fn literal(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    #[inline]
    pub(crate) fn string(&mut self, text: &str) {
        push_string(self.out, text, self.charset);
    }

    pub(crate) fn checked(&mut self, value: Checked<'_>) {
        value.push_to(self.out, self.charset);
    }

    pub(crate) fn integer(&mut self, value: i64) {
        // A vector takes every write.
        let _ = serde_json::to_writer(&mut *self.out, &value);
    }

    pub(crate) fn unsigned(&mut self, value: u64) {
        let _ = serde_json::to_writer(&mut *self.out, &value);
    }

    /// Writes a finite number in its shortest form; an integral one keeps its `.0`.
    pub(crate) fn real(&mut self, value: f64) {
        // What most rewards are.
        if value.to_bits() == 0 {
            return self.out.extend_from_slice(b"0.0");
        }
        let _ = serde_json::to_writer(&mut *self.out, &value);
    }

    /// Writes a time. In a message of many parts it is mostly the same, and not worked out again.
    pub(crate) fn time(&mut self, seconds: f64) {
        if let Some((bits, place)) = &self.time
            && *bits == seconds.to_bits()
            && place.end <= self.out.len()
        {
            return self.out.extend_from_within(place.clone());
        }
        let before = self.out.len();
        self.real(seconds);
        self.time = Some((seconds.to_bits(), before..self.out.len()));
    }

    /// Writes an object.
    pub(crate) fn record(&mut self, record: &impl WriteMembers) {
        self.push(b'{');
        record.write_members(self);
        self.push(b'}');
    }
}
