//! Tools that find skills and read what goes with them: what an agent reads one by one, as it needs it.

use std::sync::Arc;

use a2e_runtime::BoxFuture;
use canonical::Digest;
use serde::Deserialize;
use serde_json::{Value, json};

use super::shelf::Shelf;
use super::skill::{Skill, limited};
use crate::tool::{Call, Definition, DefinitionError, Output, Tool, ToolFailure, blocking};

/// The tool that reads a file of a skill.
pub(super) const READ: &str = "read_skill_file";

/// Bytes of a file that is read.
pub const MAX_READ: usize = 1 << 20;

struct Search {
    definition: Definition,
    shelf: Arc<Shelf>,
}

struct ReadFile {
    definition: Definition,
    shelf: Arc<Shelf>,
}

#[derive(Deserialize)]
struct Query {
    #[serde(default)]
    query: String,
}

#[derive(Deserialize)]
struct Wanted {
    skill: String,
    path: Option<String>,
}

/// The tools.
///
/// # Errors
/// If a definition cannot be used, which nothing can bring about.
pub(super) fn tools(shelf: &Arc<Shelf>) -> Result<Vec<Arc<dyn Tool>>, DefinitionError> {
    let search = Definition::own(
        "search_skills",
        "Finds skills, which are prepared instructions, by words; without words, lists all",
        &json!({"type": "object", "additionalProperties": false,
            "properties": {"query": {"type": "string", "description": "Words to look for"}}}),
    )?;
    let read = Definition::own(
        READ,
        "Reads the instructions of a skill, or a file that goes with it",
        &json!({"type": "object", "additionalProperties": false, "required": ["skill"],
        "properties": {
            "skill": {"type": "string", "description": "Its name"},
            "path": {"type": "string",
                "description": "The file, as the skill names it; without it, its instructions"},
        }}),
    )?;
    let tags = ["skill", "instructions"];
    Ok(vec![
        Arc::new(Search {
            definition: search.read_only().volatile().tags(tags),
            shelf: Arc::clone(shelf),
        }),
        Arc::new(ReadFile {
            definition: read.read_only().volatile().tags(tags),
            shelf: Arc::clone(shelf),
        }),
    ])
}

impl Tool for Search {
    fn definition(&self) -> &Definition {
        &self.definition
    }

    fn call(&self, call: Call) -> BoxFuture<'_, Result<Output, ToolFailure>> {
        Box::pin(async move {
            let Query { query } = call.arguments.read()?;
            let snapshot = self.shelf.current().await?;
            let found = snapshot.search(&query);
            let found = self.shelf.ranked(&call.caller.agent, &query, found);
            let found = found.into_iter().filter(|skill| skill.blocked.is_none());
            let skills: Vec<Value> = found.map(|skill| shown(skill)).collect();
            Output::new(&json!({ "skills": skills }))
        })
    }
}

fn shown(skill: &Skill) -> Value {
    let front = &skill.front;
    json!({"name": front.name, "description": front.description,
        "when_to_use": front.when_to_use, "argument_hint": front.argument_hint,
        "triggers": front.triggers, "tags": front.tags, "category": front.category})
}

impl Tool for ReadFile {
    fn definition(&self) -> &Definition {
        &self.definition
    }

    fn call(&self, call: Call) -> BoxFuture<'_, Result<Output, ToolFailure>> {
        Box::pin(async move {
            let Wanted { skill: name, path } = call.arguments.read()?;
            let snapshot = self.shelf.current().await?;
            let skill = snapshot.find(&name).cloned().ok_or_else(|| {
                ToolFailure::new("there is no such skill; `search_skills` lists those there are")
            })?;
            if let Some(reason) = &skill.blocked {
                let text = format!("the skill `{name}` cannot be used: {reason}");
                return Err(ToolFailure::denied("blocked", text));
            }
            let Some(path) = path else {
                let files: Vec<&String> = skill.files.keys().collect();
                return Output::new(&json!({"text": skill.body, "files": files}));
            };
            let text = blocking(move || read(&skill, &path)).await?;
            Output::new(&json!({ "text": text }))
        })
    }
}

/// A file exactly as it was approved.
fn read(skill: &Skill, path: &str) -> Result<String, ToolFailure> {
    let Some(hash) = skill.files.get(path) else {
        let names: Vec<&str> = skill.files.keys().map(String::as_str).collect();
        let text = format!("there is no such file; there are: {}", names.join(", "));
        return Err(ToolFailure::new(text));
    };
    let content = limited(&skill.folder.join(path), MAX_READ).map_err(ToolFailure::new)?;
    if Digest::of(&content) != *hash {
        let text = "the file has changed since the skill was read; try again";
        return Err(ToolFailure::busy("changed", text));
    }
    String::from_utf8(content).map_err(|_| ToolFailure::new("it is no text"))
}
