//! What the node says about itself, on standard error.

use std::io::IsTerminal;

use a2e_runtime::config::{LogFormat, Telemetry};
use anyhow::{Context, Result};
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, fmt, reload};

/// The log, whose levels can be changed.
pub(crate) struct Log(reload::Handle<EnvFilter, Registry>);

impl Log {
    /// Begins to log.
    pub(crate) fn start(telemetry: &Telemetry) -> Result<Self> {
        let filter = filter(telemetry)
            .with_context(|| format!("`telemetry.log` is no filter: {}", telemetry.log))?;
        let (filter, handle) = reload::Layer::new(filter);
        let registry = tracing_subscriber::registry().with(filter);
        let lines = fmt::layer().with_writer(std::io::stderr).with_target(false);
        match telemetry.log_format {
            LogFormat::Json => registry.with(lines.json()).try_init()?,
            LogFormat::Text => {
                let colours = std::io::stderr().is_terminal();
                registry.with(lines.with_ansi(colours)).try_init()?;
            }
        }
        Ok(Self(handle))
    }

    /// Logs with other levels from now on.
    pub(crate) fn set(&self, telemetry: &Telemetry) {
        let outcome = filter(telemetry)
            .map_err(anyhow::Error::from)
            .and_then(|filter| Ok(self.0.reload(filter)?));
        if let Err(error) = outcome {
            tracing::error!("kept the old `telemetry.log`: {error}");
        }
    }
}

/// What is logged. The MCP library would log all that foreign servers and clients say, so it logs nothing
/// unless it is named.
fn filter(telemetry: &Telemetry) -> Result<EnvFilter, ParseError> {
    EnvFilter::try_new(format!("rmcp=off,{}", telemetry.log))
}
