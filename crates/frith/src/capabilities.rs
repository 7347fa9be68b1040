//! The built-in capabilities, as the configuration describes them.

mod agents;
mod chains;
mod embedder;
mod env;
mod ground;
pub(crate) mod learning;
mod mcp;
mod memory;
mod peers;
mod skills;
mod toolkits;
mod tools;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use a2e_caps::agents::Forest;
use a2e_caps::chains::Keeper;
use a2e_caps::files::{Access, Roots};
use a2e_caps::http::{Client, Settings as WebSettings};
use a2e_caps::learning::Ledgers;
#[cfg(feature = "mcp")]
use a2e_caps::mcp::client::Fleet;
use a2e_caps::memory::{Memory, Settings as MemorySettings};
use a2e_caps::model::Models;
use a2e_caps::shares::{Kind, Shares};
use a2e_caps::skills::Shelf;
use a2e_caps::tool::{Admitted, Catalogue, Pinning, Source};
use a2e_caps::toolkits::SqliteLimits;
use a2e_caps::tools::Settings as ToolSettings;
use a2e_caps::workplace::Workplace;
use a2e_caps::{Placement, commands, files, http, time};
use a2e_runtime::config::{
    Chains, Config, Env, Learning, Mcp, MultiAgent, Planning, Plugin, Proc, Skills,
};
use a2e_runtime::definitions::Definitions;
use a2e_runtime::{DataDir, HostBuilder};
use anyhow::{Context, Result, bail};
use sandbox::{Profile, Settings};
use store::{Store, Vault};
use tokio::task::JoinHandle;

use crate::components::Loader;

pub(crate) use chains::{chains, planning};
use ground::Protected;
pub(crate) use ground::launcher;
#[cfg(feature = "mcp")]
pub(crate) use ground::servers;

/// What the built-in capabilities stand on. It stays when the configuration is read again.
pub(crate) struct Capabilities {
    workplace: Arc<Workplace>,
    catalogue: Arc<Catalogue>,
    roots: Arc<Roots>,
    /// Fetches for tools: public addresses only.
    web: Arc<Client>,
    components: Loader,
    /// What queries of SQLite databases may use up.
    queries: SqliteLimits,
    /// What no program may reach.
    protected: Protected,
    /// The widest profile of the configuration that was last looked at: what must not be changed by what
    /// agents run lies outside of it.
    widest: RwLock<Profile>,
    /// Where scripts, and skills that are programs, are kept as they were when they were read.
    scripts: PathBuf,
    /// Where skills are, unless the configuration says otherwise.
    own_skills: PathBuf,
    /// Skills, once there is a plugin for them.
    shelf: OnceLock<Arc<Shelf>>,
    /// The sub-agents of all sessions.
    forest: Arc<Forest>,
    /// MCP servers, once there is a plugin for them.
    #[cfg(feature = "mcp")]
    fleet: Arc<OnceLock<Arc<Fleet>>>,
}

/// The tools that a configuration describes, by where they come from, and the servers that have more.
#[derive(Debug, Default)]
pub(crate) struct Described {
    sources: Vec<(Source, Admitted)>,
    /// The MCP servers, and how they are reached.
    #[cfg(feature = "mcp")]
    servers: Option<(Vec<a2e_runtime::config::McpServer>, http::Web)>,
}

impl Described {
    /// Adds those of a source to what there is of it.
    pub(crate) fn add(&mut self, source: Source, admitted: Admitted) {
        let mut known = self.sources.iter_mut();
        match known.find(|(known, _)| *known == source) {
            Some((_, all)) => {
                all.tools.extend(admitted.tools);
                all.quarantined.extend(admitted.quarantined);
            }
            None => self.sources.push((source, admitted)),
        }
    }

    /// Adds those of another plugin.
    pub(crate) fn extend(&mut self, other: Self) {
        for (source, admitted) in other.sources {
            self.add(source, admitted);
        }
        #[cfg(feature = "mcp")]
        if other.servers.is_some() {
            self.servers = other.servers;
        }
    }
}

impl Capabilities {
    /// The workspace.
    pub(crate) fn folder(&self) -> &Path {
        &self.workplace.folder
    }

    /// Prepares the workspace and the sandbox, and looks for the tools there are.
    pub(crate) fn new(config: &Config, file: Option<&Path>, data: &DataDir) -> Result<Self> {
        let limits = &config.global_limits;
        let workspace = ground::workspace(config, data)?;
        let profile = ground::profile(config, &workspace);
        let protected = Protected::new(data, &workspace, file);
        ground::check(config, &profile, &protected)?;
        let widest = ground::widest(config, &profile);
        tools::check_own_tools(&widest, config)?;
        let launcher = launcher(config, Some(&protected))?;
        if config.workspace.is_none() {
            let shared = launcher.share(&workspace);
            shared.with_context(|| format!("cannot share {}", workspace.display()))?;
        }
        let workplace = Arc::new(Workplace {
            launcher,
            profile,
            folder: workspace.clone(),
            commands: Shares::new(Kind::Commands, limits.max_commands_per_agent),
        });
        let roots = Roots::one(&workspace, Access::ReadWrite)?;
        let mut tools = files::tools(Arc::clone(&roots))?;
        tools.extend(commands::tools(&workplace)?);
        tools.extend(time::tools()?);
        let web = Client::new(WebSettings {
            per_host: limits.max_fetches_per_host,
            per_agent: limits.max_fetches_per_agent,
            ..WebSettings::default()
        });
        tools.extend(http::tools(&web)?);
        let catalogue = Arc::new(Catalogue::default());
        catalogue.set(Source::BuiltIn, tools);
        Ok(Self {
            workplace,
            catalogue,
            roots,
            web,
            components: Loader::new(limits.max_components_per_agent),
            queries: SqliteLimits {
                per_agent: limits.max_queries_per_agent,
                ..SqliteLimits::default()
            },
            protected,
            widest: RwLock::new(widest),
            scripts: ground::scripts(data),
            own_skills: data.path().join("skills"),
            shelf: OnceLock::new(),
            forest: Arc::default(),
            #[cfg(feature = "mcp")]
            fleet: Arc::default(),
        })
    }

    /// Checks the profiles of a configuration, which may be another than the one at the start.
    ///
    /// # Errors
    /// If a program could reach what it must not.
    pub(crate) fn check(&self, config: &Config) -> Result<()> {
        let profile = &self.workplace.profile;
        ground::check(config, profile, &self.protected)?;
        let mut widest = self.widest.write().unwrap_or_else(PoisonError::into_inner);
        *widest = ground::widest(config, profile);
        Ok(())
    }

    /// The profile of everything that the configuration has run, taken together.
    fn widest(&self) -> Profile {
        let widest = self.widest.read();
        widest.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Where foreign programs run.
    #[cfg(feature = "mcp")]
    pub(crate) const fn workplace(&self) -> &Arc<Workplace> {
        &self.workplace
    }

    /// What reaches MCP servers.
    #[cfg(feature = "mcp")]
    pub(crate) fn web(&self, private_hosts: &[String]) -> Result<http::Web> {
        Ok(http::Web::new(Arc::clone(&self.web), private_hosts)?)
    }

    /// The tools there are.
    pub(crate) fn catalogue(&self) -> Arc<Catalogue> {
        Arc::clone(&self.catalogue)
    }

    /// Finds out whether every guard that is asked for can be put up, beside whatever else is done.
    pub(crate) fn try_guards(&self) -> JoinHandle<Result<()>> {
        let workplace = Arc::clone(&self.workplace);
        let try_guards = move || workplace.launcher.try_guards().context(ground::NO_SANDBOX);
        tokio::task::spawn_blocking(try_guards)
    }

    /// What is asked of the guards around what agents run; nothing for `sandbox: none`.
    pub(crate) fn guards(&self) -> Option<&Settings> {
        self.workplace.launcher.settings()
    }

    /// The sub-agents of all sessions.
    pub(crate) fn forest(&self) -> Arc<Forest> {
        Arc::clone(&self.forest)
    }

    /// Serves the tools of a configuration, in place of those of the one before.
    pub(crate) fn take(&self, described: Described) {
        self.catalogue.replace_described(described.sources);
        #[cfg(feature = "mcp")]
        if let Some(fleet) = self.fleet.get() {
            match described.servers {
                Some((servers, web)) => fleet.configure(&servers, Some(web)),
                None => fleet.configure(&[], None),
            }
        }
    }

    /// No tool of another host may be taken for one of these, nor one of these for another.
    pub(crate) fn reserve(&self, described: &Described, definitions: &Definitions) -> Result<()> {
        let all = self.catalogue.with_described(&described.sources);
        if let Some(clash) = all.clashes().first() {
            bail!("two tools are called `{}`", clash.name);
        }
        for entry in all.entries() {
            let name = entry.tool.definition().name();
            definitions.reserve(&entry.source.to_string(), [name]);
        }
        Ok(())
    }

    /// Adds all capabilities, as a node has them that is told nothing else.
    pub(crate) fn all(
        &self,
        builder: HostBuilder,
        vault: &Vault,
        (store, ledgers, keeper): (&Store, &Arc<Ledgers>, &Arc<Keeper>),
        (models, pinning, described): (&Arc<Models>, Pinning, &mut Described),
        mcp: Option<&Mcp>,
    ) -> Result<HostBuilder> {
        let builder = builder.plugin(self.make_tools(ToolSettings::default())?);
        let builder = builder.plugin(self.make_toolkits(vault, Placement::named("toolkits")));
        let builder = builder.plugin(Memory::new(store.clone(), MemorySettings::default()));
        let builder = planning(
            builder,
            store,
            Planning::default(),
            Placement::named("planning"),
        );
        let learning = learning::plugin(ledgers, Learning::default(), Placement::named("learning"));
        let placement = Placement::named("chains");
        let builder = chains(builder, keeper, Chains::default(), placement);
        let builder = builder.plugin(learning);
        let builder = self.env(builder, Placement::named("env"), &Env::default(), None);
        let builder = self.proc(builder, Placement::named("proc"), &Proc::default());
        let skills = Placement::named("skills");
        let tools = (models, &pinning);
        let builder = self.skills(builder, skills, &Skills::default(), tools, None)?;
        let agents = Placement::named("multi_agent");
        let builder = self.agents(builder, agents, &MultiAgent::default(), models)?;
        self.servers(builder, mcp, described, (pinning, vault))
    }
}

/// Where a plugin stands among others.
pub(crate) fn placement(plugin: &Plugin) -> Placement {
    Placement {
        name: plugin.name.clone(),
        priority: plugin.priority,
        exclusive: plugin.exclusive,
    }
}
