//! What a skill needs: tools and toolkits of the host.

use std::collections::BTreeMap;

use a2e_runtime::Context;
use a2e_wire::Body;
use a2e_wire::messages::tool::{ToolDefinition, ToolListRequest};
use a2e_wire::messages::toolkit::ToolkitListRequest;
use serde_json::{Map, Value, json};

use super::Failed;
use super::skill::Skill;
use super::tools::READ;
use crate::tool::schema_of;

/// The tools of a skill, by name.
#[derive(Debug, Default)]
pub(super) struct Given {
    pub(super) tools: BTreeMap<String, ToolDefinition<'static>>,
    /// Those that it may use, but that are not there.
    pub(super) missing: Vec<String>,
}

/// What other programs call tools that we have by another name.
const OTHER_NAMES: [(&str, &str); 9] = [
    ("Bash", "run_command"),
    ("Edit", "edit_file"),
    ("Glob", "glob"),
    ("Grep", "grep"),
    ("LS", "list_dir"),
    ("MultiEdit", "edit_file"),
    ("Read", "read_file"),
    ("WebFetch", "http_get"),
    ("Write", "write_file"),
];

/// Finds what a skill needs, as far as the agent that calls it may see it.
///
/// # Errors
/// If something is missing that the skill cannot do without.
pub(super) async fn find(context: &Context, skill: &Skill) -> Result<Given, Failed> {
    let front = &skill.front;
    let mut given = Given::default();
    let names_some = !(front.tools.is_empty() && front.allowed.is_empty());
    if names_some || !skill.files.is_empty() {
        let listed = list(context).await?;
        let required = front
            .tools
            .iter()
            .filter(|name| !listed.contains_key(*name));
        let required: Vec<&str> = required.map(String::as_str).collect();
        if !required.is_empty() {
            return Err(Failed::new(
                "missing_tools",
                format!(
                    "it needs tools that there are not: {}; `frith tools` lists those that are",
                    required.join(", ")
                ),
            ));
        }
        let own = (!skill.files.is_empty()).then_some(READ).into_iter();
        let wanted = front.tools.iter().map(String::as_str).chain(own);
        for name in wanted {
            if let Some(tool) = listed.get(name) {
                given.tools.insert(name.to_owned(), tool.clone());
            }
        }
        for word in &front.allowed {
            match ours(word).and_then(|name| listed.get_key_value(name)) {
                Some((name, tool)) => drop(given.tools.insert(name.clone(), tool.clone())),
                None => given.missing.push(word.clone()),
            }
        }
    }
    if !front.toolkits.is_empty() {
        check_toolkits(context, &front.toolkits).await?;
    }
    Ok(given)
}

/// What a word of `allowed-tools` means here. One with a pattern in it, as `Bash(git:*)`, means a part
/// of a tool, and we do not give the whole for it.
fn ours(word: &str) -> Option<&str> {
    let word = word.strip_suffix("(*)").unwrap_or(word);
    if word.contains('(') {
        return None;
    }
    let known = OTHER_NAMES.iter().find(|(other, _)| *other == word);
    Some(known.map_or(word, |(_, name)| name))
}

async fn list(context: &Context) -> Result<BTreeMap<String, ToolDefinition<'static>>, Failed> {
    let request = ToolListRequest {
        include_deferred: true,
        ..ToolListRequest::new()
    };
    match context.ask(request).await {
        Ok(Body::ToolListResponse(list)) => {
            let tools = list.tools.into_iter();
            Ok(tools.map(|tool| (tool.name.to_string(), tool)).collect())
        }
        Ok(_) => Ok(BTreeMap::new()),
        Err(failure) => Err(Failed::of(&failure)),
    }
}

async fn check_toolkits(context: &Context, wanted: &[String]) -> Result<(), Failed> {
    let listed = match context.ask(ToolkitListRequest::new()).await {
        Ok(Body::ToolkitListResponse(list)) => list.toolkits,
        Ok(_) => Vec::new(),
        Err(failure) => return Err(Failed::of(&failure)),
    };
    let is_ready = |name: &String| {
        let mut found = listed.iter();
        found.any(|toolkit| *toolkit.name == **name && toolkit.configured)
    };
    let missing: Vec<&str> = wanted
        .iter()
        .filter(|name| !is_ready(name))
        .map(String::as_str)
        .collect();
    match missing.is_empty() {
        true => Ok(()),
        false => Err(Failed::new(
            "missing_toolkits",
            format!(
                "it needs toolkits that are not configured: {}; `frith toolkits` shows how to \
                 configure one",
                missing.join(", ")
            ),
        )),
    }
}

impl Given {
    pub(super) fn names(&self) -> Vec<&str> {
        self.tools.keys().map(String::as_str).collect()
    }

    /// The tools for whoever calls them himself.
    pub(super) fn described(&self) -> Map<String, Value> {
        let one = |(name, tool): (&String, &ToolDefinition<'static>)| {
            let schema = schema_of(tool);
            let told = json!({"description": tool.description, "input_schema": schema});
            (name.clone(), told)
        };
        self.tools.iter().map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_of_others_have_names_here() {
        assert_eq!(ours("Read"), Some("read_file"));
        assert_eq!(ours("Bash(*)"), Some("run_command"));
        assert_eq!(ours("grep"), Some("grep"));
        // A part of a tool is not the whole of it.
        assert_eq!(ours("Bash(git add:*)"), None);
    }
}
