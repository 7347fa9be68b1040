//! A host as an MCP server.
//!
//! Reading order: [`Session`] (what an MCP client's requests become), `tools`, `own` (the other
//! capabilities as tools), `resources`, `prompts`, `behind` (what MCP servers behind the host have),
//! `notices` (what clients are told unasked), `sampling`, `endpoint` (streamable HTTP).
#![expect(
    deprecated,
    reason = "logging and subscriptions to single resources are going away in MCP, and clients of all \
              eras are served"
)]

mod behind;
mod endpoint;
mod lobby;
mod notices;
mod output;
mod own;
mod progress;
mod prompts;
mod resources;
mod sampling;
mod session;
mod tools;
mod wording;

use std::sync::Arc;

use a2e_runtime::{ClientError, Guest};
use hyper::http::request::Parts;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, GetPromptRequestParams, GetPromptResponse,
    Implementation, InitializeRequestParams, InitializeResult, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities, ServerConfig,
    SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequestParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Mutex;

pub use endpoint::{Endpoint, MAX_SESSIONS};
use lobby::Lobby;
pub use notices::MAX_WATCHED;
pub use output::MAX_OUTPUT;
use progress::Reporter;
pub use resources::{MAX_LISTED, MAX_READ};
pub use session::Session;

/// Answers one MCP client.
#[derive(Debug)]
struct Server {
    origin: Origin,
    /// The session of a client that has begun with `initialize`.
    own: Mutex<Option<Arc<Session>>>,
}

/// Where the A2E session of a client is from.
#[derive(Debug)]
enum Origin {
    /// There is one client, and this is its session.
    Given(Arc<Session>),
    /// Clients show who they are with each request.
    Lobby(Arc<Lobby>),
}

/// The longest message of a client, in bytes.
const MAX_LINE: usize = 16 * 1024 * 1024;

const INSTRUCTIONS: &str = "\
Tools run in a sandbox, under the operator's rules. A call may wait for the operator's approval. What \
is too large to send is a resource: `frith://artifact/ID`.";

/// Serves the client at the other end of two byte streams, until it goes.
///
/// # Errors
/// If the client does not speak MCP.
pub async fn serve(
    session: Arc<Session>,
    read: impl AsyncRead + Send + Unpin + 'static,
    write: impl AsyncWrite + Send + Unpin + 'static,
) -> Result<(), ServeError> {
    let transport = AsyncRwTransport::new_server(read, write).with_max_line_length(MAX_LINE);
    let server = Server {
        origin: Origin::Given(session),
        own: Mutex::default(),
    };
    let running = server.serve(transport).await.map_err(Box::new)?;
    running.waiting().await?;
    Ok(())
}

/// Why a client could not be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// It did not begin as MCP clients do.
    #[error("the client does not speak MCP: {0}")]
    Begin(#[from] Box<rmcp::service::ServerInitializeError>),
    /// The task that serves it broke.
    #[error("the server broke: {0}")]
    Broken(#[from] tokio::task::JoinError),
}

impl Server {
    fn of(lobby: &Arc<Lobby>) -> Self {
        Self {
            origin: Origin::Lobby(Arc::clone(lobby)),
            own: Mutex::default(),
        }
    }

    /// The session that a request belongs to.
    async fn session(
        &self,
        context: &RequestContext<RoleServer>,
    ) -> Result<Arc<Session>, ErrorData> {
        let lobby = match &self.origin {
            Origin::Given(session) => return Ok(Arc::clone(session)),
            Origin::Lobby(lobby) => lobby,
        };
        let guest = guest(context)?;
        let mut own = self.own.lock().await;
        match &mut *own {
            // It was silent for so long that the host has ended it.
            Some(over) if over.is_over() => {
                *over = lobby.begin(guest).await.map_err(unreachable)?;
                over.notices.follow(context.peer.clone());
                Ok(Arc::clone(over))
            }
            Some(session) => Ok(Arc::clone(session)),
            None => lobby.shared(guest).await.map_err(unreachable),
        }
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_logging()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_list_changed()
            .enable_resources_subscribe()
            .enable_tools()
            .enable_tool_list_changed()
            .build();
        let mut info = ServerConfig::new(capabilities);
        info.server_info = Implementation::new("frith", env!("CARGO_PKG_VERSION"));
        info.instructions = Some(INSTRUCTIONS.into());
        info
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        if let Origin::Lobby(lobby) = &self.origin {
            let begun = lobby.begin(guest(&context)?).await;
            *self.own.lock().await = Some(begun.map_err(unreachable)?);
        }
        context.peer.set_peer_info(request.clone());
        self.negotiate_initialize(&request)
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let session = match &self.origin {
            Origin::Given(session) => Some(Arc::clone(session)),
            Origin::Lobby(_) => self.own.lock().await.clone(),
        };
        if let Some(session) = session {
            session.notices.follow(context.peer);
            session.listen().await;
        }
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let session = self.session(&context).await?;
        session.notices.wishes.set_level(request.level);
        Ok(())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let session = self.session(&context).await?;
        session.listen().await;
        let tools = tools::list(&session).await?;
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let session = self.session(&context).await?;
        let reporter = Reporter::of(&session, &context, &request.name);
        let arguments = request.arguments.unwrap_or_default();
        let call = async {
            match own::find(&session, &request.name) {
                Some(own) => own::call(&session, own, arguments).await,
                None => tools::call(&session, &request.name, arguments, reporter).await,
            }
        };
        // Dropping the call withdraws it, and the host stops working on it.
        tokio::select! {
            result = call => result.map(Into::into),
            never = session.samples.serve(&context.peer) => match never {},
            () = context.ct.cancelled() => {
                Err(ErrorData::internal_error("the call was cancelled", None))
            }
        }
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let session = self.session(&context).await?;
        session.listen().await;
        let listed = resources::list(&session).await;
        Ok(ListResourcesResult::with_all_items(listed))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let templates = vec![resources::template()];
        Ok(ListResourceTemplatesResult::with_all_items(templates))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let session = self.session(&context).await?;
        let read = resources::read(&session, &request.uri).await?;
        Ok(read.into())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let session = self.session(&context).await?;
        // First, so that what changes at once is told.
        session.notices.wishes.watch(request.uri.clone())?;
        let subscribed = resources::subscribe(&session, &request.uri).await;
        if subscribed.is_err() {
            session.notices.wishes.unwatch(&request.uri);
        }
        subscribed
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let session = self.session(&context).await?;
        session.notices.wishes.unwatch(&request.uri);
        Ok(())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        let mut accepted = requested.clone();
        if let Some(uris) = &mut accepted.resource_subscriptions {
            uris.truncate(MAX_WATCHED);
        }
        Some(accepted)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let session = self.session(context.request_context()).await?;
        let heard = session.notices.listener();
        session.listen().await;
        for uri in context.accepted().resource_subscriptions.iter().flatten() {
            // One that is not there does not change.
            let _ = resources::subscribe(&session, uri).await;
        }
        tokio::select! {
            () = notices::pass_on(heard, &context) => {}
            // The client is told that this is over, and listens again.
            () = session.stay() => {}
        }
        Ok(())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let session = self.session(&context).await?;
        session.listen().await;
        let prompts = prompts::list(&session).await?;
        Ok(ListPromptsResult::with_all_items(prompts))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let session = self.session(&context).await?;
        let arguments = request.arguments.unwrap_or_default();
        let prompt = prompts::get(&session, request.name, arguments).await?;
        Ok(prompt.into())
    }
}

/// Who asks, as the HTTP server has found out.
fn guest(context: &RequestContext<RoleServer>) -> Result<&Guest, ErrorData> {
    let parts = context.extensions.get::<Parts>();
    let guest = parts.and_then(|parts| parts.extensions.get::<Guest>());
    guest.ok_or_else(|| ErrorData::internal_error("nobody knows who asks", None))
}

/// What is said when the host cannot be asked at all.
#[expect(clippy::needless_pass_by_value, reason = "an error that ends here")]
fn unreachable(error: ClientError) -> ErrorData {
    ErrorData::internal_error(format!("the host does not answer: {error}"), None)
}
