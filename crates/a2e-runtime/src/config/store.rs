//! The section `store`: what a node keeps in its database.

use ::store::{Options, SyncMode};

use super::read::Field;
use super::sections::{MIB, set};

/// What a node keeps in its database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Store {
    /// When it goes to the disk.
    pub sync: SyncMode,
    /// The largest size of its file in bytes, for all agents together.
    pub max_bytes: u64,
}

impl Default for Store {
    fn default() -> Self {
        let Options {
            sync, max_bytes, ..
        } = Options::new("");
        Self { sync, max_bytes }
    }
}

pub(super) fn store(field: &Field<'_>) -> Option<Store> {
    let mut store = Store::default();
    let mut section = field.section()?;
    set(&mut store.sync, section.field("sync"), |it| {
        match it.text()?.parse() {
            Ok(sync) => Some(sync),
            Err(error) => it.wrong(&format!("{error}")),
        }
    });
    set(&mut store.max_bytes, section.field("max_bytes"), |it| {
        // A smaller one has no room for its own tables.
        it.integer(MIB..=1024 * 1024 * MIB)?.try_into().ok()
    });
    section.finish();
    Some(store)
}
