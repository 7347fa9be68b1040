//! The catalogue's basic types.

use std::borrow::Cow;
use std::fmt;

use strict_json::{Charset, Kind, Raw, RawError};

use crate::wire::{Decode, Encode, Reader, ToStatic, Writer};
use crate::{Invalid, OWN_VALUES, Timestamp};

/// A finite number: the catalogue's `float`.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Real(pub(crate) f64);

/// Any JSON object: the catalogue's `object`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object<'a>(pub(crate) Raw<'a>);

/// Named values in their order, no name twice: the catalogue's `map<T>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Map<'a, T>(pub(crate) Vec<(Cow<'a, str>, T)>);

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
        Self::new(Raw::parse(text, OWN_VALUES).map_err(RawError::Fault)?)
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

    /// A map of these; `None` if a name stands twice.
    #[must_use]
    pub fn from_pairs(pairs: Vec<(Cow<'a, str>, T)>) -> Option<Self> {
        let mut names: Vec<&str> = pairs.iter().map(|(name, _)| name.as_ref()).collect();
        names.sort_unstable();
        let unique = names.array_windows().all(|[a, b]| a != b);
        unique.then_some(Self(pairs))
    }

    /// Adds a value under a name that is known to be new.
    pub(crate) fn push(&mut self, name: Cow<'a, str>, value: T) {
        self.0.push((name, value));
    }

    /// Sets a value: replaces the one of that name, or adds it last. Looks at all names; for many
    /// there is [`Map::from_pairs`].
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

impl fmt::Display for Real {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
