//! `frith mcp`: an MCP server for the process that started this one.

use a2e_caps::mcp::server::{self, Session};
use anyhow::{Context, Result};

use crate::Outcome;
use crate::connect::Arguments;
use crate::stdio::{input, output};

/// Serves standard input and output until the parent closes them, with what the node on this machine
/// has; without one, with what a host inside this process has.
pub(crate) fn run(arguments: &Arguments) -> Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start")?;
    let served = runtime.block_on(async {
        let read = input().context("cannot read standard input")?;
        let write = output().context("cannot write standard output")?;
        let connection = arguments.connect_to_stay(&Session::wanted()).await?;
        let session = Session::of(connection.client.clone());
        let served = server::serve(session, read, write).await;
        connection.close().await;
        served.context("what started this must be an MCP client (docs/mcp.md)")
    });
    // Reading a standard input that is no pipe blocks a thread; do not wait for it.
    runtime.shutdown_background();
    served.map(|()| Outcome::Good)
}
