//! The connections of all listeners of a host. There are no more than the descriptors of the process
//! allow.
//!
//! Those whose agents are not known yet have what agents do not need, and a part in any case: there they
//! give way to one another, so that a new one always gets in. Those of agents have the rest, of which a
//! part is reserved for the operator's own commands.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use base::{Class, Exceeded, Limits, LogLimit, Table};
use parking_lot::Mutex;
use tokio_util::sync::{CancellationToken, DropGuard, WaitForCancellationFutureOwned};

use crate::auth::{Counted, Source};
use crate::slots::{Holder, class_of, reserved};

/// Connections beyond those of sessions: requests over HTTP, health checks, pages.
pub const EXTRA_CONNECTIONS: usize = 1024;

/// How long to wait for an evicted connection to close.
const CLOSING: Duration = Duration::from_secs(1);

/// Connections of agents that are closed since there are too many.
static CLOSED: LogLimit = LogLimit::new(1, Duration::from_secs(10));

/// Counts connections. Cheap to clone; all clones count together.
#[derive(Debug, Clone)]
pub(crate) struct Connections(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    /// Those whose agents are not known yet, by source.
    sources: Table<Holder, u64, Entry>,
    agents: Table<Holder, u64, Entry>,
    most: usize,
    last: u64,
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
    /// Is cancelled when the connection is closed that gave way to this one.
    replaced: Option<CancellationToken>,
    _closed: DropGuard,
}

/// The slot of a link's connection, if a listener has accepted it.
#[derive(Debug)]
pub(crate) struct LinkSlot(
    Option<(
        Arc<ConnectionSlot>,
        Pin<Box<WaitForCancellationFutureOwned>>,
    )>,
);

/// The limits of connections of which one holder leaves a part to others: half, or all but
/// [`EXTRA_CONNECTIONS`] of many.
fn limits(most: usize, total: usize, reserved: usize) -> Limits {
    Limits {
        total,
        per_holder: most.saturating_sub(EXTRA_CONNECTIONS).max(most / 2).max(1),
        reserved,
    }
}

impl Connections {
    /// At most so many at once.
    pub(crate) fn new(most: usize) -> Self {
        let most = most.max(2);
        let spare = EXTRA_CONNECTIONS.min(most / 4).max(1);
        let of_agents = most.saturating_sub(spare);
        Self(Arc::new(Mutex::new(State {
            sources: Table::new(limits(most, most, 0)),
            agents: Table::new(limits(most, of_agents, reserved(of_agents))),
            most,
            last: 0,
        })))
    }

    /// A slot for a new connection, which another one may have to give way to.
    pub(crate) fn admit(&self, source: Source) -> Option<Arc<ConnectionSlot>> {
        let holder = Holder::Source(Counted::of(source));
        let (evicted, closed) = (CancellationToken::new(), CancellationToken::new());
        let mut state = self.0.lock();
        state.last = state.last.saturating_add(1);
        let number = state.last;
        let entry = Entry {
            evicted: evicted.clone(),
            closed: closed.clone(),
        };
        let free = state.most.saturating_sub(state.agents.len());
        let limits = limits(state.most, free, 0);
        state.sources.set_limits(limits);
        let replaced = (state.sources).insert(holder, class_of(source), number, entry);
        drop(state);
        let replaced = evict(replaced.ok()?);
        Some(Arc::new(ConnectionSlot {
            connections: self.clone(),
            number,
            evicted,
            replaced,
            _closed: closed.drop_guard(),
        }))
    }

    /// Evicts a connection whose agent is not known: there is no descriptor left for something else.
    pub(crate) fn evict_silent(&self) {
        let nobody = Holder::Source(None);
        let evicted = (self.0.lock().sources).evict(&nobody, Class::Stranger, Exceeded::Total);
        evict(evicted);
    }

    /// Counts a connection for its agent. Past its share the agent's oldest connection is closed. When the
    /// agents have all that they may have, the oldest of the agent with the most is, or this one if no
    /// other agent has more.
    fn assign(&self, number: u64, agent: &Holder, class: Class) {
        let mut state = self.0.lock();
        let entry = state.sources.remove(&number);
        let Some(entry) = entry.or_else(|| state.agents.remove(&number)) else {
            return;
        };
        let own = state.agents.held(agent, class).saturating_add(1);
        let is_full = state.agents.check(agent, class) == Err(Exceeded::Total);
        let evicted = entry.evicted.clone();
        let inserted = match is_full
            && class == Class::Stranger
            && state.agents.most_evictable(class) <= own
        {
            true => Err(Exceeded::Total),
            false => state.agents.insert(agent.clone(), class, number, entry),
        };
        drop(state);
        match inserted {
            Ok(replaced) => {
                evict(replaced);
            }
            Err(_) => {
                evicted.cancel();
                if let Some(more) = CLOSED.admit(Instant::now()) {
                    tracing::warn!(%agent, "closed a connection: agents have as many as they may{more}");
                }
            }
        }
    }
}

/// Tells an evicted connection to close; returns what is cancelled when it has.
fn evict(evicted: Option<(u64, Entry)>) -> Option<CancellationToken> {
    let (_, entry) = evicted?;
    entry.evicted.cancel();
    Some(entry.closed)
}

impl ConnectionSlot {
    /// The connection's agent is known: it gives way to no stranger any more.
    pub(crate) fn assign(&self, agent: &Holder, class: Class) {
        self.connections.assign(self.number, agent, class);
    }

    /// Serves the connection until it is evicted, once the one that gave way to it is closed, so that
    /// there are never many more descriptors in use than connections.
    pub(crate) async fn serve<T>(&self, served: impl Future<Output = T>) -> Option<T> {
        let served = async {
            if let Some(replaced) = &self.replaced {
                let _ = tokio::time::timeout(CLOSING, replaced.cancelled()).await;
            }
            served.await
        };
        tokio::select! {
            biased;
            () = self.evicted.cancelled() => None,
            served = served => Some(served),
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut state = self.connections.0.lock();
        state.sources.remove(&self.number);
        state.agents.remove(&self.number);
    }
}

impl LinkSlot {
    pub(crate) fn new(slot: Option<Arc<ConnectionSlot>>) -> Self {
        Self(slot.map(|slot| {
            let evicted = Box::pin(slot.evicted.clone().cancelled_owned());
            (slot, evicted)
        }))
    }

    /// The agent of the link is known.
    pub(crate) fn assign(&self, agent: &Holder, class: Class) {
        if let Some((slot, _)) = &self.0 {
            slot.assign(agent, class);
        }
    }

    /// Waits until the connection has to give way to another.
    pub(crate) fn poll_evicted(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.0 {
            Some((_, evicted)) => evicted.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Identity;
    use crate::tokens::DEFAULT_AGENT;

    fn from(address: &str) -> Source {
        Source::Address(address.parse().unwrap())
    }

    fn assign(slot: &ConnectionSlot, agent: &str) {
        let (holder, class) = Holder::of(&Identity::named(agent), from("192.0.2.1"), true);
        slot.assign(&holder, class);
    }

    /// A connection of an agent.
    fn connect(connections: &Connections, agent: &str) -> Arc<ConnectionSlot> {
        let slot = connections.admit(from("192.0.2.1")).unwrap();
        assign(&slot, agent);
        slot
    }

    fn is_evicted(slot: &ConnectionSlot) -> bool {
        slot.evicted.is_cancelled()
    }

    fn evicted<const N: usize>(slots: [&ConnectionSlot; N]) -> [bool; N] {
        slots.map(is_evicted)
    }

    /// Silent connections give way to one another, never one whose agent is known.
    #[test]
    fn silent_connections_give_way_and_those_of_agents_stay() {
        let connections = Connections::new(4);
        let admit = |address: &str| connections.admit(from(address)).unwrap();
        let known = connect(&connections, "ada");
        let silent: Vec<_> = (0..9).map(|_| admit("192.0.2.1")).collect();
        assert!(!is_evicted(&known));
        let left = silent.iter().filter(|slot| !is_evicted(slot)).count();
        assert_eq!(left, 2, "half of the table");
        let other = admit("192.0.2.2");
        let new = admit("192.0.2.3");
        assert_eq!(evicted([&other, &new, &known]), [false; 3]);
        drop((silent, other, new));
        let state = connections.0.lock();
        assert_eq!((state.sources.len(), state.agents.len()), (0, 1));
    }

    #[test]
    fn an_agent_past_its_share_loses_its_own_oldest_connection() {
        let connections = Connections::new(4);
        let other = connect(&connections, "bob");
        let own = [(); 5].map(|()| connect(&connections, "ada"));
        let own = own.each_ref().map(|slot| is_evicted(slot));
        assert_eq!(own, [true, true, true, false, false]);
        assert!(!is_evicted(&other));
    }

    /// A token is not the DID of the same text: neither loses connections to the other.
    #[test]
    fn agents_are_told_apart_by_more_than_their_names() {
        let connections = Connections::new(16);
        let token = [(); 4].map(|()| connect(&connections, "did:key:z6Mk"));
        let trust = policy::TrustLevel::Own;
        let proven = Identity::proven("did:key:z6Mk", "did:key:z6Mk", trust);
        let proven = [(); 5].map(|()| {
            let slot = connections.admit(from("192.0.2.1")).unwrap();
            let (holder, class) = Holder::of(&proven, from("192.0.2.1"), true);
            slot.assign(&holder, class);
            slot
        });
        let all = token.iter().chain(&proven);
        assert_eq!(all.filter(|slot| is_evicted(slot)).count(), 0);
    }

    /// In a table that agents have filled a new connection gets in, and becomes that of an agent if
    /// another one has more.
    #[test]
    fn the_agent_with_the_most_connections_gives_way_to_others() {
        let connections = Connections::new(4);
        let ada = [(); 2].map(|()| connect(&connections, "ada"));
        let bob = connect(&connections, "bob");
        let new = connect(&connections, "eve");
        assert_eq!(
            evicted([&ada[0], &ada[1], &bob, &new]),
            [true, false, false, false]
        );
        let one_too_many = connect(&connections, "joe");
        assert_eq!(
            evicted([&ada[1], &bob, &new, &one_too_many]),
            [false, false, false, true]
        );
    }

    /// At what is reserved and past it: agents have twelve of sixteen, of which three are the operator's.
    #[test]
    fn what_is_reserved_is_the_operators() {
        let connections = Connections::new(16);
        let own = Source::User(rustix::process::getuid().as_raw());
        let ada: Vec<_> = (0..5).map(|_| connect(&connections, "ada")).collect();
        let bob: Vec<_> = (0..4).map(|_| connect(&connections, "bob")).collect();
        let silent: Vec<_> = (0..99)
            .map(|number| {
                connections
                    .admit(from(&format!("192.0.2.{number}")))
                    .unwrap()
            })
            .collect();
        let operate = |agent: &str| {
            let slot = connections.admit(own).unwrap();
            let (holder, class) = Holder::of(&Identity::named(agent), own, true);
            slot.assign(&holder, class);
            slot
        };
        let operator: Vec<_> = (0..3).map(|_| operate(DEFAULT_AGENT)).collect();
        let agents = || ada.iter().chain(&bob);
        assert!(!operator.iter().chain(agents()).any(|slot| is_evicted(slot)));
        // Not another agent's, wherever it comes from.
        let _other = operate("eve");
        assert!(is_evicted(&ada[0]) && !operator.iter().any(|slot| is_evicted(slot)));
        let more = operate(DEFAULT_AGENT);
        assert_eq!(agents().filter(|slot| is_evicted(slot)).count(), 2);
        assert!(!is_evicted(&more));
        drop(silent);
    }

    #[tokio::test(start_paused = true)]
    async fn an_evicted_connection_ends_and_is_waited_for() {
        let connections = Connections::new(2);
        let slot = connections.admit(from("192.0.2.1")).unwrap();
        let served = tokio::spawn(async move { slot.serve(std::future::pending::<()>()).await });
        let _other = connections.admit(from("192.0.2.2")).unwrap();
        let new = connections.admit(from("192.0.2.3")).unwrap();
        let is_finished = new.serve(async { served.is_finished() }).await;
        assert_eq!(is_finished, Some(true), "before the new one begins");
        assert_eq!(served.await.unwrap(), None);
    }
}
