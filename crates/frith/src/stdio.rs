//! `frith stdio`: a host for the process that started this one.

use a2e_runtime::demo::Demo;
use a2e_runtime::{Host, Source};
use anyhow::{Context, Result};

use crate::Outcome;

/// Serves standard input and output until the parent closes them. The parent is trusted by what it
/// is: it could do everything this process can.
pub(crate) fn run() -> Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start")?;
    runtime
        .block_on(host().serve(
            tokio::io::join(tokio::io::stdin(), tokio::io::stdout()),
            Source::Own,
        ))
        .context("the parent's side broke")?;
    // Reading standard input blocks a thread; do not wait for it.
    runtime.shutdown_background();
    Ok(Outcome::Good)
}

/// The host that is there without a configuration.
pub(crate) fn host() -> Host {
    Host::builder().plugin(Demo::default()).build()
}
