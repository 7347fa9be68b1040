//! One statement on a database.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rusqlite::config::DbConfig;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error, ErrorCode, OpenFlags, Row, Statement, params_from_iter};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Limits;
use crate::files::Access;
use crate::tool::ToolFailure;

/// A statement to be run on a database of the folder that the process is in.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Query {
    /// The name of the file.
    file: Vec<u8>,
    asked: Asked,
    may_write: bool,
    pub(super) limits: Limits,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Asked {
    sql: String,
    #[serde(default)]
    parameters: Vec<Value>,
}

/// What a statement gives.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Rows {
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Vec<Value>>,
    /// Of one that may change the database.
    pub(super) changed_rows: Option<u64>,
    /// Whether there are more rows.
    pub(super) truncated: bool,
}

/// Why a statement gives nothing: in words for the agent, and whether it must not do this.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum QueryError {
    Failed(String),
    ReadOnly,
    /// The statement is none of those that may be run.
    Statement,
    /// What lies beside the database is not what SQLite may open.
    NotRegular(String),
}

/// Bytes of a statement.
pub const MAX_SQL: usize = 100_000;

/// Bytes of one value, wherever in a statement it comes up.
pub const MAX_VALUE: usize = 4 << 20;

/// Bytes that a value counts for at least: those without bytes of their own have some in an answer.
const VALUE: usize = 8;

/// So many steps between looks at the clock.
const STEPS: i32 = 1000;

/// How long others may keep a database locked.
pub(super) const BUSY: Duration = Duration::from_secs(2);

/// Bytes that SQLite may have in memory for a query, its cache and what it sorts included. A statement
/// can have as many large values at once as it has words for.
pub(super) const MAX_HEAP: usize = 64 << 20;

/// How the connection is to be. Nothing is kept in temporary files: what needs more memory than there is
/// fails.
const SETUP: &str = "
    PRAGMA trusted_schema = OFF;
    PRAGMA cell_size_check = ON;
    PRAGMA mmap_size = 0;
    PRAGMA temp_store = MEMORY;
    PRAGMA cache_size = -16384;
";

/// Pragmas that only tell.
const TELLING: [&str; 11] = [
    "table_info",
    "table_xinfo",
    "table_list",
    "index_list",
    "index_info",
    "index_xinfo",
    "foreign_key_list",
    "foreign_key_check",
    "integrity_check",
    "quick_check",
    "function_list",
];

impl Query {
    /// A statement for the file at this path.
    pub(super) fn new(path: &Path, asked: Asked, access: Access, limits: Limits) -> Self {
        let file = path.file_name().unwrap_or_default().to_owned();
        Self {
            file: file.into_vec(),
            asked,
            may_write: access == Access::ReadWrite,
            limits,
        }
    }

    /// The database, from the folder that it is in. It begins with `./`: for SQLite `:memory:`, and what
    /// begins with `file:`, is no name of a file.
    pub(super) fn file(&self) -> PathBuf {
        Path::new(".").join(OsString::from_vec(self.file.clone()))
    }

    /// Runs it, until it is `over`.
    pub(super) fn run(self, over: Arc<AtomicBool>) -> Result<Rows, QueryError> {
        let told = |error| self.explain(&error);
        let connection = self.open(over).map_err(told)?;
        let statement = connection.prepare(&self.asked.sql);
        self.rows(&connection, statement.map_err(told)?)
    }

    fn open(&self, over: Arc<AtomicBool>) -> Result<Connection, Error> {
        let rights = match self.may_write {
            false => OpenFlags::SQLITE_OPEN_READ_ONLY,
            true => OpenFlags::SQLITE_OPEN_READ_WRITE,
        };
        // A link is resolved already; one that is there now has come since.
        let how = OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let mut connection = Connection::open_with_flags(self.file(), rights | how)?;
        connection.busy_timeout(BUSY)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
        connection.execute_batch(SETUP)?;
        connection.execute_batch(&format!("PRAGMA hard_heap_limit = {MAX_HEAP}"))?;
        if !self.may_write {
            connection.execute_batch("PRAGMA query_only = ON")?;
        }
        let limit = |size: usize| i32::try_from(size).unwrap_or(i32::MAX);
        connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, limit(MAX_VALUE))?;
        connection.set_limit(Limit::SQLITE_LIMIT_SQL_LENGTH, limit(MAX_SQL))?;
        connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
        connection.authorizer(Some(authorize))?;
        let until = Instant::now() + self.limits.time;
        let is_enough = move || Instant::now() >= until || over.load(Ordering::Relaxed);
        connection.progress_handler(STEPS, Some(is_enough))?;
        Ok(connection)
    }

    fn rows(
        &self,
        connection: &Connection,
        mut statement: Statement<'_>,
    ) -> Result<Rows, QueryError> {
        if !self.may_write && !statement.readonly() {
            return Err(QueryError::ReadOnly);
        }
        let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
        let told = |error| self.explain(&error);
        let values = self.asked.parameters.iter().map(parameter);
        let values: Vec<_> = values.collect::<Result<_, _>>()?;
        let mut found = statement.query(params_from_iter(values)).map_err(told)?;
        let (mut rows, mut bytes, mut is_cut) = (Vec::new(), 0_usize, false);
        while let Some(row) = found.next().map_err(told)? {
            let left = self.limits.bytes.saturating_sub(bytes);
            let read = match rows.len() < self.limits.rows {
                true => read(row, columns.len(), left).map_err(told)?,
                false => None,
            };
            let Some((row, size)) = read else {
                is_cut = true;
                break;
            };
            bytes = bytes.saturating_add(size);
            rows.push(row);
        }
        if is_cut && self.may_write {
            // What is not read to its end may not be done to its end.
            while found.next().map_err(told)?.is_some() {}
        }
        drop(found);
        Ok(Rows {
            columns,
            rows,
            changed_rows: self.may_write.then(|| connection.total_changes()),
            truncated: is_cut,
        })
    }

    /// What went wrong, and what to do next.
    fn explain(&self, error: &Error) -> QueryError {
        QueryError::Failed(match error.sqlite_error_code() {
            Some(ErrorCode::OperationInterrupted) => {
                return QueryError::too_long(self.limits.time);
            }
            Some(ErrorCode::ReadOnly) => return QueryError::ReadOnly,
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                "somebody else keeps the database locked; try again".into()
            }
            Some(ErrorCode::OutOfMemory) => format!(
                "the statement needs more memory than it may have ({} MiB); ask for less at once",
                MAX_HEAP >> 20
            ),
            Some(ErrorCode::TooBig) => format!(
                "a value has more than {MAX_VALUE} bytes, or the statement more than {MAX_SQL}"
            ),
            Some(ErrorCode::AuthorizationForStatementDenied) => return QueryError::Statement,
            Some(ErrorCode::CannotOpen) => "the database cannot be opened".into(),
            Some(ErrorCode::NotADatabase) => "the file is no SQLite database".into(),
            _ => format!("SQLite says: {error}"),
        })
    }
}

impl QueryError {
    pub(super) fn too_long(limit: Duration) -> Self {
        Self::Failed(format!(
            "the statement took longer than {} s; ask for less at once",
            limit.as_secs_f32()
        ))
    }
}

impl From<QueryError> for ToolFailure {
    fn from(error: QueryError) -> Self {
        match error {
            QueryError::Failed(text) => Self::new(text),
            QueryError::ReadOnly => Self::denied(
                "read_only",
                "this only reads; sqlite_execute changes a database that is configured with `access` \
                 `read_write`",
            ),
            QueryError::Statement => Self::denied(
                "statement",
                "other files, settings of the database and transactions are out of reach; each \
                 statement is a transaction of its own",
            ),
            QueryError::NotRegular(text) => Self::denied("not_regular", text),
        }
    }
}

/// What statements may do.
fn authorize(context: AuthContext<'_>) -> Authorization {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the rest stays in the database, whose access is decided elsewhere"
    )]
    match context.action {
        AuthAction::Attach { .. } | AuthAction::Detach { .. } => Authorization::Deny,
        // Each statement has a connection of its own: what it begins would end with it, and the next
        // statement would be committed at once.
        AuthAction::Transaction { .. } | AuthAction::Savepoint { .. } => Authorization::Deny,
        AuthAction::Pragma { pragma_name, .. } => {
            match TELLING.contains(&pragma_name.to_ascii_lowercase().as_str()) {
                true => Authorization::Allow,
                false => Authorization::Deny,
            }
        }
        _ => Authorization::Allow,
    }
}

fn parameter(value: &Value) -> Result<rusqlite::types::Value, QueryError> {
    use rusqlite::types::Value as Sql;
    Ok(match value {
        Value::Null => Sql::Null,
        Value::Bool(value) => Sql::Integer((*value).into()),
        Value::Number(number) => match number.as_i64() {
            Some(number) => Sql::Integer(number),
            // As a real number it would be another one.
            None if number.is_u64() => {
                return Err(QueryError::Failed(format!(
                    "the parameter {number} is above the largest integer of SQLite, {}; pass it as \
                     text",
                    i64::MAX
                )));
            }
            None => Sql::Real(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => Sql::Text(text.clone()),
        // Its schema does not let these in.
        Value::Array(_) | Value::Object(_) => Sql::Text(value.to_string()),
    })
}

/// A row, and how many bytes its values have; nothing if these are more than there is room for.
fn read(row: &Row<'_>, columns: usize, room: usize) -> Result<Option<(Vec<Value>, usize)>, Error> {
    let (mut values, mut bytes) = (Vec::with_capacity(columns), 0_usize);
    for at in 0..columns {
        let value = row.get_ref(at)?;
        let size = match value {
            ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => VALUE,
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.len().max(VALUE),
        };
        bytes = bytes.saturating_add(size);
        if bytes > room {
            return Ok(None);
        }
        values.push(match value {
            ValueRef::Null => Value::Null,
            ValueRef::Integer(number) => json!(number),
            ValueRef::Real(number) => json!(number),
            // SQLite does not check that text is UTF-8.
            ValueRef::Text(text) => match std::str::from_utf8(text) {
                Ok(text) => json!(text),
                Err(_) => json!({"base64": STANDARD.encode(text)}),
            },
            ValueRef::Blob(blob) => json!({"base64": STANDARD.encode(blob)}),
        });
    }
    Ok(Some((values, bytes)))
}
