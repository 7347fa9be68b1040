//! Environments, as the configuration has them.

use std::sync::Arc;

use a2e_caps::Placement;
use a2e_caps::env::{Environments, PushSpellings, Settings, Terminal, WebPages, built_in};
use a2e_runtime::config::Env;
use a2e_runtime::{HostBuilder, Learner};

use super::Capabilities;

impl Capabilities {
    /// Adds environments, and tells of what happens there whoever learns of it.
    pub(crate) fn env(
        &self,
        builder: HostBuilder,
        placement: Placement,
        env: &Env,
        learner: Option<Arc<dyn Learner>>,
    ) -> HostBuilder {
        let mut environments = built_in();
        environments.push(Arc::new(Terminal::new(Arc::clone(&self.workplace))));
        environments.push(Arc::new(WebPages::new(Arc::clone(&self.web))));
        let plugin = Environments::new(
            environments,
            Settings {
                placement,
                max_episodes: env.max_episodes,
                idle: env.idle,
                max_steps: env.max_steps,
                max_time: env.max_time,
                pushes: match env.slash_pushes {
                    true => PushSpellings::Both,
                    false => PushSpellings::Catalogue,
                },
                learner,
            },
        );
        builder.plugin(plugin)
    }
}
