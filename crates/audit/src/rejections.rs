//! Rejections of peers that nobody knows, several in one record (profile §13): whoever can make a
//! node write records without being known to it must not be able to fill its disk.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

use crate::{Body, Event, Record, UnixMillis, Verdict};

/// Counts rejections by source and minute. At most [`Rejections::MAX_SOURCES`] sources are told
/// apart in a minute; the rest is counted together.
#[derive(Debug, Default)]
pub struct Rejections {
    minute: i64,
    counts: BTreeMap<Key, u64>,
}

/// Where they came from, whose they are, and why.
type Key = (Option<IpAddr>, Option<String>, &'static str);

/// Rejections of one source for one reason in one minute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// Where they came from (of IPv6 the network); `None` for those that are not told apart.
    pub source: Option<IpAddr>,
    /// Whose they are, of agents that are known.
    pub agent: Option<String>,
    /// Why.
    pub reason: &'static str,
    /// How many.
    pub count: u64,
}

impl Rejections {
    /// Sources and reasons that are told apart in one minute.
    pub const MAX_SOURCES: usize = 256;

    /// Counts one; returns what is to be put on record of the minute before.
    #[must_use = "these are to be put on record"]
    pub fn note(
        &mut self,
        now: UnixMillis,
        source: Option<IpAddr>,
        agent: Option<&str>,
        reason: &'static str,
    ) -> Vec<Rejected> {
        let minute = now.seconds().div_euclid(60);
        let finished = match minute == self.minute {
            true => Vec::new(),
            false => self.take(),
        };
        self.minute = minute;
        let mut key = (source.map(network), agent.map(str::to_owned), reason);
        if self.counts.len() >= Self::MAX_SOURCES && !self.counts.contains_key(&key) {
            key = (None, None, "many_sources");
        }
        *self.counts.entry(key).or_default() += 1;
        finished
    }

    /// What is to be put on record of a minute that is over, if nothing came since.
    #[must_use = "these are to be put on record"]
    pub fn finished(&mut self, now: UnixMillis) -> Vec<Rejected> {
        match now.seconds().div_euclid(60) == self.minute {
            true => Vec::new(),
            false => self.take(),
        }
    }

    /// What is to be put on record at the end.
    #[must_use = "these are to be put on record"]
    pub fn take(&mut self) -> Vec<Rejected> {
        let counts = std::mem::take(&mut self.counts).into_iter();
        counts
            .map(|((source, agent, reason), count)| Rejected {
                source,
                agent,
                reason,
                count,
            })
            .collect()
    }
}

impl Rejected {
    /// The record of it.
    #[must_use]
    pub fn record(&self) -> Record<'_> {
        Record {
            event: Event::Rejections,
            body: Body {
                agent: self.agent.as_deref(),
                count: Some(self.count),
                reason: Some(self.reason),
                remote_ip: self.source,
                result: Some(Verdict::Rejected),
                ..Body::default()
            },
        }
    }
}

/// Whoever has one IPv6 address has 2^64 of them.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const NOW: UnixMillis = UnixMillis(1_770_000_000_000);

    #[test]
    fn threat_143_rejections_are_counted_by_source_and_minute() {
        let mut rejections = Rejections::default();
        let address = |text: &str| Some(text.parse().unwrap());
        for _ in 0..100_000 {
            let minute = rejections.note(NOW, address("192.0.2.1"), None, "bad_signature");
            assert_eq!(minute, []);
        }
        for host in ["2001:db8::1", "2001:db8::ffff:1", "2001:db8:0:1::1"] {
            assert_eq!(rejections.note(NOW, address(host), None, "flood"), []);
        }
        let finished = rejections.note(UnixMillis(NOW.0 + 60_000), None, None, "flood");
        let counts: Vec<_> = finished.iter().map(|all| (all.source, all.count)).collect();
        let expected = [
            (address("192.0.2.1"), 100_000),
            (address("2001:db8::"), 2),
            (address("2001:db8:0:1::"), 1),
        ];
        assert_eq!(counts, expected);
        assert_eq!(rejections.finished(UnixMillis(NOW.0 + 61_000)), []);
        assert_eq!(rejections.finished(UnixMillis(NOW.0 + 120_000)).len(), 1);
        assert_eq!(rejections.take(), []);
    }

    #[test]
    fn threat_143_many_sources_grow_no_table() {
        let mut rejections = Rejections::default();
        for number in 0..100_000 {
            let source = IpAddr::from(Ipv4Addr::from_bits(number));
            assert_eq!(rejections.note(NOW, Some(source), None, "flood"), []);
            assert!(rejections.counts.len() <= Rejections::MAX_SOURCES + 1);
        }
        let all = rejections.take();
        assert_eq!(all.len(), Rejections::MAX_SOURCES + 1);
        assert_eq!(all.iter().map(|all| all.count).sum::<u64>(), 100_000);
    }
}
