//! What a request sends, with places for arguments.

use a2e_runtime::config::RequestBody;
use serde_json::{Map, Value};

use super::{Filled, fillings};
use crate::http::{Hidden, Kept, RequestContent, encode};
use crate::template::{Piece, join, parse, places, text};

/// What is sent.
pub(super) enum Body {
    None,
    Arguments,
    Json(Node),
    Form(Vec<(String, Filled)>),
    Text(String),
}

/// A part of JSON with places.
pub(super) enum Node {
    Text(Vec<Piece>),
    List(Vec<Self>),
    Object(Vec<(String, Self)>),
    /// Anything without.
    Value(Value),
}

impl Body {
    pub(super) fn new(body: &RequestBody, hidden: &mut Hidden) -> Result<Self, String> {
        Ok(match body {
            RequestBody::None => Self::None,
            RequestBody::Arguments => Self::Arguments,
            RequestBody::Json(value) => Self::Json(node(value)?),
            RequestBody::Form(form) => Self::Form(fillings("form", form, hidden)?),
            RequestBody::Text(name) => Self::Text(name.clone()),
        })
    }

    pub(super) fn places(&self) -> Vec<String> {
        match self {
            Self::None | Self::Arguments => Vec::new(),
            Self::Json(node) => node.places(),
            Self::Form(form) => {
                let pieces = form.iter().flat_map(|(_, filled)| filled.pieces());
                places(pieces).cloned().collect()
            }
            Self::Text(name) => vec![name.clone()],
        }
    }

    pub(super) fn fill(&self, arguments: &Value) -> Option<RequestContent> {
        let content = |kind: &str, text: String| {
            Some(RequestContent {
                kind: kind.to_owned(),
                bytes: text.into_bytes(),
            })
        };
        match self {
            Self::None => None,
            Self::Arguments => content("application/json", arguments.to_string()),
            Self::Json(node) => {
                let value = node.fill(arguments).unwrap_or_default();
                content("application/json", value.to_string())
            }
            Self::Form(form) => {
                let pairs = form.iter().flat_map(|(name, filled)| {
                    let values = filled.values(arguments).into_iter();
                    values.map(move |value| (name.clone(), value))
                });
                content(FORM, form_encoded(pairs))
            }
            Self::Text(name) => {
                let text = arguments.get(name).map(text).unwrap_or_default();
                content("text/plain; charset=utf-8", text)
            }
        }
    }
}

/// The media type of forms.
pub(crate) const FORM: &str = "application/x-www-form-urlencoded";

/// Names and values as a form has them.
pub(crate) fn form_encoded(pairs: impl Iterator<Item = (String, String)>) -> String {
    let pair = |(name, value): (String, String)| {
        let [name, value] = [name, value].map(|text| encode(&text, Kept::Unreserved));
        format!("{name}={value}")
    };
    pairs.map(pair).collect::<Vec<_>>().join("&")
}

fn node(value: &Value) -> Result<Node, String> {
    Ok(match value {
        Value::String(text) => Node::Text(parse(text).ok_or_else(|| {
            format!("a brace is not closed in `{text}` of `body`; a brace itself is written {{{{ or }}}}")
        })?),
        Value::Array(list) => Node::List(list.iter().map(node).collect::<Result<_, _>>()?),
        Value::Object(members) => {
            let members = members.iter();
            let members = members.map(|(name, value)| Ok((name.clone(), node(value)?)));
            Node::Object(members.collect::<Result<_, String>>()?)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => Node::Value(value.clone()),
    })
}

impl Node {
    fn places(&self) -> Vec<String> {
        match self {
            Self::Text(pieces) => places(pieces).cloned().collect(),
            Self::List(list) => list.iter().flat_map(Self::places).collect(),
            Self::Object(members) => members.iter().flat_map(|(_, it)| it.places()).collect(),
            Self::Value(_) => Vec::new(),
        }
    }

    /// The value; nothing if it is but a place for an argument that is not there.
    fn fill(&self, arguments: &Value) -> Option<Value> {
        Some(match self {
            Self::Text(pieces) => match pieces.as_slice() {
                [Piece::Place(name)] => arguments.get(name)?.clone(),
                pieces => Value::String(join(pieces, arguments)),
            },
            Self::List(list) => list.iter().filter_map(|it| it.fill(arguments)).collect(),
            Self::Object(members) => {
                let fill = |(name, it): &(String, Self)| Some((name.clone(), it.fill(arguments)?));
                Value::Object(members.iter().filter_map(fill).collect::<Map<_, _>>())
            }
            Self::Value(value) => value.clone(),
        })
    }
}
