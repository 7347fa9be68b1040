//! Resources and prompts of the MCP servers behind the host.

use a2e_runtime::ClientError;
use a2e_wire::messages::mcp::{
    McpContentType, McpPrompt, McpPromptGetRequest, McpPromptListRequest, McpResource,
    McpResourceContent, McpResourceListRequest, McpResourceReadRequest,
    McpResourceSubscribeRequest, McpServerListRequest,
};
use a2e_wire::{Capability, ErrorCode, Object};
use rmcp::ErrorData;
use rmcp::model::{
    GetPromptResult, JsonObject, Prompt, PromptArgument, PromptMessage, ReadResourceResult,
    Resource, ResourceContents,
};
use serde_json::{Value, json};

use super::session::{Refusal, Session};

/// Has the host tell this session what servers tell: it tells those who have asked for something.
pub(super) async fn listen(session: &Session) {
    if session.has(&Capability::Mcp) {
        // Without an answer there is nothing to hear.
        let _ = session.client.request(McpServerListRequest::new()).await;
    }
}

/// The resources that servers list.
pub(super) async fn resources(session: &Session) -> Vec<Resource> {
    if !session.has(&Capability::Mcp) {
        return Vec::new();
    }
    let listed = session.client.request(McpResourceListRequest::new()).await;
    match listed {
        Ok(listed) => listed.resources.iter().map(resource).collect(),
        Err(error) => {
            tracing::debug!(%error, "resources of MCP servers cannot be listed");
            Vec::new()
        }
    }
}

/// Reads a resource of a server.
pub(super) async fn read(session: &Session, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    if !session.has(&Capability::Mcp) {
        return Err(no_resource(uri));
    }
    let request = McpResourceReadRequest {
        uri: uri.to_owned().into(),
        ..McpResourceReadRequest::new()
    };
    let read = session.client.request(request).await;
    let read =
        read.map_err(|error| refused(error, &ErrorCode::McpResourceNotFound, no_resource(uri)))?;
    let contents = read.contents.iter().map(contents);
    Ok(ReadResourceResult::new(contents.collect()))
}

/// Has the host tell of changes of a resource.
pub(super) async fn subscribe(session: &Session, uri: &str) -> Result<(), ErrorData> {
    if !session.has(&Capability::Mcp) {
        return Err(no_resource(uri));
    }
    let request = McpResourceSubscribeRequest {
        uri: uri.to_owned().into(),
        ..McpResourceSubscribeRequest::new()
    };
    let subscribed = session.client.request(request).await;
    let subscribed = subscribed
        .map_err(|error| refused(error, &ErrorCode::McpResourceNotFound, no_resource(uri)))?;
    match subscribed.ok {
        true => Ok(()),
        false => Err(ErrorData::invalid_request(
            subscribed.error.into_owned(),
            None,
        )),
    }
}

/// The prompts that servers list.
pub(super) async fn prompts(session: &Session) -> Vec<Prompt> {
    if !session.has(&Capability::Mcp) {
        return Vec::new();
    }
    let listed = session.client.request(McpPromptListRequest::new()).await;
    match listed {
        Ok(listed) => listed.prompts.iter().map(prompt).collect(),
        Err(error) => {
            tracing::debug!(%error, "prompts of MCP servers cannot be listed");
            Vec::new()
        }
    }
}

/// A prompt of a server, with these arguments in their places.
pub(super) async fn get(
    session: &Session,
    name: &str,
    arguments: &JsonObject,
    unknown: ErrorData,
) -> Result<GetPromptResult, ErrorData> {
    if !session.has(&Capability::Mcp) {
        return Err(unknown);
    }
    let request = McpPromptGetRequest {
        name: name.to_owned().into(),
        arguments: Object::from_serialize(arguments)
            .map_err(|error| ErrorData::invalid_params(error.to_string(), None))?,
        ..McpPromptGetRequest::new()
    };
    let got = session.client.request(request).await;
    let got = got.map_err(|error| refused(error, &ErrorCode::McpPromptNotFound, unknown))?;
    if !got.error.is_empty() {
        return Err(ErrorData::invalid_params(got.error.into_owned(), None));
    }
    let messages = got.messages.iter().filter_map(|message| {
        let content: Value = message.content.raw().deserialize().ok()?;
        let message = json!({"role": &*message.role, "content": content});
        serde_json::from_value::<PromptMessage>(message).ok()
    });
    let mut result = GetPromptResult::new(messages.collect());
    result.description = text(&got.description);
    Ok(result)
}

/// What is said of a resource that is nowhere.
pub(super) fn no_resource(uri: &str) -> ErrorData {
    ErrorData::resource_not_found("there is no such resource", Some(json!({ "uri": uri })))
}

/// What a refusal of the host means; `missing` where it has not what was asked for.
fn refused(error: ClientError, code: &ErrorCode<'_>, missing: ErrorData) -> ErrorData {
    match error {
        ClientError::Host(error) if error.code == *code => missing,
        error => Refusal::from(error).into(),
    }
}

fn resource(one: &McpResource<'_>) -> Resource {
    let name = text(&one.name).unwrap_or_else(|| one.uri.clone().into_owned());
    let mut resource = Resource::new(one.uri.clone().into_owned(), name);
    resource.description = text(&one.description);
    resource.mime_type = text(&one.mime_type);
    resource
}

fn contents(one: &McpResourceContent<'_>) -> ResourceContents {
    let uri = one.uri.clone().into_owned();
    let contents = match one.kind {
        McpContentType::Blob => ResourceContents::blob(one.blob.clone().into_owned(), uri),
        _ => ResourceContents::text(one.text.clone().into_owned(), uri),
    };
    match text(&one.mime_type) {
        Some(kind) => contents.with_mime_type(kind),
        None => contents,
    }
}

fn prompt(one: &McpPrompt<'_>) -> Prompt {
    let argument = |told: &a2e_wire::messages::mcp::McpPromptArgument<'_>| {
        let mut argument = PromptArgument::new(told.name.clone().into_owned());
        argument.description = text(&told.description);
        argument.with_required(told.required)
    };
    let arguments: Vec<_> = one.arguments.iter().map(argument).collect();
    Prompt::new(
        one.name.clone().into_owned(),
        text(&one.description),
        (!arguments.is_empty()).then_some(arguments),
    )
}

/// Words, if there are any.
fn text(words: &str) -> Option<String> {
    (!words.is_empty()).then(|| words.to_owned())
}
