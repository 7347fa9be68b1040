//! MCP servers, as the configuration describes them.

#[cfg(feature = "mcp")]
use std::path::Path;
#[cfg(feature = "mcp")]
use std::sync::{Arc, OnceLock};

#[cfg(feature = "mcp")]
use a2e_caps::Placement;
#[cfg(feature = "mcp")]
use a2e_caps::http::Web;
#[cfg(feature = "mcp")]
use a2e_caps::mcp::client::{Fleet, Ground, Mcp as McpPlugin};
use a2e_caps::tool::Pinning;
use a2e_runtime::HostBuilder;
use a2e_runtime::config::{Mcp, Plugin};
use anyhow::{Result, bail};
#[cfg(feature = "mcp")]
use sandbox::Profile;
use store::Vault;

#[cfg(feature = "mcp")]
use super::placement;
use super::{Capabilities, Described};
use crate::status::McpServer;

impl Capabilities {
    /// Adds MCP servers.
    #[cfg(feature = "mcp")]
    pub(crate) fn mcp(
        &self,
        builder: HostBuilder,
        plugin: &Plugin,
        told: (&Mcp, &mut Described),
        kept: (Pinning, &Vault),
    ) -> Result<HostBuilder> {
        self.mcp_as(builder, placement(plugin), told, kept)
    }

    /// Says that this program has no such part.
    #[cfg(not(feature = "mcp"))]
    pub(crate) fn mcp(
        &self,
        _: HostBuilder,
        plugin: &Plugin,
        _: (&Mcp, &mut Described),
        _: (Pinning, &Vault),
    ) -> Result<HostBuilder> {
        bail!(
            "the plugin `{}` is of the type `mcp`, which {}",
            plugin.name,
            a2e_caps::FULL_BUILD
        );
    }

    /// Adds those that a configuration names without any plugins.
    #[cfg(feature = "mcp")]
    pub(super) fn servers(
        &self,
        builder: HostBuilder,
        mcp: Option<&Mcp>,
        described: &mut Described,
        kept: (Pinning, &Vault),
    ) -> Result<HostBuilder> {
        let none = Mcp::default();
        let told = (mcp.unwrap_or(&none), described);
        self.mcp_as(builder, Placement::named("mcp"), told, kept)
    }

    /// Says that this program has no such part, if it is asked for.
    #[cfg(not(feature = "mcp"))]
    pub(super) fn servers(
        &self,
        builder: HostBuilder,
        mcp: Option<&Mcp>,
        _: &mut Described,
        _: (Pinning, &Vault),
    ) -> Result<HostBuilder> {
        match mcp {
            Some(_) => bail!(
                "the configuration has `mcp`, which {}",
                a2e_caps::FULL_BUILD
            ),
            None => Ok(builder),
        }
    }

    #[cfg(feature = "mcp")]
    fn mcp_as(
        &self,
        builder: HostBuilder,
        placement: Placement,
        (mcp, described): (&Mcp, &mut Described),
        (pinning, vault): (Pinning, &Vault),
    ) -> Result<HostBuilder> {
        check_mcp(&self.widest(), mcp)?;
        let web = Web::new(Arc::clone(&self.web), &mcp.private_hosts)?;
        let fleet = self.fleet.get_or_init(|| {
            let (workplace, catalogue) = (Arc::clone(&self.workplace), self.catalogue());
            let ground = Ground::new(workplace, web.clone(), catalogue, pinning);
            Fleet::new(ground.keeping_logins(vault.node()))
        });
        described.servers = Some((mcp.servers.clone(), web));
        self.show_skills();
        Ok(builder.plugin(McpPlugin::new(Arc::clone(fleet), placement)))
    }

    /// The servers, as soon as there is a plugin for them.
    #[cfg(feature = "mcp")]
    pub(crate) fn fleet(&self) -> Arc<OnceLock<Arc<Fleet>>> {
        Arc::clone(&self.fleet)
    }

    /// How the servers are, whenever that is asked.
    #[cfg(feature = "mcp")]
    pub(crate) fn server_states(&self) -> impl Fn() -> Vec<McpServer> + use<> {
        let fleet = self.fleet();
        move || {
            let states = fleet.get().map(|fleet| fleet.states()).unwrap_or_default();
            states
                .into_iter()
                .map(crate::mcp_servers::operate::shown)
                .collect()
        }
    }

    /// There are none.
    #[cfg(not(feature = "mcp"))]
    pub(crate) fn server_states(&self) -> impl Fn() -> Vec<McpServer> + use<> {
        Vec::new
    }

    /// Has those who speak MCP told of skills that change.
    #[cfg(feature = "mcp")]
    pub(super) fn show_skills(&self) {
        if let (Some(fleet), Some(shelf)) = (self.fleet.get(), self.shelf.get()) {
            fleet.show(shelf);
        }
    }
}

/// Agents could add servers of their own with rights of the operator's.
#[cfg(feature = "mcp")]
fn check_mcp(profile: &Profile, mcp: &Mcp) -> Result<()> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    for file in &mcp.imported {
        let mut writable = profile.writable.iter();
        if let Some(path) = writable.find(|path| real(file).starts_with(real(path))) {
            bail!(
                "agents could rewrite their own servers: {} (`import`) lies in {}, which is open to \
                 them; move one of them",
                file.display(),
                path.display()
            );
        }
    }
    Ok(())
}
