//! Reading typed values from the tree, with serde.

use std::fmt;

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{self, Deserialize, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;

use crate::Value;

/// Why a tree does not fit a type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TypeError(String);

impl de::Error for TypeError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

impl<'a> Value<'a> {
    /// Reads a typed value. Members the type does not know are passed over.
    ///
    /// # Errors
    /// If a member is missing or of another type; `1.0` is not an integer.
    pub fn deserialize_into<'de, T: Deserialize<'de>>(&'de self) -> Result<T, TypeError> {
        T::deserialize(self)
    }
}

impl<'de> de::Deserializer<'de> for &'de Value<'_> {
    type Error = TypeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeError> {
        match self {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Number(number) => match number.as_i64() {
                Some(integer) => visitor.visit_i64(integer),
                None => visitor.visit_f64(number.as_f64()),
            },
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Array(list) => {
                let mut access = SeqDeserializer::new(list.iter());
                let value = visitor.visit_seq(&mut access)?;
                access.end()?;
                Ok(value)
            }
            Value::Object(object) => {
                let mut access = MapDeserializer::new(object.iter());
                let value = visitor.visit_map(&mut access)?;
                access.end()?;
                Ok(value)
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypeError> {
        match self {
            Value::Null => visitor.visit_none(),
            Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_) => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, TypeError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, TypeError> {
        let name = self.as_str().ok_or_else(|| {
            de::Error::custom(format_args!("expected a string, found {}", self.describe()))
        })?;
        visitor.visit_enum(IntoDeserializer::<TypeError>::into_deserializer(name))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

impl<'de, 'v> IntoDeserializer<'de, TypeError> for &'de Value<'v> {
    type Deserializer = &'de Value<'v>;

    fn into_deserializer(self) -> Self::Deserializer {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Sample<'a> {
        text: &'a str,
        count: u32,
        ratio: f64,
        kind: Kind,
        missing: Option<u8>,
        list: Vec<bool>,
    }

    #[derive(Debug, PartialEq, serde::Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Kind {
        FirstKind,
    }

    #[test]
    fn reads_structs_and_passes_over_unknown_members() {
        let text =
            br#"{"text":"x","count":3,"ratio":2,"kind":"first_kind","list":[true],"new":{}}"#;
        let value = Value::parse(text).unwrap();
        let sample: Sample<'_> = value.deserialize_into().unwrap();
        assert_eq!(
            sample,
            Sample {
                text: "x",
                count: 3,
                ratio: 2.0,
                kind: Kind::FirstKind,
                missing: None,
                list: vec![true],
            }
        );
    }

    /// Profile §1: "Protocol integers MUST be written as JSON integers: `1.0` is an error."
    #[test]
    fn an_integer_must_be_written_as_one() {
        assert_eq!(Value::parse(b"1").unwrap().deserialize_into(), Ok(1_u8));
        let real = Value::parse(b"1.0").unwrap();
        assert!(real.deserialize_into::<u8>().is_err());
        assert!(
            Value::parse(b"-1")
                .unwrap()
                .deserialize_into::<u8>()
                .is_err()
        );
    }
}
