//! What a host counts, as Prometheus reads it.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use a2e_wire::Tag;

/// The counts of a host.
#[derive(Debug)]
pub(crate) struct Metrics {
    /// One for each type of the catalogue, and one for all others.
    requests: Vec<Requests>,
    pub(crate) sessions_opened: AtomicU64,
    pub(crate) sessions_resumed: AtomicU64,
    pub(crate) logins_refused: AtomicU64,
    pub(crate) running: AtomicU64,
    pub(crate) waiting: AtomicU64,
    pub(crate) received_bytes: AtomicU64,
    pub(crate) sent_bytes: AtomicU64,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Answered,
    Failed,
    Cancelled,
}

/// The counts of one type of request.
#[derive(Debug, Default)]
struct Requests {
    ended: [AtomicU64; 3],
    /// How many took no longer than each of [`BOUNDS`].
    within: [AtomicU64; BOUNDS.len()],
    count: AtomicU64,
    microseconds: AtomicU64,
}

/// The bounds of the latency histogram, in seconds.
const BOUNDS: [f64; 12] = [
    0.000_1, 0.000_5, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 300.0,
];

const ENDED: [&str; 3] = ["answered", "failed", "cancelled"];

impl Default for Metrics {
    fn default() -> Self {
        let types = Tag::ALL.len().saturating_add(1);
        Self {
            requests: std::iter::repeat_with(Requests::default)
                .take(types)
                .collect(),
            sessions_opened: AtomicU64::default(),
            sessions_resumed: AtomicU64::default(),
            logins_refused: AtomicU64::default(),
            running: AtomicU64::default(),
            waiting: AtomicU64::default(),
            received_bytes: AtomicU64::default(),
            sent_bytes: AtomicU64::default(),
        }
    }
}

impl Metrics {
    /// A request has ended.
    pub(crate) fn request(&self, tag: Option<Tag>, ended: Ended, took: Duration) {
        let index = tag.map_or(Tag::ALL.len(), |tag| tag as usize);
        let Some(requests) = self.requests.get(index) else {
            return;
        };
        if let Some(count) = requests.ended.get(ended as usize) {
            add(count, 1);
        }
        let seconds = took.as_secs_f64();
        let first = BOUNDS.iter().position(|bound| seconds <= *bound);
        // Each is counted once and summed when read.
        if let Some(count) = first.and_then(|first| requests.within.get(first)) {
            add(count, 1);
        }
        add(&requests.count, 1);
        let microseconds = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        add(&requests.microseconds, microseconds);
    }

    /// Everything, in Prometheus' text format; `sessions` is how many there are now.
    pub(crate) fn render(&self, sessions: usize, buffered: usize) -> String {
        let mut text = String::new();
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        for (name, kind, help, value) in [
            ("sessions", "gauge", "Sessions now", sessions as u64),
            (
                "buffered_bytes",
                "gauge",
                "Bytes waiting in sessions",
                buffered as u64,
            ),
            (
                "sessions_opened_total",
                "counter",
                "Sessions opened",
                read(&self.sessions_opened),
            ),
            (
                "sessions_resumed_total",
                "counter",
                "Sessions resumed",
                read(&self.sessions_resumed),
            ),
            (
                "logins_refused_total",
                "counter",
                "Handshakes refused",
                read(&self.logins_refused),
            ),
            (
                "requests_running",
                "gauge",
                "Requests being worked on",
                read(&self.running),
            ),
            (
                "requests_waiting",
                "gauge",
                "Requests waiting for their turn",
                read(&self.waiting),
            ),
            (
                "received_bytes_total",
                "counter",
                "Bytes of lines received",
                read(&self.received_bytes),
            ),
            (
                "sent_bytes_total",
                "counter",
                "Bytes of lines sent",
                read(&self.sent_bytes),
            ),
        ] {
            let _ = writeln!(
                text,
                "# HELP frith_a2e_{name} {help}\n# TYPE frith_a2e_{name} {kind}\nfrith_a2e_{name} {value}"
            );
        }
        text.push_str("# HELP frith_a2e_requests_total Requests by type and outcome\n");
        text.push_str("# TYPE frith_a2e_requests_total counter\n");
        for (name, requests) in self.used() {
            for (ended, count) in ENDED.iter().zip(&requests.ended) {
                let count = read(count);
                let _ = writeln!(
                    text,
                    "frith_a2e_requests_total{{type=\"{name}\",outcome=\"{ended}\"}} {count}"
                );
            }
        }
        text.push_str("# HELP frith_a2e_request_seconds How long requests took\n");
        text.push_str("# TYPE frith_a2e_request_seconds histogram\n");
        for (name, requests) in self.used() {
            requests.render(name, &mut text);
        }
        text
    }

    /// The types that were asked for at least once.
    fn used(&self) -> impl Iterator<Item = (&'static str, &Requests)> {
        let names = Tag::ALL.iter().map(|tag| tag.as_str()).chain(["other"]);
        names
            .zip(&self.requests)
            .filter(|(_, requests)| requests.count.load(Ordering::Relaxed) > 0)
    }
}

impl Requests {
    fn render(&self, name: &str, text: &mut String) {
        let mut sum = 0_u64;
        for (bound, count) in BOUNDS.iter().zip(&self.within) {
            sum = sum.saturating_add(count.load(Ordering::Relaxed));
            let _ = writeln!(
                text,
                "frith_a2e_request_seconds_bucket{{type=\"{name}\",le=\"{bound}\"}} {sum}"
            );
        }
        let count = self.count.load(Ordering::Relaxed);
        let seconds =
            Duration::from_micros(self.microseconds.load(Ordering::Relaxed)).as_secs_f64();
        let _ = writeln!(
            text,
            "frith_a2e_request_seconds_bucket{{type=\"{name}\",le=\"+Inf\"}} {count}\n\
             frith_a2e_request_seconds_sum{{type=\"{name}\"}} {seconds}\n\
             frith_a2e_request_seconds_count{{type=\"{name}\"}} {count}"
        );
    }
}

/// Adds to a count.
pub(crate) fn add(count: &AtomicU64, more: u64) {
    count.fetch_add(more, Ordering::Relaxed);
}

/// Takes from a count.
pub(crate) fn subtract(count: &AtomicU64, less: u64) {
    count.fetch_sub(less, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_can_be_read() {
        let metrics = Metrics::default();
        let call = Some(Tag::ToolCallRequest);
        metrics.request(call, Ended::Answered, Duration::from_micros(100));
        metrics.request(call, Ended::Failed, Duration::from_millis(2));
        metrics.request(None, Ended::Cancelled, Duration::from_secs(1000));
        let text = metrics.render(7, 9);
        for line in [
            "frith_a2e_sessions 7",
            "frith_a2e_buffered_bytes 9",
            r#"frith_a2e_requests_total{type="tool/call/req",outcome="answered"} 1"#,
            r#"frith_a2e_requests_total{type="tool/call/req",outcome="failed"} 1"#,
            r#"frith_a2e_request_seconds_bucket{type="tool/call/req",le="0.0001"} 1"#,
            r#"frith_a2e_request_seconds_bucket{type="tool/call/req",le="0.005"} 2"#,
            r#"frith_a2e_request_seconds_sum{type="tool/call/req"} 0.0021"#,
            r#"frith_a2e_request_seconds_bucket{type="other",le="300"} 0"#,
            r#"frith_a2e_request_seconds_bucket{type="other",le="+Inf"} 1"#,
        ] {
            assert!(text.lines().any(|known| known == line), "{line} in\n{text}");
        }
    }
}
