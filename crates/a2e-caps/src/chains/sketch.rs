//! A chain as it can be drawn: nodes in layers, and arrows between them.

use a2e_wire::messages::chain::ChainRequest;

use super::plan::{Kind, Limits, Node, OnError, Order, Plan, Work};

/// A chain to be drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sketch {
    /// Its nodes, in the order of the request.
    pub nodes: Vec<Drawn>,
}

/// A node to be drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drawn {
    /// Its name.
    pub id: String,
    /// What it does.
    pub what: String,
    /// How far from the beginning it stands: after all that lead to it.
    pub layer: usize,
    /// Where it leads.
    pub arrows: Vec<Arrow>,
}

/// Where a node leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrow {
    /// The other node, by its place among all.
    pub to: usize,
    /// When it does; nothing if always.
    pub when: &'static str,
}

impl Sketch {
    /// Checks a chain, and says how it can be drawn.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn of(chain: &ChainRequest<'_>, limits: Limits) -> Result<Self, String> {
        let plan = Plan::of(chain, limits).map_err(|problems| problems.to_string())?;
        let nodes = plan.nodes.iter().map(|node| Drawn {
            id: node.id.clone(),
            what: what(node),
            layer: 0,
            arrows: arrows(node),
        });
        let mut sketch = Self {
            nodes: nodes.collect(),
        };
        if let Order::Graph(graph) = &plan.order {
            for (to, before) in graph.before.iter().enumerate() {
                for from in before {
                    sketch.lead(*from, to);
                }
            }
        }
        sketch.lay_out();
        Ok(sketch)
    }

    /// Draws that a node waits for another, unless that leads to it anyway.
    fn lead(&mut self, from: usize, to: usize) {
        if let Some(node) = self.nodes.get_mut(from)
            && node.arrows.iter().all(|arrow| arrow.to != to)
        {
            node.arrows.push(Arrow { to, when: "" });
        }
    }

    /// Puts each node after all that lead to it.
    fn lay_out(&mut self) {
        let mut missing = vec![0_usize; self.nodes.len()];
        for arrow in self.nodes.iter().flat_map(|node| &node.arrows) {
            if let Some(count) = missing.get_mut(arrow.to) {
                *count += 1;
            }
        }
        let free = missing.iter().enumerate().filter(|(_, count)| **count == 0);
        let mut free: Vec<usize> = free.map(|(node, _)| node).collect();
        while let Some(node) = free.pop() {
            let Some(Drawn { layer, arrows, .. }) = self.nodes.get(node).cloned() else {
                continue;
            };
            for Arrow { to, .. } in arrows {
                if let (Some(next), Some(count)) = (self.nodes.get_mut(to), missing.get_mut(to)) {
                    next.layer = next.layer.max(layer + 1);
                    *count -= 1;
                    if *count == 0 {
                        free.push(to);
                    }
                }
            }
        }
    }
}

fn what(node: &Node) -> String {
    match &node.work {
        Work::Call(call) => {
            let kind = match call.kind {
                Kind::Tool => "tool",
                Kind::Skill => "skill",
                Kind::Proc => "proc",
                Kind::Peer => "peer",
            };
            format!("{kind} {}", call.name).trim_end().to_owned()
        }
        Work::Branch { .. } => "branch".to_owned(),
        Work::Map { .. } => "map".to_owned(),
        Work::Unknown(kind) => kind.clone(),
    }
}

fn arrows(node: &Node) -> Vec<Arrow> {
    let mut arrows: Vec<Arrow> = Vec::new();
    let mut lead = |to: Option<usize>, when| {
        if let Some(to) = to {
            arrows.push(Arrow { to, when });
        }
    };
    match &node.work {
        Work::Branch { yes, no, .. } => {
            lead(*yes, "if so");
            lead(*no, "if not");
        }
        Work::Map { target, .. } => lead(Some(*target), "for each"),
        Work::Call(_) | Work::Unknown(_) => {}
    }
    lead(node.next, "");
    if let OnError::Go(other) = node.on_error {
        lead(Some(other), "on error");
    }
    arrows
}
