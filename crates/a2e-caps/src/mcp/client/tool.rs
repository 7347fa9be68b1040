//! Tools of MCP servers, as tools of this host.

use std::fmt::Write as _;
use std::sync::Arc;

use a2e_runtime::{BoxFuture, Session};
use a2e_wire::{ErrorCode, Raw};
use canonical::Digest;
use rmcp::ServiceError;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, ErrorCode as RpcCode,
    InputRequiredResult, InputResponses, JsonObject, NumberOrString, ProgressToken, ServerResult,
    Tool as McpDefinition,
};
use rmcp::service::PeerRequestOptions;
use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::{is_question, output};
use super::calls::{Place, RequestGuard};
use super::server::{Connection, Server};
use super::streams::Direct;
use crate::tool::{
    Call, Definition, DefinitionError, Output, Tool, ToolConfiguration, ToolFailure,
};

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

    fn configuration(&self) -> Option<ToolConfiguration> {
        Some(self.server.configuration.clone())
    }

    fn call(&self, call: Call) -> BoxFuture<'_, Result<Output, ToolFailure>> {
        Box::pin(async move {
            let connection = self.server.connection().await.map_err(|error| {
                ToolFailure::with_code(ErrorCode::McpServerUnavailable, error.to_string())
            })?;
            self.check()?;
            let result = self.server.call(&connection, &self.name, &call).await?;
            output(&result)
        })
    }
}

/// What a server is asked for, and has been told beside it.
struct Question<'a> {
    name: &'a str,
    arguments: &'a Raw<'static>,
    /// What the server has said that it wants to be told again,
    state: Option<String>,
    /// and what it wanted to know.
    inputs: Option<InputResponses>,
}

/// What comes of a question.
enum Answer {
    /// A result, as it was written.
    Result(String),
    Wanted(InputRequiredResult),
    Other,
}

impl Server {
    /// Calls a tool: gives its result, as it was written.
    async fn call(
        self: &Arc<Self>,
        connection: &Connection,
        name: &str,
        call: &Call,
    ) -> Result<String, ToolFailure> {
        let mut question = Question {
            name,
            arguments: call.arguments.raw(),
            state: None,
            inputs: None,
        };
        let place = self.calls.enter(call.progress.session())?;
        for _ in 0..MAX_ROUNDS {
            let started = std::time::Instant::now();
            let answer = match &connection.direct {
                Some(direct) => {
                    let asked = RequestGuard::new(&place, self.settings.timeout, &connection.ended);
                    self.ask_directly(connection, direct, asked, &question, call)
                        .await
                }
                None => self.ask(connection, &place, &question, call).await,
            };
            let answer = answer.map_err(|error| self.failure(name, &error))?;
            self.told().round_trip = started.elapsed();
            match answer {
                Answer::Result(result) => return Ok(result),
                Answer::Wanted(wanted) => {
                    question.state.clone_from(&wanted.request_state);
                    let inputs = inputs(connection, wanted, call.progress.session()).await;
                    question.inputs = Some(inputs.map_err(|error| {
                        ToolFailure::with_code(ErrorCode::McpProtocolError, error.message)
                    })?);
                }
                Answer::Other => break,
            }
        }
        let text = format!("`{name}` was answered with something that is no result of a tool");
        Err(ToolFailure::with_code(ErrorCode::McpProtocolError, text))
    }

    /// Asks once, over the streams of a program. Whoever drops this cancels it at the server.
    async fn ask_directly(
        &self,
        connection: &Connection,
        direct: &Arc<Direct>,
        asked: RequestGuard,
        question: &Question<'_>,
        call: &Call,
    ) -> Result<Answer, ServiceError> {
        let begun = direct.begin();
        let Some(begun) = begun else {
            asked.finish();
            return Err(ServiceError::TransportClosed);
        };
        let line = question.line(&begun.id(), &connection.meta);
        let id = NumberOrString::String(begun.id().into());
        let listening = self.calls.listen(ProgressToken(id.clone()));
        let sending = begun.send(line);
        let asked = asked.heard_by(listening, connection.peer(), id);
        let mut asked = asked.begun(begun);
        let timeout = self.settings.timeout;
        match tokio::time::timeout(timeout, sending).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => {
                asked.finish();
                return Err(ServiceError::TransportClosed);
            }
            // The program does not read; some of the call may have reached it.
            Err(_) => return Err(ServiceError::Timeout { timeout }),
        }
        let answer = asked.wait_begun(&call.progress).await;
        let answer = answer.ok_or(ServiceError::Timeout { timeout })?;
        asked.finish();
        let result = answer
            .ok_or(ServiceError::TransportClosed)?
            .map_err(ServiceError::McpError)?;
        if is_question(&result)
            && let Ok(wanted) = serde_json::from_str(&result)
        {
            return Ok(Answer::Wanted(wanted));
        }
        Ok(match result.starts_with('{') {
            true => Answer::Result(result),
            false => Answer::Other,
        })
    }

    /// Asks once, by rmcp. Whoever drops this cancels it at the server.
    async fn ask(
        &self,
        connection: &Connection,
        place: &Arc<Place>,
        question: &Question<'_>,
        call: &Call,
    ) -> Result<Answer, ServiceError> {
        let peer = connection.peer();
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(question.params()));
        let options = PeerRequestOptions::no_options();
        let handle = peer.send_cancellable_request(request, options).await?;
        let listening = self.calls.listen(handle.progress_token.clone());
        let timeout = self.settings.timeout;
        let asked = RequestGuard::new(place, timeout, &connection.ended);
        let asked = asked.heard_by(listening, peer, handle.id.clone());
        let answer = handle.await_response();
        let answer = asked.wait(answer, &call.progress).await;
        let answer = answer.ok_or(ServiceError::Timeout { timeout })?;
        asked.finish();
        Ok(match answer? {
            ServerResult::CallToolResult(result) => match serde_json::to_string(&result) {
                Ok(result) => Answer::Result(result),
                Err(_) => Answer::Other,
            },
            ServerResult::InputRequiredResult(wanted) => Answer::Wanted(wanted),
            _ => Answer::Other,
        })
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
        let failure = ToolFailure::with_code(code, text);
        match error {
            ServiceError::TransportSend(_) if self.advice().is_some() => failure,
            ServiceError::Timeout { .. }
            | ServiceError::TransportClosed
            | ServiceError::TransportSend(_) => failure.uncertain(),
            _ => failure,
        }
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

impl Question<'_> {
    /// As rmcp has it.
    fn params(&self) -> CallToolRequestParams {
        let arguments: JsonObject = self.arguments.deserialize().unwrap_or_default();
        let mut params = CallToolRequestParams::new(self.name.to_owned()).with_arguments(arguments);
        params.request_state.clone_from(&self.state);
        params.input_responses.clone_from(&self.inputs);
        params
    }

    /// As a message. `meta` is what all requests of the connection say of it.
    fn line(&self, id: &str, meta: &str) -> Vec<u8> {
        let name = json!(self.name);
        let mut line = format!(
            r#"{{"jsonrpc":"2.0","id":"{id}","method":"tools/call","params":{{"_meta":{{{meta}"progressToken":"{id}"}},"name":{name},"arguments":"#
        );
        line.push_str(self.arguments.as_str());
        if let Some(state) = &self.state {
            let _ = write!(line, r#","requestState":{}"#, json!(state));
        }
        if let Some(inputs) = &self.inputs {
            let _ = write!(line, r#","inputResponses":{}"#, json!(inputs));
        }
        line.push_str("}}");
        line.into_bytes()
    }
}
