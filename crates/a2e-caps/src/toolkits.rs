//! The capability `toolkits`: bundles of tools that appear when they are configured.
//!
//! A configuration belongs to the agent that gave it. It is kept among that agent's secrets, so its
//! tools are there in all its sessions and after a restart; no other agent sees them, and nobody is
//! ever given a value of it back.

mod bundled;
mod configure;
mod filesystem;
mod git;
mod http;
mod info;
mod shown;
mod sqlite;

use std::sync::Arc;

use a2e_runtime::{BoxFuture, Context, Failure, Outcome, Plugin, Resolution, Serves, Session};
use a2e_wire::messages::toolkit::{ToolkitDefinition, ToolkitListRequest, ToolkitListResponse};
use a2e_wire::{Body, Capability, Message, Tag};
use serde_json::Value;
use store::Vault;
use tokio::sync::Mutex;

use crate::placement::{Placement, placed};
use crate::tool::{Catalogue, Source, Tool};

use configure::Known;
pub use filesystem::Filesystem;
pub use git::Git;
pub use http::Http;
pub use info::Info;
pub use sqlite::{Limits as SqliteLimits, MAX_SQL, MAX_VALUE, Sqlite, enter_if_asked};

/// A bundle of tools that needs a configuration.
pub trait Toolkit: Send + Sync + 'static {
    /// What it says of itself. The same each time.
    fn info(&self) -> &Info;

    /// Its tools for a configuration that fits its schema. May wait for the disk.
    ///
    /// # Errors
    /// What is wrong with the configuration, in words for the agent: by the names of its keys, and
    /// without the value of any that is secret.
    fn tools(&self, config: &Value) -> Result<Vec<Arc<dyn Tool>>, String>;
}

/// The plugin.
#[derive(Debug)]
pub struct Toolkits {
    placement: Placement,
    catalogue: Arc<Catalogue>,
    known: Arc<Known>,
    /// Held while a configuration replaces another: the one that is kept last is the one in use.
    configuring: Mutex<()>,
}

impl Toolkits {
    /// The plugin for these toolkits. Their tools go into the catalogue, for the agents that have
    /// configured them.
    #[must_use]
    pub fn new(
        catalogue: Arc<Catalogue>,
        vault: Vault,
        toolkits: Vec<Arc<dyn Toolkit>>,
        placement: Placement,
    ) -> Self {
        let known = Arc::new(Known { toolkits, vault });
        catalogue.load_with(Arc::clone(&known) as _);
        Self {
            placement,
            catalogue,
            known,
            configuring: Mutex::new(()),
        }
    }

    /// Lists those of the kind (the category) that have all the tags asked for.
    async fn list(
        &self,
        request: &ToolkitListRequest<'_>,
        agent: &str,
    ) -> Vec<ToolkitDefinition<'static>> {
        let mut listed = Vec::new();
        for toolkit in &self.known.toolkits {
            let info = toolkit.info();
            if info.fits(&request.filter_kind, &request.filter_tags) {
                listed.push(self.listed(info, agent).await);
            }
        }
        listed
    }

    /// As it is listed for an agent: with the tools it has there, or could have.
    async fn listed(&self, info: &Info, agent: &str) -> ToolkitDefinition<'static> {
        let source = Source::Toolkit(info.name.clone());
        if !self.catalogue.is_set_for(agent, &source).await {
            return info.to_wire(&info.tools, false);
        }
        let snapshot = self.catalogue.current_for(agent).await;
        let own = snapshot.entries().iter();
        let own = own.filter(|entry| entry.source == source);
        let names: Vec<String> = own
            .map(|entry| entry.tool.definition().name().to_owned())
            .collect();
        info.to_wire(&names, true)
    }
}

impl Plugin for Toolkits {
    placed!(placement);

    fn capability(&self) -> Option<Capability<'static>> {
        Some(Capability::Toolkits)
    }

    fn serves(&self) -> Serves {
        Serves::Tags(vec![Tag::ToolkitListRequest, Tag::ToolkitConfigureRequest])
    }

    /// To configure one twice is the same as once, and its secrets are not even to be hashed on record.
    fn outlives(&self, _request: &Message<'_>) -> bool {
        false
    }

    /// What the operator sees of a configuration that a rule holds.
    fn resolve<'a>(
        &'a self,
        request: &'a Message<'static>,
        _: &'a Arc<Session>,
    ) -> BoxFuture<'a, Result<Option<Resolution>, Failure>> {
        let mut shown = None;
        if let Body::ToolkitConfigureRequest(request) = &request.body {
            shown = self.known.shown(request);
        }
        let resolution = shown.map(|config| Resolution::default().shown_config(config));
        Box::pin(std::future::ready(Ok(resolution)))
    }

    fn handle(
        &self,
        request: Box<Message<'static>>,
        context: Context,
    ) -> BoxFuture<'_, Result<Outcome, Failure>> {
        Box::pin(async move {
            let agent = &context.identity().agent;
            #[expect(clippy::wildcard_enum_match_arm, reason = "nothing else is served")]
            match request.body {
                Body::ToolkitListRequest(list) => {
                    let toolkits = self.list(&list, agent).await;
                    Ok(Outcome::answer(ToolkitListResponse { toolkits }))
                }
                Body::ToolkitConfigureRequest(configure) => {
                    Ok(Outcome::answer(self.configure(configure, agent).await))
                }
                _ => Ok(Outcome::Pass),
            }
        })
    }
}
