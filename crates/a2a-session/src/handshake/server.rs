//! The server's side of all handshakes (profile §8.2).

use std::sync::Arc;
use std::time::Duration;

use a2a_identity::{Anchor, Randomness};
use a2a_wire::{
    AcceptPolicy, Digest, ErrorCode, ErrorMessage, Hello, Kind, Message, Proof, Reason, Received,
    limits,
};
use policy::{Buckets, Refused as Limited};

use super::evidence::PeerVerified;
use super::hello::Claimed;
use super::payloads::unverified_member;
use super::reply::{Cause, Proving, Refused, Reply};
use super::slots::{Sessions, agent_key};
use super::table::{Source, Table, Ticket};
use super::vetting::{Found, Need, Progress};
use crate::config::{Directory, ServerConfig};
use crate::failure::{Failure, bad_field, replayed, timed_out, unverified, violation};
use crate::replay::Memory;
use crate::{Now, Own, times};

/// A server's handshakes, and how many sessions each agent has.
///
/// It is driven with `handle_message`; if that says [`Reply::Resolve`], find out what it needs and
/// call `handle_found`. `handle_timeout` when `poll_timeout` says so. Whoever ends a session calls
/// [`Server::session_ended`].
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub struct Server {
    own: Arc<Own>,
    config: Arc<ServerConfig>,
    table: Table,
    /// The nonces that agents have finished handshakes with.
    nonces: Memory<Digest>,
    sources: Sources,
    sessions: Sessions,
}

/// How often each source begins.
#[derive(Debug)]
struct Sources(Buckets<Source>);

/// For exploring states, in which nobody comes too often.
#[cfg(test)]
impl Clone for Sources {
    fn clone(&self) -> Self {
        Self(Buckets::new(1024))
    }
}

impl Server {
    /// A server without handshakes.
    #[must_use]
    pub fn new(own: Arc<Own>, config: ServerConfig) -> Self {
        let limits = config.limits;
        Self {
            own,
            config: Arc::new(config),
            table: Table::default(),
            nonces: Memory::new(times::NONCE, limits.nonces),
            sources: Sources(Buckets::new(limits.sources)),
            sessions: Sessions::default(),
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

    /// Takes a message to the handshake address.
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
        self.table.expire(now.monotonic);
        let received = Received::parse(message, limits::HANDSHAKE);
        let received = received.map_err(|error| Cause::from(Failure::from(error)))?;
        let reply = match received.message() {
            Message::Hello(hello) => {
                let size = message.len();
                self.hello(now, (source, size), hello, &received, (directory, random))
            }
            Message::Proof(proof) => self.proof(now, proof, &received, directory),
            Message::AcceptPolicy(accept) => self.accept(now, accept, &received, random),
            Message::Error(error) => Ok(self.given_up(error)),
            other @ (Message::Challenge(_)
            | Message::Policy(_)
            | Message::Session(_)
            | Message::Request(_)
            | Message::Response(_)
            | Message::Cancel(_)
            | Message::Close(_)
            | Message::ResponseChunk(_)) => Err(misplaced(other.kind()).into()),
        };
        Ok(reply?)
    }

    /// Goes on with what was found out about a client.
    ///
    /// # Errors
    /// As [`Server::handle_message`].
    pub fn handle_found(
        &mut self,
        now: Now,
        mut proving: Box<Proving>,
        found: Found,
        directory: &dyn Directory,
    ) -> Result<Reply, Box<Refused>> {
        self.table.expire(now.monotonic);
        let outcome = match proving.state.vetting.found(found) {
            Ok(()) => self.vet(now, *proving, directory),
            Err(failure) => {
                self.table.forget(proving.ticket);
                Err(Cause {
                    failure,
                    agent: Some(proving.state.vetting.did_text.clone()),
                    proven: true,
                    binding: proving.state.vetting.binding,
                })
            }
        };
        Ok(outcome?)
    }

    /// Drops the handshakes that took too long.
    pub fn handle_timeout(&mut self, now: Now) {
        self.table.expire(now.monotonic);
        self.nonces.forget_old(now.monotonic, usize::MAX);
    }

    /// When to call [`Server::handle_timeout`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        self.table.next_deadline()
    }

    /// Gives the place of a session back that has ended.
    pub fn session_ended(&mut self, peer: &PeerVerified) {
        self.sessions.release(&agent_key(peer.did_text()));
    }

    /// Handshakes under way.
    #[must_use]
    pub fn half_open(&self) -> usize {
        self.table.len()
    }

    /// Sessions that have not ended.
    #[must_use]
    pub const fn sessions(&self) -> usize {
        self.sessions.total
    }

    /// Nonces of finished handshakes that are remembered.
    #[must_use]
    pub fn nonces(&self) -> usize {
        self.nonces.len()
    }

    /// What tells two states of a server apart, for exploring them.
    #[cfg(test)]
    pub(super) fn fingerprint(&self) -> Digest {
        let state = format!("{:?}{:?}{:?}", self.table, self.nonces, self.sessions);
        Digest::of(state.as_bytes())
    }

    fn hello(
        &mut self,
        now: Now,
        (source, size): (Source, usize),
        hello: &Hello,
        received: &Received<'_>,
        (directory, random): (&dyn Directory, &mut dyn Randomness),
    ) -> Result<Reply, Cause> {
        let claimed = Claimed::new(hello);
        let cause = |failure| Cause {
            failure,
            agent: Some(hello.agent_did.clone()),
            proven: false,
            binding: claimed.binding,
        };
        let size = size.saturating_add(STATE_SIZE);
        self.check_source(now, source, size).map_err(cause)?;
        let (table, nonces) = (&self.table, &self.nonces);
        let is_fresh = |begun_with: &Digest| {
            table.check_fresh(begun_with)?;
            match nonces.contains(now.monotonic, begun_with) {
                true => Err(replayed(Reason::NonceReused, "the nonce was used before")),
                false => Ok(()),
            }
        };
        let greeting = claimed.check(&self.own, &self.config, directory, now, is_fresh);
        let challenge =
            greeting
                .map_err(cause)?
                .challenge(&self.own, &self.config, received, now, random);
        let (state, message) = challenge.map_err(cause)?;
        self.table.insert(source, size, state);
        Ok(Reply::Send(message))
    }

    /// Check 1: how often this source comes, and whether there is room.
    fn check_source(&mut self, now: Now, source: Source, size: usize) -> Result<(), Failure> {
        let limits = &self.config.limits;
        self.table.check_room(limits, now, source, size)?;
        let taken = self
            .sources
            .0
            .take(now.monotonic, [(&source, limits.hello_rate)]);
        taken.map_err(|refused| {
            let wait = match refused {
                Limited::Exceeded(limited) => limited.exceeded.retry_after,
                Limited::NoRoom { retry_after } => retry_after,
            };
            let millis = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
            let cause = "the source begins too many handshakes";
            let failure = Failure::new(ErrorCode::ServiceUnavailable, cause);
            failure.with_number("retry_after_ms", millis.max(1))
        })
    }

    fn proof(
        &mut self,
        now: Now,
        proof: &Proof,
        received: &Received<'_>,
        directory: &dyn Directory,
    ) -> Result<Reply, Cause> {
        let nonce_b = unverified_member(proof.proof_jws.as_str(), "nonce_b")?;
        let taken = self.table.take_proof(&nonce_b);
        let (ticket, mut state) = taken.ok_or_else(timed_out)?;
        let checked = state.check(proof, received, now);
        let proof = checked.map_err(|failure| {
            self.table.forget(ticket);
            Cause {
                failure,
                agent: Some(state.vetting.did_text.clone()),
                proven: false,
                binding: state.vetting.binding,
            }
        })?;
        let need = Need::Issuers(Vec::new());
        let proving = Proving {
            ticket,
            state,
            proof,
            need,
        };
        self.vet(now, proving, directory)
    }

    /// Checks 5 to 10, as far as what is known allows; any failure leaves nothing behind.
    fn vet(
        &mut self,
        now: Now,
        proving: Proving,
        directory: &dyn Directory,
    ) -> Result<Reply, Cause> {
        let ticket = proving.ticket;
        let agent = proving.state.vetting.did_text.clone();
        let binding = proving.state.vetting.binding;
        self.try_vet(now, proving, directory).map_err(|failure| {
            self.table.forget(ticket);
            Cause {
                failure,
                agent: Some(agent),
                proven: true,
                binding,
            }
        })
    }

    fn try_vet(
        &mut self,
        now: Now,
        mut proving: Proving,
        directory: &dyn Directory,
    ) -> Result<Reply, Failure> {
        proving.state.deadline.check(now)?;
        let progress = proving.state.vetting.advance(now, &self.config.trust)?;
        match progress {
            Progress::Needs(need) => {
                proving.need = need;
                Ok(Reply::Resolve(Box::new(proving)))
            }
            Progress::Done(peer) => self.offer(now, proving, peer, directory),
        }
    }

    /// Checks 7 (the key), 8 (the block list), 9 and 10.
    fn offer(
        &mut self,
        now: Now,
        proving: Proving,
        peer: PeerVerified,
        directory: &dyn Directory,
    ) -> Result<Reply, Failure> {
        let Proving {
            ticket,
            state,
            mut proof,
            ..
        } = proving;
        // The state of the key is the manifest's, not what HELLO said of it.
        let known = peer.keys().get(proof.key.kid.as_str());
        let usable = known.filter(|key| key.verifies_at(now.unix));
        proof.key = usable
            .ok_or_else(|| unverified("the key of PROOF is not usable"))?
            .clone();
        if directory.is_blocked(peer.did()) {
            return Err(violation(Reason::AgentBlocked, "the agent is blocked"));
        }
        let most = state.policy.max_concurrent_sessions();
        self.sessions.check(&agent_key(peer.did_text()), most)?;
        let begun_with = state.begun_with;
        let (next, message) = state.offer(peer, proof, now)?;
        self.nonces
            .insert(now.monotonic, begun_with)
            .map_err(|full| Failure::new(ErrorCode::ServiceUnavailable, full.to_string()))?;
        match self.table.put_accept(ticket, next) {
            true => Ok(Reply::Send(message)),
            false => Err(timed_out()),
        }
    }

    fn accept(
        &mut self,
        now: Now,
        accept: &AcceptPolicy,
        received: &Received<'_>,
        random: &mut dyn Randomness,
    ) -> Result<Reply, Cause> {
        let commitment = unverified_member(accept.acceptance_jws.as_str(), "session_commitment")?;
        let commitment: Digest = commitment
            .parse()
            .map_err(|_| bad_field("payload", "the commitment is no hash"))?;
        let mut state = self.table.take_accept(&commitment).ok_or_else(timed_out)?;
        let agent = state.peer.did_text().clone();
        let binding = state.binding;
        let cause = |failure| Cause {
            failure,
            agent: Some(agent.clone()),
            proven: true,
            binding,
        };
        state.check(accept, received, now).map_err(cause)?;
        let key = agent_key(&agent);
        let most = state.policy.max_concurrent_sessions();
        let limit = self.config.limits.sessions;
        self.sessions.reserve(key, most, limit).map_err(cause)?;
        let (session, message) = state.establish(now, random).map_err(|failure| {
            self.sessions.release(&key);
            cause(failure)
        })?;
        Ok(Reply::Established { session, message })
    }

    /// A client that gives up names its handshake by `nonce_b`, which nobody else knows.
    fn given_up(&mut self, error: &ErrorMessage) -> Reply {
        let extensions = error.extensions.as_ref();
        let nonce_b = extensions.and_then(|it| it.get("nonce_b")?.as_str());
        if let Some(nonce_b) = nonce_b {
            self.table.forget(Ticket::of(nonce_b));
        }
        Reply::GivenUp(error.error_code.clone())
    }
}

/// A message that does not belong here.
fn misplaced(kind: Kind) -> Failure {
    let cause = format!("a message of type `{}` does not belong here", kind.as_str());
    Failure::new(ErrorCode::InvalidMessage, cause).because(Reason::UnknownType)
}

/// Bytes that a handshake under way takes beside its HELLO.
const STATE_SIZE: usize = 2048;
