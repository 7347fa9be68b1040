//! Where a node keeps its data.

use std::path::PathBuf;

use a2e_runtime::{DataDir, DataError};

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

    pub(crate) fn dir(&self) -> Result<DataDir, DataError> {
        self.data
            .as_ref()
            .map_or_else(DataDir::of_user, |path| Ok(DataDir::new(path)))
    }
}
