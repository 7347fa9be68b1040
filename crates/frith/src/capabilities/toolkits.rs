//! Bundles of tools that agents configure, and processes.

use std::sync::Arc;

use a2e_caps::Placement;
use a2e_caps::proc::{Procs, Settings};
use a2e_caps::toolkits::{Filesystem, Git, Http, Sqlite, Toolkit, Toolkits};
use a2e_runtime::HostBuilder;
use a2e_runtime::config::{Plugin, Proc};
use store::Vault;

use super::{Capabilities, placement};

impl Capabilities {
    /// Adds the toolkits.
    pub(crate) fn toolkits(
        &self,
        builder: HostBuilder,
        plugin: &Plugin,
        vault: &Vault,
    ) -> HostBuilder {
        builder.plugin(self.make_toolkits(vault, placement(plugin)))
    }

    pub(super) fn make_toolkits(&self, vault: &Vault, placement: Placement) -> Toolkits {
        let roots = Arc::clone(&self.roots);
        let toolkits: Vec<Arc<dyn Toolkit>> = vec![
            Arc::new(Filesystem::new(Arc::clone(&roots))),
            Arc::new(Sqlite::new(roots, self.queries)),
            Arc::new(Git::new(Arc::clone(&self.workplace))),
            Arc::new(Http::new(Arc::clone(&self.web))),
        ];
        let catalogue = Arc::clone(&self.catalogue);
        Toolkits::new(catalogue, vault.clone(), toolkits, placement)
    }

    /// Adds processes.
    pub(crate) fn proc(
        &self,
        builder: HostBuilder,
        placement: Placement,
        proc: &Proc,
    ) -> HostBuilder {
        let procs = Procs::new(Settings {
            placement,
            workplace: Arc::clone(&self.workplace),
            allowed: proc.allowed_commands.clone(),
            allowed_env: proc.allowed_env.clone(),
            max_running: proc.max_procs,
        });
        builder.plugin(procs)
    }
}
