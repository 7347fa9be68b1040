//! What a message claims at a server, worked on without the server: every signature of a handshake is
//! verified and made here, so that handshakes of many clients do not wait for each other.

use std::sync::Arc;

use a2a_identity::Randomness;
use a2a_wire::{
    AcceptPolicy, Digest, ErrorCode, Kind, Message, Proof, Reason, Received, Version, limits,
};
use policy::EffectivePolicy;

use super::evidence::{Established, PeerVerified};
use super::hello::{Claimed, ExpectProof, Opening};
use super::inline::Inline;
use super::payloads::unverified_member;
use super::proof::ExpectAcceptPolicy;
use super::reply::{Cause, Party, Proving, Refused};
use super::table::Ticket;
use super::vetting::{Found, Need, Progress};
use crate::config::{Directory, ServerConfig};
use crate::failure::{Failure, bad_field, unverified, violation};
use crate::{Now, Own, Source};

/// A message to the handshake address, read and not looked at further.
#[derive(Debug)]
pub struct Arriving<'m> {
    pub(super) received: Received<'m>,
    pub(super) size: usize,
    pub(super) names: Names,
}

/// Which handshake a message is about, by what only its client can know.
#[derive(Debug)]
pub(super) enum Names {
    New(Box<Opening>),
    Challenged(Ticket),
    Offered(Digest),
    GivenUp(Option<Ticket>, ErrorCode),
}

/// What a message has claimed: nobody else has it. Call [`Claim::work`], then
/// [`Server::settle`](crate::Server::settle).
#[derive(Debug)]
pub struct Claim<'a>(pub(super) Step<'a>);

#[derive(Debug)]
pub(super) enum Step<'a> {
    Greet(Greet<'a>),
    Prove(Prove<'a>),
    Vet(Box<Proving>, Found, Arc<ServerConfig>),
    Accept(Accept<'a>),
    GiveUp(ErrorCode),
}

/// A HELLO that may be fresh.
#[derive(Debug)]
pub(super) struct Greet<'a> {
    pub(super) ticket: Ticket,
    pub(super) claimed: Claimed<'a>,
    pub(super) version: Version,
    pub(super) received: &'a Received<'a>,
    pub(super) own: Arc<Own>,
    pub(super) config: Arc<ServerConfig>,
}

/// A PROOF, and the state it claims.
#[derive(Debug)]
pub(super) struct Prove<'a> {
    pub(super) ticket: Ticket,
    pub(super) state: Box<ExpectProof>,
    pub(super) proof: &'a Proof,
    pub(super) received: &'a Received<'a>,
    pub(super) config: Arc<ServerConfig>,
}

/// An ACCEPT_POLICY, and the state it claims.
#[derive(Debug)]
pub(super) struct Accept<'a> {
    pub(super) ticket: Ticket,
    pub(super) source: Source,
    pub(super) state: Box<ExpectAcceptPolicy>,
    pub(super) accept: &'a AcceptPolicy,
    pub(super) received: &'a Received<'a>,
}

/// What came of a claim, for [`Server::settle`](crate::Server::settle).
#[derive(Debug)]
pub struct Worked {
    pub(super) ticket: Option<Ticket>,
    pub(super) party: Option<Party>,
    pub(super) outcome: Result<Next, Failure>,
}

#[derive(Debug)]
pub(super) enum Next {
    Challenge(Box<ExpectProof>, Vec<u8>),
    Resolve(Box<Proving>),
    Offer {
        state: Box<ExpectAcceptPolicy>,
        begun_with: Digest,
        message: Vec<u8>,
    },
    Establish(Box<Established<EffectivePolicy>>, Vec<u8>),
    GivenUp(ErrorCode),
}

impl<'m> Arriving<'m> {
    /// Reads a message, and draws the nonce of the answer if it is HELLO.
    ///
    /// # Errors
    /// If it is none that a server takes.
    pub fn read(message: &'m [u8], random: &mut dyn Randomness) -> Result<Self, Box<Refused>> {
        Ok(Self::try_read(message, random).map_err(Cause::from)?)
    }

    fn try_read(message: &'m [u8], random: &mut dyn Randomness) -> Result<Self, Failure> {
        let received = Received::parse(message, limits::HANDSHAKE)?;
        let names = match received.message() {
            Message::Hello(hello) => Names::New(Box::new(Opening::of(hello, random)?)),
            Message::Proof(proof) => {
                let nonce_b = unverified_member(proof.proof_jws.as_str(), "nonce_b")?;
                Names::Challenged(Ticket::of(&nonce_b))
            }
            Message::AcceptPolicy(accept) => {
                let jws = accept.acceptance_jws.as_str();
                let commitment = unverified_member(jws, "session_commitment")?.parse();
                let no_hash = |_| bad_field("payload", "the commitment is no hash");
                Names::Offered(commitment.map_err(no_hash)?)
            }
            Message::Error(error) => {
                let extensions = error.extensions.as_ref();
                let nonce_b = extensions.and_then(|it| it.get("nonce_b")?.as_str());
                Names::GivenUp(nonce_b.map(Ticket::of), error.error_code.clone())
            }
            other @ (Message::Challenge(_)
            | Message::Policy(_)
            | Message::Session(_)
            | Message::Request(_)
            | Message::Response(_)
            | Message::Cancel(_)
            | Message::Close(_)
            | Message::ResponseChunk(_)) => return Err(misplaced(other.kind())),
        };
        Ok(Self {
            received,
            size: message.len(),
            names,
        })
    }
}

impl Claim<'_> {
    /// Checks what was claimed and makes the answer: at most a few signatures, and no lock.
    #[must_use]
    pub fn work(self, now: Now, directory: &dyn Directory, random: &mut dyn Randomness) -> Worked {
        match self.0 {
            Step::Greet(greet) => greet.work(now, directory, random),
            Step::Prove(prove) => prove.work(now, directory),
            Step::Vet(mut proving, found, config) => {
                let (ticket, mut party) = (proving.ticket, proving.state.party());
                party.proven = true;
                let found = proving.state.vetting.found(found);
                let outcome = found.and_then(|()| vet(now, proving, directory, &config));
                Worked::of(ticket, party, outcome)
            }
            Step::Accept(accept) => accept.work(now, random),
            Step::GiveUp(code) => Worked {
                ticket: None,
                party: None,
                outcome: Ok(Next::GivenUp(code)),
            },
        }
    }
}

impl Greet<'_> {
    fn work(self, now: Now, directory: &dyn Directory, random: &mut dyn Randomness) -> Worked {
        let (own, config) = (&self.own, &*self.config);
        let greeting = (self.claimed).check(self.version, own, config, directory, now);
        let challenge = greeting
            .and_then(|greeting| greeting.challenge(own, config, self.received, now, random));
        let outcome = challenge.map(|(state, message)| Next::Challenge(state, message));
        Worked::of(self.ticket, self.claimed.party(), outcome)
    }
}

impl Prove<'_> {
    fn work(mut self, now: Now, directory: &dyn Directory) -> Worked {
        let mut party = self.state.party();
        let checked = self.state.check(self.proof, self.received, now);
        party.proven = checked.is_ok();
        let outcome = checked.and_then(|proof| {
            let proving = Proving {
                ticket: self.ticket,
                state: self.state,
                proof,
                need: Need::Issuers(Vec::new()),
            };
            vet(now, Box::new(proving), directory, &self.config)
        });
        Worked::of(self.ticket, party, outcome)
    }
}

impl Accept<'_> {
    fn work(mut self, now: Now, random: &mut dyn Randomness) -> Worked {
        let party = self.state.party();
        let checked = self.state.check(self.accept, self.received, now);
        let established = checked.and_then(|()| self.state.establish(now, self.source, random));
        let outcome = established.map(|(session, message)| Next::Establish(session, message));
        Worked::of(self.ticket, party, outcome)
    }
}

impl Worked {
    const fn of(ticket: Ticket, party: Party, outcome: Result<Next, Failure>) -> Self {
        Self {
            ticket: Some(ticket),
            party: Some(party),
            outcome,
        }
    }
}

/// Checks 5 to 8 of PROOF, as far as what is known allows.
fn vet(
    now: Now,
    mut proving: Box<Proving>,
    directory: &dyn Directory,
    config: &ServerConfig,
) -> Result<Next, Failure> {
    proving.state.deadline.check(now)?;
    match proving.state.vetting.advance(now, &config.trust)? {
        Progress::Needs(need) => {
            proving.need = need;
            Ok(Next::Resolve(proving))
        }
        Progress::Done(peer) => offer(now, *proving, peer, directory),
    }
}

/// Checks 7 (the key) and 8 (the block list), and POLICY.
fn offer(
    now: Now,
    proving: Proving,
    peer: PeerVerified,
    directory: &dyn Directory,
) -> Result<Next, Failure> {
    let Proving {
        mut state,
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
    // Only who has proven itself leaves something behind.
    if let Some(Inline::Verified(manifest)) = state.vetting.inline.take() {
        directory.keep_manifest(peer.did(), manifest);
    }
    let begun_with = state.begun_with;
    let (state, message) = state.offer(peer, proof, now)?;
    Ok(Next::Offer {
        state,
        begun_with,
        message,
    })
}

/// A message that does not belong here.
pub(super) fn misplaced(kind: Kind) -> Failure {
    let cause = format!("a message of type `{}` does not belong here", kind.as_str());
    Failure::new(ErrorCode::InvalidMessage, cause).because(Reason::UnknownType)
}
