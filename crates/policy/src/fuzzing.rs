//! What the fuzz targets run. Not part of the interface.
#![expect(
    clippy::panic,
    reason = "a fuzz target reports a finding by panicking; no other code calls this"
)]

use std::time::Duration;

use canonical::Value;

use crate::{
    Agent, Buckets, Call, Effect, EffectivePolicy, Glob, IntentName, Layer, Policy, Rate, Rules,
    RulesConfig, limits, tightens,
};

const CAPABILITIES: [(&str, Effect); 2] =
    [("tools", Effect::Allow), ("proc", Effect::RequireApproval)];

/// Any bytes as a policy, as rules with the arguments of a call, as names and patterns, and as a
/// sequence of requests to buckets: two texts, parted by a zero byte.
pub fn policy(bytes: &[u8]) {
    let (first, second) = match bytes.iter().position(|byte| *byte == 0) {
        Some(at) => bytes.split_at(at),
        None => (bytes, bytes),
    };
    let second = second.strip_prefix(&[0]).unwrap_or(second);
    policies(first, second);
    rules(first, second);
    names(first, second);
    buckets(bytes);
}

/// A policy reads back as the same, and tightening by another is never looser.
fn policies(first: &[u8], second: &[u8]) {
    let (Some(own), Some(asked)) = (stated(first), stated(second)) else {
        return;
    };
    let Ok(own) = own.complete() else {
        return;
    };
    let again = Policy::read(&own.to_tree(), limits::PAYLOAD_CEILING).and_then(Policy::complete);
    assert_eq!(again.as_ref(), Ok(&own));
    let Ok(merged) = own.tightened_by(&asked) else {
        return;
    };
    assert!(merged.rate().is_within(own.rate()));
    assert!(merged.data_retention() <= own.data_retention());
    for pattern in own.allowed_intents().chain(merged.allowed_intents()) {
        let Ok(name) = IntentName::parse(pattern.as_str().trim_end_matches(".*")) else {
            continue;
        };
        let allows = |policy: &EffectivePolicy| policy.check_intent(&name, None).is_ok();
        assert!(!allows(&merged) || allows(&own), "{name}");
    }
}

fn stated(bytes: &[u8]) -> Option<Policy> {
    let value = Value::parse(bytes).ok()?;
    Policy::read(value.as_object()?, limits::PAYLOAD_CEILING).ok()
}

/// Any rules decide about any call, and tighten themselves.
fn rules(first: &[u8], second: &[u8]) {
    let Some(rules) = compiled(first) else {
        return;
    };
    let Ok(tree) = Value::parse(second) else {
        return;
    };
    for (capability, name) in [("tools", "write"), ("proc", ""), ("other", "a.b")] {
        let agent = Agent {
            id: "default",
            did: Some("did:key:z6Mk"),
            trust: None,
        };
        let decision = rules.decide(&Call {
            agent,
            capability,
            name,
            arguments: &tree,
        });
        assert!(!decision.rule.is_empty());
    }
    assert_eq!(tightens(&rules, &rules), Ok(()));
    if let Some(other) = compiled(second) {
        let _ = tightens(&rules, &other);
    }
}

fn compiled(bytes: &[u8]) -> Option<Rules> {
    let value = Value::parse(bytes).ok()?;
    let config: RulesConfig = value.deserialize_into().ok()?;
    let layer = Layer {
        place: "policy",
        config: &config,
    };
    Rules::compile(&[layer], &CAPABILITIES).ok()
}

/// A name is canonical, and patterns match as the plain reading says.
fn names(first: &[u8], second: &[u8]) {
    let (Ok(first), Ok(second)) = (str::from_utf8(first), str::from_utf8(second)) else {
        return;
    };
    if let Ok(name) = IntentName::of(first, second) {
        assert_eq!(IntentName::parse(name.as_str()).as_ref(), Ok(&name));
    }
    if let Ok(glob) = Glob::parse(first) {
        let cut: String = second.chars().take(24).collect();
        assert_eq!(glob.matches(&cut), naive(first, &cut), "{first} and {cut}");
        assert!(glob.covers(&glob) && !(glob.is_disjoint(&glob)));
    }
}

/// By a table: row by row, which beginnings of the text the pattern so far fits.
fn naive(pattern: &str, text: &str) -> bool {
    let text: Vec<char> = text.chars().collect();
    let mut fits = vec![true];
    fits.resize(text.len().saturating_add(1), false);
    for wanted in pattern.chars() {
        let mut next = vec![wanted == '*' && fits.first() == Some(&true)];
        for (at, found) in text.iter().enumerate() {
            let before = fits.get(at).copied().unwrap_or_default();
            let same = fits.get(at.saturating_add(1)).copied().unwrap_or_default();
            let last = next.last().copied().unwrap_or_default();
            next.push(match wanted {
                '*' => same || last,
                _ => before && wanted == *found,
            });
        }
        fits = next;
    }
    fits.last() == Some(&true)
}

/// Each byte a request: no key gets more than its bucket and its rate give.
fn buckets(bytes: &[u8]) {
    let mut buckets = Buckets::new(3);
    let (mut now, mut granted) = (Duration::ZERO, [0_u64; 4]);
    let rates = [(1, 1), (5, 3), (100, 60), (2, 1000)].map(|(limit, period)| {
        Rate::new(limit, period).unwrap_or_else(|| panic!("{limit} in {period} is a rate"))
    });
    for byte in bytes {
        now = now.saturating_add(Duration::from_millis(
            u64::from(byte >> 4).saturating_mul(70),
        ));
        let key = usize::from(byte & 3);
        let (Some(rate), Some(count)) = (rates.get(key), granted.get_mut(key)) else {
            return;
        };
        if buckets.take(now, [(&key, *rate)]).is_ok() {
            *count = count.saturating_add(1);
        }
        let most = f64::from(rate.limit()) * (1.0 + now.as_secs_f64() / f64::from(rate.period()));
        assert!(
            *count as f64 <= most + 1e-6,
            "{count} of {rate:?} after {now:?}"
        );
        assert!(buckets.len() <= 3);
    }
}
