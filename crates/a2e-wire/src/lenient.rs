//! Types that take more than they send, because real peers send more than the catalogue allows.

use std::borrow::Cow;
use std::collections::BTreeMap;

use strict_json::{Charset, Kind, Raw, push_string};

use crate::codec::already_static;
use crate::messages::tool::ToolParameter;
use crate::wire::{Decode, Describe, Encode, Reader, ToStatic, Writer};
use crate::{Invalid, Map, Object, Real};

/// A memory entry's key: an object; a string is taken too and sent back as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryKey<'a>(Raw<'a>);

/// The member that holds the text of a key.
const TEXT_MEMBER: &str = "key";

/// Seconds an entry lives, 0 for ever. Fractions are rounded up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Ttl(pub i64);

/// A rating within −1…1; other numbers are refused.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Score(Real);

/// A confidence; `true` and `false` are taken as 1 and 0.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Confidence(pub Real);

/// A text; another value is taken as its JSON text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct LooseText<'a>(pub Cow<'a, str>);

/// Parameters by name; a list of parameters is taken too.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ParameterMap<'a>(pub Map<'a, ToolParameter<'a>>);

/// What a process put out: an object; a string is taken as its `text`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProcOutput<'a>(pub Object<'a>);

/// An object that may be empty instead: `{}` is written for nothing, and read as nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OrEmpty<T>(pub Option<T>);

impl<'a> MemoryKey<'a> {
    /// A key, if the value is an object or a string.
    #[must_use]
    pub fn new(raw: Raw<'a>) -> Option<Self> {
        matches!(raw.checked().kind(), Kind::Object | Kind::String).then_some(Self(raw))
    }

    /// The key as JSON.
    #[must_use]
    pub const fn raw(&self) -> &Raw<'a> {
        &self.0
    }

    /// The text that the key stands for: a string, or an object as [`MemoryKey::of_text`] makes it.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        if self.0.checked().kind() == Kind::String {
            return self.0.deserialize().ok();
        }
        let mut members: BTreeMap<String, String> = self.0.deserialize().ok()?;
        let text = members.remove(TEXT_MEMBER);
        text.filter(|_| members.is_empty())
    }
}

impl MemoryKey<'static> {
    /// The key for a text as every host takes it: `{"key": TEXT}`. Some take no strings.
    #[must_use]
    pub fn of_text(text: &str) -> Self {
        let object = Raw::from_serialize(&BTreeMap::from([(TEXT_MEMBER, text)]));
        Self(object.unwrap_or(Raw::EMPTY_OBJECT))
    }
}

impl Score {
    /// A score; `None` outside −1…1.
    #[must_use]
    pub fn new(value: f64) -> Option<Self> {
        (-1.0..=1.0)
            .contains(&value)
            .then(|| Real::new(value).map(Self))
            .flatten()
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0.get()
    }
}

impl<'de: 'a, 'a> Decode<'de> for MemoryKey<'a> {
    fn decode(reader: &mut Reader<'de>) -> Result<Self, Invalid> {
        let unexpected = reader.unexpected("an object or a string");
        Self::new(Raw::decode(reader)?).ok_or(unexpected)
    }
}

impl<'de> Decode<'de> for Ttl {
    fn decode(reader: &mut Reader<'de>) -> Result<Self, Invalid> {
        let Some(literal) = reader.cursor.number() else {
            return Err(reader.unexpected("a number of seconds"));
        };
        match literal.parse::<f64>() {
            // A cast from f64 saturates.
            Ok(seconds) if seconds >= 0.0 => Ok(Self(seconds.ceil() as i64)),
            _ => Err(Invalid::value("a number of seconds from 0 up", literal)),
        }
    }
}

impl<'de> Decode<'de> for Score {
    fn decode(reader: &mut Reader<'de>) -> Result<Self, Invalid> {
        let value = Real::decode(reader)?.get();
        Self::new(value).ok_or_else(|| Invalid::value("a score from -1 to 1", &value.to_string()))
    }
}

impl<'de> Decode<'de> for Confidence {
    fn decode(reader: &mut Reader<'de>) -> Result<Self, Invalid> {
        if let Some(certain) = reader.cursor.bool() {
            return Ok(Self(
                Real::new(if certain { 1.0 } else { 0.0 }).unwrap_or_default(),
            ));
        }
        Real::decode(reader).map(Self)
    }
}

impl<'de: 'a, 'a> Decode<'de> for LooseText<'a> {
    fn decode(reader: &mut Reader<'de>) -> Result<Self, Invalid> {
        if let Some(text) = reader.cursor.string() {
            return Ok(Self(text));
        }
        Ok(Self(Cow::Borrowed(reader.cursor.raw().as_str())))
    }
}

impl<'de: 'a, 'a> Decode<'de> for ParameterMap<'a> {
    fn decode(reader: &mut Reader<'de>) -> Result<Self, Invalid> {
        if reader.cursor.kind() != Kind::Array {
            return Map::decode(reader).map(Self);
        }
        let list = Vec::<ToolParameter<'a>>::decode(reader)?;
        let pairs = list
            .into_iter()
            .map(|parameter| (parameter.name.clone(), parameter));
        Map::from_pairs(pairs.collect())
            .map(Self)
            .ok_or_else(|| Invalid::value("parameters of different names", "two of one name"))
    }
}

impl<'de: 'a, 'a> Decode<'de> for ProcOutput<'a> {
    fn decode(reader: &mut Reader<'de>) -> Result<Self, Invalid> {
        let Some(text) = reader.cursor.string() else {
            return Object::decode(reader).map(Self);
        };
        let mut json = br#"{"text":"#.to_vec();
        push_string(&mut json, &text, Charset::Utf8);
        json.push(b'}');
        let json = String::from_utf8_lossy(&json);
        match Object::parse(&json) {
            Ok(object) => Ok(Self(object.to_static())),
            Err(_) => Err(Invalid::value("text", &text)),
        }
    }
}

impl<'de, T: Decode<'de>> Decode<'de> for OrEmpty<T> {
    fn decode(reader: &mut Reader<'de>) -> Result<Self, Invalid> {
        if reader.take_literal("{}") {
            return Ok(Self(None));
        }
        T::decode(reader).map(Some).map(Self)
    }
}

impl<T: Encode> Encode for OrEmpty<T> {
    fn encode(&self, out: &mut Writer<'_>) {
        match &self.0 {
            Some(value) => value.encode(out),
            None => out.literal("{}"),
        }
    }
}

impl<T: Describe> Describe for OrEmpty<T> {
    fn wire_type() -> String {
        T::wire_type()
    }
}

impl<T: ToStatic> ToStatic for OrEmpty<T> {
    type Static = OrEmpty<T::Static>;

    fn to_static(self) -> Self::Static {
        OrEmpty(self.0.to_static())
    }
}

/// Writes and names a type as the one it wraps.
macro_rules! as_inner {
    ($($name:ident $(<$lt:lifetime>)? as $inner:ty;)*) => {$(
        impl Encode for $name $(<$lt>)? {
            fn encode(&self, out: &mut Writer<'_>) {
                self.0.encode(out);
            }
        }

        impl Describe for $name $(<$lt>)? {
            fn wire_type() -> String {
                <$inner>::wire_type()
            }
        }
    )*};
}

as_inner! {
    MemoryKey<'_> as Object<'_>;
    Ttl as i64;
    Score as Real;
    Confidence as Real;
    LooseText<'_> as Cow<'_, str>;
    ParameterMap<'_> as Map<'_, ToolParameter<'_>>;
    ProcOutput<'_> as Object<'_>;
}

already_static!(Ttl, Score, Confidence);

/// Cuts a wrapper of a borrowing type loose.
macro_rules! inner_static {
    ($($name:ident),*) => {$(
        impl ToStatic for $name<'_> {
            type Static = $name<'static>;

            fn to_static(self) -> Self::Static {
                $name(self.0.to_static())
            }
        }
    )*};
}

inner_static!(MemoryKey, LooseText, ParameterMap, ProcOutput);
