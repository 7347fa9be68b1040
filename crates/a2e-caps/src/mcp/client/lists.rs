//! What a server has: its tools, resources and prompts, page by page and up to a limit.

use std::sync::Arc;
use std::time::Duration;

use rmcp::ServiceError;
use rmcp::model::{PaginatedRequestParams, Prompt, Resource, Tool as McpDefinition};

use super::server::{Connection, Server};
use super::tool::McpTool;
use crate::tool::{Source, Tool};

/// How many tools, resources or prompts of a server are listed; more are left out.
pub const MAX_LISTED: usize = 2000;

/// How many pages are asked for: a server that has always one more is stopped here.
const MAX_PAGES: usize = 100;

/// How long a server may take for all pages.
const LISTING: Duration = Duration::from_secs(20);

/// All pages of a list.
macro_rules! pages {
    ($peer:expr, $list:ident, $items:ident) => {
        async {
            let (mut all, mut cursor) = (Vec::new(), None);
            for _ in 0..MAX_PAGES {
                let asked = PaginatedRequestParams::default().with_cursor(cursor);
                let page = $peer.$list(Some(asked)).await?;
                all.extend(page.$items);
                cursor = page.next_cursor.filter(|cursor| !cursor.is_empty());
                if cursor.is_none() || all.len() >= MAX_LISTED {
                    break;
                }
            }
            all.truncate(MAX_LISTED);
            Ok(all)
        }
    };
}

impl Connection {
    pub(super) async fn tools(&self) -> Result<Vec<McpDefinition>, ServiceError> {
        in_time(pages!(self.peer(), list_tools, tools)).await
    }

    pub(super) async fn resources(&self) -> Result<Vec<Resource>, ServiceError> {
        in_time(pages!(self.peer(), list_resources, resources)).await
    }

    pub(super) async fn prompts(&self) -> Result<Vec<Prompt>, ServiceError> {
        in_time(pages!(self.peer(), list_prompts, prompts)).await
    }
}

async fn in_time<T>(
    listing: impl Future<Output = Result<Vec<T>, ServiceError>>,
) -> Result<Vec<T>, ServiceError> {
    match tokio::time::timeout(LISTING, listing).await {
        Ok(listed) => listed,
        Err(_) => Err(ServiceError::Timeout { timeout: LISTING }),
    }
}

impl Server {
    /// Looks what the server has. A list that cannot be had is empty: servers need not have all three.
    pub(super) async fn refresh_all(self: &Arc<Self>, connection: &Connection) {
        self.refresh_tools(connection).await;
        self.refresh_resources(connection).await;
        self.refresh_prompts(connection).await;
    }

    pub(super) async fn refresh_resources(&self, connection: &Connection) {
        let listed = connection.resources().await.unwrap_or_default();
        let let_through = listed.iter().filter(|one| self.lets_through(one));
        self.told().resources = let_through.count();
    }

    pub(super) async fn refresh_prompts(&self, connection: &Connection) {
        self.told().prompts = connection.prompts().await.unwrap_or_default().len();
    }

    /// Puts the server's tools where agents find them, as far as they are what was approved.
    pub(super) async fn refresh_tools(self: &Arc<Self>, connection: &Connection) {
        let allowed = &self.settings.tools;
        let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
        for told in connection.tools().await.unwrap_or_default() {
            if !allowed.is_empty() && !allowed.iter().any(|name| *name == told.name) {
                continue;
            }
            match McpTool::new(self, &told) {
                Ok(tool) => tools.push(Arc::new(tool)),
                Err(error) => tracing::warn!(server = self.name(), "a tool is left out: {error}"),
            }
        }
        self.told().tools = tools.len();
        let source = self.source();
        let admitted = match self.ground.pinning.admit(&source, tools).await {
            Ok(admitted) => admitted,
            Err(error) => {
                return tracing::error!(%error, server = self.name(), "its tools cannot be served");
            }
        };
        let clashes = match &self.owner {
            Some(agent) => self
                .ground
                .catalogue
                .set_admitted_for(agent, source, admitted),
            None => self.ground.catalogue.set_admitted(source, admitted),
        };
        for clash in clashes {
            tracing::warn!("the tool `{}` is hidden by another of its name", clash.name);
        }
    }

    /// Takes its tools away.
    pub(super) fn withdraw(&self) {
        match &self.owner {
            Some(agent) => {
                let none = crate::tool::Admitted::default();
                self.ground
                    .catalogue
                    .set_admitted_for(agent, self.source(), none);
            }
            None => self.ground.catalogue.remove(&self.source()),
        }
    }

    /// Whether agents may see a resource.
    pub(super) fn lets_through(&self, resource: &Resource) -> bool {
        let allowed = &self.settings.resources;
        let is_it = |word: &String| *word == resource.uri || *word == resource.name;
        allowed.is_empty() || allowed.iter().any(is_it)
    }

    /// What its tools are approved under. Each agent's own are apart from everybody's.
    fn source(&self) -> Source {
        Source::Mcp(match &self.owner {
            Some(agent) => format!("{agent}/{}", self.name()),
            None => self.name().to_owned(),
        })
    }
}
