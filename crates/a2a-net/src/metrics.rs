//! What a node counts of its dealings with other agents, as Prometheus reads it.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use a2a_wire::ErrorCode;

/// The counts of a node.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// Messages of handshakes that came here.
    pub(crate) handshakes: Exchanges,
    /// Messages of sessions that came here.
    pub(crate) requests: Exchanges,
    /// Calls from here, each with all its tries.
    pub(crate) calls: Exchanges,
    pub(crate) sessions_opened: AtomicU64,
}

/// The counts of one kind of question and answer.
#[derive(Debug)]
pub(crate) struct Exchanges {
    /// One for what went well, one for each code of the table, one for all other codes.
    ended: Vec<AtomicU64>,
    /// How many took no longer than each of [`BOUNDS`], and longer than the one before.
    within: [AtomicU64; BOUNDS.len()],
    count: AtomicU64,
    microseconds: AtomicU64,
}

/// What there is now, which is not counted but looked at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Present {
    pub(crate) sessions: usize,
    pub(crate) half_open: usize,
}

/// The bounds of the latency histograms, in seconds.
const BOUNDS: [f64; 10] = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 300.0];

impl Default for Exchanges {
    fn default() -> Self {
        let outcomes = ErrorCode::ALL.len().saturating_add(2);
        Self {
            ended: std::iter::repeat_with(AtomicU64::default)
                .take(outcomes)
                .collect(),
            within: Default::default(),
            count: AtomicU64::default(),
            microseconds: AtomicU64::default(),
        }
    }
}

impl Exchanges {
    /// One has ended: well, or with a code.
    pub(crate) fn ended(&self, failed: Option<&ErrorCode>, took: Duration) {
        let index = failed.map_or(0, |code| {
            let known = ErrorCode::ALL.iter().position(|known| known == code);
            known.unwrap_or(ErrorCode::ALL.len()).saturating_add(1)
        });
        if let Some(count) = self.ended.get(index) {
            add(count, 1);
        }
        let seconds = took.as_secs_f64();
        let bound = BOUNDS.iter().position(|bound| seconds <= *bound);
        if let Some(count) = bound.and_then(|bound| self.within.get(bound)) {
            add(count, 1);
        }
        add(&self.count, 1);
        let microseconds = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        add(&self.microseconds, microseconds);
    }

    fn render(&self, name: &str, help: &str, text: &mut String) {
        let _ = writeln!(
            text,
            "# HELP frith_a2a_{name}_total {help}, by outcome\n# TYPE frith_a2a_{name}_total counter"
        );
        let codes = ErrorCode::ALL.iter().map(ErrorCode::as_str);
        let outcomes = ["ok"].into_iter().chain(codes).chain(["other"]);
        for (outcome, count) in outcomes.zip(&self.ended) {
            // What never happened is no line.
            let count = read(count);
            if count > 0 || outcome == "ok" {
                let _ = writeln!(
                    text,
                    "frith_a2a_{name}_total{{outcome=\"{outcome}\"}} {count}"
                );
            }
        }
        let _ = writeln!(
            text,
            "# HELP frith_a2a_{name}_seconds How long they took\n# TYPE frith_a2a_{name}_seconds histogram"
        );
        let mut sum = 0_u64;
        for (bound, count) in BOUNDS.iter().zip(&self.within) {
            sum = sum.saturating_add(read(count));
            let _ = writeln!(
                text,
                "frith_a2a_{name}_seconds_bucket{{le=\"{bound}\"}} {sum}"
            );
        }
        let count = read(&self.count);
        let seconds = Duration::from_micros(read(&self.microseconds)).as_secs_f64();
        let _ = writeln!(
            text,
            "frith_a2a_{name}_seconds_bucket{{le=\"+Inf\"}} {count}\n\
             frith_a2a_{name}_seconds_sum {seconds}\n\
             frith_a2a_{name}_seconds_count {count}"
        );
    }
}

impl Metrics {
    /// Everything, in Prometheus' text format.
    pub(crate) fn render(&self, present: Present) -> String {
        let mut text = String::new();
        for (name, kind, help, value) in [
            (
                "sessions",
                "gauge",
                "Sessions of other agents now",
                present.sessions as u64,
            ),
            (
                "half_open",
                "gauge",
                "Handshakes under way",
                present.half_open as u64,
            ),
            (
                "sessions_opened_total",
                "counter",
                "Sessions of other agents opened",
                read(&self.sessions_opened),
            ),
        ] {
            let _ = writeln!(
                text,
                "# HELP frith_a2a_{name} {help}\n# TYPE frith_a2a_{name} {kind}\nfrith_a2a_{name} {value}"
            );
        }
        let handshakes = "Messages of handshakes from other agents";
        self.handshakes
            .render("handshake_messages", handshakes, &mut text);
        let requests = "Messages of sessions from other agents";
        self.requests.render("messages", requests, &mut text);
        self.calls
            .render("calls", "Calls to other agents", &mut text);
        text
    }
}

/// Adds to a count.
pub(crate) fn add(count: &AtomicU64, more: u64) {
    count.fetch_add(more, Ordering::Relaxed);
}

fn read(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_can_be_read() {
        let metrics = Metrics::default();
        let millis = Duration::from_millis;
        metrics.handshakes.ended(None, millis(2));
        let replayed = ErrorCode::ReplayDetected;
        metrics.requests.ended(Some(&replayed), millis(1));
        metrics.requests.ended(Some(&replayed), millis(2000));
        let strange = ErrorCode::Other("evil\"} 1".to_owned());
        metrics.calls.ended(Some(&strange), millis(400_000));
        let text = metrics.render(Present {
            sessions: 3,
            half_open: 1,
        });
        for line in [
            "frith_a2a_sessions 3",
            "frith_a2a_half_open 1",
            r#"frith_a2a_handshake_messages_total{outcome="ok"} 1"#,
            r#"frith_a2a_messages_total{outcome="ok"} 0"#,
            r#"frith_a2a_messages_total{outcome="REPLAY_DETECTED"} 2"#,
            r#"frith_a2a_messages_seconds_bucket{le="0.001"} 1"#,
            r#"frith_a2a_messages_seconds_bucket{le="5"} 2"#,
            "frith_a2a_messages_seconds_sum 2.001",
            r#"frith_a2a_calls_total{outcome="other"} 1"#,
            r#"frith_a2a_calls_seconds_bucket{le="300"} 0"#,
            r#"frith_a2a_calls_seconds_bucket{le="+Inf"} 1"#,
        ] {
            assert!(text.lines().any(|known| known == line), "{line} in\n{text}");
        }
        // What a peer says goes into no label.
        assert!(!text.contains("evil"), "{text}");
    }
}
