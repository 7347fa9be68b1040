//! Sub-agents, as the configuration describes them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use a2e_caps::Placement;
use a2e_caps::agents::{Agents, Limits, Shop};
use a2e_caps::model::Models;
use a2e_runtime::HostBuilder;
use a2e_runtime::config::MultiAgent;
use anyhow::{Result, bail};

use super::Capabilities;

impl Capabilities {
    /// Adds sub-agents.
    pub(crate) fn agents(
        &self,
        builder: HostBuilder,
        placement: Placement,
        config: &MultiAgent,
        models: &Arc<Models>,
    ) -> Result<HostBuilder> {
        for command in &config.commands {
            self.check_program(&command.words)?;
        }
        let commands = config.commands.iter();
        let shop = Arc::new(Shop {
            models: Arc::clone(models),
            commands: commands
                .map(|it| (it.name.clone(), it.words.clone()))
                .collect(),
            workplace: Arc::clone(&self.workplace),
        });
        let limits = Limits {
            depth: config.max_depth,
            agents: config.max_agents,
            steps: config.max_steps,
            tokens: config.max_tokens as u64,
            timeout: config.timeout,
        };
        let forest = Arc::clone(&self.forest);
        Ok(builder.plugin(Agents::new(shop, limits, forest, placement)))
    }

    /// Agents could make another program of it.
    fn check_program(&self, words: &[String]) -> Result<()> {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let files = words
            .iter()
            .map(Path::new)
            .filter(|path| path.is_absolute());
        for file in files.map(real) {
            let is_open = |open: &&PathBuf| file.starts_with(real(open));
            if let Some(open) = self.widest().writable.iter().find(is_open) {
                bail!(
                    "agents could rewrite a program of `multi_agent`: {} lies in {}, which is open \
                     to them; move one of them",
                    file.display(),
                    open.display()
                );
            }
        }
        Ok(())
    }
}
