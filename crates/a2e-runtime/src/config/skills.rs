//! The keys of a plugin of `type: skills`.

use std::path::PathBuf;
use std::time::Duration;

use super::read::Section;
use super::sections::{DAY, Reader, set, set_some};

/// Prepared instructions, with the tools they need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skills {
    /// The folders that have them; `skills` in the data directory if nothing is said.
    pub folders: Option<Vec<PathBuf>>,
    /// The model they are run with, by its name in `models`.
    pub model: String,
    /// How often the model may be asked for one call, unless the skill says less.
    pub max_turns: usize,
    /// How long a call may take, unless the skill or the agent says less.
    pub timeout: Duration,
}

impl Default for Skills {
    fn default() -> Self {
        Self {
            folders: None,
            model: "default".to_owned(),
            max_turns: 20,
            timeout: Duration::from_secs(600),
        }
    }
}

impl Reader<'_> {
    pub(super) fn skills(&self, section: &mut Section<'_>) -> Skills {
        let mut skills = Skills::default();
        set_some(&mut skills.folders, section.field("folders"), |it| {
            Some(it.list()?.filter_map(|it| self.path(&it)).collect())
        });
        set(&mut skills.model, section.field("model"), |it| it.word());
        set(&mut skills.max_turns, section.field("max_turns"), |it| {
            it.count(1..=1000)
        });
        set(
            &mut skills.timeout,
            section.field("timeout_seconds"),
            |it| it.seconds(1..=DAY),
        );
        skills
    }
}
