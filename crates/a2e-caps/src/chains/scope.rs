//! The names that expressions of a chain know.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use super::plan::Limits;

/// The names, for one node.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scope<'a> {
    /// What the chain was given, an object; its members have names of their own.
    pub(super) input: &'a Value,
    pub(super) ids: &'a HashMap<String, usize>,
    /// What nodes gave, so far.
    pub(super) outputs: &'a [Option<Arc<Value>>],
    /// The nodes that a look at everything sees; without a list, all that have run.
    pub(super) seen: Option<&'a [usize]>,
    /// The item, for a node that runs for each.
    pub(super) item: Option<&'a Value>,
    /// How much may be made of them.
    pub(super) limits: Limits,
}

/// What a chain was given, as an expression names it.
const INPUT: &str = "input";
/// The item, as expressions name it.
pub(super) const ITEM: [&str; 2] = ["item", "_item"];

impl<'a> Scope<'a> {
    /// What a name stands for: the nearest of what has it.
    pub(super) fn name(&self, name: &str) -> Option<&'a Value> {
        if let (Some(item), true) = (self.item, ITEM.contains(&name)) {
            return Some(item);
        }
        let output = self.ids.get(name).and_then(|node| self.output(*node));
        let given = || self.input.get(name);
        let whole = || (name == INPUT).then_some(self.input);
        output.or_else(given).or_else(whole)
    }

    /// These names, as far as they are known.
    pub(super) fn these(&self, names: &[String]) -> Value {
        let known = names
            .iter()
            .filter_map(|name| Some((name.clone(), self.name(name)?.clone())));
        Value::Object(known.collect())
    }

    /// About how many bytes these names stand for.
    pub(super) fn weight_of(&self, names: &[String]) -> usize {
        let known = names.iter().filter_map(|name| self.name(name));
        known.map(weight).fold(0, usize::saturating_add)
    }

    /// All names.
    pub(super) fn all(&self) -> Value {
        let all = self
            .each()
            .map(|(name, value)| (name.to_owned(), value.clone()));
        Value::Object(all.collect())
    }

    /// About how many bytes all names stand for.
    pub(super) fn weight(&self) -> usize {
        let all = self.each().map(|(_, value)| weight(value));
        all.fold(0, usize::saturating_add)
    }

    /// All names; of those that are there more than once, the last counts.
    fn each(&self) -> impl Iterator<Item = (&'a str, &'a Value)> {
        let whole = [(INPUT, self.input)].into_iter();
        let given = self.input.as_object().into_iter().flatten();
        let given = given.map(|(name, value)| (name.as_str(), value));
        let scope = *self;
        let outputs = self.ids.iter().filter_map(move |(id, node)| {
            let is_seen = scope.seen.is_none_or(|seen| seen.contains(node));
            let output = scope.output(*node).filter(|_| is_seen)?;
            Some((id.as_str(), output))
        });
        let items = ITEM
            .into_iter()
            .filter_map(move |name| Some((name, scope.item?)));
        whole.chain(given).chain(outputs).chain(items)
    }

    fn output(&self, node: usize) -> Option<&'a Value> {
        self.outputs.get(node)?.as_deref()
    }
}

/// How many bytes a value has, about: as JSON, without what separates its parts.
pub(super) fn weight(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(weight).fold(8, usize::saturating_add),
        Value::Object(members) => {
            let size = |(name, value): (&String, &Value)| name.len().saturating_add(weight(value));
            members.iter().map(size).fold(8, usize::saturating_add)
        }
    }
}
