//! Tools as parts of a toolkit.

use std::sync::Arc;

use a2e_runtime::BoxFuture;

use crate::tool::{Call, Definition, Output, Tool, ToolConfiguration, ToolFailure};

/// A tool with another definition.
pub(super) struct Bundled {
    pub(super) definition: Definition,
    pub(super) tool: Arc<dyn Tool>,
    /// What the toolkit is configured with.
    pub(super) configuration: ToolConfiguration,
}

/// The tools as those of a toolkit. What they give is never given again: the next configuration may
/// make something else of the same call.
pub(super) fn bundled(
    toolkit: &str,
    tools: Vec<Arc<dyn Tool>>,
    configuration: &ToolConfiguration,
) -> Vec<Arc<dyn Tool>> {
    let bundle = |tool: Arc<dyn Tool>| -> Arc<dyn Tool> {
        let definition = tool.definition().clone().toolkit(toolkit).volatile();
        Arc::new(Bundled {
            definition,
            tool,
            configuration: configuration.clone(),
        })
    };
    tools.into_iter().map(bundle).collect()
}

impl Tool for Bundled {
    fn definition(&self) -> &Definition {
        &self.definition
    }

    fn configuration(&self) -> Option<ToolConfiguration> {
        Some(self.configuration.clone())
    }

    fn call(&self, call: Call) -> BoxFuture<'_, Result<Output, ToolFailure>> {
        self.tool.call(call)
    }
}
