//! What a script says of itself: YAML between two lines `---`, in the comments it begins with.

use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Bytes of a header.
pub const MAX_HEADER: usize = 64 * 1024;

/// No schema is that deep.
const MAX_DEPTH: usize = 32;

/// What comments begin with.
const MARKS: [&str; 4] = ["#", "//", "--", ";"];

/// What a script says of itself.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Header {
    pub(super) description: String,
    /// By name a JSON Schema or a line as `string? What it is`, or one schema for all.
    #[serde(default)]
    parameters: Map<String, Value>,
    #[serde(default)]
    required: Vec<String>,
    #[serde(default)]
    pub(super) tags: Vec<String>,
    #[serde(default)]
    pub(super) read_only: bool,
    pub(super) timeout_seconds: Option<u64>,
}

impl Header {
    /// Reads it.
    ///
    /// # Errors
    /// What is wrong, and what it must look like.
    pub(super) fn read(script: &[u8]) -> Result<Self, String> {
        let text = text(script).ok_or(
            "it has no header: comments between two lines `# ---`, with `description:` and \
             `parameters:`; if it is to be no tool, take its right to be executed away",
        )?;
        let bad = |error: &dyn std::fmt::Display| format!("its header: {error}");
        if text.len() > MAX_HEADER {
            return Err(bad(&format!("it has more than {MAX_HEADER} bytes")));
        }
        let mut budget = serde_saphyr::Budget::default();
        budget.max_depth = MAX_DEPTH;
        let options = serde_saphyr::options! {
            budget: Some(budget),
            strict_booleans: true,
            with_snippet: false,
        };
        serde_saphyr::from_str_with_options(&text, options).map_err(|error| bad(&error))
    }

    /// What the tool takes.
    ///
    /// # Errors
    /// If a parameter is said in a way that nobody understands.
    pub(super) fn schema(&self) -> Result<Value, String> {
        let is_whole = self.parameters.get("type") == Some(&Value::from("object"));
        if is_whole
            && self
                .parameters
                .get("properties")
                .is_some_and(Value::is_object)
        {
            return Ok(Value::Object(self.parameters.clone()));
        }
        let (mut properties, mut required) = (Map::new(), self.required.clone());
        for (name, said) in &self.parameters {
            let Some(line) = said.as_str() else {
                properties.insert(name.clone(), said.clone());
                continue;
            };
            let (schema, is_needed) = simple(line).ok_or_else(|| {
                format!(
                    "its parameter `{name}` must be a JSON Schema, or a type ({}; with `?` if it \
                     may be left out) and what it is",
                    TYPES.join(", ")
                )
            })?;
            if is_needed {
                required.push(name.clone());
            }
            properties.insert(name.clone(), schema);
        }
        if let Some(name) = required.iter().find(|name| !properties.contains_key(*name)) {
            return Err(format!(
                "`{name}` is required, but not among its parameters"
            ));
        }
        required.sort();
        required.dedup();
        Ok(json!({
            "type": "object", "additionalProperties": false,
            "properties": properties, "required": required,
        }))
    }
}

const TYPES: [&str; 6] = ["string", "integer", "number", "boolean", "array", "object"];

/// `integer? How many`: a type, whether it may be left out, and what it is.
pub(crate) fn simple(line: &str) -> Option<(Value, bool)> {
    let (kind, description) = line
        .trim()
        .split_once(' ')
        .unwrap_or_else(|| (line.trim(), ""));
    let plain = kind.strip_suffix('?');
    let is_needed = plain.is_none();
    let kind = TYPES.iter().find(|it| **it == plain.unwrap_or(kind))?;
    let schema = match description.trim() {
        "" => json!({"type": kind}),
        description => json!({"type": kind, "description": description}),
    };
    Some((schema, is_needed))
}

/// The YAML in the comments that a script begins with.
fn text(script: &[u8]) -> Option<String> {
    // Behind the header there may be anything.
    let most = script.len().min(2 * MAX_HEADER);
    let head = String::from_utf8_lossy(script.get(..most).unwrap_or_default());
    let (mut found, mut is_inside) = (String::new(), false);
    for line in head.lines() {
        let line = line.trim_end();
        let comment = MARKS.iter().find_map(|mark| line.strip_prefix(mark));
        match comment {
            Some(comment) if comment.trim() == "---" && is_inside => return Some(found),
            Some(comment) if comment.trim() == "---" => is_inside = true,
            Some(comment) if is_inside => {
                found.push_str(comment.strip_prefix(' ').unwrap_or(comment));
                found.push('\n');
            }
            Some(_) => {}
            None if line.is_empty() && !is_inside => {}
            None => return None,
        }
    }
    // It is larger than what was looked at, or has no end.
    (is_inside && script.len() > most).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(script: &str) -> Result<Value, String> {
        Header::read(script.as_bytes())?.schema()
    }

    #[test]
    fn lines_and_schemas() {
        let script = "#!/usr/bin/env python3\n# Copyright\n\n# ---\n# description: Counts\n\
            # parameters:\n#   text: string What to count\n#   most: integer? At most\n\
            #   how: {enum: [a, b]}\n# required: [how]\n# tags: [x]\n# ---\nimport sys\n";
        assert_eq!(
            schema(script).unwrap(),
            json!({"type": "object", "additionalProperties": false, "required": ["how", "text"],
                "properties": {
                    "text": {"type": "string", "description": "What to count"},
                    "most": {"type": "integer", "description": "At most"},
                    "how": {"enum": ["a", "b"]}}})
        );
    }

    #[test]
    fn one_schema_for_all() {
        let script = "// ---\n// description: d\n// parameters: {type: object, properties: {a: {}}, minProperties: 1}\n// ---\n";
        assert_eq!(
            schema(script).unwrap(),
            json!({"type": "object", "properties": {"a": {}}, "minProperties": 1})
        );
        // A parameter may be called so.
        let script = "# ---\n# description: d\n# parameters:\n#   type: object? Which\n# ---\n";
        let found = schema(script).unwrap();
        assert_eq!(found["properties"]["type"]["type"], "object");
        let script = "# ---\n# description: d\n# ---";
        assert_eq!(schema(script).unwrap()["properties"], json!({}));
    }

    #[test]
    fn what_is_no_header() {
        for (script, text) in [
            ("", "no header"),
            (
                "#!/bin/sh\necho\n# ---\n# description: d\n# ---\n",
                "no header",
            ),
            ("# ---\n# description: d\n", "no header"),
            ("# ---\n# description: d\necho\n# ---\n", "no header"),
            ("# ---\n# parameters: {}\n# ---\n", "description"),
            (
                "# ---\n# description: d\n# desciption: d\n# ---\n",
                "desciption",
            ),
            (
                "# ---\n# description: d\n# parameters: {a: text}\n# ---\n",
                "`a`",
            ),
            ("# ---\n# description: d\n# required: [a]\n# ---\n", "`a`"),
        ] {
            let problem = schema(script).unwrap_err();
            assert!(problem.contains(text), "{script}: {problem}");
        }
    }

    #[test]
    fn a_header_has_a_size() {
        let of = |size: usize| {
            let begin = "description: ";
            let text = "d".repeat(size - begin.len() - 1);
            Header::read(format!("# ---\n# {begin}{text}\n# ---\n").as_bytes())
        };
        assert!(of(MAX_HEADER).is_ok());
        assert!(of(MAX_HEADER + 1).unwrap_err().contains("bytes"));
        assert!(of(4 * MAX_HEADER).unwrap_err().contains("bytes"));
    }
}
