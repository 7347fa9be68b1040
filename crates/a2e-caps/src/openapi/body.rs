//! What operations send.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::document::Document;
use super::operation::Operation;
use crate::endpoints::{FORM, form_encoded};
use crate::http::RequestContent;
use crate::template::{each, text};
use crate::tool::ToolFailure;

/// What an operation sends.
#[derive(Debug)]
pub(super) struct Body<'d> {
    pub(super) content: Content,
    pub(super) schema: Option<&'d Value>,
    pub(super) required: bool,
    pub(super) description: &'d str,
}

/// Its media type, and how it is written.
#[derive(Debug)]
pub(super) struct Content {
    kind: String,
    shape: Shape,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Shape {
    Json,
    Pairs,
    Text,
    Bytes,
}

/// What an operation sends, if anything: of several media types the one that says most.
pub(super) fn body<'d>(
    document: &'d Document,
    operation: &Operation<'d>,
) -> Result<Option<Body<'d>>, String> {
    let Some(body) = operation.value.get("requestBody") else {
        return Ok(None);
    };
    let body = document.resolve(body)?;
    let all = body.get("content").and_then(Value::as_object);
    let known = all
        .into_iter()
        .flatten()
        .filter_map(|(kind, media)| Some((shape(kind)?, kind, media)));
    let Some((shape, kind, media)) = known.min_by_key(|(shape, ..)| *shape) else {
        return Err(
            "its body has no media type that can be sent (JSON, a form, text or bytes)".to_owned(),
        );
    };
    Ok(Some(Body {
        content: Content {
            // A range is no type.
            kind: match (kind.contains('*'), shape == Shape::Text) {
                (false, _) => kind.clone(),
                (true, true) => "text/plain".to_owned(),
                (true, false) => "application/json".to_owned(),
            },
            shape,
        },
        schema: media.get("schema"),
        required: body.get("required") == Some(&Value::Bool(true)),
        description: body
            .get("description")
            .and_then(Value::as_str)
            .unwrap_or_default(),
    }))
}

fn shape(kind: &str) -> Option<Shape> {
    let plain = kind.split(';').next().unwrap_or_default().trim();
    let plain = plain.to_ascii_lowercase();
    Some(match plain.as_str() {
        "application/json" | "*/*" | "application/*" => Shape::Json,
        kind if kind.ends_with("+json") => Shape::Json,
        FORM => Shape::Pairs,
        kind if kind.starts_with("text/") => Shape::Text,
        "application/xml" => Shape::Text,
        "application/octet-stream" => Shape::Bytes,
        _ => return None,
    })
}

impl Content {
    /// The schema of what is not as the document says: bytes are given as text.
    pub(super) fn schema(&self) -> Option<Value> {
        match self.shape {
            Shape::Json | Shape::Pairs => None,
            Shape::Text => Some(json!({"type": "string"})),
            Shape::Bytes => Some(json!({"type": "string", "contentEncoding": "base64",
                "description": "The bytes, in base64"})),
        }
    }

    pub(super) fn fill(&self, value: &Value) -> Result<RequestContent, ToolFailure> {
        let bytes = match self.shape {
            Shape::Json => value.to_string().into_bytes(),
            Shape::Text => text(value).into_bytes(),
            Shape::Pairs => {
                let members = value.as_object().into_iter().flatten();
                let pairs = members.flat_map(|(name, value)| {
                    let values = each(Some(value)).into_iter();
                    values.map(move |value| (name.clone(), value))
                });
                form_encoded(pairs).into_bytes()
            }
            Shape::Bytes => STANDARD
                .decode(text(value))
                .map_err(|_| ToolFailure::new("`body` is not base64"))?,
        };
        Ok(RequestContent {
            kind: self.kind.clone(),
            bytes,
        })
    }
}
