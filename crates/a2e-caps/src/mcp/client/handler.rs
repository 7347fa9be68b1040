//! What servers ask of their client, and what they tell it.
#![expect(
    deprecated,
    reason = "sampling and roots are going away in MCP, and servers of all eras are served"
)]

use std::sync::{Arc, Weak};
use std::time::Duration;

use a2e_runtime::Session;
use a2e_wire::Body;
use a2e_wire::messages::mcp::{McpNotification, McpSampleRequest};
use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult,
    ElicitRequestParams, ElicitResult, ElicitationAction, ErrorCode, ErrorData, Implementation,
    InputRequest, ListRootsResult, ProtocolVersion, RequestMetaObject,
    ResourceUpdatedNotificationParam, Root,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ClientHandler, RoleClient};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::server::Server;

/// Answers one server.
#[derive(Debug)]
pub(super) struct Handler {
    server: Weak<Server>,
    /// Completions that a server may have under way.
    samplings: Semaphore,
}

/// How many completions a server may want at once.
const MAX_SAMPLINGS: usize = 4;

/// How long an agent may take to give one.
const SAMPLING: Duration = Duration::from_secs(300);

/// What a server is told that wants what cannot be had.
const REFUSED: ErrorCode = ErrorCode(-32000);

impl Handler {
    pub(super) fn of(server: &Arc<Server>) -> Self {
        Self {
            server: Arc::downgrade(server),
            samplings: Semaphore::new(MAX_SAMPLINGS),
        }
    }

    /// What each request of the newer era says of who sends it: members of `_meta`, each with its comma.
    pub(super) fn meta(&self) -> String {
        let info = self.get_info();
        let mut meta = RequestMetaObject::default();
        meta.set_protocol_version(ProtocolVersion::V_2026_07_28);
        meta.set_client_info(info.client_info);
        meta.set_client_capabilities(info.capabilities);
        let text = serde_json::to_string(&meta).unwrap_or_default();
        let members = text
            .strip_prefix('{')
            .and_then(|text| text.strip_suffix('}'));
        members.map_or_else(String::new, |members| format!("{members},"))
    }

    /// Asks an agent's model, on behalf of the server.
    async fn sample(
        &self,
        params: &CreateMessageRequestParams,
        id: &str,
        caller: Option<&Arc<Session>>,
    ) -> Result<Value, ErrorData> {
        let refused = |text: &str| ErrorData::new(REFUSED, text.to_owned(), None);
        let Ok(_place) = self.samplings.try_acquire() else {
            return Err(refused("too many completions are under way"));
        };
        let server = self.server.upgrade();
        let server = server.ok_or_else(|| refused("the connection is over"))?;
        let session = match caller {
            Some(caller) => Arc::clone(caller),
            None => server.asked_of().map_err(refused)?,
        };
        let request = sample_request(server.name(), id, params)
            .ok_or_else(|| refused("the request is not understood"))?;
        let answer = session.ask(request, SAMPLING).await;
        let answer = answer.map_err(|_| refused("the agent did not answer"))?;
        let Body::McpSampleResponse(answer) = answer.body else {
            return Err(refused("the agent has no model to ask"));
        };
        if !answer.error.is_empty() {
            return Err(refused(&answer.error));
        }
        let content: Value = answer.content.raw().deserialize().unwrap_or_default();
        Ok(json!({
            "role": &*answer.role,
            "content": content,
            "model": &*answer.model,
            "stopReason": answer.stop_reason.as_str(),
        }))
    }

    fn roots(&self) -> ListRootsResult {
        let server = self.server.upgrade();
        let roots = server.map(|server| server.roots());
        let roots = roots.into_iter().flatten();
        let roots = roots.map(|root| Root::new(root.uri).with_name(root.name));
        ListRootsResult::new(roots.collect())
    }

    /// What a server wants to know before it answers a request of the newer era.
    pub(super) async fn input(
        &self,
        key: &str,
        wanted: InputRequest,
        caller: Option<&Arc<Session>>,
    ) -> Result<Value, ErrorData> {
        match wanted {
            InputRequest::CreateMessage(request) => self.sample(&request.params, key, caller).await,
            InputRequest::ListRoots(_) => Ok(json!(self.roots())),
            InputRequest::Elicitation(_) => Ok(json!({"action": "decline"})),
            _ => Err(ErrorData::new(REFUSED, "this is not known here", None)),
        }
    }

    /// Passes on that a list has changed.
    fn tell(&self, method: McpNotification<'static>) {
        if let Some(server) = self.server.upgrade() {
            server.tell_changed(method);
        }
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let capabilities = ClientCapabilities::builder()
            .enable_roots()
            .enable_sampling()
            .build();
        let own = Implementation::new("frith", env!("CARGO_PKG_VERSION"));
        // What `initialize` begins with: the newer era does without it.
        ClientConfig::new(capabilities, own)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let answer = self.sample(&params, &context.id.to_string(), None).await?;
        serde_json::from_value(answer)
            .map_err(|_| ErrorData::new(REFUSED, "the agent's answer is no completion", None))
    }

    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        Ok(self.roots())
    }

    async fn create_elicitation(
        &self,
        _: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Ok(ElicitResult::new(ElicitationAction::Decline))
    }

    async fn on_resource_updated(
        &self,
        params: ResourceUpdatedNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        if let Some(server) = self.server.upgrade() {
            server.tell_updated(&params);
        }
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.tell(McpNotification::ResourcesListChanged);
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.tell(McpNotification::ToolsListChanged);
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.tell(McpNotification::PromptsListChanged);
    }
}

/// A server's wish for a completion, in the words of A2E.
fn sample_request(
    server: &str,
    id: &str,
    params: &CreateMessageRequestParams,
) -> Option<McpSampleRequest<'static>> {
    let params = json!(params);
    let mut parts = Vec::new();
    for message in params["messages"].as_array()? {
        // A message may have several contents; agents of A2E know one.
        let contents = match &message["content"] {
            Value::Array(contents) => contents.clone(),
            content => vec![content.clone()],
        };
        for content in contents {
            parts.push(json!({"role": message["role"], "content": content}));
        }
    }
    let request = json!({
        "type": "mcp/sample/req", "id": "1",
        "server_id": server,
        "mcp_request_id": id,
        "messages": parts,
        "model_preferences": object(&params["modelPreferences"]),
        "system_prompt": params["systemPrompt"].as_str().unwrap_or_default(),
        "include_context": params["includeContext"].as_str().unwrap_or("none"),
        "temperature": params["temperature"].as_f64().unwrap_or(1.0),
        "max_tokens": params["maxTokens"].as_i64().unwrap_or(1024),
        "stop_sequences": params["stopSequences"].as_array().cloned().unwrap_or_default(),
        "metadata": object(&params["metadata"]),
    });
    let message = a2e_runtime::Client::decode(request.to_string().as_bytes()).ok()?;
    let Body::McpSampleRequest(request) = message.body else {
        return None;
    };
    Some(request)
}

fn object(value: &Value) -> Value {
    match value {
        Value::Object(_) => value.clone(),
        _ => json!({}),
    }
}
