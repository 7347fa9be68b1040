//! Looking whether a database is well.

use std::fs;
use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use super::files::log_path;
use super::{connect, meter, migrations};
use crate::Error;

/// What was found out about a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Its version.
    pub version: i64,
    /// The version it will have after the next start.
    pub newest: i64,
    /// Its size in bytes, without the log.
    pub bytes: u64,
    /// How much of that is free for new entries.
    pub free_bytes: u64,
    /// The size of the log beside it: what was written and is not in the database's own file yet.
    /// That is normal while a node runs and after it was killed; whoever opens the database reads
    /// both.
    pub log_bytes: u64,
    /// What is in it.
    pub tables: Vec<TableUse>,
    /// What is wrong with it; nothing if it is well.
    pub problems: Vec<String>,
}

/// How much is in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableUse {
    /// Its name.
    pub table: &'static str,
    /// How many agents (or kinds) have something in it.
    pub owners: usize,
    /// How many entries.
    pub entries: usize,
    /// Their bytes.
    pub bytes: usize,
}

/// At most so many problems are named.
const MAX_PROBLEMS: usize = 100;

/// Looks whether a database is well; changes nothing, and works while a node writes to it.
///
/// # Errors
/// If there is none, or none that this version can read. What is wrong *in* it is in the report.
pub fn check(path: &Path) -> Result<Report, Error> {
    let connection = open(path)?;
    // One state of it, whatever is written meanwhile.
    let transaction = connection.unchecked_transaction()?;
    let version = migrations::version(&transaction, path)?;
    let number = |name| transaction.pragma_query_value(None, name, |row| row.get::<_, u64>(0));
    let page = number("page_size")?;
    let bytes = number("page_count")?.saturating_mul(page);
    let free_bytes = number("freelist_count")?.saturating_mul(page);
    let mut problems = problems(&transaction);
    let tables = match meter::tables(&transaction) {
        Ok((tables, wrong)) => {
            problems.extend(wrong);
            tables
        }
        Err(error) => {
            problems.push(error.to_string());
            Vec::new()
        }
    };
    Ok(Report {
        version,
        newest: migrations::newest(),
        bytes,
        free_bytes,
        log_bytes: fs::metadata(log_path(path)).map_or(0, |log| log.len()),
        tables,
        problems,
    })
}

/// A database that is there, to read only.
pub(super) fn open(path: &Path) -> Result<Connection, Error> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() && metadata.len() > 0 => {}
        Ok(_) | Err(_) => {
            return Err(Error::NoDatabase {
                path: path.to_owned(),
            });
        }
    }
    connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)
}

/// What SQLite itself finds. That it cannot look is a finding too.
fn problems(connection: &Connection) -> Vec<String> {
    let mut problems = Vec::new();
    let mut collect = |sql: &str, describe: fn(&rusqlite::Row<'_>) -> rusqlite::Result<String>| {
        let found = connection.prepare(sql).and_then(|mut statement| {
            let rows = statement.query_map([], describe)?;
            rows.take(MAX_PROBLEMS).collect::<Result<Vec<_>, _>>()
        });
        match found {
            Ok(found) => problems.extend(found.into_iter().filter(|text| text != "ok")),
            Err(error) => problems.push(error.to_string()),
        }
    };
    collect("PRAGMA integrity_check(100)", |row| row.get(0));
    collect("PRAGMA foreign_key_check", |row| {
        let (table, parent): (String, String) = (row.get(0)?, row.get(2)?);
        Ok(format!("a row of {table} belongs to none of {parent}"))
    });
    problems
}
