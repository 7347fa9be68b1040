//! What agents remember: keys of a plugin of the type `memory`.

use std::path::PathBuf;
use std::time::Duration;

use super::read::{Field, Section};
use super::sections::{Reader, set, set_some};
use crate::secret::Secret;

/// How memories are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Memory {
    /// Working entries of one memory in one session.
    pub working_limit: usize,
    /// Episodic entries of one memory of an agent.
    pub episodic_limit: usize,
    /// Semantic entries of one memory.
    pub semantic_limit: usize,
    /// Whether the oldest entry goes when there is no room; else the new one is refused.
    pub evict: bool,
    /// The agents that may read semantic entries; all, if nothing is said.
    pub semantic_readers: Option<Vec<String>>,
    /// The agents that may write and forget them; all, if nothing is said.
    pub semantic_writers: Option<Vec<String>>,
    /// The model that reads entries for what they mean.
    pub embedder: Option<Embedder>,
}

/// Where a model is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Embedder {
    /// Behind an endpoint.
    Endpoint(EmbedderEndpoint),
    /// In a folder, as model2vec writes it.
    Folder(PathBuf),
}

/// A model behind an endpoint as OpenAI has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbedderEndpoint {
    /// Where it begins, such as `https://api.example/v1`.
    pub url: String,
    /// Its name there.
    pub model: String,
    /// The credential it asks for.
    pub api_key: Option<Secret>,
    /// Hosts that it may be at although their addresses are not public.
    pub private_hosts: Vec<String>,
    /// How long an answer may take.
    pub timeout: Duration,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            working_limit: 1_000,
            episodic_limit: 100_000,
            semantic_limit: 1_000_000,
            evict: true,
            semantic_readers: None,
            semantic_writers: None,
            embedder: None,
        }
    }
}

impl Reader<'_> {
    pub(super) fn memory(&self, section: &mut Section<'_>) -> Memory {
        let mut memory = Memory::default();
        let limits = [
            ("working_limit", &mut memory.working_limit),
            ("episodic_limit", &mut memory.episodic_limit),
            ("semantic_limit", &mut memory.semantic_limit),
        ];
        for (name, slot) in limits {
            set(slot, section.field(name), |it| it.count(1..=4_000_000));
        }
        set(&mut memory.evict, section.field("when_full"), |it| {
            it.choice(&[("evict", true), ("refuse", false)])
        });
        let lists = [
            ("semantic_readers", &mut memory.semantic_readers),
            ("semantic_writers", &mut memory.semantic_writers),
        ];
        for (name, slot) in lists {
            set_some(slot, section.field(name), |it| it.words());
        }
        set_some(&mut memory.embedder, section.field("embedder"), |it| {
            self.embedder(it)
        });
        memory
    }

    fn embedder(&self, field: &Field<'_>) -> Option<Embedder> {
        let mut section = field.section()?;
        let (url, model) = (section.field("url"), section.field("model"));
        let folder = section.field("folder");
        let (mut api_key, mut private_hosts) = (None, Vec::new());
        let mut timeout = Duration::from_secs(30);
        set_some(&mut api_key, section.field("api_key"), |it| self.secret(it));
        set(&mut private_hosts, section.field("private_hosts"), |it| {
            it.words()
        });
        set(&mut timeout, section.field("timeout_seconds"), |it| {
            it.seconds(1..=600)
        });
        section.finish();
        match (url, model, folder) {
            (None, None, Some(folder)) => self.path(&folder).map(Embedder::Folder),
            (Some(url), Some(model), None) => Some(Embedder::Endpoint(EmbedderEndpoint {
                url: url.word()?,
                model: model.word()?,
                api_key,
                private_hosts,
                timeout,
            })),
            _ => field.wrong("needs `url` and `model`, or a `folder` and neither of them"),
        }
    }
}
