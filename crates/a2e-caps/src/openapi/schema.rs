//! Schemas of a document in the form of JSON Schema, draft 2020-12.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};

use super::document::{Document, Version};

/// Schemas that one operation refers to.
pub const MAX_DEFINITIONS: usize = 500;

/// Turns the schemas of one operation. What they refer to stands in `$defs` once, so that those that
/// contain themselves end.
pub(super) struct Schemas<'d> {
    document: &'d Document,
    /// The names in `$defs`, by reference.
    names: HashMap<&'d str, String>,
    /// References in the order in which they were found.
    found: Vec<&'d str>,
}

/// Keys whose value is a schema.
const ONE: [&str; 12] = [
    "items",
    "additionalProperties",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contentSchema",
    "additionalItems",
];

/// Keys whose value is a list of schemas.
const LIST: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];

/// Keys whose value has schemas by name.
const NAMED: [&str; 3] = ["properties", "patternProperties", "dependentSchemas"];

/// What says nothing about arguments, or is said otherwise. What a reference leads to is taken from
/// the document, so a schema's own definitions are not needed either.
const DROPPED: [&str; 15] = [
    "nullable",
    "discriminator",
    "xml",
    "externalDocs",
    "example",
    "readOnly",
    "writeOnly",
    "$schema",
    "$id",
    "$anchor",
    "$defs",
    "definitions",
    "$comment",
    "$vocabulary",
    "$dynamicAnchor",
];

impl<'d> Schemas<'d> {
    pub(super) fn new(document: &'d Document) -> Self {
        Self {
            document,
            names: HashMap::new(),
            found: Vec::new(),
        }
    }

    /// Turns a schema.
    pub(super) fn turn(&mut self, schema: &'d Value) -> Result<Value, String> {
        let Some(members) = schema.as_object() else {
            return match schema.is_boolean() {
                true => Ok(schema.clone()),
                false => Err("one of its schemas is none".to_owned()),
            };
        };
        if let Some(reference) = members.get("$ref").and_then(Value::as_str) {
            let mut turned = match self.document.version {
                // What stands beside a reference counts for nothing there.
                Version::V30 => Map::new(),
                Version::V31 => self.members(members)?,
            };
            let name = self.refer(reference)?;
            turned.insert("$ref".into(), format!("#/$defs/{name}").into());
            return Ok(Value::Object(turned));
        }
        let mut turned = self.members(members)?;
        if self.document.version == Version::V30 {
            bounds(&mut turned);
            if members.get("nullable") == Some(&Value::Bool(true)) {
                return Ok(nullable(turned));
            }
        }
        Ok(Value::Object(turned))
    }

    /// All that was referred to, turned as well.
    pub(super) fn definitions(mut self) -> Result<Map<String, Value>, String> {
        let mut definitions = Map::new();
        let mut at = 0;
        while let Some(reference) = self.found.get(at).copied() {
            at += 1;
            let schema = self.document.find(reference)?;
            let turned = self.turn(schema)?;
            let name = self.names.get(reference).cloned().unwrap_or_default();
            definitions.insert(name, turned);
        }
        Ok(definitions)
    }

    fn members(&mut self, members: &'d Map<String, Value>) -> Result<Map<String, Value>, String> {
        let mut turned = Map::new();
        for (key, value) in members {
            let key_text = key.as_str();
            if DROPPED.contains(&key_text) || key.starts_with("x-") || key == "$ref" {
                continue;
            }
            if matches!(key_text, "$dynamicRef" | "$recursiveRef") {
                return Err(format!(
                    "one of its schemas has `{key}`, which is not known here"
                ));
            }
            let value = if ONE.contains(&key_text) {
                self.turn(value)?
            } else if let Some(list) = value.as_array().filter(|_| LIST.contains(&key_text)) {
                let turned = list.iter().map(|schema| self.turn(schema));
                Value::Array(turned.collect::<Result<_, _>>()?)
            } else if let Some(named) = value.as_object().filter(|_| NAMED.contains(&key_text)) {
                let sent: Vec<_> = named
                    .iter()
                    .filter(|(_, schema)| !self.is_read_only(schema))
                    .collect();
                let turned = sent
                    .into_iter()
                    .map(|(name, schema)| Ok((name.clone(), self.turn(schema)?)));
                Value::Object(turned.collect::<Result<_, String>>()?)
            } else {
                value.clone()
            };
            turned.insert(key.clone(), value);
        }
        self.drop_read_only(members, &mut turned);
        Ok(turned)
    }

    /// Returns the schemas that hold for the same value: this one, and those of its `$ref` and
    /// `allOf`, each reference followed once.
    fn parts(&self, members: &'d Map<String, Value>) -> Vec<&'d Map<String, Value>> {
        let (mut parts, mut followed, mut next) = (vec![members], HashSet::new(), 0);
        while let Some(part) = parts.get(next).copied()
            && next < MAX_DEFINITIONS
        {
            next += 1;
            let reference = part.get("$ref").and_then(Value::as_str);
            let reference = reference.filter(|reference| followed.insert(*reference));
            let referred = reference.and_then(|it| self.document.find(it).ok());
            let all_of = part.get("allOf").and_then(Value::as_array);
            let new = referred.into_iter().chain(all_of.into_iter().flatten());
            parts.extend(new.filter_map(Value::as_object));
        }
        parts
    }

    /// Whether only responses have it.
    fn is_read_only(&self, schema: &'d Value) -> bool {
        let members = schema.as_object().into_iter();
        let mut parts = members.flat_map(|members| self.parts(members));
        parts.any(|part| part.get("readOnly") == Some(&Value::Bool(true)))
    }

    /// Requires no property that is not sent, neither in a schema nor in the parts of its `allOf`.
    fn drop_read_only(&self, members: &'d Map<String, Value>, turned: &mut Map<String, Value>) {
        let mut names = HashSet::new();
        for part in self.parts(members) {
            let properties = part.get("properties").and_then(Value::as_object);
            let properties = properties.into_iter().flatten();
            let unsent = properties.filter(|(_, property)| self.is_read_only(property));
            names.extend(unsent.map(|(name, _)| name.as_str()));
        }
        if !names.is_empty() {
            drop_required(turned, &names);
        }
    }

    fn refer(&mut self, reference: &'d str) -> Result<String, String> {
        if let Some(name) = self.names.get(reference) {
            return Ok(name.clone());
        }
        if self.names.len() >= MAX_DEFINITIONS {
            return Err(format!("it refers to more than {MAX_DEFINITIONS} schemas"));
        }
        // One that is nowhere is told of where it is referred to.
        self.document.find(reference)?;
        let last = reference.rsplit('/').next().unwrap_or_default();
        let is_plain = |letter: &char| letter.is_ascii_alphanumeric() || *letter == '_';
        let plain: String = last.chars().filter(is_plain).take(64).collect();
        let is_taken = |name: &str| self.names.values().any(|taken| taken == name);
        let name = match is_taken(&plain) || plain.is_empty() {
            true => format!("{plain}-{}", self.names.len()),
            false => plain,
        };
        self.names.insert(reference, name.clone());
        self.found.push(reference);
        Ok(name)
    }
}

fn drop_required(schema: &mut Map<String, Value>, names: &HashSet<&str>) {
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| !name.as_str().is_some_and(|name| names.contains(name)));
    }
    let parts = schema.get_mut("allOf").and_then(Value::as_array_mut);
    for part in parts.into_iter().flatten() {
        if let Some(part) = part.as_object_mut() {
            drop_required(part, names);
        }
    }
}

/// In 3.0 `exclusiveMinimum` says whether `minimum` is itself allowed.
fn bounds(schema: &mut Map<String, Value>) {
    for (exclusive, plain) in [
        ("exclusiveMinimum", "minimum"),
        ("exclusiveMaximum", "maximum"),
    ] {
        if let Some(Value::Bool(is_exclusive)) = schema.get(exclusive).cloned() {
            schema.remove(exclusive);
            if is_exclusive && let Some(bound) = schema.remove(plain) {
                schema.insert(exclusive.into(), bound);
            }
        }
    }
}

/// A schema that allows nothing too.
fn nullable(mut schema: Map<String, Value>) -> Value {
    let Some(Value::String(kind)) = schema.get("type").cloned() else {
        return json!({"anyOf": [schema, {"type": "null"}]});
    };
    schema.insert("type".into(), json!([kind, "null"]));
    if let Some(Value::Array(values)) = schema.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
    Value::Object(schema)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turned(version: &str, schema: &Value, components: &Value) -> Result<Value, String> {
        let document = json!({"openapi": version, "components": {"schemas": components}});
        let document = Document::parse(&document.to_string()).unwrap();
        let mut schemas = Schemas::new(&document);
        let mut turned = schemas.turn(schema)?;
        let definitions = schemas.definitions()?;
        if !definitions.is_empty() {
            turned["$defs"] = Value::Object(definitions);
        }
        Ok(turned)
    }

    #[test]
    fn what_3_0_says_otherwise() {
        let schema = json!({"type": "object", "required": ["id", "a"], "properties": {
            "id": {"type": "string", "readOnly": true},
            "a": {"type": "integer", "nullable": true, "minimum": 1, "exclusiveMinimum": true},
            "b": {"type": "string", "enum": ["x"], "nullable": true, "example": "x"},
            "c": {"nullable": true, "allOf": [{"type": "string"}]},
            "d": {"type": "number", "maximum": 2, "exclusiveMaximum": false, "xml": {}, "x-y": 1},
        }});
        assert_eq!(
            turned("3.0.3", &schema, &json!({})).unwrap(),
            json!({"type": "object", "required": ["a"], "properties": {
                "a": {"type": ["integer", "null"], "exclusiveMinimum": 1},
                "b": {"type": ["string", "null"], "enum": ["x", null]},
                "c": {"anyOf": [{"allOf": [{"type": "string"}]}, {"type": "null"}]},
                "d": {"type": "number", "maximum": 2},
            }})
        );
    }

    /// What only responses have is not demanded of a caller, wherever that is said.
    #[test]
    fn read_only_properties_are_not_required() {
        let components = json!({
            "Id": {"type": "string", "readOnly": true},
            "Base": {"type": "object", "required": ["id"], "properties": {"id": {"type": "string", "readOnly": true}}},
            "Loop": {"allOf": [{"$ref": "#/components/schemas/Loop"}]},
        });
        let of = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
        let schema = json!({"required": ["a", "b", "c", "d", "e"], "properties": {
            "a": of("Id"), "b": {"allOf": [of("Id"), {"description": "d"}]},
            "c": {"allOf": [{"readOnly": true}]}, "d": of("Loop"), "e": {"type": "string"}}});
        for version in ["3.0.3", "3.1.0"] {
            let found = turned(version, &schema, &components).unwrap();
            assert_eq!(found["required"], json!(["d", "e"]), "{found}");
            assert_eq!(found["properties"].as_object().unwrap().len(), 2);
            // Required beside the part of `allOf` that has the property, or in another part.
            let beside =
                json!({"required": ["id", "x"], "allOf": [of("Base"), {"required": ["id", "y"]}]});
            let found = turned(version, &beside, &components).unwrap();
            assert_eq!(found["required"], json!(["x"]), "{found}");
            assert_eq!(found["allOf"][1]["required"], json!(["y"]), "{found}");
            assert_eq!(found["$defs"]["Base"]["required"], json!([]), "{found}");
        }
    }

    #[test]
    fn what_3_1_says_stays() {
        let schema = json!({"type": ["string", "null"], "exclusiveMinimum": 3, "$id": "x",
            "if": {"const": "a"}, "then": true});
        assert_eq!(
            turned("3.1.0", &schema, &json!({})).unwrap(),
            json!({"type": ["string", "null"], "exclusiveMinimum": 3, "if": {"const": "a"}, "then": true})
        );
    }

    /// A property may have the name of a keyword.
    #[test]
    fn properties_are_not_keywords() {
        let schema = json!({"type": "object", "properties": {
            "nullable": {"type": "boolean"}, "xml": {"type": "string"}, "example": {"type": "string"}}});
        assert_eq!(turned("3.0.0", &schema, &json!({})).unwrap(), schema);
    }

    #[test]
    fn schemas_that_contain_themselves_end() {
        let components = json!({
            "Tree": {"type": "object", "properties": {
                "left": {"$ref": "#/components/schemas/Tree"},
                "leaf": {"$ref": "#/components/schemas/Leaf"}}},
            "Leaf": {"type": "string"},
        });
        let reference = json!({"$ref": "#/components/schemas/Tree", "description": "d"});
        let found = turned("3.1.0", &reference, &components).unwrap();
        assert_eq!(
            found,
            json!({"$ref": "#/$defs/Tree", "description": "d", "$defs": {
                "Tree": {"type": "object", "properties": {
                    "left": {"$ref": "#/$defs/Tree"}, "leaf": {"$ref": "#/$defs/Leaf"}}},
                "Leaf": {"type": "string"}}})
        );
        crate::tool::Schema::compile(&found).unwrap();
        let found = turned("3.0.0", &reference, &components).unwrap();
        assert_eq!(found.get("description"), None);
    }

    #[test]
    fn names_of_definitions_are_told_apart() {
        let components = json!({"A": {"properties": {"x": {"type": "string"}}},
            "B": {"properties": {"x": {"type": "integer"}}}, "~*": {}});
        let schema = json!({"prefixItems": [
            {"$ref": "#/components/schemas/A/properties/x"},
            {"$ref": "#/components/schemas/B/properties/x"},
            {"$ref": "#/components/schemas/~0*"}]});
        let found = turned("3.1.0", &schema, &components).unwrap();
        let definitions = found["$defs"].as_object().unwrap();
        assert_eq!(definitions.len(), 3, "{found}");
        crate::tool::Schema::compile(&found).unwrap();
    }

    #[test]
    fn references_that_lead_nowhere() {
        for reference in ["#/components/schemas/No", "other.json", "http://h/x"] {
            let schema = json!({"$ref": reference});
            assert!(turned("3.1.0", &schema, &json!({})).is_err(), "{reference}");
        }
    }

    #[test]
    fn so_many_definitions() {
        let of = |count: usize| {
            let schemas = (0..count).map(|at| (format!("S{at}"), json!({"type": "string"})));
            let components = Value::Object(schemas.collect());
            let references = (0..count)
                .map(|at| json!({"$ref": format!("#/components/schemas/S{at}")}))
                .collect::<Vec<_>>();
            turned("3.1.0", &json!({"anyOf": references}), &components)
        };
        assert!(of(MAX_DEFINITIONS).is_ok());
        assert!(of(MAX_DEFINITIONS + 1).is_err());
    }
}
