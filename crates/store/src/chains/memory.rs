//! Chains, in memory.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::{Chain, ChainHead, ChainState, Chains, MAX_OPEN, WHAT, agent, check, room};
use crate::limits::Size;
use crate::memory::Memory;
use crate::scope::Owner;
use crate::{AgentId, Error, Limits, Pending, UnixMillis};

/// The chains of all agents.
#[derive(Debug, Default)]
pub(crate) struct Table {
    shelves: BTreeMap<Arc<str>, Shelf>,
    /// The number of the last chain of anybody.
    last: i64,
}

#[derive(Debug, Default)]
struct Shelf {
    kept: BTreeMap<i64, Kept>,
    size: Size,
}

#[derive(Debug)]
struct Kept {
    chain: Chain,
    journal: Vec<Vec<u8>>,
    bytes: usize,
    expires: UnixMillis,
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

    fn with<T>(
        &self,
        act: impl FnOnce(&mut Shelf, &mut i64, &Limits) -> Result<T, Error>,
    ) -> Pending<T> {
        let tables = &mut *self.memory.tables();
        let table = &mut tables.chains;
        let shelf = table.shelves.entry(Arc::clone(&self.owner)).or_default();
        Pending::ready(act(shelf, &mut table.last, self.memory.limits()))
    }
}

impl Table {
    /// Removes what has expired; returns how much that was.
    pub(crate) fn sweep(&mut self, now: UnixMillis) -> usize {
        let mut removed = 0;
        self.shelves.retain(|_, shelf| {
            let before = shelf.kept.len();
            shelf.retain(|_, kept| kept.expires > now);
            removed += before - shelf.kept.len();
            !shelf.kept.is_empty()
        });
        removed
    }
}

/// The open chains of all agents, the oldest first.
pub(crate) fn open_chains(memory: &Memory) -> Vec<(AgentId, i64)> {
    let tables = memory.tables();
    let shelves = tables.chains.shelves.iter();
    let mut open: Vec<(AgentId, i64)> = shelves
        .filter_map(|(owner, shelf)| Some((agent(owner)?, shelf)))
        .flat_map(|(agent, shelf)| {
            let open = shelf.kept.iter().filter(|(_, kept)| kept.is_open());
            open.map(move |(number, _)| (agent.clone(), *number))
        })
        .collect();
    open.sort_unstable_by_key(|(_, number)| *number);
    open.truncate(MAX_OPEN);
    open
}

impl Shelf {
    fn retain(&mut self, keep: impl Fn(&i64, &Kept) -> bool) {
        self.kept.retain(|number, kept| keep(number, kept));
        let sizes = self.kept.values().map(|kept| Size::one(kept.bytes));
        self.size = sizes.fold(Size::default(), Size::plus);
    }

    fn make_room(&mut self, limits: &Limits, more: Size) -> Result<(), Error> {
        let ended = self.kept.iter().filter(|(_, kept)| !kept.is_open());
        let ended = ended.map(|(number, kept)| Ok((*number, kept.bytes)));
        let last = room(limits.chains, self.size, more, ended)?;
        if last > 0 {
            self.retain(|number, kept| *number > last || kept.is_open());
        }
        Ok(())
    }

    fn open(&mut self, number: i64) -> Result<&mut Kept, Error> {
        let kept = self.kept.get_mut(&number).filter(|kept| kept.is_open());
        kept.ok_or(Error::NotFound { what: WHAT })
    }

    /// Changes an open chain, which has that many bytes then.
    fn resize(&mut self, number: i64, bytes: usize) -> Result<&mut Kept, Error> {
        let kept = self.open(number)?;
        let before = std::mem::replace(&mut kept.bytes, bytes);
        self.size = self.size.minus(Size::one(before)).plus(Size::one(bytes));
        self.open(number)
    }
}

impl Kept {
    fn is_open(&self) -> bool {
        self.chain.head.state == ChainState::Open
    }
}

impl Chains for InMemory {
    fn begin(&self, now: UnixMillis, name: &str, request: Vec<u8>) -> Pending<i64> {
        self.with(|shelf, last, limits| {
            check(limits.chains, name, &request)?;
            let size = Size::one(name.len() + request.len());
            shelf.make_room(limits, size)?;
            *last += 1;
            let head = ChainHead {
                number: *last,
                name: name.to_owned(),
                state: ChainState::Open,
                begun: now,
                ended: None,
                resumed: 0,
            };
            let kept = Kept {
                chain: Chain {
                    head,
                    request,
                    outcome: None,
                },
                journal: Vec::new(),
                bytes: size.bytes,
                expires: UnixMillis(i64::MAX),
            };
            shelf.size = shelf.size.plus(size);
            shelf.kept.insert(*last, kept);
            Ok(*last)
        })
    }

    fn resume(&self, number: i64) -> Pending<u32> {
        self.with(|shelf, _, _| {
            let head = &mut shelf.open(number)?.chain.head;
            head.resumed += 1;
            Ok(head.resumed)
        })
    }

    fn note(&self, number: i64, entry: Vec<u8>) -> Pending<()> {
        self.with(|shelf, _, limits| {
            limits.chains.take(WHAT, entry.len())?;
            let bytes = shelf.open(number)?.bytes + entry.len();
            let more = Size {
                entries: 0,
                bytes: entry.len(),
            };
            shelf.make_room(limits, more)?;
            shelf.resize(number, bytes)?.journal.push(entry);
            Ok(())
        })
    }

    fn end(
        &self,
        now: UnixMillis,
        number: i64,
        state: ChainState,
        outcome: Vec<u8>,
    ) -> Pending<()> {
        self.with(|shelf, _, limits| {
            limits.chains.take(WHAT, outcome.len())?;
            let kept = shelf.open(number)?;
            let written: usize = kept.journal.iter().map(Vec::len).sum();
            let bytes = kept.bytes - written + outcome.len();
            let more = Size {
                entries: 0,
                bytes: outcome.len().saturating_sub(written),
            };
            shelf.make_room(limits, more)?;
            let kept = shelf.resize(number, bytes)?;
            kept.journal = Vec::new();
            kept.expires = now.plus(limits.chains_kept);
            kept.chain.head.state = state;
            kept.chain.head.ended = Some(now);
            kept.chain.outcome = Some(outcome);
            Ok(())
        })
    }

    fn list(&self, now: UnixMillis, at_most: usize) -> Pending<Vec<ChainHead>> {
        self.with(|shelf, _, _| {
            let live = shelf.kept.values().rev().filter(|it| it.expires > now);
            Ok(live
                .take(at_most)
                .map(|kept| kept.chain.head.clone())
                .collect())
        })
    }

    fn find(&self, now: UnixMillis, number: i64) -> Pending<Option<Chain>> {
        self.with(|shelf, _, _| {
            let kept = shelf.kept.get(&number).filter(|it| it.expires > now);
            Ok(kept.map(|kept| kept.chain.clone()))
        })
    }

    fn journal(&self, number: i64, show: &mut dyn FnMut(&[u8]) -> ControlFlow<()>) -> Pending<()> {
        self.with(|shelf, _, _| {
            let kept = shelf.kept.get(&number).into_iter();
            // Stopping early is no failure.
            let _ = kept
                .flat_map(|kept| &kept.journal)
                .try_for_each(|entry| show(entry));
            Ok(())
        })
    }
}
