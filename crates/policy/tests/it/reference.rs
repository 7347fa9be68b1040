//! What rules mean, written down as plainly as possible, to compare with.

use policy::{Agent, Effect, RuleConfig, RulesConfig, TrustLevel};
use serde_json::{Map, Value as Json};

/// A call, owned.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    pub(crate) id: String,
    pub(crate) did: Option<String>,
    pub(crate) trust: Option<TrustLevel>,
    pub(crate) capability: String,
    pub(crate) name: String,
    pub(crate) arguments: Json,
}

impl Sample {
    pub(crate) fn call(&self) -> policy::Call<'_> {
        policy::Call {
            agent: Agent {
                id: &self.id,
                did: self.did.as_deref(),
                trust: self.trust,
            },
            capability: &self.capability,
            name: &self.name,
            arguments: &self.arguments,
        }
    }
}

/// Conditions, each with what it means.
pub(crate) const CONDITIONS: [&str; 4] = ["n == `1`", "n > `1`", "starts_with(s, 'a')", "b"];

/// What becomes of a call, and which rule says so.
pub(crate) fn decide(
    config: &RulesConfig,
    built_in: &[(&str, Effect)],
    sample: &Sample,
) -> (Effect, String) {
    let is_known = built_in.iter().any(|(name, _)| *name == sample.capability);
    if !is_known && config.default.is_none() {
        return (Effect::Deny, "built-in".into());
    }
    for (index, rule) in config.rules.iter().enumerate() {
        let label = rule
            .id
            .clone()
            .unwrap_or_else(|| format!("policy.rules[{index}]"));
        if !matches(rule, sample) {
            continue;
        }
        let met = match &rule.when {
            None => Some(true),
            Some(condition) => holds(condition, &sample.arguments),
        };
        match met {
            Some(true) => return (rule.action, label),
            Some(false) => {}
            None => return (Effect::Deny, label),
        }
    }
    let capability = &sample.capability;
    if let Some(effect) = config.defaults.get(capability) {
        return (*effect, format!("policy.defaults.{capability}"));
    }
    if let Some(effect) = config.default {
        return (effect, "policy.default".into());
    }
    let known = built_in.iter().find(|(name, _)| name == capability);
    let effect = known.map_or(Effect::Deny, |(_, effect)| *effect);
    (effect, "built-in".into())
}

fn matches(rule: &RuleConfig, sample: &Sample) -> bool {
    let any = |patterns: &Option<Vec<String>>, text: Option<&str>| match (patterns, text) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(patterns), Some(text)) => patterns.iter().any(|it| glob(it, text)),
    };
    let capability = rule.capability.as_ref();
    any(&rule.agent, Some(&sample.id))
        && any(&rule.did, sample.did.as_deref())
        && any(&rule.name, Some(&sample.name))
        && capability.is_none_or(|names| names.contains(&sample.capability))
        && rule
            .trust
            .as_ref()
            .is_none_or(|levels| sample.trust.is_some_and(|level| levels.contains(&level)))
}

/// `None` is an error, or neither yes nor no.
fn holds(condition: &str, arguments: &Json) -> Option<bool> {
    let empty = Map::new();
    let members = arguments.as_object().unwrap_or(&empty);
    match condition {
        "n == `1`" => Some(members.get("n") == Some(&Json::from(1))),
        "n > `1`" => Some(members.get("n")?.as_i64()? > 1),
        "starts_with(s, 'a')" => Some(members.get("s")?.as_str()?.starts_with('a')),
        "b" => members.get("b")?.as_bool(),
        _ => panic!("{condition}"),
    }
}

/// By trying everything.
pub(crate) fn glob(pattern: &str, text: &str) -> bool {
    let Some(first) = pattern.chars().next() else {
        return text.is_empty();
    };
    let rest = &pattern[first.len_utf8()..];
    if first == '*' {
        return text
            .char_indices()
            .map(|(at, _)| at)
            .chain([text.len()])
            .any(|at| glob(rest, &text[at..]));
    }
    text.strip_prefix(first)
        .is_some_and(|text| glob(rest, text))
}
