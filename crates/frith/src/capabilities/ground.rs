//! What capabilities stand on: the folder that agents work in, and the sandbox.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use a2e_runtime::DataDir;
use a2e_runtime::config::{Config, McpCommand, McpPlace, Network, PluginKind, Sandbox};
use anyhow::{Context, Result, bail};
use sandbox::{Launcher, MemoryLevel, Profile, Settings};

/// The folder that agents work in; the default one is made.
pub(super) fn workspace(config: &Config, data: &DataDir) -> Result<PathBuf> {
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

/// What no program in the sandbox may reach, and what it may not change.
#[derive(Debug)]
pub(crate) struct Protected {
    /// The data directory.
    data: PathBuf,
    /// What programs see of it nevertheless: the workspace, copies of scripts, and packages of servers.
    shown: Vec<PathBuf>,
    /// The configuration.
    file: Option<PathBuf>,
}

impl Protected {
    pub(super) fn new(data: &DataDir, workspace: &Path, file: Option<&Path>) -> Self {
        Self {
            data: data.path().to_owned(),
            shown: vec![workspace.to_owned(), scripts(data), servers(data)],
            file: file.map(Path::to_owned),
        }
    }
}

/// Where scripts, and skills that are programs, are kept as they were when they were read.
pub(super) fn scripts(data: &DataDir) -> PathBuf {
    data.path().join("scripts")
}

/// Where packages are that MCP servers were downloaded in.
pub(crate) fn servers(data: &DataDir) -> PathBuf {
    data.path().join("servers")
}

/// What starts programs of agents, with the guards that the configuration asks for. They are put up for
/// each program, or it is not started; whether they can be is found out by
/// [`Capabilities::try_guards`](super::Capabilities::try_guards).
pub(crate) fn launcher(config: &Config, protected: Option<&Protected>) -> Result<Launcher> {
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
        hidden: protected.map(|it| it.data.clone()).into_iter().collect(),
        shown: protected.map(|it| it.shown.clone()).unwrap_or_default(),
        ..Settings::default()
    };
    Launcher::untried(settings).context(NO_SANDBOX)
}

pub(super) const NO_SANDBOX: &str =
    "the sandbox cannot be set up (`frith doctor` shows each guard)";

pub(super) fn profile(config: &Config, workspace: &Path) -> Profile {
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

/// The profile of everything that a configuration has run, taken together: what agents run, and each MCP
/// server with what is open to it beside that. What is checked for it holds for each of them.
pub(super) fn widest(config: &Config, profile: &Profile) -> Profile {
    let mut widest = profile.clone();
    for (_, command) in server_commands(config) {
        widest.readable.extend(command.readable.iter().cloned());
        widest.writable.extend(command.writable.iter().cloned());
    }
    widest
}

/// The MCP servers of a configuration that are programs, by name.
fn server_commands(config: &Config) -> impl Iterator<Item = (&str, &McpCommand)> {
    let enabled = config.plugins.iter().filter(|plugin| plugin.enabled);
    let plugins = enabled.filter_map(|plugin| {
        let PluginKind::Mcp(mcp) = &plugin.kind else {
            return None;
        };
        Some(mcp)
    });
    let servers = config
        .mcp
        .iter()
        .chain(plugins)
        .flat_map(|mcp| &mcp.servers);
    servers.filter_map(|server| match &server.place {
        McpPlace::Command(command) => Some((server.name.as_str(), command)),
        McpPlace::Http(_) | McpPlace::Sse(_) => None,
    })
}

/// No program may rewrite its own rules, nor read what keeps others out: neither what agents run nor a
/// server. Each profile of a configuration is checked here.
pub(super) fn check(config: &Config, profile: &Profile, protected: &Protected) -> Result<()> {
    let all = "`workspace`, `sandbox.readable` or `sandbox.writable`";
    check_one(
        &profile.readable,
        &profile.writable,
        protected,
        "agents",
        all,
    )?;
    for (name, command) in server_commands(config) {
        let who = format!("the MCP server `{name}`");
        let keys = format!("`readable` or `writable` of `{name}`");
        check_one(&command.readable, &command.writable, protected, &who, &keys)?;
    }
    Ok(())
}

fn check_one(
    readable: &[PathBuf],
    writable: &[PathBuf],
    protected: &Protected,
    who: &str,
    keys: &str,
) -> Result<()> {
    let data = real(&protected.data);
    let is_shown = |path: &Path| protected.shown.iter().any(|it| path.starts_with(real(it)));
    for path in readable.iter().chain(writable) {
        let open = real(path);
        if data.starts_with(&open) || (open.starts_with(&data) && !is_shown(&open)) {
            bail!(
                "{who} could read the data directory {}, since {} is open to what they run; \
                 change {keys}, or move it (--data)",
                data.display(),
                path.display()
            );
        }
    }
    let Some(file) = protected.file.as_deref().map(real) else {
        return Ok(());
    };
    if let Some(path) = writable.iter().find(|path| file.starts_with(real(path))) {
        bail!(
            "{who} could rewrite the configuration {}, since {} is open to them; move one of them",
            file.display(),
            path.display()
        );
    }
    Ok(())
}

fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
