//! Typed values from the tree, with every mistake written down.

use std::cell::RefCell;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::Problem;
use super::probe::{self, Probe, Shape};
use super::tree::{Entry, Kind, Location, Node};
use crate::nearest::nearest;

/// The mistakes so far.
#[derive(Debug, Default)]
pub(super) struct Problems {
    found: RefCell<Vec<Problem>>,
    /// Instead of reading, what is asked for is written down.
    probe: Option<Probe>,
}

/// What stands under each key of a configuration that is made up.
static NOTHING: Node = Node {
    at: Location { line: 1, column: 1 },
    kind: Kind::Null,
    literal: None,
};

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
    /// Nothing is read: the reader is asked what it would read.
    pub(super) const fn probing(probe: Probe) -> Self {
        Self {
            found: RefCell::new(Vec::new()),
            probe: Some(probe),
        }
    }

    pub(super) const fn probe(&self) -> Option<&Probe> {
        self.probe.as_ref()
    }

    pub(super) fn add(&self, at: Location, text: String) {
        if self.probe.is_some() {
            return;
        }
        let at = Some(at);
        self.found.borrow_mut().push(Problem { at, text });
    }

    /// The mistakes in the order of the file.
    pub(super) fn into_sorted(self) -> Vec<Problem> {
        let mut problems = self.found.into_inner();
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

    /// A whole file that is made up.
    pub(super) const fn made_up(problems: &'a Problems) -> Self {
        Self {
            path: String::new(),
            entries: &[],
            known: Vec::new(),
            problems,
        }
    }

    /// The value of a key; a key without a value is as if it were not there.
    pub(super) fn field(&mut self, name: &'static str) -> Option<Field<'a>> {
        self.known.push(name);
        if let Some(probe) = self.problems.probe() {
            let field = self.probed(name);
            return (probe.pick(&field.path, "there", 4) > 0).then_some(field);
        }
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
        if let Some(probe) = self.problems.probe() {
            self.known.push(name);
            probe.must_have(&self.path, name);
            return Some(self.probed(name));
        }
        let field = self.field(name);
        if field.is_none() {
            self.problems
                .add(at, format!("`{}` lacks `{name}`", self.path));
        }
        field
    }

    /// A value that is made up.
    fn probed(&self, name: &str) -> Field<'a> {
        Field {
            path: join(&self.path, name),
            node: &NOTHING,
            problems: self.problems,
        }
    }

    /// Says which keys nobody asked for.
    pub(super) fn finish(self) {
        if let Some(probe) = self.problems.probe() {
            probe.finished(&self.path, &self.known);
        }
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

    pub(super) fn is_boolean(&self) -> bool {
        if let Some(probe) = self.problems.probe() {
            return probe.pick(&self.path, "boolean", 2) == 0;
        }
        matches!(self.node.kind, Kind::Bool(_))
    }

    pub(super) fn is_text(&self) -> bool {
        if let Some(probe) = self.problems.probe() {
            return probe.pick(&self.path, "text", 2) == 0;
        }
        matches!(self.node.kind, Kind::Text(_))
    }

    /// Writes down what is wrong with it.
    pub(super) fn wrong<T>(&self, text: &str) -> Option<T> {
        self.problems
            .add(self.node.at, format!("`{}` {text}", self.path));
        None
    }

    pub(super) fn boolean(&self) -> Option<bool> {
        if let Some(probe) = self.learn(Shape::Boolean) {
            return Some(probe.pick(&self.path, "true", 2) == 0);
        }
        let Kind::Bool(value) = self.node.kind else {
            return self.must_be("true or false");
        };
        Some(value)
    }

    pub(super) fn text(&self) -> Option<&'a str> {
        if self.learn(Shape::Text).is_some() {
            return Some(probe::TEXT);
        }
        match &self.node.kind {
            Kind::Text(text) => Some(text),
            Kind::Integer(_) | Kind::Real(_) | Kind::Bool(_) | Kind::Date => {
                match &self.node.literal {
                    Some(text) => Some(text),
                    None => self.must_be("text (in quotes)"),
                }
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
        let (low, high) = (*allowed.start(), *allowed.end());
        if self.learn(Shape::Integer(low, high)).is_some() {
            return Some(low);
        }
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
        if self.learn(Shape::Seconds(low, high)).is_some() {
            return Some(Duration::from_secs(low.into()));
        }
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
        if let Some(probe) = self.problems.probe() {
            let names = choices.iter().map(|(name, _)| (*name).to_owned());
            self.learn(Shape::Choice(names.collect()));
            let picked = probe.pick(&self.path, "choice", choices.len() as u64);
            return choices.get(usize::try_from(picked).ok()?).map(|it| it.1);
        }
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
        let list = match (&self.node.kind, self.learn(Shape::List)) {
            (_, Some(_)) => std::slice::from_ref(&NOTHING),
            (Kind::List(list), None) => list.as_slice(),
            (_, None) => return self.must_be("a list"),
        };
        Some(list.iter().enumerate().map(|(index, node)| Self {
            path: match self.problems.probe() {
                Some(_) => format!("{}[]", self.path),
                None => format!("{}[{index}]", self.path),
            },
            node,
            problems: self.problems,
        }))
    }

    /// A list of texts that say something.
    pub(super) fn words(&self) -> Option<Vec<String>> {
        Some(self.list()?.filter_map(|field| field.word()).collect())
    }

    pub(super) fn section(&self) -> Option<Section<'a>> {
        let entries = match (&self.node.kind, self.problems.probe()) {
            (_, Some(_)) => &[],
            (Kind::Table(entries), None) => entries.as_slice(),
            (_, None) => return self.must_be("a section with keys"),
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
        let field = |name: &'a str, path: &str, node| {
            let field = Self {
                path: join(&self.path, path),
                node,
                problems: self.problems,
            };
            (name, field)
        };
        let fields: Vec<(&'a str, Self)> = match (&self.node.kind, self.learn(Shape::Map)) {
            (_, Some(_)) => probe::NAMES.map(|name| field(name, "*", &NOTHING)).into(),
            (Kind::Table(entries), None) => entries
                .iter()
                .map(|entry| field(&entry.name, &entry.name, &entry.value))
                .collect(),
            (_, None) => return self.must_be("a section with keys"),
        };
        Some(fields.into_iter())
    }

    /// Whatever it is, as JSON.
    pub(super) fn json(&self) -> Option<serde_json::Value> {
        if self.learn(Shape::Any).is_some() {
            return Some(serde_json::Value::Null);
        }
        match self.node.json() {
            Some(value) => Some(value),
            None => self.wrong("must be something that JSON can say"),
        }
    }

    /// What it is taken for is written down, if nothing is read.
    fn learn(&self, shape: Shape) -> Option<&'a Probe> {
        let probe = self.problems.probe()?;
        probe.learn(&self.path, shape);
        Some(probe)
    }

    fn must_be<T>(&self, wanted: &str) -> Option<T> {
        self.wrong(&format!(
            "must be {wanted}, not {}",
            self.node.kind.describe()
        ))
    }
}

pub(super) fn join(path: &str, name: &str) -> String {
    match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    }
}
