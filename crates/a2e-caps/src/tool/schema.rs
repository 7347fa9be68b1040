//! JSON Schemas: compiled once, and what fits them.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError, Weak};

use a2e_wire::Raw;
use canonical::Digest;
use jsonschema::{PatternOptions, Validator};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::ToolFailure;

/// A JSON Schema that is ready to check values.
///
/// Patterns run in linear time, whatever they are and whatever they meet; a schema with a pattern
/// that needs backtracking is refused. Nothing is ever fetched.
#[derive(Debug)]
pub struct Schema {
    value: Value,
    /// Made when it is first needed, if the schema is one of ours.
    validator: OnceLock<Result<Validator, SchemaError>>,
}

/// Arguments that fit the schema they were checked with. There is no other way to have them.
#[derive(Debug, Clone)]
pub struct Arguments {
    raw: Raw<'static>,
    value: Arc<Value>,
}

/// Why something is no schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// It is too large.
    #[error("the schema has {0} bytes, more than {MAX_SCHEMA}")]
    TooLarge(usize),
    /// Its patterns are too long.
    #[error("{0}")]
    Patterns(String),
    /// It says something that no schema says, or that is not taken.
    #[error("not a schema that can be used, at `{path}`: {text}")]
    Bad {
        /// Where in the schema.
        path: String,
        /// What is wrong.
        text: String,
    },
}

/// Where a value does not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// A JSON pointer into the value; empty for the value itself.
    pub path: String,
    /// What is wrong there. It does not quote the value.
    pub text: String,
}

/// The largest schema, in bytes of JSON.
pub const MAX_SCHEMA: usize = 256 * 1024;

/// So many mistakes are told at once.
const MAX_VIOLATIONS: usize = 5;

/// The longest pattern, and the most for all patterns of a schema, in bytes: to compile one takes time
/// that grows with the square of its length.
const MAX_PATTERN: usize = 1024;
const MAX_PATTERNS: usize = 16 * 1024;

/// The largest size of a compiled pattern, and of all patterns of a schema, in bytes.
const COMPILED_PATTERN: usize = 1024 * 1024;
const COMPILED_PATTERNS: usize = 32 * 1024 * 1024;

/// The schemas in use, by their hash: the same one is compiled once.
static COMPILED: LazyLock<Mutex<HashMap<Digest, Weak<Schema>>>> = LazyLock::new(Mutex::default);

impl Schema {
    /// Compiles a schema, or finds it where it is in use already.
    ///
    /// # Errors
    /// If it is too large or no schema.
    pub fn compile(value: &Value) -> Result<Arc<Self>, SchemaError> {
        let text = value.to_string();
        if text.len() > MAX_SCHEMA {
            return Err(SchemaError::TooLarge(text.len()));
        }
        let hash = Digest::of(text.as_bytes());
        let compiled = || COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = compiled().get(&hash).and_then(Weak::upgrade) {
            return Ok(known);
        }
        let schema = Arc::new(Self {
            value: value.clone(),
            validator: OnceLock::from(Ok(validator(value)?)),
        });
        let mut compiled = compiled();
        compiled.retain(|_, schema| schema.strong_count() > 0);
        compiled.insert(hash, Arc::downgrade(&schema));
        Ok(schema)
    }

    /// A schema that is part of this program, so that it need not be looked at before it is used: a
    /// node has dozens, of which most are never used.
    pub(crate) fn own(value: &Value) -> Arc<Self> {
        debug_assert!(validator(value).is_ok(), "no schema: {value}");
        Arc::new(Self {
            value: value.clone(),
            validator: OnceLock::new(),
        })
    }

    fn validator(&self) -> Result<&Validator, &SchemaError> {
        let made = self.validator.get_or_init(|| validator(&self.value));
        made.as_ref()
    }

    /// The schema as JSON.
    #[must_use]
    pub const fn value(&self) -> &Value {
        &self.value
    }

    /// Arguments, if they fit.
    ///
    /// # Errors
    /// The first places where they do not.
    pub fn arguments(&self, raw: Raw<'static>) -> Result<Arguments, Vec<Violation>> {
        let value = self.check(&raw)?;
        Ok(Arguments {
            raw,
            value: Arc::new(value),
        })
    }

    /// Whether a value fits; gives its tree.
    ///
    /// # Errors
    /// The first places where it does not.
    pub fn check(&self, raw: &Raw<'_>) -> Result<Value, Vec<Violation>> {
        let value: Value = raw.deserialize().map_err(|error| {
            vec![Violation {
                path: String::new(),
                text: error.to_string(),
            }]
        })?;
        let validator = self.validator().map_err(|error| {
            vec![Violation {
                path: String::new(),
                text: error.to_string(),
            }]
        })?;
        if validator.is_valid(&value) {
            return Ok(value);
        }
        let errors = validator.iter_errors(&value).take(MAX_VIOLATIONS);
        let mut violations: Vec<_> = errors
            .map(|error| Violation {
                path: error.instance_path().to_string(),
                text: cut(&error.masked().to_string()),
            })
            .collect();
        if violations.is_empty() {
            violations.push(Violation {
                path: String::new(),
                text: "does not fit the schema".into(),
            });
        }
        Err(violations)
    }
}

impl Arguments {
    /// As they came.
    #[must_use]
    pub const fn raw(&self) -> &Raw<'static> {
        &self.raw
    }

    /// As a tree.
    #[must_use]
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// As a type.
    ///
    /// # Errors
    /// If the type asks for more than the schema does.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, ToolFailure> {
        self.raw
            .deserialize()
            .map_err(|error| ToolFailure::new(format!("the arguments cannot be used: {error}")))
    }
}

fn validator(value: &Value) -> Result<Validator, SchemaError> {
    let patterns = patterns(value);
    check_patterns(&patterns).map_err(SchemaError::Patterns)?;
    let compiled = COMPILED_PATTERN.min(COMPILED_PATTERNS / patterns.len().max(1));
    let patterns = PatternOptions::regex()
        .size_limit(compiled)
        .dfa_size_limit(compiled);
    jsonschema::options()
        .with_pattern_options(patterns)
        .offline()
        .build(value)
        .map_err(|error| SchemaError::Bad {
            path: error.instance_path().to_string(),
            text: cut(&error.to_string()),
        })
}

/// All patterns of a schema.
fn patterns(schema: &Value) -> Vec<&str> {
    let (mut patterns, mut open) = (Vec::new(), vec![schema]);
    while let Some(value) = open.pop() {
        match value {
            Value::Object(members) => {
                patterns.extend(members.get("pattern").and_then(Value::as_str));
                let named = members.get("patternProperties").and_then(Value::as_object);
                patterns.extend(named.into_iter().flatten().map(|(name, _)| name.as_str()));
                open.extend(members.values());
            }
            Value::Array(list) => open.extend(list),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    patterns
}

fn check_patterns(patterns: &[&str]) -> Result<(), String> {
    let longest = patterns.iter().map(|it| it.len()).max().unwrap_or_default();
    if longest > MAX_PATTERN {
        return Err(format!(
            "a pattern of the schema has {longest} bytes, more than {MAX_PATTERN}"
        ));
    }
    match patterns.iter().map(|it| it.len()).sum() {
        0..=MAX_PATTERNS => Ok(()),
        all => Err(format!(
            "the patterns of the schema have {all} bytes, more than {MAX_PATTERNS}"
        )),
    }
}

/// What a schema or a value makes a message of may be long.
fn cut(text: &str) -> String {
    const MOST: usize = 300;
    let head = text.get(..text.floor_char_boundary(MOST)).unwrap_or(text);
    match head.len() < text.len() {
        true => format!("{head}…"),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn raw(value: &Value) -> Raw<'static> {
        Raw::from_serialize(value).unwrap()
    }

    #[test]
    fn a_violation_names_its_path_and_quotes_nothing() {
        let schema = Schema::compile(&json!({
            "type": "object",
            "properties": {"edits": {"type": "array", "items": {
                "type": "object", "properties": {"line": {"type": "integer"}}}}},
        }))
        .unwrap();
        let wrong = raw(&json!({"edits": [{"line": 1}, {"line": "s3cret"}]}));
        let [violation] = <[_; 1]>::try_from(schema.arguments(wrong).unwrap_err()).unwrap();
        assert_eq!(violation.path, "/edits/1/line");
        assert!(!violation.text.contains("s3cret"), "{}", violation.text);
    }

    #[test]
    fn the_same_schema_is_compiled_once() {
        let one = json!({"type": "object", "maxProperties": 71});
        let first = Schema::compile(&one).unwrap();
        assert!(Arc::ptr_eq(&first, &Schema::compile(&one).unwrap()));
    }

    #[test]
    fn patterns_that_backtrack_are_refused() {
        let with = |pattern: &str| Schema::compile(&json!({"type": "string", "pattern": pattern}));
        assert!(with("^(a+)+$").is_ok());
        assert!(with("(?=a)b").is_err());
        assert!(with("(a)\\1").is_err());
    }

    #[test]
    fn patterns_have_a_length() {
        let of = |lengths: &[usize]| {
            let all = lengths.iter().map(|length| "a".repeat(*length));
            let all: Vec<Value> = all.map(|it| json!({"pattern": it})).collect();
            Schema::compile(&json!({"properties": {"a": {"anyOf": all}}}))
        };
        let named = |length: usize| {
            let name = "a".repeat(length);
            Schema::compile(&json!({"items": {"patternProperties": {(name): {}}}}))
        };
        assert!(of(&[MAX_PATTERN; 16]).is_ok());
        assert!(named(MAX_PATTERN).is_ok());
        let long = "a pattern of the schema has 1025 bytes, more than 1024";
        assert_eq!(of(&[1, MAX_PATTERN + 1]).unwrap_err().to_string(), long);
        assert_eq!(named(MAX_PATTERN + 1).unwrap_err().to_string(), long);
        let many = [[MAX_PATTERN; 16].as_slice(), &[1]].concat();
        assert_eq!(
            of(&many).unwrap_err().to_string(),
            "the patterns of the schema have 16385 bytes, more than 16384"
        );
    }

    /// One pattern may take a megabyte, but not each of a thousand.
    #[test]
    fn compiled_patterns_have_a_size_together() {
        let of = |count: usize| {
            let all = (0..count).map(|it| json!({"pattern": format!("\\p{{L}}{{9}}{it}")}));
            Schema::compile(&json!({"anyOf": all.collect::<Vec<_>>()}))
        };
        assert!(of(10).is_ok());
        assert!(of(1000).is_err());
    }

    #[test]
    fn nothing_is_fetched() {
        let remote = json!({"$ref": "https://example.com/schema.json"});
        assert!(Schema::compile(&remote).is_err());
        assert!(Schema::compile(&json!({"$ref": "file:///etc/passwd"})).is_err());
    }

    #[test]
    fn a_schema_has_a_size() {
        let of = |bytes: usize| {
            let empty = json!({"title": ""}).to_string().len();
            Schema::compile(&json!({"title": "x".repeat(bytes - empty)}))
        };
        assert!(of(MAX_SCHEMA).is_ok());
        assert_eq!(
            of(MAX_SCHEMA + 1).unwrap_err(),
            SchemaError::TooLarge(MAX_SCHEMA + 1)
        );
    }

    #[test]
    fn no_more_mistakes_are_told_than_help() {
        let schema = Schema::compile(&json!({"items": {"type": "null"}})).unwrap();
        let violations = schema
            .arguments(raw(&json!([1, 2, 3, 4, 5, 6, 7])))
            .unwrap_err();
        assert_eq!(violations.len(), MAX_VIOLATIONS);
    }
}
