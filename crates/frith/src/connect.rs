//! Where a host is, and how to reach it.

use std::process::Stdio;

use a2e_runtime::{AgentConfig, Client, Handler, Source};
use anyhow::{Context, Result, bail};
use tokio::net::{TcpStream, UnixStream};
use tokio::process::{Child, Command};

use crate::stdio;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Where the host is: `tcp:ADDRESS:PORT`, `unix:PATH`, or `cmd:PROGRAM ARGUMENTS` to start one
    /// (words are split at spaces); without it, a host inside this process
    #[arg(long, value_name = "HOST")]
    host: Option<String>,

    /// The credential, if the host asks for one
    #[arg(long, env = "FRITH_TOKEN", hide_env_values = true, default_value = "")]
    token: String,
}

/// A connection, with the host that was started for it.
pub(crate) struct Connection {
    pub(crate) client: Client,
    child: Option<Child>,
}

impl Arguments {
    /// Connects and asks for these capabilities.
    pub(crate) async fn connect(&self, wanted: &[&str]) -> Result<Connection> {
        let config = AgentConfig {
            agent_id: "frith".into(),
            auth_token: self.token.clone(),
            wanted: wanted.iter().map(|name| (*name).into()).collect(),
            ..AgentConfig::default()
        };
        let on_push = Handler::none();
        let Some(host) = &self.host else {
            let (ours, theirs) = tokio::io::duplex(64 * 1024);
            tokio::spawn(async move { stdio::host().serve(theirs, Source::Own).await });
            let client = Client::connect(ours, config, on_push).await?;
            return Ok(Connection {
                client,
                child: None,
            });
        };
        let unreachable = || format!("cannot reach {host}");
        let mut child = None;
        let client = match host.split_once(':') {
            Some(("tcp", address)) => {
                let stream = TcpStream::connect(address)
                    .await
                    .with_context(unreachable)?;
                stream.set_nodelay(true)?;
                Client::connect(stream, config, on_push).await
            }
            Some(("unix", path)) => {
                let stream = UnixStream::connect(path).await.with_context(unreachable)?;
                Client::connect(stream, config, on_push).await
            }
            Some(("cmd", command)) => {
                let mut started = start(command).with_context(unreachable)?;
                let (Some(input), Some(output)) = (started.stdin.take(), started.stdout.take())
                else {
                    bail!("{command} has no standard input and output");
                };
                child = Some(started);
                Client::connect(tokio::io::join(output, input), config, on_push).await
            }
            _ => bail!("`{host}` is no host; say tcp:ADDRESS:PORT, unix:PATH or cmd:PROGRAM"),
        };
        let client = client.with_context(|| format!("{host} is there, but"))?;
        Ok(Connection { client, child })
    }
}

impl Connection {
    /// Says goodbye, and waits for a host that was started for this.
    pub(crate) async fn close(self) -> Result<()> {
        self.client
            .disconnect(std::time::Duration::from_secs(5))
            .await;
        if let Some(mut child) = self.child {
            child.wait().await?;
        }
        Ok(())
    }
}

fn start(command: &str) -> Result<Child> {
    let mut words = command.split_whitespace();
    let program = words.next().context("`cmd:` needs a program")?;
    let child = Command::new(program)
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    Ok(child)
}
