//! Idempotency: a request that is sent again under its id gets the response it had, and what may have
//! had an effect is never executed twice.
//!
//! The cache of an agent holds for all its sessions. A request whose effect outlives the process is
//! also in a [`record::Record`] of the cache, written before it is executed, so that the next
//! process knows it.

mod record;

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use a2e_wire::MessageId;
use base::{Budget, Charge, Class, Limits};
use canonical::Digest;
use tokio::sync::watch;

use crate::decision::content;
use crate::snapshot::SnapshotStore;

use record::{Change, Mark, Record};

/// The idempotency caches of a host.
pub(crate) struct IdempotencyCaches {
    /// Where caches are recorded; without it they end with the process.
    store: Option<Arc<dyn SnapshotStore>>,
    /// By the keys of their records.
    caches: Mutex<HashMap<String, Arc<IdempotencyCache>>>,
}

/// The requests of one agent, or of one session on a host that does not authenticate agents.
#[derive(Debug, Default)]
pub(crate) struct IdempotencyCache {
    entries: Mutex<Entries>,
}

#[derive(Debug)]
struct Entries {
    by_id: HashMap<Arc<str>, Entry>,
    /// The entries that have ended, oldest first, and since when each is retained.
    ended: VecDeque<(Duration, Arc<str>)>,
    /// Bytes of the entries that have ended.
    budget: Budget<()>,
    last_number: u64,
    record: Option<Record>,
    /// How many entries the record has.
    recorded: usize,
}

#[derive(Debug)]
struct Entry {
    /// Tells it from later entries of the same id.
    number: u64,
    request: Content,
    events: Vec<Line>,
    event_bytes: usize,
    /// Whether the request was given to a plugin whose effect outlives the process.
    may_have_effect: bool,
    /// Whether the record has it.
    is_recorded: bool,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Those who wait for it are notified of changes.
    Running(Option<watch::Sender<()>>),
    Ended {
        outcome: Outcome,
        /// Its bytes, given back when it is dropped.
        _charge: Option<Charge<()>>,
    },
}

/// What a retry of an ended request gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Response(Line),
    Interrupted,
}

/// What a request asks for.
#[derive(Debug, Clone)]
enum Content {
    /// The request as received.
    Line(Arc<[u8]>),
    Digest(Digest),
}

/// How a request ends, as far as a retry under its id is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Its plugin responded, with a result or with an error that is final: a retry gets that response.
    Responded,
    /// It was refused, or its plugin responded that nothing lasting was done: a retry is a new request.
    RetryAllowed,
    /// It was cut off. If it may have had an effect it is never executed again, and a retry is told so;
    /// else a retry is a new request.
    Interrupted,
}

/// Names an entry of a cache.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    id: Arc<str>,
    number: u64,
}

/// A message as it was sent, shared by all who are sent it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line(Arc<[u8]>);

/// What a request of an agent is to the host.
#[derive(Debug)]
pub(crate) enum Begun {
    /// It is new: it is executed, and ends under this key.
    New(Key),
    /// It was sent before: this follows what becomes of it.
    Again(Follow),
    /// Another request has this id.
    Reused,
}

/// Follows a request: its events, then its outcome.
#[derive(Debug)]
pub(crate) struct Follow {
    cache: Arc<IdempotencyCache>,
    key: Key,
    next: usize,
    /// Notifies of changes; none if nothing can change any more.
    changed: Option<watch::Receiver<()>>,
}

/// Something that became of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Event(Line),
    /// The last.
    Outcome(Outcome),
}

/// How long a request is retained after it has ended, by the monotonic clock of the process.
pub(crate) const RETENTION: Duration = Duration::from_secs(600);

/// Ended requests of a cache, and their bytes.
const MAX_ENTRIES: usize = 10_000;
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// The size of a request with its events; further events are not sent again.
const MAX_ENTRY: usize = 1024 * 1024;

impl Line {
    pub(crate) fn new(line: &[u8]) -> Self {
        Self(line.into())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl IdempotencyCaches {
    /// Caches that are recorded in a store.
    pub(crate) fn new(store: Option<Arc<dyn SnapshotStore>>) -> Self {
        Self {
            store,
            caches: Mutex::default(),
        }
    }

    /// The cache of an agent, in all its sessions.
    pub(crate) fn of_agent(&self, agent: &str) -> Arc<IdempotencyCache> {
        let digest = Digest::of(format!("agent\0{agent}").as_bytes()).to_string();
        self.of(digest.trim_start_matches("sha256:"))
    }

    /// The cache of one session, by the key of its journal.
    pub(crate) fn of_session(&self, session: &str) -> Arc<IdempotencyCache> {
        self.of(session)
    }

    fn of(&self, key: &str) -> Arc<IdempotencyCache> {
        let mut caches = self.lock();
        if let Some(cache) = caches.get(key) {
            return Arc::clone(cache);
        }
        let store = self.store.clone();
        let record = store.map(|store| Record::new(store, key.to_owned()));
        let entries = Entries {
            record,
            ..Entries::default()
        };
        let cache = Arc::new(IdempotencyCache {
            entries: Mutex::new(entries),
        });
        caches.insert(key.to_owned(), Arc::clone(&cache));
        cache
    }

    /// Removes the cache of a session that has ended.
    pub(crate) fn remove_session(&self, session: &str) {
        let cache = self.lock().remove(session);
        if let Some(mut record) = cache.and_then(|cache| cache.lock().record.take())
            && let Err(error) = record.remove()
        {
            tracing::warn!(%error, "cannot remove the idempotency cache of a session that has ended");
        }
    }

    /// Removes what is no longer retained, from memory and from the store. Call it from time to time.
    pub(crate) fn remove_expired(&self, now: Duration) -> io::Result<()> {
        let mut caches = self.lock();
        caches.retain(|_, cache| {
            let mut entries = cache.lock();
            entries.remove_expired(now);
            Arc::strong_count(cache) > 1 || !entries.by_id.is_empty()
        });
        // Records that nobody has asked for since the start of the process, from which they are retained.
        if let Some(store) = self.store.as_ref().filter(|_| now >= RETENTION) {
            for key in store.keys()? {
                if !caches.contains_key(&key) {
                    store.remove(&key)?;
                }
            }
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<IdempotencyCache>>> {
        self.caches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl IdempotencyCache {
    /// Begins a request; `line` is the request as received.
    pub(crate) fn begin(
        self: &Arc<Self>,
        now: Duration,
        id: &MessageId<'static>,
        line: Arc<[u8]>,
    ) -> Begun {
        let mut entries = self.lock();
        if let Err(error) = entries.read() {
            // Until it can be read `record_begun` fails, so that nothing is executed a second time.
            tracing::error!(%error, "cannot read the idempotency cache of an agent");
        }
        entries.remove_expired(now);
        let Some(entry) = entries.by_id.get_mut(id.as_str()) else {
            return Begun::New(entries.insert(id.as_str(), line));
        };
        if !entry.request.is_same(&line) {
            return Begun::Reused;
        }
        let changed = match &mut entry.state {
            State::Running(changed) => {
                let changed = changed.get_or_insert_with(|| watch::channel(()).0);
                Some(changed.subscribe())
            }
            State::Ended { .. } => None,
        };
        Begun::Again(Follow {
            cache: Arc::clone(self),
            key: Key {
                id: id.as_str().into(),
                number: entry.number,
            },
            next: 0,
            changed,
        })
    }

    /// Notes that a request is given to a plugin whose effect outlives the process: if it is interrupted
    /// from now on, this process does not execute it again.
    pub(crate) fn note_effect(&self, key: &Key) {
        if let Some(entry) = self.lock().running(key) {
            entry.may_have_effect = true;
        }
    }

    /// Records that a request is begun, so that no later process executes it again. Where the store
    /// promises it, this holds after a power loss too. Returns whether it is to be executed: not if it was
    /// interrupted meanwhile.
    ///
    /// # Errors
    /// If it cannot be recorded; then the request must not be executed.
    pub(crate) async fn record_begun(self: Arc<Self>, key: Key) -> io::Result<bool> {
        let place = self.lock().record.as_ref().map(Record::place);
        let Some((store, record)) = place else {
            return Ok(true);
        };
        if !store.syncs() {
            return self.write_begun(&key);
        }
        let write = move || {
            let is_written = self.write_begun(&key)?;
            let synced = store.sync(&record).map(|()| is_written);
            if synced.is_err()
                && let Some(record) = &mut self.lock().record
            {
                // What is in the record may be lost.
                record.replace_next();
            }
            synced
        };
        tokio::task::spawn_blocking(write).await?
    }

    fn write_begun(&self, key: &Key) -> io::Result<bool> {
        let request = self.lock().running(key).map(|it| it.request.clone());
        let Some(request) = request else {
            return Ok(false);
        };
        let content = request.digest();
        let mut entries = self.lock();
        entries.read()?;
        let Some(entry) = entries.running(key) else {
            return Ok(false);
        };
        entry.request = Content::Digest(content);
        entry.is_recorded = true;
        let mut lines = Vec::new();
        entry.write_to(&key.id, &mut lines)?;
        entries.recorded = entries.recorded.saturating_add(1);
        entries.write(&lines).map(|()| true)
    }

    /// An event of a request was sent.
    pub(crate) fn event(&self, key: &Key, line: &[u8]) {
        let mut entries = self.lock();
        let Some(entry) = entries.running(key) else {
            return;
        };
        let event_bytes = entry.event_bytes.saturating_add(line.len());
        if entry.request.size().saturating_add(event_bytes) > MAX_ENTRY {
            return;
        }
        entry.event_bytes = event_bytes;
        entry.events.push(Line::new(line));
        if let State::Running(Some(changed)) = &entry.state {
            changed.send_replace(());
        }
    }

    /// Ends a request, with its response if it has one.
    pub(crate) fn end(&self, now: Duration, key: &Key, ending: Ending, response: &[u8]) {
        if let Err(error) = self.lock().end(now, key, ending, response) {
            // This process knows it, and the next write of the record has all of the cache. To the next
            // process it was interrupted.
            tracing::error!(%error, "cannot record how a request ended");
        }
    }

    /// What a retry of an ended request gets.
    ///
    /// # Errors
    /// If the record cannot be read.
    pub(crate) fn outcome(&self, id: &str) -> io::Result<Option<Outcome>> {
        let mut entries = self.lock();
        entries.read()?;
        Ok(match entries.by_id.get(id).map(|entry| &entry.state) {
            Some(State::Ended { outcome, .. }) => Some(outcome.clone()),
            Some(State::Running(_)) | None => None,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    fn insert(&mut self, id: &str, line: Arc<[u8]>) -> Key {
        let key = self.next_key(id.into());
        let entry = Entry::new(key.number, Content::Line(line), State::Running(None));
        self.by_id.insert(Arc::clone(&key.id), entry);
        key
    }

    fn next_key(&mut self, id: Arc<str>) -> Key {
        self.last_number = self.last_number.saturating_add(1);
        Key {
            id,
            number: self.last_number,
        }
    }

    /// An entry that has not ended.
    fn running(&mut self, key: &Key) -> Option<&mut Entry> {
        let entry = self.by_id.get_mut(&key.id)?;
        let is_it = entry.number == key.number && matches!(entry.state, State::Running(_));
        is_it.then_some(entry)
    }

    fn end(&mut self, now: Duration, key: &Key, ending: Ending, response: &[u8]) -> io::Result<()> {
        let Some(entry) = self.running(key) else {
            return Ok(());
        };
        let outcome = match ending {
            Ending::Responded => Some(Outcome::Response(Line::new(response))),
            Ending::Interrupted => entry.may_have_effect.then_some(Outcome::Interrupted),
            Ending::RetryAllowed => None,
        };
        let mut lines = Vec::new();
        let Some(outcome) = outcome else {
            self.remove(&key.id, &mut lines)?;
            return self.write(&lines);
        };
        if outcome == Outcome::Interrupted {
            // They are the beginning of something without an end.
            entry.events.clear();
            entry.event_bytes = 0;
        }
        let bytes = entry.bytes().saturating_add(outcome.bytes());
        while self.ended.len() >= MAX_ENTRIES {
            self.remove_oldest(&mut lines)?;
        }
        // One that is larger than all together may be counts as that.
        let bytes = bytes.min(MAX_BYTES);
        let charge = loop {
            match self.budget.charge((), Class::Known, bytes) {
                Err(_) if !self.ended.is_empty() => self.remove_oldest(&mut lines)?,
                charge => break charge.ok(),
            }
        };
        if let Some(entry) = self.by_id.get_mut(&key.id) {
            // Those who wait for it are woken: the sender is dropped.
            entry.state = State::Ended {
                outcome,
                _charge: charge,
            };
            if entry.is_recorded {
                entry.write_to(&key.id, &mut lines)?;
            }
        }
        self.ended.push_back((now, Arc::clone(&key.id)));
        self.write(&lines)
    }

    /// Removes an entry, and adds that to what is to be recorded.
    fn remove(&mut self, id: &str, lines: &mut Vec<u8>) -> io::Result<()> {
        let removed = self.by_id.remove(id);
        if removed.is_some_and(|entry| entry.is_recorded) {
            self.recorded = self.recorded.saturating_sub(1);
            Change::Removed(id.into()).write_to(lines)?;
        }
        Ok(())
    }

    fn remove_oldest(&mut self, lines: &mut Vec<u8>) -> io::Result<()> {
        match self.ended.pop_front() {
            Some((_, id)) => self.remove(&id, lines),
            None => Ok(()),
        }
    }

    fn remove_expired(&mut self, now: Duration) {
        let mut lines = Vec::new();
        let is_expired = |(at, _): &(Duration, Arc<str>)| at.saturating_add(RETENTION) <= now;
        let mut removed = Ok(());
        while removed.is_ok() && self.ended.front().is_some_and(is_expired) {
            removed = self.remove_oldest(&mut lines);
        }
        if let Err(error) = removed.and_then(|()| self.write(&lines)) {
            tracing::warn!(%error, "cannot remove expired requests from an idempotency cache");
        }
    }

    /// Adds lines to the record. They are in the cache already, so that a record that is written anew
    /// has them too.
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        let Some(record) = &mut self.record else {
            return Ok(());
        };
        if lines.is_empty() {
            return Ok(());
        }
        if self.recorded == 0 {
            return record.remove();
        }
        if record.has_room(lines.len()) {
            return record.append(lines);
        }
        let mut all = Vec::new();
        for (id, entry) in self.by_id.iter().filter(|(_, entry)| entry.is_recorded) {
            entry.write_to(id, &mut all)?;
        }
        record.replace(&all)
    }

    /// Reads the record, if that was not done yet. What an earlier process has recorded is retained from
    /// the start of this one: its clock is not ours.
    fn read(&mut self) -> io::Result<()> {
        let Some(found) = self.record.as_mut().map_or(Ok(None), Record::read)? else {
            return Ok(());
        };
        // Ahead of those that have ended since, oldest first.
        for (mark, outcome) in found.into_iter().rev() {
            if self.by_id.contains_key(&*mark.id) {
                continue;
            }
            let Key { id, number } = self.next_key(mark.id.as_ref().into());
            let bytes = outcome.bytes().min(MAX_BYTES);
            let charge = self.budget.charge((), Class::Known, bytes).ok();
            let state = State::Ended {
                outcome,
                _charge: charge,
            };
            let entry = Entry {
                may_have_effect: true,
                is_recorded: true,
                ..Entry::new(number, Content::Digest(mark.content), state)
            };
            self.by_id.insert(Arc::clone(&id), entry);
            self.ended.push_front((Duration::ZERO, id));
            self.recorded = self.recorded.saturating_add(1);
        }
        Ok(())
    }
}

impl Entry {
    const fn new(number: u64, request: Content, state: State) -> Self {
        Self {
            number,
            request,
            events: Vec::new(),
            event_bytes: 0,
            may_have_effect: false,
            is_recorded: false,
            state,
        }
    }

    /// The size of the request and its events.
    fn bytes(&self) -> usize {
        self.request.size().saturating_add(self.event_bytes)
    }

    /// Writes the line that the record has of it.
    fn write_to(&self, id: &str, lines: &mut Vec<u8>) -> io::Result<()> {
        let mut mark = Mark {
            id: id.into(),
            content: self.request.digest(),
            response: None,
        };
        let change = match &self.state {
            State::Running(_) => Change::Begun(mark),
            State::Ended { outcome, .. } => match outcome {
                Outcome::Response(line) => {
                    mark.response = Some(String::from_utf8_lossy(line.bytes()));
                    Change::Responded(mark)
                }
                Outcome::Interrupted => Change::Interrupted(mark),
            },
        };
        change.write_to(lines)
    }
}

impl Outcome {
    fn bytes(&self) -> usize {
        match self {
            Self::Response(line) => line.0.len(),
            Self::Interrupted => 0,
        }
    }
}

impl Content {
    fn size(&self) -> usize {
        match self {
            Self::Line(line) => line.len(),
            Self::Digest(digest) => digest.as_bytes().len(),
        }
    }

    /// The digest of what it asks for; of all of it, if that has no canonical form.
    fn digest(&self) -> Digest {
        match self {
            Self::Line(line) => digest_of(line),
            Self::Digest(digest) => *digest,
        }
    }

    /// Whether a request asks for the same: equal but for what each sending changes.
    fn is_same(&self, line: &[u8]) -> bool {
        match self {
            Self::Line(first) => {
                **first == *line
                    || matches!((content(first, &[]), content(line, &[])), (Some(a), Some(b)) if a == b)
            }
            Self::Digest(digest) => digest_of(line) == *digest,
        }
    }
}

fn digest_of(line: &[u8]) -> Digest {
    match content(line, &[]) {
        Some(content) => Digest::of(&content),
        None => Digest::of(line),
    }
}

impl Follow {
    /// The next piece; none if the request was not executed to its end, and may be sent again.
    pub(crate) async fn next(&mut self) -> Option<Piece> {
        loop {
            let piece = self.look()?;
            if piece.is_some() {
                return piece;
            }
            // An error means that the request has ended: the next look finds how.
            let _ = self.changed.as_mut()?.changed().await;
        }
    }

    /// The piece that is there now; an outer none if the request is not in the cache any more.
    fn look(&mut self) -> Option<Option<Piece>> {
        let entries = self.cache.lock();
        let entry = entries.by_id.get(&self.key.id)?;
        if entry.number != self.key.number {
            return None;
        }
        let piece = match (entry.events.get(self.next), &entry.state) {
            (Some(event), _) => Some(Piece::Event(event.clone())),
            (None, State::Ended { outcome, .. }) => Some(Piece::Outcome(outcome.clone())),
            (None, State::Running(_)) => None,
        };
        self.next = self.next.saturating_add(usize::from(piece.is_some()));
        Some(piece)
    }
}

impl Default for Entries {
    fn default() -> Self {
        Self {
            by_id: HashMap::new(),
            ended: VecDeque::new(),
            budget: Budget::new(Limits {
                total: MAX_BYTES,
                per_holder: MAX_BYTES,
                reserved: 0,
            }),
            last_number: 0,
            record: None,
            recorded: 0,
        }
    }
}

impl fmt::Debug for IdempotencyCaches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyCaches").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
