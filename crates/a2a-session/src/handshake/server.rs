//! The server's side of all handshakes (profile §8.2).

use std::sync::Arc;
use std::time::Duration;

use a2a_identity::{Anchor, Did, NoRandomness, Peer, Randomness};
use a2a_wire::{DidText, Digest, ErrorCode, Kind, Message, Reason, Version};

use super::Deadline;
use super::claim::{Accept, Arriving, Claim, Greet, Names, Next, Prove, Step, Worked, misplaced};
use super::hello::Claimed;
use super::proof::STATE_SIZE;
use super::reply::{Cause, Proving, Refused, Reply};
use super::slots::{SessionSlot, SessionTable, agent_key};
use super::table::{HalfOpen, Lapsed, Ticket};
use super::vetting::Found;
use crate::config::{Directory, ServerConfig};
use crate::failure::{Failure, failed, replayed, timed_out};
use crate::replay::Nonces;
use crate::sources::{Source, Sources};
use crate::{Now, Own, times};

/// A server's handshakes, and how many sessions each agent has.
///
/// It is driven with `handle_message`; if that says [`Reply::Resolve`], find out what it needs and
/// call `handle_found`. Where many clients come at once, the server is locked for `claim` (or
/// `resume`) and for `settle` only: what is costly lies between them. `handle_timeout` when
/// `poll_timeout` says so. Whoever ends a session calls [`Server::session_ended`].
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub struct Server {
    own: Arc<Own>,
    config: Arc<ServerConfig>,
    table: HalfOpen,
    /// The nonces that agents have finished handshakes with.
    nonces: Nonces,
    sources: Sources,
    sessions: SessionTable,
}

impl Server {
    /// A server without handshakes.
    #[must_use]
    pub fn new(own: Arc<Own>, config: ServerConfig) -> Self {
        let limits = config.limits;
        Self {
            own,
            config: Arc::new(config),
            table: HalfOpen::new(&limits),
            nonces: Nonces::new(times::NONCE, limits.nonces),
            sources: Sources::new(limits.sources),
            sessions: SessionTable::new(&limits),
        }
    }

    /// Goes on with another manifest or key; handshakes under way keep theirs.
    pub fn set_own(&mut self, own: Arc<Own>) {
        self.own = own;
    }

    /// Goes on with other trust anchors, for handshakes from now on and those under way.
    pub fn set_anchors(&mut self, anchors: Vec<Anchor>) {
        Arc::make_mut(&mut self.config).trust.anchors = anchors;
    }

    /// Takes a message to the handshake address: [`Arriving::read`], `claim`, [`Claim::work`] and
    /// `settle` in one.
    ///
    /// # Errors
    /// What is refused, and the error to send.
    pub fn handle_message(
        &mut self,
        now: Now,
        source: Source,
        message: &[u8],
        directory: &dyn Directory,
        random: &mut dyn Randomness,
    ) -> Result<Reply, Box<Refused>> {
        let arriving = Arriving::read(message, random)?;
        let claim = self.claim(now, source, &arriving)?;
        self.settle(now, claim.work(now, directory, random))
    }

    /// Goes on with what was found out about a client: `resume`, [`Claim::work`] and `settle` in one.
    ///
    /// # Errors
    /// As [`Server::handle_message`].
    pub fn handle_found(
        &mut self,
        now: Now,
        proving: Box<Proving>,
        found: Found,
        directory: &dyn Directory,
    ) -> Result<Reply, Box<Refused>> {
        let claim = self.resume(now, proving, found);
        // Who it is has nothing to do with chance.
        let mut no_random = |_: &mut [u8]| Err(NoRandomness);
        self.settle(now, claim.work(now, directory, &mut no_random))
    }

    /// Takes out the state that a message claims, or a place for a new one: what follows is nobody
    /// else's, and there is never more of it than fits.
    ///
    /// # Errors
    /// If there is no such state, no room, or the HELLO cannot be fresh.
    pub fn claim<'a>(
        &mut self,
        now: Now,
        source: Source,
        arriving: &'a Arriving<'a>,
    ) -> Result<Claim<'a>, Box<Refused>> {
        self.table.expire(now.monotonic);
        Ok(Claim(self.take(now, source, arriving)?))
    }

    /// Takes out nothing: what was claimed still is.
    pub fn resume(&mut self, now: Now, proving: Box<Proving>, found: Found) -> Claim<'static> {
        self.table.expire(now.monotonic);
        Claim(Step::Vet(proving, found, Arc::clone(&self.config)))
    }

    /// Puts the next state in the place of the one claimed. Any failure leaves nothing behind.
    ///
    /// # Errors
    /// What is refused, and the error to send.
    pub fn settle(&mut self, now: Now, worked: Worked) -> Result<Reply, Box<Refused>> {
        self.table.expire(now.monotonic);
        let Worked {
            ticket,
            party,
            outcome,
        } = worked;
        let settled = match (outcome, ticket) {
            (Ok(Next::GivenUp(code)), _) => Ok(Reply::GivenUp(code)),
            (Ok(next), Some(ticket)) => self.put(now, ticket, next),
            (Ok(_), None) => Err(timed_out()),
            (Err(failure), _) => Err(failure),
        };
        settled.map_err(|failure| {
            if let Some(ticket) = ticket {
                self.table.forget(ticket);
            }
            let cause = match party {
                Some(party) => party.cause(failure),
                None => Cause::from(failure),
            };
            Box::from(cause)
        })
    }

    /// Drops the handshakes that took too long.
    pub fn handle_timeout(&mut self, now: Now) {
        self.table.expire(now.monotonic);
        self.nonces.forget_old(now.monotonic);
    }

    /// The handshakes that ended without a message since this was called last: record them. Call
    /// it after every message, and after [`Server::handle_timeout`].
    pub fn take_lapsed(&mut self) -> Vec<Lapsed> {
        self.table.take_lapsed()
    }

    /// When to call [`Server::handle_timeout`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        self.table.next_deadline()
    }

    /// Gives the place of a session back that has ended.
    pub fn session_ended(&mut self, slot: &SessionSlot) {
        self.sessions.release(slot);
    }

    /// Says whether requests of a session run: one without may have to give way to another. A session
    /// begins as one that is in use.
    pub fn set_session_in_use(&mut self, slot: &SessionSlot, in_use: bool) {
        self.sessions.set_in_use(slot, in_use);
    }

    /// Handshakes under way.
    #[must_use]
    pub fn half_open(&self) -> usize {
        self.table.len()
    }

    /// Sessions that have not ended.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Nonces of finished handshakes that are remembered.
    #[must_use]
    pub fn nonces(&self) -> usize {
        self.nonces.len()
    }

    /// What tells two states of a server apart, for exploring them.
    #[cfg(test)]
    pub(super) fn fingerprint(&self) -> Digest {
        let (table, nonces) = (self.table.content(), self.nonces.content());
        let state = format!("{table}{nonces}{:?}", self.sessions);
        Digest::of(state.as_bytes())
    }

    fn take<'a>(
        &mut self,
        now: Now,
        source: Source,
        arriving: &'a Arriving<'a>,
    ) -> Result<Step<'a>, Cause> {
        let received = &arriving.received;
        match (&arriving.names, received.message()) {
            (Names::New(opening), Message::Hello(hello)) => {
                let claimed = Claimed { hello, opening };
                let begun = self.begin(now, (source, arriving.size), claimed);
                let (ticket, version) = begun.map_err(|failure| claimed.party().cause(failure))?;
                Ok(Step::Greet(Greet {
                    ticket,
                    claimed,
                    version,
                    received,
                    own: Arc::clone(&self.own),
                    config: Arc::clone(&self.config),
                }))
            }
            (Names::Challenged(ticket), Message::Proof(proof)) => {
                let state = self.table.take_proof(*ticket);
                let unmatched = || self.unmatched(source, &proof.agent_did, Kind::Proof);
                let state = state.ok_or_else(unmatched)?;
                Ok(Step::Prove(Prove {
                    ticket: *ticket,
                    state,
                    proof,
                    received,
                    config: Arc::clone(&self.config),
                }))
            }
            (Names::Offered(commitment), Message::AcceptPolicy(accept)) => {
                let taken = self.table.take_accept(commitment);
                let unmatched = || self.unmatched(source, &accept.agent_did, Kind::AcceptPolicy);
                let (ticket, state) = taken.ok_or_else(unmatched)?;
                Ok(Step::Accept(Accept {
                    ticket,
                    source,
                    state,
                    accept,
                    received,
                }))
            }
            // A client that gives up names its handshake by `nonce_b`, which nobody else knows.
            (Names::GivenUp(ticket, code), _) => {
                if let Some(ticket) = ticket {
                    self.table.forget(*ticket);
                }
                Ok(Step::GiveUp(code.clone()))
            }
            // What is named was read from the message itself.
            (_, other) => Err(misplaced(other.kind()).into()),
        }
    }

    /// Why a message belongs to no handshake: if its agent has one under way, what it names is wrong;
    /// that one stays as it is, for anyone may write the name of an agent.
    fn unmatched(&self, source: Source, agent: &DidText, kind: Kind) -> Failure {
        let agent = Did::parse(agent.as_str(), Peer::Baseline).map(|did| did.to_string());
        match agent.is_ok_and(|agent| self.table.expects(source, &agent, kind)) {
            true => failed(
                Reason::NonceMismatch,
                "it names another handshake than the one of its agent",
            ),
            false => timed_out(),
        }
    }

    /// Checks 1 to 5 of HELLO, and a place for it.
    fn begin(
        &mut self,
        now: Now,
        (source, size): (Source, usize),
        claimed: Claimed<'_>,
    ) -> Result<(Ticket, Version), Failure> {
        let size = size.saturating_add(STATE_SIZE);
        let cause = "the source begins too many handshakes";
        let rate = self.config.limits.hello_rate;
        self.sources.take(now, source, rate, cause)?;
        let (table, nonces) = (&self.table, &self.nonces);
        let is_fresh = |begun_with: &Digest| {
            table.check_fresh(begun_with)?;
            match nonces.contains(now.monotonic, begun_with) {
                true => Err(replayed(Reason::NonceReused, "the nonce was used before")),
                false => Ok(()),
            }
        };
        let version = claimed.check_first(&self.config, now, is_fresh)?;
        let ticket = Ticket::of(claimed.opening.nonce_b.as_str());
        let deadline = Deadline::begin(now, times::PROOF);
        let begun_with = claimed.opening.begun_with;
        self.table
            .reserve(now, ticket, (source, size), begun_with, deadline)?;
        Ok((ticket, version))
    }

    /// Checks 9 and 10 of PROOF, check 4 of ACCEPT_POLICY.
    fn put(&mut self, now: Now, ticket: Ticket, next: Next) -> Result<Reply, Failure> {
        let (is_put, reply) = match next {
            Next::Challenge(state, message) => {
                let is_put = self.table.put_proof(now, ticket, state)?;
                (is_put, Reply::Send(message))
            }
            Next::Resolve(proving) => (true, Reply::Resolve(proving)),
            Next::Offer {
                state,
                begun_with,
                message,
            } => {
                let most = state.policy.max_concurrent_sessions();
                let agent = agent_key(state.peer.did_text());
                self.sessions.check(&agent, most)?;
                if let Some(source) = self.table.source(ticket) {
                    let holder = state.peer.holder(source);
                    let remembered = self.nonces.insert(now.monotonic, holder, begun_with);
                    remembered.map_err(|full| {
                        Failure::new(ErrorCode::ServiceUnavailable, full.to_string())
                    })?;
                }
                (self.table.put_accept(ticket, state), Reply::Send(message))
            }
            Next::Establish(session, message) => {
                let is_put = self.table.forget(ticket);
                let mut evicted = None;
                if is_put {
                    let of_agent = session.policy().policy().max_concurrent_sessions();
                    evicted = self.sessions.reserve(&session.slot(), of_agent)?;
                }
                let reply = Reply::Established {
                    session,
                    message,
                    evicted,
                };
                (is_put, reply)
            }
            Next::GivenUp(code) => (true, Reply::GivenUp(code)),
        };
        match is_put {
            true => Ok(reply),
            false => Err(timed_out()),
        }
    }
}
