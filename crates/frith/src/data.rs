//! Where a node keeps its data.

use std::path::PathBuf;

use a2e_runtime::{DataDir, DataError};
use anyhow::{Result, bail};

use crate::screen;

#[derive(Debug, clap::Args)]
pub(crate) struct DataArguments {
    /// The node's data directory; without it, `$XDG_DATA_HOME/frith` or `~/.local/share/frith`
    #[arg(long, value_name = "DIR", env = "FRITH_DATA", global = true)]
    data: Option<PathBuf>,
}

impl DataArguments {
    /// Whether the user said which one.
    pub(crate) const fn is_named(&self) -> bool {
        self.data.is_some()
    }

    /// The data directory, for a command that writes to it without a node: it must exist if the user has
    /// named it.
    pub(crate) fn existing(&self) -> Result<DataDir> {
        let dir = self.dir()?;
        if self.is_named() && !dir.path().is_dir() {
            bail!(
                "there is no data directory {}; is the path right? `frith up` makes one",
                screen::shown(dir.path())
            );
        }
        Ok(dir)
    }

    pub(crate) fn dir(&self) -> std::result::Result<DataDir, DataError> {
        self.data
            .as_ref()
            .map_or_else(DataDir::of_user, |path| Ok(DataDir::new(path)))
    }
}
