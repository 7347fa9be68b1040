//! The tools there are, by where they come from.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use a2e_wire::messages::tool::{ToolDefinition, ToolListRequest};
use arc_swap::ArcSwap;
use canonical::Digest;

use super::Tool;
use super::pinning::{Admitted, Quarantined};
use super::search::Index;

/// Where tools come from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Source {
    /// Part of this program.
    BuiltIn,
    /// The configuration.
    Config,
    /// A toolkit that was configured.
    Toolkit(String),
    /// A component.
    Component(String),
    /// Another host, or a server of another protocol.
    Mounted(String),
    /// The plugin itself: what reads results that were too large.
    Artifacts,
}

/// The tools there are. Whoever has some sets them; everybody else sees them all at once or not yet.
#[derive(Debug, Default)]
pub struct Catalogue {
    /// In the order in which sources came. Only for changes.
    sources: Mutex<Vec<(Source, Offered)>>,
    current: ArcSwap<Snapshot>,
}

/// What a source has.
#[derive(Default, Clone)]
struct Offered {
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
        let quarantined = Vec::new();
        self.change(source, Offered { tools, quarantined })
    }

    /// Sets the tools of a source that were compared with what was approved. Those in quarantine
    /// cannot be called, and whoever tries is told why.
    pub fn set_admitted(&self, source: Source, admitted: Admitted) -> Vec<Clash> {
        let Admitted { tools, quarantined } = admitted;
        self.change(source, Offered { tools, quarantined })
    }

    /// Removes all that a source has.
    pub fn remove(&self, source: &Source) {
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        sources.retain(|(known, _)| known != source);
        self.current.store(Arc::new(Snapshot::of(&sources)));
    }

    /// The tools there are now.
    #[must_use]
    pub fn current(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    fn change(&self, source: Source, offered: Offered) -> Vec<Clash> {
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        match sources.iter_mut().find(|(known, _)| *known == source) {
            Some((_, slot)) => *slot = offered,
            None => sources.push((source.clone(), offered)),
        }
        let snapshot = Snapshot::of(&sources);
        let mine = |clash: &&Clash| clash.hidden == source;
        let clashes = snapshot.clashes.iter().filter(mine).cloned().collect();
        self.current.store(Arc::new(snapshot));
        clashes
    }
}

impl Snapshot {
    fn of(sources: &[(Source, Offered)]) -> Self {
        let mut snapshot = Self::default();
        for (source, offered) in sources {
            for tool in &offered.tools {
                snapshot.add(source, tool);
            }
            for one in &offered.quarantined {
                let name = one.name.clone();
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
            Self::Toolkit(name) => write!(f, "toolkit:{name}"),
            Self::Component(name) => write!(f, "component:{name}"),
            Self::Mounted(name) => write!(f, "mounted:{name}"),
            Self::Artifacts => f.write_str("artifacts"),
        }
    }
}
