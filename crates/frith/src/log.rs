//! What the node says about itself, on standard error or in a file.

use std::io::IsTerminal;

use a2e_runtime::config::{LogFormat, Telemetry};
use anyhow::{Context, Result};
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt, reload};

use crate::log_file::{LogFile, SharedLogFile};
use crate::otlp::{Exporter, Spans};

/// The log, whose levels can be changed.
pub(crate) struct Log {
    levels: reload::Handle<EnvFilter, Registry>,
    /// Where it is written, if that is a file.
    file: Option<SharedLogFile>,
    /// What sends spans to a collector, if one wants them.
    spans: Option<Exporter>,
}

impl Log {
    /// Begins to log.
    pub(crate) fn start(telemetry: &Telemetry) -> Result<Self> {
        let filter = filter(telemetry)
            .with_context(|| format!("`telemetry.log` is no filter: {}", telemetry.log))?;
        let (filter, handle) = reload::Layer::new(filter);
        let file = file(telemetry)?;
        let (writer, colours) = match &file {
            Some(file) => {
                let file = file.clone();
                (BoxMakeWriter::new(move || file.clone()), false)
            }
            None => (
                BoxMakeWriter::new(std::io::stderr),
                std::io::stderr().is_terminal(),
            ),
        };
        let lines = fmt::layer().with_writer(writer).with_target(false);
        let lines: Box<dyn Layer<Registry> + Send + Sync> = match telemetry.log_format {
            LogFormat::Json => lines.json().boxed(),
            LogFormat::Text => lines.with_ansi(colours).boxed(),
        };
        let registry = tracing_subscriber::registry().with(lines.with_filter(filter));
        let (spans, exporter) = telemetry.otlp.as_ref().map(|_| Spans::new()).unzip();
        let spans = spans.map(|spans| spans.with_filter(Spans::filter()));
        registry.with(spans).try_init()?;
        Ok(Self {
            levels: handle,
            file,
            spans: exporter,
        })
    }

    /// What sends spans to a collector; there is one.
    pub(crate) const fn take_exporter(&mut self) -> Option<Exporter> {
        self.spans.take()
    }

    /// Logs with other levels from now on, and into the file that has its name now.
    pub(crate) fn set(&self, telemetry: &Telemetry) {
        let outcome = filter(telemetry)
            .map_err(anyhow::Error::from)
            .and_then(|filter| Ok(self.levels.reload(filter)?));
        if let Err(error) = outcome {
            tracing::error!("kept the old `telemetry.log`: {error}");
        }
        if let Some(Err(error)) = self.file.as_ref().map(SharedLogFile::reopen) {
            tracing::error!("kept writing to the old `telemetry.log_file`: {error}");
        }
    }
}

fn file(telemetry: &Telemetry) -> Result<Option<SharedLogFile>> {
    let Some(path) = &telemetry.log_file else {
        return Ok(None);
    };
    let file = LogFile::open(path, telemetry.log_file_bytes, telemetry.log_files);
    let file = file.with_context(|| {
        format!(
            "cannot write to {} (`telemetry.log_file`); its folder must be there",
            path.display()
        )
    })?;
    Ok(Some(SharedLogFile::new(file)))
}

/// What is logged. The MCP library would log all that foreign servers and clients say, so it logs nothing
/// unless it is named.
fn filter(telemetry: &Telemetry) -> Result<EnvFilter, ParseError> {
    EnvFilter::try_new(format!("rmcp=off,{}", telemetry.log))
}
