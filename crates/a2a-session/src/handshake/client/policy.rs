//! POLICY at the client, and the ACCEPT_POLICY that answers it.

use std::time::Duration;

use a2a_identity::{KeySet, Signed};
use a2a_wire::{
    AcceptPayload, AcceptPolicy, Digest, KeyExchange, Kind, Message, Nonce, PolicyOffer,
    PolicyPayload, Reason, session_commitment,
};
use policy::Policy;

use super::challenge::leads_to;
use super::{Aborted, Attempt, ExpectSession, not_the_server, unexpected};
use crate::failure::{Binding, Failure, failed, unverified, violation};
use crate::handshake::evidence::{PeerVerified, PolicyAccepted, ProofValid};
use crate::handshake::payloads::{Bound, Stated};
use crate::handshake::{Features, sign_message};
use crate::{Now, times};

/// A client that has a PROOF to send and then waits for POLICY.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub struct ExpectPolicy {
    pub(crate) attempt: Attempt,
    pub(crate) binding: Binding,
    pub(crate) peer: PeerVerified,
    pub(crate) proof: ProofValid,
    pub(crate) nonce_b: Nonce,
    /// The keys that CHALLENGE listed.
    pub(crate) server_keys: KeySet,
    pub(crate) policy_hash: Digest,
    pub(crate) theirs: Option<KeyExchange>,
    pub(crate) features: Features,
}

impl ExpectPolicy {
    /// PROOF is on its way: from now on POLICY has its time.
    pub const fn sent(&mut self, now: Now) {
        self.attempt.deadline = self.attempt.deadline.next(now, times::POLICY);
    }

    /// When it is over.
    #[must_use]
    pub fn deadline(&self) -> Duration {
        self.attempt.deadline.at()
    }

    /// The server's nonce, to be remembered: see
    /// [`Directory::saw_nonce`](crate::Directory::saw_nonce).
    #[must_use]
    pub const fn nonce_b(&self) -> &Nonce {
        &self.nonce_b
    }

    /// Takes what the server answered to PROOF; returns the next state and ACCEPT_POLICY.
    ///
    /// # Errors
    /// Why the handshake is over.
    pub fn handle_message(
        mut self,
        now: Now,
        message: &[u8],
    ) -> Result<(Box<ExpectSession>, Vec<u8>), Aborted> {
        let received = self.attempt.read(now, message)?;
        let message = received.message();
        let message_hash = received.hash();
        let checked = if let Message::Policy(offer) = message {
            self.check(offer, &message_hash, now)
        } else {
            Err(unexpected(message.kind()))
        };
        let policy = checked.map_err(|failure| Aborted::telling(failure, &self.nonce_b))?;
        let transcript = &mut self.attempt.transcript;
        transcript.add(&message_hash, received.jws());
        let commitment =
            session_commitment(&self.attempt.nonce_a, &self.nonce_b, &self.policy_hash);
        let message = self.accept(now, commitment);
        let next = ExpectSession {
            policy: PolicyAccepted {
                policy,
                hash: self.policy_hash,
                commitment,
            },
            attempt: Attempt {
                deadline: self.attempt.deadline.next(now, times::SEND_ACCEPT),
                ..self.attempt
            },
            binding: self.binding,
            peer: self.peer,
            proof: self.proof,
            nonce_b: self.nonce_b,
            server_keys: self.server_keys,
            theirs: self.theirs,
            features: self.features,
        };
        Ok((Box::new(next), message))
    }

    fn check(
        &self,
        offer: &PolicyOffer,
        message_hash: &Digest,
        now: Now,
    ) -> Result<Policy, Failure> {
        let same = offer.policy_hash == self.policy_hash && offer.policy.hash() == self.policy_hash;
        if !same {
            let cause = "the policy is not the one that CHALLENGE named";
            return Err(failed(Reason::PolicyMismatch, cause));
        }
        self.check_signature(offer, message_hash, now)?;
        let config = &self.attempt.config;
        // Members that POLICY leaves out have their defaults.
        let policy = Policy::read(offer.policy.tree(), config.payload_ceiling);
        let policy = policy.and_then(|policy| Ok(policy.complete()?.to_stated()));
        let policy = policy.map_err(|error| failed(Reason::PolicyInvalid, error.to_string()))?;
        let unacceptable = |cause: String| violation(Reason::PolicyUnacceptable, cause);
        let accepted = config.demands.accept(&policy);
        accepted.map_err(|error| unacceptable(error.to_string()))?;
        if policy.require_encryption() == Some(true) && self.theirs.is_none() {
            let cause = "the policy requires encryption and there is none";
            return Err(violation(Reason::EncryptionRequired, cause));
        }
        Ok(policy)
    }

    fn check_signature(
        &self,
        offer: &PolicyOffer,
        message_hash: &Digest,
        now: Now,
    ) -> Result<(), Failure> {
        let jws = &offer.policy_signature;
        let signed: Signed<PolicyPayload> = Signed::parse(jws, self.binding.peer())?;
        let verified = signed.verify(self.peer.keys(), now.unix)?;
        let stated = verified.payload();
        let transcript = (&self.attempt.transcript, message_hash);
        let (peer, own) = (self.peer.did(), &self.attempt.own);
        let bound = Bound::by_peer(self.binding, peer, own, transcript, now);
        let checked = bound
            .check(&Stated {
                issuer: stated.issuer.as_ref(),
                audience: stated.audience.as_ref(),
                transcript_hash: stated.transcript_hash,
                timestamp: stated.timestamp,
            })
            .and_then(|()| {
                bound.check_nonces(
                    [stated.nonce_a.as_ref(), stated.nonce_b.as_ref()],
                    [&self.attempt.nonce_a, &self.nonce_b],
                )
            });
        checked.map_err(not_the_server)?;
        let tree = verified.tree();
        match leads_to(stated.policy_hash, &tree, &self.policy_hash, self.binding) {
            true => Ok(()),
            false => Err(unverified("another policy was signed than the one sent")),
        }
    }

    fn accept(&mut self, now: Now, commitment: Digest) -> Vec<u8> {
        let own = &self.attempt.own;
        let message = AcceptPolicy {
            agent_did: own.did_text().clone(),
            policy_hash: self.policy_hash,
            acceptance_jws: own.placeholder(),
        };
        let payload = |transcript_hash| AcceptPayload {
            issuer: Some(own.did_text().clone()),
            audience: Some(self.peer.did_text().clone()),
            timestamp: now.unix,
            policy_hash: self.policy_hash,
            session_commitment: commitment,
            transcript_hash: Some(transcript_hash),
        };
        let tree = Message::AcceptPolicy(message).into_object();
        let transcript = &mut self.attempt.transcript;
        sign_message(
            Kind::AcceptPolicy,
            tree,
            transcript,
            (own, self.binding),
            payload,
        )
    }
}
