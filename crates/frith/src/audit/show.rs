//! Records and statistics for people.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::Result;
use audit::{Entry, Stats, printable};
use serde_json::json;

use crate::screen::count;

/// One record in one line. Texts that somebody chose cannot look like other columns.
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
    let who = entry
        .text("agent")
        .or_else(|| entry.text("remote_agent_did"));
    words.extend(who.or(entry.remote_ip.as_deref()).map(word));
    let intent = entry
        .text("intent_goal")
        .map(|goal| match entry.text("intent_domain") {
            Some(domain) => word(&format!("{domain}.{goal}")),
            None => word(goal),
        });
    let message = entry.text("message_type");
    words.extend(message.map(word));
    // What has no name of its own is called as its message is.
    let name = entry.text("name").filter(|name| Some(*name) != message);
    words.extend(intent.or_else(|| name.map(word)));
    words.extend(entry.text("result").map(word));
    // What the operator asked for is JSON already, which needs no other quotation marks.
    let reason = entry.text("reason");
    let asked = reason.filter(|text| entry.event_type == "operator" && is_object(text));
    words.extend(asked.map(ToOwned::to_owned));
    for (name, label) in [
        ("response_status", ""),
        ("rule", "rule="),
        ("approval_id", "approval="),
        ("reason", ""),
        ("kind", ""),
        ("previous_log_id", "after="),
        ("purged_log_id", "of="),
        ("purged_before", "before="),
        ("purged_from", "from="),
        ("purged_to", "to="),
    ] {
        let is_said = name == "reason" && asked.is_some();
        let text = entry.text(name).filter(|_| !is_said).map(word);
        words.extend(text.map(|text| format!("{label}{text}")));
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

fn is_object(text: &str) -> bool {
    serde_json::from_str::<serde_json::Map<_, serde_json::Value>>(text).is_ok()
}

/// A text as one word: in quotation marks unless it is plainly one.
fn word(text: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_graphic() && !matches!(letter, '"' | '\\' | '=');
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => json!(printable(text)).to_string(),
    }
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
        "{} in {} ({:.1} MB), {}",
        count(stats.records, "record", "records"),
        count(stats.segments, "segment", "segments"),
        stats.bytes as f64 / 1e6,
        count(stats.checkpoints, "checkpoint", "checkpoints")
    )?;
    if let (Some(first), Some(last)) = (first, last) {
        writeln!(out, "  from {first} to {last}")?;
    }
    writeln!(
        out,
        "  {} erased, {} kept",
        count(stats.erased, "body", "bodies"),
        count(stats.remote_ips, "address", "addresses")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_one_word() {
        for plain in [
            "echo",
            "tool/call/req",
            "did:web:a.example%3A8443",
            "127.0.0.1",
            "a…b",
        ] {
            let is_quoted = word(plain).starts_with('"');
            assert_eq!(is_quoted, !plain.is_ascii(), "{plain}");
        }
        for (text, shown) in [
            ("echo approved success", r#""echo approved success""#),
            ("rule=built-in", r#""rule=built-in""#),
            (r#"a" b"#, r#""a\" b""#),
            ("", r#""""#),
            ("a\u{a0}b", "\"a\u{a0}b\""),
            ("e\u{200b}cho\n", "\"e\u{fffd}cho\u{fffd}\""),
        ] {
            assert_eq!(word(text), shown);
        }
    }
}
