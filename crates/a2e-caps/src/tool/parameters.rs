//! A schema as the parameters of a definition on the wire.

use std::borrow::Cow;

use a2e_wire::Map;
use a2e_wire::lenient::ParameterMap;
use a2e_wire::messages::tool::{ToolDefinition, ToolParameter, ToolParameterType};
use serde_json::Value;

/// The members of an object.
type Members = serde_json::Map<String, Value>;

/// Objects inside objects that are told as parameters; deeper ones only the schema has.
const MAX_DEPTH: usize = 8;

/// The members of an object as parameters.
pub(super) fn parameters(schema: &Value) -> Vec<ToolParameter<'static>> {
    members(schema, schema, MAX_DEPTH)
}

/// Whether parameters say all that a schema says.
pub(super) fn is_told_in_full(schema: &Value) -> bool {
    told(
        schema,
        &["type", "properties", "required", "title", "$schema"],
        MAX_DEPTH,
    )
}

fn told(schema: &Value, known: &[&str], depth: usize) -> bool {
    let Some(schema) = schema.as_object() else {
        return false;
    };
    let simple = schema.iter().all(|(key, value)| match key.as_str() {
        "enum" => strings(value).is_some(),
        "type" => value.is_string(),
        "additionalProperties" => value.is_boolean(),
        key => known.contains(&key) || key == "description",
    });
    let mut inner = schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter();
    simple
        && inner.all(|inner| {
            depth > 0
                && inner.values().all(|schema| {
                    let known = ["type", "properties", "required", "title"];
                    told(schema, &known, depth.saturating_sub(1))
                })
        })
}

fn members(root: &Value, schema: &Value, depth: usize) -> Vec<ToolParameter<'static>> {
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |name: &str| {
        let mut names = required.into_iter().flatten();
        names.any(|required| required.as_str() == Some(name))
    };
    let members = schema.get("properties").and_then(Value::as_object);
    members
        .into_iter()
        .flatten()
        .map(|(name, schema)| parameter(root, name, schema, is_required(name), depth))
        .collect()
}

fn parameter(
    root: &Value,
    name: &str,
    schema: &Value,
    required: bool,
    depth: usize,
) -> ToolParameter<'static> {
    let meant = resolve(root, schema, MAX_DEPTH);
    let text = |schema: &Value| schema.get("description")?.as_str().map(str::to_owned);
    let description = text(schema).or_else(|| text(meant)).unwrap_or_default();
    let inner = match depth {
        0 => Vec::new(),
        _ => members(root, meant, depth.saturating_sub(1)),
    };
    let pairs = inner
        .into_iter()
        .map(|parameter| (parameter.name.clone(), parameter));
    let properties = Map::from_pairs(pairs.collect()).filter(|map| map.iter().len() > 0);
    ToolParameter {
        required,
        values: meant.get("enum").and_then(strings),
        properties: properties.map(ParameterMap),
        ..ToolParameter::new(name.to_owned().into(), kind(meant), description.into())
    }
}

/// What a schema refers to, or is one of; itself if it says what it is.
fn resolve<'s>(root: &'s Value, schema: &'s Value, depth: usize) -> &'s Value {
    if depth == 0 || schema.get("type").is_some() {
        return schema;
    }
    let referred = schema.get("$ref").and_then(Value::as_str);
    let referred = referred.and_then(|place| root.pointer(place.strip_prefix('#')?));
    let one_of = ["anyOf", "oneOf", "allOf"]
        .iter()
        .filter_map(|key| schema.get(key)?.as_array())
        .flatten()
        .find(|schema| schema.get("type") != Some(&Value::from("null")));
    match referred.or(one_of) {
        Some(next) => resolve(root, next, depth.saturating_sub(1)),
        None => schema,
    }
}

/// The one type that clients are told; what may be anything is told as an object.
fn kind(schema: &Value) -> ToolParameterType<'static> {
    let name = match schema.get("type") {
        Some(Value::String(name)) => Some(name.as_str()),
        Some(Value::Array(names)) => {
            let mut names = names.iter().filter_map(Value::as_str);
            names.find(|name| *name != "null")
        }
        _ => None,
    };
    let sample = || schema.get("const").or_else(|| schema.get("enum")?.get(0));
    match (name, sample()) {
        (Some("string"), _) | (None, Some(Value::String(_))) => ToolParameterType::String,
        (Some("integer"), _) => ToolParameterType::Integer,
        (Some("number"), _) | (None, Some(Value::Number(_))) => ToolParameterType::Number,
        (Some("boolean"), _) | (None, Some(Value::Bool(_))) => ToolParameterType::Boolean,
        (Some("array"), _) => ToolParameterType::Array,
        _ => ToolParameterType::Object,
    }
}

/// A list of nothing but strings.
fn strings(list: &Value) -> Option<Vec<Cow<'static, str>>> {
    let text = |value: &Value| value.as_str().map(|text| Cow::Owned(text.to_owned()));
    list.as_array()?.iter().map(text).collect()
}

/// What a tool of any host takes, as a schema.
pub(crate) fn schema_of(tool: &ToolDefinition<'_>) -> Members {
    match &tool.input_schema {
        Some(schema) => schema.raw().deserialize().unwrap_or_default(),
        None => of_parameters(&tool.input_parameters.iter().collect::<Vec<_>>()),
    }
}

/// The schema that parameters stand for.
fn of_parameters(parameters: &[&ToolParameter<'_>]) -> Members {
    let mut properties = Members::new();
    let mut required = Vec::new();
    for parameter in parameters {
        let mut schema = match &parameter.properties {
            Some(inner) => {
                let inner: Vec<_> = inner.0.iter().map(|(_, parameter)| parameter).collect();
                of_parameters(&inner)
            }
            None => Members::new(),
        };
        schema.insert("type".into(), parameter.kind.as_str().into());
        if !parameter.description.is_empty() {
            schema.insert("description".into(), parameter.description.as_ref().into());
        }
        if let Some(values) = &parameter.values {
            let values = values.iter().map(|value| Value::from(value.as_ref()));
            schema.insert("enum".into(), values.collect());
        }
        if parameter.required {
            required.push(Value::from(parameter.name.as_ref()));
        }
        properties.insert(parameter.name.clone().into_owned(), schema.into());
    }
    let mut schema = Members::new();
    schema.insert("type".into(), "object".into());
    schema.insert("properties".into(), properties.into());
    if !required.is_empty() {
        schema.insert("required".into(), required.into());
    }
    schema
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nested_objects_stay_nested() {
        let schema = json!({"type": "object", "required": ["to"], "properties": {
            "to": {"type": "object", "description": "Whom", "required": ["name"], "properties": {
                "name": {"type": "string"},
                "how": {"enum": ["mail", "phone"]},
            }},
            "count": {"type": ["integer", "null"]},
        }});
        let found = parameters(&schema);
        assert_eq!(found.len(), 2);
        let to = found.iter().find(|it| it.name == "to").unwrap();
        assert!(to.required && to.kind == ToolParameterType::Object);
        let inner = &to.properties.as_ref().unwrap().0;
        assert!(inner.get("name").unwrap().required);
        let how = inner.get("how").unwrap();
        assert_eq!(how.values.as_ref().unwrap(), &["mail", "phone"]);
        assert_eq!(how.kind, ToolParameterType::String);
        assert_eq!(found[0].kind, ToolParameterType::Integer);
    }

    #[test]
    fn references_are_followed_and_circles_end() {
        let schema = json!({"type": "object", "properties": {
            "tree": {"$ref": "#/$defs/tree"},
            "either": {"anyOf": [{"type": "null"}, {"type": "boolean"}]},
            "circle": {"$ref": "#/properties/circle"},
        }, "$defs": {"tree": {"type": "object", "properties": {"inner": {"$ref": "#/$defs/tree"}}}}});
        let found = parameters(&schema);
        let kinds: Vec<_> = found
            .iter()
            .map(|it| (&*it.name, it.kind.as_str()))
            .collect();
        assert_eq!(
            kinds,
            [
                ("circle", "object"),
                ("either", "boolean"),
                ("tree", "object")
            ]
        );
    }

    #[test]
    fn the_schema_goes_along_only_where_it_says_more() {
        let plain = json!({"type": "object", "required": ["a"], "additionalProperties": false,
            "properties": {"a": {"type": "string", "enum": ["x"], "description": "A"},
                "b": {"type": "object", "properties": {"c": {"type": "number"}}}}});
        assert!(is_told_in_full(&plain));
        for more in [
            json!({"type": "object", "minProperties": 1}),
            json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "x"}}}),
            json!({"type": "object", "properties": {"a": {"type": ["string", "null"]}}}),
            json!({"type": "object", "properties": {"a": {"enum": [1]}}}),
            json!({"type": "object", "properties": {"a": {"type": "array", "items": {}}}}),
        ] {
            assert!(!is_told_in_full(&more), "{more}");
        }
    }
}
