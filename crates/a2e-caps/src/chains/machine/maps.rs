//! Nodes that run for each item of a list.

use std::sync::Arc;

use serde_json::Value;

use super::{Machine, Phase, Task};
use crate::chains::plan::{Plan, Work};

/// A map on its way.
#[derive(Debug)]
pub(super) struct Mapping {
    items: Vec<Value>,
    target: usize,
    next: usize,
    running: usize,
    results: Vec<Option<Arc<Value>>>,
}

impl Machine {
    /// What is no list is a list of one.
    pub(super) fn listed(&self, items: Value) -> Result<Vec<Value>, String> {
        let items = match items {
            Value::Array(items) => items,
            item @ (Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Object(_)) => vec![item],
        };
        match (items.len(), self.limits.items) {
            (count, most) if count > most => {
                Err(format!("a map has at most {most} items, not {count}"))
            }
            _ => Ok(items),
        }
    }

    pub(super) fn open_map(&mut self, index: usize, items: Vec<Value>, target: usize) {
        if items.is_empty() {
            return self.settle(index, Ok(Value::Array(Vec::new())));
        }
        let mapping = Mapping {
            results: vec![None; items.len()],
            items,
            target,
            next: 0,
            running: 0,
        };
        self.maps.insert(index, mapping);
        self.open.push_back(index);
    }

    /// The next item of a map that has room. Maps take turns.
    pub(super) fn poll_item(&mut self, plan: &Plan) -> Option<Task> {
        for _ in 0..self.open.len() {
            let index = self.open.pop_front()?;
            let (abreast, mapping) = (self.abreast, self.maps.get_mut(&index)?);
            if mapping.running >= abreast {
                self.open.push_back(index);
                continue;
            }
            let (number, target) = (mapping.next, mapping.target);
            let item = mapping.items.get_mut(number).map(Value::take)?;
            mapping.next = mapping.next.saturating_add(1);
            mapping.running = mapping.running.saturating_add(1);
            if mapping.next < mapping.items.len() {
                self.open.push_back(index);
            }
            self.tell(target, Some(number), Phase::Start);
            let work = plan.nodes.get(target).map(|node| &node.work);
            let composed = match work {
                Some(Work::Call(call)) => {
                    let scope = self.scope(plan, index, Some(&item));
                    call.inputs.compose(&scope)
                }
                Some(Work::Unknown(kind)) => {
                    Err(format!("there are no nodes of the kind `{kind}`"))
                }
                Some(Work::Branch { .. } | Work::Map { .. }) | None => {
                    Err("a map cannot run this for its items".to_owned())
                }
            };
            match composed {
                Ok(input) => return Some(self.task(index, Some(number), target, input)),
                Err(problem) => self.finish_item(index, number, Err(problem)),
            }
        }
        None
    }

    pub(super) fn finish_item(
        &mut self,
        index: usize,
        item: usize,
        outcome: Result<Value, String>,
    ) {
        let Some(mapping) = self.maps.get_mut(&index) else {
            return;
        };
        mapping.running = mapping.running.saturating_sub(1);
        let target = mapping.target;
        let is_last = mapping.running == 0 && mapping.next >= mapping.items.len();
        let phase = match outcome {
            Ok(value) => {
                let value = Arc::new(value);
                if let Some(result) = mapping.results.get_mut(item) {
                    *result = Some(Arc::clone(&value));
                }
                Phase::Done(value)
            }
            Err(problem) => {
                // It is left out, and the chain goes on.
                self.has_failed = true;
                Phase::Error(problem)
            }
        };
        self.tell(target, Some(item), phase);
        if is_last && let Some(mapping) = self.maps.remove(&index) {
            let results = mapping.results.into_iter().flatten();
            let results = results.map(Arc::unwrap_or_clone).collect();
            self.settle(index, Ok(Value::Array(results)));
        }
    }
}
