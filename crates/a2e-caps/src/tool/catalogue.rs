//! The tools there are, by where they come from.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use a2e_wire::messages::tool::{ToolDefinition, ToolListRequest};
use arc_swap::ArcSwap;
use canonical::Digest;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::Tool;
use super::configuration::ToolConfiguration;
use super::own::{Agents, Loader, MAX_OWN_LISTED};
use super::pinning::{Admitted, Quarantined};
use super::search::Index;

/// Where tools come from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Source {
    /// Part of this program.
    BuiltIn,
    /// The configuration.
    Config,
    /// The folder of scripts.
    Scripts,
    /// A document that describes operations.
    Document(String),
    /// A toolkit that was configured.
    Toolkit(String),
    /// A component.
    Component(String),
    /// Another host, or a server of another protocol.
    Mounted(String),
    /// Other agents.
    Peers,
    /// Commands that other agents may have run.
    Intents,
    /// A server of the Model Context Protocol.
    Mcp(String),
    /// The plugin itself: what reads results that were too large.
    Artifacts,
    /// What finds and reads skills.
    Skills,
}

/// The tools there are. Whoever has some sets them; everybody else sees them all at once or not yet.
#[derive(Debug, Default)]
pub struct Catalogue {
    /// In the order in which sources came. Only for changes.
    sources: Mutex<Vec<(Source, Offered)>>,
    current: ArcSwap<Snapshot>,
    agents: Agents,
    /// How often something has changed.
    changes: watch::Sender<u64>,
}

/// What a source has.
#[derive(Default, Clone)]
pub(super) struct Offered {
    tools: Vec<Arc<dyn Tool>>,
    quarantined: Vec<Quarantined>,
}

/// The tools there were at one moment.
#[derive(Debug, Default)]
pub struct Snapshot {
    entries: Vec<Entry>,
    by_name: HashMap<String, usize>,
    quarantined: HashMap<String, Quarantined>,
    clashes: Vec<Clash>,
    index: Index,
}

/// A tool of a catalogue.
pub struct Entry {
    /// The tool.
    pub tool: Arc<dyn Tool>,
    /// Where it comes from.
    pub source: Source,
    /// As it is listed.
    pub listed: ToolDefinition<'static>,
    /// The hash of its definition.
    pub hash: Digest,
}

/// A name that two sources have. The one that came first has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clash {
    /// The name.
    pub name: String,
    /// Who has it.
    pub kept: Source,
    /// Whose tool cannot be called.
    pub hidden: Source,
}

impl Catalogue {
    /// Sets the tools of a source, in place of those it had; says which of them cannot be called
    /// because another source, or the same, has a tool of that name.
    pub fn set(&self, source: Source, tools: Vec<Arc<dyn Tool>>) -> Vec<Clash> {
        self.change(source, Offered::of(tools))
    }

    /// Sets the tools of a source that were compared with what was approved. Those in quarantine
    /// cannot be called, and whoever tries is told why.
    pub fn set_admitted(&self, source: Source, admitted: Admitted) -> Vec<Clash> {
        let Admitted { tools, quarantined } = admitted;
        self.change(source, Offered { tools, quarantined })
    }

    /// Sets all that a configuration describes, in place of all that the one before did; everybody
    /// else sees both at once or neither.
    pub fn replace_described(&self, described: Vec<(Source, Admitted)>) {
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        *sources = replaced(&sources, &described);
        self.put(Snapshot::of(&*sources));
    }

    /// The tools there would be with [these](Self::replace_described).
    #[must_use]
    pub fn with_described(&self, described: &[(Source, Admitted)]) -> Snapshot {
        let sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        Snapshot::of(&replaced(&sources, described))
    }

    /// A tool in quarantine was approved: it can be called from now on.
    pub fn release(&self, pin: &str, approved: Digest) {
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |one: &mut Quarantined| one.pin == pin && one.offered == approved;
        for (_, offered) in &mut *sources {
            let released = offered.quarantined.extract_if(.., is_it);
            offered.tools.extend(released.map(|one| one.tool));
        }
        self.put(Snapshot::of(&*sources));
    }

    /// Removes all that a source has.
    pub fn remove(&self, source: &Source) {
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        sources.retain(|(known, _)| known != source);
        self.put(Snapshot::of(&*sources));
    }

    /// Tells whenever tools may have changed, for everybody or for one agent.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn put(&self, snapshot: Snapshot) {
        self.current.store(Arc::new(snapshot));
        self.tell();
    }

    fn tell(&self) {
        self.changes
            .send_modify(|count| *count = count.wrapping_add(1));
    }

    /// The tools there are now for everybody.
    #[must_use]
    pub fn current(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    /// Who knows which tools an agent has of its own. Asked once for each agent, when it first
    /// wants to know; the first loader stays.
    pub fn load_with(&self, loader: Arc<dyn Loader>) {
        self.agents.load_with(loader);
    }

    /// The tools there are now for an agent: those for everybody, then its own.
    pub async fn current_for(&self, agent: &str) -> Arc<Snapshot> {
        let Some(own) = self.agents.find(agent).await else {
            return self.current();
        };
        own.merged(self)
    }

    /// Sets the tools that a source has for one agent alone, in place of those it had; says which of
    /// them cannot be called, as [`Catalogue::set`] does.
    pub fn set_for(&self, agent: &str, source: Source, tools: Vec<Arc<dyn Tool>>) -> Vec<Clash> {
        let own = self.agents.own(agent);
        own.set(source.clone(), Offered::of(tools));
        self.tell();
        own.merged(self).clashes_of(&source)
    }

    /// The same for tools of a server that the agent has registered, which were compared with what was
    /// approved. Those are left out for which all its servers together have
    /// [too much](super::MAX_OWN_LISTED).
    pub fn set_admitted_for(&self, agent: &str, source: Source, admitted: Admitted) -> Vec<Clash> {
        let own = self.agents.own(agent);
        let Admitted { tools, quarantined } = admitted;
        let left_out = own.set_server(source.clone(), Offered { tools, quarantined });
        if left_out > 0 {
            tracing::warn!(
                agent,
                %source,
                "{left_out} tools are left out: those of all servers of the agent may have \
                 {MAX_OWN_LISTED} bytes"
            );
        }
        self.tell();
        own.merged(self).clashes_of(&source)
    }

    /// Removes all that a source has for one agent alone.
    pub fn remove_for(&self, agent: &str, source: &Source) {
        self.agents.own(agent).remove(source);
        self.tell();
    }

    /// Whether a source has set tools for an agent alone.
    pub async fn is_set_for(&self, agent: &str, source: &Source) -> bool {
        let own = self.agents.find(agent).await;
        own.is_some_and(|own| own.has(source))
    }

    /// What everybody has: the snapshot, and what it was made of.
    pub(super) fn common(&self) -> (Arc<Snapshot>, Vec<(Source, Offered)>) {
        let sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        (self.current(), sources.clone())
    }

    fn change(&self, source: Source, offered: Offered) -> Vec<Clash> {
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        put(&mut sources, source.clone(), offered);
        let snapshot = Snapshot::of(&*sources);
        let clashes = snapshot.clashes_of(&source);
        self.put(snapshot);
        clashes
    }
}

/// Sets what a source has; one that is known keeps its place.
pub(super) fn put(sources: &mut Vec<(Source, Offered)>, source: Source, offered: Offered) {
    match sources.iter_mut().find(|(known, _)| *known == source) {
        Some((_, slot)) => *slot = offered,
        None => sources.push((source, offered)),
    }
}

/// The same sources with another configuration.
fn replaced(
    sources: &[(Source, Offered)],
    described: &[(Source, Admitted)],
) -> Vec<(Source, Offered)> {
    let stay = sources.iter().filter(|(source, _)| !source.is_described());
    let new = described.iter().map(|(source, admitted)| {
        let Admitted { tools, quarantined } = admitted.clone();
        (source.clone(), Offered { tools, quarantined })
    });
    stay.cloned().chain(new).collect()
}

impl Source {
    /// Whether the configuration says what it has.
    const fn is_described(&self) -> bool {
        match self {
            Self::Config
            | Self::Scripts
            | Self::Document(_)
            | Self::Component(_)
            | Self::Peers
            | Self::Intents => true,
            Self::BuiltIn
            | Self::Toolkit(_)
            | Self::Mounted(_)
            | Self::Mcp(_)
            | Self::Artifacts
            | Self::Skills => false,
        }
    }
}

impl Offered {
    pub(super) const fn of(tools: Vec<Arc<dyn Tool>>) -> Self {
        let quarantined = Vec::new();
        Self { tools, quarantined }
    }

    /// Bytes that its tools have in a list.
    pub(super) fn listed_size(&self) -> usize {
        let sizes = self
            .tools
            .iter()
            .map(|tool| tool.definition().listed_size());
        sizes.sum()
    }

    /// Leaves out the tools behind the first that does not fit into so many bytes; returns how many.
    pub(super) fn fit(&mut self, bytes: usize) -> usize {
        let mut left = Some(bytes);
        let fits = |tool: &&Arc<dyn Tool>| {
            left = left.and_then(|left| left.checked_sub(tool.definition().listed_size()));
            left.is_some()
        };
        let count = self.tools.iter().take_while(fits).count();
        self.tools.drain(count..).count()
    }
}

impl Snapshot {
    pub(super) fn of<'s>(sources: impl IntoIterator<Item = &'s (Source, Offered)>) -> Self {
        let mut snapshot = Self::default();
        for (source, offered) in sources {
            for tool in &offered.tools {
                snapshot.add(source, tool);
            }
            for one in &offered.quarantined {
                let name = one.name().to_owned();
                snapshot
                    .quarantined
                    .entry(name)
                    .or_insert_with(|| one.clone());
            }
        }
        let definitions = snapshot.entries.iter().map(|entry| entry.tool.definition());
        snapshot.index = Index::build(definitions);
        snapshot
    }

    fn add(&mut self, source: &Source, tool: &Arc<dyn Tool>) {
        let name = tool.definition().name();
        let known = self.by_name.get(name).and_then(|at| self.entries.get(*at));
        if let Some(known) = known {
            return self.clashes.push(Clash {
                name: name.to_owned(),
                kept: known.source.clone(),
                hidden: source.clone(),
            });
        }
        self.by_name.insert(name.to_owned(), self.entries.len());
        self.entries.push(Entry {
            tool: Arc::clone(tool),
            source: source.clone(),
            listed: tool.definition().to_wire(),
            hash: tool.definition().hash(),
        });
    }

    /// The tool of this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Entry> {
        self.entries.get(*self.by_name.get(name)?)
    }

    /// The tool of this name, if it is in quarantine.
    #[must_use]
    pub fn quarantined(&self, name: &str) -> Option<&Quarantined> {
        self.quarantined.get(name)
    }

    /// All that are in quarantine.
    pub fn all_quarantined(&self) -> impl Iterator<Item = &Quarantined> {
        self.quarantined.values()
    }

    /// The tools, in the order in which they came.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    fn clashes_of(&self, source: &Source) -> Vec<Clash> {
        let hidden = self.clashes.iter().filter(|clash| clash.hidden == *source);
        hidden.cloned().collect()
    }

    /// The names that several sources have.
    #[must_use]
    pub fn clashes(&self) -> &[Clash] {
        &self.clashes
    }

    /// Lists or searches, as a request asks: with a query the best first, else in the order in which
    /// they came. All tags asked for must be there; deferred tools only where they are asked for.
    #[must_use]
    pub fn list(&self, request: &ToolListRequest<'_>) -> Vec<ToolDefinition<'static>> {
        let wanted: Vec<String> = request
            .filter_tags
            .iter()
            .map(|tag| tag.to_lowercase())
            .collect();
        let fits = |entry: &Entry| {
            let has = |wanted: &String| {
                let mut tags = entry.listed.tags.iter();
                tags.any(|tag| tag.to_lowercase() == *wanted)
            };
            (request.include_deferred || !entry.listed.defer_loading) && wanted.iter().all(has)
        };
        let listed = |entry: &Entry| entry.listed.clone();
        if request.query.trim().is_empty() {
            let fitting = self.entries.iter().filter(|entry| fits(entry));
            return fitting.map(listed).collect();
        }
        let found = self
            .index
            .search_among(&request.query, |at| self.entries.get(at).is_some_and(fits));
        let found = found.into_iter().filter_map(|at| self.entries.get(at));
        found.map(listed).collect()
    }
}

impl Entry {
    /// Which tool it is: the digest of where it comes from, of its definition, of what runs and of what it is
    /// configured with; and what the operator is shown of that.
    #[must_use]
    pub fn identity(&self) -> (Digest, Value) {
        let content = self.tool.content();
        let definition = self.tool.definition().pinned_text(content.as_ref());
        let definition = Digest::of(definition.as_bytes()).to_string();
        let (source, configuration) = (self.source.to_string(), self.tool.configuration());
        let configured = configuration.as_ref().map(|it| it.digest().to_string());
        let all = json!([source, definition, configured]);
        let configuration = configuration.as_ref().map(ToolConfiguration::shown);
        let shown = match configuration {
            Some(shown) => {
                json!({"source": source, "definition": definition, "configuration": shown})
            }
            None => json!({"source": source, "definition": definition}),
        };
        (Digest::of(all.to_string().as_bytes()), shown)
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.tool.definition().name();
        f.debug_tuple("Entry")
            .field(&name)
            .field(&self.source)
            .finish()
    }
}

impl fmt::Debug for Offered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.tools.iter().map(|tool| tool.definition().name());
        f.debug_list().entries(names).finish()
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("built-in"),
            Self::Config => f.write_str("config"),
            Self::Scripts => f.write_str("scripts"),
            Self::Document(path) => write!(f, "openapi:{path}"),
            Self::Toolkit(name) => write!(f, "toolkit:{name}"),
            Self::Component(name) => write!(f, "component:{name}"),
            Self::Mounted(name) => write!(f, "remote_plugin:{name}"),
            Self::Peers => f.write_str("peers"),
            Self::Intents => f.write_str("intents"),
            Self::Mcp(name) => write!(f, "mcp:{name}"),
            Self::Artifacts => f.write_str("artifacts"),
            Self::Skills => f.write_str("skills"),
        }
    }
}
