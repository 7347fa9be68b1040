//! What the operator may see of a configuration.

use a2e_runtime::redact;
use serde_json::{Map, Value};

/// Names whose values are secret whatever a schema says of them.
const SECRET: [&str; 2] = ["env", "headers"];

/// What makes a schema more than can be told by looking at one place of a value.
const COMPOSED: [&str; 9] = [
    "$ref",
    "$dynamicRef",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "patternProperties",
    "dependentSchemas",
];

/// A configuration without its secrets: values that its schema marks (`writeOnly`, or the format
/// `password`), those of `headers` and `env`, and those that the schema does not describe. Names
/// stay.
pub(super) fn without_secrets(schema: &Value, config: &Value) -> Value {
    shown(Some(schema), config)
}

fn shown(schema: Option<&Value>, value: &Value) -> Value {
    let Some(schema) = schema.and_then(Value::as_object).filter(|it| tells(it)) else {
        let mut hidden = value.clone();
        redact(&mut hidden);
        return hidden;
    };
    match value {
        Value::Object(members) => {
            let shown = members.iter().map(|(name, value)| {
                let schema = member(schema, name).filter(|_| !SECRET.contains(&name.as_str()));
                (name.clone(), shown(schema, value))
            });
            Value::Object(shown.collect())
        }
        Value::Array(list) => {
            let items = schema.get("items");
            list.iter().map(|value| shown(items, value)).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// Whether a schema describes its value, and does not mark it as secret.
fn tells(schema: &Map<String, Value>) -> bool {
    let is_described = ["type", "enum", "const"]
        .iter()
        .any(|key| schema.contains_key(*key));
    let is_secret = schema.get("writeOnly") == Some(&Value::Bool(true))
        || schema.get("format").and_then(Value::as_str) == Some("password");
    is_described && !is_secret && !COMPOSED.iter().any(|key| schema.contains_key(*key))
}

/// What a schema says of a member.
fn member<'s>(schema: &'s Map<String, Value>, name: &str) -> Option<&'s Value> {
    let described = schema.get("properties").and_then(|it| it.get(name));
    described.or_else(|| schema.get("additionalProperties"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const HIDDEN: &str = "(hidden)";

    #[test]
    fn only_marked_values_are_hidden() {
        let schema = json!({"type": "object", "properties": {
            "key": {"type": "string", "writeOnly": true},
            "pin": {"type": "string", "format": "password"},
            "region": {"enum": ["eu", "us"]},
            "hosts": {"type": "array", "items": {"type": "object",
                "properties": {"host": {"type": "string"}},
                "additionalProperties": {"type": "string", "writeOnly": true}}},
        }});
        let config = json!({"key": "k", "pin": "1", "region": "eu",
            "hosts": [{"host": "a.example", "token": "t"}]});
        let shown = json!({"key": HIDDEN, "pin": HIDDEN, "region": "eu",
            "hosts": [{"host": "a.example", "token": HIDDEN}]});
        assert_eq!(without_secrets(&schema, &config), shown);
    }

    #[test]
    fn undescribed_values_headers_and_env_are_hidden() {
        let text = json!({"type": "string"});
        let map = json!({"type": "object", "additionalProperties": text});
        let schema = json!({"type": "object", "additionalProperties": true, "properties": {
            "name": text, "headers": map, "env": map,
            "either": {"type": "string", "anyOf": [text]}, "open": {}, "list": {"type": "array"},
        }});
        let config = json!({"name": "n", "headers": {"a": "1"}, "env": {"b": "2"}, "either": "x",
            "open": 3, "list": ["y"], "more": {"c": true}});
        let shown = json!({"name": "n", "headers": {"a": HIDDEN}, "env": {"b": HIDDEN},
            "either": HIDDEN, "open": HIDDEN, "list": [HIDDEN], "more": {"c": HIDDEN}});
        assert_eq!(without_secrets(&schema, &config), shown);
        assert_eq!(
            without_secrets(&json!(true), &json!({"a": 1})),
            json!({"a": HIDDEN})
        );
    }
}
