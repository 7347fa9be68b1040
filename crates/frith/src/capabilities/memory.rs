//! Memories, as the configuration describes them.

use std::sync::Arc;

use a2e_caps::http::Web;
use a2e_caps::memory::{Endpoint, EndpointSettings, Memory, Reader, Settings};
use a2e_runtime::HostBuilder;
use a2e_runtime::config::{Embedder, Memory as Config, Plugin};
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

    /// Has a model read what agents remember.
    fn reader(&self, embedder: &Embedder, store: &Store) -> Result<Reader> {
        let web = Web::new(Arc::clone(&self.web), &embedder.private_hosts)?;
        let settings = EndpointSettings {
            url: embedder.url.clone(),
            model: embedder.model.clone(),
            key: embedder.api_key.as_ref().map(|key| key.reveal().to_owned()),
            timeout: embedder.timeout,
        };
        let endpoint = Endpoint::new(&settings, &web).map_err(anyhow::Error::msg)?;
        let clock = Settings::default().clock;
        Ok(Reader::start(Arc::new(endpoint), store, clock))
    }
}
