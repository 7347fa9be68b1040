//! Runs a chain without running anything: says which calls are due, and what comes of their outcomes.
//!
//! It knows no clock and waits for nobody. Whoever drives it takes [`Machine::poll_event`] until there
//! is none, then [`Machine::poll_task`] as long as he has room, and tells the outcome of each task by
//! [`Machine::finish`], in whatever order they come.

mod maps;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::plan::{Limits, Node, OnError, Order, Plan, Work};
use super::scope::{Scope, weight};

use maps::Mapping;

/// A chain on its way.
#[derive(Debug)]
pub(super) struct Machine {
    plan: Arc<Plan>,
    limits: Limits,
    /// Calls of one map that run at a time.
    abreast: usize,
    /// What nodes gave; null if they failed.
    outputs: Vec<Option<Arc<Value>>>,
    ways: Vec<Option<Way>>,
    /// How many nodes each still waits for.
    missing: Vec<usize>,
    ready: VecDeque<usize>,
    maps: HashMap<usize, Mapping>,
    /// Maps with items that nobody has taken yet.
    open: VecDeque<usize>,
    events: VecDeque<Event>,
    running: usize,
    /// Bytes of what nodes gave, about.
    given: usize,
    /// The last node of a walk.
    last: Option<usize>,
    has_failed: bool,
    aborted: Option<String>,
}

/// How a node ended, for those after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// It goes on as the chain says.
    On(Option<usize>),
    /// It failed, and another node deals with that.
    Aside(usize),
    /// Nothing led to it.
    Never,
}

/// Which run of a node it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Place {
    /// Where it stands in the plan.
    pub(super) node: usize,
    /// Of a map, for which item.
    pub(super) item: Option<usize>,
}

/// A call that is due.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Task {
    pub(super) place: Place,
    /// The node that says what is called: of a map, not itself.
    pub(super) call: usize,
    pub(super) input: Map<String, Value>,
}

/// Something that whoever watches is told.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Event {
    pub(super) node: usize,
    pub(super) item: Option<usize>,
    pub(super) phase: Phase,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Phase {
    Start,
    Done(Arc<Value>),
    Error(String),
    Skip,
}

/// What became of a chain.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ended {
    pub(super) success: bool,
    pub(super) outputs: Vec<(String, Arc<Value>)>,
    pub(super) last: Arc<Value>,
    pub(super) aborted: Option<String>,
}

impl Machine {
    pub(super) fn new(plan: Arc<Plan>, limits: Limits, abreast: usize) -> Self {
        let count = plan.nodes.len();
        let (ready, missing) = match &plan.order {
            Order::Walk { entry } => (VecDeque::from([*entry]), Vec::new()),
            Order::Graph(graph) => {
                let is_free = |node: &usize| graph.before.get(*node).is_some_and(Vec::is_empty);
                let free = graph.order.iter().copied().filter(is_free).collect();
                (free, graph.before.iter().map(Vec::len).collect())
            }
        };
        Self {
            plan,
            limits,
            abreast: abreast.max(1),
            outputs: vec![None; count],
            ways: vec![None; count],
            missing,
            ready,
            maps: HashMap::new(),
            open: VecDeque::new(),
            events: VecDeque::new(),
            running: 0,
            given: 0,
            last: None,
            has_failed: false,
            aborted: None,
        }
    }

    /// The next thing to tell. Ask again after every other call.
    pub(super) fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The next call that is due; nothing while those that run must end first. Ask for events before
    /// it is run.
    pub(super) fn poll_task(&mut self) -> Option<Task> {
        let plan = Arc::clone(&self.plan);
        while self.aborted.is_none() {
            if let Some(task) = self.poll_item(&plan) {
                return Some(task);
            }
            let index = self.ready.pop_front()?;
            let node = plan.nodes.get(index)?;
            if let Some(task) = self.begin(&plan, index, node) {
                return Some(task);
            }
        }
        None
    }

    /// Whether nothing is left to do.
    pub(super) fn is_over(&self) -> bool {
        let is_done = self.running == 0 && self.ready.is_empty() && self.open.is_empty();
        self.aborted.is_some() || is_done
    }

    /// A call has ended.
    pub(super) fn finish(&mut self, place: Place, outcome: Result<Value, String>) {
        self.running = self.running.saturating_sub(1);
        if self.aborted.is_some() || self.is_too_much(&outcome) {
            return;
        }
        match place.item {
            Some(item) => self.finish_item(place.node, item, outcome),
            None => self.settle(place.node, outcome),
        }
    }

    /// Whether a chain now has more than it may; then it is over.
    fn is_too_much(&mut self, outcome: &Result<Value, String>) -> bool {
        // Why nodes failed is kept too, and may be as long as whoever failed likes.
        let size = outcome.as_ref().map_or_else(String::len, weight);
        self.given = self.given.saturating_add(size);
        let most = self.limits.output_bytes;
        if self.given > most {
            self.has_failed = true;
            self.aborted = Some(format!(
                "all that its nodes give has more than {most} bytes; have them write into files, and \
                 give what these are called"
            ));
        }
        self.given > most
    }

    /// What has become of the chain.
    pub(super) fn ended(&self) -> Ended {
        let nodes = self.plan.nodes.iter().zip(&self.outputs);
        let outputs = nodes.filter_map(|(node, output)| Some((node.id.clone(), output.clone()?)));
        let last = match &self.plan.order {
            Order::Walk { .. } => self.last,
            // Of what ran at the same time nobody can say what was last.
            Order::Graph(graph) => {
                let mut order = graph.order.iter().rev().copied();
                order.find(|node| self.outputs.get(*node).is_some_and(Option::is_some))
            }
        };
        let last = last.and_then(|node| self.outputs.get(node)?.clone());
        Ended {
            success: !self.has_failed,
            outputs: outputs.collect(),
            last: last.unwrap_or_default(),
            aborted: self.aborted.clone(),
        }
    }

    fn begin(&mut self, plan: &Plan, index: usize, node: &Node) -> Option<Task> {
        let scope = self.scope(plan, index, None);
        match &node.work {
            Work::Call(call) => {
                let input = call.inputs.compose(&scope);
                self.tell(index, None, Phase::Start);
                match input {
                    Ok(input) => return Some(self.task(index, None, index, input)),
                    Err(problem) => self.settle(index, Err(problem)),
                }
            }
            Work::Branch { condition, yes, no } => match condition.holds(&scope) {
                Ok(holds) => {
                    self.last = Some(index);
                    self.leave(index, Way::On(if holds { *yes } else { *no }));
                }
                Err(problem) => self.settle(index, Err(problem)),
            },
            Work::Map { items, target } => {
                let items = items.value(&scope).map(std::borrow::Cow::into_owned);
                self.tell(index, None, Phase::Start);
                match items.and_then(|items| self.listed(items)) {
                    Ok(items) => self.open_map(index, items, *target),
                    Err(problem) => self.settle(index, Err(problem)),
                }
            }
            Work::Unknown(kind) => {
                self.tell(index, None, Phase::Start);
                let problem = format!("there are no nodes of the kind `{kind}`");
                self.settle(index, Err(problem));
            }
        }
        None
    }

    /// A node has ended.
    fn settle(&mut self, index: usize, outcome: Result<Value, String>) {
        let plan = Arc::clone(&self.plan);
        let Some(node) = plan.nodes.get(index) else {
            return;
        };
        self.last = Some(index);
        let (output, way) = match outcome {
            Ok(value) => {
                let value = Arc::new(value);
                self.tell(index, None, Phase::Done(Arc::clone(&value)));
                (value, Way::On(node.next))
            }
            Err(problem) => {
                self.has_failed = true;
                self.tell(index, None, Phase::Error(problem.clone()));
                let way = match node.on_error {
                    OnError::Abort => {
                        self.aborted = Some(format!("`{}` failed: {problem}", node.id));
                        Way::On(None)
                    }
                    OnError::Skip => {
                        self.tell(index, None, Phase::Skip);
                        Way::On(node.next)
                    }
                    OnError::Go(other) => Way::Aside(other),
                };
                (Arc::default(), way)
            }
        };
        if let Some(slot) = self.outputs.get_mut(index) {
            *slot = Some(output);
        }
        self.leave(index, way);
    }

    /// Lets those run for which a node was the last to wait for.
    fn leave(&mut self, index: usize, way: Way) {
        if self.aborted.is_some() {
            return;
        }
        let plan = Arc::clone(&self.plan);
        let graph = match &plan.order {
            Order::Graph(graph) => graph,
            Order::Walk { .. } => {
                let next = match way {
                    Way::On(next) => next,
                    Way::Aside(other) => Some(other),
                    Way::Never => None,
                };
                return self.ready.extend(next);
            }
        };
        let mut left = vec![(index, way)];
        while let Some((index, way)) = left.pop() {
            if let Some(slot) = self.ways.get_mut(index) {
                *slot = Some(way);
            }
            for next in graph.after.get(index).into_iter().flatten().copied() {
                let Some(missing) = self.missing.get_mut(next) else {
                    continue;
                };
                *missing = missing.saturating_sub(1);
                if *missing > 0 {
                    continue;
                }
                let leading = graph.leading.get(next).map_or(&[][..], Vec::as_slice);
                let deps = plan.nodes.get(next).map_or(&[][..], |node| &node.deps);
                match self.is_wanted(next, leading, deps) {
                    true => self.ready.push_back(next),
                    false => left.push((next, Way::Never)),
                }
            }
        }
    }

    /// Whether a node of a graph runs, now that all it waits for has ended: something led to it, if
    /// anything might have, and something that it depends on was done.
    fn is_wanted(&self, index: usize, leading: &[usize], deps: &[usize]) -> bool {
        let way = |node: &usize| self.ways.get(*node).copied().flatten();
        let leads = |node: &usize| match way(node) {
            Some(Way::On(next)) => next == Some(index),
            Some(Way::Aside(other)) => other == index,
            Some(Way::Never) | None => false,
        };
        let is_done = |node: &usize| matches!(way(node), Some(Way::On(_)));
        let is_led = leading.is_empty() || leading.iter().any(leads);
        is_led && (deps.is_empty() || deps.iter().any(is_done))
    }

    fn task(
        &mut self,
        index: usize,
        item: Option<usize>,
        call: usize,
        input: Map<String, Value>,
    ) -> Task {
        self.running = self.running.saturating_add(1);
        let place = Place { node: index, item };
        Task { place, call, input }
    }

    fn tell(&mut self, node: usize, item: Option<usize>, phase: Phase) {
        self.events.push_back(Event { node, item, phase });
    }

    fn scope<'s>(&'s self, plan: &'s Plan, index: usize, item: Option<&'s Value>) -> Scope<'s> {
        let seen = match &plan.order {
            Order::Walk { .. } => None,
            Order::Graph(graph) => graph.before.get(index).map(Vec::as_slice),
        };
        Scope {
            input: &plan.input,
            ids: &plan.ids,
            outputs: &self.outputs,
            seen,
            item,
            limits: self.limits,
        }
    }
}

#[cfg(test)]
mod tests;
