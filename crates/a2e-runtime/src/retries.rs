//! Safe retries: an agent that sends a request again gets the answer it has, not the work done twice.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use a2e_wire::{Limits, MessageId};
use canonical::Value;
use tokio::sync::watch;

/// The requests of all agents that may be sent again.
#[derive(Debug, Default)]
pub(crate) struct Retries {
    agents: Mutex<HashMap<String, Arc<Ledger>>>,
}

/// The requests of one agent.
#[derive(Debug, Default)]
pub(crate) struct Ledger(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    entries: HashMap<Arc<str>, Entry>,
    /// Oldest first; an id whose entry is gone or younger stands here for nothing.
    order: VecDeque<(Duration, Arc<str>)>,
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    at: Duration,
    /// The request; none if it was made before the host was restarted.
    request: Option<Box<[u8]>>,
    events: Vec<Line>,
    answer: Option<Line>,
    /// All of these.
    bytes: usize,
    /// Tells those who sent it again meanwhile that there is more.
    changed: Option<watch::Sender<()>>,
}

/// A message as it was sent, shared by all who are sent it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line(Arc<[u8]>);

/// What an agent's request is to the host.
#[derive(Debug)]
pub(crate) enum Begun {
    /// It is new: do it.
    New,
    /// It was done or is being done: this is what comes of it.
    Again(Follow),
    /// Another request has this id.
    Reused,
}

/// Reads what comes of a request.
#[derive(Debug)]
pub(crate) struct Follow {
    ledger: Arc<Ledger>,
    id: Arc<str>,
    next: usize,
    changed: watch::Receiver<()>,
}

/// Something that came of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Event(Line),
    /// The last.
    Answer(Line),
}

/// How long a request is remembered.
const KEPT: Duration = Duration::from_secs(600);

/// How many requests of an agent are remembered, and how many bytes of them.
const MAX_ENTRIES: usize = 10_000;
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// How much of one request is remembered beside its answer; events beyond it are not sent again.
const MAX_ENTRY: usize = 1024 * 1024;

/// Numbers that do not fit a double have no canonical form: requests with them are only compared as
/// they are written.
const LIMITS: Limits = Limits {
    depth: 127,
    values: usize::MAX,
    ..canonical::LIMITS
};

impl Line {
    pub(crate) fn new(line: &[u8]) -> Self {
        Self(line.into())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Retries {
    /// The requests of an agent.
    pub(crate) fn of(&self, agent: &str) -> Arc<Ledger> {
        let mut agents = self.agents.lock().unwrap_or_else(PoisonError::into_inner);
        // Those nobody uses have nothing to remember but what will be forgotten anyway.
        if agents.len() >= MAX_ENTRIES {
            agents.retain(|_, ledger| Arc::strong_count(ledger) > 1);
        }
        Arc::clone(agents.entry(agent.to_owned()).or_default())
    }
}

impl Ledger {
    /// A request was made; `line` is the request as received.
    pub(crate) fn begin(
        self: &Arc<Self>,
        now: Duration,
        id: &MessageId<'static>,
        line: Box<[u8]>,
    ) -> Begun {
        let mut entries = self.lock();
        entries.forget_old(now);
        let Some(entry) = entries.entries.get_mut(id.as_str()) else {
            entries.insert(now, id, Some(line), None);
            return Begun::New;
        };
        // One of before a restart cannot be compared, so it is neither done again nor answered.
        let is_again = |first: &[u8]| is_same(first, &line);
        if !entry.request.as_deref().is_some_and(is_again) {
            return Begun::Reused;
        }
        let changed = entry.changed.get_or_insert_with(|| watch::channel(()).0);
        Begun::Again(Follow {
            ledger: Arc::clone(self),
            id: id.as_str().into(),
            next: 0,
            changed: changed.subscribe(),
        })
    }

    /// A request of before the host was restarted, which has this answer.
    pub(crate) fn restore(&self, now: Duration, id: &MessageId<'static>, answer: &[u8]) {
        self.lock().insert(now, id, None, Some(Line::new(answer)));
    }

    /// An event of a request was sent.
    pub(crate) fn event(&self, id: &MessageId<'static>, line: &[u8]) {
        let has_room = |entry: &Entry| entry.bytes.saturating_add(line.len()) <= MAX_ENTRY;
        if self.lock().entries.get(id.as_str()).is_some_and(has_room) {
            self.add(id, line.len(), |entry| entry.events.push(Line::new(line)));
        }
    }

    /// A request was answered.
    pub(crate) fn finish(&self, id: &MessageId<'static>, line: &[u8]) {
        self.add(id, line.len(), |entry| entry.answer = Some(Line::new(line)));
    }

    /// A request was not done, and may be tried again.
    pub(crate) fn forget(&self, id: &MessageId<'static>) {
        self.lock().remove(id.as_str());
    }

    fn add(&self, id: &MessageId<'static>, size: usize, change: impl FnOnce(&mut Entry)) {
        let mut entries = self.lock();
        let Some(entry) = entries.entries.get_mut(id.as_str()) else {
            return; // Forgotten meanwhile: there were too many.
        };
        change(entry);
        entry.bytes = entry.bytes.saturating_add(size);
        if let Some(changed) = &entry.changed {
            changed.send_replace(());
        }
        entries.bytes = entries.bytes.saturating_add(size);
        entries.make_room();
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Follow {
    /// The next thing that comes of the request; none if it was given up.
    pub(crate) async fn next(&mut self) -> Option<Piece> {
        loop {
            let piece = self.look()?;
            if piece.is_some() {
                return piece;
            }
            // An error says that the request is forgotten, which the next look finds.
            let _ = self.changed.changed().await;
        }
    }

    /// What is there now; an outer none if the request is forgotten.
    fn look(&mut self) -> Option<Option<Piece>> {
        let entries = self.ledger.lock();
        let entry = entries.entries.get(&self.id)?;
        let piece = match entry.events.get(self.next) {
            Some(event) => Some(Piece::Event(event.clone())),
            None => entry.answer.clone().map(Piece::Answer),
        };
        self.next = self.next.saturating_add(usize::from(piece.is_some()));
        Some(piece)
    }
}

impl Entries {
    fn insert(
        &mut self,
        now: Duration,
        id: &MessageId<'static>,
        request: Option<Box<[u8]>>,
        answer: Option<Line>,
    ) {
        let bytes = request.as_ref().map_or(0, |line| line.len());
        let bytes = bytes.saturating_add(answer.as_ref().map_or(0, |line| line.0.len()));
        let entry = Entry {
            at: now,
            bytes,
            request,
            events: Vec::new(),
            answer,
            changed: None,
        };
        self.bytes = self.bytes.saturating_add(bytes);
        let id: Arc<str> = id.as_str().into();
        self.order.push_back((now, Arc::clone(&id)));
        // One of before a restart may stand there for an id that was used again.
        if let Some(replaced) = self.entries.insert(id, entry) {
            self.bytes = self.bytes.saturating_sub(replaced.bytes);
        }
    }

    fn remove(&mut self, id: &str) -> Option<Entry> {
        let entry = self.entries.remove(id)?;
        self.bytes = self.bytes.saturating_sub(entry.bytes);
        Some(entry)
    }

    fn forget_old(&mut self, now: Duration) {
        let is_old = |(at, _): &(Duration, Arc<str>)| at.saturating_add(KEPT) <= now;
        // Those that are worked on come back, so each is looked at once.
        for _ in 0..self.order.len() {
            if !self.order.front().is_some_and(is_old) {
                break;
            }
            self.forget_first();
        }
        self.make_room();
    }

    fn make_room(&mut self) {
        // Those that are worked on stay, and are few: each is looked at once.
        for _ in 0..self.order.len() {
            if self.order.len() < MAX_ENTRIES && self.bytes < MAX_BYTES {
                break;
            }
            self.forget_first();
        }
    }

    /// Forgets the oldest, unless it is still worked on: then a retry would do it twice.
    fn forget_first(&mut self) {
        let Some((at, id)) = self.order.pop_front() else {
            return;
        };
        match self.entries.get_mut(&id) {
            Some(entry) if entry.at != at => {}
            Some(entry) if entry.answer.is_none() => {
                let at = self.order.back().map_or(at, |(last, _)| *last);
                entry.at = at;
                self.order.push_back((at, id));
            }
            Some(_) => drop(self.remove(&id)),
            None => {}
        }
    }
}

/// Whether two requests ask for the same: equal but for what each sending changes.
fn is_same(first: &[u8], second: &[u8]) -> bool {
    first == second || matches!((content(first), content(second)), (Some(a), Some(b)) if a == b)
}

/// The canonical form of what a request asks for.
fn content(line: &[u8]) -> Option<Vec<u8>> {
    let Ok(Value::Object(mut request)) = Value::parse_within(line, LIMITS) else {
        return None;
    };
    for name in ["a2e", "version", "ts", "session_id"] {
        request.remove(name);
    }
    Some(Value::Object(request).to_canonical())
}

#[cfg(test)]
mod tests;
