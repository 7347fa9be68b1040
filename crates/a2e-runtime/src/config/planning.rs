//! The keys of a plugin of `type: planning`.

use super::read::Section;
use super::sections::set;

/// Plans of agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Planning {
    /// Whether all agents have the same plans; each has its own otherwise.
    pub shared: bool,
}

pub(super) fn planning(section: &mut Section<'_>) -> Planning {
    let mut planning = Planning::default();
    set(&mut planning.shared, section.field("shared"), |it| {
        it.boolean()
    });
    planning
}
