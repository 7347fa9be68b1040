//! The requests of a session that are running.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use a2a_wire::{Count, Digest, RequestId, StreamChain, StreamEnd};
use canonical::Value;
use policy::IntentName;

use super::record::Record;

/// Names a running request of a session, towards whoever works on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(u64);

impl Token {
    /// That of a request which has not begun.
    pub(crate) const NONE: Self = Self(0);
}

/// A request that is running.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) request_id: RequestId,
    pub(crate) request_hash: Digest,
    pub(crate) deadline: Duration,
    pub(crate) stream: Option<Stream>,
    /// Whether it may go on when nobody waits for its answer.
    pub(crate) has_name: bool,
    /// What was asked for, and who serves it.
    pub(crate) requested: IntentName,
    pub(crate) handler: IntentName,
    pub(crate) record: Box<Record>,
}

/// The parts of an answer so far.
#[derive(Debug)]
pub(crate) struct Stream {
    chain: StreamChain,
    chunks: u64,
    /// Bytes of the parts in canonical form, as far as they are counted.
    pub(crate) bytes: usize,
}

/// The running requests: each by its token, by its id, and by its deadline.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    running: BTreeMap<Token, Running>,
    by_id: BTreeMap<RequestId, Token>,
    deadlines: BTreeSet<(Duration, Token)>,
    last: u64,
}

impl Stream {
    pub(crate) fn new(request_hash: &Digest) -> Self {
        Self {
            chain: StreamChain::new(request_hash),
            chunks: 0,
            bytes: 0,
        }
    }

    /// Takes a part in; returns its number and the chain after it.
    pub(crate) fn add(&mut self, data: &Value<'_>) -> Option<(Count, Digest)> {
        let index = Count::new(self.chunks)?;
        self.chunks = self.chunks.saturating_add(1);
        self.chain.add(data);
        Some((index, *self.chain.state()))
    }

    /// What [`Stream::add`] would return.
    pub(crate) fn peek(&self, data: &Value<'_>) -> Option<(Count, Digest)> {
        let mut chain = self.chain.clone();
        chain.add(data);
        Some((Count::new(self.chunks)?, *chain.state()))
    }

    pub(crate) fn end(&self) -> Option<StreamEnd> {
        Some(StreamEnd {
            chunks: Count::new(self.chunks)?,
            chain: *self.chain.state(),
        })
    }
}

impl Requests {
    pub(crate) fn insert(&mut self, request: Running) -> Token {
        self.last = self.last.saturating_add(1);
        let token = Token(self.last);
        self.by_id.insert(request.request_id.clone(), token);
        self.deadlines.insert((request.deadline, token));
        self.running.insert(token, request);
        token
    }

    pub(crate) fn remove(&mut self, token: Token) -> Option<Running> {
        let request = self.running.remove(&token)?;
        self.by_id.remove(&request.request_id);
        self.deadlines.remove(&(request.deadline, token));
        if self.running.is_empty() {
            // Each map keeps its last node, with room for eleven, and most sessions are at rest.
            *self = Self {
                last: self.last,
                ..Self::default()
            };
        }
        Some(request)
    }

    pub(crate) fn get_mut(&mut self, token: Token) -> Option<&mut Running> {
        self.running.get_mut(&token)
    }

    pub(crate) fn get(&self, token: Token) -> Option<&Running> {
        self.running.get(&token)
    }

    pub(crate) fn find(&self, request_id: &str) -> Option<Token> {
        let request_id: RequestId = request_id.parse().ok()?;
        self.by_id.get(&request_id).copied()
    }

    /// One whose time is up.
    pub(crate) fn overdue(&self, now: Duration) -> Option<Token> {
        let (deadline, token) = self.deadlines.first()?;
        (now >= *deadline).then_some(*token)
    }

    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    pub(crate) fn first(&self) -> Option<Token> {
        self.running.keys().next().copied()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (Token, &Running)> {
        self.running
            .iter()
            .map(|(token, running)| (*token, running))
    }

    pub(crate) fn len(&self) -> usize {
        self.running.len()
    }
}
