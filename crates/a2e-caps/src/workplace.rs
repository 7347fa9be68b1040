//! Where foreign programs run: a folder, a sandbox around it, and what they may use up.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sandbox::{Launcher, Profile};

use crate::shares::Shares;

/// Where foreign programs run. Tools, processes and whatever else starts programs have the same.
#[derive(Debug, Clone)]
pub struct Workplace {
    /// How they are started.
    pub launcher: Launcher,
    /// What they may do, and their limits.
    pub profile: Profile,
    /// The folder they start in.
    pub folder: PathBuf,
    /// How many of them each agent may have at a time.
    pub commands: Arc<Shares>,
}

impl Workplace {
    /// The folder below [`Workplace::folder`] that an agent means; its own without a name.
    ///
    /// # Errors
    /// In words for the agent, if it is no folder or lies elsewhere.
    pub fn cwd(&self, name: &str) -> Result<PathBuf, String> {
        let shown = || name.chars().take(256).collect::<String>();
        let (path, home) = (self.folder.join(name), &self.folder);
        match (real(&path), real(home)) {
            (Ok(path), Ok(home)) if path.starts_with(&home) && path.is_dir() => Ok(path),
            (Ok(_), _) => Err(format!(
                "`cwd` must be a folder below the workspace, not `{}`",
                shown()
            )),
            (Err(error), _) => Err(format!("`cwd` cannot be `{}`: {error}", shown())),
        }
    }

    /// Whether programs find another one by this name.
    pub(crate) fn has(&self, program: &str) -> bool {
        let folders = ["/usr/local/bin", "/usr/bin", "/bin"];
        let mut paths = folders.iter().map(|folder| Path::new(folder).join(program));
        paths.any(|path| path.is_file())
    }
}

fn real(path: &Path) -> std::io::Result<PathBuf> {
    path.canonicalize()
}
