//! Chains: keys of a plugin of the type `chains`.

use super::read::Section;
use super::sections::set;

/// How chains run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chains {
    /// Whether they are kept, so that they go on after the end of the process.
    pub durable: bool,
    /// Nodes of one chain that run at a time, items of maps included.
    pub max_parallel: usize,
    /// Nodes of a chain.
    pub max_nodes: usize,
    /// Items of a map.
    pub max_items: usize,
}

impl Default for Chains {
    fn default() -> Self {
        Self {
            durable: true,
            max_parallel: 8,
            max_nodes: 10_000,
            max_items: 100_000,
        }
    }
}

/// Reads them.
pub(super) fn chains(section: &mut Section<'_>) -> Chains {
    let mut chains = Chains::default();
    set(&mut chains.durable, section.field("durable"), |it| {
        it.boolean()
    });
    let fields = [
        ("max_parallel", &mut chains.max_parallel, 256),
        ("max_nodes", &mut chains.max_nodes, 100_000),
        ("max_items", &mut chains.max_items, 1_000_000),
    ];
    for (name, slot, most) in fields {
        set(slot, section.field(name), |it| it.count(1..=most));
    }
    chains
}
