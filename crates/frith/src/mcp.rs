//! `frith mcp`: an MCP server for the process that started this one; and logins to MCP servers that the
//! node uses.

mod login;

use a2e_caps::mcp::server::{self, Session};
use anyhow::{Context, Result};
use clap::Subcommand;

use crate::Outcome;
use crate::agent::block_on;
use crate::connect;
use crate::mcp_servers::{add, clients, show};
use crate::stdio::{input, output};

pub(crate) use login::{known, serve};

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
    /// List the MCP servers of the node: which run, which start when they are used, which are not there
    List,
    /// Show all about a server: its command, its tools, how often it has started
    Show {
        /// Its name in the configuration
        server: String,
    },
    /// Have the node start a server, if it does not run, and ask it for its tools
    Test {
        /// Its name in the configuration
        server: String,
    },
    /// Add a server to the configuration: it is tried in the sandbox first, and has what is granted
    Add(add::Arguments),
    /// Take a server out of the configuration
    Remove(add::Removal),
    /// Have the node start a server anew
    Restart {
        /// Its name in the configuration
        server: String,
    },
    /// Show what a server has written on its standard error, and when it was started and ended
    Logs {
        /// Its name in the configuration
        server: String,

        /// Go on with what it writes from now on
        #[arg(long, short)]
        follow: bool,
    },
    /// Print what another program needs to use this node as an MCP server, and the file it belongs in
    Config {
        /// The program
        client: clients::Client,

        /// Write it there: shows what changes, and does it
        #[arg(long)]
        write: bool,
    },
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
            Action::List => show::list(&dir, as_json).await,
            Action::Show { server } => show::show(&dir, server, as_json).await,
            Action::Test { server } => show::test(&dir, server, as_json).await,
            Action::Add(new) => add::add(new, &dir, as_json).await,
            Action::Remove(old) => add::remove(old, &dir, as_json).await,
            Action::Restart { server } => show::restart(&dir, server, as_json).await,
            Action::Logs { server, follow } => show::logs(&dir, server, *follow, as_json).await,
            Action::Config { client, write } => clients::config(*client, *write, &dir, as_json),
            Action::Login { server } => login::login(&dir, server, as_json).await,
            Action::Logout { server } => login::logout(&dir, server, as_json).await,
        }
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
