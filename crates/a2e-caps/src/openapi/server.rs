//! Where the paths of a document begin.

use serde_json::Value;

use super::document::Document;
use super::operation::Operation;
use crate::template::{Piece, parse};

/// The URL that the path of an operation goes behind: what the operator says, or the first server of
/// the operation, its path or the document.
pub(super) fn base(
    document: &Document,
    operation: &Operation<'_>,
    told: Option<&String>,
) -> Result<String, String> {
    if let Some(told) = told {
        return Ok(told.clone());
    }
    let first = |value: &'_ Value| value.get("servers").and_then(|list| list.get(0)).cloned();
    let server = first(operation.value)
        .or_else(|| first(operation.item))
        .or_else(|| first(&document.root));
    let missing = || "the document does not say where its server is; say it in `server`".to_owned();
    let server = server.ok_or_else(missing)?;
    let url = server.get("url").and_then(Value::as_str);
    let pieces = parse(url.ok_or_else(missing)?);
    let mut filled = String::new();
    for piece in pieces.ok_or("the URL of its server has a brace that is not closed")? {
        match piece {
            Piece::Text(text) => filled.push_str(&text),
            Piece::Place(name) => {
                let variable = server.get("variables").and_then(|all| all.get(&name));
                let usual = variable.and_then(|variable| variable.get("default")?.as_str());
                filled.push_str(usual.ok_or_else(|| {
                    format!("`{name}` in the URL of its server has no default; say it in `server`")
                })?);
            }
        }
    }
    match filled.contains("://") {
        true => Ok(filled),
        // It would be relative to where the document was found.
        false => Err(missing()),
    }
}
