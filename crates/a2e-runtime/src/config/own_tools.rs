//! Tools that an operator describes without code: keys of a plugin of the type `tools`.

use super::read::Section;
use super::sections::{Reader, command_tools};
use super::{CommandTool, ComponentTool};

/// Tools of the operator's own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OwnTools {
    /// Commands with places for arguments.
    pub commands: Vec<CommandTool>,
    /// WebAssembly components.
    pub components: Vec<ComponentTool>,
}

impl Reader<'_> {
    pub(super) fn own_tools(&self, section: &mut Section<'_>) -> OwnTools {
        OwnTools {
            commands: command_tools(section),
            components: self.component_tools(section),
        }
    }
}
