//! MCP servers behind this host: the capability `mcp`.
//!
//! A [`Fleet`] has the servers; their tools stand in the catalogue beside all others, as
//! `<server>__<tool>`, and are called with `tool/call/req`. Reading order: [`Fleet`], `server` (the
//! connection, and how it comes back), `handler` (what servers ask), `tool`, `requests`.

mod answer;
mod calls;
mod child;
mod chosen;
mod dial;
mod fleet;
mod handler;
mod health;
mod http;
mod lists;
mod login;
mod operator;
mod pages;
mod pushes;
mod requests;
mod roots;
mod said;
mod server;
mod sse;
mod streams;
mod subscribe;
mod told;
mod tool;
mod trial;
mod watched;

use std::sync::{Arc, Once, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use a2e_runtime::{BoxFuture, Context, Failure, Outcome, Plugin, Resolution, Serves, Session};
use a2e_wire::messages::mcp::McpTransport;
use a2e_wire::messages::proc::ProcSpawnRequest;
use a2e_wire::wire::ToStatic;
use a2e_wire::{Body, Capability, Message, Tag, Timestamp};
use arc_swap::ArcSwap;
use store::Secrets;

use crate::http::Web;
use crate::placement::{Placement, placed};
use crate::skills::Shelf;
use crate::tool::{Catalogue, Pinning};
use crate::workplace::Workplace;

pub use fleet::{Fleet, MAX_AGENTS_SERVERS, MAX_OWN_SERVERS};
pub use lists::{MAX_LISTED, MAX_LISTED_BYTES};
pub use operator::{ServerState, ServerTool};
pub use pages::MAX_PAGE;
pub use said::{Heard, MAX_SAID};
pub use trial::{NotTried, Tried, try_server};

/// What servers stand on.
#[derive(Debug)]
pub struct Ground {
    /// Where those run that are programs.
    pub workplace: Arc<Workplace>,
    /// How the others are reached.
    web: ArcSwap<Web>,
    /// Where their tools go.
    pub catalogue: Arc<Catalogue>,
    /// What their tools are held against.
    pub pinning: Pinning,
    listeners: pushes::Listeners,
    /// Where logins to servers are kept.
    logins: Option<Secrets>,
    /// The skills, which are prompts to those who speak MCP.
    skills: OnceLock<Arc<Shelf>>,
    watching_tools: Once,
    watching_skills: Once,
}

/// The plugin.
#[derive(Debug)]
pub struct Mcp {
    placement: Placement,
    fleet: Arc<Fleet>,
}

impl Ground {
    /// Servers stand on these.
    #[must_use]
    pub fn new(
        workplace: Arc<Workplace>,
        web: Web,
        catalogue: Arc<Catalogue>,
        pinning: Pinning,
    ) -> Self {
        Self {
            workplace,
            web: ArcSwap::from_pointee(web),
            catalogue,
            pinning,
            listeners: pushes::Listeners::default(),
            logins: None,
            skills: OnceLock::new(),
            watching_tools: Once::new(),
            watching_skills: Once::new(),
        }
    }

    /// Keeps logins to servers among these secrets; without, they end with the process.
    #[must_use]
    pub fn keeping_logins(mut self, secrets: Secrets) -> Self {
        self.logins = Some(secrets);
        self
    }

    /// The workspace as a root.
    fn workspace(&self) -> roots::Root {
        roots::Root::named(&self.workplace.folder, "workspace")
    }
}

impl Mcp {
    /// The plugin for these servers.
    #[must_use]
    pub const fn new(fleet: Arc<Fleet>, placement: Placement) -> Self {
        Self { placement, fleet }
    }

    async fn serve(&self, body: Body<'static>, context: &Context) -> Result<Outcome, Failure> {
        #[expect(clippy::wildcard_enum_match_arm, reason = "nothing else is served")]
        Ok(match body {
            Body::McpServerRegisterRequest(request) => {
                Outcome::answer(self.register(request, context).await?)
            }
            Body::McpServerListRequest(request) => Outcome::answer(self.list(&request, context)),
            Body::McpServerUnregisterRequest(request) => {
                Outcome::answer(self.unregister(request, context).await?)
            }
            Body::McpResourceListRequest(request) => {
                Outcome::answer(self.resources(request, context).await?)
            }
            Body::McpResourceReadRequest(request) => {
                Outcome::answer(self.read(request, context).await?)
            }
            Body::McpResourceSubscribeRequest(request) => {
                Outcome::answer(self.subscribe(request, context).await?)
            }
            Body::McpPromptListRequest(request) => {
                Outcome::answer(self.prompts(request, context).await?)
            }
            Body::McpPromptGetRequest(request) => {
                Outcome::answer(self.prompt(request, context).await?)
            }
            Body::McpRootListRequest(request) => Outcome::answer(self.roots(request, context)),
            _ => Outcome::Pass,
        })
    }
}

impl Plugin for Mcp {
    placed!(placement);

    fn capability(&self) -> Option<Capability<'static>> {
        Some(Capability::Mcp)
    }

    fn serves(&self) -> Serves {
        Serves::Tags(vec![
            Tag::McpServerRegisterRequest,
            Tag::McpServerListRequest,
            Tag::McpServerUnregisterRequest,
            Tag::McpResourceListRequest,
            Tag::McpResourceReadRequest,
            Tag::McpResourceSubscribeRequest,
            Tag::McpPromptListRequest,
            Tag::McpPromptGetRequest,
            Tag::McpRootListRequest,
        ])
    }

    fn executes(&self, request: &Message<'_>) -> Option<ProcSpawnRequest<'static>> {
        let Body::McpServerRegisterRequest(request) = &request.body else {
            return None;
        };
        let config = &request.config;
        if config.transport != McpTransport::Stdio {
            return None;
        }
        let words = config.cmd.iter().map(|word| word.to_string().into());
        Some(ProcSpawnRequest {
            cmd: words.collect(),
            cwd: config.cwd.to_string().into(),
            env: config.env.clone().to_static(),
            ..ProcSpawnRequest::new()
        })
    }

    fn resolve<'a>(
        &'a self,
        request: &'a Message<'static>,
        session: &'a Arc<Session>,
    ) -> BoxFuture<'a, Result<Option<Resolution>, Failure>> {
        let chosen = self.chosen(&request.body, session);
        Box::pin(std::future::ready(Ok(chosen)))
    }

    fn handle(
        &self,
        request: Box<Message<'static>>,
        context: Context,
    ) -> BoxFuture<'_, Result<Outcome, Failure>> {
        Box::pin(async move {
            self.fleet.ground.listen(context.session()).await;
            self.serve(request.body, &context).await
        })
    }

    fn clear(&self, session: &Session) {
        self.fleet.leave(session);
    }

    fn teardown(&self) -> BoxFuture<'_, ()> {
        self.fleet.end();
        Box::pin(std::future::ready(()))
    }
}

fn now() -> Timestamp {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH);
    let seconds = elapsed.unwrap_or_default().as_secs_f64();
    Timestamp::from_unix_seconds(seconds).unwrap_or_default()
}
