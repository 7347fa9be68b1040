//! PROOF and ACCEPT_POLICY at the server (profile §8.2).

use std::sync::Arc;

use a2a_identity::seal::Role;
use a2a_identity::{KeySet, Randomness, Signed};
use a2a_wire::{
    AcceptPayload, AcceptPolicy, Count, Digest, ErrorCode, KeyExchange, Kind, Message, PolicyOffer,
    PolicyPayload, Proof, ProofPayload, Reason, Received, Session, SessionId, SessionPayload,
    Transcript, session_commitment,
};
use policy::EffectivePolicy;

use super::evidence::{Established, PeerVerified, PolicyAccepted, ProofValid};
use super::hello::{ExpectProof, wire_policy};
use super::inline::Inline;
use super::payloads::{Bound, Stated, is_did, same_digest};
use super::reply::Party;
use super::{Deadline, Features, Half, sign_message};
use crate::config::Baseline;
use crate::failure::{Binding, Failure, failed};
use crate::{Now, Own, Source, times};

/// A server that has sent POLICY and waits for ACCEPT_POLICY.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct ExpectAcceptPolicy {
    own: Arc<Own>,
    pub(crate) binding: Binding,
    baseline: Baseline,
    pub(crate) peer: PeerVerified,
    proof: ProofValid,
    pub(crate) policy: EffectivePolicy,
    policy_hash: Digest,
    pub(crate) commitment: Digest,
    transcript: Transcript,
    half: Half,
    theirs: Option<KeyExchange>,
    features: Features,
    pub(crate) deadline: Deadline,
}

/// Bytes that a handshake under way takes at most beside what its client can make large: it is
/// mostly names, and the ten keys of HELLO and of its manifest.
pub(super) const STATE_SIZE: usize = 12 * 1024;

impl ExpectProof {
    /// Bytes that it takes.
    pub(super) fn size(&self) -> usize {
        STATE_SIZE
            .saturating_add(self.vetting.inline.as_ref().map_or(0, Inline::size))
            .saturating_add(self.policy.size())
    }

    /// Whom HELLO said it is from.
    pub(super) fn party(&self) -> Party {
        Party {
            agent: self.vetting.did_text.clone(),
            proven: false,
            binding: self.vetting.binding,
        }
    }

    /// Checks 2 to 4: what needs nobody but the client.
    pub(crate) fn check(
        &mut self,
        proof: &Proof,
        received: &Received<'_>,
        now: Now,
    ) -> Result<ProofValid, Failure> {
        self.deadline.check(now)?;
        let vetting = &self.vetting;
        if !is_did(&proof.agent_did, &vetting.did, vetting.binding) {
            let cause = "the agent is not the one of HELLO";
            return Err(Failure::new(ErrorCode::HandshakeFailed, cause));
        }
        let peer = vetting.binding.peer();
        let signed: Signed<ProofPayload> = Signed::parse(&proof.proof_jws, peer)?;
        let verified = signed.verify(&vetting.claimed, now.unix)?;
        let stated = verified.payload();
        let message_hash = received.hash();
        let bound = Bound::by_peer(
            vetting.binding,
            &vetting.did,
            &self.own,
            (&self.transcript, &message_hash),
            now,
        );
        bound.check_nonces(
            [Some(&stated.nonce_a), Some(&stated.nonce_b)],
            [&self.nonce_a, &self.nonce_b],
        )?;
        let server = Some(stated.server_manifest_hash);
        let client = Some(stated.client_manifest_hash);
        bound.check_hashes(&[
            (server, self.own.manifest_hash()),
            (client, vetting.manifest_hash),
        ])?;
        bound.check(&Stated {
            issuer: stated.issuer.as_ref(),
            audience: stated.audience.as_ref(),
            transcript_hash: stated.transcript_hash,
            timestamp: Some(stated.timestamp),
        })?;
        self.transcript.add(&message_hash, received.jws());
        Ok(ProofValid {
            key: verified.key().clone(),
        })
    }

    /// Makes POLICY, and the state that waits for ACCEPT_POLICY.
    pub(crate) fn offer(
        mut self,
        peer: PeerVerified,
        proof: ProofValid,
        now: Now,
    ) -> Result<(Box<ExpectAcceptPolicy>, Vec<u8>), Failure> {
        let message = PolicyOffer {
            policy: wire_policy(&self.policy)?,
            policy_hash: self.policy_hash,
            policy_signature: self.own.placeholder(),
        };
        let payload = |transcript_hash| PolicyPayload {
            issuer: Some(self.own.did_text().clone()),
            audience: Some(self.vetting.did_text.clone()),
            timestamp: Some(now.unix),
            policy_hash: Some(self.policy_hash),
            nonce_a: Some(self.nonce_a.clone()),
            nonce_b: Some(self.nonce_b.clone()),
            transcript_hash: Some(transcript_hash),
        };
        let tree = Message::Policy(message).into_object();
        let bytes = sign_message(
            Kind::Policy,
            tree,
            &mut self.transcript,
            (&self.own, self.vetting.binding),
            payload,
        );
        let commitment = session_commitment(&self.nonce_a, &self.nonce_b, &self.policy_hash);
        let state = ExpectAcceptPolicy {
            own: self.own,
            binding: self.vetting.binding,
            baseline: self.baseline,
            peer,
            proof,
            policy: self.policy,
            policy_hash: self.policy_hash,
            commitment,
            transcript: self.transcript,
            half: self.half,
            theirs: self.theirs,
            features: self.features,
            deadline: self.deadline.next(now, times::ACCEPT),
        };
        Ok((Box::new(state), bytes))
    }
}

impl ExpectAcceptPolicy {
    /// Who has proven itself.
    pub(super) fn party(&self) -> Party {
        Party {
            agent: self.peer.did_text.clone(),
            proven: true,
            binding: self.binding,
        }
    }

    /// Checks 2 and 3.
    pub(crate) fn check(
        &mut self,
        accept: &AcceptPolicy,
        received: &Received<'_>,
        now: Now,
    ) -> Result<(), Failure> {
        self.deadline.check(now)?;
        if !is_did(&accept.agent_did, &self.peer.did, self.binding) {
            let cause = "the agent is not the one of HELLO";
            return Err(Failure::new(ErrorCode::HandshakeFailed, cause));
        }
        let signed: Signed<AcceptPayload> =
            Signed::parse(&accept.acceptance_jws, self.binding.peer())?;
        // The key that signed PROOF, and no other.
        let keys = KeySet::new(vec![self.proof.key.clone()]);
        let keys =
            keys.map_err(|error| Failure::new(ErrorCode::InternalError, error.to_string()))?;
        let verified = signed.verify(&keys, now.unix)?;
        let stated = verified.payload();
        if accept.policy_hash != self.policy_hash || stated.policy_hash != self.policy_hash {
            let cause = "another policy was accepted than the one sent";
            return Err(failed(Reason::PolicyMismatch, cause));
        }
        if !same_digest(&stated.session_commitment, &self.commitment) {
            return Err(failed(Reason::HashMismatch, "the commitment is another"));
        }
        let message_hash = received.hash();
        let bound = Bound::by_peer(
            self.binding,
            &self.peer.did,
            &self.own,
            (&self.transcript, &message_hash),
            now,
        );
        bound.check(&Stated {
            issuer: stated.issuer.as_ref(),
            audience: stated.audience.as_ref(),
            transcript_hash: stated.transcript_hash,
            timestamp: Some(stated.timestamp),
        })?;
        self.transcript.add(&message_hash, received.jws());
        Ok(())
    }

    /// Makes SESSION.
    pub(crate) fn establish(
        mut self,
        now: Now,
        source: Source,
        random: &mut dyn Randomness,
    ) -> Result<(Box<Established<EffectivePolicy>>, Vec<u8>), Failure> {
        let mut id = [0; 32];
        random.fill(&mut id)?;
        let session_id = SessionId::of(&id);
        let seconds = self.policy.session_timeout();
        let expires_at = now.unix.plus(i64::from(seconds));
        let message = Session {
            session_id: session_id.clone(),
            server_did: self.own.did_text().clone(),
            created_at: now.unix,
            expires_at,
            message_count: Count::ZERO,
            public_keys: self.own.public_keys(),
            session_jws: None,
        };
        let payload = |transcript_hash| SessionPayload {
            issuer: Some(self.own.did_text().clone()),
            audience: Some(self.peer.did_text.clone()),
            timestamp: Some(now.unix),
            session_id: Some(session_id.clone()),
            created_at: Some(now.unix),
            expires_at: Some(expires_at),
            policy_hash: Some(self.policy_hash),
            session_commitment: Some(self.commitment),
            transcript_hash: Some(transcript_hash),
        };
        let tree = Message::Session(message).into_object();
        let bytes = sign_message(
            Kind::Session,
            tree,
            &mut self.transcript,
            (&self.own, self.binding),
            payload,
        );
        let transcript = *self.transcript.state();
        let channel =
            match (self.half.0, &self.theirs) {
                (Some(half), Some(theirs)) => {
                    let agreed = half.agree(theirs, &transcript, Role::Server);
                    Some(agreed.map_err(|error| {
                        Failure::new(ErrorCode::HandshakeFailed, error.to_string())
                    })?)
                }
                _ => None,
            };
        let established = Established {
            own: self.own,
            holder: self.peer.holder(source),
            peer: self.peer,
            proof: self.proof,
            policy: PolicyAccepted {
                policy: self.policy,
                hash: self.policy_hash,
                commitment: self.commitment,
            },
            binding: self.binding,
            baseline: self.baseline,
            features: self.features,
            session_id,
            created_at: now.unix,
            expires_at,
            deadline: now.after(std::time::Duration::from_secs(u64::from(seconds))),
            transcript,
            channel,
        };
        Ok((Box::new(established), bytes))
    }
}
