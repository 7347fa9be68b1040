//! The record of an idempotency cache: NDJSON, one line for each change of an entry.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::Arc;

use canonical::Digest;
use serde::{Deserialize, Serialize};

use super::{Line, Outcome};
use crate::snapshot::SnapshotStore;

/// Writes and reads the record of one cache.
pub(super) struct Record {
    store: Arc<dyn SnapshotStore>,
    key: String,
    is_read: bool,
    /// Bytes that may still be added before the record is replaced.
    room: usize,
}

/// A change of an entry.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Change<'a> {
    /// It is executed from now on.
    Begun(Mark<'a>),
    Responded(Mark<'a>),
    Interrupted(Mark<'a>),
    /// It is not retained any more, or may be executed again.
    Removed(Cow<'a, str>),
}

/// What is recorded of a request.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Mark<'a> {
    pub(super) id: Cow<'a, str>,
    /// The digest of what it asks for.
    pub(super) content: Digest,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) response: Option<Cow<'a, str>>,
}

/// A record is replaced when so much was added to it, or three times what it began with.
const MIN_ROOM: usize = 64 * 1024;

impl Record {
    pub(super) const fn new(store: Arc<dyn SnapshotStore>, key: String) -> Self {
        Self {
            store,
            key,
            is_read: false,
            room: 0,
        }
    }

    /// Where it is: its store, and its key there.
    pub(super) fn place(&self) -> (Arc<dyn SnapshotStore>, String) {
        (Arc::clone(&self.store), self.key.clone())
    }

    /// The entries that an earlier process has recorded, oldest first. Nothing if they were read before.
    pub(super) fn read(&mut self) -> io::Result<Option<Vec<(Mark<'static>, Outcome)>>> {
        if self.is_read {
            return Ok(None);
        }
        let record = self.store.get(&self.key)?.unwrap_or_default();
        self.is_read = true;
        let mut entries = HashMap::new();
        for (number, line) in record.split_inclusive(|byte| *byte == b'\n').enumerate() {
            let Ok(change) = serde_json::from_slice::<Change<'static>>(line) else {
                continue;
            };
            let (mut mark, outcome) = match change {
                Change::Removed(id) => {
                    entries.remove(&*id);
                    continue;
                }
                // It has not ended in its process.
                Change::Begun(mark) | Change::Interrupted(mark) => (mark, Outcome::Interrupted),
                Change::Responded(mut mark) => {
                    let response = mark.response.take().unwrap_or_default();
                    (mark, Outcome::Response(Line::new(response.as_bytes())))
                }
            };
            mark.response = None;
            entries.insert(mark.id.clone(), (number, mark, outcome));
        }
        let mut entries: Vec<_> = entries.into_values().collect();
        entries.sort_unstable_by_key(|(number, ..)| *number);
        let entries = entries
            .into_iter()
            .map(|(_, mark, outcome)| (mark, outcome));
        Ok(Some(entries.collect()))
    }

    /// Whether so much can be added; else the record is to be replaced.
    pub(super) const fn has_room(&self, bytes: usize) -> bool {
        bytes <= self.room
    }

    pub(super) fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        let room = self.room.saturating_sub(lines.len());
        // If it fails, the next write replaces the record.
        self.room = 0;
        self.store.append(&self.key, lines)?;
        self.room = room;
        Ok(())
    }

    pub(super) fn replace(&mut self, lines: &[u8]) -> io::Result<()> {
        self.room = 0;
        self.store.put(&self.key, lines)?;
        self.room = MIN_ROOM.max(lines.len().saturating_mul(3));
        Ok(())
    }

    /// Has the next write replace the record.
    pub(super) const fn replace_next(&mut self) {
        self.room = 0;
    }

    pub(super) fn remove(&mut self) -> io::Result<()> {
        self.room = 0;
        self.store.remove(&self.key)
    }
}

impl Change<'_> {
    pub(super) fn write_to(&self, lines: &mut Vec<u8>) -> io::Result<()> {
        serde_json::to_writer(&mut *lines, self)?;
        lines.push(b'\n');
        Ok(())
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record").finish_non_exhaustive()
    }
}
