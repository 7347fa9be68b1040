//! TOML into the tree.

use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

use super::Problem;
use super::tree::{Entry, Kind, Location, Node};

/// Reads a text.
pub(super) fn parse(text: &str) -> Result<Node, Problem> {
    match DeTable::parse(text) {
        Ok(table) => Ok(Node {
            at: Location { line: 1, column: 1 },
            kind: entries(text, table.get_ref()),
            literal: None,
        }),
        Err(error) => Err(problem(text, &error)),
    }
}

/// A TOML text of another program as JSON.
///
/// # Errors
/// In words, what is wrong with it.
pub fn as_json(text: &str) -> Result<serde_json::Value, String> {
    let tree = parse(text).map_err(|problem| problem.text)?;
    tree.json()
        .ok_or_else(|| "it has a date or a number that JSON has not".to_owned())
}

fn entries(text: &str, table: &DeTable<'_>) -> Kind {
    let entries = table.iter().map(|(name, value)| Entry {
        name: name.get_ref().clone().into_owned(),
        at: location(text, name.span().start),
        value: node(text, value),
    });
    Kind::Table(entries.collect())
}

fn node(text: &str, value: &Spanned<DeValue<'_>>) -> Node {
    let kind = match value.get_ref() {
        DeValue::String(value) => Kind::Text(value.clone().into_owned()),
        DeValue::Integer(value) => integer(value),
        DeValue::Float(value) => Kind::Real(value.as_str().parse().unwrap_or(f64::INFINITY)),
        DeValue::Boolean(value) => Kind::Bool(*value),
        DeValue::Datetime(_) => Kind::Date,
        DeValue::Array(list) => Kind::List(list.iter().map(|value| node(text, value)).collect()),
        DeValue::Table(table) => entries(text, table),
    };
    Node {
        at: location(text, value.span().start),
        kind,
        literal: None,
    }
}

fn integer(value: &DeInteger<'_>) -> Kind {
    i64::from_str_radix(value.as_str(), value.radix())
        .map_or(Kind::Real(f64::INFINITY), Kind::Integer)
}

fn problem(text: &str, error: &toml::de::Error) -> Problem {
    let place = error.span();
    let word = place.clone().and_then(|place| text.get(place));
    Problem {
        at: place.map(|place| location(text, place.start)),
        text: match (error.message(), word) {
            ("duplicate key", Some(key)) => {
                format!("the key `{key}` stands twice in one section")
            }
            (message, _) => format!("this is not TOML: {message}"),
        },
    }
}

fn location(text: &str, offset: usize) -> Location {
    let before = text.get(..offset).unwrap_or(text);
    let (lines, last) = match before.rsplit_once('\n') {
        Some((lines, last)) => (lines.matches('\n').count() + 2, last),
        None => (1, before),
    };
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Location {
        line: count(lines),
        column: count(last.chars().count() + 1),
    }
}
