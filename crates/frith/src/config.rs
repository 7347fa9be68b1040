//! `frith config`: the configuration of a node, before it runs and while it does.

use std::path::{Path, PathBuf};
use std::time::Duration;

use a2e_runtime::config::ConfigError;
use a2e_runtime::operator::{Nothing, ask_telling};
#[cfg(feature = "mcp")]
use a2e_runtime::{DataDir, operator::AskError};
use anyhow::Result;
use clap::Subcommand;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::Outcome;
use crate::agent::{block_on, print, print_json};
use crate::configured::ConfigArguments;
use crate::data::DataArguments;
use crate::screen::plain;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,

    #[command(flatten)]
    data: DataArguments,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Apply the configuration file as it is now. A node that is only told to read it again (SIGHUP)
    /// takes no rules that allow more than before: a file may be written by somebody else. So it is with
    /// a file that has changed, which a node notices by itself.
    Apply,
    /// Say all that is wrong with a configuration, each with its place
    Check {
        /// The configuration file, as with --config
        #[arg(conflicts_with = "config")]
        file: Option<PathBuf>,

        #[command(flatten)]
        config: ConfigArguments,
    },
    /// Print a JSON Schema of the configuration, which editors can complete and check with
    Schema,
}

/// What a node is doing, told before the answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Doing {
    pub(crate) doing: String,
}

/// How long it may take: what a configuration names is fetched, started and compiled.
const PATIENCE: Duration = Duration::from_secs(3600);

/// The answer to `config.apply`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Applied {
    /// What was not, and why.
    pub(crate) kept: Vec<String>,
    /// The keys that change at the next start.
    pub(crate) later: Vec<String>,
    /// The file that was read, if there is one.
    pub(crate) file: Option<String>,
}

pub(crate) fn run(arguments: &Arguments, as_json: bool) -> Result<Outcome> {
    match &arguments.action {
        Action::Apply => apply(&arguments.data, as_json),
        Action::Check { file, config } => check(file.as_deref(), config, as_json),
        Action::Schema => {
            let schema = serde_json::to_string_pretty(&a2e_runtime::config::schema())?;
            print(&schema).map(|()| Outcome::Good)
        }
    }
}

/// Has a node that runs take what was written; without one, it is there at the next start.
#[cfg(feature = "mcp")]
pub(crate) async fn apply_if_running(dir: &DataDir) -> Result<Outcome> {
    let applied = ask_telling(dir, "config.apply", &Nothing {}, PATIENCE, |_| {}).await;
    let applied: Applied = match applied {
        Err(AskError::NoNode { .. }) => return Ok(Outcome::Good),
        applied => applied?,
    };
    for kept in &applied.kept {
        tell!("{}", plain(kept));
    }
    let file = applied.file.as_deref().map(plain);
    tell!(
        "the node that runs has read {}",
        file.as_deref().unwrap_or("no file")
    );
    Ok(match applied.kept.is_empty() {
        true => Outcome::Good,
        false => Outcome::Bad,
    })
}

fn apply(data: &DataArguments, as_json: bool) -> Result<Outcome> {
    let dir = data.dir()?;
    let told = |news: canonical::Value<'static>| {
        if let Ok(Doing { doing }) = news.deserialize_into() {
            tell!("{}", plain(doing));
        }
    };
    let applied: Applied = block_on(async {
        let applied = ask_telling(&dir, "config.apply", &Nothing {}, PATIENCE, told);
        Ok(applied.await?)
    })?;
    if as_json {
        print_json(&json!(applied))?;
    }
    for kept in &applied.kept {
        tell!("{}", plain(kept));
    }
    if !applied.later.is_empty() {
        tell!(
            "these change at the next start: {}",
            applied.later.join(", ")
        );
    }
    match applied.kept.is_empty() {
        true if as_json => Ok(Outcome::Good),
        true => {
            let file = applied.file.as_deref().map(plain);
            let file = file.unwrap_or_else(|| "what is built in: there is no file".to_owned());
            print(&format!("applied {file}")).map(|()| Outcome::Good)
        }
        false => Ok(Outcome::Bad),
    }
}

fn check(file: Option<&Path>, arguments: &ConfigArguments, as_json: bool) -> Result<Outcome> {
    let file = match file {
        Some(file) => Some(file.to_owned()),
        None => arguments.file()?,
    };
    let (problems, notes) = match arguments.load(file.as_deref()) {
        Ok(config) => (Vec::new(), config.notes),
        Err(error) => match error.downcast::<ConfigError>() {
            Ok(error) => (vec![error], Vec::new()),
            Err(error) => return Err(error),
        },
    };
    if as_json {
        let all = problems.iter().flat_map(|error| &error.problems);
        let all = all.map(|problem| {
            let (line, column) = problem.at.map(|at| (at.line, at.column)).unzip();
            json!({"line": line, "column": column, "text": problem.text})
        });
        let problems: Vec<_> = all.collect();
        print_json(&json!({"file": file, "problems": problems, "notes": notes}))?;
    } else {
        for error in &problems {
            error
                .to_string()
                .lines()
                .try_for_each(|line| print(&plain(line)))?;
        }
        notes.iter().try_for_each(|note| print(&plain(note)))?;
    }
    match (problems.is_empty(), &file) {
        (false, _) => return Ok(Outcome::Bad),
        (true, _) if as_json => {}
        (true, Some(file)) => print(&format_args!("{} is good", plain(file.display())))?,
        (true, None) => print(&"there is no file; the defaults are good")?,
    }
    Ok(Outcome::Good)
}
