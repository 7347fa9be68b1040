//! The connections of all listeners of a host. There are no more than the descriptors of the process
//! allow; in a full table one whose agent is not known yet gives way to a new one.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use base::{Class, Exceeded, Limits, Table};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::{CancellationToken, DropGuard, WaitForCancellationFutureOwned};

use crate::auth::{Counted, Source};

/// Connections beyond those of sessions: requests over HTTP, health checks, pages.
pub const EXTRA_CONNECTIONS: usize = 1024;

/// How long to wait for an evicted connection to close.
const CLOSING: Duration = Duration::from_secs(1);

/// Counts connections. Cheap to clone; all clones count together.
#[derive(Debug, Clone)]
pub(crate) struct Connections(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    table: Table<Holder, u64, Entry>,
    last: u64,
}

/// For whom a connection is counted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Holder {
    /// Its agent is not known yet.
    Source(Counted),
    Agent(String),
}

#[derive(Debug)]
struct Entry {
    /// Is cancelled when the connection gives way to another.
    evicted: CancellationToken,
    /// Is cancelled when the connection is closed.
    closed: CancellationToken,
}

/// The slot of a connection, which is counted until this is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    connections: Connections,
    number: u64,
    evicted: CancellationToken,
    _closed: DropGuard,
}

/// A connection that fails when it is evicted.
#[derive(Debug)]
pub(crate) struct Evictable<S> {
    stream: S,
    evicted: Pin<Box<WaitForCancellationFutureOwned>>,
    _slot: Arc<ConnectionSlot>,
}

impl Connections {
    /// At most so many at once. One agent, or one source of connections without agents, leaves a part
    /// of them to others: half of them, or [`EXTRA_CONNECTIONS`] of many.
    pub(crate) fn new(most: usize) -> Self {
        let limits = Limits {
            total: most,
            per_holder: most.saturating_sub(EXTRA_CONNECTIONS).max(most / 2).max(1),
            reserved: 0,
        };
        Self(Arc::new(Mutex::new(State {
            table: Table::new(limits),
            last: 0,
        })))
    }

    /// A slot for a new connection. In a full table it waits until an evicted connection has closed.
    pub(crate) async fn admit(&self, source: Source) -> Option<Arc<ConnectionSlot>> {
        let (slot, evicted) = self.insert(source)?;
        if let Some(evicted) = evicted {
            // One that does not close in time is closed later; the next connection waits for another.
            let _ = tokio::time::timeout(CLOSING, evicted.closed.cancelled()).await;
        }
        Some(slot)
    }

    /// Evicts a connection whose agent is not known: there is no descriptor left for something else.
    pub(crate) fn evict_silent(&self) {
        let nobody = Holder::Source(Counted::Loopback);
        let mut state = self.0.lock();
        let evicted = (state.table).evict(&nobody, Class::Stranger, Exceeded::Total);
        drop(state);
        evict(evicted);
    }

    fn insert(&self, source: Source) -> Option<(Arc<ConnectionSlot>, Option<Entry>)> {
        // What belongs to this process has no listener.
        let holder = Holder::Source(Counted::of(source).unwrap_or(Counted::Loopback));
        let (evicted, closed) = (CancellationToken::new(), CancellationToken::new());
        let mut state = self.0.lock();
        state.last = state.last.saturating_add(1);
        let number = state.last;
        let entry = Entry {
            evicted: evicted.clone(),
            closed: closed.clone(),
        };
        let replaced = (state.table).insert(holder, Class::Stranger, number, entry);
        drop(state);
        let replaced = evict(replaced.ok()?);
        let slot = ConnectionSlot {
            connections: self.clone(),
            number,
            evicted,
            _closed: closed.drop_guard(),
        };
        Some((Arc::new(slot), replaced))
    }

    /// Counts a connection for its agent. Past its share the agent's oldest connection is closed.
    fn assign(&self, number: u64, agent: &str) {
        let mut state = self.0.lock();
        let Some(entry) = state.table.remove(&number) else {
            return;
        };
        let holder = Holder::Agent(agent.to_owned());
        let replaced = (state.table).insert(holder, Class::Known, number, entry);
        drop(state);
        evict(replaced.unwrap_or_default());
    }
}

/// Tells an evicted connection to close.
fn evict(evicted: Option<(u64, Entry)>) -> Option<Entry> {
    let (_, entry) = evicted?;
    entry.evicted.cancel();
    Some(entry)
}

impl ConnectionSlot {
    /// The connection's agent is known: it gives way to no stranger any more.
    pub(crate) fn assign(&self, agent: &str) {
        self.connections.assign(self.number, agent);
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.connections.0.lock().table.remove(&self.number);
    }
}

impl<S> Evictable<S> {
    /// The connection, which has the slot, and the slot for what gets to know its agent.
    pub(crate) fn new(stream: S, slot: Arc<ConnectionSlot>) -> (Self, Weak<ConnectionSlot>) {
        let weak = Arc::downgrade(&slot);
        let evicted = Box::pin(slot.evicted.clone().cancelled_owned());
        let this = Self {
            stream,
            evicted,
            _slot: slot,
        };
        (this, weak)
    }

    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        match self.evicted.as_mut().poll(cx) {
            Poll::Ready(()) => Err(io::ErrorKind::ConnectionAborted.into()),
            Poll::Pending => Ok(()),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Evictable<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Evictable<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(address: &str) -> Source {
        Source::Address(address.parse().unwrap())
    }

    fn is_evicted(slot: &ConnectionSlot) -> bool {
        slot.evicted.is_cancelled()
    }

    /// Silent connections give way to one another, never one whose agent is known.
    #[test]
    fn silent_connections_give_way_and_those_of_agents_stay() {
        let connections = Connections::new(4);
        let admit = |address: &str| connections.insert(from(address)).map(|(slot, _)| slot);
        let known = admit("192.0.2.9").unwrap();
        known.assign("ada");
        let silent: Vec<_> = (0..9).map(|_| admit("192.0.2.1").unwrap()).collect();
        assert!(!is_evicted(&known));
        let left = silent.iter().filter(|slot| !is_evicted(slot)).count();
        assert_eq!(left, 2, "half of the table");
        let other = admit("192.0.2.2").unwrap();
        let new = admit("192.0.2.3").unwrap();
        assert!(!is_evicted(&other) && !is_evicted(&new) && !is_evicted(&known));
        drop((silent, other, new));
        assert_eq!(connections.0.lock().table.len(), 1);
    }

    #[test]
    fn an_agent_past_its_share_loses_its_own_oldest_connection() {
        let connections = Connections::new(4);
        let admit = || connections.insert(from("192.0.2.1")).unwrap().0;
        let other = admit();
        other.assign("bob");
        let own: Vec<_> = (0..5)
            .map(|_| {
                let slot = admit();
                slot.assign("ada");
                slot
            })
            .collect();
        let evicted: Vec<_> = own.iter().map(|slot| is_evicted(slot)).collect();
        assert_eq!(evicted, [true, true, true, false, false]);
        assert!(!is_evicted(&other));
    }

    #[test]
    fn a_table_full_of_agents_refuses() {
        let connections = Connections::new(2);
        let admit = || connections.insert(from("192.0.2.1"));
        let slots = ["ada", "bob"].map(|agent| {
            let (slot, _) = admit().unwrap();
            slot.assign(agent);
            slot
        });
        assert!(admit().is_none());
        drop(slots);
        assert!(admit().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn an_evicted_connection_fails_and_is_waited_for() {
        use tokio::io::AsyncReadExt;
        let connections = Connections::new(1);
        let slot = connections.admit(from("192.0.2.1")).await.unwrap();
        let (ours, _theirs) = tokio::io::duplex(64);
        let (mut stream, _) = Evictable::new(ours, slot);
        let reads = tokio::spawn(async move { stream.read_u8().await });
        let _new = connections.admit(from("192.0.2.2")).await.unwrap();
        assert!(reads.is_finished(), "before the new one begins");
        let error = reads.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted);
    }
}
