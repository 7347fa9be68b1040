//! The record of one session: what it has written, what it owes, what its plugins keep for it.
//!
//! It is NDJSON: the session's messages as they were sent, and between them lines of our own that
//! begin with `{"frith":`. A line without its newline is one whose writing was cut off.

use std::io;
use std::sync::Arc;

use a2e_session::{HostSession, Saved, Token};
use a2e_wire::{
    Capability, Decoder, MessageId, MessageKind, Namespace, Raw, Sender, SessionId, Tag, Timestamp,
};
use canonical::Digest;
use serde::{Deserialize, Serialize};

use crate::auth::Owner;
use crate::snapshot::SnapshotStore;

/// Writes the record of one session.
pub(crate) struct Journal {
    store: Arc<dyn SnapshotStore>,
    key: String,
    head: Head,
    states: Vec<PluginState>,
    /// The youngest request on record.
    last_open: Option<Token>,
    length: usize,
    /// Space for the next lines.
    lines: Vec<u8>,
    /// The record is begun anew when it is longer than this,
    limit: usize,
    /// which is at least that.
    max_length: usize,
}

/// Space of this size is kept between records.
const KEPT: usize = 1024;

/// A session that was read from its record.
#[derive(Debug)]
pub(crate) struct Restored {
    pub(crate) owner: Owner,
    /// Without what its open requests are answered with.
    pub(crate) saved: Saved,
    /// The requests that were taken and have no response.
    pub(crate) open: Vec<MessageId<'static>>,
    pub(crate) states: Vec<PluginState>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Head {
    session_id: String,
    owner: Owner,
    accepted: Vec<String>,
    last_eid: u64,
}

/// What a plugin keeps for a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PluginState {
    pub(crate) plugin: String,
    /// JSON.
    pub(crate) state: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Ours {
    Head(Head),
    /// A request was taken.
    Open(String),
    Plugin(PluginState),
}

#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    frith: Ours,
}

/// Where the record of a session is kept. Session ids are credentials of a kind, and stand nowhere.
pub(crate) fn key(session: &SessionId<'_>) -> String {
    let digest = Digest::of(session.as_str().as_bytes()).to_string();
    digest.trim_start_matches("sha256:").to_owned()
}

impl Journal {
    /// Begins the record of a session that was just opened.
    pub(crate) fn begin(
        store: Arc<dyn SnapshotStore>,
        session: &HostSession,
        owner: Owner,
        max_replay: usize,
    ) -> Self {
        let accepted = session.accepted().iter();
        Self {
            store,
            key: key(session.session_id()),
            head: Head {
                session_id: session.session_id().as_str().to_owned(),
                owner,
                accepted: accepted.map(|name| name.as_str().to_owned()).collect(),
                last_eid: 0,
            },
            states: Vec::new(),
            last_open: None,
            // So that it begins with its head.
            length: usize::MAX,
            lines: Vec::new(),
            limit: 0,
            max_length: max_replay.saturating_mul(4).saturating_add(64 * 1024),
        }
    }

    /// Puts on record what has happened in a session since the last time.
    pub(crate) fn record(&mut self, session: &mut HostSession) -> io::Result<()> {
        let mut lines = std::mem::take(&mut self.lines);
        lines.clear();
        let anew = self.length > self.limit;
        if anew {
            session.record_again();
            self.last_open = None;
            self.head.last_eid = session.last_eid();
            self.add_head(&mut lines)?;
        }
        let before = lines.len();
        self.add_open(session, &mut lines)?;
        let messages = session.take_unrecorded();
        let outcome = match lines.is_empty() {
            // As they stand in the session: an answer may be large.
            true => self.keep(messages, anew),
            false => {
                lines.splice(before..before, messages.iter().copied());
                self.keep(&lines, anew)
            }
        };
        if lines.capacity() <= KEPT {
            self.lines = lines;
        }
        outcome
    }

    /// What every record begins with.
    fn add_head(&self, lines: &mut Vec<u8>) -> io::Result<()> {
        add(lines, Ours::Head(self.head.clone()))?;
        for state in &self.states {
            add(lines, Ours::Plugin(state.clone()))?;
        }
        Ok(())
    }

    fn add_open(&mut self, session: &HostSession, lines: &mut Vec<u8>) -> io::Result<()> {
        let mut last_open = self.last_open;
        for (token, id) in session.open_requests(self.last_open) {
            add(lines, Ours::Open(id.as_str().to_owned()))?;
            last_open = last_open.max(Some(token));
        }
        self.last_open = last_open;
        Ok(())
    }

    /// Records the open requests, before one of them is executed whose effect outlives the process: if
    /// that is killed meanwhile, the agent is owed a response.
    pub(crate) fn record_open(&mut self, session: &HostSession) -> io::Result<()> {
        let mut lines = Vec::new();
        let anew = self.length == usize::MAX;
        if anew {
            self.add_head(&mut lines)?;
        }
        self.add_open(session, &mut lines)?;
        self.keep(&lines, anew)
    }

    fn keep(&mut self, lines: &[u8], anew: bool) -> io::Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        if anew {
            self.length = lines.len();
            // A slow reader may be owed more than is kept for a fast one: what is there is written again
            // only when there is much more.
            self.limit = self.max_length.max(self.length.saturating_mul(4));
            return self.store.put(&self.key, lines);
        }
        self.length = self.length.saturating_add(lines.len());
        self.store.append(&self.key, lines)
    }

    /// Puts on record what a plugin keeps for the session, if that has changed.
    pub(crate) fn plugin(&mut self, plugin: &str, state: &Raw<'_>) -> io::Result<()> {
        let state = PluginState {
            plugin: plugin.to_owned(),
            state: state.to_string(),
        };
        match self.states.iter_mut().find(|known| known.plugin == plugin) {
            Some(known) if *known == state => return Ok(()),
            Some(known) => known.clone_from(&state),
            None => self.states.push(state.clone()),
        }
        if self.length > self.limit {
            return Ok(()); // It goes with the next record, which is begun anew.
        }
        let mut line = Vec::new();
        add(&mut line, Ours::Plugin(state))?;
        self.length = self.length.saturating_add(line.len());
        self.store.append(&self.key, &line)
    }

    /// What plugins keep, read from an earlier record.
    pub(crate) fn adopt(&mut self, states: Vec<PluginState>) {
        self.states = states;
    }

    /// The session has ended.
    pub(crate) fn remove(&self) -> io::Result<()> {
        self.store.remove(&self.key)
    }
}

/// Reads the record of a session.
pub(crate) fn load(
    store: &dyn SnapshotStore,
    session: &SessionId<'_>,
) -> io::Result<Option<Restored>> {
    let Some(record) = store.get(&key(session))? else {
        return Ok(None);
    };
    Ok(read(&record))
}

/// Removes the records of all sessions of these; returns how many there were.
pub(crate) fn remove_all(
    store: &dyn SnapshotStore,
    is_meant: impl Fn(&Owner) -> bool,
) -> io::Result<usize> {
    let mut removed = 0_usize;
    for key in store.keys()? {
        let Some(record) = store.get(&key)? else {
            continue;
        };
        let mut lines = record.split_inclusive(|byte| *byte == b'\n');
        if read_head(&mut lines).is_some_and(|head| is_meant(&head.owner)) {
            store.remove(&key)?;
            removed = removed.saturating_add(1);
        }
    }
    Ok(removed)
}

fn read_head<'r>(lines: &mut impl Iterator<Item = &'r [u8]>) -> Option<Head> {
    let first: Entry = serde_json::from_slice(lines.next()?).ok()?;
    match first.frith {
        Ours::Head(head) => Some(head),
        Ours::Open(_) | Ours::Plugin(_) => None,
    }
}

fn read(record: &[u8]) -> Option<Restored> {
    let mut lines = record.split_inclusive(|byte| *byte == b'\n');
    let head = read_head(&mut lines)?;
    let accepted = head
        .accepted
        .iter()
        .filter_map(|name| Capability::from_name(name));
    let mut restored = Restored {
        owner: head.owner,
        saved: Saved {
            session_id: head.session_id.into(),
            accepted: accepted.collect(),
            last_eid: head.last_eid,
            ..Saved::default()
        },
        open: Vec::new(),
        states: Vec::new(),
    };
    let mut decoder = Decoder::default();
    for line in lines {
        // The last one may have been cut off.
        let Some(line) = line.strip_suffix(b"\n") else {
            break;
        };
        restored.take(line, &mut decoder);
    }
    Some(restored)
}

impl Restored {
    fn open(&mut self, id: MessageId<'static>) {
        if !self.open.contains(&id) {
            self.open.push(id);
        }
    }

    fn take(&mut self, line: &[u8], decoder: &mut Decoder) {
        if line.starts_with(b"{\"frith\":") {
            match serde_json::from_slice::<Entry>(line).map(|entry| entry.frith) {
                Ok(Ours::Open(id)) => self.open(id.into()),
                Ok(Ours::Plugin(state)) => {
                    self.states.retain(|known| known.plugin != state.plugin);
                    self.states.push(state);
                }
                Ok(Ours::Head(_)) | Err(_) => {}
            }
            return;
        }
        let Ok(message) = decoder.decode(line, Sender::Host, Timestamp::default()) else {
            return;
        };
        let (Some(eid), request) = (message.envelope.eid, message.envelope.req_id.clone()) else {
            return;
        };
        let tag = message.body.tag();
        // Base messages are asked and answered anew.
        let is_answer = |tag: Tag| {
            tag.kind() == MessageKind::Response
                && (tag.namespace() != Namespace::Base || tag == Tag::Error)
        };
        if tag.is_some_and(is_answer) {
            self.open.retain(|open| *open != request);
        }
        self.saved.last_eid = self.saved.last_eid.max(eid);
        self.saved.written.push((eid, line.to_vec()));
    }
}

fn add(lines: &mut Vec<u8>, ours: Ours) -> io::Result<()> {
    serde_json::to_writer(&mut *lines, &Entry { frith: ours })?;
    lines.push(b'\n');
    Ok(())
}

#[cfg(test)]
mod tests;
