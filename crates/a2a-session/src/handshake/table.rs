//! Handshakes under way at a server: found by what only the client can know, taken out once, never
//! more than fit (profile §8.2, §8.5).

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use a2a_wire::ErrorCode;
use canonical::Digest;

use super::hello::ExpectProof;
use super::proof::ExpectAcceptPolicy;
use crate::Now;
use crate::config::ServerLimits;
use crate::failure::{Failure, replayed};

/// Where a connection comes from: an IPv4 address, or the /64 of an IPv6 address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source(u64, bool);

impl From<IpAddr> for Source {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self(u64::from(address.to_bits()), false),
            IpAddr::V6(address) => {
                let network = address.to_bits() >> 64;
                Self(u64::try_from(network).unwrap_or_default(), true)
            }
        }
    }
}

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

    pub(crate) fn insert(&mut self, source: Source, size: usize, state: Box<ExpectProof>) {
        let ticket = Ticket::of(state.nonce_b.as_str());
        let deadline = state.deadline.at();
        let begun_with = state.begun_with;
        self.begun_with.insert(begun_with);
        self.deadlines.insert((deadline, ticket));
        let count = self.sources.entry(source).or_default();
        *count = count.saturating_add(1);
        self.bytes = self.bytes.saturating_add(size);
        let slot = Slot {
            state: State::Proof(state),
            source,
            size,
            begun_with,
            commitment: None,
            deadline,
        };
        self.slots.insert(ticket, slot);
    }

    /// Takes the state out that a PROOF claims. Its place stays until the outcome is known.
    pub(crate) fn take_proof(&mut self, nonce_b: &str) -> Option<(Ticket, Box<ExpectProof>)> {
        let ticket = Ticket::of(nonce_b);
        let slot = self.slots.get_mut(&ticket)?;
        match std::mem::replace(&mut slot.state, State::Taken) {
            State::Proof(mut state) => {
                // It came in time; finding out who it is may take what is left of the whole.
                self.deadlines.remove(&(slot.deadline, ticket));
                state.deadline = state.deadline.whole();
                slot.deadline = state.deadline.at();
                self.deadlines.insert((slot.deadline, ticket));
                Some((ticket, state))
            }
            other @ (State::Taken | State::Accept(_)) => {
                slot.state = other;
                None
            }
        }
    }

    /// Puts the next state in the place of the one taken; `false` if its time is up.
    pub(crate) fn put_accept(&mut self, ticket: Ticket, state: Box<ExpectAcceptPolicy>) -> bool {
        let Some(slot) = self.slots.get_mut(&ticket) else {
            return false;
        };
        let commitment = state.commitment;
        self.deadlines.remove(&(slot.deadline, ticket));
        slot.deadline = state.deadline.at();
        self.deadlines.insert((slot.deadline, ticket));
        slot.commitment = Some(commitment);
        slot.state = State::Accept(state);
        self.commitments.insert(commitment, ticket);
        true
    }

    /// Takes the state out that an ACCEPT_POLICY claims; nothing of it stays.
    pub(crate) fn take_accept(&mut self, commitment: &Digest) -> Option<Box<ExpectAcceptPolicy>> {
        let ticket = *self.commitments.get(commitment)?;
        match self.remove(ticket)?.state {
            State::Accept(state) => Some(state),
            State::Proof(_) | State::Taken => None,
        }
    }

    /// Drops a handshake.
    pub(crate) fn forget(&mut self, ticket: Ticket) {
        drop(self.remove(ticket));
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
