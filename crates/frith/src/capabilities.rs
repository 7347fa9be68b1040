//! The built-in capabilities, as the configuration describes them.

mod agents;
mod env;
pub(crate) mod learning;
mod peers;
mod skills;

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use a2e_caps::agents::Forest;
use a2e_caps::chains::{Chains, Keeper, Limits as ChainLimits, Settings as ChainSettings};
use a2e_caps::commands::{Template, TemplateError};
use a2e_caps::files::{Access, Roots};
use a2e_caps::http::{Client, Settings as WebSettings, Web};
use a2e_caps::learning::Ledgers;
#[cfg(feature = "mcp")]
use a2e_caps::mcp::client::{Fleet, Ground, Mcp as McpPlugin};
use a2e_caps::memory::{Endpoint, EndpointSettings, Memory, Reader, Settings as MemorySettings};
use a2e_caps::model::Models;
use a2e_caps::planning::{Planning, Sharing};
use a2e_caps::proc::{Procs, Resize, Settings as ProcSettings};
use a2e_caps::shares::{Kind, Shares};
use a2e_caps::skills::Shelf;
use a2e_caps::tool::{Admitted, Catalogue, Pinning, Source, Tool};
use a2e_caps::toolkits::{Filesystem, Git, Http, Sqlite, SqliteLimits, Toolkit, Toolkits};
use a2e_caps::tools::{Settings as ToolSettings, Tools};
use a2e_caps::workplace::Workplace;
use a2e_caps::{Placement, commands, endpoints, files, http, openapi, scripts, time};
use a2e_runtime::config::{
    Chains as ChainsConfig, CommandTool, Config, Embedder, Env, Learning as LearningConfig, Mcp,
    Memory as MemoryConfig, MultiAgent, Network, OwnTools, Planning as PlanningConfig, Plugin,
    PluginKind, Proc, Sandbox, Skills,
};
use a2e_runtime::definitions::Definitions;
use a2e_runtime::{DataDir, HostBuilder};
use anyhow::{Context, Result, bail};
use sandbox::{Launcher, MemoryLevel, Profile, Settings};
use store::{Overflow, Rooms, Store, Vault};
use tokio::task::JoinHandle;

use crate::components::Loader;

/// What the built-in capabilities stand on. It stays when the configuration is read again.
pub(crate) struct Capabilities {
    workplace: Arc<Workplace>,
    catalogue: Arc<Catalogue>,
    roots: Arc<Roots>,
    /// Fetches for tools: public addresses only.
    web: Arc<Client>,
    components: Loader,
    /// Where scripts are kept as they were when they were read.
    scripts: PathBuf,
    /// Where skills are, unless the configuration says otherwise.
    own_skills: PathBuf,
    /// Skills, once there is a plugin for them.
    shelf: OnceLock<Arc<Shelf>>,
    /// The sub-agents of all sessions.
    forest: Arc<Forest>,
    /// MCP servers, once there is a plugin for them.
    #[cfg(feature = "mcp")]
    fleet: OnceLock<Arc<Fleet>>,
}

/// The tools that a configuration describes, by where they come from.
#[derive(Debug, Default)]
pub(crate) struct Described {
    sources: Vec<(Source, Admitted)>,
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
    }
}

impl Capabilities {
    /// Prepares the workspace and the sandbox, and looks for the tools there are.
    pub(crate) fn new(config: &Config, file: Option<&Path>, data: &DataDir) -> Result<Self> {
        let limits = &config.global_limits;
        let workspace = workspace(config, data)?;
        let profile = profile(config, &workspace);
        check(&profile, data.path(), file)?;
        check_own_tools(&profile, config)?;
        let launcher = launcher(config)?;
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
            scripts: data.path().join("scripts"),
            own_skills: data.path().join("skills"),
            shelf: OnceLock::new(),
            forest: Arc::default(),
            #[cfg(feature = "mcp")]
            fleet: OnceLock::new(),
        })
    }

    /// The tools there are.
    pub(crate) fn catalogue(&self) -> Arc<Catalogue> {
        Arc::clone(&self.catalogue)
    }

    /// Finds out whether every guard that is asked for can be put up, beside whatever else is done.
    pub(crate) fn try_guards(&self) -> JoinHandle<Result<()>> {
        let workplace = Arc::clone(&self.workplace);
        let try_guards = move || workplace.launcher.try_guards().context(NO_SANDBOX);
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
        (models, pinning): (&Arc<Models>, Pinning),
    ) -> Result<HostBuilder> {
        let builder = builder.plugin(self.make_tools(ToolSettings::default())?);
        let builder = builder.plugin(self.make_toolkits(vault, Placement::named("toolkits")));
        let builder = builder.plugin(Memory::new(store.clone(), MemorySettings::default()));
        let builder = planning(
            builder,
            store,
            PlanningConfig::default(),
            Placement::named("planning"),
        );
        let learning = learning::plugin(
            ledgers,
            LearningConfig::default(),
            Placement::named("learning"),
        );
        let placement = Placement::named("chains");
        let builder = chains(builder, keeper, ChainsConfig::default(), placement);
        let builder = learning::add(builder, learning);
        let builder = self.env(builder, Placement::named("env"), &Env::default(), None);
        let builder = self.proc(builder, &Proc::default());
        let skills = Placement::named("skills");
        let builder = self.skills(builder, skills, &Skills::default(), (models, &pinning))?;
        let agents = Placement::named("multi_agent");
        let builder = self.agents(builder, agents, &MultiAgent::default(), models)?;
        #[cfg(feature = "mcp")]
        let builder = self.mcp_as(builder, Placement::named("mcp"), &Mcp::default(), pinning)?;
        #[cfg(not(feature = "mcp"))]
        drop(pinning);
        Ok(builder)
    }

    /// Adds MCP servers.
    #[cfg(feature = "mcp")]
    pub(crate) fn mcp(
        &self,
        builder: HostBuilder,
        plugin: &Plugin,
        mcp: &Mcp,
        pinning: Pinning,
    ) -> Result<HostBuilder> {
        self.mcp_as(builder, placement(plugin), mcp, pinning)
    }

    /// Says that this program has no such part.
    #[cfg(not(feature = "mcp"))]
    pub(crate) fn mcp(
        &self,
        _: HostBuilder,
        plugin: &Plugin,
        _: &Mcp,
        _: Pinning,
    ) -> Result<HostBuilder> {
        bail!(
            "the plugin `{}` needs a program that was built with the feature `mcp`",
            plugin.name
        );
    }

    #[cfg(feature = "mcp")]
    fn mcp_as(
        &self,
        builder: HostBuilder,
        placement: Placement,
        mcp: &Mcp,
        pinning: Pinning,
    ) -> Result<HostBuilder> {
        check_mcp(&self.workplace.profile, mcp)?;
        let web = Web::new(Arc::clone(&self.web), &mcp.private_hosts)?;
        let fleet = self.fleet.get_or_init(|| {
            let (workplace, catalogue) = (Arc::clone(&self.workplace), self.catalogue());
            Fleet::new(Ground::new(workplace, web.clone(), catalogue, pinning))
        });
        fleet.configure(&mcp.servers, web);
        Ok(builder.plugin(McpPlugin::new(Arc::clone(fleet), placement)))
    }

    /// The tools that the configuration describes, compared with what was approved.
    pub(crate) async fn describe(
        &self,
        plugin: &Plugin,
        own: &OwnTools,
        pinning: &Pinning,
        tell: &(dyn Fn(String) + Send + Sync),
    ) -> Result<Described> {
        let mut all = Described::default();
        let whose = || format!("the tools of the plugin `{}`", plugin.name);
        // The configuration may be another than the one at the start.
        check_own(&self.workplace.profile, own)?;
        let web = Web::new(Arc::clone(&self.web), &own.private_hosts).with_context(whose)?;
        let described = self.described(own, &web).with_context(whose)?;
        all.add(Source::Config, Admitted::all(described));
        for api in &own.openapi {
            let openapi::Loaded { tools, text } = openapi::load(api, &web).with_context(whose)?;
            let source = Source::Document(api.document.display().to_string());
            let admitted = pinning.admit_together(&source, &text, tools).await?;
            if !admitted.quarantined.is_empty() {
                tracing::warn!(
                    "the document {} has changed and its operations are not served; \
                     `frith tools pending` shows it",
                    api.document.display()
                );
            }
            all.add(source, admitted);
        }
        if let Some(folder) = &own.scripts {
            let scripts = scripts::tools(folder, &self.scripts, &self.workplace);
            let scripts = scripts.with_context(whose)?;
            let admitted = pinning.admit(&Source::Scripts, scripts).await?;
            for script in &admitted.quarantined {
                tracing::warn!(
                    "the script of `{}` has changed and is not served; `frith tools pending` \
                     shows it",
                    script.name(),
                );
            }
            all.add(Source::Scripts, admitted);
        }
        let (profile, components) = (&self.workplace.profile, &own.components);
        let loaded = self.components.load_all(components, profile, pinning, tell);
        for (source, admitted) in loaded.await.with_context(whose)? {
            all.add(source, admitted);
        }
        Ok(all)
    }

    /// Adds the tools.
    pub(crate) fn tools(
        &self,
        builder: HostBuilder,
        plugin: &Plugin,
        weights: Option<Arc<Ledgers>>,
    ) -> Result<HostBuilder> {
        let tools = self.make_tools(ToolSettings {
            placement: placement(plugin),
            ..ToolSettings::default()
        })?;
        Ok(builder.plugin(match weights {
            Some(weights) => tools.ranked_by(weights),
            None => tools,
        }))
    }

    /// The tools that are described and not written.
    fn described(&self, own: &OwnTools, web: &Web) -> Result<Vec<Arc<dyn Tool>>> {
        let mut tools = Vec::new();
        for command in &own.commands {
            tools.push(self.command_tool(command)?);
        }
        for endpoint in &own.endpoints {
            tools.push(endpoints::tool(endpoint, web)?);
        }
        Ok(tools)
    }

    /// Adds the toolkits.
    pub(crate) fn toolkits(
        &self,
        builder: HostBuilder,
        plugin: &Plugin,
        vault: &Vault,
    ) -> Result<HostBuilder> {
        let toolkits = self.make_toolkits(vault, placement(plugin));
        Ok(builder.plugin(toolkits))
    }

    /// Adds processes.
    pub(crate) fn proc(&self, builder: HostBuilder, proc: &Proc) -> HostBuilder {
        let procs = Procs::new(ProcSettings {
            workplace: Arc::clone(&self.workplace),
            allowed: proc.allowed_commands.clone(),
            max_running: proc.max_procs,
        });
        builder.plugin(procs).plugin(Resize)
    }

    /// Adds memories.
    pub(crate) fn memory(
        &self,
        builder: HostBuilder,
        plugin: &Plugin,
        memory: &MemoryConfig,
        store: &Store,
    ) -> Result<HostBuilder> {
        let text = || format!("the embedder of the plugin `{}`", plugin.name);
        let reader = memory.embedder.as_ref();
        let reader = reader.map(|embedder| self.reader(embedder, store).with_context(text));
        let settings = MemorySettings {
            placement: placement(plugin),
            rooms: Rooms {
                working: memory.working_limit,
                episodic: memory.episodic_limit,
                semantic: memory.semantic_limit,
                overflow: match memory.evict {
                    true => Overflow::Evict,
                    false => Overflow::Refuse,
                },
            },
            readers: memory.semantic_readers.clone(),
            writers: memory.semantic_writers.clone(),
            reader: reader.transpose()?,
            ..MemorySettings::default()
        };
        Ok(builder.plugin(Memory::new(store.clone(), settings)))
    }

    /// Has a model read what agents remember.
    fn reader(&self, embedder: &Embedder, store: &Store) -> Result<Reader> {
        let web = Web::new(Arc::clone(&self.web), &embedder.private_hosts)?;
        let settings = EndpointSettings {
            url: embedder.url.clone(),
            model: embedder.model.clone(),
            key: embedder.api_key.as_ref().map(|key| key.reveal().to_owned()),
            timeout: embedder.timeout,
        };
        let endpoint = Endpoint::new(&settings, &web).map_err(anyhow::Error::msg)?;
        let clock = MemorySettings::default().clock;
        Ok(Reader::start(Arc::new(endpoint), store, clock))
    }

    fn command_tool(&self, tool: &CommandTool) -> Result<Arc<dyn Tool>, TemplateError> {
        let CommandTool {
            name,
            description,
            command,
            parameters,
            required,
            stdin,
            tags,
            read_only,
            timeout,
        } = tool.clone();
        let template = Template {
            name,
            description,
            command,
            parameters,
            required,
            stdin,
            tags,
            read_only,
            timeout,
        };
        commands::from_template(&template, &self.workplace)
    }

    fn make_toolkits(&self, vault: &Vault, placement: Placement) -> Toolkits {
        let roots = Arc::clone(&self.roots);
        let toolkits: Vec<Arc<dyn Toolkit>> = vec![
            Arc::new(Filesystem::new(Arc::clone(&roots))),
            Arc::new(Sqlite::new(roots, SqliteLimits::default())),
            Arc::new(Git::new(Arc::clone(&self.workplace))),
            Arc::new(Http::new(Arc::clone(&self.web))),
        ];
        let catalogue = Arc::clone(&self.catalogue);
        Toolkits::new(catalogue, vault.clone(), toolkits, placement)
    }

    fn make_tools(&self, settings: ToolSettings) -> Result<Tools> {
        Ok(Tools::new(Arc::clone(&self.catalogue), settings)?)
    }
}

/// Adds plans.
pub(crate) fn planning(
    builder: HostBuilder,
    store: &Store,
    config: PlanningConfig,
    placement: Placement,
) -> HostBuilder {
    let sharing = match config.shared {
        true => Sharing::All,
        false => Sharing::Own,
    };
    let planning = Planning::new(store.clone(), sharing, placement);
    let removal = planning.removal();
    builder.plugin(planning).plugin(removal)
}

/// Adds chains.
pub(crate) fn chains(
    builder: HostBuilder,
    keeper: &Arc<Keeper>,
    chains: ChainsConfig,
    placement: Placement,
) -> HostBuilder {
    let keeper = chains.durable.then(|| Arc::clone(keeper));
    let chains = Chains::new(ChainSettings {
        placement,
        limits: chain_limits(&chains),
        max_parallel: chains.max_parallel,
        keeper,
    });
    let runs = chains.runs();
    let builder = builder.plugin(chains);
    runs.into_iter().fold(builder, HostBuilder::plugin)
}

/// How large chains may be.
fn chain_limits(chains: &ChainsConfig) -> ChainLimits {
    ChainLimits {
        nodes: chains.max_nodes,
        items: chains.max_items,
        ..ChainLimits::default()
    }
}

pub(crate) fn placement(plugin: &Plugin) -> Placement {
    Placement {
        name: plugin.name.clone(),
        priority: plugin.priority,
        exclusive: plugin.exclusive,
    }
}

/// The folder that agents work in; the default one is made.
fn workspace(config: &Config, data: &DataDir) -> Result<PathBuf> {
    let Some(path) = &config.workspace else {
        let path = data.path().join("workspace");
        let made = fs::DirBuilder::new().mode(0o700).create(&path);
        // Another host may make it at this moment.
        if let Err(error) = made.or_else(|error| path.is_dir().then_some(()).ok_or(error)) {
            let text = format!("cannot make the workspace {}", path.display());
            return Err(anyhow::Error::from(error).context(text));
        }
        return Ok(path.canonicalize()?);
    };
    let found = path.canonicalize().ok().filter(|path| path.is_dir());
    found.with_context(|| format!("`workspace` is no folder: {}", path.display()))
}

/// What starts programs of agents, with the guards that the configuration asks for. They are put up for
/// each program, or it is not started; whether they can be is found out by [`Capabilities::try_guards`].
pub(crate) fn launcher(config: &Config) -> Result<Launcher> {
    let Sandbox::Guarded(guarded) = &config.sandbox else {
        tracing::warn!("`sandbox: none`: what agents run has all rights of this process");
        return Ok(Launcher::none()?);
    };
    let settings = Settings {
        landlock: guarded.landlock,
        memory: match guarded.tree_memory {
            true => MemoryLevel::Tree,
            false => MemoryLevel::Process,
        },
        ..Settings::default()
    };
    Launcher::untried(settings).context(NO_SANDBOX)
}

const NO_SANDBOX: &str = "the sandbox cannot be set up (`frith doctor` shows each guard)";

fn profile(config: &Config, workspace: &Path) -> Profile {
    let mut profile = Profile::default();
    profile.writable.push(workspace.to_owned());
    let Sandbox::Guarded(guarded) = &config.sandbox else {
        return profile;
    };
    let told = &guarded.profile;
    profile.readable.extend(told.readable.iter().cloned());
    profile.writable.extend(told.writable.iter().cloned());
    profile.network = match told.network {
        Network::None => sandbox::Network::None,
        Network::Loopback => sandbox::Network::Loopback,
        Network::All => sandbox::Network::All,
    };
    profile.limits = sandbox::Limits {
        memory: told.memory,
        cpu_seconds: told.cpu_seconds,
        processes: told.processes,
        open_files: told.open_files,
        file_bytes: told.file_bytes,
        tmp_bytes: told.tmp_bytes,
        output_bytes: told.output_bytes,
        wall_time: told.wall_time,
    };
    profile
}

/// An agent must not be able to rewrite its own rules, nor read what keeps others out.
fn check(profile: &Profile, data: &Path, file: Option<&Path>) -> Result<()> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let data = real(data);
    for path in profile.readable.iter().chain(&profile.writable) {
        if data.starts_with(real(path)) {
            bail!(
                "agents could read the data directory {}, since {} is open to what they run; \
                 change `workspace`, `sandbox.readable` or `sandbox.writable`, or move it (--data)",
                data.display(),
                path.display()
            );
        }
    }
    let Some(file) = file.map(real) else {
        return Ok(());
    };
    if let Some(path) = profile
        .writable
        .iter()
        .find(|path| file.starts_with(real(path)))
    {
        bail!(
            "agents could rewrite the configuration {}, since {} is open to them; move one of them",
            file.display(),
            path.display()
        );
    }
    Ok(())
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

/// The same for what describes tools.
fn check_own_tools(profile: &Profile, config: &Config) -> Result<()> {
    for plugin in config.plugins.iter().filter(|plugin| plugin.enabled) {
        if let PluginKind::Tools(own) = &plugin.kind {
            check_own(profile, own)?;
        }
    }
    Ok(())
}

fn check_own(profile: &Profile, own: &OwnTools) -> Result<()> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let documents = own.openapi.iter().map(|api| ("openapi", &api.document));
    let scripts = own.scripts.iter().map(|folder| ("scripts", folder));
    for (key, path) in documents.chain(scripts) {
        let path = real(path);
        let mut writable = profile.writable.iter();
        let open = writable.find(|open| {
            let open = real(open);
            path.starts_with(&open) || open.starts_with(&path)
        });
        if let Some(open) = open {
            bail!(
                "agents could rewrite their own tools: {} (`{key}`) and {}, which is open to them, \
                 lie in each other; move one of them",
                path.display(),
                open.display()
            );
        }
    }
    Ok(())
}
