//! Handshakes under way at a server: found by what only the client can know, taken out once, never
//! more than fit (profile §8.2, §8.5).
//!
//! Before PROOF no identity is verified, so that places are counted by source and by
//! nothing else: a share for a DID would let anybody use it up in the name of another (threat 36).
//! A claim to be an agent that the operator knows opens a reserve, in which each source has a small
//! share; what the source has besides counts like that of any stranger. So a peer that knows the name of
//! a known agent gains a few places, and takes none that others need.

mod space;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use a2a_wire::{DidText, ErrorCode, Kind};
use base::Limits;
use canonical::Digest;

use self::space::Space;
use super::Deadline;
use super::hello::ExpectProof;
use super::proof::ExpectAcceptPolicy;
use super::reply::Party;
use crate::Now;
use crate::config::ServerLimits;
use crate::failure::{Binding, Failure, replayed};
use crate::sources::Source;

/// What one source may have of the reserve: one in so many of its share.
const SHARE_OF_RESERVE: usize = 16;

/// Names a handshake under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(Digest);

impl Ticket {
    /// That of a nonce of ours.
    pub(crate) fn of(nonce_b: &str) -> Self {
        Self(Digest::of(nonce_b.as_bytes()))
    }
}

/// A handshake that ended without a message of its client: it took too long, or gave way to others.
#[derive(Debug, Clone, PartialEq)]
pub struct Lapsed {
    /// Where it came from.
    pub source: Source,
    /// Who the client is, or, if `proven` is false, says it is.
    pub agent: DidText,
    /// Whether the client was verified.
    pub proven: bool,
    /// How strongly it binds what it signs.
    pub binding: Binding,
    /// Why it ended.
    pub failure: Failure,
}

#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
enum State {
    Proof(Box<ExpectProof>),
    /// A message has claimed it and is being looked at.
    Taken,
    Accept(Box<ExpectAcceptPolicy>),
}

#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
struct Slot {
    state: State,
    source: Source,
    size: usize,
    /// The agent and nonce it was begun with.
    begun_with: Digest,
    commitment: Option<Digest>,
    deadline: Duration,
}

/// The handshakes under way.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct HalfOpen {
    common: Space,
    /// For those that claim to be agents which the operator knows.
    reserve: Space,
    /// Places of one source in the reserve.
    share_of_reserve: usize,
    begun_with: BTreeSet<Digest>,
    commitments: BTreeMap<Digest, Ticket>,
    deadlines: BTreeSet<(Duration, Ticket)>,
    lapsed: Vec<Lapsed>,
}

/// Why a handshake ends that no message is about.
#[derive(Debug, Clone, Copy)]
enum Lapse {
    Expired,
    Evicted,
}

#[derive(Debug, Clone, Copy)]
enum Part {
    Common,
    Reserve,
}

/// The limits of a part of all handshakes.
const fn part(limits: Limits, part: Part) -> Limits {
    let total = match part {
        Part::Common => limits.total.saturating_sub(limits.reserved),
        Part::Reserve => limits.reserved,
    };
    Limits {
        total,
        per_holder: limits.per_holder,
        reserved: 0,
    }
}

impl Slot {
    /// What is to be recorded of it; nothing while a message of it is looked at, which will fail.
    fn lapsed(&self, lapse: Lapse) -> Option<Lapsed> {
        let Party {
            agent,
            proven,
            binding,
        } = match &self.state {
            State::Proof(state) => state.party(),
            State::Accept(state) => state.party(),
            State::Taken => return None,
        };
        let failure = match lapse {
            Lapse::Expired => {
                let cause = "the client did not finish the handshake in time";
                Failure::new(ErrorCode::HandshakeTimeout, cause)
            }
            Lapse::Evicted => {
                let cause = "the handshake gave way to newer ones: its source has the most";
                Failure::new(ErrorCode::ServiceUnavailable, cause)
            }
        };
        Some(Lapsed {
            source: self.source,
            agent,
            proven,
            binding,
            failure,
        })
    }
}

impl HalfOpen {
    /// No handshakes, and at most so many.
    pub(crate) const fn new(limits: &ServerLimits) -> Self {
        let (slots, bytes) = (limits.half_open, limits.half_open_bytes);
        Self {
            common: Space::new(part(slots, Part::Common), part(bytes, Part::Common)),
            reserve: Space::new(part(slots, Part::Reserve), part(bytes, Part::Reserve)),
            share_of_reserve: match slots.reserved {
                0 => 0,
                _ => slots.per_holder.div_ceil(SHARE_OF_RESERVE),
            },
            begun_with: BTreeSet::new(),
            commitments: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            lapsed: Vec::new(),
        }
    }

    /// Whether a handshake with this agent and nonce is under way.
    pub(crate) fn check_fresh(&self, begun_with: &Digest) -> Result<(), Failure> {
        match self.begun_with.contains(begun_with) {
            true => Err(replayed(
                a2a_wire::Reason::NonceReused,
                "a handshake with this nonce is under way",
            )),
            false => Ok(()),
        }
    }

    /// Takes a place for a handshake whose CHALLENGE is being made. It gives way to no other until
    /// that is done.
    pub(crate) fn reserve(
        &mut self,
        now: Now,
        ticket: Ticket,
        (source, size): (Source, usize),
        begun_with: Digest,
        deadline: Deadline,
    ) -> Result<(), Failure> {
        let deadline = deadline.at();
        let slot = Slot {
            state: State::Taken,
            source,
            size,
            begun_with,
            commitment: None,
            deadline,
        };
        let mut evicted = Vec::new();
        let inserted = self.common.insert(ticket, slot, &mut evicted);
        self.evicted(evicted);
        inserted.map_err(|_| self.full(now))?;
        self.common.slots.set_in_use(&ticket, true);
        self.begun_with.insert(begun_with);
        self.deadlines.insert((deadline, ticket));
        Ok(())
    }

    /// Puts the first state in the place taken for it; `false` if its time is up. From now on it
    /// counts for what it keeps, which may be more than came, and in the reserve if it claims to be
    /// an agent that the operator knows.
    pub(crate) fn put_proof(
        &mut self,
        now: Now,
        ticket: Ticket,
        state: Box<ExpectProof>,
    ) -> Result<bool, Failure> {
        let (deadline, size) = (state.deadline, state.size());
        let is_known = state.vetting.is_known;
        if !self.put(ticket, State::Proof(state), deadline) {
            return Ok(false);
        }
        let mut evicted = Vec::new();
        let resized = self.common.resize(ticket, size, &mut evicted);
        self.common.slots.set_in_use(&ticket, false);
        if resized.is_ok() && is_known {
            self.move_to_reserve(ticket, &mut evicted);
        }
        self.evicted(evicted);
        match resized {
            Ok(()) => Ok(true),
            Err(_) => Err(self.full(now)),
        }
    }

    /// Moves a handshake to the reserve, if its source's share has room. Others of the reserve give way.
    fn move_to_reserve(&mut self, ticket: Ticket, evicted: &mut Vec<(Ticket, Slot)>) {
        let Some(slot) = self.common.slots.get(&ticket) else {
            return;
        };
        // Then it fits, since all of the reserve may give way.
        let can_fit = slot.size <= self.reserve.bytes.limits().total;
        let (source, size, share) = (slot.source, slot.size, self.share_of_reserve);
        if !can_fit || !self.reserve.has_share(source, size, share) {
            return;
        }
        if let Some(slot) = self.common.remove(ticket) {
            let _ = self.reserve.insert(ticket, slot, evicted);
        }
    }

    /// Takes the state out that a PROOF claims. Its place stays until the outcome is known.
    pub(crate) fn take_proof(&mut self, ticket: Ticket) -> Option<Box<ExpectProof>> {
        let slot = slot_mut(&mut self.common, &mut self.reserve, ticket)?;
        match std::mem::replace(&mut slot.state, State::Taken) {
            State::Proof(mut state) => {
                // It came in time; finding out who it is may take what is left of the whole.
                self.deadlines.remove(&(slot.deadline, ticket));
                state.deadline = state.deadline.whole();
                slot.deadline = state.deadline.at();
                self.deadlines.insert((slot.deadline, ticket));
                Some(state)
            }
            other @ (State::Taken | State::Accept(_)) => {
                slot.state = other;
                None
            }
        }
    }

    /// Whether this agent has a handshake under way from there that waits for a message of this kind.
    pub(crate) fn expects(&self, source: Source, agent: &str, kind: Kind) -> bool {
        let slots = self.common.slots.iter().chain(self.reserve.slots.iter());
        let mut states = slots.filter(|(_, slot)| slot.source == source);
        states.any(|(_, slot)| match &slot.state {
            State::Proof(state) => kind == Kind::Proof && state.vetting.did_text.as_str() == agent,
            State::Accept(state) => {
                kind == Kind::AcceptPolicy && state.peer.did_text().as_str() == agent
            }
            State::Taken => false,
        })
    }

    /// Puts the next state in the place of the one taken; `false` if its time is up.
    pub(crate) fn put_accept(&mut self, ticket: Ticket, state: Box<ExpectAcceptPolicy>) -> bool {
        let (commitment, deadline) = (state.commitment, state.deadline);
        if !self.put(ticket, State::Accept(state), deadline) {
            return false;
        }
        if let Some(slot) = slot_mut(&mut self.common, &mut self.reserve, ticket) {
            slot.commitment = Some(commitment);
            self.commitments.insert(commitment, ticket);
        }
        true
    }

    /// Takes the state out that an ACCEPT_POLICY claims. Its place stays until the outcome is known.
    pub(crate) fn take_accept(
        &mut self,
        commitment: &Digest,
    ) -> Option<(Ticket, Box<ExpectAcceptPolicy>)> {
        let ticket = self.commitments.remove(commitment)?;
        let slot = slot_mut(&mut self.common, &mut self.reserve, ticket)?;
        match std::mem::replace(&mut slot.state, State::Taken) {
            State::Accept(state) => Some((ticket, state)),
            State::Proof(_) | State::Taken => None,
        }
    }

    /// Where a handshake comes from.
    pub(crate) fn source(&self, ticket: Ticket) -> Option<Source> {
        let slot = self.common.slots.get(&ticket);
        let slot = slot.or_else(|| self.reserve.slots.get(&ticket));
        slot.map(|slot| slot.source)
    }

    /// Drops a handshake; `false` if it is not there any more.
    pub(crate) fn forget(&mut self, ticket: Ticket) -> bool {
        self.remove(ticket).is_some()
    }

    /// Drops what took too long.
    pub(crate) fn expire(&mut self, now: Duration) {
        while let Some((deadline, ticket)) = self.deadlines.first().copied() {
            if now < deadline {
                return;
            }
            self.deadlines.remove(&(deadline, ticket));
            let slot = self.remove(ticket);
            let lapsed = slot.and_then(|slot| slot.lapsed(Lapse::Expired));
            self.lapsed.extend(lapsed);
        }
    }

    /// What ended without a message since this was asked last.
    pub(crate) fn take_lapsed(&mut self) -> Vec<Lapsed> {
        std::mem::take(&mut self.lapsed)
    }

    /// When the next takes too long.
    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    pub(crate) fn len(&self) -> usize {
        let (common, reserve) = (&self.common.slots, &self.reserve.slots);
        common.len().saturating_add(reserve.len())
    }

    /// What there is, in an order that does not depend on how it came to be.
    #[cfg(test)]
    pub(crate) fn content(&self) -> String {
        let slots: Vec<_> = self.common.slots.iter().collect();
        let reserve: Vec<_> = self.reserve.slots.iter().collect();
        let names = (&self.begun_with, &self.commitments, &self.deadlines);
        format!("{slots:?}{reserve:?}{names:?}")
    }

    fn full(&self, now: Now) -> Failure {
        let next = self.next_deadline().unwrap_or(now.monotonic);
        let wait = next.saturating_sub(now.monotonic);
        let millis = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        let cause = "too many handshakes are under way";
        let failure = Failure::new(ErrorCode::ServiceUnavailable, cause);
        failure.with_number("retry_after_ms", millis.max(1))
    }

    fn put(&mut self, ticket: Ticket, state: State, deadline: Deadline) -> bool {
        let Some(slot) = slot_mut(&mut self.common, &mut self.reserve, ticket) else {
            return false;
        };
        self.deadlines.remove(&(slot.deadline, ticket));
        slot.deadline = deadline.at();
        self.deadlines.insert((slot.deadline, ticket));
        slot.state = state;
        true
    }

    fn remove(&mut self, ticket: Ticket) -> Option<Slot> {
        let slot = self.common.remove(ticket);
        let slot = slot.or_else(|| self.reserve.remove(ticket))?;
        self.forget_names(ticket, &slot);
        Some(slot)
    }

    /// Forgets by which names slots are found that gave way to others.
    fn evicted(&mut self, evicted: Vec<(Ticket, Slot)>) {
        for (ticket, slot) in evicted {
            self.forget_names(ticket, &slot);
            self.lapsed.extend(slot.lapsed(Lapse::Evicted));
        }
    }

    fn forget_names(&mut self, ticket: Ticket, slot: &Slot) {
        self.deadlines.remove(&(slot.deadline, ticket));
        self.begun_with.remove(&slot.begun_with);
        if let Some(commitment) = slot.commitment {
            self.commitments.remove(&commitment);
        }
    }
}

fn slot_mut<'a>(
    common: &'a mut Space,
    reserve: &'a mut Space,
    ticket: Ticket,
) -> Option<&'a mut Slot> {
    match common.slots.get_mut(&ticket) {
        Some(slot) => Some(slot),
        None => reserve.slots.get_mut(&ticket),
    }
}
