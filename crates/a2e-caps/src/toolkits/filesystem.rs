//! The toolkit `filesystem`: the file tools for folders of the agent's choice.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use a2e_runtime::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Info, Toolkit};
use crate::files::{self, Access, MAX_PATH, Roots};
use crate::tool::{Call, Definition, Output, Tool, ToolFailure};

/// The file tools, for named folders below the workspace.
pub struct Filesystem {
    info: Info,
    workspace: Arc<Roots>,
}

#[derive(Deserialize)]
struct Config {
    roots: BTreeMap<String, Folder>,
}

#[derive(Deserialize)]
struct Folder {
    path: String,
    #[serde(default)]
    access: Rights,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "snake_case")]
enum Rights {
    #[default]
    ReadOnly,
    ReadWrite,
}

/// Folders that a configuration may have.
const MAX_ROOTS: usize = 32;

/// The tools, and what tools they are outside a toolkit.
const TOOLS: [(&str, &str); 6] = [
    ("fs_read_file", "read_file"),
    ("fs_list_dir", "list_dir"),
    ("fs_glob", "glob"),
    ("fs_grep", "grep"),
    ("fs_write_file", "write_file"),
    ("fs_edit_file", "edit_file"),
];

impl Filesystem {
    /// The toolkit for folders below these.
    #[must_use]
    pub fn new(workspace: Arc<Roots>) -> Self {
        let schema = json!({
            "type": "object", "additionalProperties": false, "required": ["roots"],
            "properties": {"roots": {
                "type": "object", "minProperties": 1, "maxProperties": MAX_ROOTS,
                "description": "Folders by the names that paths begin with",
                "additionalProperties": {
                    "type": "object", "additionalProperties": false, "required": ["path"],
                    "properties": {
                        "path": {"type": "string", "minLength": 1, "maxLength": MAX_PATH,
                            "description": "A folder of the workspace"},
                        "access": {"enum": ["read_only", "read_write"], "default": "read_only",
                            "description": "What may be done there"},
                    },
                },
            }},
        });
        let info = Info::own("filesystem", &schema, &TOOLS.map(|(name, _)| name));
        Self {
            info: Info {
                alias: "Files".into(),
                description: "Reads, searches and, where it may, writes the files of folders with \
                              names, and of no others"
                    .into(),
                category: "files".into(),
                tags: vec!["file".into(), "folder".into()],
                ..info
            },
            workspace,
        }
    }
}

impl Toolkit for Filesystem {
    fn info(&self) -> &Info {
        &self.info
    }

    fn tools(&self, config: &Value) -> Result<Vec<Arc<dyn Tool>>, String> {
        let config = Config::deserialize(config).map_err(|error| error.to_string())?;
        let roots = config.roots.iter().map(|(name, folder)| {
            let access = match folder.access {
                Rights::ReadOnly => Access::ReadOnly,
                Rights::ReadWrite => Access::ReadWrite,
            };
            (name.as_str(), folder.path.as_str(), access)
        });
        let roots = self.workspace.below(roots);
        let roots = roots.map_err(|error| format!("`roots`: {error}"))?;
        let tools = files::tools(roots).map_err(|error| error.to_string())?;
        Ok(tools.into_iter().map(renamed).collect())
    }
}

/// A file tool by its name here. It calls the others by theirs.
fn renamed(tool: Arc<dyn Tool>) -> Arc<dyn Tool> {
    let definition = tool.definition().clone();
    let name = |plain: &str| TOOLS.iter().find(|(_, known)| *known == plain);
    let Some((name, _)) = name(definition.name()) else {
        return tool;
    };
    // The other names are words of their own right.
    let spoken_of = TOOLS.iter().filter(|(_, plain)| plain.contains('_'));
    let text = spoken_of.fold(
        definition.description().to_owned(),
        |text, (name, plain)| text.replace(plain, name),
    );
    let definition = definition.renamed((*name).to_owned(), text);
    Arc::new(Renamed { definition, tool })
}

/// A file tool by its name here.
struct Renamed {
    definition: Definition,
    tool: Arc<dyn Tool>,
}

impl Tool for Renamed {
    fn definition(&self) -> &Definition {
        &self.definition
    }

    fn call(&self, call: Call) -> BoxFuture<'_, Result<Output, ToolFailure>> {
        Box::pin(async move {
            let outcome = self.tool.call(call).await;
            outcome.map_err(|failure| failure.reworded(|message| in_names_here(&message)))
        })
    }
}

/// What a failure says, with the tools that it advises to use by their names here. Advice comes last,
/// after a path that may read like it.
fn in_names_here(message: &str) -> String {
    let advice = TOOLS.iter().filter_map(|(name, plain)| {
        let advice = format!("; {plain} ");
        Some((message.rfind(&advice)?, advice, name))
    });
    let Some((at, advice, name)) = advice.max_by_key(|(at, ..)| *at) else {
        return message.to_owned();
    };
    let (before, after) = message.split_at(at);
    let after = after.strip_prefix(&advice).unwrap_or_default();
    format!("{before}; {name} {after}")
}

impl fmt::Debug for Filesystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Filesystem").field(&self.workspace).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_names_the_tools_that_are_there() {
        for (said, here) in [
            (
                "`a` is a folder; list_dir lists it",
                "`a` is a folder; fs_list_dir lists it",
            ),
            (
                "`; list_dir x` is no folder; read_file reads files",
                "`; list_dir x` is no folder; fs_read_file reads files",
            ),
            ("there is no `list_dir`", "there is no `list_dir`"),
        ] {
            assert_eq!(in_names_here(said), here);
        }
    }
}
