//! The catalogue's basic types.

use std::borrow::Cow;
use std::fmt;

use strict_json::{Charset, Kind, Limits, Raw, RawError};

use crate::wire::{Decode, Describe, Encode, Reader, ToStatic, Writer};
use crate::{Invalid, Timestamp};

/// A finite number: the catalogue's `float`.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Real(f64);

/// Any JSON object: the catalogue's `object`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object<'a>(Raw<'a>);

/// Named values in their order, no name twice: the catalogue's `map<T>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Map<'a, T>(Vec<(Cow<'a, str>, T)>);

impl Real {
    /// A number; `None` for infinities and NaN, which JSON cannot say.
    #[must_use]
    pub const fn new(value: f64) -> Option<Self> {
        if value.is_finite() {
            return Some(Self(value));
        }
        None
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl<'a> Object<'a> {
    /// The empty object.
    pub const EMPTY: Object<'static> = Object(Raw::EMPTY_OBJECT);

    /// A checked value, if it is an object.
    #[must_use]
    pub fn new(raw: Raw<'a>) -> Option<Self> {
        (raw.checked().kind() == Kind::Object).then_some(Self(raw))
    }

    /// Checks a text.
    ///
    /// # Errors
    /// If it is not JSON, or not an object.
    pub fn parse(text: &'a str) -> Result<Self, NotAnObject> {
        Self::new(Raw::parse(text, Limits::default()).map_err(RawError::Fault)?)
            .ok_or(NotAnObject::OtherKind)
    }

    /// The object that a type serialises to.
    ///
    /// # Errors
    /// If it fails to serialise, or serialises to something else.
    pub fn from_serialize<T: serde::Serialize + ?Sized>(
        value: &T,
    ) -> Result<Object<'static>, NotAnObject> {
        Object::new(Raw::from_serialize(value)?).ok_or(NotAnObject::OtherKind)
    }

    /// The object that a record is written as.
    ///
    /// # Errors
    /// If the record's own raw parts make it too deep or too large.
    pub fn from_record<T: Encode>(record: &T) -> Result<Object<'static>, NotAnObject> {
        let mut json = Vec::new();
        record.encode(&mut Writer::new(&mut json, Charset::Utf8));
        Object::parse(&String::from_utf8_lossy(&json)).map(ToStatic::to_static)
    }

    /// Reads the object as a record, such as `EventDataProgress`; `ts` is the message's time.
    ///
    /// # Errors
    /// If a field is missing or wrong.
    pub fn read<'o, T: Decode<'o>>(&'o self, ts: Timestamp) -> Result<T, Invalid> {
        T::decode(&mut Reader::new(self.0.checked(), ts))
    }

    /// The object as JSON.
    #[must_use]
    pub const fn raw(&self) -> &Raw<'a> {
        &self.0
    }

    /// The object as JSON, taken.
    #[must_use]
    pub fn into_raw(self) -> Raw<'a> {
        self.0
    }
}

/// Why something is not an [`Object`].
#[derive(Debug, thiserror::Error)]
pub enum NotAnObject {
    /// It is not JSON.
    #[error(transparent)]
    Raw(#[from] RawError),
    /// It is JSON of another kind.
    #[error("not a JSON object")]
    OtherKind,
}

impl Default for Object<'_> {
    fn default() -> Self {
        Object::EMPTY
    }
}

impl<'a, T> Map<'a, T> {
    /// The value of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&T> {
        self.iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value)
    }

    /// The values with their names, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &T)> {
        self.0.iter().map(|(name, value)| (name.as_ref(), value))
    }

    /// Adds a value under a name that is known to be new.
    pub(crate) fn push(&mut self, name: Cow<'a, str>, value: T) {
        self.0.push((name, value));
    }

    /// Sets a value: replaces the one of that name, or adds it last.
    pub fn insert(&mut self, name: impl Into<Cow<'a, str>>, value: T) {
        let name = name.into();
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, slot)) => *slot = value,
            None => self.0.push((name, value)),
        }
    }
}

impl<T> Default for Map<'_, T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'a, T> FromIterator<(Cow<'a, str>, T)> for Map<'a, T> {
    fn from_iter<I: IntoIterator<Item = (Cow<'a, str>, T)>>(pairs: I) -> Self {
        let mut map = Self::default();
        for (name, value) in pairs {
            map.insert(name, value);
        }
        map
    }
}

impl fmt::Display for Real {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

// How each type is read, written and named.

impl<'de: 'a, 'a> Decode<'de> for Cow<'a, str> {
    fn decode(reader: &mut Reader<'de>) -> Result<Self, Invalid> {
        reader
            .cursor
            .string()
            .ok_or_else(|| reader.unexpected("a string"))
    }

    #[inline]
    fn from_plain(text: &'de str) -> Option<Self> {
        Some(Cow::Borrowed(text))
    }
}

impl<'de> Decode<'de> for bool {
    fn decode(reader: &mut Reader<'de>) -> Result<Self, Invalid> {
        reader
            .cursor
            .bool()
            .ok_or_else(|| reader.unexpected("a boolean"))
    }
}

impl<'de> Decode<'de> for i64 {
    fn decode(reader: &mut Reader<'de>) -> Result<Self, Invalid> {
        let Some(literal) = reader.cursor.number() else {
            return Err(reader.unexpected("an integer"));
        };
        literal
            .parse()
            .ok()
            .or_else(|| integral(literal))
            .ok_or_else(|| Invalid::value("an integer of 64 bits", literal))
    }
}

/// `1.0` is an integer to the peers, as far as a double counts exactly.
fn integral(literal: &str) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let real: f64 = literal.parse().ok()?;
    let fits = real.fract() == 0.0 && real.abs() <= EXACT && literal.contains(['.', 'e', 'E']);
    #[expect(clippy::cast_possible_truncation, reason = "integral and in range")]
    fits.then_some(real as i64)
}

impl<'de> Decode<'de> for Real {
    fn decode(reader: &mut Reader<'de>) -> Result<Self, Invalid> {
        let Some(literal) = reader.cursor.number() else {
            return Err(reader.unexpected("a number"));
        };
        literal
            .parse()
            .ok()
            .and_then(Self::new)
            .ok_or_else(|| Invalid::value("a number", literal))
    }
}

impl<'de: 'a, 'a> Decode<'de> for Raw<'a> {
    fn decode(reader: &mut Reader<'de>) -> Result<Self, Invalid> {
        Ok(reader.cursor.raw().into())
    }
}

impl<'de: 'a, 'a> Decode<'de> for Object<'a> {
    fn decode(reader: &mut Reader<'de>) -> Result<Self, Invalid> {
        if reader.cursor.kind() != Kind::Object {
            return Err(reader.unexpected("an object"));
        }
        Ok(Self(reader.cursor.raw().into()))
    }
}

impl<'de, T: Decode<'de>> Decode<'de> for Option<T> {
    fn decode(reader: &mut Reader<'de>) -> Result<Self, Invalid> {
        if reader.cursor.null() {
            return Ok(None);
        }
        T::decode(reader).map(Some)
    }

    #[inline]
    fn from_plain(text: &'de str) -> Option<Self> {
        T::from_plain(text).map(Some)
    }

    fn absent(default: &'static str, ts: Timestamp) -> Result<Self, Invalid> {
        if default == "null" {
            return Ok(None);
        }
        T::absent(default, ts).map(Some)
    }
}

impl<'de, T: Decode<'de>> Decode<'de> for Vec<T> {
    fn decode(reader: &mut Reader<'de>) -> Result<Self, Invalid> {
        let Some(mut elements) = reader.cursor.begin_array() else {
            return Err(reader.unexpected("an array"));
        };
        let mut list = Self::new();
        while reader.cursor.next_element(&mut elements).is_some() {
            let index = list.len();
            list.push(T::decode(reader).map_err(|error| error.at_index(index))?);
        }
        Ok(list)
    }

    fn absent(_: &'static str, _: Timestamp) -> Result<Self, Invalid> {
        Ok(Self::new())
    }
}

impl<'de: 'a, 'a, T: Decode<'de>> Decode<'de> for Map<'a, T> {
    fn decode(reader: &mut Reader<'de>) -> Result<Self, Invalid> {
        let Some(mut members) = reader.cursor.begin_object() else {
            return Err(reader.unexpected("an object"));
        };
        let mut map = Self::default();
        while let Some(name) = reader.cursor.next_member(&mut members) {
            let value = T::decode(reader).map_err(|error| error.at_field(&name))?;
            map.push(name, value);
        }
        Ok(map)
    }
}

impl<'de> Decode<'de> for (i64, i64) {
    fn decode(reader: &mut Reader<'de>) -> Result<Self, Invalid> {
        let list = Vec::<i64>::decode(reader)?;
        match list.as_slice() {
            &[first, second] => Ok((first, second)),
            _ => Err(Invalid::value(
                "two integers",
                &format!("{} of them", list.len()),
            )),
        }
    }
}

impl Encode for Cow<'_, str> {
    fn encode(&self, out: &mut Writer<'_>) {
        out.string(self);
    }
}

impl Encode for bool {
    fn encode(&self, out: &mut Writer<'_>) {
        out.literal(if *self { "true" } else { "false" });
    }
}

impl Encode for i64 {
    fn encode(&self, out: &mut Writer<'_>) {
        out.integer(*self);
    }
}

impl Encode for Real {
    fn encode(&self, out: &mut Writer<'_>) {
        out.real(self.0);
    }
}

impl Encode for Raw<'_> {
    fn encode(&self, out: &mut Writer<'_>) {
        out.checked(self.checked());
    }
}

impl Encode for Object<'_> {
    fn encode(&self, out: &mut Writer<'_>) {
        self.0.encode(out);
    }
}

impl<T: Encode> Encode for Option<T> {
    fn encode(&self, out: &mut Writer<'_>) {
        match self {
            Some(value) => value.encode(out),
            None => out.literal("null"),
        }
    }
}

impl<T: Encode> Encode for Vec<T> {
    fn encode(&self, out: &mut Writer<'_>) {
        out.push(b'[');
        for item in self {
            out.separate(b'[');
            item.encode(out);
        }
        out.push(b']');
    }
}

impl<T: Encode> Encode for Map<'_, T> {
    fn encode(&self, out: &mut Writer<'_>) {
        out.push(b'{');
        for (name, value) in self.iter() {
            out.separate(b'{');
            out.string(name);
            out.push(b':');
            value.encode(out);
        }
        out.push(b'}');
    }
}

impl Encode for (i64, i64) {
    fn encode(&self, out: &mut Writer<'_>) {
        vec![self.0, self.1].encode(out);
    }
}

/// Names types of the catalogue, and cuts loose those that borrow nothing.
macro_rules! basic {
    ($($type:ty => $name:literal;)*) => {$(
        impl Describe for $type {
            fn wire_type() -> String {
                $name.into()
            }
        }
    )*};
}

basic! {
    Cow<'_, str> => "string";
    bool => "bool";
    i64 => "int";
    Real => "float";
    Raw<'_> => "any";
    Object<'_> => "object";
    (i64, i64) => "tuple<int,int>";
}

impl<T: Describe> Describe for Option<T> {
    fn wire_type() -> String {
        format!("optional<{}>", T::wire_type())
    }

    fn enumeration() -> Option<&'static str> {
        T::enumeration()
    }
}

impl<T: Describe> Describe for Vec<T> {
    fn wire_type() -> String {
        format!("list<{}>", T::wire_type())
    }

    fn enumeration() -> Option<&'static str> {
        T::enumeration()
    }
}

impl<T: Describe> Describe for Map<'_, T> {
    fn wire_type() -> String {
        format!("map<{}>", T::wire_type())
    }
}

/// Types that borrow nothing are their own static form.
macro_rules! already_static {
    ($($type:ty),*) => {$(
        impl $crate::wire::ToStatic for $type {
            type Static = Self;

            fn to_static(self) -> Self {
                self
            }
        }
    )*};
}
pub(crate) use already_static;

already_static!(bool, i64, Real, (i64, i64), Timestamp);

impl ToStatic for Cow<'_, str> {
    type Static = Cow<'static, str>;

    fn to_static(self) -> Self::Static {
        Cow::Owned(self.into_owned())
    }
}

impl ToStatic for Raw<'_> {
    type Static = Raw<'static>;

    fn to_static(self) -> Self::Static {
        self.into_owned()
    }
}

impl ToStatic for Object<'_> {
    type Static = Object<'static>;

    fn to_static(self) -> Self::Static {
        Object(self.0.into_owned())
    }
}

impl<T: ToStatic> ToStatic for Option<T> {
    type Static = Option<T::Static>;

    fn to_static(self) -> Self::Static {
        self.map(T::to_static)
    }
}

impl<T: ToStatic> ToStatic for Vec<T> {
    type Static = Vec<T::Static>;

    fn to_static(self) -> Self::Static {
        self.into_iter().map(T::to_static).collect()
    }
}

impl<T: ToStatic> ToStatic for Map<'_, T> {
    type Static = Map<'static, T::Static>;

    fn to_static(self) -> Self::Static {
        let pairs = self.0.into_iter();
        Map(pairs
            .map(|(name, value)| (name.to_static(), value.to_static()))
            .collect())
    }
}
