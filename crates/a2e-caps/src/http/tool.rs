//! The tools, those of the toolkit `http` as well.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use a2e_runtime::BoxFuture;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::Method;
use hyper::header::{self, HeaderMap};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::client::{Answer, Ask, Client};
use super::hidden::Hidden;
use super::hosts::Hosts;
use super::target::{Target, headers};
use super::{MAX_REQUEST_BODY, MAX_URL};
use crate::tool::{Call, Definition, DefinitionError, Output, Tool, ToolFailure};

/// A tool that makes a request.
pub(crate) struct HttpTool {
    pub(crate) definition: Definition,
    pub(crate) client: Arc<Client>,
    /// The hosts it is for, if not for all.
    pub(crate) hosts: Option<Arc<Hosts>>,
    /// What is sent to those, and not shown.
    pub(crate) hidden: Hidden,
}

#[derive(Deserialize)]
struct Asked {
    url: String,
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    body: String,
    timeout_seconds: Option<u64>,
}

const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// The definition of a tool that only gets.
pub(crate) fn get(name: &str, client: &Client, whose: &str) -> Result<Definition, DefinitionError> {
    let text = format!(
        "Gets a page or file {whose} by HTTP: status, headers and body. Redirects are not followed: \
         `redirect_to` says where they lead"
    );
    let definition = Definition::own(name, text, &schema(client, &[], &["url"]))?;
    let definition = definition.read_only().volatile();
    Ok(definition.tags(["http", "web", "fetch", "download"]))
}

/// The definition of a tool that makes any request.
pub(crate) fn request(
    name: &str,
    client: &Client,
    whither: &str,
) -> Result<Definition, DefinitionError> {
    let text = format!(
        "Makes an HTTP request {whither}: gives status, headers and body. Redirects are not \
         followed: `redirect_to` says where they lead"
    );
    let more = [
        (
            "method",
            json!({"type": "string", "enum": METHODS, "description": "What to do there"}),
        ),
        (
            "body",
            json!({"type": "string", "description": format!(
                "What to send, at most {MAX_REQUEST_BODY} bytes; name its type in a header")}),
        ),
    ];
    let schema = schema(client, &more, &["url", "method"]);
    let definition = Definition::own(name, text, &schema)?;
    Ok(definition.tags(["http", "web", "api", "post"]))
}

fn schema(client: &Client, more: &[(&str, Value)], required: &[&str]) -> Value {
    let longest = client.settings.time.as_secs().max(1);
    let all = [
        (
            "url",
            json!({"type": "string", "maxLength": MAX_URL,
            "description": "Begins with http:// or https://"}),
        ),
        (
            "headers",
            json!({"type": "object", "additionalProperties": {"type": "string"},
            "description": "Headers by their names"}),
        ),
        (
            "timeout_seconds",
            json!({"type": "integer", "minimum": 1, "maximum": longest,
            "description": format!("How long it may take; {longest} unless given")}),
        ),
    ];
    let properties = all.iter().chain(more);
    let properties: Map<String, Value> = properties
        .map(|(name, value)| ((*name).to_owned(), value.clone()))
        .collect();
    json!({
        "type": "object", "additionalProperties": false,
        "required": required, "properties": properties,
    })
}

impl HttpTool {
    /// Bytes of an answer that are shown.
    fn most(&self) -> usize {
        self.client.settings.body_bytes
    }

    fn ask(&self, asked: Asked) -> Result<Ask, ToolFailure> {
        let target = Target::parse(&asked.url)?;
        let mut all = headers(&asked.headers)
            .map_err(|problem| ToolFailure::new(format!("`headers`: {problem}")))?;
        if let Some(hosts) = &self.hosts {
            for (name, value) in hosts.headers(&target, self.client.settings.reach)? {
                all.insert(name, value.clone());
            }
        }
        if asked.body.len() > MAX_REQUEST_BODY {
            let text = format!("`body` has more than {MAX_REQUEST_BODY} bytes");
            return Err(ToolFailure::new(text));
        }
        let method = asked.method.unwrap_or_else(|| "GET".into());
        let method = Method::from_bytes(method.as_bytes());
        Ok(Ask {
            target,
            method: method.map_err(|_| ToolFailure::new("`method` is none"))?,
            headers: all,
            body: asked.body.into_bytes(),
            time: asked.timeout_seconds.map(Duration::from_secs),
            reach: self.client.settings.reach,
            // More than is shown, so that a secret at the end of it is seen as a whole.
            body_bytes: self.most().saturating_add(self.hidden.beyond()),
        })
    }
}

impl Tool for HttpTool {
    fn definition(&self) -> &Definition {
        &self.definition
    }

    fn call(&self, call: Call) -> BoxFuture<'_, Result<Output, ToolFailure>> {
        Box::pin(async move {
            let ask = self.ask(call.arguments.read()?)?;
            let answer = self.client.ask(&call.caller.agent, ask).await?;
            told(answer.beyond(self.most()), &self.hidden, self.most())
        })
    }
}

/// An answer as a result.
fn told(answer: Answer, hidden: &Hidden, most: usize) -> Result<Output, ToolFailure> {
    let Answer {
        status,
        headers,
        body,
        is_cut,
    } = answer;
    uncompressed(&headers, &body)?;
    let mut data = Map::new();
    data.insert("status".into(), json!(status.as_u16()));
    let to = headers.get(header::LOCATION);
    if let Some(to) = to.filter(|_| status.is_redirection()) {
        let to = String::from_utf8_lossy(to.as_bytes()).into_owned();
        data.insert("redirect_to".into(), json!(hidden.hide(to)));
    }
    let mut listed: BTreeMap<&str, String> = BTreeMap::new();
    for (name, value) in &headers {
        let value = hidden.hide(String::from_utf8_lossy(value.as_bytes()).into_owned());
        let slot = listed.entry(name.as_str()).or_default();
        if !slot.is_empty() {
            slot.push_str(", ");
        }
        slot.push_str(&value);
    }
    data.insert("headers".into(), json!(listed));
    let (encoding, body) = shown(hidden, body, is_cut, most)?;
    data.insert("encoding".into(), json!(encoding));
    data.insert("body".into(), json!(body));
    Ok(Output::new(&Value::Object(data))?.truncated(is_cut))
}

/// Nothing is unpacked here: it could be of any size.
pub(crate) fn uncompressed(headers: &HeaderMap, body: &[u8]) -> Result<(), ToolFailure> {
    let mut encodings = headers.get_all(header::CONTENT_ENCODING).iter();
    let is_plain = encodings.all(|it| it.as_bytes().eq_ignore_ascii_case(b"identity"));
    // Without a body, as after `HEAD`, the header is about another answer.
    match is_plain || body.is_empty() {
        true => Ok(()),
        false => Err(ToolFailure::new(
            "the answer is compressed, though it was asked for as it is",
        )),
    }
}

/// So many bytes of a body as text without secrets, and how it is encoded there. What is known of
/// it beyond those is looked at too.
///
/// # Errors
/// If it is no text and has a secret in it.
pub(super) fn shown(
    hidden: &Hidden,
    mut body: Vec<u8>,
    is_cut: bool,
    most: usize,
) -> Result<(&'static str, String), ToolFailure> {
    let is_text = match std::str::from_utf8(&body) {
        Ok(_) => true,
        // It was cut in the middle of a letter.
        Err(error) => is_cut && error.error_len().is_none(),
    };
    if is_text {
        let (encoding, text) = as_text(body, is_cut);
        return Ok((encoding, hidden.hide_and_cut(text, most)));
    }
    if hidden.is_in(&body) {
        let text = "the answer repeats a secret of the request, so it is not shown";
        return Err(ToolFailure::denied("secret_in_answer", text));
    }
    // What is shown of it may be text although the rest is not.
    body.truncate(most);
    Ok(as_text(body, is_cut))
}

/// A body as text, and how it is encoded there.
fn as_text(mut body: Vec<u8>, is_cut: bool) -> (&'static str, String) {
    if is_cut
        && let Err(error) = std::str::from_utf8(&body)
        && error.error_len().is_none()
    {
        // It was cut in the middle of a character.
        body.truncate(error.valid_up_to());
    }
    match String::from_utf8(body) {
        Ok(text) => ("utf-8", text),
        Err(bytes) => ("base64", STANDARD.encode(bytes.as_bytes())),
    }
}
