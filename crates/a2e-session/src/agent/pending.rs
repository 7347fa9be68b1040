//! The calls of a session that have no response yet.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use a2e_wire::{Body, Message, Tag};

/// Open calls, by number and by deadline.
#[derive(Debug, Default)]
pub(super) struct Pending {
    calls: BTreeMap<u64, Entry>,
    deadlines: BTreeSet<(Duration, u64)>,
    kept_bytes: usize,
}

/// One open call.
#[derive(Debug)]
pub(super) struct Entry {
    /// What answers it; any type of a request beside the catalogue.
    pub(super) response: Option<Tag>,
    deadline: Duration,
    /// Of a tool call: how long it is waited for without news, and when it is given up in any case.
    patience: Option<(Duration, Duration)>,
    /// Its request, in case it must be sent again.
    line: Option<Box<[u8]>>,
    /// It may have reached the host.
    pub(super) sent: bool,
    /// It was sent again, so events may come again.
    pub(super) repeated: bool,
    /// Above the number of every event so far.
    next_seq: i64,
    /// Events so far, for an error that names them.
    pub(super) events: Vec<Message<'static>>,
    event_bytes: usize,
}

impl Entry {
    pub(super) const fn new(
        response: Option<Tag>,
        deadline: Duration,
        line: Option<Box<[u8]>>,
        sent: bool,
    ) -> Self {
        Self {
            response,
            deadline,
            patience: None,
            line,
            sent,
            repeated: false,
            next_seq: 0,
            events: Vec::new(),
            event_bytes: 0,
        }
    }

    /// The same call, whose events begin its time anew, up to an end.
    pub(super) const fn patient(mut self, wait: Duration, end: Duration) -> Self {
        self.patience = Some((wait, end));
        self
    }

    /// Whether an event was there before its request was sent again; it counts as seen now.
    pub(super) fn has_seen(&mut self, event: &Body<'_>) -> bool {
        let Some(seq) = seq(event) else { return false };
        if self.repeated && seq < self.next_seq {
            return true;
        }
        self.next_seq = seq.saturating_add(1);
        false
    }

    /// Remembers an event that took so many bytes, within limits.
    pub(super) fn keep_event(
        &mut self,
        event: &Message<'static>,
        size: usize,
        limits: (usize, usize),
    ) {
        let bytes = self.event_bytes.saturating_add(size);
        if self.events.len() < limits.0 && bytes <= limits.1 {
            self.event_bytes = bytes;
            self.events.push(event.clone());
        }
    }
}

impl Pending {
    pub(super) fn insert(&mut self, number: u64, entry: Entry) {
        self.kept_bytes = self.kept_bytes.saturating_add(entry.size());
        self.deadlines.insert((entry.deadline, number));
        self.calls.insert(number, entry);
    }

    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut Entry> {
        self.calls.get_mut(&number)
    }

    /// A call gets on: if it is one of a tool, its time begins anew.
    pub(super) fn progress(&mut self, now: Duration, number: u64) {
        let Some(entry) = self.calls.get_mut(&number) else {
            return;
        };
        if let Some((wait, end)) = entry.patience {
            self.deadlines.remove(&(entry.deadline, number));
            entry.deadline = now.saturating_add(wait).min(end);
            self.deadlines.insert((entry.deadline, number));
        }
    }

    pub(super) fn contains(&self, number: u64) -> bool {
        self.calls.contains_key(&number)
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<Entry> {
        let entry = self.calls.remove(&number)?;
        self.kept_bytes = self.kept_bytes.saturating_sub(entry.size());
        self.deadlines.remove(&(entry.deadline, number));
        Some(entry)
    }

    /// The oldest call that waits for a response of this type. Looks at all; only for hosts that do
    /// not say which request they answer.
    pub(super) fn oldest(&self, response: Tag) -> Option<u64> {
        self.calls
            .iter()
            .find(|(_, entry)| entry.response == Some(response))
            .map(|(number, _)| *number)
    }

    /// The numbers of calls that may have reached the host.
    pub(super) fn sent(&self) -> Vec<u64> {
        let sent = self.calls.iter().filter(|(_, entry)| entry.sent);
        sent.map(|(number, _)| *number).collect()
    }

    /// Every call's request, to be sent (again) now; those that are not `kept` are let go of.
    pub(super) fn send_all(&mut self, kept: bool) -> Vec<(u64, Box<[u8]>)> {
        let mut lines = Vec::new();
        for (number, entry) in &mut self.calls {
            entry.repeated = entry.sent;
            entry.sent = true;
            let line = match kept {
                true => entry.line.clone(),
                false => entry.line.take(),
            };
            lines.extend(line.map(|line| (*number, line)));
        }
        self.kept_bytes = self.calls.values().map(Entry::size).sum();
        lines
    }

    pub(super) fn take_all(&mut self) -> BTreeMap<u64, Entry> {
        self.deadlines.clear();
        self.kept_bytes = 0;
        std::mem::take(&mut self.calls)
    }

    /// A call whose time has passed.
    pub(super) fn overdue(&self, now: Duration) -> Option<u64> {
        let (deadline, number) = self.deadlines.first()?;
        (*deadline <= now).then_some(*number)
    }

    pub(super) fn next_deadline(&self) -> Option<Duration> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    pub(super) const fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }
}

impl Entry {
    fn size(&self) -> usize {
        self.line.as_ref().map_or(0, |line| line.len())
    }
}

/// The number of an event within its call.
fn seq(event: &Body<'_>) -> Option<i64> {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "no other message is an event"
    )]
    match event {
        Body::Event(event) => Some(event.seq),
        Body::ToolEvent(event) => Some(event.seq),
        Body::SkillEvent(event) => Some(event.seq),
        Body::ChainEvent(event) => Some(event.seq),
        Body::ProcReadEvent(event) => Some(event.seq),
        _ => None,
    }
}
