//! Where a host is, and how to reach it.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use a2e_runtime::{
    Address, AgentConfig, Client, ClientError, ConnectError, Connector, DataDir, Dial, Handler,
    Link, Reconnect, Roots, Source,
};
use a2e_wire::messages::base::HandshakeReason;
use anyhow::{Context, Result, anyhow, bail};

use crate::data::DataArguments;
use crate::hint::{self, TokenFrom};
use crate::interrupt::ends_with_command;
use crate::own;
use crate::screen::quoted_path;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Where the host is: `http://ADDRESS:PORT`, `ws://ADDRESS:PORT` (or `https`, `wss`),
    /// `tcp:ADDRESS:PORT`, `tls:ADDRESS:PORT`, `unix:PATH`, or `cmd:PROGRAM ARGUMENTS` to start one
    /// (words are split at spaces); without it, the node that runs on this machine, or else a host
    /// inside this process
    #[arg(long, value_name = "HOST", global = true)]
    host: Option<Address>,

    #[command(flatten)]
    data: DataArguments,

    /// Trust the certificates in this PEM file instead of the system's
    #[arg(long, value_name = "FILE", global = true)]
    ca: Option<PathBuf>,

    /// The credential, if the host asks for one; without it, for the node on this machine, the one
    /// in its data directory
    #[arg(
        long,
        env = "FRITH_TOKEN",
        hide_env_values = true,
        hide_default_value = true,
        default_value = "",
        global = true
    )]
    token: String,
}

/// A connection to a host.
pub(crate) struct Connection {
    pub(crate) client: Client,
}

impl Arguments {
    /// The data directory of the node on this machine.
    #[cfg(feature = "mcp")]
    pub(crate) fn data_dir(&self) -> Result<DataDir> {
        Ok(self.data.dir()?)
    }

    /// Connects to a host that is not this process: whoever asks whether one is there wants no other
    /// answer.
    pub(crate) async fn connect_elsewhere(&self, wanted: &[&str]) -> Result<Connection> {
        if let HostLocation::InProcess(why) = self.target()?.location {
            bail!("{why}; start one with `frith up`, or name a host with --host");
        }
        self.connect(wanted).await
    }

    /// Connects and asks for these capabilities.
    pub(crate) async fn connect(&self, wanted: &[&str]) -> Result<Connection> {
        // One question and its answer: a host that goes away meanwhile is an error, not a wait.
        self.connect_until(wanted, None).await
    }

    /// The same for a connection that lasts: it comes back when it breaks.
    #[cfg(feature = "mcp")]
    pub(crate) async fn connect_to_stay(&self, wanted: &[&str]) -> Result<Connection> {
        self.connect_until(wanted, Some(Reconnect::default())).await
    }

    async fn connect_until(
        &self,
        wanted: &[&str],
        reconnect: Option<Reconnect>,
    ) -> Result<Connection> {
        let target = self.target()?;
        let config = AgentConfig {
            wanted: wanted.iter().map(|name| (*name).into()).collect(),
            ..target.config
        };
        let address = match target.location {
            HostLocation::At(address) => address,
            HostLocation::InProcess(why) => {
                tell!("{why}; a host inside this process answers");
                let host = self.own_host().await?;
                let client = Client::connect(host, config, Handler::none()).await?;
                return Ok(Connection::new(client));
            }
        };
        let connector = Connector::new(address.clone())
            .agent(config)
            .reconnect(reconnect);
        match connector.connect().await {
            Ok(client) => Ok(Connection::new(client)),
            Err(error) => Err(explain(&address, &target.token_from, wanted, error).await),
        }
    }

    /// A connection without a session, who would connect, and where its token is from.
    pub(crate) async fn link(&self) -> Result<(Link, AgentConfig, TokenFrom)> {
        let target = self.target()?;
        let address = match target.location {
            HostLocation::At(address) => address,
            HostLocation::InProcess(why) => {
                tell!("{why}; a host inside this process answers");
                let link = Link::new(self.own_host().await?);
                return Ok((link, target.config, target.token_from));
            }
        };
        match Arc::new(address.clone()).dial_in_time().await {
            Ok(link) => Ok((link, target.config, target.token_from)),
            Err(error) => {
                let error = ClientError::Unreachable(error);
                Err(explain(&address, &target.token_from, &[], error).await)
            }
        }
    }

    /// What to connect to, and as whom.
    fn target(&self) -> Result<Target> {
        let mut config = AgentConfig {
            agent_id: "frith".into(),
            auth_token: self.token.clone(),
            ..AgentConfig::default()
        };
        let mut token_from = match std::env::var("FRITH_TOKEN") {
            _ if self.token.is_empty() => TokenFrom::Nowhere,
            Ok(token) if token == self.token => TokenFrom::Environment,
            _ => TokenFrom::Option,
        };
        if let Some(address) = &self.host {
            return Ok(Target {
                location: HostLocation::At(self.trusting(address.clone())?),
                config,
                token_from,
            });
        }
        let (dir, address) = match self.local_node()? {
            LocalNode::Running(dir, address) => (dir, address),
            LocalNode::Absent(why) => {
                return Ok(Target {
                    location: HostLocation::InProcess(why),
                    config,
                    token_from,
                });
            }
        };
        if config.auth_token.is_empty() {
            let file = dir.token();
            let token = std::fs::read_to_string(&file)
                .with_context(|| format!("cannot read {}; pass --token", file.display()))?;
            config.auth_token = token.trim_end().to_owned();
            token_from = TokenFrom::File(file);
        }
        Ok(Target {
            location: HostLocation::At(self.trusting(address)?),
            config,
            token_from,
        })
    }

    /// The node on this machine, as its data directory says where it is. That it is not running is an
    /// error only if the directory was named.
    fn local_node(&self) -> Result<LocalNode> {
        let named = self.data.is_named();
        let absent = || Ok(LocalNode::Absent("no node is running".to_owned()));
        let dir = match self.data.dir() {
            Ok(dir) => dir,
            Err(error) if named => return Err(error.into()),
            Err(_) => return absent(),
        };
        let data = quoted_path(dir.path());
        let file = dir.endpoints();
        let text = match std::fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound && !named => return absent(),
            Err(error) => {
                let why =
                    format!("no node runs there: {error}; `frith up --data {data}` starts one");
                return Err(anyhow!(why).context(format!("cannot read {}", file.display())));
            }
        };
        // A node that shuts down removes the file.
        if !dir.is_claimed() {
            let why = format!("the node on {data} is not running: it was killed or it crashed");
            anyhow::ensure!(!named, "{why}; `frith up --data {data}` starts it again");
            let why = format!("{why} (`frith up` starts it again)");
            return Ok(LocalNode::Absent(why));
        }
        let endpoints: serde_json::Value = serde_json::from_str(&text)
            .with_context(|| format!("{} is damaged", file.display()))?;
        let found = ["unix", "http"]
            .iter()
            .find_map(|kind| endpoints[kind].as_str())
            .with_context(|| format!("{} names no way in", file.display()))?;
        Ok(LocalNode::Running(dir, found.parse()?))
    }

    /// A host inside this process, as the configuration in this folder describes it.
    async fn own_host(&self) -> Result<tokio::io::DuplexStream> {
        let host = own::host(own::Chosen::Here, &self.data).await?;
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        tokio::spawn(async move { host.serve(theirs, Source::Own).await });
        Ok(ours)
    }

    /// The data directory of the node that is meant.
    pub(crate) fn dir(&self) -> Result<DataDir> {
        Ok(self.data.dir()?)
    }

    fn trusting(&self, address: Address) -> Result<Address> {
        let Some(file) = &self.ca else {
            return Ok(address);
        };
        let text = || format!("cannot use the certificates in {}", file.display());
        let roots = Roots::from_pem(&std::fs::read(file).with_context(text)?).with_context(text)?;
        Ok(address.trusting(roots))
    }
}

/// What to connect to, and as whom.
struct Target {
    location: HostLocation,
    config: AgentConfig,
    token_from: TokenFrom,
}

enum HostLocation {
    At(Address),
    /// A host inside this process, with the reason.
    InProcess(String),
}

enum LocalNode {
    Running(DataDir, Address),
    /// With the reason.
    Absent(String),
}

/// Why a host cannot be spoken to, and what to do about it.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the others have no hint of their own"
)]
async fn explain(
    address: &Address,
    token_from: &TokenFrom,
    wanted: &[&str],
    error: ClientError,
) -> anyhow::Error {
    let is_there = !matches!(error, ClientError::Unreachable(_));
    let hint = match &error {
        ClientError::Connect(ConnectError::Refused(HandshakeReason::AuthFailed)) => {
            Some(token_from.hint())
        }
        ClientError::Connect(ConnectError::Refused(HandshakeReason::NoCaps)) => {
            Some(hint::no_plugin(wanted))
        }
        _ => hint::other_address(address).await,
    };
    let hint = hint.or_else(|| (!is_there).then(|| hint::unreachable(address).to_owned()));
    let text = if let ClientError::Unreachable(error) = error {
        format!("cannot reach {address}: {error}")
    } else {
        format!("{address} is there, but: {error}")
    };
    match hint {
        Some(hint) => anyhow!("{text}\n{hint}"),
        None => anyhow!(text),
    }
}

impl Connection {
    fn new(client: Client) -> Self {
        ends_with_command(&client);
        Self { client }
    }

    /// Makes sure that the host serves what a command is about, and not only what else it may use.
    pub(crate) fn must_have(&self, capability: &str) -> Result<()> {
        let accepted = self.client.capability(capability);
        let is_there = accepted.is_some_and(|accepted| accepted.enabled);
        anyhow::ensure!(is_there, hint::no_plugin(&[capability]));
        Ok(())
    }

    /// Says goodbye, and waits for a host that was started for this.
    pub(crate) async fn close(self) {
        self.client.disconnect(Duration::from_secs(5)).await;
    }
}
