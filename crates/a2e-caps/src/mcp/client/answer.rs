//! What tools of MCP servers answer, and what agents of A2E get of it.

use std::borrow::Cow;

use a2e_wire::{OWN_VALUES, Raw};
use rmcp::model::{ErrorCode as RpcCode, ErrorData};
use serde_json::Value;
use strict_json::{Charset, Checked, Cursor, Limits, Scanner, push_string};

use super::streams::{Answer, PREFIX};
use crate::tool::{Output, ToolFailure};

/// An answer to a call.
pub(super) struct Reply {
    /// The number of the call.
    pub(super) id: u64,
    pub(super) answer: Answer,
}

/// A result, in its parts.
#[derive(Default)]
struct Parts<'a> {
    content: Option<Checked<'a>>,
    structured: Option<Checked<'a>>,
    has_failed: bool,
    texts: Vec<Cow<'a, str>>,
    images: Vec<Image<'a>>,
}

#[derive(Default)]
struct Image<'a> {
    data: Cow<'a, str>,
    mime_type: Cow<'a, str>,
}

/// Reads a line as the answer to a call; nothing if it is another message.
pub(super) fn reply(line: &[u8]) -> Option<Reply> {
    let text = std::str::from_utf8(line).ok()?;
    // Most others are told by this alone.
    if !text.contains("\"frith-") {
        return None;
    }
    match Scanner::new(Limits::default()).scan(text) {
        Ok(checked) => read_reply(checked),
        Err(_) => read_loosely(text),
    }
}

fn read_reply(checked: Checked<'_>) -> Option<Reply> {
    let (mut id, mut result, mut error) = (None, None, None);
    let mut cursor = Cursor::new(checked);
    let mut members = cursor.begin_object()?;
    while let Some(name) = cursor.next_member(&mut members) {
        match &*name {
            "id" => id = Some(number(&cursor.string()?)?),
            "result" => result = Some(cursor.raw().as_str()),
            "error" => error = Some(cursor.raw().as_str()),
            "method" => return None,
            _ => cursor.skip(),
        }
    }
    let answer = match (result, error) {
        (Some(result), _) => Ok(result.to_owned()),
        (None, error) => Err(refusal(error.and_then(|it| serde_json::from_str(it).ok()))),
    };
    Some(Reply { id: id?, answer })
}

/// JSON that is not taken as it is, as with a name that comes twice.
fn read_loosely(text: &str) -> Option<Reply> {
    let value: Value = serde_json::from_str(text).ok()?;
    let id = number(value.get("id")?.as_str()?)?;
    if value.get("method").is_some() {
        return None;
    }
    let answer = match value.get("result") {
        Some(result) => Ok(result.to_string()),
        None => Err(refusal(
            value
                .get("error")
                .and_then(|it| serde_json::from_value(it.clone()).ok()),
        )),
    };
    Some(Reply { id, answer })
}

fn number(id: &str) -> Option<u64> {
    id.strip_prefix(PREFIX)?.parse().ok()
}

fn refusal(error: Option<ErrorData>) -> ErrorData {
    let unclear = "it answered with neither a result nor an error";
    error.unwrap_or_else(|| ErrorData::new(RpcCode::INTERNAL_ERROR, unclear, None))
}

/// A result in the form that agents of A2E know.
pub(super) fn output(result: &str) -> Result<Output, ToolFailure> {
    let raw = Raw::parse(result, OWN_VALUES).map_err(|error| not_taken(&error))?;
    let parts = Parts::read(raw.checked()).unwrap_or_default();
    let text = parts.texts.join("\n");
    let data = String::from_utf8(parts.write(&text)).map_err(|error| not_taken(&error))?;
    let data = Raw::parse(&data, OWN_VALUES).map_err(|error| not_taken(&error))?;
    let error = parts.has_failed.then(|| match text.is_empty() {
        true => "the tool failed and does not say why".to_owned(),
        false => text,
    });
    Ok(Output {
        data: data.into_owned(),
        summary: None,
        truncated: false,
        error,
    })
}

fn not_taken(error: &dyn std::fmt::Display) -> ToolFailure {
    ToolFailure::new(format!("the result is no JSON that is taken: {error}"))
}

/// Whether a result says that the server wants to know something first.
pub(super) fn is_question(result: &str) -> bool {
    result.contains("\"input_required\"")
}

impl<'a> Parts<'a> {
    fn read(result: Checked<'a>) -> Option<Self> {
        let mut parts = Self::default();
        let mut cursor = Cursor::new(result);
        let mut members = cursor.begin_object()?;
        while let Some(name) = cursor.next_member(&mut members) {
            match &*name {
                "content" => {
                    let content = cursor.raw();
                    parts.read_content(content);
                }
                "structuredContent" => parts.structured = Some(cursor.raw()),
                "isError" => match cursor.bool() {
                    Some(has_failed) => parts.has_failed = has_failed,
                    None => cursor.skip(),
                },
                _ => cursor.skip(),
            }
        }
        Some(parts)
    }

    fn read_content(&mut self, content: Checked<'a>) {
        let mut cursor = Cursor::new(content);
        let Some(mut elements) = cursor.begin_array() else {
            return;
        };
        self.content = Some(content);
        while cursor.next_element(&mut elements).is_some() {
            let block = cursor.raw();
            self.read_block(block);
        }
    }

    fn read_block(&mut self, block: Checked<'a>) {
        let (mut kind, mut text) = (Cow::default(), Cow::default());
        let mut image = Image::default();
        let mut cursor = Cursor::new(block);
        let Some(mut members) = cursor.begin_object() else {
            return;
        };
        while let Some(name) = cursor.next_member(&mut members) {
            let place = match &*name {
                "type" => &mut kind,
                "text" => &mut text,
                "data" => &mut image.data,
                "mimeType" => &mut image.mime_type,
                _ => {
                    cursor.skip();
                    continue;
                }
            };
            match cursor.string() {
                Some(string) => *place = string,
                None => cursor.skip(),
            }
        }
        match &*kind {
            "text" => self.texts.push(text),
            "image" => self.images.push(image),
            _ => {}
        }
    }

    fn write(&self, text: &str) -> Vec<u8> {
        let content = self.content.map_or("[]", Checked::as_str);
        let room = content.len().saturating_add(text.len()).saturating_add(64);
        let mut out = Vec::with_capacity(room);
        let push = |out: &mut Vec<u8>, text: &str| push_string(out, text, Charset::Utf8);
        out.extend_from_slice(b"{\"content\":");
        out.extend_from_slice(content.as_bytes());
        for (number, image) in self.images.iter().enumerate() {
            out.extend_from_slice(match number {
                0 => b",\"images\":[{\"data\":",
                _ => b",{\"data\":",
            });
            push(&mut out, &image.data);
            out.extend_from_slice(b",\"mimeType\":");
            push(&mut out, &image.mime_type);
            out.push(b'}');
        }
        if !self.images.is_empty() {
            out.push(b']');
        }
        if let Some(structured) = self.structured {
            out.extend_from_slice(b",\"structured\":");
            out.extend_from_slice(structured.as_str().as_bytes());
        }
        out.extend_from_slice(b",\"text\":");
        push(&mut out, text);
        out.push(b'}');
        out
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(line: &str) -> Option<(u64, Result<String, String>)> {
        let Reply { id, answer } = reply(line.as_bytes())?;
        Some((id, answer.map_err(|error| error.message.to_string())))
    }

    #[test]
    fn answers_to_calls_are_told_from_other_messages() {
        let ok = |result: &str| Some((7, Ok(result.to_owned())));
        for (line, expected) in [
            (
                r#"{"jsonrpc":"2.0","id":"frith-7","result":{"content":[]}}"#,
                ok(r#"{"content":[]}"#),
            ),
            (r#"{ "result" : {} , "id" : "frith-7" }"#, ok("{}")),
            // What others of the server's readers take is taken here too.
            (
                r#"{"id":"frith-7","x":1,"x":2,"result":{"a":1}}"#,
                ok(r#"{"a":1}"#),
            ),
            (
                r#"{"id":"frith-7","error":{"code":-32602,"message":"no such tool"}}"#,
                Some((7, Err("no such tool".to_owned()))),
            ),
            (
                r#"{"id":"frith-7"}"#,
                Some((
                    7,
                    Err("it answered with neither a result nor an error".to_owned()),
                )),
            ),
            (r#"{"id":7,"result":{"content":["\"frith-7"]}}"#, None),
            (r#"{"id":"frith-x","result":{}}"#, None),
            (r#"{"id":"frith-7","method":"ping"}"#, None),
            (
                r#"{"method":"notifications/progress","params":{"progressToken":"frith-7"}}"#,
                None,
            ),
            (r#""frith-7""#, None),
            (r#"{"id":"frith-7","#, None),
        ] {
            assert_eq!(read(line), expected, "{line}");
        }
    }

    #[test]
    fn results_have_their_text_and_their_parts() {
        let result = json!({
            "content": [
                {"type": "text", "text": "one"},
                {"type": "image", "data": "aGk=", "mimeType": "image/png"},
                {"type": "of a later time", "text": "not this"},
                {"type": "text", "text": "t\"w\no"},
            ],
            "structuredContent": {"n": [1, 2]},
        });
        let made = output(&result.to_string()).unwrap();
        let data: Value = made.data.deserialize().unwrap();
        assert_eq!(data["text"], "one\nt\"w\no");
        assert_eq!(
            data["images"],
            json!([{"data": "aGk=", "mimeType": "image/png"}])
        );
        assert_eq!(data["content"], result["content"]);
        assert_eq!(data["structured"], result["structuredContent"]);
        assert_eq!(made.error, None);
    }

    #[test]
    fn a_failure_says_why_if_the_tool_does() {
        let error = |result: Value| output(&result.to_string()).unwrap().error;
        let text = json!({"isError": true, "content": [{"type": "text", "text": "no disk"}]});
        assert_eq!(error(text).as_deref(), Some("no disk"));
        assert!(error(json!({"isError": true, "content": []})).is_some());
        assert!(error(json!({"isError": true})).is_some());
        assert_eq!(error(json!({"isError": false})), None);
        assert_eq!(error(json!({"isError": "yes"})), None);
        let odd = output(r#"{"content":5}"#).unwrap().data;
        assert_eq!(odd.as_str(), r#"{"content":[],"text":""}"#);
    }
}
