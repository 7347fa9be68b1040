//! `tools.pending`, `tools.show`, `tools.approve`.

use std::sync::Arc;

use canonical::Digest;
use serde::{Deserialize, Serialize};

use super::{Nothing, Operations};
use crate::definitions::{Changed, Definitions};

/// The answer to `tools.pending`, which needs [`Nothing`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ChangedTools {
    /// The tools that wait to be approved, by name.
    pub tools: Vec<ChangedTool>,
}

/// A tool that has changed since it was approved, or is new.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedTool {
    /// Names it here: its source, a slash, its name.
    pub pin: String,
    /// What was approved.
    pub approved: Option<Digest>,
    /// What it says now.
    pub offered: Digest,
    /// If it is new, the tool that it could be taken for: its name, and where that comes from.
    #[serde(default)]
    pub looks_like: Option<String>,
}

/// The request of `tools.show`; the answer is a [`ToolChange`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShowTool {
    /// The tool.
    pub pin: String,
}

/// How a tool has changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolChange {
    /// Which it is.
    pub tool: ChangedTool,
    /// What it said when it was approved, as JSON; nothing if that is not known.
    pub before: Option<String>,
    /// What it says now, likewise.
    pub now: Option<String>,
}

/// The request of `tools.approve`; the answer is [`Nothing`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApproveTool {
    /// The tool.
    pub pin: String,
    /// What the operator has seen of it: exactly that is approved.
    pub seen: Digest,
}

impl From<Changed> for ChangedTool {
    fn from(changed: Changed) -> Self {
        let Changed {
            pin,
            approved,
            offered,
            looks_like,
        } = changed;
        Self {
            pin,
            approved,
            offered,
            looks_like,
        }
    }
}

impl Operations {
    /// Adds the operations on tools that have changed. `approved` is told of each that is served
    /// from now on.
    #[must_use]
    pub fn with_definitions(
        self,
        definitions: &Definitions,
        approved: impl Fn(&str, Digest) + Send + Sync + 'static,
    ) -> Self {
        let (listing, showing, approving) = (
            definitions.clone(),
            definitions.clone(),
            definitions.clone(),
        );
        let approved = Arc::new(approved);
        self.add("tools.pending", move |_: Nothing| {
            let definitions = listing.clone();
            async move {
                let tools = changed(&definitions).await?;
                Ok(ChangedTools { tools })
            }
        })
        .add("tools.show", move |request: ShowTool| {
            let definitions = showing.clone();
            async move { show(&definitions, &request.pin).await }
        })
        .add("tools.approve", move |request: ApproveTool| {
            let (definitions, approved) = (approving.clone(), Arc::clone(&approved));
            async move {
                let ApproveTool { pin, seen } = request;
                let done = definitions.approve(&pin, seen).await;
                match done.map_err(|error| error.to_string())? {
                    true => approved(&pin, seen),
                    false => return Err(not_this(&pin)),
                }
                Ok(Nothing {})
            }
        })
    }
}

async fn changed(definitions: &Definitions) -> Result<Vec<ChangedTool>, String> {
    let changed = definitions.changed().await;
    let changed = changed.map_err(|error| error.to_string())?;
    Ok(changed.into_iter().map(ChangedTool::from).collect())
}

async fn show(definitions: &Definitions, pin: &str) -> Result<ToolChange, String> {
    let all = changed(definitions).await?;
    let tool = all.into_iter().find(|tool| tool.pin == pin);
    let tool = tool.ok_or_else(|| not_this(pin))?;
    let before = match tool.approved {
        Some(hash) => text(definitions, pin, hash).await?,
        None => None,
    };
    let now = text(definitions, pin, tool.offered).await?;
    Ok(ToolChange { tool, before, now })
}

async fn text(
    definitions: &Definitions,
    pin: &str,
    hash: Digest,
) -> Result<Option<String>, String> {
    let text = definitions.text(pin, hash).await;
    text.map_err(|error| error.to_string())
}

fn not_this(pin: &str) -> String {
    let pin: String = pin.chars().take(64).collect();
    format!(
        "no such change of `{pin}` waits to be approved; `frith tools pending` shows those that do"
    )
}
