//! `frith tools pending` and `approve`: the operator's word on tools that have changed.

use a2e_runtime::DataDir;
use a2e_runtime::operator::{
    ApproveTool, ChangedTool, ChangedTools, Nothing, ShowTool, ToolChange, ask,
};
use anyhow::{Result, bail};
use canonical::Digest;
use clap::Subcommand;
use serde_json::{Value, json};

use crate::Outcome;
use crate::agent::{print, print_json};
use crate::diff::diff;
use crate::screen::{plain, quoted};

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Show which tools of remote plugins, components and scripts are new or have changed since they
    /// were approved, and how: they are not served
    Pending,
    /// Approve tools as `frith tools pending` has shown them
    Approve {
        /// Each with the hash of what was shown, as `frith tools pending` writes it; the part of the
        /// name after the slash does if it is the only one
        #[arg(required = true, value_name = "NAME@HASH")]
        tools: Vec<String>,
    },
}

pub(crate) async fn run(action: &Action, dir: &DataDir, as_json: bool) -> Result<Outcome> {
    match action {
        Action::Pending => pending(dir, as_json).await,
        Action::Approve { tools } => match tools.iter().map(|text| wish(text)).collect() {
            Ok(wishes) => approve(dir, wishes, as_json).await,
            Err(message) => Ok(Outcome::WrongArguments(message)),
        },
    }
}

async fn pending(dir: &DataDir, as_json: bool) -> Result<Outcome> {
    let ChangedTools { tools } = ask(dir, "tools.pending", &Nothing {}).await?;
    let mut changes: Vec<ToolChange> = Vec::new();
    for ChangedTool { pin, .. } in tools {
        changes.push(ask(dir, "tools.show", &ShowTool { pin }).await?);
    }
    if as_json {
        print_json(&json!(changes))?;
    } else if changes.is_empty() {
        print(&"no tool waits to be approved")?;
    } else {
        changes.iter().try_for_each(show)?;
    }
    Ok(Outcome::Good)
}

/// Approves all of them, or none if one is not what was seen.
async fn approve(dir: &DataDir, wishes: Vec<(&str, Digest)>, as_json: bool) -> Result<Outcome> {
    let ChangedTools { tools } = ask(dir, "tools.pending", &Nothing {}).await?;
    let mut seen = Vec::new();
    for (name, hash) in wishes {
        let tool = find(&tools, name)?;
        if tool.offered != hash {
            bail!(
                "`{}` is not, or no longer, what that hash stands for; `frith tools pending` shows \
                 what it is now",
                tool.pin
            );
        }
        seen.push(ApproveTool {
            pin: tool.pin.clone(),
            seen: hash,
        });
    }
    for wish in &seen {
        let Nothing {} = ask(dir, "tools.approve", wish).await?;
        if !as_json {
            print(&format!("approved {}", plain(&wish.pin)))?;
        }
    }
    if as_json {
        print_json(&json!(seen))?;
    }
    Ok(Outcome::Good)
}

/// A name with each letter that is not ASCII by its number.
fn spelled(name: &str) -> String {
    let letter = |letter: char| match letter.is_ascii() {
        true => plain(letter),
        false => letter.escape_unicode().to_string(),
    };
    name.chars().map(letter).collect()
}

/// A tool and what was seen of it. A name alone could stand for anything by now.
fn wish(text: &str) -> Result<(&str, Digest), String> {
    let parts = text.rsplit_once('@');
    let wish = parts.and_then(|(name, hash)| Some((name, hash.parse().ok()?)));
    wish.ok_or_else(|| {
        format!(
            "`{text}` does not say what you have seen of the tool; `frith tools pending` shows it, \
             and the NAME@HASH that approves exactly that"
        )
    })
}

/// The tool that a name stands for.
fn find<'t>(tools: &'t [ChangedTool], name: &str) -> Result<&'t ChangedTool> {
    // One that cannot be shown as it is goes by what is shown of it.
    let is_it = |tool: &&ChangedTool| tool.pin == name || plain(&tool.pin) == name;
    if let Some(tool) = tools.iter().find(is_it) {
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

fn show(change: &ToolChange) -> Result<()> {
    let ChangedTool {
        pin,
        approved,
        offered,
        looks_like,
    } = &change.tool;
    let state = match approved {
        Some(_) => "has changed since it was approved",
        None => "is new",
    };
    print(&format!("{} {state}", plain(pin)))?;
    if let Some(other) = looks_like {
        print(&format!(
            "  beware: its name looks like that of another tool: {}",
            plain(other)
        ))?;
    }
    if !pin.is_ascii() {
        let spelled = spelled(pin);
        print(&format!("  beware: its name is spelled {spelled}"))?;
    }
    let text = |text: &Option<String>| {
        let text = text.as_deref()?;
        let value: Value = serde_json::from_str(text).ok()?;
        Some(readable(&serde_json::to_string_pretty(&value).ok()?))
    };
    let before = match approved {
        Some(_) => text(&change.before),
        None => Some(String::new()),
    };
    match (before, text(&change.now)) {
        (Some(before), Some(now)) => {
            for line in diff(&before, &now) {
                print(&format!("  {}", line.marked()))?;
            }
        }
        _ => {
            let approved = approved.map_or_else(|| "?".to_owned(), |hash| hash.to_string());
            print(&format!("  - {approved}"))?;
            print(&format!("  + {offered}"))?;
            print(&"  what it said, or what it says, is too large to be kept and shown")?;
        }
    }
    let wish = quoted(&format!("{pin}@{offered}"));
    print(&format!(
        "  to approve exactly this: frith tools approve {wish}"
    ))
}

/// JSON in which the lines of a text stand below each other, so that those that differ can be seen. They
/// begin with what no line of JSON begins with: a text cannot look like other members.
fn readable(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for line in json.lines() {
        let indent = line.len() - line.trim_start().len();
        let mut letters = line.chars();
        while let Some(letter) = letters.next() {
            if letter != '\\' {
                out.push(letter);
                continue;
            }
            match letters.next() {
                Some('n') => out.push_str(&format!("\n{:indent$}  | ", "")),
                escaped => out.extend([letter].into_iter().chain(escaped)),
            }
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_says_what_was_seen() {
        let hash = Digest::of(b"x");
        let (text, odd) = (format!("remote_plugin:a/x@{hash}"), format!("a@b@{hash}"));
        assert_eq!(wish(&text).unwrap(), ("remote_plugin:a/x", hash));
        assert_eq!(wish(&odd).unwrap(), ("a@b", hash));
        for bad in ["remote_plugin:a/x", "x@", "x@sha256:00", ""] {
            assert!(
                wish(bad).unwrap_err().contains("frith tools pending"),
                "{bad}"
            );
        }
    }

    #[test]
    fn the_lines_of_a_text_are_seen() {
        let text = json!({"text": "one\n\"two\": 2\\n", "x": 1});
        let shown = readable(&serde_json::to_string_pretty(&text).unwrap());
        let lines = [
            "{",
            r#"  "text": "one"#,
            r#"    | \"two\": 2\\n","#,
            r#"  "x": 1"#,
            "}",
        ];
        assert_eq!(shown.lines().collect::<Vec<_>>(), lines);
    }

    #[test]
    fn a_name_stands_for_one_tool() {
        let tool = |pin: &str| ChangedTool {
            pin: pin.into(),
            approved: None,
            offered: Digest::of(b""),
            looks_like: None,
        };
        let tools = [
            "remote_plugin:a/x",
            "remote_plugin:b/x",
            "remote_plugin:b/y",
        ]
        .map(tool);
        let found = |name| find(&tools, name).map(|tool| &*tool.pin).ok();
        assert_eq!(found("remote_plugin:b/x"), Some("remote_plugin:b/x"));
        assert_eq!(found("y"), Some("remote_plugin:b/y"));
        assert_eq!((found("x"), found("z"), found("")), (None, None, None));
    }
}
