//! What the reader of the configuration asks for, learned by letting it read.
//!
//! The reader is the one declaration of keys. Instead of a second one, [`schema`] has it read made-up
//! configurations again and again, each with other keys present and other kinds of values, and writes
//! down which keys it asked for and what it took them for. All choices come from a fixed sequence: the
//! schema is the same each time.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Map, Value, json};

use super::read::{Problems, Section};
use super::{Surroundings, sections};

/// A key deep inside of one of many kinds of plugins is met once in some ten times: the reader is let
/// read so often, and on until three quarters of all readings have taught nothing new.
const READINGS: u64 = 100;

/// The names under which a section with names of the user's own is asked for: what an intent may be
/// called, and a status.
pub(super) const NAMES: [&str; 2] = ["example.probe.v1", "default"];

/// What a text is while nothing is read.
pub(super) const TEXT: &str = "x";

/// What was learned so far.
#[derive(Debug, Default)]
pub(super) struct Probe {
    reading: Cell<u64>,
    /// The last one that taught something.
    news: Cell<u64>,
    learned: RefCell<BTreeMap<String, Learned>>,
}

#[derive(Debug, Default)]
struct Learned {
    shapes: BTreeSet<Shape>,
    /// The keys of a section, in the order of the reader.
    keys: Vec<&'static str>,
    /// How often it was read to its end, and how often each key had to be there.
    finished: u64,
    required: BTreeMap<&'static str, u64>,
}

/// What a value is taken for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Shape {
    Any,
    Boolean,
    Text,
    Choice(Vec<String>),
    Integer(i64, i64),
    Seconds(u32, u32),
    /// Its elements are under `[]`.
    List,
    /// Its values are under `.*`.
    Map,
    Section,
}

impl Probe {
    /// One of so many ways, another one in another reading.
    pub(super) fn pick(&self, path: &str, question: &str, ways: u64) -> u64 {
        // FNV-1a, and a last mixing so that its low bits are good.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ self.reading.get().wrapping_mul(0x9e37_79b9);
        for byte in path.bytes().chain(question.bytes()) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
        hash = (hash ^ (hash >> 31)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (hash ^ (hash >> 29)).checked_rem(ways).unwrap_or(0)
    }

    pub(super) fn learn(&self, path: &str, shape: Shape) {
        self.entry(path, |learned| {
            if learned.shapes.insert(shape) {
                self.news.set(self.reading.get());
            }
        });
    }

    pub(super) fn must_have(&self, path: &str, name: &'static str) {
        self.entry(path, |learned| {
            *learned.required.entry(name).or_default() += 1;
        });
    }

    pub(super) fn finished(&self, path: &str, keys: &[&'static str]) {
        self.entry(path, |learned| {
            learned.finished += 1;
            for key in keys {
                if !learned.keys.contains(key) {
                    learned.keys.push(key);
                    self.news.set(self.reading.get());
                }
            }
        });
        self.learn(path, Shape::Section);
    }

    fn entry(&self, path: &str, change: impl FnOnce(&mut Learned)) {
        change(
            self.learned
                .borrow_mut()
                .entry(path.to_owned())
                .or_default(),
        );
    }

    /// What is known about a value, as a JSON Schema.
    fn schema(&self, path: &str) -> Value {
        let learned = self.learned.borrow();
        let Some(known) = learned.get(path) else {
            return json!({});
        };
        let mut schemas: Vec<Value> = known
            .shapes
            .iter()
            .map(|shape| match shape {
                Shape::Any => json!({}),
                Shape::Boolean => json!({"type": "boolean"}),
                Shape::Text => json!({"type": "string"}),
                Shape::Choice(words) => json!({"enum": words}),
                Shape::Integer(low, high) => {
                    json!({"type": "integer", "minimum": low, "maximum": high})
                }
                Shape::Seconds(low, high) => {
                    json!({"type": "number", "minimum": low, "maximum": high})
                }
                Shape::List => json!({"type": "array", "items": self.schema(&format!("{path}[]"))}),
                Shape::Map => {
                    let values = self.schema(&format!("{path}.*"));
                    json!({"type": "object", "additionalProperties": values})
                }
                Shape::Section => self.section(path, known),
            })
            .collect();
        if schemas.iter().any(|schema| *schema == json!({})) {
            return json!({});
        }
        match schemas.len() {
            1 => schemas.remove(0),
            _ => json!({"anyOf": schemas}),
        }
    }

    fn section(&self, path: &str, known: &Learned) -> Value {
        let member = |key: &&str| {
            let schema = self.schema(&super::read::join(path, key));
            ((*key).to_owned(), schema)
        };
        let properties: Map<String, Value> = known.keys.iter().map(member).collect();
        // What only some kinds of it must have is no duty of all.
        let always = |(_, times): &(&&str, &u64)| **times >= known.finished;
        let required: Vec<&str> = known
            .required
            .iter()
            .filter(always)
            .map(|(name, _)| *name)
            .collect();
        let mut schema = json!({
            "type": "object",
            "properties": properties,
            "additionalProperties": false,
        });
        if let (Some(object), false) = (schema.as_object_mut(), required.is_empty()) {
            object.insert("required".to_owned(), json!(required));
        }
        schema
    }
}

/// The JSON Schema of a configuration file. It takes what the reader takes, and of that which it does
/// not take, all that a schema can say: which keys there are, what they may be, how large.
#[must_use]
pub fn schema() -> Value {
    let problems = Problems::probing(Probe::default());
    let Some(probe) = problems.probe() else {
        return json!({});
    };
    let surroundings = Surroundings {
        // No file lies in it: what is made up must not be read.
        folder: Path::new("/dev/null"),
        variable: &|_| None,
    };
    while probe.reading.get() < READINGS.max(4 * probe.news.get()) {
        probe.reading.set(probe.reading.get() + 1);
        sections::read(Section::made_up(&problems), &surroundings);
    }
    let mut schema = probe.schema("");
    if let Some(object) = schema.as_object_mut() {
        let dialect = json!("https://json-schema.org/draft/2020-12/schema");
        object.insert("$schema".to_owned(), dialect);
        object.insert(
            "title".to_owned(),
            json!("The configuration of a Frith node"),
        );
    }
    schema
}

#[cfg(test)]
mod tests;
