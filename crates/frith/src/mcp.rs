//! `frith mcp`: an MCP server for the process that started this one; and logins to MCP servers that the
//! node uses.

mod login;

use a2e_caps::mcp::server::{self, Session};
use anyhow::{Context, Result};
use clap::Subcommand;

use crate::Outcome;
use crate::agent::block_on;
use crate::connect;
use crate::stdio::{input, output};

pub(crate) use login::serve;

/// Named apart from the arguments in it: clap knows groups of them by their types' names.
#[derive(Debug, clap::Args)]
pub(crate) struct McpArguments {
    #[command(subcommand)]
    action: Option<Action>,

    #[command(flatten)]
    host: connect::Arguments,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Log in to an MCP server of the node, with a browser on this machine
    Login {
        /// Its name in the configuration
        server: String,
    },
    /// Forget a login
    Logout {
        /// Its name in the configuration
        server: String,
    },
}

pub(crate) fn run(arguments: &McpArguments, as_json: bool) -> Result<Outcome> {
    let Some(action) = &arguments.action else {
        return be_server(&arguments.host);
    };
    let dir = arguments.host.data_dir()?;
    block_on(async {
        match action {
            Action::Login { server } => login::login(&dir, server, as_json).await?,
            Action::Logout { server } => login::logout(&dir, server, as_json).await?,
        }
        Ok(Outcome::Good)
    })
}

/// Serves standard input and output until the parent closes them, with what the node on this machine
/// has; without one, with what a host inside this process has.
fn be_server(host: &connect::Arguments) -> Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start")?;
    let served = runtime.block_on(async {
        let read = input().context("cannot read standard input")?;
        let write = output().context("cannot write standard output")?;
        let connection = host.connect_to_stay(&Session::wanted()).await?;
        let session = Session::of(connection.client.clone());
        let served = server::serve(session, read, write).await;
        connection.close().await;
        served.context("what started this must be an MCP client (docs/mcp.md)")
    });
    // Reading a standard input that is no pipe blocks a thread; do not wait for it.
    runtime.shutdown_background();
    served.map(|()| Outcome::Good)
}
