//! A host inside this process: for a command that finds no node, and for the process that started
//! this one.
//!
//! It serves what a node does, in the same sandbox and workspace and by the same rules. It claims no
//! data directory, so there can be many, and it keeps nothing: no record, no sessions, no secrets.
//! Whoever it serves has the rights of this process anyway.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use a2e_caps::chains::Keeper;
use a2e_caps::learning::Ledgers;
use a2e_runtime::config::Config;
use a2e_runtime::definitions::Definitions;
use a2e_runtime::demo::Demo;
use a2e_runtime::{ConfigurationCounters, DataDir, Host, Open, Policies};
use anyhow::{Context, Result};
use store::{Limits, Memory, Store};

use crate::capabilities::Capabilities;
use crate::data::DataArguments;
use crate::node::{self, Shared};
use crate::screen;
use crate::vault;

/// The configuration of such a host.
#[derive(Debug)]
pub(crate) enum Chosen {
    /// The user named it.
    Named(PathBuf),
    /// It lies in this folder, if one does. Whoever made the folder may have made it too, an agent or
    /// the author of something that was fetched: its rules count, and nothing in it that could run
    /// programs or reach files.
    Here,
}

impl Chosen {
    /// Reads it.
    fn load(self) -> Result<(Config, Option<PathBuf>)> {
        let file = match self {
            Self::Named(file) => return Ok((Config::load(&file)?, Some(file))),
            Self::Here => Config::find(&std::env::current_dir()?)?,
        };
        let Some(file) = file else {
            return Ok((Config::default(), None));
        };
        let Config { policy, .. } = Config::load(&file)?;
        let config = Config {
            policy,
            ..Config::default()
        };
        Ok((config, Some(file)))
    }
}

/// The host that a configuration describes, as a node's is.
pub(crate) async fn host(chosen: Chosen, data: &DataArguments) -> Result<Host> {
    let (config, file) = chosen.load()?;
    let file = file.as_deref();
    let is_plain = config.plugins.is_empty();
    let capabilities = match capabilities(&config, file, data).await {
        Ok(capabilities) => capabilities,
        // Whoever is new here and has no such kernel can still see a call.
        Err(error) if is_plain => {
            let why = screen::message(format_args!("{error:#}"));
            tell!("frith: only the tools to try a host with are served: {why}");
            return Ok(demo(&config));
        }
        Err(error) => return Err(error),
    };
    let store = Store::new(Memory::new(Limits::default()));
    let shared = Shared {
        authenticator: Arc::new(Open),
        sessions: None,
        approvals: None,
        audit: None,
        capabilities,
        vault: vault::for_now(&store).await?,
        definitions: Definitions::new(&store)?,
        configurations: ConfigurationCounters::default(),
        peers: Arc::default(),
        ledgers: Arc::new(Ledgers::new(store.clone())),
        chains: Arc::new(Keeper::new(store.clone())),
        store,
    };
    let tell = |doing: String| tell!("frith: {}", screen::plain(doing));
    let (builder, described) = node::builder(&config, &shared, &tell).await?;
    shared.capabilities.take(described);
    Ok(builder.build())
}

async fn capabilities(
    config: &Config,
    file: Option<&Path>,
    data: &DataArguments,
) -> Result<Capabilities> {
    let (config, file) = (config.clone(), file.map(Path::to_owned));
    let data: DataDir = data.dir()?;
    let made = tokio::task::spawn_blocking(move || {
        if config.workspace.is_none() {
            data.make()?;
        }
        Capabilities::new(&config, file.as_deref(), &data)
    });
    made.await.context("cannot prepare the sandbox")?
}

fn demo(config: &Config) -> Host {
    // The configuration was checked when it was read.
    let policies = Policies::compile(&config.policy).unwrap_or_default();
    let builder = Host::builder().plugin(Demo::default());
    builder.policies(policies).build()
}
