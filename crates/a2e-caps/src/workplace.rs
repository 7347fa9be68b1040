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
        self.find(program).is_some()
    }

    /// The path of a program that is named as an operator would: by a name that is looked for in the
    /// `PATH` that commands have by themselves, or by an absolute path. Nothing that a command is
    /// given, neither its environment nor its folder, changes what is found.
    pub(crate) fn find(&self, program: &str) -> Option<PathBuf> {
        if program.contains('/') {
            return program.starts_with('/').then(|| program.into());
        }
        let folders = sandbox::PATH.split(':');
        let mut paths = folders.map(|folder| Path::new(folder).join(program));
        paths.find(|path| path.is_file())
    }
}

fn real(path: &Path) -> std::io::Result<PathBuf> {
    path.canonicalize()
}
