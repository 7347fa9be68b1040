//! YAML into the tree.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{
    DefaultMessageFormatter, Error, MergeKeyPolicy, MessageFormatter, Spanned, UserMessageFormatter,
};

use super::Problem;
use super::tree::{Entry, Kind, Location, Node};

/// No section is that deep.
const MAX_DEPTH: usize = 32;

/// What `*name` may stand for in all, in parts: more is a bomb.
const MAX_REPLAYED: usize = 10_000;

/// Reads a text; an empty one is an empty section.
pub(super) fn parse(text: &str) -> Result<Node, Problem> {
    let mut budget = serde_saphyr::Budget::default();
    budget.max_depth = MAX_DEPTH;
    let mut aliases = serde_saphyr::options::AliasLimits::default();
    aliases.max_total_replayed_events = MAX_REPLAYED;
    let options = serde_saphyr::options! {
        budget: Some(budget),
        alias_limits: aliases,
        // A merged key would stand in two places.
        merge_keys: MergeKeyPolicy::Error,
        // `no` is a word, not a boolean.
        strict_booleans: true,
        // `!env NAME` would be the text `NAME`, and `!word` nothing at all.
        reject_unsupported_tags: true,
        // It would show lines with secrets.
        with_snippet: false,
    };
    match serde_saphyr::from_str_with_options::<Spanned<AnyKind>>(text, options) {
        Ok(root) => Ok(root.into()),
        Err(error) => Err(problem(&error)),
    }
}

/// What stands at a place, before it is known where that is.
struct AnyKind(Kind);

impl From<Spanned<AnyKind>> for Node {
    fn from(value: Spanned<AnyKind>) -> Self {
        Self {
            at: location(value.referenced),
            kind: value.value.0,
            literal: None,
        }
    }
}

impl<'de> Deserialize<'de> for AnyKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyVisitor).map(Self)
    }
}

struct AnyVisitor;

impl<'de> Visitor<'de> for AnyVisitor {
    type Value = Kind;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Kind, E> {
        Ok(Kind::Null)
    }

    fn visit_none<E: de::Error>(self) -> Result<Kind, E> {
        Ok(Kind::Null)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Kind, E> {
        Ok(Kind::Bool(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Kind, E> {
        Ok(Kind::Integer(value))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Kind, E> {
        Ok(i64::try_from(value).map_or(Kind::Real(f64::INFINITY), Kind::Integer))
    }

    fn visit_i128<E: de::Error>(self, value: i128) -> Result<Kind, E> {
        Ok(i64::try_from(value).map_or(Kind::Real(f64::INFINITY), Kind::Integer))
    }

    fn visit_u128<E: de::Error>(self, _: u128) -> Result<Kind, E> {
        Ok(Kind::Real(f64::INFINITY))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Kind, E> {
        Ok(Kind::Real(value))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Kind, E> {
        Ok(Kind::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Kind, A::Error> {
        let mut list = Vec::new();
        while let Some(element) = access.next_element::<Spanned<AnyKind>>()? {
            list.push(element.into());
        }
        Ok(Kind::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Kind, A::Error> {
        let mut entries = Vec::new();
        while let Some(name) = access.next_key::<Spanned<String>>()? {
            entries.push(Entry {
                at: location(name.referenced),
                name: name.value,
                value: access.next_value::<Spanned<AnyKind>>()?.into(),
            });
        }
        Ok(Kind::Table(entries))
    }
}

fn problem(error: &Error) -> Problem {
    let text = if let Error::DuplicateMappingKey { key: Some(key), .. } = error {
        format!("the key `{key}` stands twice in one section")
    } else if let Error::UnsupportedTag { .. } = error {
        // Not its name, which may be a secret without quotes.
        "YAML tags (`!name`) cannot be used here; text that begins with `!` needs quotes".to_owned()
    } else {
        // The usual texts of these two are for who calls the library.
        let text = match matches!(
            error,
            Error::MultipleDocuments { .. } | Error::NullIntoString { .. }
        ) {
            true => UserMessageFormatter.format_message(error),
            false => DefaultMessageFormatter.format_message(error),
        };
        format!("this is not YAML that can be used here: {text}")
    };
    Problem {
        at: error.location().map(location),
        text,
    }
}

fn location(location: serde_saphyr::Location) -> Location {
    let count = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    Location {
        line: count(location.line()),
        column: count(location.column()),
    }
}
