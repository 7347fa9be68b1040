//! The configuration that a command works with: a file, the environment, and options.

use std::path::{Path, PathBuf};

use a2e_runtime::config::{Config, Overrides};
use anyhow::{Result, anyhow};

#[derive(Debug, clap::Args)]
pub(crate) struct ConfigArguments {
    /// The configuration file; without it, frith.yaml or frith.toml in this folder
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// A key of the configuration, stronger than the file and the environment, where
    /// FRITH__SERVER__LISTEN is server.listen; all users of this machine can see it, so it is no place
    /// for secrets
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

impl ConfigArguments {
    /// The configuration file, if there is one.
    pub(crate) fn file(&self) -> Result<Option<PathBuf>> {
        Ok(match &self.config {
            Some(file) => Some(file.clone()),
            None => Config::find(&std::env::current_dir()?)?,
        })
    }

    /// All that is said: by default, in the file, in the environment, by options.
    pub(crate) fn load(&self, file: Option<&Path>) -> Result<Config> {
        let variables = Overrides::from_variables(std::env::vars_os());
        let mut overrides = variables.map_err(|text| anyhow!(text))?;
        for setting in &self.set {
            let set = overrides.set(setting);
            set.map_err(|text| anyhow!("--set {text}"))?;
        }
        Ok(Config::layered(file, &overrides)?)
    }
}
