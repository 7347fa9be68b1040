//! The operations of a document.

use std::fmt;

use serde_json::Value;

use super::document::Document;

/// The most operations of a document that become tools.
pub const MAX_OPERATIONS: usize = 5000;

/// Parameters of an operation.
pub const MAX_PARAMETERS: usize = 100;

const METHODS: [&str; 8] = [
    "get", "put", "post", "delete", "options", "head", "patch", "trace",
];

/// One of them.
#[derive(Debug)]
pub(super) struct Operation<'d> {
    /// In capitals.
    pub(super) method: String,
    pub(super) path: &'d str,
    /// What all operations of the path have.
    pub(super) item: &'d Value,
    pub(super) value: &'d Value,
    pub(super) id: Option<&'d str>,
    pub(super) tags: Vec<&'d str>,
}

/// All operations, in the order of their paths.
pub(super) fn all(document: &Document) -> Result<Vec<Operation<'_>>, String> {
    let paths = document.root.get("paths").and_then(Value::as_object);
    let mut all = Vec::new();
    for (path, item) in paths.into_iter().flatten() {
        if path.starts_with("x-") {
            continue;
        }
        let item = document.resolve(item)?;
        for method in METHODS {
            let Some(value) = item.get(method) else {
                continue;
            };
            let tags = value.get("tags").and_then(Value::as_array);
            all.push(Operation {
                method: method.to_ascii_uppercase(),
                path,
                item,
                value,
                id: value.get("operationId").and_then(Value::as_str),
                tags: tags
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_str)
                    .collect(),
            });
        }
    }
    match all.is_empty() {
        true => Err("it has no operations".to_owned()),
        false => Ok(all),
    }
}

impl<'d> Operation<'d> {
    /// A text that the operation says of itself.
    pub(super) fn text(&self, key: &str) -> &'d str {
        let text = self.value.get(key).and_then(Value::as_str);
        text.unwrap_or_default().trim()
    }

    pub(super) fn is_deprecated(&self) -> bool {
        self.value.get("deprecated") == Some(&Value::Bool(true))
    }
}

impl fmt::Display for Operation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path: String = self.path.chars().take(128).collect();
        match self.id {
            Some(id) => {
                let id: String = id.chars().take(128).collect();
                write!(f, "{id} ({} {path})", self.method)
            }
            None => write!(f, "{} {path}", self.method),
        }
    }
}
