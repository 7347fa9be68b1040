//! Entries, between the wire and the store.

use std::borrow::Cow;
use std::time::Duration;

use a2e_wire::lenient::{MemoryKey, Ttl};
use a2e_wire::messages::memory::{MemoryEntry, MemoryTier};
use a2e_wire::{OWN_VALUES, Raw, Real, Timestamp};
use canonical::Value;
use store::{Entry, NewEntry, Text, Tier, UnixMillis};

/// How long an entry of a session is kept at most, in case nobody hears of the session's end.
const WORKING: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The tier that is meant; a name that is none means episodic.
pub(super) fn tier(tier: &MemoryTier<'_>) -> Tier {
    match tier {
        MemoryTier::Working => Tier::Working,
        MemoryTier::Semantic => Tier::Semantic,
        MemoryTier::Episodic | MemoryTier::Other(_) => Tier::Episodic,
    }
}

/// A key in the one form in which keys are compared.
pub(super) fn name(key: &MemoryKey<'_>) -> Result<String, String> {
    let value = Value::parse(key.raw().as_str().as_bytes())
        .map_err(|fault| format!("a key has no canonical form: {fault}"))?;
    String::from_utf8(value.to_canonical()).map_err(|fault| fault.to_string())
}

pub(super) fn to_store(wire: &MemoryEntry<'_>, now: UnixMillis) -> Result<NewEntry, String> {
    let key = name(&wire.key)?;
    let tier = tier(&wire.tier);
    let expires = match u64::try_from(wire.ttl.0) {
        Ok(seconds @ 1..) => now.plus(Duration::from_secs(seconds)),
        _ => UnixMillis::NEVER,
    };
    let expires = match tier {
        Tier::Working => expires.min(now.plus(WORKING)),
        Tier::Episodic | Tier::Semantic => expires,
    };
    let tags: Vec<String> = wire.tags.iter().map(|tag| (**tag).to_owned()).collect();
    let mut text = Text::default();
    match wire.key.text() {
        Some(words) => push(&words, &mut text.title),
        None => push_words(
            &wire.key.raw().deserialize().unwrap_or_default(),
            &mut text.title,
        ),
    }
    for tag in &tags {
        push(tag, &mut text.title);
    }
    push_words(
        &wire.content.deserialize().unwrap_or_default(),
        &mut text.body,
    );
    let mut content = Vec::new();
    wire.content
        .checked()
        .push_to(&mut content, a2e_wire::Charset::Utf8);
    Ok(NewEntry {
        tier,
        key,
        content: String::from_utf8(content).map_err(|fault| fault.to_string())?,
        text,
        tags,
        source: wire.source.to_string(),
        weight: wire.score.get(),
        created: millis(wire.created_at),
        expires,
    })
}

/// An entry that was found, with how well it fits.
pub(super) fn to_wire(entry: Entry, score: f64) -> Result<MemoryEntry<'static>, String> {
    let key = raw(&entry.key)?;
    let key = MemoryKey::new(key).ok_or("a stored key is neither an object nor a string")?;
    let lives = entry.expires.0.saturating_sub(entry.updated.0);
    let tags = entry.tags.into_iter().map(Cow::Owned);
    Ok(MemoryEntry {
        tags: tags.collect(),
        source: entry.source.into(),
        score: Real::new(score).unwrap_or_default(),
        ttl: match entry.expires {
            UnixMillis::NEVER => Ttl(0),
            _ => Ttl(lives.max(0).saturating_add(999) / 1000),
        },
        ..MemoryEntry::new(
            key,
            raw(&entry.content)?,
            match entry.tier {
                Tier::Working => MemoryTier::Working,
                Tier::Episodic => MemoryTier::Episodic,
                Tier::Semantic => MemoryTier::Semantic,
            },
            timestamp(entry.created),
            timestamp(entry.updated),
        )
    })
}

/// An entry as it was kept.
pub(super) fn copied(entry: Entry) -> Result<MemoryEntry<'static>, String> {
    let weight = entry.weight;
    let mut wire = to_wire(entry, weight)?;
    wire.weight = Real::new(weight);
    Ok(wire)
}

fn raw(text: &str) -> Result<Raw<'static>, String> {
    let raw = Raw::parse(text, OWN_VALUES);
    raw.map(Raw::into_owned)
        .map_err(|fault| format!("a stored entry is damaged: {fault}"))
}

fn timestamp(time: UnixMillis) -> Timestamp {
    Timestamp::from_unix_seconds(time.0 as f64 / 1000.0).unwrap_or_default()
}

fn millis(time: Timestamp) -> UnixMillis {
    // A cast from f64 saturates.
    UnixMillis((time.unix_seconds() * 1000.0) as i64)
}

/// All that a value says, names of members too.
pub(super) fn push_words(value: &serde_json::Value, out: &mut String) {
    use serde_json::Value;
    match value {
        Value::Null | Value::Bool(_) => {}
        Value::Number(number) => push(&number.to_string(), out),
        Value::String(text) => push(text, out),
        Value::Array(list) => list.iter().for_each(|value| push_words(value, out)),
        Value::Object(members) => {
            for (name, value) in members {
                push(name, out);
                push_words(value, out);
            }
        }
    }
}

fn push(text: &str, out: &mut String) {
    if !out.is_empty() {
        out.push('\n');
    }
    out.push_str(text);
}
