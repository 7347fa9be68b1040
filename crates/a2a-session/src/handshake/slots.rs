//! How many sessions there are: of each agent, of the strangers of each source, and in all.

use std::collections::BTreeMap;

use a2a_wire::{DidText, Digest, ErrorCode, SessionId};
use base::{Class, Exceeded, Limits, Table};

use crate::Holder;
use crate::config::ServerLimits;
use crate::failure::Failure;

/// One place in so many is reserved for known agents: DIDs are free, and an attacker with many of them must
/// not keep the others out.
const RESERVED_FRACTION: usize = 10;

/// The place that a session takes among all sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSlot {
    pub(crate) id: SessionId,
    pub(crate) agent: Digest,
    pub(crate) holder: Holder,
    /// Whether it may be evicted until it has a first request: nothing else ends it before its time.
    pub(crate) is_evictable_unused: bool,
}

impl SessionSlot {
    /// The id of the session.
    #[must_use]
    pub const fn session_id(&self) -> &SessionId {
        &self.id
    }

    /// Who is counted for what the peer keeps at this node.
    #[must_use]
    pub const fn holder(&self) -> Holder {
        self.holder
    }

    /// Whether the session may be evicted while it is idle: a stranger's may, and that of a baseline peer
    /// before its first request.
    #[must_use]
    pub fn is_evictable(&self) -> bool {
        self.holder.class() == Class::Stranger || self.is_evictable_unused
    }
}

/// The sessions that have not ended.
#[derive(Debug, Clone)]
pub(super) struct SessionTable {
    most: usize,
    per_source: usize,
    /// Of strangers, and of known baseline peers before their first request, with their agents. Those in
    /// use are never evicted.
    strangers: Table<Holder, SessionId, Digest>,
    /// Of other known agents.
    known: BTreeMap<SessionId, Digest>,
    by_agent: BTreeMap<Digest, u32>,
}

impl SessionTable {
    pub(super) const fn new(limits: &ServerLimits) -> Self {
        let most = limits.sessions;
        let for_strangers = Limits {
            total: most.saturating_sub(most / RESERVED_FRACTION),
            per_holder: limits.sessions_per_source,
            reserved: 0,
        };
        Self {
            most,
            per_source: limits.sessions_per_source,
            strangers: Table::new(for_strangers),
            known: BTreeMap::new(),
            by_agent: BTreeMap::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.strangers.len().saturating_add(self.known.len())
    }

    /// Whether an agent may have one more.
    pub(super) fn check(&self, agent: &Digest, most: u32) -> Result<(), Failure> {
        let count = self.by_agent.get(agent).copied().unwrap_or_default();
        if count < most {
            return Ok(());
        }
        let cause = "the session limit of this agent is reached";
        let failure = Failure::new(ErrorCode::RateLimitExceeded, cause);
        Err(failure
            .with_text("scope", "concurrent_sessions")
            .with_number("limit", u64::from(most)))
    }

    /// Takes a place for a session, which is in use until [`SessionTable::set_in_use`] says otherwise.
    /// Returns the idle session that lost its place for it.
    pub(super) fn reserve(
        &mut self,
        slot: &SessionSlot,
        of_agent: u32,
    ) -> Result<Option<SessionId>, Failure> {
        self.check(&slot.agent, of_agent)?;
        let evictable = slot.is_evictable().then(|| self.reserve_evictable(slot));
        let evicted = match (evictable, slot.holder.class()) {
            (Some(Ok(evicted)), _) => evicted,
            (Some(Err(failure)), Class::Stranger) => return Err(failure),
            // What is reserved is for all known agents.
            (Some(Err(_)) | None, _) => self.reserve_for_known(slot)?,
        };
        let count = self.by_agent.entry(slot.agent).or_default();
        *count = count.saturating_add(1);
        Ok(evicted)
    }

    fn reserve_evictable(&mut self, slot: &SessionSlot) -> Result<Option<SessionId>, Failure> {
        // A source over its share evicts a session of its own; otherwise the whole table may be full.
        let held = self.strangers.held(&slot.holder, Class::Stranger);
        let made_room = match held < self.per_source {
            true => self.make_room(&slot.holder)?,
            false => None,
        };
        let inserted =
            self.strangers
                .insert(slot.holder, Class::Stranger, slot.id.clone(), slot.agent);
        let evicted = inserted.map_err(|exceeded| match exceeded {
            Exceeded::Share => {
                let cause = "the session limit of this source is reached";
                Failure::new(ErrorCode::ServiceUnavailable, cause)
            }
            Exceeded::Total => full(),
        })?;
        self.strangers.set_in_use(&slot.id, true);
        let evicted = evicted.map(|(id, agent)| {
            self.uncount(&agent);
            id
        });
        Ok(made_room.or(evicted))
    }

    fn reserve_for_known(&mut self, slot: &SessionSlot) -> Result<Option<SessionId>, Failure> {
        let evicted = self.make_room(&slot.holder)?;
        self.known.insert(slot.id.clone(), slot.agent);
        Ok(evicted)
    }

    /// Takes the place of a stranger's idle session if there is no other.
    fn make_room(&mut self, holder: &Holder) -> Result<Option<SessionId>, Failure> {
        if self.len() < self.most {
            return Ok(None);
        }
        let evicted = (self.strangers).evict(holder, Class::Stranger, Exceeded::Total);
        let (id, agent) = evicted.ok_or_else(full)?;
        self.uncount(&agent);
        Ok(Some(id))
    }

    /// Says whether requests of a session run. One that is idle gives way to others, the one that was
    /// used last comes last.
    pub(super) fn set_in_use(&mut self, slot: &SessionSlot, in_use: bool) {
        if in_use
            && slot.holder.class() == Class::Known
            && let Some(agent) = self.strangers.remove(&slot.id)
        {
            self.known.insert(slot.id.clone(), agent);
        }
        self.strangers.touch(&slot.id);
        self.strangers.set_in_use(&slot.id, in_use);
    }

    /// Gives the place of a session back, if it still has it.
    pub(super) fn release(&mut self, slot: &SessionSlot) {
        let agent = self.strangers.remove(&slot.id);
        if let Some(agent) = agent.or_else(|| self.known.remove(&slot.id)) {
            self.uncount(&agent);
        }
    }

    fn uncount(&mut self, agent: &Digest) {
        if let Some(count) = self.by_agent.get_mut(agent) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.by_agent.remove(agent);
            }
        }
    }
}

fn full() -> Failure {
    let cause = "the session limit is reached";
    Failure::new(ErrorCode::ServiceUnavailable, cause)
}

/// What stands for an agent where it is counted.
pub(crate) fn agent_key(did: &DidText) -> Digest {
    Digest::of(did.as_str().as_bytes())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn table(sessions: usize, sessions_per_source: usize) -> SessionTable {
        SessionTable::new(&ServerLimits {
            sessions,
            sessions_per_source,
            ..ServerLimits::default()
        })
    }

    /// The session of an agent of its own, by number.
    fn slot(number: u64, holder: impl Fn(Digest) -> Holder) -> SessionSlot {
        let agent = Digest::of(&number.to_be_bytes());
        SessionSlot {
            id: format!("00000000-0000-4000-8000-{number:012}")
                .parse()
                .unwrap(),
            agent,
            holder: holder(agent),
            is_evictable_unused: false,
        }
    }

    fn stranger(number: u64, source: u8) -> SessionSlot {
        let address = std::net::IpAddr::V4(Ipv4Addr::new(192, 0, 2, source));
        slot(number, |_| Holder::Source(address.into()))
    }

    fn known(number: u64) -> SessionSlot {
        slot(number, Holder::Agent)
    }

    /// Threat 101: of twenty places strangers get eighteen, and known agents find room even then.
    #[test]
    fn threat_101_strangers_leave_places_for_known_agents() {
        let mut table = table(20, 20);
        let strangers: Vec<_> = (0..18).map(|it| stranger(it, it as u8)).collect();
        for slot in &strangers {
            assert_eq!(table.reserve(slot, 1), Ok(None));
        }
        // All are in use.
        assert!(table.reserve(&stranger(30, 30), 1).is_err());
        assert_eq!(table.reserve(&known(100), 1), Ok(None));
        assert_eq!(table.reserve(&known(101), 1), Ok(None));
        assert!(table.reserve(&known(102), 1).is_err());
        // One that is idle gives way to a known agent, which is never the other way round.
        table.set_in_use(&strangers[3], false);
        let evicted = table.reserve(&known(102), 1);
        assert_eq!(evicted, Ok(Some(strangers[3].id.clone())));
        table.release(&strangers[3]);
        assert_eq!(table.len(), 20);
        assert!(table.reserve(&stranger(30, 30), 1).is_err());
        table.release(&known(100));
        assert_eq!(table.reserve(&stranger(30, 30), 1), Ok(None));
        assert_eq!(table.len(), 20);
    }

    #[test]
    fn an_idle_session_of_the_source_with_the_most_gives_way() {
        let mut table = table(4, 3);
        let flood: Vec<_> = (1..=3).map(|it| stranger(it, 1)).collect();
        let other = stranger(10, 2);
        for slot in flood.iter().chain([&other]) {
            table.reserve(slot, 1).unwrap();
            table.set_in_use(slot, false);
        }
        // Used last, so it goes last.
        table.set_in_use(&flood[0], true);
        table.set_in_use(&flood[0], false);
        let evicted = table.reserve(&stranger(11, 3), 1);
        assert_eq!(evicted, Ok(Some(flood[1].id.clone())));
    }

    #[test]
    fn a_source_past_its_share_loses_its_own_idle_session() {
        let mut table = table(100, 2);
        let [first, second, third] = [1, 2, 3].map(|it| stranger(it, 1));
        table.reserve(&first, 1).unwrap();
        table.reserve(&second, 1).unwrap();
        assert!(table.reserve(&third, 1).is_err(), "both are in use");
        table.set_in_use(&second, false);
        let evicted = table.reserve(&third, 1);
        assert_eq!(evicted, Ok(Some(second.id.clone())));
        // Its agent may have another.
        table.release(&first);
        assert_eq!(table.reserve(&second, 1), Ok(None));
    }

    /// Sessions of known baseline peers that nobody uses keep no one out; one that is used stays.
    #[test]
    fn unused_baseline_sessions_of_known_agents_give_way() {
        let mut table = table(4, 2);
        let unused = |number| SessionSlot {
            is_evictable_unused: true,
            ..known(number)
        };
        let all = [1, 2, 3].map(unused);
        for slot in &all {
            assert_eq!(table.reserve(slot, 1), Ok(None));
            table.set_in_use(slot, false);
        }
        for in_use in [true, false] {
            table.set_in_use(&all[0], in_use);
        }
        assert_eq!(table.reserve(&stranger(10, 1), 1), Ok(None));
        let evicted = table.reserve(&stranger(11, 1), 1);
        assert_eq!(evicted, Ok(Some(all[1].id.clone())));
        let evicted = table.reserve(&known(12), 1);
        assert_eq!(evicted, Ok(Some(all[2].id.clone())));
        assert!(table.reserve(&known(13), 1).is_err(), "all are in use");
        // Of one agent as many as of a source, and the oldest gives way.
        let mut table = self::table(100, 2);
        let again = |number| SessionSlot {
            id: known(number).id,
            ..unused(1)
        };
        for number in 1..=2 {
            table.reserve(&again(number), 9).unwrap();
            table.set_in_use(&again(number), false);
        }
        assert_eq!(table.reserve(&again(3), 9), Ok(Some(again(1).id)));
        table.release(&again(3));
        table.release(&again(2));
        assert_eq!((table.len(), table.by_agent.len()), (0, 0));
    }

    #[test]
    fn an_agent_past_its_limit_is_refused() {
        let mut table = table(100, 100);
        let again = |number: u64| SessionSlot {
            id: stranger(number, 1).id,
            ..stranger(1, 1)
        };
        table.reserve(&again(1), 2).unwrap();
        table.reserve(&again(2), 2).unwrap();
        let refused = table.reserve(&again(3), 2).unwrap_err();
        assert_eq!(refused.code, ErrorCode::RateLimitExceeded);
        table.release(&again(1));
        table.release(&again(1));
        table.reserve(&again(3), 2).unwrap();
        assert!(table.reserve(&again(4), 2).is_err());
    }
}
