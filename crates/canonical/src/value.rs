//! The tree.

use std::borrow::Cow;

use serde::Serialize;
use strict_json::{Checked, Cursor, Fault, Integers, Kind, Limits, Remember, Scanner, utf8};

use crate::Number;

/// The limits of profile §1 on any A2A text.
pub const LIMITS: Limits = Limits {
    depth: 64,
    values: 20_000,
    integers: Integers::Exact,
};

/// A JSON value as it was received, or as it will be sent.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number, with the form it was written in.
    Number(Number),
    /// A string, unescaped.
    String(Cow<'a, str>),
    /// An array.
    Array(Vec<Self>),
    /// An object.
    Object(Object<'a>),
}

/// The members of an object in the order received; no name stands twice.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Object<'a> {
    members: Vec<(Cow<'a, str>, Value<'a>)>,
}

/// Two objects that were to become one have a member of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("both objects have a member of the same name")]
pub struct SharedName;

/// Why a typed value could not become a tree.
#[derive(Debug, thiserror::Error)]
pub enum FromSerializeError {
    /// The type's own `Serialize` failed.
    #[error("cannot be written as JSON: {0}")]
    Serialize(#[from] serde_json::Error),
    /// It wrote JSON outside the profile.
    #[error(transparent)]
    Fault(#[from] Fault),
}

impl<'a> Value<'a> {
    /// Reads a text by the strict rules of profile §1.
    ///
    /// # Errors
    /// The first breach of these rules, with its offset.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Fault> {
        Self::parse_within(bytes, LIMITS)
    }

    /// Reads a text with other limits.
    ///
    /// # Errors
    /// As [`Value::parse`].
    pub fn parse_within(bytes: &'a [u8], limits: Limits) -> Result<Self, Fault> {
        let checked = check(bytes, limits)?;
        let mut open = Open {
            elements: Vec::with_capacity(USUAL),
            members: Vec::with_capacity(USUAL),
        };
        Ok(Self::read(&mut Cursor::new(checked), &mut open))
    }

    /// Reads a text by the same rules, and of an object these members alone: the others are checked, but no tree is made of them.
    ///
    /// # Errors
    /// As [`Value::parse`].
    pub fn parse_members(bytes: &'a [u8], names: &[&str]) -> Result<Self, Fault> {
        let checked = check(bytes, LIMITS)?;
        let mut open = Open::default();
        let mut cursor = Cursor::new(checked);
        if cursor.kind() != Kind::Object {
            return Ok(Self::read(&mut cursor, &mut open));
        }
        let mut kept = Object::with_capacity(names.len());
        if let Some(mut members) = cursor.begin_object() {
            while let Some(name) = cursor.next_member(&mut members) {
                if names.contains(&name.as_ref()) {
                    let value = Self::read(&mut cursor, &mut open);
                    kept.members.push((name, value));
                } else {
                    cursor.skip();
                }
            }
        }
        Ok(Self::Object(kept))
    }

    /// The tree of a typed value.
    ///
    /// # Errors
    /// If the type does not serialise, or not to JSON within the profile.
    pub fn from_serialize<T: Serialize + ?Sized>(
        value: &T,
    ) -> Result<Value<'static>, FromSerializeError> {
        let text = serde_json::to_vec(value)?;
        Ok(Value::parse(&text)?.into_owned())
    }

    /// The same tree, independent of the text it was read from.
    #[must_use]
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(value),
            Self::Number(value) => Value::Number(value),
            Self::String(value) => Value::String(Cow::Owned(value.into_owned())),
            Self::Array(list) => Value::Array(list.into_iter().map(Value::into_owned).collect()),
            Self::Object(object) => Value::Object(object.into_owned()),
        }
    }

    /// A copy of the tree, independent of the text it was read from.
    #[must_use]
    pub fn to_static(&self) -> Value<'static> {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Number(value) => Value::Number(*value),
            Self::String(text) => Value::String(Cow::Owned(text.to_string())),
            Self::Array(list) => Value::Array(list.iter().map(Value::to_static).collect()),
            Self::Object(object) => Value::Object(object.to_static()),
        }
    }

    /// The object, if it is one.
    #[must_use]
    pub const fn as_object(&self) -> Option<&Object<'a>> {
        match self {
            Self::Object(object) => Some(object),
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::String(_) | Self::Array(_) => None,
        }
    }

    /// The string, if it is one.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::Array(_) | Self::Object(_) => None,
        }
    }

    /// What a reader would call this kind of value.
    #[must_use]
    pub const fn describe(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Number(_) => "a number",
            Self::String(_) => "a string",
            Self::Array(_) => "an array",
            Self::Object(_) => "an object",
        }
    }

    fn read(cursor: &mut Cursor<'a>, open: &mut Open<'a>) -> Self {
        match cursor.kind() {
            Kind::Null => {
                cursor.skip();
                Self::Null
            }
            Kind::Bool => Self::Bool(cursor.bool().unwrap_or_default()),
            Kind::Number => Self::Number(Number::from_checked(cursor.number().unwrap_or_default())),
            Kind::String => Self::String(cursor.string().unwrap_or_default()),
            Kind::Array => {
                let first = open.elements.len();
                if let Some(mut elements) = cursor.begin_array() {
                    while cursor.next_element(&mut elements).is_some() {
                        let element = Self::read(cursor, open);
                        open.elements.push(element);
                    }
                }
                Self::Array(open.elements.split_off(first))
            }
            Kind::Object => {
                let first = open.members.len();
                if let Some(mut members) = cursor.begin_object() {
                    while let Some(name) = cursor.next_member(&mut members) {
                        let value = Self::read(cursor, open);
                        open.members.push((name, value));
                    }
                }
                let members = open.members.split_off(first);
                Self::Object(Object { members })
            }
        }
    }
}

/// The text of some bytes that breaks no rule.
fn check(bytes: &[u8], limits: Limits) -> Result<Checked<'_>, Fault> {
    // The tree will have the members.
    Scanner::new(limits).scan_with(utf8(bytes)?, |_| Remember::No)
}

/// What was read of the containers that are not closed yet, the innermost last. Each gets memory of
/// its own when it is closed and its size is known.
#[derive(Default)]
struct Open<'a> {
    elements: Vec<Value<'a>>,
    members: Vec<(Cow<'a, str>, Value<'a>)>,
}

/// Room for the open containers of a usual message.
const USUAL: usize = 16;

impl<'a> Object<'a> {
    /// No members, and room for so many.
    #[must_use]
    pub fn with_capacity(members: usize) -> Self {
        Self {
            members: Vec::with_capacity(members),
        }
    }

    /// Sets a member: replaces the one of that name, or adds it last.
    pub fn insert(&mut self, name: impl Into<Cow<'a, str>>, value: Value<'a>) {
        let name = name.into();
        match self.members.iter_mut().find(|(known, _)| *known == name) {
            Some((_, slot)) => *slot = value,
            None => self.members.push((name, value)),
        }
    }

    /// Adds the members of another object after these.
    ///
    /// # Errors
    /// If a name is in both; then nothing was added.
    pub fn append(&mut self, other: Self) -> Result<(), SharedName> {
        let mut names: Vec<&str> = self
            .iter()
            .chain(other.iter())
            .map(|(name, _)| name)
            .collect();
        names.sort_unstable();
        if names.array_windows().any(|[a, b]| a == b) {
            return Err(SharedName);
        }
        self.members.extend(other.members);
        Ok(())
    }

    /// Takes a member out.
    pub fn remove(&mut self, name: &str) -> Option<Value<'a>> {
        let at = self.members.iter().position(|(known, _)| known == name)?;
        Some(self.members.remove(at).1)
    }

    /// The member of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value<'a>> {
        self.iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value)
    }

    /// The members in their order, as they are kept.
    pub(crate) fn members(&self) -> &[(Cow<'a, str>, Value<'a>)] {
        &self.members
    }

    /// The members in their order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value<'a>)> {
        self.members
            .iter()
            .map(|(name, value)| (name.as_ref(), value))
    }

    /// A copy of the object, independent of the text it was read from.
    #[must_use]
    pub fn to_static(&self) -> Object<'static> {
        let members = self.iter();
        Object {
            members: members
                .map(|(name, value)| (Cow::Owned(name.to_owned()), value.to_static()))
                .collect(),
        }
    }

    /// The same object, independent of the text it was read from.
    #[must_use]
    pub fn into_owned(self) -> Object<'static> {
        let members = self.members.into_iter();
        Object {
            members: members
                .map(|(name, value)| (Cow::Owned(name.into_owned()), value.into_owned()))
                .collect(),
        }
    }
}

impl Serialize for Value<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Number(number) => match number.as_i64() {
                Some(integer) => serializer.serialize_i64(integer),
                None => serializer.serialize_f64(number.as_f64()),
            },
            Self::String(text) => serializer.serialize_str(text),
            Self::Array(list) => serializer.collect_seq(list),
            Self::Object(object) => serializer.collect_map(object.iter()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is not asked for is checked like the rest, and left out.
    #[test]
    fn members_are_read_by_name() {
        let text = br#"{"a":1,"b":{"a":[2,"]"]},"c":"}","d":[{"a":3}],"e":null}"#;
        let some = Value::parse_members(text, &["a", "d", "x"]).unwrap();
        assert_eq!(some.to_canonical(), br#"{"a":1,"d":[{"a":3}]}"#);
        let none = Value::parse_members(text, &[]).unwrap();
        assert_eq!(none.to_canonical(), b"{}");
        let list = Value::parse_members(b"[1]", &["a"]).unwrap();
        assert_eq!(list.to_canonical(), b"[1]");
        for wrong in [&br#"{"a":1,"b":{"c":1,"c":2}}"#[..], br#"{"b":01}"#, b"{"] {
            let (some, all) = (Value::parse_members(wrong, &["a"]), Value::parse(wrong));
            assert_eq!(some.unwrap_err(), all.unwrap_err());
        }
    }
}
