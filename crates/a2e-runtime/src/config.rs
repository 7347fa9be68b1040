//! What a node is told by its configuration file: `frith.yaml` or `frith.toml`, with the same keys.
//!
//! A file becomes a tree that knows where each of its parts stands (`tree`), and the tree becomes
//! these types (`sections`), which collects every mistake with its place instead of the first one.

mod a2a;
mod chains;
mod components;
mod env;
mod error;
mod import;
mod intents;
mod layers;
mod learning;
mod mcp;
mod memory;
mod models;
mod multi_agent;
mod own_tools;
mod peers;
mod planning;
mod policy;
mod probe;
mod read;
mod sandbox;
mod secrets;
mod sections;
mod skills;
mod toml;
mod tree;
mod trust;
mod yaml;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ::audit::{Retention, SyncWhen};
use ::policy::RulesConfig;
use a2e_session::Limits;

use crate::secret::Secret;
use crate::snapshot::SnapshotMode;

pub use a2a::{A2a, A2aAgent, A2aLimits, Baseline, DidMethod, Encryption};
pub use chains::Chains;
pub use components::{ComponentTool, Files};
pub use env::Env;
pub use error::{ConfigError, Problem};
pub use import::Imported;
pub use intents::{ChainTool, Intent, IntentTarget};
pub use layers::Overrides;
pub use learning::{CustomStrategy, Learning};
pub use mcp::{Mcp, McpCommand, McpPlace, McpServer, McpUrl, is_name as is_server_name};
pub use memory::{Embedder, Memory};
pub use models::Model;
pub use multi_agent::{AgentCommand, MultiAgent};
pub use own_tools::{EndpointTool, Filling, Login, OpenApi, OwnTools, RequestBody, ResponseForm};
pub use peers::{Peer, PeerIntent};
pub use planning::Planning;
pub use probe::schema;
pub use sandbox::{Guarded, Network, Profile, Sandbox};
pub use skills::Skills;
pub use tree::Location;
pub use trust::{Trust, TrustAnchor, TrustPin};

/// A node's configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// What the node calls itself.
    pub host_id: String,
    /// Where it listens.
    pub server: Server,
    /// The credential of the agent `default`, instead of the one in the data directory.
    pub auth_token: Option<Secret>,
    /// The folder that agents work in; `workspace` in the data directory if nothing is said.
    pub workspace: Option<PathBuf>,
    /// What programs may do that agents have run.
    pub sandbox: Sandbox,
    /// Language models that skills and sub-agents are run with.
    pub models: Vec<Model>,
    /// What serves requests.
    pub plugins: Vec<Plugin>,
    /// Where sessions are kept.
    pub snapshot_store: SnapshotPlace,
    /// Who saves the state of plugins.
    pub snapshot_mode: SnapshotMode,
    /// What sessions may take.
    pub global_limits: GlobalLimits,
    /// What agents may do.
    pub policy: Policy,
    /// How it speaks with other agents.
    pub a2a: A2a,
    /// Which of them are trusted, and how far.
    pub trust: Trust,
    /// What they may ask of it; nothing, unless it stands here.
    pub intents: Vec<Intent>,
    /// Those that its own agents may ask.
    pub peers: Vec<Peer>,
    /// The record of what they did.
    pub audit: Audit,
    /// What the node says about itself.
    pub telemetry: Telemetry,
    /// What the user should hear about this configuration although it is good.
    pub notes: Vec<String>,
}

/// What agents may do: the sections `policy` and `agents`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policy {
    /// For all agents.
    pub common: RulesConfig,
    /// For single ones; their rules go before the common ones.
    pub agents: Vec<AgentPolicy>,
}

/// The rules of one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentPolicy {
    /// The agent, by the name its tokens have.
    pub name: String,
    /// The DID that makes whoever proves it this agent.
    pub did: Option<String>,
    /// What it may do.
    pub policy: RulesConfig,
}

/// The record of what agents did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audit {
    /// Whether there is one.
    pub enabled: bool,
    /// When it goes to the disk.
    pub sync: SyncWhen,
    /// For how long it is kept.
    pub retention: Retention,
}

/// Where a node listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// HTTP, server-sent events and WebSocket.
    pub listen: SocketAddr,
    /// NDJSON over TCP.
    pub tcp: Option<SocketAddr>,
    /// NDJSON over a Unix socket.
    pub unix: UnixSocket,
    /// Names by which the node may be addressed over HTTP, beside its own addresses.
    pub names: Vec<String>,
    /// Web pages that may speak to the node.
    pub origins: Vec<String>,
    /// The certificate, for TLS on all but the Unix socket.
    pub tls: Option<Tls>,
    /// Whether agents without a token are let in; only if nobody else can reach the node.
    pub allow_unauthenticated: bool,
}

/// The Unix socket of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnixSocket {
    /// None.
    Off,
    /// `a2e.sock` in the data directory.
    InDataDir,
    /// At this path.
    At(PathBuf),
}

/// The files of a certificate, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// The certificate and those between it and a root.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// A plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plugin {
    /// Its name; no two have the same.
    pub name: String,
    /// Plugins of higher priority are asked first.
    pub priority: i64,
    /// Whether it alone serves what it serves.
    pub exclusive: bool,
    /// Whether it is there at all.
    pub enabled: bool,
    /// What it is.
    pub kind: PluginKind,
}

/// What a plugin is: the key `type`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PluginKind {
    /// Five small tools to try things with.
    Demo,
    /// The built-in tools, and these.
    Tools(Box<OwnTools>),
    /// Bundles of tools that agents configure.
    Toolkits,
    /// Processes.
    Proc(Proc),
    /// What agents remember.
    Memory(Memory),
    /// Plans.
    Planning(Planning),
    /// What agents learn.
    Learning(Learning),
    /// Servers of the Model Context Protocol.
    Mcp(Mcp),
    /// Requests that follow from one another.
    Chains(Chains),
    /// Worlds to act in.
    Env(Env),
    /// Agents that agents have.
    MultiAgent(MultiAgent),
    /// Prepared instructions.
    Skills(Skills),
    /// Another A2E host.
    Mounted(Mounted),
}

/// A tool that is a command with places for arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandTool {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The program and its arguments; `{name}` is where an argument goes.
    pub command: Vec<String>,
    /// JSON Schemas of the arguments, by name.
    pub parameters: serde_json::Map<String, serde_json::Value>,
    /// The arguments that must be given.
    pub required: Vec<String>,
    /// The argument that the program reads from its standard input.
    pub stdin: Option<String>,
    /// Words that lead to it.
    pub tags: Vec<String>,
    /// Whether it changes nothing.
    pub read_only: bool,
    /// After so long it is killed.
    pub timeout: Option<Duration>,
}

/// Processes of agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proc {
    /// The words that may stand first in a command; any, if nothing is said.
    pub allowed_commands: Option<Vec<String>>,
    /// How many may run in one session at a time.
    pub max_procs: usize,
}

/// Another A2E host that appears as a plugin of this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mounted {
    /// Where it is.
    pub place: Place,
    /// The credential it asks for.
    pub token: Option<Secret>,
    /// What is asked of it; nothing here means all it has.
    pub capabilities: Vec<String>,
    /// If it is a program, how many of it may run at once: each session that uses it has its own.
    pub max_children: usize,
}

/// Where a mounted host is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A program and its arguments, started for this.
    Command(Vec<String>),
    /// A host that runs already.
    Url(String),
}

/// Where sessions are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotPlace {
    /// In memory: they end with the process.
    Memory,
    /// In the data directory: they outlive it.
    File,
}

/// What sessions may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GlobalLimits {
    /// The longest line, in bytes.
    pub max_line: usize,
    /// Sessions at once.
    pub max_sessions: usize,
    /// Connections of one source that have not shaken hands.
    pub max_newcomers: usize,
    /// How long requests may go on when the node stops.
    pub drain: Duration,
    /// How long a held call waits for the operator's word, and how long an approval of a call stands
    /// that nobody waits for any more.
    pub approval: Duration,
    /// Requests that tools make to one host at once; others wait.
    pub max_fetches_per_host: usize,
    /// Requests that tools make for one agent at once; more are refused, and can be tried again.
    pub max_fetches_per_agent: usize,
    /// Programs that one agent has in the sandbox at once, in all its sessions; the same.
    pub max_commands_per_agent: usize,
    /// Calls of components that one agent has under way at once; the same.
    pub max_components_per_agent: usize,
    /// The limits of each session.
    pub session: Limits,
}

/// What a node says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Telemetry {
    /// Which messages are logged: a level, or levels by module as in `info,a2e_runtime=debug`.
    pub log: String,
    /// How they are written.
    pub log_format: LogFormat,
    /// Where an OpenTelemetry collector takes spans, as `http://ADDRESS:PORT`.
    pub otlp: Option<String>,
}

/// How log messages are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// The names that are looked for in a folder.
const NAMES: [&str; 3] = ["frith.yaml", "frith.yml", "frith.toml"];

/// Nobody writes more by hand.
const MAX_FILE: u64 = 1024 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Yaml,
    Toml,
}

/// What else a configuration depends on, so that tests can say it.
struct Surroundings<'a> {
    /// Relative paths begin here.
    folder: &'a Path,
    variable: &'a dyn Fn(&str) -> Option<String>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            host_id: "frith".to_owned(),
            server: Server::default(),
            auth_token: None,
            workspace: None,
            sandbox: Sandbox::default(),
            models: Vec::new(),
            plugins: Vec::new(),
            snapshot_store: SnapshotPlace::File,
            snapshot_mode: SnapshotMode::default(),
            global_limits: GlobalLimits::default(),
            policy: Policy::default(),
            a2a: A2a::default(),
            trust: Trust::default(),
            intents: Vec::new(),
            peers: Vec::new(),
            audit: Audit::default(),
            telemetry: Telemetry::default(),
            notes: Vec::new(),
        }
    }
}

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8765)),
            tcp: None,
            unix: UnixSocket::InDataDir,
            names: Vec::new(),
            origins: Vec::new(),
            tls: None,
            allow_unauthenticated: false,
        }
    }
}

impl Default for GlobalLimits {
    fn default() -> Self {
        Self {
            max_line: a2e_wire::MAX_LINE,
            max_sessions: 10_000,
            max_newcomers: crate::host::MAX_NEWCOMERS,
            drain: Duration::from_secs(10),
            approval: crate::approvals::PATIENCE,
            max_fetches_per_host: 6,
            max_fetches_per_agent: 8,
            max_commands_per_agent: 32,
            max_components_per_agent: 32,
            session: Limits::default(),
        }
    }
}

impl Default for Proc {
    fn default() -> Self {
        Self {
            allowed_commands: None,
            max_procs: 16,
        }
    }
}

impl Default for Audit {
    fn default() -> Self {
        Self {
            enabled: true,
            sync: audit::Settings::default().sync,
            retention: Retention::default(),
        }
    }
}

impl Default for Telemetry {
    fn default() -> Self {
        Self {
            log: "info".to_owned(),
            log_format: LogFormat::Text,
            otlp: None,
        }
    }
}

impl Config {
    /// Reads a file; one that ends in `.toml` is TOML, all others are YAML.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn load(file: &Path) -> Result<Self, ConfigError> {
        Self::layered(Some(file), &Overrides::default())
    }

    /// Reads a file, if there is one, and what is said beside it, which is stronger.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn layered(file: Option<&Path>, overrides: &Overrides) -> Result<Self, ConfigError> {
        let fail = |problems| ConfigError {
            file: file.map(Path::to_owned),
            problems,
        };
        let text = file.map_or_else(|| Ok(String::new()), read_file);
        let text = text.map_err(|text| fail(vec![Problem { at: None, text }]))?;
        let format = match file.and_then(Path::extension) {
            Some(extension) if extension == "toml" => Format::Toml,
            _ => Format::Yaml,
        };
        let folder = file.and_then(Path::parent);
        let surroundings = Surroundings {
            folder: folder.unwrap_or_else(|| Path::new("")),
            variable: &|name| std::env::var(name).ok(),
        };
        Self::parse(&text, format, overrides, &surroundings).map_err(fail)
    }

    /// Finds the configuration file of a folder; a folder need not have one.
    ///
    /// # Errors
    /// If it has more than one.
    pub fn find(folder: &Path) -> Result<Option<PathBuf>, ConfigError> {
        let mut found = NAMES.iter().filter(|name| folder.join(name).exists());
        match (found.next(), found.next()) {
            (Some(one), Some(other)) => Err(ConfigError::of(format!(
                "there are both {one} and {other} in {}; keep one, or choose with --config",
                folder.display()
            ))),
            (found, _) => Ok(found.map(|name| folder.join(name))),
        }
    }

    /// Checks what is about more than one key. [`Config::load`] has done so; do it again after a
    /// change.
    ///
    /// # Errors
    /// All that does not go together.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let server = &self.server;
        let addresses = [
            ("server.listen", Some(server.listen)),
            ("server.tcp", server.tcp),
        ];
        let mut error = ConfigError {
            file: None,
            problems: Vec::new(),
        };
        for (key, address) in addresses {
            let public = address.filter(|address| !address.ip().to_canonical().is_loopback());
            if let (Some(address), true) = (public, server.allow_unauthenticated) {
                error.add(format!(
                    "`server.allow_unauthenticated` needs every listener on a loopback address \
                     such as 127.0.0.1, but `{key}` is {address}"
                ));
            }
        }
        if server.tcp == Some(server.listen) && server.listen.port() != 0 {
            error.add("`server.tcp` and `server.listen` need different ports".to_owned());
        }
        for (index, plugin) in self.plugins.iter().enumerate() {
            let earlier = self.plugins.iter().take(index);
            if earlier.clone().any(|other| other.name == plugin.name) {
                error.add(format!("two plugins are called `{}`", plugin.name));
            }
        }
        a2a::problems(&self.a2a, &[Some(server.listen), server.tcp], &mut error);
        intents::problems(self, &mut error);
        peers::problems(self, &mut error);
        policy::problems(&self.policy)
            .into_iter()
            .for_each(|problem| error.add(problem));
        match error.problems.is_empty() {
            true => Ok(()),
            false => Err(error),
        }
    }

    fn parse(
        text: &str,
        format: Format,
        overrides: &Overrides,
        surroundings: &Surroundings<'_>,
    ) -> Result<Self, Vec<Problem>> {
        let tree = match format {
            Format::Yaml => yaml::parse(text),
            Format::Toml => toml::parse(text),
        };
        let mut tree = tree.map_err(|problem| vec![problem])?;
        overrides.lay_over(&mut tree)?;
        let config = sections::config(&tree, surroundings);
        let config = config.map_err(|problems| overrides.name_sources(problems))?;
        config.validate().map_err(|error| error.problems)?;
        Ok(config)
    }
}

/// Reads `ADDRESS:PORT`, where to listen. `localhost` is one address, so that nobody listens where he
/// did not look; other names are not looked up.
///
/// # Errors
/// What it must be, and what was probably meant.
pub fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let numeric = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.to_owned(),
    };
    let port = text.strip_prefix(':').unwrap_or(text);
    let meant = match text {
        _ if port.parse::<u16>().is_ok() => format!("; did you mean 127.0.0.1:{port}?"),
        address if address.parse::<std::net::IpAddr>().is_ok() => match address.contains(':') {
            true => format!("; did you mean [{address}]:8765?"),
            false => format!("; did you mean {address}:8765?"),
        },
        _ => String::new(),
    };
    let must = "must be ADDRESS:PORT, such as 127.0.0.1:8765 or [::1]:8765";
    numeric.parse().map_err(|_| format!("{must}{meant}"))
}

fn read_file(file: &Path) -> Result<String, String> {
    let length = std::fs::metadata(file).map(|metadata| metadata.len());
    if length.is_ok_and(|length| length > MAX_FILE) {
        return Err("is larger than 1 MiB, so it is no configuration".to_owned());
    }
    std::fs::read_to_string(file).map_err(|error| format!("cannot be read: {error}"))
}

#[cfg(test)]
mod tests;
