//! Memories, as the configuration describes them.

use a2e_caps::memory::{Memory, Settings};
use a2e_runtime::HostBuilder;
use a2e_runtime::config::{Memory as Config, Plugin};
use anyhow::{Context, Result};
use store::{Overflow, Rooms, Store};

use super::{Capabilities, placement};

impl Capabilities {
    /// Adds memories.
    pub(crate) fn memory(
        &self,
        builder: HostBuilder,
        plugin: &Plugin,
        memory: &Config,
        store: &Store,
    ) -> Result<HostBuilder> {
        let text = || format!("the embedder of the plugin `{}`", plugin.name);
        let reader = memory.embedder.as_ref();
        let reader = reader.map(|embedder| self.reader(embedder, store).with_context(text));
        let settings = Settings {
            placement: placement(plugin),
            rooms: Rooms {
                working: memory.working_limit,
                episodic: memory.episodic_limit,
                semantic: memory.semantic_limit,
                overflow: match memory.evict {
                    true => Overflow::Evict,
                    false => Overflow::Refuse,
                },
            },
            readers: memory.semantic_readers.clone(),
            writers: memory.semantic_writers.clone(),
            reader: reader.transpose()?,
            ..Settings::default()
        };
        Ok(builder.plugin(Memory::new(store.clone(), settings)))
    }
}
