//! What a server has: its tools, resources and prompts, page by page and up to a limit.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use canonical::Digest;
use rmcp::ServiceError;
use rmcp::model::{
    PaginatedRequestParams, Prompt, Resource, ServerCapabilities, Tool as McpDefinition,
};
use serde::Serialize;

use super::server::{Connection, Server};
use super::tool::McpTool;
use crate::tool::{Admitted, Source, Tool};

/// How many tools, resources or prompts of a server are listed; more are left out.
pub const MAX_LISTED: usize = 2000;

/// Bytes of the list of a server, as JSON; more are left out.
pub const MAX_LISTED_BYTES: usize = 1024 * 1024;

/// How many pages are asked for: a server that has always one more is stopped here.
const MAX_PAGES: usize = 100;

/// How long a server may take for all pages.
const LISTING: Duration = Duration::from_secs(20);

/// What a server has of a kind, as far as it is listed.
struct List<T> {
    items: Vec<T>,
    bytes: usize,
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            bytes: 0,
        }
    }
}

impl<T: Serialize> List<T> {
    /// Adds a page, as far as there is room; returns whether there may be more.
    fn add(&mut self, page: Vec<T>) -> bool {
        for item in page {
            let bytes = self.bytes.saturating_add(size(&item));
            if bytes > MAX_LISTED_BYTES || self.items.len() >= MAX_LISTED {
                tracing::warn!(
                    "a list of over {MAX_LISTED} entries or {MAX_LISTED_BYTES} bytes is cut off"
                );
                return false;
            }
            self.bytes = bytes;
            self.items.push(item);
        }
        true
    }
}

/// All pages of a list.
macro_rules! pages {
    ($peer:expr, $list:ident, $items:ident) => {
        async {
            let (mut list, mut cursor) = (List::default(), None);
            for _ in 0..MAX_PAGES {
                let asked = PaginatedRequestParams::default().with_cursor(cursor);
                let page = $peer.$list(Some(asked)).await?;
                cursor = page.next_cursor.filter(|cursor| !cursor.is_empty());
                if !list.add(page.$items) || cursor.is_none() {
                    break;
                }
            }
            Ok(list.items)
        }
    };
}

impl Connection {
    pub(super) async fn tools(&self) -> Result<Vec<McpDefinition>, ServiceError> {
        in_time(pages!(self.peer(), list_tools, tools)).await
    }

    pub(super) async fn resources(&self) -> Result<Vec<Resource>, ServiceError> {
        if !self.offers(|it| it.resources.is_some()) {
            return Ok(Vec::new());
        }
        in_time(pages!(self.peer(), list_resources, resources)).await
    }

    pub(super) async fn prompts(&self) -> Result<Vec<Prompt>, ServiceError> {
        if !self.offers(|it| it.prompts.is_some()) {
            return Ok(Vec::new());
        }
        in_time(pages!(self.peer(), list_prompts, prompts)).await
    }

    /// Whether the server says that it has something of a kind.
    fn offers(&self, what: impl Fn(&ServerCapabilities) -> bool) -> bool {
        let info = self.peer().peer_info();
        info.is_some_and(|info| what(&info.capabilities))
    }
}

/// How many bytes something has as JSON. It is not written anywhere.
fn size(value: &impl Serialize) -> usize {
    struct Count(usize);

    impl Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.saturating_add(bytes.len());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    let mut count = Count(0);
    match serde_json::to_writer(&mut count, value) {
        Ok(()) => count.0,
        Err(_) => usize::MAX,
    }
}

fn offered(tools: &[Arc<dyn Tool>]) -> HashMap<String, Digest> {
    let definitions = tools.iter().map(|tool| tool.definition());
    definitions
        .map(|it| (it.name().to_owned(), it.hash()))
        .collect()
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
    /// Waits for an answer as long as a request may take.
    pub(super) async fn in_time<T>(
        &self,
        answer: impl Future<Output = Result<T, ServiceError>>,
    ) -> Result<T, ServiceError> {
        let timeout = self.settings.timeout;
        let answer = tokio::time::timeout(timeout, answer).await;
        answer.unwrap_or(Err(ServiceError::Timeout { timeout }))
    }

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
        let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
        for told in connection.tools().await.unwrap_or_default() {
            if !self.allows(&told.name) {
                continue;
            }
            match McpTool::new(self, &told) {
                Ok(tool) => tools.push(Arc::new(tool)),
                Err(error) => tracing::warn!(server = self.name(), "a tool is left out: {error}"),
            }
        }
        {
            let mut told = self.told();
            told.tools = tools.len();
            told.offered = offered(&tools);
        }
        let source = self.source();
        let pinning = &self.ground.pinning;
        let admitted = match &self.owner {
            Some(owner) => {
                let agent = &owner.agent;
                pinning.admit_owned(&owned(agent), &source, tools).await
            }
            None => pinning.admit(&source, tools).await,
        };
        let admitted = match admitted {
            Ok(admitted) => admitted,
            Err(error) => {
                return tracing::error!(%error, server = self.name(), "its tools cannot be served");
            }
        };
        // It may have been removed while its tools were looked at, and another may have its name by now.
        if self.over.is_cancelled() {
            return self.release().await;
        }
        self.put(source, admitted);
    }

    fn put(&self, source: Source, admitted: Admitted) {
        let catalogue = &self.ground.catalogue;
        let clashes = match &self.owner {
            Some(owner) => catalogue.set_admitted_for(&owner.agent, source, admitted),
            None => catalogue.set_admitted(source, admitted),
        };
        for clash in clashes {
            tracing::warn!("the tool `{}` is hidden by another of its name", clash.name);
        }
    }

    /// Puts the tools there that were approved when the server last ran, so that it need not run until
    /// one is called. Says whether there are any.
    pub(super) async fn recall_tools(self: &Arc<Self>) -> bool {
        let source = self.source();
        let definitions = self.ground.pinning.definitions();
        let approved = match definitions.approved(&source.to_string()).await {
            Ok(approved) => approved,
            Err(error) => {
                tracing::warn!(%error, server = self.name(), "its tools are not remembered");
                return false;
            }
        };
        let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
        for (_, text) in approved {
            if let Some(tool) = McpTool::recalled(self, &text).filter(|it| self.allows(it.name())) {
                tools.push(Arc::new(tool));
            }
        }
        self.told().tools = tools.len();
        let is_known = !tools.is_empty();
        self.put(source, Admitted::all(tools));
        is_known
    }

    /// Whether agents may call a tool.
    fn allows(&self, name: &str) -> bool {
        let allowed = &self.settings.tools;
        allowed.is_empty() || allowed.iter().any(|it| it == name)
    }

    /// Takes its tools away.
    pub(super) fn withdraw(&self) {
        match &self.owner {
            Some(owner) => self
                .ground
                .catalogue
                .remove_for(&owner.agent, &self.source()),
            None => self.ground.catalogue.remove(&self.source()),
        }
    }

    /// Whether agents may see a resource.
    pub(super) fn lets_through(&self, resource: &Resource) -> bool {
        let allowed = &self.settings.resources;
        let is_it = |word: &String| *word == resource.uri || *word == resource.name;
        allowed.is_empty() || allowed.iter().any(is_it)
    }

    /// Its agent has taken it away: what was approved of it need not be remembered for ever.
    pub(super) async fn release(&self) {
        let source = self.source().to_string();
        self.ground.pinning.definitions().release(&source).await;
    }

    /// What its tools are approved under. Each agent's own are apart from everybody's.
    pub(super) fn source(&self) -> Source {
        Source::Mcp(match &self.owner {
            Some(owner) => format!("{}{}", folder(&owner.agent), self.name()),
            None => self.name().to_owned(),
        })
    }
}

/// What the sources of all servers of an agent begin with.
fn owned(agent: &str) -> String {
    Source::Mcp(folder(agent)).to_string()
}

/// Where the servers of an agent stand. No server of the operator's has an `@` in its name: an agent that
/// is called like one of them must not have to do with its tools.
fn folder(agent: &str) -> String {
    format!("@{agent}/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_list_is_that_of_its_json() {
        let list = serde_json::json!([{"name": "a", "text": "\n"}]);
        assert_eq!(size(&list), list.to_string().len());
    }

    #[test]
    fn the_servers_of_an_agent_are_nobody_elses() {
        let operators = Source::Mcp("x".to_owned());
        assert!(!format!("{operators}/x__tool").starts_with(&owned("x")));
        assert!(!owned("xy").starts_with(&owned("x")));
    }
}
