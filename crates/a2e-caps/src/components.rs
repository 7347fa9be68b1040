//! Tools that are WebAssembly components: code in any language, without a process.
//!
//! A component says itself what it takes and gives; the configuration says what it is called and
//! what it may do with files. All of it, the code included, is in the hash by which it is pinned.

mod tool;

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use canonical::Digest;
use sandbox::Profile;
use sandbox::wasm::{Component, Engine, Grant, MAX_COMPONENT, WasmError};
use serde_json::Value;

use crate::shares::{Kind, Shares};
use crate::tool::{Content, Definition, DefinitionError, Tool};

pub use sandbox::wasm::Access;

use tool::ComponentTool;

/// The most words that may lead to a component.
pub const MAX_TAGS: usize = 32;
/// The longest of them, and the longest version, in bytes.
pub const MAX_WORD: usize = 64;

/// How many calls of components an agent may have under way, if nothing else is said.
pub const PER_AGENT: usize = 32;

/// A component that is to be a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// What the tool is called.
    pub name: String,
    /// Where the component is.
    pub path: PathBuf,
    /// What it may do with the files that programs of agents see.
    pub files: Access,
}

/// Compiles components, once each for as long as the program runs.
#[derive(Debug)]
pub struct Components {
    /// Made for the first component: whoever has none has no threads for them either.
    engine: OnceLock<Engine>,
    known: Mutex<HashMap<Digest, Described>>,
    /// How many calls each agent may have under way.
    shares: Arc<Shares>,
}

impl Default for Components {
    fn default() -> Self {
        Self::new(Shares::new(Kind::Components, PER_AGENT))
    }
}

/// A compiled component, and what it says of itself.
#[derive(Debug, Clone)]
struct Described {
    component: Component,
    said: sandbox::wasm::Definition,
}

/// Why a component is no tool.
#[derive(Debug, thiserror::Error)]
#[error("the component `{name}` ({path}): {why}")]
pub struct ComponentError {
    name: String,
    path: String,
    why: Why,
}

#[derive(Debug, thiserror::Error)]
enum Why {
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] std::io::Error),
    #[error(transparent)]
    Component(#[from] WasmError),
    #[error("its {which} is no JSON: {error}")]
    Schema {
        which: &'static str,
        error: serde_json::Error,
    },
    #[error(
        "it has more than {MAX_TAGS} tags, or one of more than {MAX_WORD} bytes, or a version that \
         is as long"
    )]
    Words,
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    #[error("compiling it crashed; the host's log says more")]
    Crashed,
}

impl Components {
    /// No components yet, of which each agent may call so many at a time.
    #[must_use]
    pub fn new(shares: Arc<Shares>) -> Self {
        Self {
            engine: OnceLock::new(),
            known: Mutex::default(),
            shares,
        }
    }

    /// Loads a component, which may take seconds on other threads, and asks it what it is.
    ///
    /// # Errors
    /// If it cannot be read, is none, or does not say what a tool must.
    pub async fn load(
        &self,
        wanted: &Wanted,
        profile: &Profile,
    ) -> Result<Arc<dyn Tool>, ComponentError> {
        let tool = self.tool(wanted, profile).await;
        let tool = tool.map_err(|why| ComponentError {
            name: wanted.name.clone(),
            path: wanted.path.display().to_string(),
            why,
        })?;
        Ok(Arc::new(tool))
    }

    async fn tool(&self, wanted: &Wanted, profile: &Profile) -> Result<ComponentTool, Why> {
        let path = wanted.path.clone();
        let read = move || read(&path).map(|bytes| (Digest::of(&bytes), bytes));
        let (hash, bytes) = on_a_thread(read).await??;
        let content = Content::binary(hash, bytes.len());
        let grant = Grant::under(profile, wanted.files);
        let Described { component, said } = match self.known(&hash) {
            Some(known) => known,
            None => self.compile(hash, bytes, &grant).await?,
        };
        let definition = defined(wanted, &component, said)?;
        Ok(ComponentTool {
            definition,
            content,
            component,
            grant,
            shares: Arc::clone(&self.shares),
        })
    }

    fn known(&self, content: &Digest) -> Option<Described> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(content).cloned()
    }

    async fn compile(
        &self,
        content: Digest,
        bytes: Vec<u8>,
        grant: &Grant,
    ) -> Result<Described, Why> {
        let engine = self.engine()?;
        let component = on_a_thread(move || engine.load(&bytes)).await??;
        let said = component.describe(grant).await?;
        let described = Described { component, said };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(content, described.clone());
        Ok(described)
    }

    fn engine(&self) -> Result<Engine, WasmError> {
        if let Some(engine) = self.engine.get() {
            return Ok(engine.clone());
        }
        let engine = Engine::new()?;
        Ok(self.engine.get_or_init(|| engine).clone())
    }
}

/// Reads a file that is not much larger than a component may be.
fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let most = MAX_COMPONENT.saturating_add(1) as u64;
    File::open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

async fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Why> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| Why::Crashed)
}

/// What a component says, as a definition.
fn defined(
    wanted: &Wanted,
    component: &Component,
    said: sandbox::wasm::Definition,
) -> Result<Definition, Why> {
    if !has_short_words(&said) {
        return Err(Why::Words);
    }
    let schema = |which, text: &str| {
        let schema: Result<Value, _> = serde_json::from_str(text);
        schema.map_err(|error| Why::Schema { which, error })
    };
    let input = schema("input schema", &said.input_schema)?;
    let mut definition = Definition::new(&*wanted.name, said.description, &input)?;
    if let Some(output) = &said.output_schema {
        definition = definition.output(&schema("output schema", output)?)?;
    }
    definition = definition.tags(said.tags).version(said.version);
    if said.idempotent {
        definition = definition.idempotent();
    }
    if said.read_only {
        definition = definition.read_only();
    }
    if component.tells() {
        definition = definition.streaming();
    }
    // It has clocks and chance, and perhaps files.
    if component.uses_wasi() {
        definition = definition.volatile();
    }
    Ok(definition)
}

fn has_short_words(said: &sandbox::wasm::Definition) -> bool {
    let mut words = said.tags.iter().chain([&said.version]);
    said.tags.len() <= MAX_TAGS && words.all(|word| word.len() <= MAX_WORD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_and_versions_have_limits() {
        let said = |tags: usize, tag: usize, version: usize| sandbox::wasm::Definition {
            tags: vec!["t".repeat(tag); tags],
            version: "1".repeat(version),
            ..sandbox::wasm::Definition::default()
        };
        assert!(has_short_words(&said(MAX_TAGS, MAX_WORD, MAX_WORD)));
        assert!(!has_short_words(&said(MAX_TAGS + 1, 1, 1)));
        assert!(!has_short_words(&said(1, MAX_WORD + 1, 1)));
        assert!(!has_short_words(&said(1, 1, MAX_WORD + 1)));
    }
}
