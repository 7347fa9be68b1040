//! Handshakes under way at a server: found by what only the client can know, taken out once, never
//! more than fit (profile §8.2, §8.5).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use a2a_wire::ErrorCode;
use canonical::Digest;

use super::Deadline;
use super::hello::ExpectProof;
use super::proof::ExpectAcceptPolicy;
use crate::Now;
use crate::config::ServerLimits;
use crate::failure::{Failure, replayed};
use crate::sources::Source;

/// Names a handshake under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(Digest);

impl Ticket {
    /// That of a nonce of ours.
    pub(crate) fn of(nonce_b: &str) -> Self {
        Self(Digest::of(nonce_b.as_bytes()))
    }
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
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Table {
    slots: BTreeMap<Ticket, Slot>,
    begun_with: BTreeSet<Digest>,
    commitments: BTreeMap<Digest, Ticket>,
    deadlines: BTreeSet<(Duration, Ticket)>,
    sources: BTreeMap<Source, usize>,
    bytes: usize,
}

impl Table {
    /// Whether one more fits.
    pub(crate) fn check_room(
        &self,
        limits: &ServerLimits,
        now: Now,
        source: Source,
        size: usize,
    ) -> Result<(), Failure> {
        let from_source = self.sources.get(&source).copied().unwrap_or_default();
        let full = self.slots.len() >= limits.half_open
            || from_source >= limits.half_open_per_source
            || self.bytes.saturating_add(size) > limits.half_open_bytes;
        if !full {
            return Ok(());
        }
        let next = self.deadlines.first().map_or(now.monotonic, |(at, _)| *at);
        let wait = next.saturating_sub(now.monotonic);
        let millis = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        let cause = "too many handshakes are under way";
        let failure = Failure::new(ErrorCode::ServiceUnavailable, cause);
        Err(failure.with_number("retry_after_ms", millis.max(1)))
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

    /// Takes a place for a handshake whose CHALLENGE is being made.
    pub(crate) fn reserve(
        &mut self,
        ticket: Ticket,
        (source, size): (Source, usize),
        begun_with: Digest,
        deadline: Deadline,
    ) {
        let deadline = deadline.at();
        self.begun_with.insert(begun_with);
        self.deadlines.insert((deadline, ticket));
        let count = self.sources.entry(source).or_default();
        *count = count.saturating_add(1);
        self.bytes = self.bytes.saturating_add(size);
        let slot = Slot {
            state: State::Taken,
            source,
            size,
            begun_with,
            commitment: None,
            deadline,
        };
        self.slots.insert(ticket, slot);
    }

    /// Puts the first state in the place taken for it; `false` if its time is up. From now on it
    /// counts for what it keeps, which may be more than came.
    pub(crate) fn put_proof(&mut self, ticket: Ticket, state: Box<ExpectProof>) -> bool {
        let (deadline, size) = (state.deadline, state.size());
        let Some(slot) = self.put(ticket, State::Proof(state), deadline) else {
            return false;
        };
        let before = std::mem::replace(&mut slot.size, size);
        self.bytes = self.bytes.saturating_sub(before).saturating_add(size);
        true
    }

    /// Takes the state out that a PROOF claims. Its place stays until the outcome is known.
    pub(crate) fn take_proof(&mut self, ticket: Ticket) -> Option<Box<ExpectProof>> {
        let slot = self.slots.get_mut(&ticket)?;
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

    /// Puts the next state in the place of the one taken; `false` if its time is up.
    pub(crate) fn put_accept(&mut self, ticket: Ticket, state: Box<ExpectAcceptPolicy>) -> bool {
        let (commitment, deadline) = (state.commitment, state.deadline);
        let Some(slot) = self.put(ticket, State::Accept(state), deadline) else {
            return false;
        };
        slot.commitment = Some(commitment);
        self.commitments.insert(commitment, ticket);
        true
    }

    /// Takes the state out that an ACCEPT_POLICY claims. Its place stays until the outcome is known.
    pub(crate) fn take_accept(
        &mut self,
        commitment: &Digest,
    ) -> Option<(Ticket, Box<ExpectAcceptPolicy>)> {
        let ticket = self.commitments.remove(commitment)?;
        let slot = self.slots.get_mut(&ticket)?;
        match std::mem::replace(&mut slot.state, State::Taken) {
            State::Accept(state) => Some((ticket, state)),
            State::Proof(_) | State::Taken => None,
        }
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
            self.forget(ticket);
        }
    }

    /// When the next takes too long.
    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    fn put(&mut self, ticket: Ticket, state: State, deadline: Deadline) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(&ticket)?;
        self.deadlines.remove(&(slot.deadline, ticket));
        slot.deadline = deadline.at();
        self.deadlines.insert((slot.deadline, ticket));
        slot.state = state;
        Some(slot)
    }

    fn remove(&mut self, ticket: Ticket) -> Option<Slot> {
        let slot = self.slots.remove(&ticket)?;
        self.deadlines.remove(&(slot.deadline, ticket));
        self.begun_with.remove(&slot.begun_with);
        if let Some(commitment) = slot.commitment {
            self.commitments.remove(&commitment);
        }
        self.bytes = self.bytes.saturating_sub(slot.size);
        if let Some(count) = self.sources.get_mut(&slot.source) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.sources.remove(&slot.source);
            }
        }
        Some(slot)
    }
}
