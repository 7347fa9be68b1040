//! Writes YAML as people do: members and items below each other.

use std::fmt::{Formatter, Result};

use serde_json::{Map, Value};

/// Writes the members of an object, so far from the left.
pub(super) fn members(f: &mut Formatter<'_>, object: &Map<String, Value>, left: usize) -> Result {
    object.iter().try_for_each(|one| {
        write!(f, "{:left$}", "")?;
        member(f, one, left)
    })
}

fn member(f: &mut Formatter<'_>, (name, value): (&String, &Value), left: usize) -> Result {
    write!(f, "{}:", word(name))?;
    match (value.as_object(), value.as_array()) {
        (Some(object), _) if !object.is_empty() => {
            writeln!(f)?;
            members(f, object, left + 2)
        }
        (_, Some(list)) if !list.is_empty() => {
            writeln!(f)?;
            list.iter().try_for_each(|one| item(f, one, left + 2))
        }
        _ => writeln!(f, " {}", scalar(value)),
    }
}

fn item(f: &mut Formatter<'_>, value: &Value, left: usize) -> Result {
    write!(f, "{:left$}-", "")?;
    match (value.as_object(), value.as_array()) {
        (Some(object), _) if !object.is_empty() => {
            object.iter().enumerate().try_for_each(|(index, one)| {
                // The first stands beside the dash.
                let before = if index == 0 { 1 } else { left + 2 };
                write!(f, "{:before$}", "")?;
                member(f, one, left + 2)
            })
        }
        (_, Some(list)) if !list.is_empty() => {
            writeln!(f)?;
            list.iter().try_for_each(|one| item(f, one, left + 2))
        }
        _ => writeln!(f, " {}", scalar(value)),
    }
}

/// What has nothing below it. JSON is YAML.
fn scalar(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), word)
}

/// A text: without quotes if nobody can take it for anything else.
fn word(text: &str) -> String {
    const OTHERS: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_./-".contains(&byte);
    let is_word = text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(is_plain)
        && !OTHERS.iter().any(|other| text.eq_ignore_ascii_case(other));
    match is_word {
        true => text.to_owned(),
        false => Value::from(text).to_string(),
    }
}
