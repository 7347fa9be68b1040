//! `frith store`: the node's database, whether or not the node runs.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use clap::Subcommand;
use serde_json::json;
use store::{Error, Existing, Report, TableUse};

use crate::Outcome;
use crate::agent::{print, print_json};
use crate::data::DataArguments;

/// Works on the file itself: a node that runs need not be asked, and is not held up.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,

    #[command(flatten)]
    data: DataArguments,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Copy the database into one file, as it is at this moment
    ///
    /// The copy is checked before it gets its name. Secrets are in it encrypted; the key to them is
    /// `store.key` in the data directory, which is not in it. To restore it, stop the node, put it in
    /// the place of `store.db`, and remove `store.db-wal` and `store.db-shm`. The node that starts on
    /// it interrupts what the copy has open, and takes named work and chains after ten minutes.
    Backup {
        /// Where to; a file that nobody else may read
        file: PathBuf,

        /// Replace a file that is there
        #[arg(long)]
        force: bool,
    },
    /// Look whether the database is well, and how much is in it
    Check,
}

pub(crate) fn run(arguments: &Arguments, as_json: bool) -> Result<Outcome> {
    let database = arguments.data.dir()?.store();
    let missing = |error: &Error| {
        anyhow!("{error}; a node makes it with the first thing it keeps, --data says where to look")
    };
    match &arguments.action {
        Action::Backup { file, force } => {
            let existing = match force {
                true => Existing::Replace,
                false => Existing::Keep,
            };
            match store::backup(&database, file, existing) {
                Err(error @ Error::NoDatabase { .. }) => Err(missing(&error)),
                Err(error @ Error::FileExists { .. }) => {
                    Err(error).context("nothing was written (--force replaces it)")
                }
                outcome => show_backup(file, outcome?, as_json),
            }
        }
        Action::Check => match store::check(&database) {
            Err(error @ Error::NoDatabase { .. }) => Err(missing(&error)),
            outcome => show_report(&database, &outcome?, as_json),
        },
    }
}

fn show_backup(file: &Path, backup: store::Backup, as_json: bool) -> Result<Outcome> {
    let store::Backup { bytes, version } = backup;
    match as_json {
        true => print_json(&json!({"file": file, "bytes": bytes, "version": version}))?,
        false => print(&format!(
            "wrote {} ({}, version {version}); it is well",
            file.display(),
            size(bytes)
        ))?,
    }
    Ok(Outcome::Good)
}

fn show_report(database: &Path, report: &Report, as_json: bool) -> Result<Outcome> {
    match as_json {
        true => print_json(&as_value(database, report))?,
        false => print(&as_text(database, report))?,
    }
    Ok(match report.problems.is_empty() {
        true => Outcome::Good,
        false => Outcome::Bad,
    })
}

fn as_value(database: &Path, report: &Report) -> serde_json::Value {
    let tables = report.tables.iter().map(|table| {
        let TableUse {
            table,
            owners,
            entries,
            bytes,
        } = *table;
        json!({"table": table, "owners": owners, "entries": entries, "bytes": bytes})
    });
    json!({
        "file": database,
        "version": report.version,
        "newest_version": report.newest,
        "bytes": report.bytes,
        "free_bytes": report.free_bytes,
        "log_bytes": report.log_bytes,
        "tables": tables.collect::<Vec<_>>(),
        "problems": report.problems,
    })
}

fn as_text(database: &Path, report: &Report) -> String {
    let mut lines = vec![format!(
        "{}: version {}, {} ({} of it free), and {} in the log beside it",
        database.display(),
        report.version,
        size(report.bytes),
        size(report.free_bytes),
        size(report.log_bytes),
    )];
    if report.version < report.newest {
        let newest = report.newest;
        lines.push(format!("the next `frith up` brings it to version {newest}"));
    }
    for table in &report.tables {
        let TableUse {
            table,
            owners,
            entries,
            bytes,
        } = *table;
        let bytes = size(u64::try_from(bytes).unwrap_or(u64::MAX));
        let row = format!("  {table:14} {entries:>8} entries of {owners:>6} owners, {bytes:>10}");
        lines.push(row);
    }
    match report.problems.len() {
        0 => lines.push("it is well".to_owned()),
        count => {
            lines.extend(report.problems.iter().map(|problem| format!("! {problem}")));
            let plural = if count == 1 { "" } else { "s" };
            lines.push(format!(
                "it is not well: {count} problem{plural}; restore a backup"
            ));
        }
    }
    lines.join("\n")
}

/// Bytes in the largest unit that fits.
pub(crate) fn size(bytes: u64) -> String {
    let units: [(u64, _); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => {
            let tenths = u128::from(bytes) * 10 / u128::from(*unit);
            format!("{}.{} {name}", tenths / 10, tenths % 10)
        }
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn a_size_has_one_unit() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1_600_000, "1.5 MiB"),
            (u64::MAX, "17179869183.9 GiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }
}
