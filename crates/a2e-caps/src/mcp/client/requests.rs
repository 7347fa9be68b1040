//! The requests of the capability `mcp`.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use a2e_runtime::config::{McpCommand, McpPlace, McpServer, McpUrl, Network, is_server_name};
use a2e_runtime::{BoxFuture, Context, Failure, Secret};
use a2e_wire::messages::mcp::{
    McpContentType, McpPrompt, McpPromptArgument, McpPromptGetRequest, McpPromptGetResponse,
    McpPromptListRequest, McpPromptListResponse, McpPromptMessage, McpResource, McpResourceContent,
    McpResourceListRequest, McpResourceListResponse, McpResourceReadRequest,
    McpResourceReadResponse, McpResourceSubscribeRequest, McpResourceSubscribeResponse, McpRoot,
    McpRootListRequest, McpRootListResponse, McpServerConfig, McpServerListRequest,
    McpServerListResponse, McpServerRegisterRequest, McpServerRegisterResponse,
    McpServerUnregisterRequest, McpServerUnregisterResponse, McpTransport,
};
use a2e_wire::wire::{Encode, encoded_size};
use a2e_wire::{ErrorCode, Namespace, Object};
use rmcp::ServiceError;
use rmcp::model::{
    GetPromptRequestParams, Prompt, ReadResourceRequestParams, Resource, ResourceContents,
};
use serde_json::json;
use tokio::sync::OwnedMutexGuard;

use super::Mcp;
use super::calls::RequestGuard;
use super::chosen::Chosen;
use super::lists::MAX_LISTED_BYTES;
use super::server::{Connection, Server, Unavailable};

impl Mcp {
    pub(super) async fn register(
        &self,
        request: McpServerRegisterRequest<'static>,
        context: &Context,
    ) -> Result<McpServerRegisterResponse<'static>, Failure> {
        let settings = self.settings(&request.config)?;
        let agent = &context.identity().agent;
        let added = self.fleet.add(context.session(), settings);
        let server = added.map_err(|error| {
            Failure::new(ErrorCode::InvalidMessage, Namespace::Mcp, error.to_string())
        })?;
        if let Err(error) = server.connection().await {
            self.fleet.remove(agent, server.name());
            server.release().await;
            return Err(failed(ErrorCode::McpTransportError, error.why()));
        }
        Ok(McpServerRegisterResponse {
            ok: true,
            server: a2e_wire::lenient::OrEmpty(Some(server.info())),
            error: Cow::Borrowed(""),
        })
    }

    /// What an agent says of a server, if it may be so.
    fn settings(&self, config: &McpServerConfig<'_>) -> Result<McpServer, Failure> {
        let wrong = |text: &str| failed(ErrorCode::InvalidMessage, text);
        let id = config.server_id.as_str();
        if !is_server_name(id) {
            return Err(wrong(
                "`server_id`, or `name` without it, must be 1 to 64 letters, digits, `-`, `.` and single `_`, \
                 not signs alone",
            ));
        }
        if config.name.len() > MAX_TITLE {
            let text = format!("`name` may have {MAX_TITLE} bytes");
            return Err(wrong(&text));
        }
        let pairs = |map: &a2e_wire::Map<'_, Cow<'_, str>>| {
            let pairs = map.iter();
            let pairs = pairs.map(|(name, value)| (name.to_owned(), Secret::new(value.as_ref())));
            pairs.collect::<Vec<_>>()
        };
        let at = || McpUrl {
            headers: pairs(&config.headers),
            ..McpUrl::new(config.url.clone().into_owned())
        };
        let place = match &config.transport {
            McpTransport::Stdio => {
                let words = config.cmd.iter().map(|word| word.clone().into_owned());
                let mut command = McpCommand::new(words.collect());
                command.env = pairs(&config.env);
                let cwd = self.fleet.ground.workplace.cwd(&config.cwd);
                command.cwd = Some(cwd.map_err(|text| wrong(&text))?);
                command.network = Network::None;
                McpPlace::Command(command)
            }
            McpTransport::Http => McpPlace::Http(at()),
            McpTransport::Sse => McpPlace::Sse(at()),
            other => {
                let text = format!(
                    "the transport `{}` is not served: use stdio, http or sse",
                    other.as_str()
                );
                return Err(failed(ErrorCode::McpTransportError, &text));
            }
        };
        let mut server = McpServer::new(id.to_owned(), place);
        server.title = (!config.name.is_empty()).then(|| config.name.to_string());
        if let Some(seconds) = u64::try_from(config.timeout).ok().filter(|it| *it > 0) {
            server.timeout = Duration::from_secs(seconds.min(MAX_TIMEOUT));
        }
        server.auto_reconnect = config.auto_reconnect;
        let owned =
            |list: &Vec<Cow<'_, str>>| list.iter().map(|it| it.clone().into_owned()).collect();
        server.tools = owned(&config.tool_allow_list);
        server.resources = owned(&config.resource_allow_list);
        Ok(server)
    }

    pub(super) fn list(
        &self,
        request: &McpServerListRequest<'_>,
        context: &Context,
    ) -> McpServerListResponse<'static> {
        let servers = self.fleet.of(&context.identity().agent);
        let infos = servers.iter().map(|server| server.info());
        let wanted = request.status_filter.as_str();
        let infos = infos.filter(|info| wanted.is_empty() || info.status.as_str() == wanted);
        McpServerListResponse {
            servers: infos.collect(),
        }
    }

    pub(super) async fn unregister(
        &self,
        request: McpServerUnregisterRequest<'static>,
        context: &Context,
    ) -> Result<McpServerUnregisterResponse<'static>, Failure> {
        let (agent, id) = (&context.identity().agent, request.server_id.as_str());
        if let Some(server) = self.fleet.remove(agent, id) {
            server.release().await;
            return Ok(McpServerUnregisterResponse {
                ok: true,
                server_id: request.server_id,
            });
        }
        let is_operators = self
            .fleet
            .of(agent)
            .iter()
            .any(|server| server.name() == id);
        Err(match is_operators {
            true => failed(
                ErrorCode::Unauthorized,
                "this server is the operator's: it is in the configuration",
            ),
            false => no_server(id),
        })
    }

    pub(super) async fn resources(
        &self,
        request: McpResourceListRequest<'static>,
        context: &Context,
    ) -> Result<McpResourceListResponse<'static>, Failure> {
        let asked = self.asked(request.server_id.as_str(), context).await?;
        let mut answer = ListAnswer::default();
        let _turn = self.take_turn(context).await;
        for (server, connection) in from(asked, &request.cursor)? {
            let listed = counted(&server, &connection, context, connection.resources());
            let Ok(listed) = listed.await? else {
                continue;
            };
            let listed = listed.into_iter().filter(|one| server.lets_through(one));
            if !answer.add(&server, listed.map(|one| resource(&server, one))) {
                break;
            }
        }
        Ok(McpResourceListResponse {
            resources: answer.items,
            next_cursor: answer.next.into(),
        })
    }

    pub(super) async fn read(
        &self,
        request: McpResourceReadRequest<'static>,
        context: &Context,
    ) -> Result<McpResourceReadResponse<'static>, Failure> {
        let (server, connection) = self
            .with_resource(request.server_id.as_str(), &request.uri, context)
            .await?;
        let params = ReadResourceRequestParams::new(request.uri.into_owned());
        let read = server.in_time(connection.peer().read_resource(params));
        let read = counted(&server, &connection, context, read).await?;
        let read =
            read.map_err(|error| service_failed(&server, &error, ErrorCode::McpResourceNotFound))?;
        Ok(McpResourceReadResponse {
            contents: read.contents.into_iter().map(content).collect(),
            server_id: server.name().to_owned().into(),
            error: Cow::Borrowed(""),
        })
    }

    pub(super) async fn subscribe(
        &self,
        request: McpResourceSubscribeRequest<'static>,
        context: &Context,
    ) -> Result<McpResourceSubscribeResponse<'static>, Failure> {
        let (server, connection) = self
            .with_resource(request.server_id.as_str(), &request.uri, context)
            .await?;
        let subscriber = server.add_subscriber(context.session(), &request.uri);
        let subscriber = subscriber.map_err(|exceeded| {
            let text = format!(
                "`{}`: {exceeded}; close a session that is subscribed to what it no longer needs",
                server.name()
            );
            failed(ErrorCode::RuntimeError, &text)
        })?;
        let subscribed = server.in_time(server.subscribe(&connection, &request.uri));
        let subscribed = counted(&server, &connection, context, subscribed).await?;
        subscribed
            .map_err(|error| service_failed(&server, &error, ErrorCode::McpResourceNotFound))?;
        subscriber.keep();
        Ok(McpResourceSubscribeResponse {
            ok: true,
            error: Cow::Borrowed(""),
        })
    }

    pub(super) async fn prompts(
        &self,
        request: McpPromptListRequest<'static>,
        context: &Context,
    ) -> Result<McpPromptListResponse<'static>, Failure> {
        let asked = self.asked(request.server_id.as_str(), context).await?;
        let mut answer = ListAnswer::default();
        let _turn = self.take_turn(context).await;
        for (server, connection) in from(asked, &request.cursor)? {
            let listed = counted(&server, &connection, context, connection.prompts());
            let listed = listed.await?.unwrap_or_default();
            if !answer.add(&server, listed.into_iter().map(|one| prompt(&server, one))) {
                break;
            }
        }
        Ok(McpPromptListResponse {
            prompts: answer.items,
            next_cursor: answer.next.into(),
        })
    }

    pub(super) async fn prompt(
        &self,
        request: McpPromptGetRequest<'static>,
        context: &Context,
    ) -> Result<McpPromptGetResponse<'static>, Failure> {
        let asked = self.asked(request.server_id.as_str(), context).await?;
        let turn = self.take_turn(context).await;
        let mut found = None;
        for (server, connection) in asked {
            let listed = counted(&server, &connection, context, connection.prompts());
            let listed = listed.await?.unwrap_or_default();
            if !request.server_id.is_empty() || listed.iter().any(|one| *one.name == *request.name)
            {
                found = Some((server, connection));
                break;
            }
        }
        drop(turn);
        let missing = || {
            failed(
                ErrorCode::McpPromptNotFound,
                "no server has a prompt of this name",
            )
        };
        let (server, connection) = found.ok_or_else(missing)?;
        let mut params = GetPromptRequestParams::new(request.name.clone().into_owned());
        params.arguments = request.arguments.raw().deserialize().ok();
        let got = server.in_time(connection.peer().get_prompt(params));
        let got = counted(&server, &connection, context, got).await?;
        let got =
            got.map_err(|error| service_failed(&server, &error, ErrorCode::McpPromptNotFound))?;
        let messages = got.messages.iter().filter_map(|message| {
            let message = json!(message);
            Some(McpPromptMessage {
                role: message["role"].as_str()?.to_owned().into(),
                content: Object::from_serialize(&message["content"]).ok()?,
            })
        });
        Ok(McpPromptGetResponse {
            description: got.description.unwrap_or_default().into(),
            messages: messages.collect(),
            server_id: server.name().to_owned().into(),
            error: Cow::Borrowed(""),
        })
    }

    pub(super) fn roots(
        &self,
        request: McpRootListRequest<'static>,
        context: &Context,
    ) -> McpRootListResponse<'static> {
        let servers = self.fleet.of(&context.identity().agent);
        let server = servers
            .iter()
            .find(|it| it.name() == request.server_id.as_str());
        let roots = match server {
            Some(server) => server.roots(),
            None => vec![self.fleet.ground.workspace()],
        };
        McpRootListResponse {
            server_id: request.server_id,
            mcp_request_id: request.mcp_request_id,
            roots: roots
                .into_iter()
                .map(|root| McpRoot {
                    uri: root.uri.into(),
                    name: root.name.into(),
                })
                .collect(),
        }
    }

    /// The server that is named, or all that are there.
    async fn asked(
        &self,
        name: &str,
        context: &Context,
    ) -> Result<Vec<(Arc<Server>, Arc<Connection>)>, Failure> {
        // Those that the decision was about, and no others.
        let servers = match context.resolved::<Chosen>() {
            Some(chosen) => chosen.0.clone(),
            None => self.fleet.of(&context.identity().agent),
        };
        if name.is_empty() {
            let mut there = Vec::new();
            for server in servers {
                if let Ok(connection) = server.connection().await {
                    there.push((server, connection));
                }
            }
            return Ok(there);
        }
        let found = servers.into_iter().find(|server| server.name() == name);
        let server = found.ok_or_else(|| no_server(name))?;
        let connection = server.connection().await.map_err(unavailable)?;
        Ok(vec![(server, connection)])
    }

    /// Lists of an agent are read one after the other.
    async fn take_turn(&self, context: &Context) -> OwnedMutexGuard<()> {
        self.fleet.listing.take_own(&context.identity().agent).await
    }

    /// The server of a resource: the one that is named, else one that has it or one whose addresses
    /// begin as it does, else the first.
    async fn with_resource(
        &self,
        name: &str,
        uri: &str,
        context: &Context,
    ) -> Result<(Arc<Server>, Arc<Connection>), Failure> {
        let asked = self.asked(name, context).await?;
        let _turn = self.take_turn(context).await;
        let mut best: Option<(usize, _)> = None;
        for (server, connection) in asked {
            let listed = counted(&server, &connection, context, connection.resources());
            let listed = listed.await?.unwrap_or_default();
            let let_through = listed.iter().filter(|one| server.lets_through(one));
            let common = let_through.map(|one| common(&one.uri, uri)).max();
            if !server.settings.resources.is_empty() && common != Some(uri.len()) {
                continue;
            }
            let common = common.unwrap_or_default();
            if best.as_ref().is_none_or(|(most, _)| common > *most) {
                best = Some((common, (server, connection)));
            }
        }
        let missing = || {
            failed(
                ErrorCode::McpResourceNotFound,
                "no server lets this resource through",
            )
        };
        best.map(|(_, found)| found).ok_or_else(missing)
    }
}

/// The lists of several servers, as far as they fit into one answer.
struct ListAnswer<T> {
    items: Vec<T>,
    bytes: usize,
    /// The server whose list is the first of the next answer.
    next: String,
}

impl<T> Default for ListAnswer<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            bytes: 0,
            next: String::new(),
        }
    }
}

impl<T: Encode> ListAnswer<T> {
    /// Adds the list of a server; the first is added however long it is. Returns whether it fits.
    fn add(&mut self, server: &Server, list: impl Iterator<Item = T>) -> bool {
        let (count, before) = (self.items.len(), self.bytes);
        for item in list {
            self.bytes = self.bytes.saturating_add(encoded_size(&item));
            self.items.push(item);
            if self.bytes > MAX_LISTED_BYTES && before > 0 {
                self.items.truncate(count);
                server.name().clone_into(&mut self.next);
                return false;
            }
        }
        true
    }
}

/// Servers, each with its connection.
type Connected = Vec<(Arc<Server>, Arc<Connection>)>;

/// The servers from the one that a cursor names.
fn from(mut servers: Connected, cursor: &str) -> Result<Connected, Failure> {
    if cursor.is_empty() {
        return Ok(servers);
    }
    let first = servers
        .iter()
        .position(|(server, _)| server.name() == cursor);
    let unknown = "there is nothing at this `cursor`: begin anew, without one";
    let first = first.ok_or_else(|| failed(ErrorCode::InvalidMessage, unknown))?;
    Ok(servers.split_off(first))
}

/// Asks a server for something, counted as a call of the agent's. One that is dropped is cancelled by rmcp.
fn counted<'a, T: Send + 'a>(
    server: &'a Arc<Server>,
    connection: &'a Connection,
    context: &'a Context,
    answer: impl Future<Output = Result<T, ServiceError>> + Send + 'a,
) -> BoxFuture<'a, Result<Result<T, ServiceError>, Failure>> {
    // Requests of rmcp are large futures.
    Box::pin(async move {
        let place = server
            .calls
            .enter(Some(context.session()))
            .map_err(|busy| {
                let mut failure = Failure::from(busy);
                failure.capability = Namespace::Mcp.capability();
                failure
            })?;
        let asked = RequestGuard::new(&place, server.settings.timeout, &connection.ended);
        let answer = answer.await;
        if !matches!(answer, Err(ServiceError::Timeout { .. })) {
            asked.finish();
        }
        Ok(answer)
    })
}

/// The longest that an agent may let a server take, in seconds.
const MAX_TIMEOUT: u64 = 24 * 60 * 60;

/// The longest name that a server is listed with, in bytes.
const MAX_TITLE: usize = 256;

/// How many bytes two addresses have in common at their beginning.
fn common(one: &str, other: &str) -> usize {
    one.bytes()
        .zip(other.bytes())
        .take_while(|(one, other)| one == other)
        .count()
}

fn resource(server: &Server, one: Resource) -> McpResource<'static> {
    McpResource {
        name: one.name.into(),
        description: one.description.unwrap_or_default().into(),
        mime_type: one.mime_type.unwrap_or_default().into(),
        server_id: server.name().to_owned().into(),
        annotations: Object::from_serialize(&one.annotations).unwrap_or_default(),
        ..McpResource::new(one.uri.into())
    }
}

fn content(one: ResourceContents) -> McpResourceContent<'static> {
    let one = json!(one);
    let text = |name: &str| one[name].as_str().unwrap_or_default().to_owned();
    let kind = match one["blob"].is_string() {
        true => McpContentType::Blob,
        false => McpContentType::Text,
    };
    let mime = text("mimeType");
    McpResourceContent {
        mime_type: match mime.is_empty() {
            true => Cow::Borrowed("text/plain"),
            false => mime.into(),
        },
        text: text("text").into(),
        blob: text("blob").into(),
        kind,
        ..McpResourceContent::new(text("uri").into())
    }
}

fn prompt(server: &Server, one: Prompt) -> McpPrompt<'static> {
    let arguments = one.arguments.unwrap_or_default().into_iter();
    let argument = arguments.map(|argument| McpPromptArgument {
        description: argument.description.unwrap_or_default().into(),
        required: argument.required.unwrap_or_default(),
        ..McpPromptArgument::new(argument.name.into())
    });
    McpPrompt {
        description: one.description.unwrap_or_default().into(),
        server_id: server.name().to_owned().into(),
        arguments: argument.collect(),
        ..McpPrompt::new(one.name.into())
    }
}

fn failed(code: ErrorCode<'static>, text: &str) -> Failure {
    Failure::new(code, Namespace::Mcp, text)
}

fn no_server(name: &str) -> Failure {
    let name: String = name.chars().take(64).collect();
    let text =
        format!("there is no MCP server `{name}`; mcp/server/list/req lists those there are");
    failed(ErrorCode::McpServerNotFound, &text)
}

#[expect(clippy::needless_pass_by_value, reason = "an error that ends here")]
fn unavailable(error: Unavailable) -> Failure {
    failed(ErrorCode::McpServerUnavailable, &error.to_string())
}

/// What a server's refusal means; `missing` where it has not what was asked for.
fn service_failed(server: &Server, error: &ServiceError, missing: ErrorCode<'static>) -> Failure {
    use rmcp::model::ErrorCode as Rpc;
    let name = server.name();
    match error {
        ServiceError::McpError(error)
            if [Rpc::INVALID_PARAMS, Rpc::RESOURCE_NOT_FOUND].contains(&error.code) =>
        {
            failed(missing, &format!("`{name}`: {}", error.message))
        }
        ServiceError::McpError(error) if error.code == Rpc::METHOD_NOT_FOUND => failed(
            ErrorCode::McpCapabilityMissing,
            &format!("`{name}` does not do this"),
        ),
        ServiceError::McpError(error) => failed(
            ErrorCode::McpProtocolError,
            &format!("`{name}`: {}", error.message),
        ),
        other => failed(
            ErrorCode::McpServerUnavailable,
            &format!("`{name}` does not answer: {other}"),
        ),
    }
}
