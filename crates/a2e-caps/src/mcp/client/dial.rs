//! How a connection to a server begins.

use std::sync::Arc;
use std::time::Duration;

use a2e_runtime::config::{McpPlace, McpUrl};
use hyper::header::{HeaderName, HeaderValue};
use rmcp::RoleClient;
use rmcp::model::ProtocolVersion;
use rmcp::service::{ClientInitializeError, ClientLifecycleMode, ClientServiceExt};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, Transport};

use super::child::ChildTransport;
use super::handler::Handler;
use super::http::{MAX_MESSAGE, Poster};
use super::server::{Connection, Server};
use super::sse::SseTransport;
use super::watched::Watched;
use crate::http::Web;

/// How long the last words of a program may take.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Why a connection did not begin.
#[derive(Debug, thiserror::Error)]
enum NotBegun {
    /// The first request was answered with something else, or after it was given up.
    #[error("it answers as no MCP server does")]
    Confused,
    /// In words.
    #[error("{0}")]
    Other(String),
}

impl From<String> for NotBegun {
    fn from(text: String) -> Self {
        Self::Other(text)
    }
}

impl Server {
    /// Connects, in the newer era if the server knows it.
    pub(super) async fn dial(self: &Arc<Self>) -> Result<Connection, String> {
        let newer_first = ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: None,
        };
        match self.dial_as(newer_first).await {
            // Some servers answer whatever they do not know as if they had done it.
            Err(NotBegun::Confused) => {
                let older = self.dial_as(ClientLifecycleMode::Initialize).await;
                older.map_err(|error| error.to_string())
            }
            dialed => dialed.map_err(|error| error.to_string()),
        }
    }

    async fn dial_as(
        self: &Arc<Self>,
        lifecycle: ClientLifecycleMode,
    ) -> Result<Connection, NotBegun> {
        match &self.settings.place {
            McpPlace::Command(command) => {
                let (owner, workplace) = (self.owner.as_ref(), &self.ground.workplace);
                let child = ChildTransport::start(command, owner, workplace, &self.said);
                let (child, last) = child.await?;
                let direct = child.direct();
                match self.begin(child, lifecycle).await {
                    Ok(begun) => Ok(begun.with(direct)),
                    Err(error) => {
                        // Its program has ended, or is ended; what it has said is on its way.
                        let exit = tokio::time::timeout(LAST_WORDS, last.exit()).await;
                        Err(match (exit, &error) {
                            (Ok(Some(exit)), NotBegun::Other(_)) => {
                                NotBegun::Other(format!("it {exit} before it answered"))
                            }
                            _ => error,
                        })
                    }
                }
            }
            McpPlace::Http(at) => {
                let config = StreamableHttpClientTransportConfig::with_uri(at.url.as_str())
                    .max_sse_event_size(MAX_MESSAGE)
                    .reinit_on_expired_session(true);
                let poster = self.poster(at)?;
                let transport = StreamableHttpClientTransport::with_client(poster, config);
                self.begin(transport, lifecycle).await
            }
            McpPlace::Sse(at) => {
                let transport = SseTransport::connect(self.poster(at)?, &at.url);
                let transport = transport.await.map_err(|error| error.to_string())?;
                self.begin(transport, lifecycle).await
            }
        }
    }

    fn poster(&self, at: &McpUrl) -> Result<Poster, String> {
        let web = self.web();
        let (origin, _) = web.origin(&at.url)?;
        let mut headers = hyper::HeaderMap::new();
        for (name, value) in &at.headers {
            let wrong = || format!("its header `{name}` cannot be sent");
            let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
            let mut value = HeaderValue::from_str(value.reveal()).map_err(|_| wrong())?;
            value.set_sensitive(true);
            headers.insert(key, value);
        }
        let mut hidden = crate::http::Hidden::default();
        hidden.add("headers");
        let is_safe = origin.check(&hidden);
        if !headers.is_empty() {
            is_safe.clone()?;
        }
        Ok(Poster {
            client: Arc::clone(web.client()),
            reach: origin.reach(),
            headers,
            login: self.login.clone().filter(|_| is_safe.is_ok()),
        })
    }

    /// What the server is reached with. `private_hosts` are for the operator's servers: an agent that
    /// reached them with a server of its own would be bound by none of the operator's rules for them.
    fn web(&self) -> Web {
        let web = self.ground.web.load();
        match self.owner {
            Some(_) => web.without_private_hosts(),
            None => Web::clone(&web),
        }
    }

    async fn begin<T>(
        self: &Arc<Self>,
        transport: T,
        lifecycle: ClientLifecycleMode,
    ) -> Result<Connection, NotBegun>
    where
        T: Transport<RoleClient> + Send + 'static,
    {
        let (transport, ended) = Watched::new(transport, self);
        let handler = Handler::of(self);
        let running = handler.serve_with_lifecycle(transport, lifecycle).await;
        let running = running.map_err(|error| match error {
            ClientInitializeError::ExpectedInitResult(_)
            | ClientInitializeError::ConflictInitResponseId(..) => NotBegun::Confused,
            error => NotBegun::Other(error.to_string()),
        })?;
        Ok(Connection {
            running,
            ended,
            direct: None,
            meta: String::new(),
        })
    }
}
