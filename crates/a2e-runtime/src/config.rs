//! What a node is told by its configuration file: `frith.yaml` or `frith.toml`, with the same keys.
//!
//! A file becomes a tree that knows where each of its parts stands (`tree`), and the tree becomes
//! these types (`sections`), which collects every mistake with its place instead of the first one.

mod a2a;
mod audit;
mod block;
mod chains;
mod commands;
mod components;
mod edit;
mod env;
mod error;
mod identity;
mod import;
mod intents;
mod layers;
mod learning;
mod limits;
mod load;
mod mcp;
mod memory;
mod models;
mod multi_agent;
mod notify;
mod own_tools;
mod peers;
mod planning;
mod plugins;
mod policy;
mod probe;
mod read;
mod sandbox;
mod secrets;
mod sections;
mod server;
mod skills;
mod store;
mod telemetry;
mod toml;
mod tree;
mod trust;
mod yaml;

use std::path::PathBuf;

use ::policy::RulesConfig;

use crate::secret::Secret;
use crate::snapshot::SnapshotMode;

pub use a2a::{A2a, A2aAgent, A2aLimits, Baseline, DidMethod, Encryption, PAYLOAD_SIZES};
pub use audit::Audit;
pub use chains::Chains;
pub use commands::CommandTool;
pub use components::{ComponentTool, Files};
pub use edit::{in_comments, put_server, remove_server, without_comments_of};
pub use env::Env;
pub use error::{ConfigError, Problem};
pub use identity::Identity;
pub use import::Imported;
pub use intents::{ChainTool, Intent, IntentTarget};
pub use layers::Overrides;
pub use learning::{CustomStrategy, Learning};
pub use limits::GlobalLimits;
pub use mcp::{
    LeftOut, Mcp, McpCommand, McpGrant, McpOAuth, McpPlace, McpServer, McpUrl,
    is_name as is_server_name,
};
pub use memory::{Embedder, EmbedderEndpoint, Memory};
pub use models::Model;
pub use multi_agent::{AgentCommand, MultiAgent};
pub use notify::Notify;
pub use own_tools::{EndpointTool, Filling, Login, OpenApi, OwnTools, RequestBody, ResponseForm};
pub use peers::{Peer, PeerIntent};
pub use planning::Planning;
pub use plugins::{Mounted, OwnTypes, Place, Plugin, PluginKind, Proc};
pub use probe::schema;
pub use sandbox::{Guarded, Network, Profile, Sandbox};
pub use server::{Server, Tls, UnixSocket, listen_address};
pub use skills::Skills;
pub use store::Store;
pub use telemetry::{LogFormat, Telemetry};
pub use toml::as_json as toml_as_json;
pub use tree::Location;
pub use trust::{Trust, TrustAnchor, TrustPin};

use load::{Format, Surroundings};

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
    /// MCP servers, if all that is built in serves; else they are among the plugins.
    pub mcp: Option<Mcp>,
    /// Where sessions are kept.
    pub snapshot_store: SnapshotPlace,
    /// Who saves the state of plugins.
    pub snapshot_mode: SnapshotMode,
    /// What sessions may take.
    pub global_limits: GlobalLimits,
    /// What agents may do.
    pub policy: Policy,
    /// Who is told that a call waits for approval.
    pub notify: Vec<Notify>,
    /// Who it is to other agents.
    pub identity: Identity,
    /// How it speaks with them.
    pub a2a: A2a,
    /// Which of them are trusted, and how far.
    pub trust: Trust,
    /// What they may ask of it; nothing, unless it stands here.
    pub intents: Vec<Intent>,
    /// Those that its own agents may ask.
    pub peers: Vec<Peer>,
    /// What it keeps in its database.
    pub store: Store,
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

/// Where sessions are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotPlace {
    /// In memory: they end with the process.
    Memory,
    /// In the data directory: they outlive it.
    File,
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
            mcp: None,
            snapshot_store: SnapshotPlace::File,
            snapshot_mode: SnapshotMode::default(),
            global_limits: GlobalLimits::default(),
            policy: Policy::default(),
            notify: Vec::new(),
            identity: Identity::default(),
            a2a: A2a::default(),
            trust: Trust::default(),
            intents: Vec::new(),
            peers: Vec::new(),
            store: Store::default(),
            audit: Audit::default(),
            telemetry: Telemetry::default(),
            notes: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
