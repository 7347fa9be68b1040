//! Reads the nodes of a chain, and says all that is wrong with them.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use a2e_wire::messages::chain::{ChainNode, ChainNodeKind, ChainOnError, ChainRequest};
use a2e_wire::{ErrorCode, NodeId};
use serde_json::{Map, Value};

use super::{Call, Condition, Expression, Inputs, Kind, Limits, Node, OnError, Work};
use crate::chains::scope::ITEM;

/// What is wrong with a chain.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(in crate::chains) struct Problems {
    texts: Vec<String>,
    has_bad_entry: bool,
    has_cycle: bool,
}

/// Problems that are told one by one.
const TOLD: usize = 20;
/// The longest wait before the first of several attempts, in milliseconds.
const MAX_BACKOFF: u64 = 60_000;
/// The wait before the first of several attempts, if the node says nothing, in milliseconds.
const BACKOFF: u64 = 100;

impl Problems {
    pub(in crate::chains) const fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    pub(in crate::chains) fn add(&mut self, text: impl Into<String>) {
        self.texts.push(text.into());
    }

    pub(super) fn bad_entry(&mut self, text: impl Into<String>) {
        self.has_bad_entry = true;
        self.add(text);
    }

    pub(super) fn cycle(&mut self, text: impl Into<String>) {
        self.has_cycle = true;
        self.add(text);
    }

    pub(in crate::chains) const fn code(&self) -> ErrorCode<'static> {
        match (self.has_bad_entry, self.has_cycle) {
            (true, _) => ErrorCode::BadEntry,
            (false, true) => ErrorCode::ChainCycle,
            (false, false) => ErrorCode::ChainError,
        }
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, text) in self.texts.iter().take(TOLD).enumerate() {
            let between = if number == 0 { "" } else { "; " };
            write!(f, "{between}{text}")?;
        }
        match self.texts.len().saturating_sub(TOLD) {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

pub(super) fn sizes(request: &ChainRequest<'_>, limits: Limits, problems: &mut Problems) {
    let count = request.nodes.len();
    if count > limits.nodes {
        let most = limits.nodes;
        problems.add(format!("a chain has at most {most} nodes, not {count}"));
    }
    let deps = request.nodes.iter().filter_map(|node| node.deps.as_ref());
    let edges: usize = deps.map(Vec::len).sum();
    if edges > limits.edges {
        let most = limits.edges;
        problems.add(format!("its nodes have {edges} `deps`, more than {most}"));
    }
}

pub(super) fn ids(request: &ChainRequest<'_>, problems: &mut Problems) -> HashMap<String, usize> {
    let mut ids = HashMap::with_capacity(request.nodes.len());
    for (position, node) in request.nodes.iter().enumerate() {
        let id = node.node_id.as_str();
        if id.is_empty() {
            problems.add(format!("node {position} (counted from 0) has no `node_id`"));
        } else if ids.insert(id.to_owned(), position).is_some() {
            problems.add(format!("two nodes are called `{id}`"));
        }
    }
    ids
}

/// Reads nodes.
pub(super) struct Reader<'a> {
    pub(super) ids: &'a HashMap<String, usize>,
    pub(super) input: &'a Value,
    pub(super) limits: Limits,
}

impl Reader<'_> {
    pub(super) fn entry(
        &self,
        request: &ChainRequest<'_>,
        is_graph: bool,
        problems: &mut Problems,
    ) -> Option<usize> {
        let entry = request.entry_node.as_str();
        let found = self.ids.get(entry).copied();
        match (found, entry.is_empty()) {
            (None, true) if !is_graph => {
                problems.bad_entry("`entry_node` is empty; it names the node to begin with");
            }
            (None, false) => {
                problems.bad_entry(format!("there is no node `{entry}` to begin with"))
            }
            (Some(_), _) | (None, true) => {}
        }
        found
    }

    pub(super) fn node(&self, node: &ChainNode<'_>, problems: &mut Problems) -> Node {
        let deps = node.deps.iter().flatten();
        let mut deps: Vec<usize> = deps
            .filter_map(|dep| self.known(node, "deps", dep, problems))
            .collect();
        deps.sort_unstable();
        deps.dedup();
        let retries = u32::try_from(node.retries.unwrap_or_default()).unwrap_or_default();
        if retries > self.limits.retries {
            let (id, most) = (&node.node_id, self.limits.retries);
            problems.add(format!("`{id}`: `retries` is more than {most}"));
        }
        let backoff = node.backoff_ms.and_then(|ms| u64::try_from(ms).ok());
        Node {
            id: node.node_id.as_str().to_owned(),
            work: self.work(node, problems),
            next: self.known(node, "next_node", &node.next_node, problems),
            on_error: self.on_error(node, problems),
            deps,
            retries,
            idempotent: node.idempotent,
            backoff: Duration::from_millis(backoff.unwrap_or(BACKOFF).min(MAX_BACKOFF)),
        }
    }

    /// The node of that name; nothing for no name.
    fn known(
        &self,
        node: &ChainNode<'_>,
        member: &str,
        name: &NodeId<'_>,
        problems: &mut Problems,
    ) -> Option<usize> {
        let found = self.ids.get(name.as_str()).copied();
        if found.is_none() && !name.is_empty() {
            let id = &node.node_id;
            problems.add(format!(
                "`{id}`: `{member}` names `{name}`, which is no node"
            ));
        }
        found
    }

    fn on_error(&self, node: &ChainNode<'_>, problems: &mut Problems) -> OnError {
        match &node.on_error {
            ChainOnError::Abort => OnError::Abort,
            ChainOnError::Skip => OnError::Skip,
            ChainOnError::Other(name) => {
                let name = NodeId::from(name.as_ref());
                let target = self.known(node, "on_error", &name, problems);
                target.map_or(OnError::Abort, OnError::Go)
            }
        }
    }

    fn work(&self, node: &ChainNode<'_>, problems: &mut Problems) -> Work {
        let kind = match &node.kind {
            ChainNodeKind::Tool => Kind::Tool,
            ChainNodeKind::Skill => Kind::Skill,
            ChainNodeKind::Proc => Kind::Proc,
            ChainNodeKind::Peer => Kind::Peer,
            ChainNodeKind::Branch => return self.branch(node, problems),
            ChainNodeKind::Map => return self.map(node, problems),
            ChainNodeKind::Other(kind) => return Work::Unknown(kind.clone().into_owned()),
        };
        if node.name.is_empty() && kind != Kind::Proc {
            problems.add(format!(
                "`{}` does not say in `name` what it calls",
                node.node_id
            ));
        }
        Work::Call(Call {
            kind,
            name: node.name.clone().into_owned(),
            inputs: self.inputs(node, problems),
        })
    }

    fn inputs(&self, node: &ChainNode<'_>, problems: &mut Problems) -> Inputs {
        let object = |raw: &a2e_wire::Raw<'_>| -> Map<String, Value> {
            raw.deserialize().unwrap_or_default()
        };
        let is_known = |name: &str| {
            let is_given = self.input.get(name).is_some() || name == "input";
            is_given || self.ids.contains_key(name) || ITEM.contains(&name)
        };
        let mapped = object(node.input_map.raw()).into_iter();
        Inputs {
            fixed: object(node.input.raw()),
            mapped: mapped
                .map(|(name, value)| {
                    let read = Expression::mapped(value, is_known);
                    let member = format!("input_map.{name}");
                    (name, or_problem(read, node, &member, problems))
                })
                .collect(),
        }
    }

    fn branch(&self, node: &ChainNode<'_>, problems: &mut Problems) -> Work {
        let condition = Condition::parse(&node.condition).unwrap_or_else(|problem| {
            problems.add(format!("`{}`: `condition`: {problem}", node.node_id));
            Condition::Always
        });
        Work::Branch {
            condition,
            yes: self.known(node, "true_node", &node.true_node, problems),
            no: self.known(node, "false_node", &node.false_node, problems),
        }
    }

    fn map(&self, node: &ChainNode<'_>, problems: &mut Problems) -> Work {
        let items = Expression::evaluated(&node.items_path);
        let items = or_problem(items, node, "items_path", problems);
        if node.map_node.is_empty() {
            let id = &node.node_id;
            problems.add(format!("`{id}` does not say in `map_node` what it does"));
        }
        let target = self.known(node, "map_node", &node.map_node, problems);
        Work::Map {
            items,
            target: target.unwrap_or_default(),
        }
    }
}

fn or_problem(
    read: Result<Expression, String>,
    node: &ChainNode<'_>,
    member: &str,
    problems: &mut Problems,
) -> Expression {
    read.unwrap_or_else(|problem| {
        problems.add(format!("`{}`: `{member}`: {problem}", node.node_id));
        Expression::Literal(Value::Null)
    })
}
