use std::collections::BTreeSet;

use super::super::Config;
use super::*;

const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/frith.sample.yaml");

/// All keys that a schema has, each with the sections it is in.
fn keys(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    for alternative in schema["anyOf"].as_array().into_iter().flatten() {
        keys(alternative, path, found);
    }
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        keys(inner, &path, found);
        found.insert(path);
    }
    if schema["items"].is_object() {
        keys(&schema["items"], path, found);
    }
    if schema["additionalProperties"].is_object() {
        keys(&schema["additionalProperties"], &format!("{path}.*"), found);
    }
}

fn all_keys() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    keys(&schema(), "", &mut found);
    found
}

/// A value has no key that its schema lacks.
fn walk(schema: &Value, value: &Value, path: &str) {
    let schemas: Vec<&Value> = match schema["anyOf"].as_array() {
        Some(all) => all.iter().collect(),
        None => vec![schema],
    };
    if schemas.iter().any(|schema| **schema == json!({})) {
        return;
    }
    let part = |name: &str| {
        let mut parts = schemas.iter().map(|schema| &schema[name]);
        parts.find(|part| !part.is_null())
    };
    for (name, inner) in value.as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        let known = part("properties").and_then(|keys| keys.get(name));
        let known = known.or_else(|| part("additionalProperties").filter(|it| it.is_object()));
        walk(known.unwrap_or_else(|| panic!("{path}")), inner, &path);
    }
    for inner in value.as_array().into_iter().flatten() {
        walk(part("items").unwrap(), inner, path);
    }
}

#[test]
fn every_key_of_the_sample_is_in_the_schema() {
    let sample = std::fs::read_to_string(SAMPLE).unwrap();
    let tree = super::super::yaml::parse(&sample).unwrap();
    walk(&schema(), &tree.json().unwrap(), "");
}

/// And so is every key of the reader, from which the schema is made.
#[test]
fn every_key_of_the_schema_is_in_the_sample() {
    let sample = std::fs::read_to_string(SAMPLE).unwrap();
    for path in all_keys() {
        let name = path.rsplit('.').next().unwrap();
        assert!(sample.contains(&format!("{name}:")), "{path}");
    }
}

/// What is only asked for if something else is there, or is not.
#[test]
fn keys_that_are_hard_to_reach_are_in_the_schema() {
    let all = all_keys();
    for path in [
        ".server.tls.certificate",
        ".plugins.type",
        ".plugins.embedder.private_hosts",
        ".plugins.endpoints.bearer",
        ".plugins.openapi.max_bytes",
        ".plugins.components.files",
        ".plugins.max_children",
        ".plugins.import",
        ".plugins.servers.*.args",
        ".plugins.servers.*.transport",
        ".policy.repeat.window",
        ".policy.rules.trust",
        ".agents.policy.rules.when",
        ".a2a.agents.policy.extensions",
        ".trust.anchors.*.public_key",
        ".intents.*.stdin",
        ".intents.*.skill",
        ".intents.*.chain",
        ".intents.*.env",
        ".peers.*.intents.*.timeout_seconds",
        ".audit.keep_address_days",
    ] {
        assert!(all.contains(path), "{path} is not in {all:#?}");
    }
}

#[test]
fn values_have_their_kinds_and_limits() {
    let schema = schema();
    let at = |path: &str| schema.pointer(path).unwrap();
    assert_eq!(
        at("/properties/global_limits/properties/max_line"),
        &json!({"type": "integer", "minimum": 1024, "maximum": 67_108_864})
    );
    assert_eq!(
        at("/properties/snapshot_mode"),
        &json!({"enum": ["host", "plugin", "hybrid"]})
    );
    assert_eq!(
        at("/properties/server/properties/unix"),
        &json!({"anyOf": [{"type": "boolean"}, {"type": "string"}]})
    );
    assert_eq!(
        at("/properties/plugins/items/required"),
        &json!(["name", "type"])
    );
    assert_eq!(at("/additionalProperties"), &json!(false));
    let boolean = &at("/properties/a2a/anyOf").as_array().unwrap()[0];
    assert_eq!(boolean, &json!({"type": "boolean"}));
}

#[test]
fn the_schema_is_the_same_each_time() {
    assert_eq!(schema(), schema());
    // And nothing is read that was made up.
    assert!(Config::load(Path::new(SAMPLE)).is_ok());
}
