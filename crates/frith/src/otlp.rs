//! `telemetry.otlp`: what the node does, as spans for an OpenTelemetry collector.
//!
//! A trace is the request of an agent, or the intent of a peer, with all that was done for it. Between
//! nodes it goes on by the trace context that the bridge sends along.

mod export;
mod span;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use tokio::sync::mpsc;
use tracing::span::{Attributes, Id, Record};
use tracing::{Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

pub(crate) use export::{Collector, Exporter};
use span::{Begun, Span};

/// Takes spans that have ended, and never waits: what the collector is too slow for is lost.
pub(crate) struct Spans {
    ended: mpsc::Sender<Span>,
    lost: Arc<AtomicU64>,
}

/// Spans that wait to be sent.
const WAITING: usize = 4096;

impl Spans {
    /// What takes spans, and where they come out.
    pub(crate) fn new() -> (Self, Exporter) {
        let (sender, receiver) = mpsc::channel(WAITING);
        let lost = Arc::new(AtomicU64::new(0));
        let spans = Self {
            ended: sender,
            lost: Arc::clone(&lost),
        };
        (spans, Exporter::new(receiver, lost))
    }

    /// The spans that are worth sending.
    pub(crate) fn filter() -> Targets {
        Targets::new()
            .with_target("a2e_runtime", Level::DEBUG)
            .with_target("bridge", Level::INFO)
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Spans {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else {
            return;
        };
        let begun = {
            let parent = span.parent();
            let parent = parent.as_ref().map(|parent| parent.extensions());
            let parent = parent.as_ref().and_then(|parts| parts.get::<Begun>());
            Begun::new(attributes, SystemTime::now(), parent)
        };
        // Without randomness there are no ids.
        if let Some(begun) = begun {
            span.extensions_mut().insert(begun);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let span = context.span(id);
        if let Some(span) = span
            && let Some(begun) = span.extensions_mut().get_mut::<Begun>()
        {
            begun.record(values);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else {
            return;
        };
        let begun = span.extensions_mut().remove::<Begun>();
        let ended = begun.and_then(|begun| begun.end(SystemTime::now()));
        if let Some(ended) = ended
            && self.ended.try_send(ended).is_err()
        {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests;
