//! `frith demo`: what the product is for, shown with real commands on two nodes that exist for that long.

mod recording;
mod scenes;
mod stage;

use std::path::PathBuf;

use anyhow::Result;

use crate::Outcome;
use crate::interrupt::interrupted;
use stage::{Settings, Stage};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Show this scene only, from 1 to 8; what it needs is prepared without being shown
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=8))]
    scene: Option<u8>,

    /// Do not pause between the steps
    #[arg(long)]
    fast: bool,

    /// Leave the nodes running, with their directory
    #[arg(long)]
    keep: bool,

    /// Also write what is shown, and when, as an asciicast (version 2), which `asciinema play` shows
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    record: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments, as_json: bool) -> Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut stage = Stage::new(&Settings {
            is_fast: arguments.fast || as_json,
            as_json,
            record: arguments.record.as_deref(),
        })?;
        let outcome = tokio::select! {
            outcome = scenes::play(&mut stage, arguments.scene) => outcome,
            interrupted = interrupted() => interrupted.and_then(|interrupted| Err(interrupted.into())),
        };
        let outcome = match (outcome, arguments.keep) {
            (Ok(()), true) => return stage.keep().map(|()| Outcome::Good),
            (outcome, _) => outcome,
        };
        let removed = stage.clean_up().await;
        outcome.and(removed).map(|()| Outcome::Good)
    })
}
