//! Results in memory.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::{Begun, Results, WHAT, base_size};
use crate::limits::{Size, check_name};
use crate::memory::Memory;
use crate::scope::Owner;
use crate::{Error, Hash, Limit, Pending, Uptime};

#[derive(Debug, Default)]
pub(crate) struct Table(HashMap<Arc<str>, Ledger>);

/// The requests of one owner.
#[derive(Debug, Default)]
struct Ledger {
    entries: HashMap<String, Entry>,
    /// Oldest first: when it was begun or finished, and in which order they came.
    by_age: BTreeMap<(Uptime, u64), String>,
    bytes: usize,
    next: u64,
}

#[derive(Debug)]
struct Entry {
    hash: Hash,
    age: (Uptime, u64),
    bytes: usize,
    state: State,
}

#[derive(Debug)]
enum State {
    Running,
    Interrupted,
    Finished(Option<Vec<u8>>),
}

#[derive(Debug)]
pub(crate) struct InMemory {
    memory: Memory,
    owner: Arc<str>,
}

impl InMemory {
    pub(crate) fn new(memory: &Memory, owner: &Owner) -> Self {
        Self {
            memory: memory.clone(),
            owner: owner.shared(),
        }
    }

    fn change<T>(&self, change: impl FnOnce(&mut Ledger) -> Result<T, Error>) -> Pending<T> {
        let mut tables = self.memory.tables();
        let ledger = tables.results.0.entry(Arc::clone(&self.owner)).or_default();
        Pending::ready(change(ledger))
    }
}

impl Results for InMemory {
    fn begin(&self, now: Uptime, id: &str, hash: Hash) -> Pending<Begun> {
        let limits = *self.memory.limits();
        let cutoff = now.minus(limits.results_kept);
        self.change(|ledger| {
            check_name(WHAT, id)?;
            let is_known = match ledger.entries.get(id) {
                Some(entry) if entry.is_running() || entry.age.0 > cutoff => {
                    return Ok(entry.answer(hash));
                }
                known => known.is_some(),
            };
            let except = is_known.then_some(id);
            ledger.make_room(limits.results, Size::one(base_size(id)), except)?;
            ledger.remove(id);
            ledger.insert(now, id, hash);
            Ok(Begun::New)
        })
    }

    fn finish(&self, now: Uptime, id: &str, result: Option<Vec<u8>>) -> Pending<()> {
        let limit = self.memory.limits().results;
        self.change(|ledger| {
            let size = result.as_ref().map_or(0, Vec::len);
            limit.take(WHAT, size)?;
            ledger.check_running(id)?;
            let more = Size::one(base_size(id) + size);
            ledger.make_room(limit, more, Some(id))?;
            ledger.end(now, id, State::Finished(result));
            Ok(())
        })
    }

    fn interrupt(&self, now: Uptime, id: &str) -> Pending<()> {
        self.change(|ledger| {
            ledger.check_running(id)?;
            ledger.end(now, id, State::Interrupted);
            Ok(())
        })
    }

    fn result(&self, now: Uptime, id: &str) -> Pending<Option<Vec<u8>>> {
        let cutoff = now.minus(self.memory.limits().results_kept);
        self.change(|ledger| {
            let entry = ledger.entries.get(id);
            Ok(match entry.filter(|entry| entry.age.0 > cutoff) {
                Some(Entry {
                    state: State::Finished(result),
                    ..
                }) => result.clone(),
                Some(_) | None => None,
            })
        })
    }

    fn forget(&self, id: &str) -> Pending<()> {
        self.change(|ledger| {
            ledger.remove(id);
            Ok(())
        })
    }
}

impl Entry {
    fn answer(&self, hash: Hash) -> Begun {
        match &self.state {
            _ if self.hash != hash => Begun::Conflict,
            State::Running => Begun::Running,
            State::Interrupted => Begun::Interrupted,
            State::Finished(_) => Begun::Finished,
        }
    }

    const fn is_running(&self) -> bool {
        matches!(self.state, State::Running)
    }
}

impl Ledger {
    /// Makes room for an entry, the one of that id aside; the oldest that are done go.
    fn make_room(&mut self, limit: Limit, more: Size, except: Option<&str>) -> Result<(), Error> {
        let mut size = Size {
            entries: self.entries.len(),
            bytes: self.bytes,
        };
        if let Some(entry) = except.and_then(|id| self.entries.get(id)) {
            size = size.minus(Size::one(entry.bytes));
        }
        size = size.plus(more);
        let mut going = Vec::new();
        for id in self.by_age.values() {
            if limit.holds(size) {
                break;
            }
            let Some(entry) = self.entries.get(id) else {
                continue;
            };
            if !entry.is_running() && Some(id.as_str()) != except {
                size = size.minus(Size::one(entry.bytes));
                going.push(id.clone());
            }
        }
        if !limit.holds(size) {
            return Err(Error::Full { what: WHAT });
        }
        for id in going {
            self.remove(&id);
        }
        Ok(())
    }

    fn insert(&mut self, now: Uptime, id: &str, hash: Hash) {
        let age = (now, self.next);
        self.next += 1;
        let bytes = base_size(id);
        self.bytes += bytes;
        self.by_age.insert(age, id.to_owned());
        let entry = Entry {
            hash,
            age,
            bytes,
            state: State::Running,
        };
        self.entries.insert(id.to_owned(), entry);
    }

    fn check_running(&self, id: &str) -> Result<(), Error> {
        match self.entries.get(id).is_some_and(Entry::is_running) {
            true => Ok(()),
            false => Err(Error::NotFound { what: WHAT }),
        }
    }

    fn end(&mut self, now: Uptime, id: &str, state: State) {
        let Some(entry) = self.entries.get_mut(id) else {
            return;
        };
        self.by_age.remove(&entry.age);
        entry.age.0 = now;
        self.by_age.insert(entry.age, id.to_owned());
        let size = match &state {
            State::Finished(Some(result)) => result.len(),
            State::Finished(None) | State::Interrupted | State::Running => 0,
        };
        entry.bytes += size;
        self.bytes += size;
        entry.state = state;
    }

    fn remove(&mut self, id: &str) {
        if let Some(entry) = self.entries.remove(id) {
            self.by_age.remove(&entry.age);
            self.bytes -= entry.bytes;
        }
    }
}

impl Table {
    /// Removes what was done or cut off before a time; returns how much that was.
    pub(crate) fn sweep(&mut self, cutoff: Uptime) -> usize {
        let mut removed = 0;
        self.0.retain(|_, ledger| {
            let old = ledger.by_age.range(..=(cutoff, u64::MAX));
            let is_over = |id: &&String| {
                let entry = ledger.entries.get(id.as_str());
                entry.is_some_and(|entry| !entry.is_running())
            };
            let old: Vec<String> = old.map(|(_, id)| id).filter(is_over).cloned().collect();
            removed += old.len();
            for id in old {
                ledger.remove(&id);
            }
            !ledger.entries.is_empty()
        });
        removed
    }
}
