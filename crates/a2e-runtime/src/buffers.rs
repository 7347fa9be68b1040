//! Bytes that wait in sessions: what their peers have not read, what is kept for peers that come back,
//! and requests that are not answered; and what remote plugins have sent for an agent.
//!
//! They are counted for each agent and in all. From three quarters of either limit on, the heaviest
//! session of the heaviest agent is paused, and remote plugins are; past the limit the session ends.
//! Connections whose agents are not known yet have limits of their own, for each source and in all, so
//! that no agent loses anything to them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use a2e_session::CloseReason;
use base::{Class, Exceeded, Limits, Quota};
use parking_lot::Mutex;

use crate::slots::{Holder, Signal};

/// The bytes that wait in the sessions of a host.
#[derive(Debug)]
pub(crate) struct Buffers {
    agents: Mutex<Inner>,
    /// Of connections whose agents are not known yet.
    sources: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    quota: Quota<Holder>,
    /// The sessions in which bytes wait, by agent or source.
    agents: BTreeMap<Agent, BTreeMap<u64, Buffered>>,
    paused: BTreeSet<(Agent, u64)>,
}

type Agent = (Class, Holder);

#[derive(Debug)]
struct Buffered {
    bytes: usize,
    signal: Arc<Signal>,
}

/// A session with fewer bytes is not paused: it hardly adds to what waits.
const FEW: usize = 64 * 1024;

/// A part of so many is what connections may have whose agents are not known yet.
const SOURCES: usize = 16;

/// The limits of what waits. A part of it is for the operator's own commands.
pub(crate) const fn limits(total: usize, per_agent: usize) -> Limits {
    Limits {
        total,
        per_holder: per_agent,
        reserved: total / 16,
    }
}

/// The limits of what waits in connections whose agents are not known yet, beside those of agents.
const fn source_limits(limits: &Limits) -> Limits {
    let total = limits.total / SOURCES;
    Limits {
        total,
        per_holder: total / 4,
        reserved: 0,
    }
}

/// From here on sessions are paused.
const fn soft(limit: usize) -> usize {
    limit.saturating_sub(limit / 4)
}

impl Buffers {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            sources: Mutex::new(Inner::new(source_limits(&limits))),
            agents: Mutex::new(Inner::new(limits)),
        }
    }

    /// Applies other limits from now on.
    pub(crate) fn set_limits(&self, limits: Limits) {
        let sources = source_limits(&limits);
        self.sources.lock().quota.set_limits(sources);
        self.agents.lock().quota.set_limits(limits);
    }

    /// Sets how many bytes wait in a session.
    pub(crate) fn set(
        &self,
        (holder, class): (&Holder, Class),
        number: u64,
        signal: &Arc<Signal>,
        bytes: usize,
    ) {
        let inner = match holder {
            Holder::Source(_) => &self.sources,
            Holder::Agent(_) => &self.agents,
        };
        let mut inner = inner.lock();
        let agent = (class, holder.clone());
        let before = inner.take(&agent, number);
        // One that has ended counts no longer.
        if bytes > 0 && !signal.has_ended() {
            inner.add(&agent, number, signal, bytes);
        } else if inner.paused.remove(&(agent.clone(), number)) {
            signal.set_paused(false);
        }
        match bytes > before {
            true => inner.pause(&agent),
            false => inner.resume(),
        }
    }

    /// Counts bytes for an agent that wait in none of its sessions, unless three quarters of a limit would
    /// be exceeded. Returns whether they are counted.
    pub(crate) fn take(&self, (holder, class): (&Holder, Class), bytes: usize) -> bool {
        let mut inner = self.agents.lock();
        let quota = &mut inner.quota;
        let Limits {
            total, per_holder, ..
        } = *quota.limits();
        let fits = |used: usize, limit| used.saturating_add(bytes) <= soft(limit);
        fits(quota.held(holder, class), per_holder)
            && fits(quota.total(), total)
            && quota.take(holder.clone(), class, bytes).is_ok()
    }

    /// Bytes that were counted so wait no longer.
    pub(crate) fn give_back(&self, (holder, class): (&Holder, Class), bytes: usize) {
        let mut inner = self.agents.lock();
        inner.quota.give_back(holder, class, bytes);
        inner.resume();
    }

    /// Bytes that wait for all agents, and before handshakes.
    pub(crate) fn total(&self) -> usize {
        let sources = self.sources.lock().quota.total();
        sources.saturating_add(self.agents.lock().quota.total())
    }
}

impl Inner {
    const fn new(limits: Limits) -> Self {
        Self {
            quota: Quota::new(limits),
            agents: BTreeMap::new(),
            paused: BTreeSet::new(),
        }
    }

    /// Takes a session out; returns how many bytes waited in it.
    fn take(&mut self, agent: &Agent, number: u64) -> usize {
        let Some(sessions) = self.agents.get_mut(agent) else {
            return 0;
        };
        let bytes = sessions.remove(&number).map_or(0, |session| session.bytes);
        if sessions.is_empty() {
            self.agents.remove(agent);
        }
        self.quota.give_back(&agent.1, agent.0, bytes);
        bytes
    }

    /// Adds a session. If that exceeds a limit, the heaviest session of the heaviest agent ends, which
    /// may be this one.
    fn add(&mut self, agent: &Agent, number: u64, signal: &Arc<Signal>, bytes: usize) {
        let (class, holder) = agent;
        while let Err(exceeded) = self.quota.check(holder, *class, bytes) {
            let heaviest = match exceeded {
                Exceeded::Share => agent.clone(),
                Exceeded::Total => self.heaviest_agent(agent, bytes),
            };
            let session = self.heaviest_session(&heaviest, |_| true);
            match session.filter(|(_, most)| heaviest != *agent || *most >= bytes) {
                Some((other, _)) => self.end(&heaviest, other),
                None => {
                    self.paused.remove(&(agent.clone(), number));
                    return signal.end(CloseReason::MemoryLimit);
                }
            }
        }
        if self.quota.take(holder.clone(), *class, bytes).is_ok() {
            let signal = Arc::clone(signal);
            let sessions = self.agents.entry(agent.clone()).or_default();
            sessions.insert(number, Buffered { bytes, signal });
        }
    }

    fn end(&mut self, agent: &Agent, number: u64) {
        let session = self.agents.get(agent).and_then(|it| it.get(&number));
        if let Some(session) = session {
            session.signal.end(CloseReason::MemoryLimit);
        }
        self.take(agent, number);
        self.paused.remove(&(agent.clone(), number));
    }

    /// The agent with the most bytes, of those that must give way; to this one so many more are added.
    fn heaviest_agent(&self, to: &Agent, more: usize) -> Agent {
        let others = self.agents.keys().filter(|agent| *agent != to);
        let strangers = others.filter(|(class, _)| *class == Class::Stranger);
        let heaviest = strangers.max_by_key(|agent| self.held(agent));
        let own = self.held(to).saturating_add(more);
        let heaviest = heaviest.filter(|other| to.0 == Class::Known || self.held(other) > own);
        heaviest.unwrap_or(to).clone()
    }

    /// The session of an agent with the most bytes, and how many those are.
    fn heaviest_session(
        &self,
        agent: &Agent,
        may_be: impl Fn(u64) -> bool,
    ) -> Option<(u64, usize)> {
        let sessions = self.agents.get(agent)?.iter();
        let sessions = sessions.filter(|(number, _)| may_be(**number));
        let sessions = sessions.map(|(number, session)| (*number, session.bytes));
        sessions.max_by_key(|(_, bytes)| *bytes)
    }

    fn held(&self, (class, holder): &Agent) -> usize {
        self.quota.held(holder, *class)
    }

    fn total_is_high(&self) -> bool {
        self.quota.total() > soft(self.quota.limits().total)
    }

    fn is_high(&self, agent: &Agent) -> bool {
        self.held(agent) > soft(self.quota.limits().per_holder)
    }

    /// Pauses the heaviest session of this agent if it has many bytes, and of the heaviest if all have.
    fn pause(&mut self, agent: &Agent) {
        let own = self.is_high(agent).then(|| agent.clone());
        let heaviest = self.total_is_high().then(|| self.heaviest_agent(agent, 0));
        for agent in own.into_iter().chain(heaviest) {
            let is_paused = |number| self.paused.contains(&(agent.clone(), number));
            let found = self.heaviest_session(&agent, |number| !is_paused(number));
            let Some((number, bytes)) = found.filter(|(_, bytes)| *bytes >= FEW) else {
                continue;
            };
            self.set_paused(&agent, number, true);
            tracing::debug!(agent = %agent.1, bytes, "a session with many waiting bytes is paused");
            self.paused.insert((agent, number));
        }
    }

    /// Lets sessions go on that need not be paused any more.
    fn resume(&mut self) {
        if self.paused.is_empty() {
            return;
        }
        let mut paused = std::mem::take(&mut self.paused);
        paused.retain(|(agent, number)| {
            let session = self.agents.get(agent).and_then(|it| it.get(number));
            let has_many = session.is_some_and(|session| session.bytes >= FEW);
            let stays = has_many && (self.is_high(agent) || self.total_is_high());
            if !stays {
                self.set_paused(agent, *number, false);
            }
            stays
        });
        self.paused = paused;
    }

    fn set_paused(&self, agent: &Agent, number: u64, is_paused: bool) {
        let session = self.agents.get(agent).and_then(|it| it.get(&number));
        if let Some(session) = session {
            session.signal.set_paused(is_paused);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::{Counted, Identity, Source};

    const KIB: usize = 1024;

    fn holder(agent: &str) -> Holder {
        Holder::of(&Identity::named(agent), Source::Own, true).0
    }

    fn source(address: &str) -> Holder {
        Holder::Source(Counted::of(Source::Address(address.parse().unwrap())))
    }

    /// A session of an agent.
    struct Session<'b> {
        buffers: &'b Buffers,
        holder: Holder,
        class: Class,
        number: u64,
        signal: Arc<Signal>,
    }

    impl<'b> Session<'b> {
        fn of(buffers: &'b Buffers, agent: &str, number: u64) -> Self {
            Self {
                buffers,
                holder: holder(agent),
                class: Class::Stranger,
                number,
                signal: Arc::default(),
            }
        }

        fn set(&self, bytes: usize) {
            let holder = (&self.holder, self.class);
            self.buffers.set(holder, self.number, &self.signal, bytes);
        }

        fn has_ended(&self) -> bool {
            self.signal.has_ended()
        }
    }

    #[test]
    fn a_session_is_paused_past_three_quarters_of_its_agents_bytes() {
        let buffers = Buffers::new(limits(10_000 * KIB, 400 * KIB));
        let (first, second) = (Session::of(&buffers, "a", 1), Session::of(&buffers, "a", 2));
        first.set(200 * KIB);
        second.set(100 * KIB);
        assert!(!first.signal.is_paused() && !second.signal.is_paused());
        second.set(101 * KIB);
        assert!(
            first.signal.is_paused() && !second.signal.is_paused(),
            "the heaviest"
        );
        second.set(100 * KIB);
        assert!(!first.signal.is_paused());
        second.set(200 * KIB);
        first.set(0);
        assert!(!first.signal.is_paused() && !second.signal.is_paused());
        assert_eq!(buffers.total(), 200 * KIB);
    }

    #[test]
    fn bytes_beside_sessions_are_taken_up_to_three_quarters() {
        for limits in [
            limits(10_000 * KIB, 400 * KIB),
            limits(400 * KIB, 10_000 * KIB),
        ] {
            let buffers = Buffers::new(limits);
            let session = Session::of(&buffers, "a", 1);
            session.set(100 * KIB);
            let agent = (&session.holder, session.class);
            assert!(buffers.take(agent, 200 * KIB), "at it");
            assert!(!buffers.take(agent, 1), "past it");
            assert_eq!(buffers.total(), 300 * KIB);
            session.set(100 * KIB + 1);
            assert!(session.signal.is_paused() && !session.has_ended());
            buffers.give_back(agent, 200 * KIB);
            assert!(!session.signal.is_paused());
            assert_eq!(buffers.total(), 100 * KIB + 1);
        }
    }

    #[test]
    fn sessions_with_few_bytes_are_not_paused() {
        let buffers = Buffers::new(limits(10_000 * KIB, 400 * KIB));
        let heavy = Session::of(&buffers, "a", 0);
        heavy.set(300 * KIB);
        let light = Session::of(&buffers, "a", 1);
        light.set(FEW - 1);
        assert!(heavy.signal.is_paused() && !light.signal.is_paused());
        light.set(FEW);
        light.set(FEW + 1);
        assert!(light.signal.is_paused(), "the heaviest that is not");
        light.set(FEW - 1);
        assert!(heavy.signal.is_paused() && !light.signal.is_paused());
    }

    #[test]
    fn the_heaviest_session_ends_past_the_limit_and_not_at_it() {
        let buffers = Buffers::new(limits(10_000 * KIB, 400 * KIB));
        let all = [1, 2, 3].map(|number| Session::of(&buffers, "a", number));
        all[0].set(250 * KIB);
        all[1].set(100 * KIB);
        all[2].set(50 * KIB);
        assert!(!all.iter().any(Session::has_ended), "at it");
        all[2].set(50 * KIB + 1);
        assert_eq!(
            [0, 1, 2].map(|index| all[index].has_ended()),
            [true, false, false]
        );
        all[0].set(400 * KIB);
        assert_eq!(buffers.total(), 150 * KIB + 1, "it counts no longer");
        all[2].set(301 * KIB);
        assert!(
            all[2].has_ended() && !all[1].has_ended(),
            "it is the heaviest itself"
        );
        assert_eq!(buffers.total(), 100 * KIB);
    }

    #[test]
    fn the_heaviest_agent_gives_way_when_all_have_too_much() {
        // Of these 60 KiB are the operator's.
        let buffers = Buffers::new(limits(960 * KIB, 900 * KIB));
        let (heavy, light) = (Session::of(&buffers, "a", 1), Session::of(&buffers, "b", 2));
        heavy.set(400 * KIB);
        let more = Session::of(&buffers, "a", 3);
        more.set(100 * KIB);
        light.set(220 * KIB);
        assert!(!heavy.signal.is_paused());
        light.set(221 * KIB);
        assert!(heavy.signal.is_paused() && !light.signal.is_paused());
        light.set(400 * KIB);
        assert!(!heavy.has_ended() && !light.has_ended(), "at it");
        let operator = Session {
            class: Class::Known,
            ..Session::of(&buffers, "default", 4)
        };
        operator.set(60 * KIB);
        assert!(!heavy.has_ended(), "what is reserved");
        light.set(401 * KIB);
        assert!(
            heavy.has_ended()
                && ![&light, &more, &operator]
                    .into_iter()
                    .any(Session::has_ended)
        );
    }

    /// However many sources there are, what waits in their connections pauses and ends no session of an
    /// agent. Each source has a part of it, and its heaviest connection ends past that.
    #[test]
    fn connections_without_agents_have_bytes_of_their_own() {
        let buffers = Buffers::new(limits(6400 * KIB, 6000 * KIB));
        let agent = Session::of(&buffers, "a", 0);
        agent.set(4000 * KIB);
        let of = |address: &str, number| Session {
            holder: source(address),
            ..Session::of(&buffers, "", number)
        };
        let heavy = of("192.0.2.1", 1);
        heavy.set(60 * KIB);
        let light = of("192.0.2.1", 2);
        light.set(40 * KIB);
        assert!(!heavy.has_ended() && !light.has_ended(), "at it");
        light.set(41 * KIB);
        assert!(heavy.has_ended() && !light.has_ended());
        let others: Vec<_> = (1..100_u64)
            .map(|number| of(&format!("198.51.100.{number}"), 2 + number))
            .collect();
        for other in &others {
            other.set(50 * KIB);
        }
        let left = others.iter().filter(|other| !other.has_ended()).count();
        assert_eq!(left, 7, "400 KiB in all");
        assert_eq!(buffers.total(), (4000 + 41 + 350) * KIB);
        assert!(!agent.has_ended() && !agent.signal.is_paused());
    }
}
