//! The toolkit `sqlite`: queries on a database of the workspace.

mod confine;
mod query;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use a2e_runtime::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Info, Toolkit};
use crate::files::{Access, MAX_PATH, Roots};
use crate::shares::{Kind, Shares};
use crate::tool::{Call, Definition, DefinitionError, Output, Tool, ToolFailure};

use query::Work;
pub use query::{MAX_SQL, MAX_VALUE};

/// Queries on a file, that change it only if it is configured so.
pub struct Sqlite {
    info: Info,
    workspace: Arc<Roots>,
    limits: Limits,
    /// The threads of each agent's queries.
    queries: Arc<Shares>,
}

/// What queries may use up and give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How long it may take.
    pub time: Duration,
    /// Rows that are given; the rest is left out.
    pub rows: usize,
    /// Bytes of the values that are given; the rest is left out.
    pub bytes: usize,
    /// Queries that one agent may have running, those included that nobody waits for any more.
    pub per_agent: usize,
}

#[derive(Deserialize)]
struct Config {
    file: String,
    #[serde(default)]
    access: Rights,
}

#[derive(Deserialize, Default, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Rights {
    #[default]
    ReadOnly,
    ReadWrite,
}

/// A tool that runs a statement.
struct SqliteTool {
    definition: Definition,
    workspace: Arc<Roots>,
    file: String,
    access: Access,
    limits: Limits,
    queries: Arc<Shares>,
}

/// Queries that one agent may have running, if nothing else is said.
const PER_AGENT: usize = 4;

const QUERY: &str = "sqlite_query";
const EXECUTE: &str = "sqlite_execute";

impl Default for Limits {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(10),
            rows: 1000,
            bytes: 1 << 20,
            per_agent: PER_AGENT,
        }
    }
}

impl Sqlite {
    /// The toolkit for databases below these folders.
    #[must_use]
    pub fn new(workspace: Arc<Roots>, limits: Limits) -> Self {
        let schema = json!({
            "type": "object", "additionalProperties": false, "required": ["file"],
            "properties": {
                "file": {"type": "string", "minLength": 1, "maxLength": MAX_PATH,
                    "description": "A database in the workspace; an empty file is an empty one"},
                "access": {"enum": ["read_only", "read_write"], "default": "read_only",
                    "description": "Whether it may be changed"},
            },
        });
        let info = Info::own("sqlite", &schema, &[QUERY, EXECUTE]);
        Self {
            info: Info {
                alias: "SQLite".into(),
                description: "Asks and, if it may, changes an SQLite database".into(),
                category: "data".into(),
                tags: vec!["sqlite".into(), "sql".into(), "database".into()],
                ..info
            },
            workspace,
            limits,
            queries: Shares::new(Kind::Queries, limits.per_agent),
        }
    }

    fn tool(&self, file: &str, access: Access) -> Result<Arc<dyn Tool>, DefinitionError> {
        let schema = json!({
            "type": "object", "additionalProperties": false, "required": ["sql"],
            "properties": {
                "sql": {"type": "string", "minLength": 1, "maxLength": MAX_SQL,
                    "description": "One statement"},
                "parameters": {
                    "type": "array",
                    "items": {"type": ["null", "boolean", "number", "string"]},
                    "description": "The values of its `?`, in order",
                },
            },
        });
        let definition = match access {
            Access::ReadOnly => {
                let text = "Runs a statement of SQL that changes nothing; gives columns and rows. \
                            Tables are in sqlite_schema";
                Definition::own(QUERY, text, &schema)?
                    .read_only()
                    .volatile()
            }
            Access::ReadWrite => {
                let text = "Runs a statement of SQL that may change the database; gives how many \
                            rows it changed, and those it returns";
                Definition::own(EXECUTE, text, &schema)?
            }
        };
        Ok(Arc::new(SqliteTool {
            definition: definition.tags(["sql", "database", "sqlite"]),
            workspace: Arc::clone(&self.workspace),
            file: file.to_owned(),
            access,
            limits: self.limits,
            queries: Arc::clone(&self.queries),
        }))
    }
}

impl Toolkit for Sqlite {
    fn info(&self) -> &Info {
        &self.info
    }

    fn tools(&self, config: &Value) -> Result<Vec<Arc<dyn Tool>>, String> {
        let config = Config::deserialize(config).map_err(|error| error.to_string())?;
        let rights: &[Access] = match config.access {
            Rights::ReadOnly => &[Access::ReadOnly],
            Rights::ReadWrite => &[Access::ReadOnly, Access::ReadWrite],
        };
        let mut tools = Vec::new();
        for access in rights {
            let found = self.workspace.real_file(&config.file, *access);
            found.map_err(|failure| format!("`file`: {failure}"))?;
            let tool = self.tool(&config.file, *access);
            tools.push(tool.map_err(|error| error.to_string())?);
        }
        Ok(tools)
    }
}

impl Tool for SqliteTool {
    fn definition(&self) -> &Definition {
        &self.definition
    }

    fn call(&self, call: Call) -> BoxFuture<'_, Result<Output, ToolFailure>> {
        Box::pin(async move {
            let work = Work {
                asked: call.arguments.read()?,
                access: self.access,
                limits: self.limits,
                over: call.over.clone(),
            };
            let (workspace, file) = (Arc::clone(&self.workspace), self.file.clone());
            let share = self.queries.take(&call.caller.agent)?;
            confine::on_a_thread(share, move || {
                let (path, folder) = workspace.real_file(&file, work.access)?;
                confine::check_beside(&path)?;
                // Its path may lead elsewhere by the time it is opened; then it does not open.
                confine::keep_below(&folder)?;
                work.run(&path)
            })
            .await
        })
    }
}

impl fmt::Debug for Sqlite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sqlite").field(&self.workspace).finish()
    }
}
