//! The toolkit `sqlite`: queries on a database of the workspace.

mod confine;
mod process;
mod query;

use std::ffi::OsString;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use a2e_runtime::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Info, Toolkit};
use crate::files::{Access, MAX_PATH, Roots};
use crate::shares::{Kind, Shares};
use crate::tool::{Call, Definition, DefinitionError, Output, Tool, ToolFailure, blocking};

pub use process::enter_if_asked;
pub use query::{MAX_SQL, MAX_VALUE};
use query::{Query, Rows};

/// Queries on a file, that change it only if it is configured so.
pub struct Sqlite {
    info: Info,
    workspace: Arc<Roots>,
    limits: Limits,
    /// The processes of each agent's queries.
    queries: Arc<Shares>,
    /// What this program is started with for a query.
    arguments: Arc<[OsString]>,
}

/// What queries may use up and give.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
    arguments: Arc<[OsString]>,
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
            arguments: Arc::default(),
        }
    }

    /// Starts this program for a query with these arguments: for one, as a test, that needs them to come
    /// to call [`enter_if_asked`].
    #[must_use]
    pub fn started_with(mut self, arguments: &[&str]) -> Self {
        self.arguments = arguments.iter().map(OsString::from).collect();
        self
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
            arguments: Arc::clone(&self.arguments),
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
            let asked = call.arguments.read()?;
            let (workspace, file, access) =
                (Arc::clone(&self.workspace), self.file.clone(), self.access);
            let share = self.queries.take(&call.caller.agent)?;
            let found = blocking(move || workspace.real_file(&file, access)).await;
            let (path, folder) = found?;
            let query = Query::new(&path, asked, access, self.limits);
            output(process::run(share, folder, query, &self.arguments).await?)
        })
    }
}

/// What a statement gives, as agents see it.
fn output(rows: Rows) -> Result<Output, ToolFailure> {
    let mut data = json!({"columns": rows.columns, "rows": rows.rows});
    if let (Some(changed), Some(members)) = (rows.changed_rows, data.as_object_mut()) {
        members.insert("changed_rows".into(), changed.into());
    }
    Ok(Output::new(&data)?.truncated(rows.truncated))
}

impl fmt::Debug for Sqlite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sqlite").field(&self.workspace).finish()
    }
}
