//! The toolkit `filesystem`: the file tools for folders of the agent's choice.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use super::bundled::Bundled;
use super::{Info, Toolkit};
use crate::files::{self, Access, MAX_PATH, Roots};
use crate::tool::{SchemaError, Tool};

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
    ///
    /// # Errors
    /// If its schema cannot be used, which nothing can bring about.
    pub fn new(workspace: Arc<Roots>) -> Result<Self, SchemaError> {
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
        let info = Info::new("filesystem", &schema, &TOOLS.map(|(name, _)| name))?;
        Ok(Self {
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
        })
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
    Arc::new(Bundled { definition, tool })
}

impl fmt::Debug for Filesystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Filesystem").field(&self.workspace).finish()
    }
}
