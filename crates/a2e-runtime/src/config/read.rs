//! Typed values from the tree, with every mistake written down.

use std::cell::RefCell;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::Problem;
use super::tree::{Entry, Kind, Location, Node};
use crate::nearest::nearest;

/// The mistakes so far.
#[derive(Debug, Default)]
pub(super) struct Problems(RefCell<Vec<Problem>>);

/// A section whose keys are taken one by one; what is left in the end is unknown.
pub(super) struct Section<'a> {
    path: String,
    entries: &'a [Entry],
    known: Vec<&'static str>,
    problems: &'a Problems,
}

/// A value under its key.
pub(super) struct Field<'a> {
    /// The key, with the sections it is in.
    path: String,
    node: &'a Node,
    problems: &'a Problems,
}

impl Problems {
    pub(super) fn add(&self, at: Location, text: String) {
        let at = Some(at);
        self.0.borrow_mut().push(Problem { at, text });
    }

    /// The mistakes in the order of the file.
    pub(super) fn into_sorted(self) -> Vec<Problem> {
        let mut problems = self.0.into_inner();
        problems.sort_by_key(|problem| problem.at);
        problems
    }
}

impl<'a> Section<'a> {
    /// The whole file.
    pub(super) fn root(node: &'a Node, problems: &'a Problems) -> Self {
        let entries = match &node.kind {
            Kind::Table(entries) => entries.as_slice(),
            Kind::Null => &[],
            Kind::Bool(_)
            | Kind::Integer(_)
            | Kind::Real(_)
            | Kind::Text(_)
            | Kind::Date
            | Kind::List(_) => {
                let found = node.kind.describe();
                let text = format!("a configuration has keys and values, not {found}");
                problems.add(node.at, text);
                &[]
            }
        };
        Self {
            path: String::new(),
            entries,
            known: Vec::new(),
            problems,
        }
    }

    /// The value of a key; a key without a value is as if it were not there.
    pub(super) fn field(&mut self, name: &'static str) -> Option<Field<'a>> {
        self.known.push(name);
        let entry = self.entries.iter().find(|entry| entry.name == name)?;
        let value = &entry.value;
        (!matches!(value.kind, Kind::Null)).then(|| Field {
            path: join(&self.path, name),
            node: value,
            problems: self.problems,
        })
    }

    /// The value of a key that, if it is there, must have one: what a rule leaves out makes it match
    /// more.
    pub(super) fn given(&mut self, name: &'static str) -> Option<Field<'a>> {
        let entry = self.entries.iter().find(|entry| entry.name == name);
        if let Some(entry) = entry.filter(|entry| matches!(entry.value.kind, Kind::Null)) {
            let path = join(&self.path, name);
            self.problems
                .add(entry.at, format!("`{path}` has no value"));
        }
        self.field(name)
    }

    /// A field that must be there.
    pub(super) fn required(&mut self, name: &'static str, at: Location) -> Option<Field<'a>> {
        let field = self.field(name);
        if field.is_none() {
            self.problems
                .add(at, format!("`{}` lacks `{name}`", self.path));
        }
        field
    }

    /// Says which keys nobody asked for.
    pub(super) fn finish(self) {
        for entry in self.entries {
            if self.known.contains(&entry.name.as_str()) {
                continue;
            }
            let place = match self.path.as_str() {
                "" => String::new(),
                path => format!(" in `{path}`"),
            };
            let hint = match nearest(&entry.name, self.known.iter().copied()) {
                Some(name) => format!("did you mean `{name}`?"),
                None => format!("known are {}", self.known.join(", ")),
            };
            let name: String = entry.name.chars().take(64).collect();
            self.problems
                .add(entry.at, format!("unknown key `{name}`{place}; {hint}"));
        }
    }
}

impl<'a> Field<'a> {
    /// Its place.
    pub(super) const fn at(&self) -> Location {
        self.node.at
    }

    pub(super) const fn is_boolean(&self) -> bool {
        matches!(self.node.kind, Kind::Bool(_))
    }

    pub(super) const fn is_text(&self) -> bool {
        matches!(self.node.kind, Kind::Text(_))
    }

    /// Writes down what is wrong with it.
    pub(super) fn wrong<T>(&self, text: &str) -> Option<T> {
        self.problems
            .add(self.node.at, format!("`{}` {text}", self.path));
        None
    }

    pub(super) fn boolean(&self) -> Option<bool> {
        let Kind::Bool(value) = self.node.kind else {
            return self.must_be("true or false");
        };
        Some(value)
    }

    pub(super) fn text(&self) -> Option<&'a str> {
        match &self.node.kind {
            Kind::Text(text) => Some(text),
            Kind::Integer(_) | Kind::Real(_) | Kind::Bool(_) | Kind::Date => {
                self.must_be("text (in quotes)")
            }
            Kind::Null | Kind::List(_) | Kind::Table(_) => self.must_be("text"),
        }
    }

    /// A text that says something.
    pub(super) fn word(&self) -> Option<String> {
        match self.text()?.trim() {
            "" => self.wrong("must not be empty"),
            text => Some(text.to_owned()),
        }
    }

    pub(super) fn integer(&self, allowed: RangeInclusive<i64>) -> Option<i64> {
        let (low, high) = (allowed.start(), allowed.end());
        let wanted = format!("a whole number from {low} to {high}");
        match self.node.kind {
            Kind::Integer(value) if allowed.contains(&value) => Some(value),
            Kind::Integer(value) => self.wrong(&format!("must be {wanted}, not {value}")),
            Kind::Real(_) => self.wrong(&format!("must be {wanted}")),
            Kind::Null
            | Kind::Bool(_)
            | Kind::Text(_)
            | Kind::Date
            | Kind::List(_)
            | Kind::Table(_) => self.must_be(&wanted),
        }
    }

    pub(super) fn count(&self, allowed: RangeInclusive<i64>) -> Option<usize> {
        self.integer(allowed)?.try_into().ok()
    }

    /// A time in seconds; fractions are allowed.
    pub(super) fn seconds(&self, allowed: RangeInclusive<u32>) -> Option<Duration> {
        let (low, high) = (*allowed.start(), *allowed.end());
        let wanted = format!("{low} to {high} seconds");
        let value = match self.node.kind {
            #[expect(clippy::cast_precision_loss, reason = "those are out of range anyway")]
            Kind::Integer(value) => value as f64,
            Kind::Real(value) => value,
            Kind::Null
            | Kind::Bool(_)
            | Kind::Text(_)
            | Kind::Date
            | Kind::List(_)
            | Kind::Table(_) => return self.must_be(&wanted),
        };
        match (f64::from(low)..=f64::from(high)).contains(&value) {
            true => Some(Duration::from_secs_f64(value)),
            false => self.wrong(&format!("must be {wanted}, not {value}")),
        }
    }

    /// One of some words.
    pub(super) fn choice<T: Copy>(&self, choices: &[(&str, T)]) -> Option<T> {
        let text = self.text()?;
        if let Some((_, value)) = choices.iter().find(|(name, _)| *name == text) {
            return Some(*value);
        }
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        let hint = match nearest(text, names.iter().copied()) {
            Some(name) => format!("; did you mean `{name}`?"),
            None => String::new(),
        };
        self.wrong(&format!("must be one of {}{hint}", names.join(", ")))
    }

    pub(super) fn list(&self) -> Option<impl Iterator<Item = Self>> {
        let Kind::List(list) = &self.node.kind else {
            return self.must_be("a list");
        };
        Some(list.iter().enumerate().map(|(index, node)| Self {
            path: format!("{}[{index}]", self.path),
            node,
            problems: self.problems,
        }))
    }

    /// A list of texts that say something.
    pub(super) fn words(&self) -> Option<Vec<String>> {
        Some(self.list()?.filter_map(|field| field.word()).collect())
    }

    pub(super) fn section(&self) -> Option<Section<'a>> {
        let Kind::Table(entries) = &self.node.kind else {
            return self.must_be("a section with keys");
        };
        Some(Section {
            path: self.path.clone(),
            entries,
            known: Vec::new(),
            problems: self.problems,
        })
    }

    /// The values under keys of any name.
    pub(super) fn entries(&self) -> Option<impl Iterator<Item = (&'a str, Self)>> {
        let Kind::Table(entries) = &self.node.kind else {
            return self.must_be("a section with keys");
        };
        Some(entries.iter().map(|entry| {
            let field = Self {
                path: join(&self.path, &entry.name),
                node: &entry.value,
                problems: self.problems,
            };
            (entry.name.as_str(), field)
        }))
    }

    /// Whatever it is, as JSON.
    pub(super) fn json(&self) -> Option<serde_json::Value> {
        match json(self.node) {
            Some(value) => Some(value),
            None => self.wrong("must be something that JSON can say"),
        }
    }

    fn must_be<T>(&self, wanted: &str) -> Option<T> {
        self.wrong(&format!(
            "must be {wanted}, not {}",
            self.node.kind.describe()
        ))
    }
}

/// A part of a configuration as JSON; dates and infinities have no JSON.
fn json(node: &Node) -> Option<serde_json::Value> {
    use serde_json::Value;
    Some(match &node.kind {
        Kind::Null => Value::Null,
        Kind::Bool(value) => Value::Bool(*value),
        Kind::Integer(value) => Value::from(*value),
        Kind::Real(value) => Value::Number(serde_json::Number::from_f64(*value)?),
        Kind::Text(text) => Value::String(text.clone()),
        Kind::Date => return None,
        Kind::List(list) => Value::Array(list.iter().map(json).collect::<Option<_>>()?),
        Kind::Table(entries) => {
            let members = entries.iter();
            let members = members.map(|entry| Some((entry.name.clone(), json(&entry.value)?)));
            Value::Object(members.collect::<Option<_>>()?)
        }
    })
}

fn join(path: &str, name: &str) -> String {
    match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    }
}
