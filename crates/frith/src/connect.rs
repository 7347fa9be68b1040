//! Where a host is, and how to reach it.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use a2e_runtime::{
    Address, AgentConfig, Client, ClientError, Connector, DataDir, Dial, Handler, Link, Roots,
    Source,
};
use anyhow::{Context, Result, anyhow};

use crate::data::DataArguments;
use crate::stdio;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Where the host is: `http://ADDRESS:PORT`, `ws://ADDRESS:PORT` (or `https`, `wss`),
    /// `tcp:ADDRESS:PORT`, `tls:ADDRESS:PORT`, `unix:PATH`, or `cmd:PROGRAM ARGUMENTS` to start one
    /// (words are split at spaces); without it, the node that runs on the data directory, or else a
    /// host inside this process
    #[arg(long, value_name = "HOST")]
    host: Option<Address>,

    /// Trust the certificates in this PEM file instead of the system's
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,

    /// The credential, if the host asks for one
    #[arg(long, env = "FRITH_TOKEN", hide_env_values = true, default_value = "")]
    token: String,

    #[command(flatten)]
    data: DataArguments,
}

/// A host, and the credential to say there.
struct Place {
    address: Address,
    token: String,
}

/// A connection to a host.
pub(crate) struct Connection {
    pub(crate) client: Client,
}

impl Arguments {
    /// Connects and asks for these capabilities.
    pub(crate) async fn connect(&self, wanted: &[&str]) -> Result<Connection> {
        let Some(Place { address, token }) = self.place()? else {
            let config = config(&self.token, wanted);
            let client = Client::connect(own_host(), config, Handler::none()).await?;
            return Ok(Connection { client });
        };
        let config = config(&token, wanted);
        // One question and its answer: a host that goes away meanwhile is an error, not a wait.
        let connector = Connector::new(address.clone())
            .agent(config)
            .reconnect(None);
        let client = connector.connect().await.map_err(|error| {
            if let ClientError::Unreachable(error) = error {
                return anyhow!("cannot reach {address}: {error}");
            }
            anyhow!(error).context(format!("{address} is there, but"))
        })?;
        Ok(Connection { client })
    }

    /// A connection without a session, and who connects over it.
    pub(crate) async fn link(&self, wanted: &[&str]) -> Result<(Link, AgentConfig)> {
        let Some(Place { address, token }) = self.place()? else {
            return Ok((Link::new(own_host()), config(&self.token, wanted)));
        };
        let text = format!("cannot reach {address}");
        let dialed = Arc::new(address).dial().await;
        let link = dialed.map_err(|error| anyhow!("{text}: {error}"))?;
        Ok((link, config(&token, wanted)))
    }

    /// The host that was named, or the node that runs here.
    fn place(&self) -> Result<Option<Place>> {
        if let Some(address) = self.address()? {
            let token = self.token.clone();
            return Ok(Some(Place { address, token }));
        }
        let Ok(dir) = self.data.dir() else {
            return Ok(None);
        };
        let Some(address) = running(&dir) else {
            return Ok(None);
        };
        let token = match self.token.as_str() {
            "" => std::fs::read_to_string(dir.token()).unwrap_or_default(),
            token => token.to_owned(),
        };
        Ok(Some(Place {
            address: self.trusting(address)?,
            token: token.trim().to_owned(),
        }))
    }

    fn address(&self) -> Result<Option<Address>> {
        let address = self.host.clone();
        address.map(|address| self.trusting(address)).transpose()
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

/// Who connects, and what for.
fn config(token: &str, wanted: &[&str]) -> AgentConfig {
    AgentConfig {
        agent_id: "frith".into(),
        auth_token: token.to_owned(),
        wanted: wanted.iter().map(|name| (*name).into()).collect(),
        ..AgentConfig::default()
    }
}

/// Where the node is that runs on a data directory, if one does: one that crashed has left its
/// endpoints too, but nobody holds the operator's socket.
fn running(dir: &DataDir) -> Option<Address> {
    UnixStream::connect(dir.operator_socket()).ok()?;
    let text = std::fs::read(dir.endpoints()).ok()?;
    let endpoints: serde_json::Value = serde_json::from_slice(&text).ok()?;
    let known = ["unix", "http"]
        .iter()
        .find_map(|name| endpoints[name].as_str());
    known?.parse().ok()
}

/// A host inside this process.
fn own_host() -> tokio::io::DuplexStream {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    tokio::spawn(async move { stdio::host().serve(theirs, Source::Own).await });
    ours
}

impl Connection {
    /// Says goodbye, and waits for a host that was started for this.
    pub(crate) async fn close(self) {
        self.client.disconnect(Duration::from_secs(5)).await;
    }
}
