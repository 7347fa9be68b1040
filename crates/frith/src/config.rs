//! `frith config`: the configuration of a running node.

use std::time::Duration;

use a2e_runtime::operator::{Nothing, ask_telling};
use anyhow::Result;
use clap::Subcommand;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::Outcome;
use crate::agent::{block_on, print, print_json};
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
    /// takes no rules that allow more than before: a file may be written by somebody else.
    Apply,
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
}

pub(crate) fn run(arguments: &Arguments, as_json: bool) -> Result<Outcome> {
    let dir = arguments.data.dir()?;
    let Action::Apply = arguments.action;
    let told = |news: canonical::Value<'static>| {
        if let Ok(Doing { doing }) = news.deserialize_into() {
            eprintln!("{}", plain(doing));
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
        eprintln!("{}", plain(kept));
    }
    match applied.kept.is_empty() {
        true if as_json => Ok(Outcome::Good),
        true => print(&"applied").map(|()| Outcome::Good),
        false => Ok(Outcome::Bad),
    }
}
