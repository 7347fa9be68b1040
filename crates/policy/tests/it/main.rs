//! Policies, names of intents, rates and rules against the profile, the threat cases, and naive
//! references.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail as tests do"
)]

mod acceptance;
mod breaker;
mod buckets;
mod conditions;
mod expressions;
mod intents;
mod merging;
mod partial;
mod policies;
mod properties_of_policies;
mod properties_of_rates;
mod properties_of_rules;
mod reference;
mod rules;
mod tightening;

use std::time::Duration;

use canonical::{Object, Value};
use policy::{EffectivePolicy, Error, IntentName, Policy, Rate, Rules, RulesConfig, limits};

/// A tree of JSON.
fn tree(json: &serde_json::Value) -> Object<'static> {
    let value = Value::from_serialize(json).unwrap();
    value.as_object().cloned().unwrap()
}

/// The same as JSON, where the order of members does not count.
fn json(tree: &Object<'_>) -> serde_json::Value {
    serde_json::to_value(Value::Object(tree.clone())).unwrap()
}

fn read(json: &serde_json::Value) -> Result<Policy, Error> {
    Policy::read(&tree(json), limits::PAYLOAD_CEILING)
}

fn policy(json: &serde_json::Value) -> Policy {
    read(json).unwrap()
}

/// The policy of a server that states this.
fn server(json: &serde_json::Value) -> EffectivePolicy {
    policy(json).complete().unwrap()
}

fn name(text: &str) -> IntentName {
    IntentName::parse(text).unwrap()
}

fn rate(limit: u32, period: u32) -> Rate {
    Rate::new(limit, period).unwrap()
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn config(json: &serde_json::Value) -> RulesConfig {
    let value = Value::from_serialize(json).unwrap();
    value.deserialize_into().unwrap()
}

/// The capabilities of the tests; what happens to their calls by default.
const CAPABILITIES: [(&str, policy::Effect); 3] = [
    ("tools", policy::Effect::Allow),
    ("proc", policy::Effect::RequireApproval),
    ("memory", policy::Effect::Deny),
];

fn rules(json: &serde_json::Value) -> Rules {
    let config = config(json);
    let layer = policy::Layer {
        place: "policy",
        config: &config,
    };
    Rules::compile(&[layer], &CAPABILITIES).unwrap()
}

/// The places of all that is wrong with a section.
fn places(json: &serde_json::Value) -> Vec<String> {
    let config = config(json);
    let layer = policy::Layer {
        place: "policy",
        config: &config,
    };
    let errors = Rules::compile(&[layer], &CAPABILITIES).unwrap_err();
    errors.into_iter().map(|error| error.place).collect()
}

#[test]
fn corpus_of_policy() {
    testkit::replay("policy", policy::fuzzing::policy);
}
