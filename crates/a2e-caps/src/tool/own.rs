//! The tools that one agent has and others do not.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use a2e_runtime::BoxFuture;
use tokio::sync::OnceCell;

use super::Tool;
use super::catalogue::{Catalogue, Offered, Snapshot, Source, put};

/// Knows which tools an agent has of its own, from earlier processes too.
pub trait Loader: Send + Sync + 'static {
    /// The tools of an agent, by source.
    fn load<'a>(&'a self, agent: &'a str) -> BoxFuture<'a, Result<Vec<Loaded>, LoadError>>;
}

/// What a source has for one agent.
pub struct Loaded {
    /// Where they come from.
    pub source: Source,
    /// The tools.
    pub tools: Vec<Arc<dyn Tool>>,
}

/// Why it cannot be said which tools an agent has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LoadError(pub String);

/// What each agent has of its own.
#[derive(Default)]
pub(super) struct Agents {
    loader: OnceLock<Arc<dyn Loader>>,
    all: RwLock<HashMap<String, Arc<Own>>>,
}

/// Agents that are remembered although they have nothing: other agents, whose names cost nothing, may
/// be among them.
const MAX_IDLE: usize = 10_000;

/// Bytes that the tools of all servers that one agent has registered may have in a list.
pub const MAX_OWN_LISTED: usize = 1024 * 1024;

/// What one agent has of its own.
#[derive(Default)]
pub(super) struct Own {
    loaded: OnceCell<()>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    sources: Vec<(Source, Offered)>,
    /// What everybody had when it was merged, and all together.
    merged: Option<(Arc<Snapshot>, Arc<Snapshot>)>,
}

impl Agents {
    pub(super) fn load_with(&self, loader: Arc<dyn Loader>) {
        // Whoever asked with the first one has an answer already.
        let _ = self.loader.set(loader);
    }

    /// What an agent has, once it is loaded; nothing where no agent can have anything.
    pub(super) async fn find(&self, agent: &str) -> Option<Arc<Own>> {
        let Some(loader) = self.loader.get() else {
            return self.known(agent);
        };
        let own = self.own(agent);
        let loading = own.loaded.get_or_try_init(|| async {
            let loaded = loader.load(agent).await?;
            for Loaded { source, tools } in loaded {
                own.set(source, Offered::of(tools));
            }
            Ok::<(), LoadError>(())
        });
        if let Err(error) = loading.await {
            // What everybody has still works, and the next request tries again.
            tracing::warn!(agent, %error, "the agent's own tools cannot be loaded");
        }
        Some(own)
    }

    /// What an agent has, or room for it.
    pub(super) fn own(&self, agent: &str) -> Arc<Own> {
        if let Some(own) = self.known(agent) {
            return own;
        }
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MAX_IDLE && !all.contains_key(agent) {
            // Whoever has nothing is looked up again when it comes again.
            all.retain(|_, own| Arc::strong_count(own) > 1 || !own.is_empty());
        }
        Arc::clone(all.entry(agent.to_owned()).or_default())
    }

    fn known(&self, agent: &str) -> Option<Arc<Own>> {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        all.get(agent).cloned()
    }
}

impl Own {
    pub(super) fn set(&self, source: Source, offered: Offered) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        put(&mut state.sources, source, offered);
        state.merged = None;
    }

    /// The same for a server that the agent has registered: of its tools, the first that fit into what
    /// all its servers together may have in a list. Returns how many are left out.
    pub(super) fn set_server(&self, source: Source, mut offered: Offered) -> usize {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_other_server = |known: &Source| matches!(known, Source::Mcp(_)) && *known != source;
        let others = state
            .sources
            .iter()
            .filter(|(known, _)| is_other_server(known));
        let used: usize = others.map(|(_, offered)| offered.listed_size()).sum();
        let left_out = offered.fit(MAX_OWN_LISTED.saturating_sub(used));
        put(&mut state.sources, source, offered);
        state.merged = None;
        left_out
    }

    pub(super) fn remove(&self, source: &Source) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.sources.retain(|(known, _)| known != source);
        state.merged = None;
    }

    fn is_empty(&self) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.sources.is_empty()
    }

    pub(super) fn has(&self, source: &Source) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.sources.iter().any(|(known, _)| known == source)
    }

    /// What everybody has and this; made once, until either changes.
    pub(super) fn merged(&self, catalogue: &Catalogue) -> Arc<Snapshot> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.sources.is_empty() {
            return catalogue.current();
        }
        if let Some((of, merged)) = &state.merged
            && Arc::ptr_eq(of, &catalogue.current())
        {
            return Arc::clone(merged);
        }
        let (common, sources) = catalogue.common();
        let merged = Arc::new(Snapshot::of(sources.iter().chain(&state.sources)));
        state.merged = Some((common, Arc::clone(&merged)));
        merged
    }
}

impl fmt::Debug for Agents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        f.debug_set().entries(all.keys()).finish()
    }
}

impl fmt::Debug for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.tools.iter().map(|tool| tool.definition().name());
        f.debug_map()
            .entry(&self.source, &names.collect::<Vec<_>>())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::{Call, Definition, Output, ToolFailure};

    #[test]
    fn agents_without_tools_of_their_own_are_forgotten() {
        let agents = Agents::default();
        agents.own("kept").set(Source::Config, Offered::default());
        let used = agents.own("used");
        for number in 2..MAX_IDLE {
            agents.own(&number.to_string());
        }
        let count = || agents.all.read().unwrap().len();
        assert_eq!(count(), MAX_IDLE);
        agents.own("2");
        assert_eq!(count(), MAX_IDLE, "one that is known needs no room");
        agents.own("one more");
        assert_eq!(count(), 3);
        assert!(agents.known("kept").is_some());
        assert!(Arc::ptr_eq(&agents.known("used").unwrap(), &used));
    }

    #[test]
    fn servers_of_an_agent_have_so_many_bytes_of_tools_together() {
        let tool = |name: &str, text: usize| -> Arc<dyn Tool> {
            let schema = serde_json::json!({"type": "object"});
            let definition = Definition::new(name, "x".repeat(text), &schema).unwrap();
            Arc::new(Named(definition))
        };
        let size = tool("a", 0).definition().listed_size();
        let own = Own::default();
        let set = |server: &str, texts: &[usize]| {
            let tools = texts.iter().map(|text| tool("a", *text)).collect();
            own.set_server(Source::Mcp(server.to_owned()), Offered::of(tools))
        };
        let half = MAX_OWN_LISTED / 2;
        let longest = 60 * 1024;
        let fills = |bytes: usize| {
            let count = bytes / (longest + size);
            let mut texts = vec![longest; count];
            texts.push(bytes - count * (longest + size) - size);
            texts
        };
        assert_eq!(set("one", &fills(half)), 0);
        assert_eq!(set("two", &fills(half)), 0);
        assert_eq!(set("three", &[0, 0]), 2);
        // A server in place of itself needs no more room than it has.
        assert_eq!(set("two", &fills(half)), 0);
        assert_eq!(set("two", &fills(half + 1)), 1);
        own.remove(&Source::Mcp("one".to_owned()));
        assert_eq!(set("three", &[0, 0]), 0);
        // What is not of a server is not counted.
        own.set(Source::Config, Offered::of(vec![tool("a", longest)]));
        assert_eq!(set("four", &fills(half - 2 * size)), 0);
    }

    struct Named(Definition);

    impl Tool for Named {
        fn definition(&self) -> &Definition {
            &self.0
        }

        fn call(&self, _: Call) -> BoxFuture<'_, Result<Output, ToolFailure>> {
            Box::pin(std::future::ready(Err(ToolFailure::new("not called"))))
        }
    }

    /// An agent may register a server under another name each time.
    #[test]
    fn removed_sources_leave_no_entry() {
        let own = Own::default();
        for number in 0..100 {
            let source = Source::Mcp(format!("@eve/{number}"));
            own.set(source.clone(), Offered::default());
            assert!(own.has(&source));
            own.remove(&source);
        }
        assert!(own.is_empty());
    }
}
