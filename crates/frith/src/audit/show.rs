//! Records and statistics for people.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::Result;
use audit::{Entry, Stats, printable};
use serde_json::json;

/// One record in one line.
pub(super) fn entry(entry: &Entry) -> String {
    let mut words = vec![
        entry.timestamp.to_string(),
        format!("{:>6}", entry.seq),
        format!("{:16}", entry.event_type),
    ];
    if entry.body.is_none() {
        words.push("(erased)".to_owned());
        return words.join(" ");
    }
    let text = |name: &str| entry.text(name).map(str::to_owned);
    let who = text("agent").or_else(|| text("remote_agent_did"));
    words.extend(who.or_else(|| entry.remote_ip.clone()));
    let intent = text("intent_goal").map(|goal| match entry.text("intent_domain") {
        Some(domain) => format!("{domain}.{goal}"),
        None => goal,
    });
    words.extend(text("message_type"));
    words.extend(intent.or_else(|| text("name")));
    words.extend(text("result"));
    for (name, label) in [
        ("response_status", ""),
        ("rule", "rule="),
        ("reason", ""),
        ("kind", ""),
        ("previous_log_id", "after="),
        ("purged_log_id", "of="),
    ] {
        words.extend(entry.text(name).map(|text| format!("{label}{text}")));
    }
    for (name, label) in [
        ("count", "count="),
        ("refused", "refused="),
        ("purged_through", "through="),
    ] {
        words.extend(entry.integer(name).map(|number| format!("{label}{number}")));
    }
    words.extend(
        entry
            .integer("processing_time_ms")
            .map(|millis| format!("{millis} ms")),
    );
    printable(&words.join(" ")).into_owned()
}

pub(super) fn stats(stats: &Stats, as_json: bool) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let time = |time: Option<audit::UnixMillis>| time.map(|time| time.to_string());
    let (first, last) = (time(stats.first), time(stats.last));
    if as_json {
        let stats = json!({
            "segments": stats.segments, "bytes": stats.bytes, "records": stats.records,
            "unreadable": stats.unreadable, "erased": stats.erased,
            "remote_ips": stats.remote_ips, "logs": stats.logs, "checkpoints": stats.checkpoints,
            "first": first, "last": last, "events": stats.events, "results": stats.results,
            "statuses": stats.statuses,
        });
        writeln!(out, "{stats}")?;
        return Ok(());
    }
    writeln!(
        out,
        "{} records in {} segments ({:.1} MB), {} checkpoints",
        stats.records,
        stats.segments,
        stats.bytes as f64 / 1e6,
        stats.checkpoints
    )?;
    if let (Some(first), Some(last)) = (first, last) {
        writeln!(out, "  from {first} to {last}")?;
    }
    writeln!(
        out,
        "  {} bodies erased, {} addresses kept",
        stats.erased, stats.remote_ips
    )?;
    if stats.logs > 1 {
        writeln!(
            out,
            "  {} logs: something was missing in between",
            stats.logs
        )?;
    }
    if stats.unreadable > 0 {
        writeln!(out, "  {} lines are no records", stats.unreadable)?;
    }
    for (title, words) in [
        ("events", &stats.events),
        ("results", &stats.results),
        ("statuses", &stats.statuses),
    ] {
        counts(&mut out, title, words)?;
    }
    Ok(())
}

/// The most frequent first.
fn counts(out: &mut impl Write, title: &str, words: &BTreeMap<String, u64>) -> Result<()> {
    let mut words: Vec<_> = words.iter().collect();
    words.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    if !words.is_empty() {
        writeln!(out, "{title}")?;
    }
    for (word, count) in words {
        writeln!(out, "  {count:>10}  {}", printable(word))?;
    }
    Ok(())
}
