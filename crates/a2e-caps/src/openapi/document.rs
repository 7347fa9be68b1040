//! A document as a tree, and what its references mean.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde_json::Value;

/// Bytes of a document.
pub const MAX_DOCUMENT: usize = 4 << 20;

/// Objects and lists inside each other in a document.
pub const MAX_DEPTH: usize = 64;

/// References that lead to references.
const MAX_CHAIN: usize = 16;

/// What `*name` may stand for in all, in parts: more is a bomb.
const MAX_REPLAYED: usize = 100_000;

/// A document.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) root: Value,
    pub(super) version: Version,
}

/// The versions that schemas differ in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    /// 3.0, with schemas of its own.
    V30,
    /// 3.1, with those of draft 2020-12.
    V31,
}

impl Document {
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let unreadable = |error: std::io::Error| format!("it cannot be read: {error}");
        let file = File::open(path).map_err(unreadable)?;
        let mut text = String::new();
        let most = u64::try_from(MAX_DOCUMENT).unwrap_or(u64::MAX);
        let mut limited = file.take(most.saturating_add(1));
        limited.read_to_string(&mut text).map_err(unreadable)?;
        Self::parse(&text)
    }

    /// Reads JSON, or YAML.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MAX_DOCUMENT {
            return Err(format!("it has more than {MAX_DOCUMENT} bytes"));
        }
        let root: Value = match text.trim_start().starts_with('{') {
            true => serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?,
            false => yaml(text)?,
        };
        if is_deeper(&root, MAX_DEPTH) {
            return Err(format!("it nests deeper than {MAX_DEPTH}"));
        }
        let version = match (root.get("openapi"), root.get("swagger")) {
            (Some(version), _) => crate::template::text(version),
            (None, Some(_)) => {
                return Err("it is Swagger 2; convert it to OpenAPI 3.0 or 3.1".to_owned());
            }
            (None, None) => return Err("it has no `openapi`, so it is no OpenAPI".to_owned()),
        };
        let version = match version.split('.').collect::<Vec<_>>().as_slice() {
            ["3", "0", ..] => Version::V30,
            ["3", "1", ..] => Version::V31,
            _ => {
                let shown: String = version.chars().take(16).collect();
                return Err(format!("it is OpenAPI {shown}; 3.0 and 3.1 can be used"));
            }
        };
        Ok(Self { root, version })
    }

    /// What stands at a place, or where its reference leads to.
    pub(super) fn resolve<'d>(&'d self, mut value: &'d Value) -> Result<&'d Value, String> {
        for _ in 0..MAX_CHAIN {
            match value.get("$ref").and_then(Value::as_str) {
                Some(reference) => value = self.find(reference)?,
                None => return Ok(value),
            }
        }
        Err("its references lead in a circle".to_owned())
    }

    /// What a reference leads to.
    pub(super) fn find(&self, reference: &str) -> Result<&Value, String> {
        let shown = || reference.chars().take(128).collect::<String>();
        let Some(pointer) = reference.strip_prefix('#') else {
            return Err(format!(
                "it refers to `{}`, another document; put all into one",
                shown()
            ));
        };
        let found = self.root.pointer(&decode(pointer));
        found.ok_or_else(|| format!("it refers to `{}`, which is not there", shown()))
    }

    /// A member of the document by the names that lead to it.
    pub(super) fn member(&self, names: &[&str]) -> Option<&Value> {
        let mut names = names.iter();
        names.try_fold(&self.root, |value, name| value.get(*name))
    }
}

fn yaml(text: &str) -> Result<Value, String> {
    let mut budget = serde_saphyr::Budget::default();
    budget.max_depth = MAX_DEPTH;
    let mut aliases = serde_saphyr::options::AliasLimits::default();
    aliases.max_total_replayed_events = MAX_REPLAYED;
    let options = serde_saphyr::options! {
        budget: Some(budget),
        alias_limits: aliases,
        // `no` is a word, not a boolean.
        strict_booleans: true,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| format!("not YAML: {error}"))
}

/// Whether values stand inside each other more often than so.
fn is_deeper(value: &Value, depth: usize) -> bool {
    let Some(left) = depth.checked_sub(1) else {
        return value.is_array() || value.is_object();
    };
    match value {
        Value::Array(list) => list.iter().any(|it| is_deeper(it, left)),
        Value::Object(members) => members.values().any(|it| is_deeper(it, left)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Undoes percent-encoding, as far as there is any.
fn decode(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, tail @ ..] = rest {
        let pair = tail.get(..2).filter(|_| *first == b'%');
        match pair.and_then(|pair| hex::decode(pair).ok()) {
            Some(decoded) => {
                bytes.extend(decoded);
                rest = tail.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_has_a_size() {
        let of = |size: usize| {
            let (begin, end) = ("{\"openapi\":\"3.1.0\",\"x\":\"", "\"}");
            let filling = "x".repeat(size - begin.len() - end.len());
            Document::parse(&format!("{begin}{filling}{end}"))
        };
        assert!(of(MAX_DOCUMENT).is_ok());
        assert!(of(MAX_DOCUMENT + 1).unwrap_err().contains("bytes"));
    }

    #[test]
    fn a_document_has_a_depth() {
        let of = |depth: usize| {
            let (open, close) = ("[".repeat(depth - 1), "]".repeat(depth - 1));
            Document::parse(&format!("{{\"openapi\":\"3.1.0\",\"x\":{open}{close}}}"))
        };
        assert!(of(MAX_DEPTH).is_ok());
        assert!(of(MAX_DEPTH + 1).unwrap_err().contains("deeper"));
        let deep = "[".repeat(100_000);
        assert!(Document::parse(&format!("{{\"a\":{deep}")).is_err());
        assert!(Document::parse(&format!("a: {deep}")).is_err());
    }

    #[test]
    fn versions() {
        for (text, version) in [
            ("openapi: 3.0.3", Version::V30),
            ("openapi: 3.1.0", Version::V31),
            ("openapi: 3.1", Version::V31),
            ("{\"openapi\": \"3.0.0\"}", Version::V30),
        ] {
            assert_eq!(Document::parse(text).unwrap().version, version, "{text}");
        }
        for bad in [
            "swagger: '2.0'",
            "openapi: 4.0.0",
            "openapi: 3.2.0",
            "a: 1",
            "",
            "{",
        ] {
            assert!(Document::parse(bad).is_err(), "{bad}");
        }
    }

    /// YAML has keys that are no texts, and JSON has none such.
    #[test]
    fn yaml_and_json_are_the_same() {
        let yaml = "openapi: 3.1.0\na: {200: {b: no, c: 1.5, d: null}}\n";
        let json = r#"{"openapi": "3.1.0", "a": {"200": {"b": "no", "c": 1.5, "d": null}}}"#;
        let [yaml, json] = [yaml, json].map(|text| Document::parse(text).unwrap().root);
        assert_eq!(yaml, json);
    }

    #[test]
    fn aliases_do_not_explode() {
        let mut text = String::from("openapi: 3.1.0\na0: &a0 [x]\n");
        for at in 1..30 {
            let before = at - 1;
            text.push_str(&format!("a{at}: &a{at} [*a{before}, *a{before}]\n"));
        }
        assert!(Document::parse(&text).is_err());
    }

    #[test]
    fn references() {
        let text = r##"{"openapi": "3.1.0", "a/b": {"c d": 1}, "one": {"$ref": "#/two"},
            "two": {"$ref": "#/a~1b/c%20d"}, "round": {"$ref": "#/round"},
            "far": {"$ref": "other.yaml#/x"}, "gone": {"$ref": "#/none"}}"##;
        let document = Document::parse(text).unwrap();
        let resolve = |name: &str| document.resolve(&document.root[name]);
        assert_eq!(resolve("one").unwrap(), 1);
        for (name, text) in [
            ("round", "circle"),
            ("far", "other.yaml"),
            ("gone", "not there"),
        ] {
            let problem = resolve(name).unwrap_err();
            assert!(problem.contains(text), "{problem}");
        }
    }
}
