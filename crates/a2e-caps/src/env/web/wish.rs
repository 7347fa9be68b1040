//! What is done on a page.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::super::environment::{Action, EnvError};

#[derive(Deserialize)]
struct Asked {
    action_type: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    action: Option<usize>,
    #[serde(flatten)]
    parts: Parts,
    payload: Option<Payload>,
}

#[derive(Deserialize, Default)]
struct Parts {
    url: Option<String>,
    link: Option<usize>,
    form: Option<usize>,
    #[serde(default)]
    fields: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Payload {
    Parts(Parts),
    /// `[]`, which some agents send for nothing.
    Other(serde::de::IgnoredAny),
}

/// What somebody wants to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Open(String),
    Follow(usize),
    Submit(usize, BTreeMap<String, String>),
    Back,
}

/// Reads an action.
pub(super) fn wish(action: &Action) -> Result<Wish, EnvError> {
    let asked: Asked = action.read()?;
    let parts = match asked.payload {
        Some(Payload::Parts(parts)) => parts,
        Some(Payload::Other(_)) | None => asked.parts,
    };
    let verb = asked.action_type.or(asked.kind);
    let wish = match verb.as_deref() {
        Some("open") => parts.url.map(Wish::Open),
        Some("follow") => parts.link.map(Wish::Follow),
        Some("submit") => parts.form.map(|form| Wish::Submit(form, parts.fields)),
        Some("back") => Some(Wish::Back),
        None => asked.action.map(Wish::Follow),
        Some(_) => None,
    };
    wish.ok_or_else(|| {
        let text = "an action is {\"type\": \"open\", \"url\": URL}, {\"type\": \"follow\", \"link\": \
                    NUMBER}, {\"type\": \"submit\", \"form\": NUMBER, \"fields\": {…}} or \
                    {\"type\": \"back\"}";
        EnvError::Wrong(text.to_owned())
    })
}
