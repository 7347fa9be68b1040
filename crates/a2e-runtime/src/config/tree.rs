//! A configuration file as a tree that knows where its parts stand.

use serde_json::Value;

/// A place in a file, both counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    /// The line.
    pub line: u32,
    /// The character in the line.
    pub column: u32,
}

/// A value and its place.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) at: Location,
    pub(super) kind: Kind,
    /// The text of a number or boolean that was given beside the file, where nothing has quotes: a
    /// key that takes text takes it as it is.
    pub(super) literal: Option<String>,
}

#[derive(Debug)]
pub(super) enum Kind {
    Null,
    Bool(bool),
    Integer(i64),
    /// With those integers that are larger than all limits.
    Real(f64),
    Text(String),
    /// A date or a time, which only TOML has.
    Date,
    List(Vec<Node>),
    Table(Vec<Entry>),
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) at: Location,
    pub(super) value: Node,
}

impl Kind {
    /// What a reader would call it. It never shows the value, which may be a secret in the wrong
    /// place.
    pub(super) const fn describe(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Bool(_) => "a boolean",
            Self::Integer(_) | Self::Real(_) => "a number",
            Self::Text(_) => "text",
            Self::Date => "a date",
            Self::List(_) => "a list",
            Self::Table(_) => "a section",
        }
    }
}

impl Node {
    /// The same as JSON; dates and infinities have none.
    pub(super) fn json(&self) -> Option<Value> {
        Some(match &self.kind {
            Kind::Null => Value::Null,
            Kind::Bool(value) => Value::Bool(*value),
            Kind::Integer(value) => Value::from(*value),
            Kind::Real(value) => Value::Number(serde_json::Number::from_f64(*value)?),
            Kind::Text(text) => Value::String(text.clone()),
            Kind::Date => return None,
            Kind::List(list) => Value::Array(list.iter().map(Self::json).collect::<Option<_>>()?),
            Kind::Table(entries) => {
                let members = entries.iter();
                let members = members.map(|entry| Some((entry.name.clone(), entry.value.json()?)));
                Value::Object(members.collect::<Option<_>>()?)
            }
        })
    }
}
