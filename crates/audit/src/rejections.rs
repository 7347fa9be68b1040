//! Rejections of peers that nobody knows, several in one record (profile §13): whoever can make a
//! node write records without being known to it must not be able to fill its disk.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::{Body, Event, Record, UnixMillis, Verdict};

/// Counts rejections by source and minute. At most [`Rejections::MAX_ENTRIES`] entries are counted
/// apart in a minute. When there are more, the source with the most entries has one left for all it
/// does, or the network with the most sources one for all of them. So whoever fills the table loses
/// its own detail, and what others do is still told apart.
#[derive(Debug, Default)]
pub struct Rejections {
    minute: i64,
    counts: BTreeMap<Key, u64>,
    /// No two entries have a source or a network in common, and there is no room for another.
    is_full: bool,
}

/// Where they came from, whose they are, and why.
type Key = (Option<IpAddr>, Option<String>, &'static str);

/// The reason of an entry for all that one source does.
const SEVERAL_REASONS: &str = "several_reasons";
/// The reason of an entry for all sources of a network, or for all that remain.
const MANY_SOURCES: &str = "many_sources";

/// Rejections of one source for one reason in one minute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// Where they came from (of IPv6 the network of 64 bits; of many sources their network, see
    /// [`Rejections`]); `None` for those that are not told apart.
    pub source: Option<IpAddr>,
    /// Whose they are, of agents that are known.
    pub agent: Option<String>,
    /// Why.
    pub reason: &'static str,
    /// How many.
    pub count: u64,
}

impl Rejections {
    /// Entries of one minute.
    pub const MAX_ENTRIES: usize = 256;

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
        let source = source.map(network);
        let mut key = self.key_of(source, agent, reason);
        if self.counts.len() >= Self::MAX_ENTRIES && !self.counts.contains_key(&key) {
            self.is_full = self.is_full || !self.merge();
            key = match self.is_full {
                true => (None, None, MANY_SOURCES),
                false => self.key_of(source, agent, reason),
            };
        }
        *self.counts.entry(key).or_default() += 1;
        finished
    }

    /// What one is counted as: by itself, unless its network or its source has one entry for all.
    fn key_of(&self, source: Option<IpAddr>, agent: Option<&str>, reason: &'static str) -> Key {
        let merged = [in_network(source), Some(of_source(source))];
        let is_counted = |key: &Key| self.counts.contains_key(key);
        let merged = merged.into_iter().flatten().find(is_counted);
        merged.unwrap_or_else(|| (source, agent.map(str::to_owned), reason))
    }

    /// Merges the entries of the source that has most, or the sources of the network that has most;
    /// says whether there was anything to merge.
    fn merge(&mut self) -> bool {
        let sources: BTreeSet<_> = self.counts.keys().map(|key| key.0).collect();
        let networks = sources.into_iter().filter_map(in_network);
        let mut sizes = BTreeMap::<Key, usize>::new();
        for key in self
            .counts
            .keys()
            .map(|key| of_source(key.0))
            .chain(networks)
        {
            *sizes.entry(key).or_default() += 1;
        }
        let largest = sizes
            .into_iter()
            .max_by_key(|(key, size)| (*size, key.2 == SEVERAL_REASONS));
        let Some((merged, 2..)) = largest else {
            return false;
        };
        let is_in =
            |key: &Key| of_source(key.0) == merged || in_network(key.0).as_ref() == Some(&merged);
        let gone = self.counts.extract_if(.., |key, _| is_in(key));
        let count = gone.map(|(_, count)| count).sum();
        self.counts.insert(merged, count);
        true
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
        self.is_full = false;
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
    masked(address.to_canonical(), 0, 64)
}

/// All that a source does.
const fn of_source(source: Option<IpAddr>) -> Key {
    (source, None, SEVERAL_REASONS)
}

/// All that the sources of a network do: a /24 of IPv4, or a /48 of IPv6, which one customer may have.
fn in_network(source: Option<IpAddr>) -> Option<Key> {
    source.map(|source| (Some(masked(source, 8, 80)), None, MANY_SOURCES))
}

/// The address without its last bits: so many of IPv4, so many of IPv6.
fn masked(address: IpAddr, v4: u32, v6: u32) -> IpAddr {
    match address {
        IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits() >> v4 << v4).into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> v6 << v6).into(),
    }
}

#[cfg(test)]
mod tests {
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
            let source = IpAddr::from(Ipv4Addr::from_bits(number << 8));
            assert_eq!(rejections.note(NOW, Some(source), None, "flood"), []);
            assert!(rejections.counts.len() <= Rejections::MAX_ENTRIES + 1);
        }
        let all = rejections.take();
        assert_eq!(all.len(), Rejections::MAX_ENTRIES + 1);
        assert_eq!(all.iter().map(|all| all.count).sum::<u64>(), 100_000);
    }

    const HONEST: &str = "192.0.2.1";

    /// What is on record when others fill the table before or after two refusals of a source.
    fn amid(flood: impl Fn(&mut Rejections)) -> [Vec<Rejected>; 2] {
        [true, false].map(|comes_first| {
            let mut rejections = Rejections::default();
            let honest = Some(HONEST.parse().unwrap());
            if !comes_first {
                flood(&mut rejections);
            }
            for reason in ["bad_signature", "expired"] {
                assert_eq!(rejections.note(NOW, honest, Some("known"), reason), []);
            }
            if comes_first {
                flood(&mut rejections);
            }
            let mut all = rejections.take();
            assert!(all.len() <= Rejections::MAX_ENTRIES, "{}", all.len());
            let own: Vec<_> = all.extract_if(.., |it| it.source == honest).collect();
            let own = own
                .iter()
                .map(|it| (it.agent.as_deref(), it.reason, it.count));
            let known = Some("known");
            assert!(own.eq([(known, "bad_signature", 1), (known, "expired", 1)]));
            all
        })
    }

    #[test]
    fn threat_143_a_source_that_fills_the_table_loses_its_own_detail() {
        let all = amid(|rejections| {
            for number in 0..1000 {
                let (source, agent) = ("198.51.100.1".parse().unwrap(), number.to_string());
                let minute = rejections.note(NOW, Some(source), Some(&agent), "flood");
                assert_eq!(minute, []);
            }
        });
        for all in all {
            let merged = Rejected {
                source: Some("198.51.100.1".parse().unwrap()),
                agent: None,
                reason: "several_reasons",
                count: 1000,
            };
            assert_eq!(all, [merged]);
        }
    }

    /// Who has a /48 of IPv6 has 65,536 networks of 64 bits.
    #[test]
    fn threat_143_a_network_that_fills_the_table_loses_its_own_detail() {
        let all = amid(|rejections| {
            for number in 0..1000 {
                let source: IpAddr = format!("2001:db8:1:{number:x}::1").parse().unwrap();
                assert_eq!(rejections.note(NOW, Some(source), None, "flood"), []);
            }
        });
        for all in all {
            let merged = Rejected {
                source: Some("2001:db8:1::".parse().unwrap()),
                agent: None,
                reason: "many_sources",
                count: 1000,
            };
            assert_eq!(all, [merged]);
        }
    }

    #[test]
    fn threat_143_a_neighbor_of_a_source_that_fills_the_table_is_told_apart() {
        let all = amid(|rejections| {
            for number in 0..1000 {
                let (source, agent) = ("192.0.2.2".parse().unwrap(), number.to_string());
                let minute = rejections.note(NOW, Some(source), Some(&agent), "flood");
                assert_eq!(minute, []);
            }
        });
        assert!(all.iter().all(|all| all.len() == 1), "{all:?}");
    }
}
