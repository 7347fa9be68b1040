//! How many connections there are, in all and of each source.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Counts connections.
#[derive(Debug)]
pub(super) struct Admission {
    most: usize,
    most_per_source: usize,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    all: usize,
    by_source: HashMap<IpAddr, usize>,
}

/// A place that is taken until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    admission: Arc<Admission>,
    source: IpAddr,
}

impl Admission {
    pub(super) fn new(most: usize, most_per_source: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            most_per_source,
            counts: Mutex::default(),
        })
    }

    /// A place for a connection, if there is one.
    pub(super) fn enter(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let source = source(address);
        let mut counts = self.lock();
        let of_source = counts.by_source.get(&source).copied().unwrap_or_default();
        if counts.all >= self.most || of_source >= self.most_per_source {
            return None;
        }
        counts.all = counts.all.saturating_add(1);
        counts.by_source.insert(source, of_source.saturating_add(1));
        Some(Place {
            admission: Arc::clone(self),
            source,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.admission.lock();
        counts.all = counts.all.saturating_sub(1);
        if let Some(count) = counts.by_source.get_mut(&self.source) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                counts.by_source.remove(&self.source);
            }
        }
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

    fn at(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_source_is_an_address_or_a_64() {
        let admission = Admission::new(1000, 2);
        let _one = admission.enter(at("2001:db8::1")).unwrap();
        let two = admission.enter(at("2001:db8::ffff:1")).unwrap();
        assert!(admission.enter(at("2001:db8::2")).is_none());
        assert!(admission.enter(at("2001:db8:0:1::2")).is_some());
        drop(two);
        assert!(admission.enter(at("2001:db8::2")).is_some());
        let _one = admission.enter(at("192.0.2.1")).unwrap();
        let _two = admission.enter(at("::ffff:192.0.2.1")).unwrap();
        assert!(admission.enter(at("192.0.2.1")).is_none());
        assert!(admission.enter(at("192.0.2.2")).is_some());
    }

    #[test]
    fn there_is_an_end_to_all_of_them_and_nothing_is_left_behind() {
        let admission = Admission::new(3, 2);
        let sources = ["192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.3"];
        let places = sources.map(|source| admission.enter(at(source)));
        assert_eq!(places.iter().flatten().count(), 3);
        drop(places);
        assert_eq!(admission.lock().all, 0);
        assert!(admission.lock().by_source.is_empty());
    }
}
