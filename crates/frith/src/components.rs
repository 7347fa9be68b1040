//! Tools that are WebAssembly components, as the configuration describes them.

use std::fs;
use std::sync::Arc;

use a2e_caps::tool::{Admitted, Pinning, Source, Tool};
use a2e_runtime::config::ComponentTool;
use anyhow::{Context, Result, bail};
use sandbox::Profile;

/// Bytes of a component that takes so long to compile that whoever waits is told.
const LARGE: u64 = 1_000_000;

/// Loads components; what is compiled stays so until the node ends.
pub(crate) struct Loader {
    #[cfg(feature = "wasm")]
    components: Arc<a2e_caps::components::Components>,
}

impl Loader {
    /// A loader of components, of which each agent may call so many at a time.
    #[cfg_attr(
        not(feature = "wasm"),
        expect(unused_variables, reason = "there are none")
    )]
    pub(crate) fn new(per_agent: usize) -> Self {
        Self {
            #[cfg(feature = "wasm")]
            components: Arc::new(a2e_caps::components::Components::new(
                a2e_caps::shares::Shares::new(a2e_caps::shares::Kind::Components, per_agent),
            )),
        }
    }

    /// What compiles them, for whoever else has some.
    #[cfg(feature = "wasm")]
    pub(crate) fn shared(&self) -> Arc<a2e_caps::components::Components> {
        Arc::clone(&self.components)
    }

    /// Loads components, and compares them with what was approved. They run in the first profile; nothing that
    /// runs in the second, the widest there is, may change them.
    pub(crate) async fn load_all(
        &self,
        wanted: &[ComponentTool],
        (profile, widest): (&Profile, &Profile),
        pinning: &Pinning,
        tell: &(dyn Fn(String) + Send + Sync),
    ) -> Result<Vec<(Source, Admitted)>> {
        let mut all = Vec::new();
        for one in wanted {
            check(one, widest)?;
            let size = fs::metadata(&one.path).map_or(0, |found| found.len());
            if size >= LARGE {
                let megabytes = size / 1_000_000;
                tell(format!(
                    "compiling the component `{}` ({megabytes} MB); that can take a while",
                    one.name
                ));
            }
            let tool = self.load(one, profile).await?;
            let source = Source::Component(one.name.as_str().into());
            let admitted = pinning.admit(&source, vec![tool]).await;
            let admitted = admitted.context("the pins of components cannot be read")?;
            for changed in &admitted.quarantined {
                tracing::warn!(
                    "the component `{}` has changed since it was approved and cannot be called; \
                     `frith tools pending` shows it",
                    changed.name(),
                );
            }
            all.push((source, admitted));
        }
        Ok(all)
    }

    #[cfg(feature = "wasm")]
    async fn load(&self, wanted: &ComponentTool, profile: &Profile) -> Result<Arc<dyn Tool>> {
        use a2e_caps::components::{Access, Wanted};
        use a2e_runtime::config::Files;

        let wanted = Wanted {
            name: wanted.name.clone(),
            path: wanted.path.clone(),
            files: match wanted.files {
                Files::None => Access::None,
                Files::Read => Access::Read,
                Files::Write => Access::Write,
            },
        };
        Ok(self.components.load(&wanted, profile).await?)
    }

    #[cfg(not(feature = "wasm"))]
    async fn load(&self, wanted: &ComponentTool, _: &Profile) -> Result<Arc<dyn Tool>> {
        bail!(
            "the tool `{}` is a WebAssembly component, which {}; or take `components` out of the \
             configuration",
            wanted.name,
            a2e_caps::FULL_BUILD
        )
    }
}

/// An agent must not be able to change what a component does.
fn check(wanted: &ComponentTool, profile: &Profile) -> Result<()> {
    let Ok(file) = wanted.path.canonicalize() else {
        // Whoever reads it says why that is impossible.
        return Ok(());
    };
    let is_open = |path: &&std::path::PathBuf| {
        let real = path.canonicalize();
        real.is_ok_and(|path| file.starts_with(path))
    };
    if let Some(path) = profile.writable.iter().find(is_open) {
        bail!(
            "agents could rewrite the component `{}` ({}), since {} is open to them; move it",
            wanted.name,
            file.display(),
            path.display()
        );
    }
    Ok(())
}
