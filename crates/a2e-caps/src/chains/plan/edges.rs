//! What nodes of a chain say of each other: whether it ends, whether all is reached, in which order.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::check::Problems;
use super::{Graph, Node, Work};

/// The nodes, before anybody knows whether they are a chain.
pub(super) struct Edges<'a> {
    pub(super) nodes: &'a [Node],
    pub(super) ids: &'a HashMap<String, usize>,
}

impl Edges<'_> {
    /// Checks a chain that is walked from a node.
    pub(super) fn walk(&self, entry: usize, problems: &mut Problems) {
        self.check_maps(problems);
        let after: Vec<Vec<usize>> = self
            .nodes
            .iter()
            .map(|node| each(node.leads_to()))
            .collect();
        let before = turned(&after);
        if let Err(cycle) = sorted(&before, &after, |_| true) {
            problems.cycle(self.told(&cycle));
        }
        let mut is_reached = vec![false; self.nodes.len()];
        let mut open = vec![entry];
        while let Some(node) = open.pop() {
            let reached = is_reached.get_mut(node).filter(|reached| !**reached);
            let (Some(reached), Some(node)) = (reached, self.nodes.get(node)) else {
                continue;
            };
            *reached = true;
            open.extend(node.leads_to());
            open.extend(target(node));
        }
        for (node, _) in self
            .nodes
            .iter()
            .zip(is_reached)
            .filter(|(_, reached)| !reached)
        {
            problems.add(format!("`{}` is never reached from the entry", node.id));
        }
    }

    /// Finds what waits for what.
    pub(super) fn graph(&self, problems: &mut Problems) -> Graph {
        self.check_maps(problems);
        let leads: Vec<Vec<usize>> = self
            .nodes
            .iter()
            .map(|node| each(node.leads_to()))
            .collect();
        let leading = turned(&leads);
        let mut is_target = vec![false; self.nodes.len()];
        for target in self.nodes.iter().filter_map(target) {
            if let Some(is_target) = is_target.get_mut(target) {
                *is_target = true;
            }
        }
        // What runs for items runs by itself only if something leads to it.
        let mut placed = leading.iter().zip(is_target);
        let runs: Vec<bool> = self
            .nodes
            .iter()
            .map(|_| {
                placed
                    .next()
                    .is_some_and(|(led, target)| !target || !led.is_empty())
            })
            .collect();
        let runs = |node: &usize| runs.get(*node).copied().unwrap_or_default();
        let before: Vec<Vec<usize>> = self
            .nodes
            .iter()
            .zip(&leading)
            .map(|(node, leading)| {
                let waits = leading.iter().copied().chain(self.needs(node));
                each(waits.filter(runs))
            })
            .collect();
        let after = turned(&before);
        let order = sorted(&before, &after, |node| runs(&node)).unwrap_or_else(|cycle| {
            problems.cycle(self.told(&cycle));
            Vec::new()
        });
        Graph {
            order,
            before,
            after,
            leading,
        }
    }

    /// The nodes that a node needs, and those that what it does for each item needs.
    fn needs(&self, node: &Node) -> Vec<usize> {
        let own = |node: &Node| {
            let named = node.names().filter_map(|name| self.ids.get(name).copied());
            let named =
                named.filter(|named| self.nodes.get(*named).is_some_and(|it| it.id != node.id));
            node.deps
                .iter()
                .copied()
                .chain(named)
                .collect::<Vec<usize>>()
        };
        let mut needs = own(node);
        if let Some(target) = target(node).and_then(|target| self.nodes.get(target)) {
            let items = own(target).into_iter();
            needs.extend(items.filter(|it| self.nodes.get(*it).is_some_and(|it| it.id != node.id)));
        }
        needs
    }

    fn check_maps(&self, problems: &mut Problems) {
        for node in self.nodes {
            let Some(target) = target(node).and_then(|target| self.nodes.get(target)) else {
                continue;
            };
            if matches!(target.work, Work::Branch { .. } | Work::Map { .. }) {
                let (id, target) = (&node.id, &target.id);
                problems.add(format!(
                    "`{id}` maps to `{target}`, which is a branch or a map; it must be a tool, a \
                     skill, a proc or a peer"
                ));
            }
        }
    }

    fn told(&self, cycle: &[usize]) -> String {
        const SHOWN: usize = 8;
        let names = cycle
            .iter()
            .take(SHOWN)
            .filter_map(|node| self.nodes.get(*node));
        let names: Vec<_> = names.map(|node| format!("`{}`", node.id)).collect();
        let more = if cycle.len() > SHOWN {
            " and others"
        } else {
            ""
        };
        format!("these go in a circle: {}{more}", names.join(" → "))
    }
}

/// What a map does for each item.
const fn target(node: &Node) -> Option<usize> {
    match &node.work {
        Work::Map { target, .. } => Some(*target),
        Work::Call(_) | Work::Branch { .. } | Work::Unknown(_) => None,
    }
}

/// Each once.
fn each(nodes: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut nodes: Vec<usize> = nodes.collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

fn turned(edges: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut turned = vec![Vec::new(); edges.len()];
    for (from, to) in edges.iter().enumerate() {
        for to in to {
            if let Some(back) = turned.get_mut(*to) {
                back.push(from);
            }
        }
    }
    turned
}

/// The nodes, each after those before it, and otherwise as they are listed; or a circle of them.
fn sorted(
    before: &[Vec<usize>],
    after: &[Vec<usize>],
    is_meant: impl Fn(usize) -> bool,
) -> Result<Vec<usize>, Vec<usize>> {
    let mut missing: Vec<usize> = before.iter().map(Vec::len).collect();
    let free = missing
        .iter()
        .enumerate()
        .filter(|(_, missing)| **missing == 0);
    let mut free: BinaryHeap<_> = free.map(|(node, _)| Reverse(node)).collect();
    let mut order = Vec::with_capacity(before.len());
    while let Some(Reverse(node)) = free.pop() {
        order.push(node);
        for next in after.get(node).into_iter().flatten() {
            if let Some(missing) = missing.get_mut(*next) {
                *missing = missing.saturating_sub(1);
                if *missing == 0 {
                    free.push(Reverse(*next));
                }
            }
        }
    }
    if order.len() == before.len() {
        order.retain(|node| is_meant(*node));
        return Ok(order);
    }
    Err(circle(before, &missing))
}

/// Goes back from a node that is never free until it comes where it was.
fn circle(before: &[Vec<usize>], missing: &[usize]) -> Vec<usize> {
    let is_bound = |node: &usize| missing.get(*node).is_some_and(|missing| *missing > 0);
    let mut node = missing.iter().position(|missing| *missing > 0);
    let mut position = vec![None; before.len()];
    let mut path = Vec::new();
    while let Some(at) = node {
        if let Some(Some(first)) = position.get(at).copied() {
            let mut cycle = path.split_off(first);
            cycle.reverse();
            return cycle;
        }
        if let Some(position) = position.get_mut(at) {
            *position = Some(path.len());
        }
        path.push(at);
        node = before
            .get(at)
            .and_then(|before| before.iter().copied().find(|it| is_bound(it)));
    }
    path
}
