//! Tools of foreign sources, as far as what they say was approved.

use std::fmt;
use std::sync::Arc;

use a2e_runtime::definitions::{Definitions, Shown, Standing, pin};
use canonical::Digest;
use store::Error;

use super::{Source, Tool};

/// The name under which all tools of a source are approved together.
const ALL: &str = "all";

/// Compares tools with what was approved.
#[derive(Debug, Clone)]
pub struct Pinning {
    definitions: Definitions,
}

/// What may be called, and what may not yet.
#[derive(Clone, Default)]
pub struct Admitted {
    /// Tools that are as they were approved.
    pub tools: Vec<Arc<dyn Tool>>,
    /// Tools that are not.
    pub quarantined: Vec<Quarantined>,
}

/// A tool whose definition, or what runs behind it, has changed.
#[derive(Clone)]
pub struct Quarantined {
    /// What it is approved under.
    pub pin: String,
    /// What it says now.
    pub offered: Digest,
    /// What was approved, if anything was.
    pub approved: Option<Digest>,
    /// The tool, for when it is approved.
    pub tool: Arc<dyn Tool>,
}

impl Pinning {
    /// Compares with these definitions.
    #[must_use]
    pub const fn new(definitions: Definitions) -> Self {
        Self { definitions }
    }

    /// What it compares with.
    #[must_use]
    pub const fn definitions(&self) -> &Definitions {
        &self.definitions
    }

    /// Parts the tools of a source into those that are as approved, or new, and those that have
    /// changed. A source that has too many new ones is told so in the log.
    ///
    /// # Errors
    /// If the store fails; then nothing may be called.
    pub async fn admit(
        &self,
        source: &Source,
        tools: Vec<Arc<dyn Tool>>,
    ) -> Result<Admitted, Error> {
        let (source, texts) = (source.to_string(), texts(&tools));
        let mut standings = Vec::with_capacity(tools.len());
        for shown in shown(&source, &tools, &texts) {
            standings.push(self.definitions.compare(shown).await?);
        }
        Ok(parted(&source, tools, &texts, &standings))
    }

    /// The same for a source that an agent has added, within the share of that agent: `owner` is what
    /// the names of all its sources begin with.
    ///
    /// # Errors
    /// If the store fails; then nothing may be called.
    pub async fn admit_owned(
        &self,
        owner: &str,
        source: &Source,
        tools: Vec<Arc<dyn Tool>>,
    ) -> Result<Admitted, Error> {
        let (source, texts) = (source.to_string(), texts(&tools));
        let shown = shown(&source, &tools, &texts);
        let standings = self.definitions.compare_owned(owner, &shown).await?;
        Ok(parted(&source, tools, &texts, &standings))
    }
}

impl Pinning {
    /// The same for tools that one text describes, all of which are approved with it.
    ///
    /// # Errors
    /// If the store fails; then nothing may be called.
    pub async fn admit_together(
        &self,
        source: &Source,
        text: &str,
        tools: Vec<Arc<dyn Tool>>,
    ) -> Result<Admitted, Error> {
        let source = source.to_string();
        let shown = Shown {
            source: &source,
            name: ALL,
            text,
        };
        let standing = self.definitions.compare(shown).await?;
        let one = |tool| Quarantined {
            pin: pin(&source, ALL),
            offered: Digest::of(text.as_bytes()),
            approved: standing.approved(),
            tool,
        };
        Ok(match standing {
            Standing::Approved => Admitted::all(tools),
            Standing::Changed { .. } | Standing::New => Admitted {
                tools: Vec::new(),
                quarantined: tools.into_iter().map(one).collect(),
            },
            Standing::TooMany => Admitted::default(),
        })
    }
}

/// What each tool is pinned by.
fn texts(tools: &[Arc<dyn Tool>]) -> Vec<String> {
    let text = |tool: &Arc<dyn Tool>| tool.definition().pinned_text(tool.content().as_ref());
    tools.iter().map(text).collect()
}

fn shown<'a>(source: &'a str, tools: &'a [Arc<dyn Tool>], texts: &'a [String]) -> Vec<Shown<'a>> {
    let shown = tools.iter().zip(texts).map(|(tool, text)| Shown {
        source,
        name: tool.definition().name(),
        text,
    });
    shown.collect()
}

fn parted(
    source: &str,
    tools: Vec<Arc<dyn Tool>>,
    texts: &[String],
    standings: &[Standing],
) -> Admitted {
    let mut admitted = Admitted::default();
    for ((tool, text), standing) in tools.into_iter().zip(texts).zip(standings) {
        match standing {
            Standing::Approved => admitted.tools.push(tool),
            Standing::TooMany => {}
            Standing::Changed { .. } | Standing::New => admitted.quarantined.push(Quarantined {
                pin: pin(source, tool.definition().name()),
                offered: Digest::of(text.as_bytes()),
                approved: standing.approved(),
                tool,
            }),
        }
    }
    admitted
}

impl Admitted {
    /// Tools that need nobody's approval.
    #[must_use]
    pub const fn all(tools: Vec<Arc<dyn Tool>>) -> Self {
        Self {
            tools,
            quarantined: Vec::new(),
        }
    }
}

impl Quarantined {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.tool.definition().name()
    }
}

impl fmt::Debug for Quarantined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quarantined")
            .field("pin", &self.pin)
            .field("offered", &self.offered)
            .field("approved", &self.approved)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Admitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tools = self.tools.iter();
        let names: Vec<&str> = tools.map(|tool| tool.definition().name()).collect();
        f.debug_struct("Admitted")
            .field("tools", &names)
            .field("quarantined", &self.quarantined)
            .finish()
    }
}
