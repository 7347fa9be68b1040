//! The names that expressions of a chain know.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value};

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

    /// All names.
    pub(super) fn all(&self) -> Value {
        let mut all = Map::from_iter([(INPUT.to_owned(), self.input.clone())]);
        for (name, value) in self.input.as_object().into_iter().flatten() {
            all.insert(name.clone(), value.clone());
        }
        for (id, node) in self.ids {
            let is_seen = self.seen.is_none_or(|seen| seen.contains(node));
            if let (Some(output), true) = (self.output(*node), is_seen) {
                all.insert(id.clone(), output.clone());
            }
        }
        if let Some(item) = self.item {
            for name in ITEM {
                all.insert(name.to_owned(), item.clone());
            }
        }
        Value::Object(all)
    }

    fn output(&self, node: usize) -> Option<&'a Value> {
        self.outputs.get(node)?.as_deref()
    }
}
