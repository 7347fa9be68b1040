//! How many connections there are, in all and of each source.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base::{Class, Limits, Table};
use bytes::Bytes;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::transport::{Answer, Arrived, Oversized, Service};

/// Counts connections. When there are as many as may be, an idle one of the source with the most is
/// closed for a new one.
#[derive(Debug)]
pub(super) struct Admission {
    most_per_source: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// No peer is known before its first message, so all are counted by source.
    connections: Table<IpAddr, u64, Connection>,
    last: u64,
}

#[derive(Debug)]
struct Connection {
    /// Is cancelled when another connection gets the place.
    evicted: CancellationToken,
    /// Is cancelled when the connection has ended.
    closed: CancellationToken,
    /// Messages that are worked on.
    messages: usize,
}

/// A place that is taken until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    admission: Arc<Admission>,
    number: u64,
    /// Is cancelled when another connection gets the place.
    pub(super) evicted: CancellationToken,
    _closed: DropGuard,
}

/// How long to wait until an evicted connection has closed.
const CLOSING: Duration = Duration::from_secs(1);

impl Admission {
    pub(super) fn new(most: usize, most_per_source: usize) -> Arc<Self> {
        let limits = Limits {
            total: most,
            per_holder: most_per_source,
            reserved: 0,
        };
        Arc::new(Self {
            most_per_source,
            state: Mutex::new(State {
                connections: Table::new(limits),
                last: 0,
            }),
        })
    }

    /// A place for a connection, if there is one: its source has fewer than it may have, and there is
    /// room, or an idle connection, which is closed first.
    pub(super) async fn enter(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let (place, evicted) = self.insert(address)?;
        if let Some(evicted) = evicted {
            // So that there are never many more descriptors in use than connections.
            let _ = timeout(CLOSING, evicted.closed.cancelled()).await;
        }
        Some(place)
    }

    fn insert(self: &Arc<Self>, address: IpAddr) -> Option<(Place, Option<Connection>)> {
        let source = source(address);
        let mut state = self.lock();
        if state.connections.held(&source, Class::Stranger) >= self.most_per_source {
            return None;
        }
        state.last = state.last.saturating_add(1);
        let number = state.last;
        let (evicted, closed) = (CancellationToken::new(), CancellationToken::new());
        let connection = Connection {
            evicted: evicted.clone(),
            closed: closed.clone(),
            messages: 0,
        };
        let connections = &mut state.connections;
        let inserted = connections.insert(source, Class::Stranger, number, connection);
        let replaced = inserted.ok()?.map(|(_, replaced)| replaced);
        if let Some(replaced) = &replaced {
            replaced.evicted.cancel();
        }
        let place = Place {
            admission: Arc::clone(self),
            number,
            evicted,
            _closed: closed.drop_guard(),
        };
        Some((place, replaced))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Counts a message that is worked on, until the guard is dropped.
    fn work(self: &Arc<Self>) -> Working {
        self.change(|messages| messages.saturating_add(1));
        Working(Arc::clone(self))
    }

    fn change(&self, change: impl FnOnce(usize) -> usize) {
        let mut state = self.admission.lock();
        let Some(connection) = state.connections.get_mut(&self.number) else {
            return;
        };
        connection.messages = change(connection.messages);
        let is_idle = connection.messages == 0;
        state.connections.touch(&self.number);
        state.connections.set_in_use(&self.number, !is_idle);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.admission.lock().connections.remove(&self.number);
    }
}

/// A connection that is worked for.
struct Working(Arc<Place>);

impl Drop for Working {
    fn drop(&mut self) {
        self.0.change(|messages| messages.saturating_sub(1));
    }
}

/// The service of one connection, which is in use while a message is worked on.
pub(super) struct Tracked<S> {
    pub(super) service: Arc<S>,
    pub(super) place: Arc<Place>,
}

impl<S: Service> Service for Tracked<S> {
    async fn handle(&self, arrived: Arrived) -> Answer {
        let _working = self.place.work();
        self.service.handle(arrived).await
    }

    async fn refuse_oversized(&self, oversized: Oversized) -> Answer {
        self.service.refuse_oversized(oversized).await
    }

    fn document(&self, name: &str) -> Option<Bytes> {
        self.service.document(name)
    }

    fn request_bytes(&self) -> usize {
        self.service.request_bytes()
    }
}

/// What is counted as one: an IPv4 address, or the /64 that one customer has of IPv6.
fn source(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enter(admission: &Arc<Admission>, address: &str) -> Option<Place> {
        let (place, _) = admission.insert(address.parse().unwrap())?;
        Some(place)
    }

    #[test]
    fn a_source_is_an_address_or_a_64() {
        let admission = Admission::new(1000, 2);
        let _one = enter(&admission, "2001:db8::1").unwrap();
        let two = enter(&admission, "2001:db8::ffff:1").unwrap();
        assert!(enter(&admission, "2001:db8::2").is_none());
        assert!(enter(&admission, "2001:db8:0:1::2").is_some());
        drop(two);
        assert!(enter(&admission, "2001:db8::2").is_some());
        let _one = enter(&admission, "192.0.2.1").unwrap();
        let _two = enter(&admission, "::ffff:192.0.2.1").unwrap();
        assert!(enter(&admission, "192.0.2.1").is_none());
        assert!(enter(&admission, "192.0.2.2").is_some());
    }

    #[test]
    fn there_is_an_end_to_all_of_them_and_nothing_is_left_behind() {
        let admission = Admission::new(3, 2);
        let sources = ["192.0.2.1", "192.0.2.1", "192.0.2.2"];
        let places = sources.map(|source| Arc::new(enter(&admission, source).unwrap()));
        let working: Vec<_> = places.iter().map(Place::work).collect();
        assert!(enter(&admission, "192.0.2.3").is_none(), "all are in use");
        drop((working, places));
        assert!(admission.lock().connections.is_empty());
    }

    #[test]
    fn an_idle_connection_of_the_source_with_the_most_gives_way() {
        let admission = Admission::new(4, 3);
        let flood: Vec<_> = (0..3)
            .map(|_| Arc::new(enter(&admission, "192.0.2.1").unwrap()))
            .collect();
        let other = enter(&admission, "192.0.2.2").unwrap();
        assert!(enter(&admission, "192.0.2.1").is_none(), "its share");
        // The first is in use, and the second was used last.
        let _working = flood[0].work();
        drop(flood[1].work());
        let new = enter(&admission, "192.0.2.3").unwrap();
        let closed = |place: &Place| place.evicted.is_cancelled();
        assert_eq!(
            flood.iter().map(|it| closed(it)).collect::<Vec<_>>(),
            [false, false, true]
        );
        assert!(!closed(&other) && !closed(&new));
        // What was closed gives no place back that is another's now.
        drop(flood);
        assert_eq!(admission.lock().connections.len(), 3);
    }
}
