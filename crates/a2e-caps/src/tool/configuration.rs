//! What a tool is configured with, beside what it says of itself.

use std::sync::Arc;

use a2e_runtime::BoxFuture;
use canonical::Digest;
use serde_json::Value;

use super::{Call, Content, Definition, Output, Tool, ToolFailure};

/// What a tool is configured with: two tools that say the same may do it to different databases. An
/// approval of a call covers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolConfiguration {
    digest: Digest,
    shown: Value,
}

impl ToolConfiguration {
    /// The digest is of all of it, secrets included; what the operator is shown has none.
    #[must_use]
    pub fn new(all: &Value, shown: Value) -> Self {
        let digest = Digest::of(all.to_string().as_bytes());
        Self { digest, shown }
    }

    /// Of all of it.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// As the operator sees it.
    #[must_use]
    pub const fn shown(&self) -> &Value {
        &self.shown
    }
}

/// A tool whose configuration its source knows.
struct Configured {
    tool: Arc<dyn Tool>,
    configuration: ToolConfiguration,
}

impl ToolConfiguration {
    /// The same tools, configured so.
    #[must_use]
    pub fn of(self, tools: Vec<Arc<dyn Tool>>) -> Vec<Arc<dyn Tool>> {
        let configured = |tool: Arc<dyn Tool>| -> Arc<dyn Tool> {
            let configuration = self.clone();
            Arc::new(Configured {
                tool,
                configuration,
            })
        };
        tools.into_iter().map(configured).collect()
    }
}

impl Tool for Configured {
    fn definition(&self) -> &Definition {
        self.tool.definition()
    }

    fn content(&self) -> Option<Content> {
        self.tool.content()
    }

    fn configuration(&self) -> Option<ToolConfiguration> {
        Some(self.configuration.clone())
    }

    fn call(&self, call: Call) -> BoxFuture<'_, Result<Output, ToolFailure>> {
        self.tool.call(call)
    }
}
