//! What the node says about itself, on standard error.

use std::io::IsTerminal;

use a2e_runtime::config::{LogFormat, Telemetry};
use anyhow::{Context, Result};
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt, reload};

use crate::otlp::{Exporter, Spans};

/// The log, whose levels can be changed.
pub(crate) struct Log {
    levels: reload::Handle<EnvFilter, Registry>,
    /// What sends spans to a collector, if one wants them.
    spans: Option<Exporter>,
}

impl Log {
    /// Begins to log.
    pub(crate) fn start(telemetry: &Telemetry) -> Result<Self> {
        let filter = filter(telemetry)
            .with_context(|| format!("`telemetry.log` is no filter: {}", telemetry.log))?;
        let (filter, handle) = reload::Layer::new(filter);
        let lines = fmt::layer().with_writer(std::io::stderr).with_target(false);
        let lines: Box<dyn Layer<Registry> + Send + Sync> = match telemetry.log_format {
            LogFormat::Json => lines.json().boxed(),
            LogFormat::Text => lines.with_ansi(std::io::stderr().is_terminal()).boxed(),
        };
        let registry = tracing_subscriber::registry().with(lines.with_filter(filter));
        let (spans, exporter) = telemetry.otlp.as_ref().map(|_| Spans::new()).unzip();
        let spans = spans.map(|spans| spans.with_filter(Spans::filter()));
        registry.with(spans).try_init()?;
        Ok(Self {
            levels: handle,
            spans: exporter,
        })
    }

    /// What sends spans to a collector; there is one.
    pub(crate) const fn take_exporter(&mut self) -> Option<Exporter> {
        self.spans.take()
    }

    /// Logs with other levels from now on.
    pub(crate) fn set(&self, telemetry: &Telemetry) {
        let outcome = filter(telemetry)
            .map_err(anyhow::Error::from)
            .and_then(|filter| Ok(self.levels.reload(filter)?));
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
