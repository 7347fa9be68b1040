//! How the basic types are read, written, named and cut loose.

use std::borrow::Cow;

use strict_json::{Kind, Raw};

use crate::wire::{Decode, Describe, Encode, Reader, ToStatic, Writer};
use crate::{Invalid, MAX_ELEMENTS, Map, Object, Real, Timestamp};

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

    fn absent(default: &'static str, _: Timestamp) -> Result<Self, Invalid> {
        // The defaults of strings have no escapes.
        Ok(Cow::Borrowed(default.trim_matches('"')))
    }
}

impl<'de> Decode<'de> for bool {
    fn decode(reader: &mut Reader<'de>) -> Result<Self, Invalid> {
        reader
            .cursor
            .bool()
            .ok_or_else(|| reader.unexpected("a boolean"))
    }

    fn absent(default: &'static str, _: Timestamp) -> Result<Self, Invalid> {
        Ok(default == "true")
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
            .ok_or_else(|| match literal.contains(['.', 'e', 'E']) {
                true => Invalid::value("an integer", literal),
                false => Invalid::value("an integer of 64 bits", literal),
            })
    }

    fn absent(default: &'static str, _: Timestamp) -> Result<Self, Invalid> {
        default.parse().map_err(|_| Invalid::missing())
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

    fn absent(default: &'static str, _: Timestamp) -> Result<Self, Invalid> {
        let value = default.parse().ok().and_then(Self::new);
        value.ok_or_else(Invalid::missing)
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

    fn absent(_: &'static str, _: Timestamp) -> Result<Self, Invalid> {
        Ok(Object::EMPTY)
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
            if index == MAX_ELEMENTS {
                return Err(Invalid::value("shorter", "a list of over 100000 elements"));
            }
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
            if map.0.len() == MAX_ELEMENTS {
                return Err(Invalid::value("smaller", "a map of over 100000 elements"));
            }
            let value = T::decode(reader).map_err(|error| error.at_field(&name))?;
            map.push(name, value);
        }
        Ok(map)
    }

    fn absent(_: &'static str, _: Timestamp) -> Result<Self, Invalid> {
        Ok(Self::default())
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
