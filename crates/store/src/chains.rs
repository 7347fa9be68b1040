//! Chains on their way: what was asked for, a journal of what is done of it, and how it ended. What
//! has not ended is taken up again by the next process.

mod memory;
mod sqlite;

use std::fmt;
use std::ops::ControlFlow;

use crate::limits::{Size, check_name};
use crate::{AgentId, Error, Limit, Moment, Pending, UnixMillis, Uptime};

pub(crate) use memory::{InMemory, Table, open_chains as open_in_memory};
pub(crate) use sqlite::{
    InSqlite, REQUESTS, RUNS, SCHEMA, TABLE, open_chains as open_in_sqlite, sweep, take_over,
};

/// The chains of one agent. What is asked, noted and came of it is the caller's to read: to a store
/// it is bytes.
///
/// A write fails with [`Error::TooLarge`] or [`Error::Full`] and then changes nothing. For one that
/// has room those go that have ended, the oldest first.
pub trait Chains: fmt::Debug + Send + Sync {
    /// Keeps a chain that begins; gives its number, which no other has.
    ///
    /// Fails with [`Error::Restored`] if it may have been done after a backup was made.
    fn begin(&self, now: Moment, name: &str, request: Vec<u8>) -> Pending<i64>;

    /// Counts that an open chain is taken up again; says how often that was.
    ///
    /// Fails with [`Error::NotFound`] if it is not open.
    fn resume(&self, number: i64) -> Pending<u32>;

    /// Adds to the journal of an open chain.
    ///
    /// Fails with [`Error::NotFound`] if it is not open.
    fn note(&self, number: i64, entry: Vec<u8>) -> Pending<()>;

    /// An open chain has ended; `outcome` takes the place of its journal.
    ///
    /// Fails with [`Error::NotFound`] if it is not open.
    fn end(&self, now: Moment, number: i64, state: ChainState, outcome: Vec<u8>) -> Pending<()>;

    /// The chains that an earlier process has begun and whose request may be sent again: open ones,
    /// and those that ended at most [`results_kept`](crate::Limits::results_kept) ago.
    fn earlier(&self, now: Uptime) -> Pending<Vec<i64>>;

    /// A chain, if its request may be sent again.
    fn recall(&self, now: Uptime, number: i64) -> Pending<Option<Chain>>;

    /// All that are kept, the newest first.
    fn list(&self, now: UnixMillis, at_most: usize) -> Pending<Vec<ChainHead>>;

    /// What a list says of one of them.
    fn head(&self, now: UnixMillis, number: i64) -> Pending<Option<ChainHead>>;

    /// Shows one of them without copying what may be large. Returns whether there is such a chain.
    fn show(
        &self,
        now: UnixMillis,
        number: i64,
        show: &mut dyn FnMut(ChainView<'_>),
    ) -> Pending<bool>;

    /// A copy of one of them.
    fn find(&self, now: UnixMillis, number: i64) -> Pending<Option<Chain>> {
        let mut found = None;
        let mut copy = |view: ChainView<'_>| {
            found = Some(Chain {
                head: view.head,
                request: view.request.to_vec(),
                outcome: view.outcome.map(<[u8]>::to_vec),
            });
        };
        let shown = self.show(now, number, &mut copy).wait();
        Pending::ready(shown.map(|_| found))
    }

    /// Shows the entries of the journal of a chain, in order and one at a time, until it is enough.
    fn journal(&self, number: i64, show: &mut dyn FnMut(&[u8]) -> ControlFlow<()>) -> Pending<()>;
}

/// What a list says of a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainHead {
    /// Names it.
    pub number: i64,
    /// What its agent calls it; several may have one name.
    pub name: String,
    /// How it stands.
    pub state: ChainState,
    /// When it began.
    pub begun: UnixMillis,
    /// When it ended.
    pub ended: Option<UnixMillis>,
    /// How often it was taken up again.
    pub resumed: u32,
}

/// A chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// How it stands.
    pub head: ChainHead,
    /// What was asked for.
    pub request: Vec<u8>,
    /// What came of it, if it has ended and was not [interrupted](ChainState::Interrupted).
    pub outcome: Option<Vec<u8>>,
}

/// A [`Chain`] that lies in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainView<'s> {
    /// See [`Chain::head`].
    pub head: ChainHead,
    /// See [`Chain::request`].
    pub request: &'s [u8],
    /// See [`Chain::outcome`].
    pub outcome: Option<&'s [u8]>,
}

/// How a chain stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChainState {
    /// It has not ended: it runs, or the process has ended that ran it.
    Open,
    /// All of it was done.
    Done,
    /// Something of it failed.
    Failed,
    /// Nobody wanted it any more.
    Cancelled,
    /// It was open when a backup was made, and the database is that backup: how far it came since is
    /// not known. It has its journal, and no outcome.
    Interrupted,
}

/// Open chains that are found at once.
const MAX_OPEN: usize = 10_000;

const WHAT: &str = "chain";

impl ChainState {
    const fn number(self) -> i64 {
        match self {
            Self::Open => 0,
            Self::Done => 1,
            Self::Failed => 2,
            Self::Cancelled => 3,
            Self::Interrupted => 4,
        }
    }

    const fn from_number(number: i64) -> Self {
        match number {
            0 => Self::Open,
            1 => Self::Done,
            2 => Self::Failed,
            3 => Self::Cancelled,
            _ => Self::Interrupted,
        }
    }
}

fn check(limit: Limit, name: &str, request: &[u8]) -> Result<(), Error> {
    check_name(WHAT, name)?;
    limit.take(WHAT, request.len())
}

/// Up to which number those that have `ended` (number and bytes, the oldest first) go, so that there
/// is room for `more`.
fn room(
    limit: Limit,
    used: Size,
    more: Size,
    ended: impl Iterator<Item = Result<(i64, usize), Error>>,
) -> Result<i64, Error> {
    let (mut size, mut last) = (used.plus(more), 0);
    for oldest in ended {
        if limit.holds(size) {
            break;
        }
        let (number, bytes) = oldest?;
        (size, last) = (size.minus(Size::one(bytes)), number);
    }
    match limit.holds(size) {
        true => Ok(last),
        false => Err(Error::Full { what: WHAT }),
    }
}

/// The agent that a chain belongs to; nobody takes up those of the node itself.
fn agent(owner: &str) -> Option<AgentId> {
    AgentId::new(owner).ok()
}
