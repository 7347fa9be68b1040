//! Where a host is, and how to reach it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use a2e_runtime::{
    Address, AgentConfig, Client, ClientError, Connector, Dial, Handler, Link, Roots, Source,
};
use anyhow::{Context, Result, anyhow};

use crate::stdio;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Where the host is: `http://ADDRESS:PORT`, `ws://ADDRESS:PORT` (or `https`, `wss`),
    /// `tcp:ADDRESS:PORT`, `tls:ADDRESS:PORT`, `unix:PATH`, or `cmd:PROGRAM ARGUMENTS` to start one
    /// (words are split at spaces); without it, a host inside this process
    #[arg(long, value_name = "HOST")]
    host: Option<Address>,

    /// Trust the certificates in this PEM file instead of the system's
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,

    /// The credential, if the host asks for one
    #[arg(long, env = "FRITH_TOKEN", hide_env_values = true, default_value = "")]
    token: String,
}

/// A connection to a host.
pub(crate) struct Connection {
    pub(crate) client: Client,
}

impl Arguments {
    /// Connects and asks for these capabilities.
    pub(crate) async fn connect(&self, wanted: &[&str]) -> Result<Connection> {
        let config = self.config(wanted);
        let Some(address) = self.address()? else {
            let client = Client::connect(own_host(), config, Handler::none()).await?;
            return Ok(Connection { client });
        };
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

    /// A connection without a session.
    pub(crate) async fn link(&self) -> Result<Link> {
        let Some(address) = self.address()? else {
            return Ok(Link::new(own_host()));
        };
        let text = format!("cannot reach {address}");
        let dialed = Arc::new(address).dial().await;
        dialed.map_err(|error| anyhow!("{text}: {error}"))
    }

    /// Who connects, and what for.
    pub(crate) fn config(&self, wanted: &[&str]) -> AgentConfig {
        AgentConfig {
            agent_id: "frith".into(),
            auth_token: self.token.clone(),
            wanted: wanted.iter().map(|name| (*name).into()).collect(),
            ..AgentConfig::default()
        }
    }

    fn address(&self) -> Result<Option<Address>> {
        let (Some(address), Some(file)) = (&self.host, &self.ca) else {
            return Ok(self.host.clone());
        };
        let text = || format!("cannot use the certificates in {}", file.display());
        let roots = Roots::from_pem(&std::fs::read(file).with_context(text)?).with_context(text)?;
        Ok(Some(address.clone().trusting(roots)))
    }
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
