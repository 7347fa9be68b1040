//! Chains, in memory.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::{Chain, ChainHead, ChainState, ChainView, Chains, MAX_OPEN, WHAT, agent, check, room};
use crate::limits::Size;
use crate::memory::Memory;
use crate::scope::Owner;
use crate::{AgentId, Error, Limits, Moment, Pending, UnixMillis, Uptime};

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
    ended_at: Option<Uptime>,
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
    /// Removes what has expired and whose request is sent again no more; returns how much that was.
    pub(crate) fn sweep(&mut self, now: UnixMillis, cutoff: Uptime) -> usize {
        let mut removed = 0;
        self.shelves.retain(|_, shelf| {
            let before = shelf.kept.len();
            shelf.retain(|_, kept| kept.expires > now || kept.is_recent(cutoff));
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

    /// Whether its request may be sent again.
    fn is_recent(&self, cutoff: Uptime) -> bool {
        self.ended_at.is_none_or(|at| at > cutoff)
    }
}

impl Chains for InMemory {
    fn begin(&self, now: Moment, name: &str, request: Vec<u8>) -> Pending<i64> {
        self.with(|shelf, last, limits| {
            check(limits.chains, name, &request)?;
            let size = Size::one(name.len() + request.len());
            shelf.make_room(limits, size)?;
            *last += 1;
            let head = ChainHead {
                number: *last,
                name: name.to_owned(),
                state: ChainState::Open,
                begun: now.unix,
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
                ended_at: None,
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

    fn end(&self, now: Moment, number: i64, state: ChainState, outcome: Vec<u8>) -> Pending<()> {
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
            kept.expires = now.unix.plus(limits.chains_kept);
            kept.ended_at = Some(now.uptime);
            kept.chain.head.state = state;
            kept.chain.head.ended = Some(now.unix);
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

    fn head(&self, now: UnixMillis, number: i64) -> Pending<Option<ChainHead>> {
        self.with(|shelf, _, _| {
            let kept = shelf.kept.get(&number).filter(|it| it.expires > now);
            Ok(kept.map(|kept| kept.chain.head.clone()))
        })
    }

    fn show(
        &self,
        now: UnixMillis,
        number: i64,
        show: &mut dyn FnMut(ChainView<'_>),
    ) -> Pending<bool> {
        self.with(|shelf, _, _| {
            let kept = shelf.kept.get(&number).filter(|it| it.expires > now);
            if let Some(Kept { chain, .. }) = kept {
                show(ChainView {
                    head: chain.head.clone(),
                    request: &chain.request,
                    outcome: chain.outcome.as_deref(),
                });
            }
            Ok(kept.is_some())
        })
    }

    fn earlier(&self, _: Uptime) -> Pending<Vec<i64>> {
        // It ends with its process, so it has none of an earlier one.
        Pending::ready(Ok(Vec::new()))
    }

    fn recall(&self, now: Uptime, number: i64) -> Pending<Option<Chain>> {
        self.with(|shelf, _, limits| {
            let cutoff = now.minus(limits.results_kept);
            let kept = shelf.kept.get(&number);
            let kept = kept.filter(|kept| kept.is_recent(cutoff));
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
