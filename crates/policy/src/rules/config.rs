//! The form in which rules are written: the section `policy`, and `agents[].policy`.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use canonical::{Digest, Value};
use serde::de::value::{SeqAccessDeserializer, StrDeserializer};
use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};

use crate::{Effect, TrustLevel};

/// The section `policy`. Unknown keys are errors.
///
/// ```
/// # let text = br#"
/// {
///     "default": "allow",
///     "defaults": {"proc": "require_approval"},
///     "rules": [
///         {"id": "no-keys", "capability": "tools", "when": "contains(path, '.ssh')", "action": "deny"},
///         {"capability": "tools", "name": ["write", "edit*"], "action": "require_approval"}
///     ],
///     "repeat": {"calls": 5, "window": 60, "action": "require_approval"},
///     "rate_limit": 600, "rate_period": 60
/// }
/// # "#;
/// # let tree = canonical::Value::parse(text)?;
/// # let config: policy::RulesConfig = tree.deserialize_into()?;
/// # assert_eq!(config.rules.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RulesConfig {
    /// What happens to a call that no rule matches.
    #[serde(default, deserialize_with = "some")]
    pub default: Option<Effect>,
    /// The same for single capabilities.
    #[serde(default)]
    pub defaults: BTreeMap<String, Effect>,
    /// The rules; the first that matches decides.
    #[serde(default)]
    pub rules: Vec<RuleConfig>,
    /// When the same call comes too often.
    #[serde(default, deserialize_with = "some")]
    pub repeat: Option<RepeatConfig>,
    /// Requests in `rate_period` seconds; both or neither.
    #[serde(default, deserialize_with = "some")]
    pub rate_limit: Option<u32>,
    /// Seconds.
    #[serde(default, deserialize_with = "some")]
    pub rate_period: Option<u32>,
}

/// One rule. What it does not name matches anything; what takes a list takes a single value too.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct RuleConfig {
    /// What decisions call it; else they say its place.
    #[serde(
        default,
        deserialize_with = "some",
        skip_serializing_if = "Option::is_none"
    )]
    pub id: Option<String>,
    /// Agents by id; patterns.
    #[serde(
        default,
        deserialize_with = "one_or_many",
        skip_serializing_if = "Option::is_none"
    )]
    pub agent: Option<Vec<String>>,
    /// Agents by DID; patterns for the canonical form. An agent without a DID never matches.
    #[serde(
        default,
        deserialize_with = "one_or_many",
        skip_serializing_if = "Option::is_none"
    )]
    pub did: Option<Vec<String>>,
    /// Trust levels. An agent without one, such as a local one, never matches.
    #[serde(
        default,
        deserialize_with = "one_or_many",
        skip_serializing_if = "Option::is_none"
    )]
    pub trust: Option<Vec<TrustLevel>>,
    /// Capabilities, by name.
    #[serde(
        default,
        deserialize_with = "one_or_many",
        skip_serializing_if = "Option::is_none"
    )]
    pub capability: Option<Vec<String>>,
    /// Names of tools, intents, messages; patterns.
    #[serde(
        default,
        deserialize_with = "one_or_many",
        skip_serializing_if = "Option::is_none"
    )]
    pub name: Option<Vec<String>>,
    /// A JMESPath expression on the arguments. `true`: the rule matches; `false`: it does not;
    /// anything else, and any error: the call is denied.
    #[serde(
        default,
        deserialize_with = "some",
        skip_serializing_if = "Option::is_none"
    )]
    pub when: Option<String>,
    /// What happens to a call that matches.
    pub action: Effect,
    /// Why, for people.
    #[serde(
        default,
        deserialize_with = "some",
        skip_serializing_if = "Option::is_none"
    )]
    pub reason: Option<String>,
}

/// When the same call comes too often.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RepeatConfig {
    /// This one of the same calls within the window, 2 to 256, is stopped.
    pub calls: u32,
    /// Seconds, up to a day.
    pub window: u32,
    /// `require_approval` or `deny`.
    pub action: Effect,
}

impl RuleConfig {
    /// The digest of the rule as it is written, its place aside: SHA-256 of its canonical JSON.
    #[must_use]
    pub fn hash(&self) -> Digest {
        let rule = Value::from_serialize(self).unwrap_or(Value::Null);
        Digest::of(&rule.to_canonical())
    }
}

/// A key that is there has a value: `when:` with nothing behind it must not be a rule without a
/// condition.
fn some<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

fn one_or_many<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Option<Vec<T>>, D::Error> {
    from.deserialize_any(OneOrMany(PhantomData)).map(Some)
}

struct OneOrMany<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for OneOrMany<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or a list of strings")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Vec<T>, E> {
        Ok(vec![T::deserialize(StrDeserializer::new(text))?])
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Vec<T>, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list))
    }
}
