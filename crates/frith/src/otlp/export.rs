//! Sending spans: OTLP over HTTP, with JSON bodies.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use a2e_runtime::config::Config;
use anyhow::Result;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::span::Span;
use crate::post::Destination;

/// Where spans go.
#[derive(Debug, Clone)]
pub(crate) struct Collector {
    /// `http://ADDRESS:PORT`, and what is in front of `/v1/traces`.
    url: String,
    /// What the node calls itself.
    service: String,
    /// What the collector wants to see.
    headers: HeaderMap,
    destination: Destination,
}

/// Sends the spans that have ended.
pub(crate) struct Exporter {
    ended: mpsc::Receiver<Span>,
    lost: Arc<AtomicU64>,
}

/// So many spans are sent at once, or what there is after this time.
const BATCH: usize = 512;
const EVERY: Duration = Duration::from_secs(1);

/// How long a collector may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The same before the process ends.
const LAST: Duration = Duration::from_secs(2);

impl Exporter {
    pub(super) const fn new(ended: mpsc::Receiver<Span>, lost: Arc<AtomicU64>) -> Self {
        Self { ended, lost }
    }

    /// The next span that has ended, if one has.
    #[cfg(test)]
    pub(super) fn next(&mut self) -> Option<Value> {
        self.ended.try_recv().ok().map(|span| span.0)
    }

    /// Sends until it is told to stop, and then what is left.
    pub(crate) async fn run(mut self, collector: Collector, stop: CancellationToken) {
        let mut is_reached = true;
        loop {
            let mut batch = Vec::new();
            let is_over = tokio::select! {
                () = self.gather(&mut batch) => false,
                () = stop.cancelled() => true,
            };
            let patience = match is_over {
                true => {
                    while let Ok(span) = self.ended.try_recv() {
                        batch.push(span);
                    }
                    LAST
                }
                false => PATIENCE,
            };
            if !batch.is_empty() {
                let sent = timeout(patience, collector.send(&batch)).await;
                let sent = sent.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
                self.tell(&collector, &sent, &mut is_reached);
            }
            if is_over {
                return;
            }
        }
    }

    /// Waits for spans, and a little for more of them.
    async fn gather(&mut self, batch: &mut Vec<Span>) {
        if self.ended.recv_many(batch, BATCH).await == 0 {
            return std::future::pending().await;
        }
        let more = async {
            while batch.len() < BATCH {
                let room = BATCH.saturating_sub(batch.len());
                self.ended.recv_many(batch, room).await;
            }
        };
        tokio::select! {
            () = more => {}
            () = sleep(EVERY) => {}
        }
    }

    /// Says when a collector goes away and when it is back, not each time.
    fn tell(&self, collector: &Collector, sent: &io::Result<()>, is_reached: &mut bool) {
        let url = &collector.url;
        match sent {
            Ok(()) if !*is_reached => tracing::info!("the collector at {url} takes spans again"),
            Err(error) if *is_reached => tracing::warn!(
                "spans are lost, since the collector at {url} (`telemetry.otlp`) does not take them: {error}"
            ),
            Ok(()) | Err(_) => {}
        }
        *is_reached = sent.is_ok();
        let lost = self.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            tracing::warn!("{lost} spans are lost: there were more than could be sent");
        }
    }
}

impl Collector {
    /// The one that a configuration names, if it does.
    pub(crate) fn of(config: &Config) -> Result<Option<Self>> {
        let Some(url) = config.telemetry.otlp.clone() else {
            return Ok(None);
        };
        let mut headers = HeaderMap::new();
        for (name, value) in &config.telemetry.otlp_headers {
            let mut value = HeaderValue::from_str(value.reveal())?;
            value.set_sensitive(true);
            headers.insert(HeaderName::from_bytes(name.as_bytes())?, value);
        }
        let traces = format!("{}/v1/traces", url.trim_end_matches('/'));
        Ok(Some(Self {
            destination: Destination::new(&traces)?,
            url,
            service: config.host_id.clone(),
            headers,
        }))
    }

    async fn send(&self, spans: &[Span]) -> io::Result<()> {
        let headers = self.headers.clone();
        self.destination.post(headers, &self.body(spans)).await
    }

    fn body(&self, spans: &[Span]) -> Value {
        let spans: Vec<&Value> = spans.iter().map(|span| &span.0).collect();
        let service = json!({"key": "service.name", "value": {"stringValue": self.service}});
        let scope = json!({"name": "frith", "version": env!("CARGO_PKG_VERSION")});
        json!({"resourceSpans": [{
            "resource": {"attributes": [service]},
            "scopeSpans": [{"scope": scope, "spans": spans}],
        }]})
    }
}
