//! Entries as lines of a file: out and in.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use a2e_wire::lenient::Ttl;
use a2e_wire::messages::memory::{MemoryEntry, MemoryRetrieveRequest, MemoryStoreRequest};
use a2e_wire::wire::ToStatic;
use a2e_wire::{Object, Timestamp};
use anyhow::{Context, Result};
use serde_json::json;

use super::{Opened, Tier};
use crate::Outcome;
use crate::agent::print;
use crate::progress::Counted;
use crate::screen::plain;

/// Entries and bytes that are sent at once.
const BATCH: usize = 500;
const BATCH_BYTES: usize = 1 << 20;

/// Problems that are named; the rest are counted.
const MAX_NAMED: usize = 20;

pub(super) async fn export(
    opened: &Opened<'_>,
    file: Option<&Path>,
    tiers: &[Tier],
) -> Result<Outcome> {
    let mut out: Box<dyn Write> = match file.filter(|file| *file != Path::new("-")) {
        Some(file) => {
            // What was copied before is not lost by a slip.
            let made = File::create_new(file);
            let made = made.with_context(|| format!("cannot write {}", file.display()))?;
            Box::new(BufWriter::new(made))
        }
        None => Box::new(std::io::stdout().lock()),
    };
    let mut progress = Counted::new("entry", "entries");
    let counts = tiers
        .iter()
        .filter_map(|tier| opened.tiers[tier.to_wire().as_str()]["entries"].as_u64());
    let total = usize::try_from(counts.sum::<u64>()).ok();
    for tier in tiers {
        let mut after = 0;
        loop {
            let request = MemoryRetrieveRequest {
                memory_id: opened.id.clone(),
                tier: tier.to_wire(),
                limit: 1000,
                after: Some(after),
                ..MemoryRetrieveRequest::new()
            };
            let page = opened.client.request(request).await;
            let page = page.context("cannot read the memory")?;
            for entry in &page.entries {
                let line = Object::from_record(entry)?;
                writeln!(out, "{}", line.raw().as_str())?;
            }
            progress.add(page.entries.len(), total);
            match page.next {
                Some(next) => after = next,
                None => break,
            }
        }
    }
    out.flush()?;
    progress.end("wrote");
    Ok(Outcome::Good)
}

pub(super) async fn import(
    opened: &Opened<'_>,
    file: &Path,
    tier: Option<Tier>,
    as_json: bool,
) -> Result<Outcome> {
    let text = || format!("cannot read {}", file.display());
    let (lines, bytes): (Box<dyn BufRead>, Option<u64>) = match file == Path::new("-") {
        true => (Box::new(std::io::stdin().lock()), None),
        false => {
            let file = File::open(file).with_context(text)?;
            let bytes = file.metadata().ok().map(|metadata| metadata.len());
            (Box::new(BufReader::new(file)), bytes)
        }
    };
    let mut import = Import {
        opened,
        tier,
        now: now().unix_seconds(),
        batch: Vec::new(),
        size: 0,
        problems: 0,
        sent: Sent::default(),
        progress: Counted::new("entry", "entries"),
        bytes: bytes.and_then(|bytes| usize::try_from(bytes).ok()),
    };
    for (number, line) in (1_usize..).zip(lines.lines()) {
        let line = line.with_context(text)?;
        if !line.trim().is_empty() {
            import.take(number, &line).await?;
        }
    }
    import.send().await?;
    import.progress.end("remembered");
    if as_json {
        print(&json!({"stored": import.sent.entries, "refused": import.problems}))?;
    }
    Ok(match import.problems {
        0 => Outcome::Good,
        problems => {
            let entries = if problems == 1 { "entry" } else { "entries" };
            tell!("{problems} {entries} could not be remembered");
            Outcome::Bad
        }
    })
}

struct Import<'o, 'c> {
    opened: &'o Opened<'c>,
    tier: Option<Tier>,
    now: f64,
    batch: Vec<MemoryEntry<'static>>,
    size: usize,
    problems: usize,
    sent: Sent,
    progress: Counted,
    /// Of the file, if that is known.
    bytes: Option<usize>,
}

/// How far an import is.
#[derive(Debug, Clone, Copy, Default)]
struct Sent {
    entries: usize,
    bytes: usize,
}

impl Sent {
    /// How many entries there will be, by how much of a file they have taken so far.
    fn in_all(self, bytes: usize) -> usize {
        let guess = self.entries.saturating_mul(bytes) / self.bytes.max(1);
        guess.max(self.entries)
    }
}

impl Import<'_, '_> {
    async fn take(&mut self, number: usize, line: &str) -> Result<()> {
        let entry = match read(line, self.tier, self.now) {
            Ok(Some(entry)) => entry,
            // Its time was up before it came here.
            Ok(None) => return Ok(()),
            Err(why) => {
                self.problem(&format!("line {number}: {why}"));
                return Ok(());
            }
        };
        if self.batch.len() >= BATCH || self.size + line.len() > BATCH_BYTES {
            self.send().await?;
        }
        // With the end of the line.
        self.size += line.len() + 1;
        self.batch.push(entry);
        Ok(())
    }

    async fn send(&mut self) -> Result<()> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let request = MemoryStoreRequest {
            memory_id: self.opened.id.clone(),
            entries: std::mem::take(&mut self.batch),
        };
        let answer = self.opened.client.request(request).await;
        let answer = answer.context("it cannot be remembered")?;
        for why in &answer.errors {
            self.problem(why);
        }
        let done = answer.stored.len();
        self.sent.entries += done;
        self.sent.bytes += std::mem::take(&mut self.size);
        let guess = self.bytes.map(|bytes| self.sent.in_all(bytes));
        self.progress.add(done, guess);
        Ok(())
    }

    fn problem(&mut self, why: &str) {
        self.problems += 1;
        if self.problems <= MAX_NAMED {
            self.progress.line(&plain(why));
        }
    }
}

/// An entry of a line; none if its time is up.
fn read(line: &str, tier: Option<Tier>, now: f64) -> Result<Option<MemoryEntry<'static>>, String> {
    let mut value: serde_json::Value =
        serde_json::from_str(line).map_err(|error| error.to_string())?;
    if let Some(members) = value.as_object_mut() {
        let tier = tier.map(|tier| tier.to_wire().as_str().to_owned());
        match tier {
            Some(tier) => drop(members.insert("tier".into(), tier.into())),
            None => drop(members.entry("tier").or_insert_with(|| "episodic".into())),
        }
        // The weight with which it was kept.
        if let Some(weight) = members.remove("weight") {
            members.insert("score".into(), weight);
        }
    }
    let object = value.to_string();
    let object = Object::parse(&object).map_err(|error| error.to_string())?;
    let ts = Timestamp::from_unix_seconds(now).unwrap_or_default();
    let entry: MemoryEntry<'_> = object.read(ts).map_err(|error| error.to_string())?;
    let mut entry = entry.to_static();
    if entry.ttl.0 > 0 {
        let left = entry.updated_at.unix_seconds() + entry.ttl.0 as f64 - now;
        if left <= 0.0 {
            return Ok(None);
        }
        entry.ttl = Ttl(left.ceil() as i64);
    }
    Ok(Some(entry))
}

pub(super) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    Timestamp::from_unix_seconds(since.unwrap_or_default().as_secs_f64()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_needs_no_more_than_a_key_and_content() {
        let entry = read(r#"{"key": "a", "content": [1]}"#, None, 5.0)
            .unwrap()
            .unwrap();
        assert_eq!(entry.tier.as_str(), "episodic");
        assert_eq!((entry.created_at.unix_seconds(), entry.ttl), (5.0, Ttl(0)));
        let tier = Some(Tier::Semantic);
        let entry = read(r#"{"key": {}, "content": 1, "tier": "working"}"#, tier, 5.0);
        assert_eq!(entry.unwrap().unwrap().tier.as_str(), "semantic");
        assert!(read(r#"{"key": 1, "content": 1}"#, None, 5.0).is_err());
        assert!(read("[]", None, 5.0).is_err());
    }

    #[test]
    fn how_many_there_will_be_follows_from_the_file() {
        let sent = |entries, bytes| Sent { entries, bytes };
        assert_eq!(sent(500, 5_000).in_all(20_000), 2_000);
        assert_eq!(sent(500, 5_000).in_all(5_000), 500);
        // Never fewer than there are, and something of nothing.
        assert_eq!(sent(500, 5_000).in_all(10), 500);
        assert_eq!(sent(0, 0).in_all(10), 0);
    }

    #[test]
    fn what_is_left_of_its_time_counts() {
        let line = r#"{"key": "a", "content": 1, "ttl": 60, "updated_at": 100, "weight": 0.5}"#;
        let entry = read(line, None, 130.5).unwrap().unwrap();
        assert_eq!(entry.ttl, Ttl(30));
        assert_eq!(entry.score.get(), 0.5);
        assert!(read(line, None, 160.0).unwrap().is_none());
    }
}
