//! Tools of MCP servers, as tools of this host.

use std::sync::Arc;

use a2e_runtime::{BoxFuture, Session};
use a2e_wire::ErrorCode;
use canonical::Digest;
use rmcp::ServiceError;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientRequest, ContentBlock,
    ErrorCode as RpcCode, InputRequiredResult, InputResponses, JsonObject, ServerResult,
    Tool as McpDefinition,
};
use rmcp::service::PeerRequestOptions;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::calls::Asked;
use super::server::{Connection, Server};
use crate::tool::{Call, Definition, DefinitionError, Output, Tool, ToolFailure};

/// A tool of a server.
pub(super) struct McpTool {
    definition: Definition,
    hash: Digest,
    /// Its name at the server.
    name: String,
    server: Arc<Server>,
}

/// What of a pinned definition differs from tool to tool of a server.
#[derive(Deserialize)]
struct Pinned {
    name: String,
    description: String,
    input_schema: Value,
    tags: Vec<String>,
}

/// How often a server may want to know something before it answers a call.
const MAX_ROUNDS: usize = 8;

impl McpTool {
    /// A tool as a server describes it, under a name that no other server's tool has.
    pub(super) fn new(server: &Arc<Server>, told: &McpDefinition) -> Result<Self, DefinitionError> {
        let mut schema = (*told.input_schema).clone();
        schema
            .entry("type")
            .or_insert_with(|| Value::from("object"));
        let id = server.name();
        let description = told.description.as_deref().unwrap_or_default();
        let mut tags = vec!["mcp".to_owned(), id.to_owned()];
        let own_name = server.told().name.clone();
        if !own_name.is_empty() && own_name != id {
            tags.push(own_name);
        }
        let definition = Definition::new(
            format!("{id}__{}", told.name),
            format!("[MCP:{id}] {description}"),
            &Value::Object(schema),
        )?;
        let definition = definition.tags(tags).streaming();
        Ok(Self::of(server, definition, told.name.clone().into_owned()))
    }

    /// A tool as the server described it when it was approved; nothing if that was another server.
    pub(super) fn recalled(server: &Arc<Server>, text: &str) -> Option<Self> {
        let pinned: Pinned = serde_json::from_str(text).ok()?;
        let name = pinned.name.strip_prefix(server.name())?;
        let name = name.strip_prefix("__")?.to_owned();
        let definition = Definition::new(pinned.name, pinned.description, &pinned.input_schema);
        let definition = definition.ok()?.tags(pinned.tags).streaming();
        let is_all = definition.pinned_text(None) == text;
        is_all.then(|| Self::of(server, definition, name))
    }

    fn of(server: &Arc<Server>, definition: Definition, name: String) -> Self {
        Self {
            hash: definition.hash(),
            definition,
            name,
            server: Arc::clone(server),
        }
    }

    /// Its name at the server.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The server may have been started for this call, or anew: then it says again what its tools are,
    /// and this one must be what was approved.
    fn check(&self) -> Result<(), ToolFailure> {
        let name = self.definition.name();
        let (code, text) = match self.server.told().offered.get(name) {
            Some(offered) if *offered == self.hash => return Ok(()),
            Some(_) => (
                ErrorCode::ToolDenied,
                format!(
                    "`{name}` is not what the operator has approved; `frith tools pending` shows the \
                     operator what it is now, and how to approve that"
                ),
            ),
            None => (
                ErrorCode::McpToolNotFound,
                format!(
                    "`{}` has no tool `{}` any more",
                    self.server.name(),
                    self.name
                ),
            ),
        };
        Err(ToolFailure::with_code(code, text))
    }
}

impl Tool for McpTool {
    fn definition(&self) -> &Definition {
        &self.definition
    }

    fn call(&self, call: Call) -> BoxFuture<'_, Result<Output, ToolFailure>> {
        Box::pin(async move {
            let connection = self.server.connection().await.map_err(|error| {
                ToolFailure::with_code(ErrorCode::McpServerUnavailable, error.to_string())
            })?;
            self.check()?;
            let result = self.server.call(&connection, &self.name, &call).await?;
            output(result)
        })
    }
}

impl Server {
    async fn call(
        self: &Arc<Self>,
        connection: &Connection,
        name: &str,
        call: &Call,
    ) -> Result<CallToolResult, ToolFailure> {
        let arguments: JsonObject = call.arguments.read()?;
        let mut params = CallToolRequestParams::new(name.to_owned()).with_arguments(arguments);
        let _place = self.calls.enter(call.progress.session());
        for _ in 0..MAX_ROUNDS {
            let answer = self.ask(connection, params.clone(), call).await;
            match answer.map_err(|error| self.failure(name, &error))? {
                ServerResult::CallToolResult(result) => return Ok(result),
                ServerResult::InputRequiredResult(wanted) => {
                    params.request_state.clone_from(&wanted.request_state);
                    let inputs = inputs(connection, wanted, call.progress.session()).await;
                    params.input_responses = Some(inputs.map_err(|error| {
                        ToolFailure::with_code(ErrorCode::McpProtocolError, error.message)
                    })?);
                }
                _ => break,
            }
        }
        let text = format!("`{name}` was answered with something that is no result of a tool");
        Err(ToolFailure::with_code(ErrorCode::McpProtocolError, text))
    }

    /// Asks once. Whoever drops this cancels it at the server.
    async fn ask(
        &self,
        connection: &Connection,
        params: CallToolRequestParams,
        call: &Call,
    ) -> Result<ServerResult, ServiceError> {
        let peer = connection.peer();
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let options = PeerRequestOptions::no_options();
        let started = std::time::Instant::now();
        let handle = peer.send_cancellable_request(request, options).await?;
        let listening = self.calls.listen(handle.progress_token.clone());
        let asked = Asked::new(peer.clone(), handle.id.clone());
        let timeout = self.settings.timeout;
        let answer = handle.await_response();
        let answer = listening.wait(answer, timeout, &call.progress).await;
        let answer = answer.ok_or(ServiceError::Timeout { timeout })?;
        asked.answered();
        self.told().round_trip = started.elapsed();
        answer
    }

    fn failure(&self, name: &str, error: &ServiceError) -> ToolFailure {
        let server = self.name();
        let (code, text) = match error {
            // Nothing was done.
            ServiceError::TransportSend(_) if self.advice().is_some() => (
                ErrorCode::McpServerUnavailable,
                format!(
                    "`{server}` refused `{name}`: {}",
                    self.advice().unwrap_or_default()
                ),
            ),
            ServiceError::McpError(error) if error.code == RpcCode::INVALID_PARAMS => (
                ErrorCode::McpToolNotFound,
                format!(
                    "`{server}` does not take this call of `{name}`: {}",
                    error.message
                ),
            ),
            ServiceError::McpError(error) => (
                ErrorCode::McpProtocolError,
                format!("`{server}` refused `{name}`: {}", error.message),
            ),
            ServiceError::Timeout { timeout } => (
                ErrorCode::McpServerUnavailable,
                format!("`{server}` did not answer within {} s", timeout.as_secs()),
            ),
            ServiceError::TransportClosed | ServiceError::TransportSend(_) => (
                ErrorCode::McpServerUnavailable,
                format!("`{server}` went away during the call; whether it was done is not known"),
            ),
            other => (
                ErrorCode::McpProtocolError,
                format!("`{server}` could not be asked: {other}"),
            ),
        };
        ToolFailure::with_code(code, text)
    }
}

/// What a server wants to know before it answers.
async fn inputs(
    connection: &Connection,
    wanted: InputRequiredResult,
    caller: Option<&Arc<Session>>,
) -> Result<InputResponses, rmcp::ErrorData> {
    let mut inputs = InputResponses::new();
    for (key, request) in wanted.input_requests.unwrap_or_default() {
        let input = connection.handler().input(&key, request, caller).await?;
        inputs.insert(key, input);
    }
    Ok(inputs)
}

/// A result in the form that agents of A2E know.
fn output(result: CallToolResult) -> Result<Output, ToolFailure> {
    let texts = result.content.iter().filter_map(ContentBlock::as_text);
    let texts: Vec<&str> = texts.map(|text| text.text.as_str()).collect();
    let text = texts.join("\n");
    let mut data = Map::new();
    data.insert("content".into(), json!(result.content));
    let images: Vec<Value> = result
        .content
        .iter()
        .filter_map(ContentBlock::as_image)
        .map(|image| json!({"data": image.data, "mimeType": image.mime_type}))
        .collect();
    if !images.is_empty() {
        data.insert("images".into(), images.into());
    }
    if let Some(structured) = result.structured_content {
        data.insert("structured".into(), structured);
    }
    let error = result
        .is_error
        .unwrap_or_default()
        .then(|| match text.is_empty() {
            true => "the tool failed and does not say why".to_owned(),
            false => text.clone(),
        });
    data.insert("text".into(), text.into());
    Ok(Output {
        error,
        ..Output::new(&Value::Object(data))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_their_text_and_their_parts() {
        let mut result = CallToolResult::success(vec![
            ContentBlock::text("one"),
            ContentBlock::image("aGk=", "image/png"),
            ContentBlock::text("two"),
        ]);
        let made = output(result.clone()).unwrap();
        let data: Value = made.data.deserialize().unwrap();
        assert_eq!(data["text"], "one\ntwo");
        assert_eq!(data["images"][0]["mimeType"], "image/png");
        assert_eq!(data["content"].as_array().unwrap().len(), 3);
        assert_eq!(made.error, None);
        result.is_error = Some(true);
        assert_eq!(output(result).unwrap().error.as_deref(), Some("one\ntwo"));
        let silent = CallToolResult::error(Vec::new());
        assert!(output(silent).unwrap().error.is_some());
    }
}
