//! The models that read what agents remember.

use std::path::Path;
use std::sync::Arc;

use a2e_caps::http::Web;
#[cfg(feature = "embed")]
use a2e_caps::memory::Local;
use a2e_caps::memory::{Embedder, Endpoint, EndpointSettings, Reader, Settings};
use a2e_runtime::config::{Embedder as Config, EmbedderEndpoint};
use anyhow::Result;
use store::Store;

use super::Capabilities;

impl Capabilities {
    /// Has a model read what agents remember.
    pub(super) fn reader(&self, embedder: &Config, store: &Store) -> Result<Reader> {
        let embedder = match embedder {
            Config::Endpoint(endpoint) => self.endpoint(endpoint)?,
            Config::Folder(folder) => local(folder)?,
        };
        Ok(Reader::start(embedder, store, Settings::default().clock))
    }

    fn endpoint(&self, endpoint: &EmbedderEndpoint) -> Result<Arc<dyn Embedder>> {
        let web = Web::new(Arc::clone(&self.web), &endpoint.private_hosts)?;
        let settings = EndpointSettings {
            url: endpoint.url.clone(),
            model: endpoint.model.clone(),
            key: endpoint.api_key.as_ref().map(|key| key.reveal().to_owned()),
            timeout: endpoint.timeout,
        };
        let endpoint = Endpoint::new(&settings, &web).map_err(anyhow::Error::msg)?;
        Ok(Arc::new(endpoint))
    }
}

#[cfg(feature = "embed")]
fn local(folder: &Path) -> Result<Arc<dyn Embedder>> {
    let model = Local::open(folder).map_err(anyhow::Error::msg)?;
    Ok(Arc::new(model))
}

#[cfg(not(feature = "embed"))]
fn local(folder: &Path) -> Result<Arc<dyn Embedder>> {
    anyhow::bail!(
        "`memory.embedder` names the folder {}, which {}; or name a server with `url`",
        folder.display(),
        a2e_caps::FULL_BUILD
    )
}
