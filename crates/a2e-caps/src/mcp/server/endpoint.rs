//! MCP over streamable HTTP.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use a2e_runtime::{BoxFuture, Guest, Host, Route};
use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use rmcp::transport::streamable_http_server::session::SessionManager;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::json;

use super::lobby::Lobby;
use super::{MAX_LINE, Server};

/// The path `/mcp` of a host.
pub struct Endpoint {
    service: StreamableHttpService<Server, LocalSessionManager>,
    manager: Arc<LocalSessionManager>,
    /// Whose the MCP sessions are. Their ids alone let nobody in.
    owners: Mutex<HashMap<String, String>>,
    /// How many sessions of each agent are just beginning.
    beginning: Mutex<HashMap<String, usize>>,
}

/// A session that is just beginning: it counts until it has an owner.
struct Place<'e> {
    endpoint: &'e Endpoint,
    agent: String,
}

/// How many MCP sessions an agent may have at once.
pub const MAX_SESSIONS: usize = 64;

/// How long an MCP session may be silent.
const IDLE: Duration = Duration::from_secs(30 * 60);

const SESSION_ID: &str = "mcp-session-id";

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint").finish_non_exhaustive()
    }
}

impl Endpoint {
    /// The path of a host in this process.
    #[must_use]
    pub fn new(host: &Host) -> Self {
        let mut manager = LocalSessionManager::default();
        manager.session_config.keep_alive = Some(IDLE);
        let manager = Arc::new(manager);
        let lobby = Arc::new(Lobby::new(host.clone()));
        let config = StreamableHttpServerConfig::default()
            // The server in front of this knows by which names it is asked, and by which pages.
            .disable_allowed_hosts()
            .with_max_request_body_bytes(MAX_LINE)
            .with_json_response(true)
            .with_cancellation_token(host.stopping());
        let service = StreamableHttpService::new(
            move || Ok(Server::of(&lobby)),
            Arc::clone(&manager),
            config,
        );
        Self {
            service,
            manager,
            owners: Mutex::default(),
            beginning: Mutex::default(),
        }
    }

    async fn respond(
        &self,
        request: Request<Bytes>,
        guest: Guest,
    ) -> Response<BoxBody<Bytes, Infallible>> {
        let agent = guest.identity.agent.clone();
        let named = session_id(request.headers());
        let _place = match &named {
            Some(id) if !self.is_owner(id, &agent) => return unknown_session(),
            None if begins(request.body()) => match self.place(&agent).await {
                Some(place) => Some(place),
                None => return too_many(),
            },
            _ => None,
        };
        let ends = request.method() == Method::DELETE;
        let (mut parts, body) = request.into_parts();
        parts.extensions.insert(guest);
        let request = Request::from_parts(parts, Full::new(body));
        let mut response = self.service.handle(request).await;
        let begun = session_id(response.headers());
        let mut owners = self.owners();
        match (named, begun) {
            (None, Some(begun)) => drop(owners.insert(begun, agent)),
            (Some(named), _) if ends => drop(owners.remove(&named)),
            _ => {}
        }
        drop(owners);
        if ends && response.status() == StatusCode::ACCEPTED {
            // The session has ended by now.
            response = no_content();
        }
        response
    }

    fn is_owner(&self, id: &str, agent: &str) -> bool {
        self.owners().get(id).is_some_and(|owner| owner == agent)
    }

    /// A place for one more session of an agent, if it may have one. It is taken before anybody looks, so
    /// that of many that begin at once no more than may be find one.
    async fn place(&self, agent: &str) -> Option<Place<'_>> {
        let beginning = {
            let mut beginning = self.beginning();
            let count = beginning.entry(agent.to_owned()).or_default();
            *count = count.saturating_add(1);
            *count
        };
        let place = Place {
            endpoint: self,
            agent: agent.to_owned(),
        };
        let most = MAX_SESSIONS.saturating_sub(beginning);
        (self.count(agent, most).await <= most && beginning <= MAX_SESSIONS).then_some(place)
    }

    /// How many sessions an agent has; if they are more than so many, those that have ended are forgotten.
    async fn count(&self, agent: &str, most: usize) -> usize {
        let of_agent = |owners: &HashMap<String, String>| {
            let mine = owners.iter().filter(|(_, owner)| *owner == agent);
            mine.map(|(id, _)| id.clone()).collect::<Vec<_>>()
        };
        let mine = of_agent(&self.owners());
        if mine.len() <= most {
            return mine.len();
        }
        for id in mine {
            let id = Arc::from(id);
            if !self.manager.has_session(&id).await.unwrap_or(false) {
                self.owners().remove(&*id);
            }
        }
        of_agent(&self.owners()).len()
    }

    fn beginning(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.beginning
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn owners(&self) -> MutexGuard<'_, HashMap<String, String>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut beginning = self.endpoint.beginning();
        if let Some(count) = beginning.get_mut(&self.agent) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                beginning.remove(&self.agent);
            }
        }
    }
}

impl Route for Endpoint {
    fn path(&self) -> &str {
        "/mcp"
    }

    fn answer(
        &self,
        request: Request<Bytes>,
        guest: Guest,
    ) -> BoxFuture<'_, Response<BoxBody<Bytes, Infallible>>> {
        Box::pin(self.respond(request, guest))
    }
}

fn session_id(headers: &HeaderMap) -> Option<String> {
    let id = headers.get(SESSION_ID)?.to_str().ok()?;
    Some(id.to_owned())
}

/// Whether a request begins a session. Those of the newer era stand for themselves.
fn begins(body: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Asked {
        method: String,
    }
    serde_json::from_slice::<Asked>(body).is_ok_and(|asked| asked.method == "initialize")
}

fn no_content() -> Response<BoxBody<Bytes, Infallible>> {
    let mut response = Response::new(Full::new(Bytes::new()).boxed());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

/// A client that hears this begins a new session.
fn unknown_session() -> Response<BoxBody<Bytes, Infallible>> {
    refusal(
        StatusCode::NOT_FOUND,
        -32001,
        "there is no such session, or no longer; begin one with initialize",
    )
}

fn too_many() -> Response<BoxBody<Bytes, Infallible>> {
    let text = "this agent has as many MCP sessions as it may; end one with DELETE";
    refusal(StatusCode::TOO_MANY_REQUESTS, -32000, text)
}

fn refusal(status: StatusCode, code: i32, text: &str) -> Response<BoxBody<Bytes, Infallible>> {
    let error = json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": text}});
    let mut response = Response::new(Full::new(Bytes::from(error.to_string())).boxed());
    *response.status_mut() = status;
    let value = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, value);
    response
}
