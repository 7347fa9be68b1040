//! `frith tools pending` and `approve`: the operator's word on tools that have changed.

use a2e_runtime::DataDir;
use a2e_runtime::operator::{
    ApproveTool, ChangedTool, ChangedTools, Nothing, ShowTool, ToolChange, ask,
};
use anyhow::{Result, bail};
use audit::printable;
use clap::Subcommand;
use serde_json::{Value, json};

use crate::Outcome;
use crate::agent::print;
use crate::diff::{Line, diff};

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Show which tools of mounted hosts, components and scripts have changed since they were
    /// approved, and how: they are not served
    Pending,
    /// Approve tools as they are now; shows how they have changed
    Approve {
        /// Their names, from `frith tools pending`; the part after the slash does if it is the only
        /// one
        #[arg(required = true)]
        names: Vec<String>,
    },
}

pub(crate) async fn run(action: &Action, dir: &DataDir, as_json: bool) -> Result<Outcome> {
    let ChangedTools { tools } = ask(dir, "tools.pending", &Nothing {}).await?;
    match action {
        Action::Pending => {
            if tools.is_empty() && !as_json {
                print(&"no tool has changed since it was approved")?;
            }
            for tool in tools {
                show(&change(dir, tool.pin).await?, as_json)?;
            }
        }
        Action::Approve { names } => {
            let named: Result<Vec<&ChangedTool>> =
                names.iter().map(|name| find(&tools, name)).collect();
            for tool in named? {
                let change = change(dir, tool.pin.clone()).await?;
                show(&change, as_json)?;
                let seen = ApproveTool {
                    pin: change.tool.pin,
                    seen: change.tool.offered,
                };
                let Nothing {} = ask(dir, "tools.approve", &seen).await?;
                if !as_json {
                    print(&format!("approved {}", printable(&seen.pin)))?;
                }
            }
        }
    }
    Ok(Outcome::Good)
}

async fn change(dir: &DataDir, pin: String) -> Result<ToolChange> {
    Ok(ask(dir, "tools.show", &ShowTool { pin }).await?)
}

/// The tool that a name stands for.
fn find<'t>(tools: &'t [ChangedTool], name: &str) -> Result<&'t ChangedTool> {
    if let Some(tool) = tools.iter().find(|tool| tool.pin == name) {
        return Ok(tool);
    }
    let end = format!("/{name}");
    let found: Vec<&ChangedTool> = tools
        .iter()
        .filter(|tool| tool.pin.ends_with(&end))
        .collect();
    match found[..] {
        [tool] => Ok(tool),
        [] => bail!(
            "no tool `{name}` waits to be approved; `frith tools pending` shows those that do"
        ),
        _ => {
            let pins: Vec<&str> = found.iter().map(|tool| &*tool.pin).collect();
            bail!("`{name}` is one of {}; say which", pins.join(", "))
        }
    }
}

fn show(change: &ToolChange, as_json: bool) -> Result<()> {
    if as_json {
        return print(&json!(change));
    }
    let pin = printable(&change.tool.pin);
    print(&format!("{pin} has changed since it was approved"))?;
    let text = |text: &Option<String>| {
        let text = text.as_deref()?;
        let value: Value = serde_json::from_str(text).ok()?;
        serde_json::to_string_pretty(&value).ok()
    };
    let (Some(before), Some(now)) = (text(&change.before), text(&change.now)) else {
        let hash = |hash: Option<_>| hash.map_or_else(|| "?".into(), |hash| format!("{hash}"));
        print(&format!("  - {}", hash(change.tool.approved)))?;
        print(&format!("  + {}", hash(Some(change.tool.offered))))?;
        return print(&"  what it said, or what it says, is too large to be kept and shown");
    };
    for line in diff(&before, &now) {
        let (mark, text) = match line {
            Line::Same(text) => (' ', text),
            Line::Removed(text) => ('-', text),
            Line::Added(text) => ('+', text),
        };
        print(&format!("  {mark} {}", printable(text)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use canonical::Digest;

    use super::*;

    #[test]
    fn a_name_stands_for_one_tool() {
        let tool = |pin: &str| ChangedTool {
            pin: pin.into(),
            approved: None,
            offered: Digest::of(b""),
        };
        let tools = ["mounted:a/x", "mounted:b/x", "mounted:b/y"].map(tool);
        let found = |name| find(&tools, name).map(|tool| &*tool.pin).ok();
        assert_eq!(found("mounted:b/x"), Some("mounted:b/x"));
        assert_eq!(found("y"), Some("mounted:b/y"));
        assert_eq!((found("x"), found("z"), found("")), (None, None, None));
    }
}
