//! Safe retries: an agent that sends a request again gets the answer it has, not the work done twice.

mod done;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use a2e_wire::MessageId;
use canonical::Digest;
use hashbrown::HashTable;
use tokio::sync::watch;

use crate::decision::content;

use done::{Asked, Content, Done};

/// The requests of all agents that may be sent again.
#[derive(Debug, Default)]
pub(crate) struct Retries {
    agents: Mutex<HashMap<String, Arc<Ledger>>>,
}

/// The requests of one agent.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    hashes: RandomState,
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    running: HashTable<Running>,
    done: Done,
}

/// A request that is worked on. It is not forgotten: a retry would do it twice.
#[derive(Debug)]
struct Running {
    key: Key,
    request: Arc<[u8]>,
    events: Vec<Line>,
    /// The size of the request and its events.
    bytes: usize,
    /// Tells those who sent it again meanwhile that there is more.
    changed: Option<watch::Sender<()>>,
}

/// A request's id, and its hash.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    hash: u64,
    id: Arc<str>,
}

/// A message as it was sent, shared by all who are sent it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line(Arc<[u8]>);

/// What an agent's request is to the host.
#[derive(Debug)]
pub(crate) enum Begun {
    /// It is new: do it. It is remembered by this key.
    New(Key),
    /// It was done or is being done: this is what comes of it.
    Again(Follow),
    /// Another request has this id.
    Reused,
}

/// Reads what comes of a request.
#[derive(Debug)]
pub(crate) struct Follow {
    ledger: Arc<Ledger>,
    key: Key,
    next: usize,
    /// Tells that there is more; none if nothing more can come.
    changed: Option<watch::Receiver<()>>,
}

/// Something that came of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Event(Line),
    /// The last.
    Answer(Line),
}

/// How long a request is remembered.
pub(crate) const KEPT: Duration = Duration::from_secs(600);

/// How many requests of an agent are remembered, and how many bytes of them.
pub(crate) const MAX_ENTRIES: usize = 10_000;
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// How much of one request is remembered beside its answer; events beyond it are not sent again.
const MAX_ENTRY: usize = 1024 * 1024;

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
        line: Arc<[u8]>,
    ) -> Begun {
        let hash = self.hashes.hash_one(id.as_str());
        let mut entries = self.lock();
        entries.forget_old(now);
        let Entries { running, done } = &mut *entries;
        let is_it = |running: &Running| *running.key.id == *id.as_str();
        let (request, changed) = if let Some(running) = running.find_mut(hash, is_it) {
            let changed = running.changed.get_or_insert_with(|| watch::channel(()).0);
            let request = Asked::Line(&running.request);
            (request, Some(changed.subscribe()))
        } else if let Some(found) = done.find(hash, id.as_str()) {
            (found.request(), None)
        } else {
            let key = Key {
                hash,
                id: id.as_str().into(),
            };
            let new = Running {
                key: key.clone(),
                bytes: line.len(),
                request: line,
                events: Vec::new(),
                changed: None,
            };
            running.insert_unique(hash, new, |running| running.key.hash);
            return Begun::New(key);
        };
        let is_same = match request {
            Asked::Line(first) => is_same(first, &line),
            Asked::Content(digest) => digest_of(&line).as_bytes() == digest,
        };
        if !is_same {
            return Begun::Reused;
        }
        Begun::Again(Follow {
            ledger: Arc::clone(self),
            key: Key {
                hash,
                id: id.as_str().into(),
            },
            next: 0,
            changed,
        })
    }

    /// A request of before the host was restarted, which has this answer; of what it asked for, the
    /// digest is known.
    pub(crate) fn restore(&self, now: Duration, id: &str, asked: Digest, answer: &[u8]) {
        let content = Content::<Line> {
            id,
            request: Asked::Content(asked.as_bytes()),
            events: &[],
            answer,
        };
        let hash = self.hashes.hash_one(id);
        let mut entries = self.lock();
        // What has happened since then counts.
        if entries.done.find(hash, id).is_none() {
            entries.done.push(now, hash, &content);
            entries.make_room();
        }
    }

    /// What a request asks for, while it is worked on.
    pub(crate) fn content(&self, key: &Key) -> Option<Digest> {
        let entries = self.lock();
        let running = entries.running.find(key.hash, |other| other.key == *key)?;
        let request = Arc::clone(&running.request);
        drop(entries);
        Some(digest_of(&request))
    }

    /// An event of a request was sent.
    pub(crate) fn event(&self, key: &Key, line: &[u8]) {
        let mut entries = self.lock();
        let Some(running) = entries
            .running
            .find_mut(key.hash, |other| other.key == *key)
        else {
            return;
        };
        let bytes = running.bytes.saturating_add(line.len());
        if bytes > MAX_ENTRY {
            return;
        }
        running.bytes = bytes;
        running.events.push(Line::new(line));
        if let Some(changed) = &running.changed {
            changed.send_replace(());
        }
    }

    /// A request was answered.
    pub(crate) fn finish(&self, now: Duration, key: &Key, answer: &[u8]) {
        let mut entries = self.lock();
        let Some(running) = entries.take(key) else {
            return;
        };
        let content = Content {
            id: &key.id,
            request: Asked::Line(&running.request),
            events: &running.events,
            answer,
        };
        entries.done.push(now, key.hash, &content);
        entries.make_room();
    }

    /// A request was not done, and may be tried again.
    pub(crate) fn forget(&self, key: &Key) {
        self.lock().take(key);
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
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
            // An error says that the request is over, one way or the other: the next look finds it.
            let _ = self.changed.as_mut()?.changed().await;
        }
    }

    /// What is there now; an outer none if the request is forgotten.
    fn look(&mut self) -> Option<Option<Piece>> {
        let entries = self.ledger.lock();
        let key = &self.key;
        let running = entries.running.find(key.hash, |other| other.key == *key);
        let piece = match running {
            Some(running) => running.events.get(self.next).cloned().map(Piece::Event),
            None => {
                let found = entries.done.find(key.hash, &key.id)?;
                Some(match found.event(self.next) {
                    Some(event) => Piece::Event(Line::new(event)),
                    None => Piece::Answer(Line::new(found.answer())),
                })
            }
        };
        self.next = self.next.saturating_add(usize::from(piece.is_some()));
        Some(piece)
    }
}

impl Entries {
    fn take(&mut self, key: &Key) -> Option<Running> {
        let place = self.running.find_entry(key.hash, |other| other.key == *key);
        place.ok().map(|place| place.remove().0)
    }

    fn forget_old(&mut self, now: Duration) {
        let is_old = |at: Duration| at.saturating_add(KEPT) <= now;
        while self.done.oldest().is_some_and(is_old) {
            self.done.forget_oldest();
        }
    }

    fn make_room(&mut self) {
        while self.done.len() > MAX_ENTRIES || self.done.bytes() > MAX_BYTES {
            self.done.forget_oldest();
        }
    }
}

impl Key {
    /// The request's id.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && (Arc::ptr_eq(&self.id, &other.id) || self.id == other.id)
    }
}

impl AsRef<[u8]> for Line {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

/// Of what a request asks for; of all of it, if that has no canonical form.
fn digest_of(request: &[u8]) -> Digest {
    match content(request, &[]) {
        Some(content) => Digest::of(&content),
        None => Digest::of(request),
    }
}

/// Whether two requests ask for the same: equal but for what each sending changes.
fn is_same(first: &[u8], second: &[u8]) -> bool {
    first == second
        || matches!((content(first, &[]), content(second, &[])), (Some(a), Some(b)) if a == b)
}

#[cfg(test)]
mod tests;
