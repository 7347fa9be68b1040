//! `frith env`: worlds that a host has, and playing in one by hand.

mod actions;
mod keys;
mod play;

use a2e_wire::messages::env::{EnvListRequest, EnvSummary};
use anyhow::{Context, Result};
use serde_json::Value;

use crate::Outcome;
use crate::agent::{block_on, print};
use crate::plan::print_all;
use crate::{connect, screen};

#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(disable_help_subcommand = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// List the environments of a host
    List {
        #[command(flatten)]
        host: connect::Arguments,
    },
    /// Play: each frame is shown, and keys are actions
    ///
    /// At a terminal the arrows and the first letters of actions are actions, digits their numbers,
    /// space takes what the environment suggests, R begins anew and q ends. Otherwise each line is an
    /// action: its name, its number, or a JSON object; an empty line takes the suggestion.
    Play(play::Arguments),
}

pub(crate) fn run(arguments: &Arguments, as_json: bool) -> Result<Outcome> {
    match &arguments.action {
        Action::List { host } => list(host, as_json),
        Action::Play(arguments) => play::run(arguments, as_json),
    }
}

fn list(host: &connect::Arguments, as_json: bool) -> Result<Outcome> {
    block_on(async {
        let connection = host.connect(&["env"]).await?;
        let asked = connection.client.request(EnvListRequest {});
        let listed = asked
            .await
            .context("the host does not list its environments")?;
        connection.close().await;
        let environments = &listed.environments;
        match as_json {
            true => print_all(environments)?,
            false => environments.iter().try_for_each(|it| print(&line(it)))?,
        }
        Ok(Outcome::Good)
    })
}

fn line(environment: &EnvSummary<'_>) -> String {
    let EnvSummary {
        name,
        description,
        max_steps,
    } = environment;
    let cut = max_steps.map_or_else(String::new, |steps| format!(" ({steps} steps)"));
    format!(
        "{:16} {}{cut}",
        screen::plain(name),
        screen::plain(description)
    )
}

/// What a JSON text says; nothing of one that is none.
fn value(raw: &a2e_wire::Raw<'_>) -> Value {
    raw.deserialize().unwrap_or_default()
}
