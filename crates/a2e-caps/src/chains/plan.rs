//! A chain that was checked: all its names are nodes, and it ends.

mod check;
mod edges;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use a2e_wire::messages::chain::ChainRequest;
use serde_json::Value;

use super::expression::{Condition, Expression, Inputs};

pub(super) use check::Problems;
use edges::Edges;

/// How large chains may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Nodes of a chain.
    pub nodes: usize,
    /// What its nodes say of each other, all together.
    pub edges: usize,
    /// Items of a map.
    pub items: usize,
    /// How often a failed node is tried again.
    pub retries: u32,
    /// Bytes of all that its nodes give, items of maps included: a chain has it in memory. An expression
    /// that could make more of what it is given is not evaluated.
    pub output_bytes: usize,
    /// Bytes of what one call is made with: as much as an agent could send itself.
    pub input_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            nodes: 10_000,
            edges: 100_000,
            items: 100_000,
            retries: 10,
            output_bytes: 64 << 20,
            input_bytes: a2e_wire::MAX_LINE,
        }
    }
}

/// A chain that can be run.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) nodes: Vec<Node>,
    pub(super) ids: HashMap<String, usize>,
    /// What it is given, an object.
    pub(super) input: Value,
    pub(super) order: Order,
}

/// In which order nodes run.
#[derive(Debug)]
pub(super) enum Order {
    /// One after another.
    Walk { entry: usize },
    /// As soon as they can.
    Graph(Graph),
}

/// What nodes wait for.
#[derive(Debug, Default)]
pub(super) struct Graph {
    /// The nodes that run by themselves, each after all that it waits for.
    pub(super) order: Vec<usize>,
    /// What each waits for.
    pub(super) before: Vec<Vec<usize>>,
    /// What waits for each.
    pub(super) after: Vec<Vec<usize>>,
    /// The nodes that may lead to each.
    pub(super) leading: Vec<Vec<usize>>,
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) id: String,
    pub(super) work: Work,
    pub(super) next: Option<usize>,
    pub(super) on_error: OnError,
    pub(super) deps: Vec<usize>,
    pub(super) retries: u32,
    pub(super) backoff: Duration,
    /// Whether it may be done again without harm, if the chain says so.
    pub(super) idempotent: Option<bool>,
}

#[derive(Debug)]
pub(super) enum Work {
    Call(Call),
    Branch {
        condition: Condition,
        yes: Option<usize>,
        no: Option<usize>,
    },
    Map {
        items: Expression,
        target: usize,
    },
    /// Of a kind that nobody knows.
    Unknown(String),
}

#[derive(Debug)]
pub(super) struct Call {
    pub(super) kind: Kind,
    pub(super) name: String,
    pub(super) inputs: Inputs,
}

/// What is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Tool,
    Skill,
    Proc,
    Peer,
}

/// What happens when a node fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnError {
    Abort,
    Skip,
    Go(usize),
}

impl Plan {
    /// Checks a chain; whatever is wrong with it is said at once.
    pub(super) fn of(request: &ChainRequest<'_>, limits: Limits) -> Result<Self, Problems> {
        let mut problems = Problems::default();
        check::sizes(request, limits, &mut problems);
        if !problems.is_empty() {
            // What is too large is not looked at any further.
            return Err(problems);
        }
        let ids = check::ids(request, &mut problems);
        let input: Value = request
            .initial_input
            .raw()
            .deserialize()
            .unwrap_or_default();
        let reader = check::Reader {
            ids: &ids,
            input: &input,
            limits,
        };
        let nodes: Vec<Node> = request
            .nodes
            .iter()
            .map(|node| reader.node(node, &mut problems))
            .collect();
        let is_graph = request.nodes.iter().any(|node| node.deps.is_some());
        let entry = reader.entry(request, is_graph, &mut problems);
        let edges = Edges {
            nodes: &nodes,
            ids: &ids,
        };
        let order = match (is_graph, entry) {
            (true, _) => Order::Graph(edges.graph(&mut problems)),
            (false, Some(entry)) => {
                edges.walk(entry, &mut problems);
                Order::Walk { entry }
            }
            (false, None) => Order::Walk { entry: 0 },
        };
        match problems.is_empty() {
            true => Ok(Self {
                nodes,
                ids,
                input,
                order,
            }),
            false => Err(problems),
        }
    }

    /// Whether a node may be called again of which nobody knows whether it was done. `harmless` are
    /// the tools of which their definitions say so.
    pub(super) fn may_repeat(&self, node: usize, harmless: &HashSet<String>) -> bool {
        let Some(node) = self.nodes.get(node) else {
            return false;
        };
        node.idempotent.unwrap_or_else(|| match &node.work {
            Work::Call(call) => call.kind == Kind::Tool && harmless.contains(&call.name),
            Work::Branch { .. } | Work::Map { .. } | Work::Unknown(_) => false,
        })
    }

    /// What is called by such nodes, each name once.
    pub(super) fn called(&self, kind: Kind) -> Vec<&str> {
        let mut names: Vec<&str> = self
            .nodes
            .iter()
            .filter_map(|node| match &node.work {
                Work::Call(call) if call.kind == kind => Some(call.name.as_str()),
                Work::Call(_) | Work::Branch { .. } | Work::Map { .. } | Work::Unknown(_) => None,
            })
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

impl Node {
    /// The nodes that it may lead to.
    pub(super) fn leads_to(&self) -> impl Iterator<Item = usize> {
        let (yes, no) = match &self.work {
            Work::Branch { yes, no, .. } => (*yes, *no),
            Work::Call(_) | Work::Map { .. } | Work::Unknown(_) => (None, None),
        };
        let other = match self.on_error {
            OnError::Go(node) => Some(node),
            OnError::Abort | OnError::Skip => None,
        };
        [yes, no, self.next, other].into_iter().flatten()
    }

    /// The names that its expressions reach.
    pub(super) fn names(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        match &self.work {
            Work::Call(call) => {
                let mapped = call.inputs.mapped.iter();
                Box::new(mapped.flat_map(|(_, expression)| expression.names()))
            }
            Work::Branch { condition, .. } => Box::new(condition.names()),
            Work::Map { items, .. } => Box::new(items.names()),
            Work::Unknown(_) => Box::new(std::iter::empty()),
        }
    }
}
