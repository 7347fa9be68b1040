//! `frith env`: worlds that a host has, and playing in one by hand.

mod actions;
mod keys;
mod play;

use std::time::Duration;

use a2e_runtime::{Client, ClientError};
use a2e_wire::messages::env::{EnvListRequest, EnvSummary};
use a2e_wire::{Capability, ErrorCode};
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

/// How long a host may take to say what it has.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn run(arguments: &Arguments, as_json: bool) -> Result<Outcome> {
    match &arguments.action {
        Action::List { host } => list(host, as_json),
        Action::Play(arguments) => play::run(arguments, as_json),
    }
}

fn list(host: &connect::Arguments, as_json: bool) -> Result<Outcome> {
    block_on(async {
        let connection = host.connect(&["env"]).await?;
        let client = &connection.client;
        let environments = match client.request(EnvListRequest {}).timeout(PATIENCE).await {
            Ok(listed) => listed.environments,
            Err(error) if is_unserved(&error) => {
                tell!(
                    "the host does not list its environments; this is what the plugin that has them is called"
                );
                vec![plugin(client)]
            }
            Err(error) => return Err(error).context("the host does not list its environments"),
        };
        connection.close().await;
        let environments = &environments;
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

/// Whether a host does not know a request, or never answers what it does not know.
fn is_unserved(error: &ClientError) -> bool {
    let codes = [
        ErrorCode::InvalidMessage,
        ErrorCode::ParseError,
        ErrorCode::SchemaViolation,
    ];
    if let ClientError::Host(error) = error {
        return codes.contains(&error.code);
    }
    matches!(error, ClientError::Timeout(_))
}

/// The plugin for environments, as the host named it in the handshake.
fn plugin(client: &Client) -> EnvSummary<'static> {
    let mut accepted = client.capabilities().into_iter();
    let env = accepted.find(|it| it.enabled && it.capability == Capability::Env);
    let metadata = env.map(|env| value(env.metadata.raw())).unwrap_or_default();
    let name = metadata["name"].as_str().unwrap_or("env").to_owned();
    EnvSummary::new(name.into())
}

/// What a JSON text says; nothing of one that is none.
fn value(raw: &a2e_wire::Raw<'_>) -> Value {
    raw.deserialize().unwrap_or_default()
}
