//! Skills, as the configuration describes them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use a2e_caps::Placement;
use a2e_caps::http::Web;
use a2e_caps::learning::Ledgers;
use a2e_caps::model::{Model, ModelSettings, Models};
use a2e_caps::skills::{Programs, Settings, Shelf, Skills};
use a2e_caps::tool::{Pinning, Source};
use a2e_runtime::config::{Model as ModelConfig, Skills as Config};
use a2e_runtime::{HostBuilder, Weights};
use anyhow::{Context, Result, bail};
use sandbox::Profile;

use super::Capabilities;

impl Capabilities {
    /// Adds skills.
    pub(crate) fn skills(
        &self,
        builder: HostBuilder,
        placement: Placement,
        config: &Config,
        (models, pinning): (&Arc<Models>, &Pinning),
        weights: Option<Arc<Ledgers>>,
    ) -> Result<HostBuilder> {
        let folders = match &config.folders {
            Some(folders) => folders.clone(),
            None => vec![self.own_skills.clone()],
        };
        for folder in &folders {
            check(&self.widest(), folder, config.folders.is_some())?;
        }
        let shelf = self
            .shelf
            .get_or_init(|| Shelf::new(pinning.definitions().clone()));
        shelf.configure(folders);
        shelf.rank_by(weights.map(|weights| weights as Arc<dyn Weights>));
        self.catalogue.set(Source::Skills, shelf.tools()?);
        #[cfg(feature = "mcp")]
        self.show_skills();
        let settings = Settings {
            placement,
            model: config.model.clone(),
            max_turns: config.max_turns,
            timeout: config.timeout,
        };
        let skills = Skills::new(Arc::clone(shelf), Arc::clone(models), settings);
        let programs = Programs {
            workplace: Arc::clone(&self.workplace),
            copies: self.scripts.clone(),
            #[cfg(feature = "wasm")]
            components: self.components.shared(),
        };
        Ok(builder.plugin(skills.running(programs)))
    }

    /// The models of a configuration.
    pub(crate) fn models(&self, models: &[ModelConfig]) -> Result<Arc<Models>> {
        let make = |config: &ModelConfig| -> Result<(String, Model)> {
            let whose = || format!("`models.{}`", config.name);
            let web = Web::new(Arc::clone(&self.web), &config.private_hosts);
            let settings = ModelSettings {
                url: config.url.clone(),
                model: config.model.clone(),
                key: config.api_key.as_ref().map(|key| key.reveal().to_owned()),
                timeout: config.timeout,
                max_answer_tokens: config.max_answer_tokens,
                max_tokens: config.max_tokens as u64,
                allow_override: config.allow_override,
            };
            let model = Model::new(settings, &web.with_context(whose)?);
            let model = model.map_err(anyhow::Error::msg).with_context(whose)?;
            Ok((config.name.clone(), model))
        };
        let models: Result<Vec<_>> = models.iter().map(make).collect();
        Ok(Arc::new(Models::new(models?)))
    }
}

/// Agents could instruct others, or themselves with more tools than they have.
fn check(profile: &Profile, folder: &Path, is_named: bool) -> Result<()> {
    if is_named && !folder.is_dir() {
        bail!("`folders` of skills: {} is no folder", folder.display());
    }
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let folder = real(folder);
    let is_open = |open: &&PathBuf| {
        let open = real(open);
        folder.starts_with(&open) || open.starts_with(&folder)
    };
    match profile.writable.iter().find(is_open) {
        None => Ok(()),
        Some(open) => bail!(
            "agents could rewrite skills: {} (`folders`) and {}, which is open to them, lie in each \
             other; move one of them",
            folder.display(),
            open.display()
        ),
    }
}
