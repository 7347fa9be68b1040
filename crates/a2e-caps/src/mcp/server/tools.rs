//! The tools of a host: listed and called.

use std::sync::Arc;
use std::time::Duration;

use a2e_runtime::{ClientError, Handler};
use a2e_wire::messages::tool::{ToolCallRequest, ToolDefinition, ToolListRequest, ToolResult};
use a2e_wire::{Capability, ErrorCode, Object};
use rmcp::ErrorData;
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::progress::Reporter;
use super::session::{Refusal, Session};
use super::wording::for_mcp;
use super::{own, resources};
use crate::tool::schema_of;

/// How long a call may take without an event of its own, in seconds.
const TIMEOUT: u32 = 600;

/// Events that wait to be told. A client that is slower misses some.
const EVENTS: usize = 64;

/// All that can be called: the tools that are listed, and the other capabilities as tools.
pub(super) async fn list(session: &Session) -> Result<Vec<Tool>, ErrorData> {
    let mut tools = own::list(session).await;
    if !session.has(&Capability::Tools) {
        return Ok(tools);
    }
    let request = session.client.request(ToolListRequest::new());
    let listed = request.await.map_err(Refusal::from)?.tools;
    let known: Vec<_> = tools.iter().map(|tool| tool.name.clone()).collect();
    let others = listed.iter().filter(|tool| !known.contains(&tool.name));
    tools.extend(others.map(listed_as));
    Ok(tools)
}

/// Calls a tool, and tells of its events.
pub(super) async fn call(
    session: &Session,
    name: &str,
    arguments: JsonObject,
    mut reporter: Option<Reporter>,
) -> Result<CallToolResult, ErrorData> {
    let arguments = Object::from_serialize(&arguments)
        .map_err(|error| ErrorData::invalid_params(error.to_string(), None))?;
    let request = ToolCallRequest {
        tool_name: name.to_owned().into(),
        arguments,
        streaming: reporter.is_some(),
        timeout: TIMEOUT.into(),
        ..ToolCallRequest::new()
    };
    let (events, mut heard) = mpsc::channel(EVENTS);
    let handler = match reporter {
        Some(_) => Handler::new(move |event| drop(events.try_send(event))),
        None => Handler::none(),
    };
    let asking = session.client.request(request).event_callback(handler);
    let asking = asking.timeout(Duration::from_secs(u64::from(TIMEOUT).saturating_add(5)));
    let mut answer = asking.into_future();
    let answered = loop {
        tokio::select! {
            biased;
            Some(event) = heard.recv() => {
                if let Some(reporter) = &mut reporter {
                    reporter.tell(&event).await;
                }
            }
            answered = &mut answer => break answered,
        }
    };
    // What came just before the answer.
    while let (Ok(event), Some(reporter)) = (heard.try_recv(), &mut reporter) {
        reporter.tell(&event).await;
    }
    match answered {
        Ok(answer) => Ok(result(session, answer.data)),
        Err(ClientError::Host(error)) if error.code == ErrorCode::UnknownTool => {
            Err(ErrorData::invalid_params(for_mcp(&error.message), None))
        }
        Err(error) => refused(error.into()),
    }
}

/// What the host refuses is for the model to read; only what breaks is an error of the protocol.
pub(super) fn refused(refusal: Refusal) -> Result<CallToolResult, ErrorData> {
    let Refusal::Host(ClientError::Host(error)) = &refusal else {
        return Err(refusal.into());
    };
    let message = for_mcp(&error.message);
    let told = json!({
        "code": error.code.as_str(),
        "message": message,
        "retryable": error.retryable,
        "detail": error.detail.raw().deserialize::<Value>().unwrap_or_default(),
    });
    let text = format!("{}: {message}", error.code.as_str());
    let mut result = CallToolResult::error(vec![ContentBlock::text(text)]);
    result.structured_content = Some(json!({ "error": told }));
    Ok(result)
}

/// A result in words and as it is.
pub(super) fn told(data: Value) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(text_of(&data))]);
    result.structured_content = data.is_object().then_some(data);
    result
}

fn result(session: &Session, result: ToolResult<'_>) -> CallToolResult {
    let data = result
        .data
        .and_then(|data| data.deserialize::<Value>().ok());
    let data = data.unwrap_or_default();
    let mut content = Vec::new();
    if let Some(error) = &result.error {
        content.push(ContentBlock::text(error.clone()));
    }
    match foreign(&data) {
        Some(foreign) => content.extend(foreign),
        None if data.is_null() => {}
        None => content.push(ContentBlock::text(text_of(&data))),
    }
    for artifact in resources::artifacts(&data) {
        resources::note(session, &artifact);
        content.push(ContentBlock::resource_link(artifact));
    }
    let mut told = CallToolResult::success(content);
    told.is_error = Some(!result.success);
    told.structured_content = data.is_object().then_some(data);
    told
}

/// What another MCP server gave, as it gave it.
fn foreign(data: &Value) -> Option<Vec<ContentBlock>> {
    data.get("text")?.as_str()?;
    let content = data.get("content")?.as_array()?;
    let blocks = content.iter().cloned().map(serde_json::from_value);
    blocks.collect::<Result<_, _>>().ok()
}

fn text_of(data: &Value) -> String {
    match data {
        Value::String(text) => text.clone(),
        data => data.to_string(),
    }
}

fn listed_as(tool: &ToolDefinition<'_>) -> Tool {
    let annotations = ToolAnnotations::new().idempotent(tool.idempotent);
    Tool::new(
        tool.name.clone().into_owned(),
        tool.description.clone().into_owned(),
        Arc::new(schema_of(tool)),
    )
    .with_annotations(annotations)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::Definition;

    /// What a definition says in parameters is what its schema says.
    #[test]
    fn parameters_become_a_schema_again() {
        let schema = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "Where"},
                "kind": {"type": "string", "enum": ["a", "b"]},
                "deep": {
                    "type": "object",
                    "properties": {"size": {"type": "integer"}},
                    "required": ["size"],
                },
            },
            "required": ["path"],
        });
        let definition = Definition::new("look", "Looks", &schema).unwrap().to_wire();
        assert!(definition.input_schema.is_none());
        let tool = listed_as(&definition);
        assert_eq!(Value::Object((*tool.input_schema).clone()), schema);
    }

    #[test]
    fn a_schema_that_is_more_goes_along_whole() {
        let schema = json!({
            "type": "object",
            "properties": {"size": {"type": "integer", "minimum": 1}},
        });
        let definition = Definition::new("look", "Looks", &schema).unwrap().to_wire();
        let tool = listed_as(&definition);
        assert_eq!(Value::Object((*tool.input_schema).clone()), schema);
    }

    #[test]
    fn content_of_other_servers_stays_what_it_is() {
        let picture = json!({"type": "image", "data": "aGk=", "mimeType": "image/png"});
        let data = json!({"content": [picture], "text": ""});
        let blocks = foreign(&data).unwrap();
        assert!(blocks[0].as_image().is_some());
        for other in [
            json!({"content": ["plain"], "text": ""}),
            json!({"content": [picture]}),
            json!("text"),
        ] {
            assert!(foreign(&other).is_none(), "{other}");
        }
    }
}
