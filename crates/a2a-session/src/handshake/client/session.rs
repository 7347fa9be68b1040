//! SESSION at the client: the handshake is done.

use std::time::Duration;

use a2a_identity::seal::Role;
use a2a_identity::{KeySet, Signed};
use a2a_wire::{Digest, ErrorCode, KeyExchange, Message, Nonce, Session, SessionPayload};
use policy::Policy;

use super::{Aborted, Attempt, not_the_server, unexpected};
use crate::failure::{Binding, Failure, skewed, unverified};
use crate::handshake::Features;
use crate::handshake::evidence::{Established, PeerVerified, PolicyAccepted, ProofValid};
use crate::handshake::payloads::{Bound, Stated, is_did};
use crate::handshake::slots::agent_key;
use crate::{Holder, Now, times};

/// A client that has an ACCEPT_POLICY to send and then waits for SESSION.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub struct ExpectSession {
    pub(crate) attempt: Attempt,
    pub(crate) binding: Binding,
    pub(crate) peer: PeerVerified,
    pub(crate) proof: ProofValid,
    pub(crate) policy: PolicyAccepted<Policy>,
    pub(crate) nonce_b: Nonce,
    pub(crate) server_keys: KeySet,
    pub(crate) theirs: Option<KeyExchange>,
    pub(crate) features: Features,
}

impl ExpectSession {
    /// ACCEPT_POLICY is on its way: from now on SESSION has its time.
    pub const fn sent(&mut self, now: Now) {
        self.attempt.deadline = self.attempt.deadline.next(now, times::SESSION);
    }

    /// When it is over.
    #[must_use]
    pub fn deadline(&self) -> Duration {
        self.attempt.deadline.at()
    }

    /// Takes what the server answered to ACCEPT_POLICY.
    ///
    /// # Errors
    /// Why the handshake is over.
    pub fn handle_message(
        mut self,
        now: Now,
        message: &[u8],
    ) -> Result<Box<Established<Policy>>, Aborted> {
        let received = self.attempt.read(now, message)?;
        let nonce_b = self.nonce_b.clone();
        let told = |failure| Aborted::telling(failure, &nonce_b);
        let Message::Session(session) = received.message() else {
            return Err(told(unexpected(received.message().kind())));
        };
        self.check(session, now).map_err(told)?;
        let message_hash = received.hash();
        self.check_signature(session, &message_hash, now)
            .map_err(told)?;
        let transcript = &mut self.attempt.transcript;
        transcript.add(&message_hash, received.jws());
        self.establish(session, now).map(Box::new).map_err(told)
    }

    fn check(&self, session: &Session, now: Now) -> Result<(), Failure> {
        let refused = |cause: &'static str| Err(Failure::new(ErrorCode::HandshakeFailed, cause));
        if !is_did(&session.server_did, self.peer.did(), self.binding) {
            return Err(unverified("the server is another than before"));
        }
        let keys = KeySet::read(&session.public_keys, None);
        let keys = keys.map_err(|error| unverified(error.to_string()))?;
        if !self.server_keys.contains_all(&keys) {
            return Err(unverified("SESSION lists a key that CHALLENGE did not"));
        }
        if !session.created_at.is_near(now.unix) {
            return Err(skewed(now.unix));
        }
        let timeout = self.policy.policy.session_timeout();
        let longest = timeout.unwrap_or(::policy::limits::SESSION_TIMEOUT);
        let latest = session.created_at.plus(i64::from(longest));
        if session.expires_at <= now.unix || session.expires_at > latest {
            return refused("the session ends at a time that was not agreed on");
        }
        match session.message_count.get() {
            0 => Ok(()),
            _ => refused("the session was used before"),
        }
    }

    fn check_signature(
        &self,
        session: &Session,
        message_hash: &Digest,
        now: Now,
    ) -> Result<(), Failure> {
        let Some(jws) = &session.session_jws else {
            return match self.binding {
                Binding::Baseline => Ok(()),
                Binding::Profile => Err(unverified("SESSION is not signed")),
            };
        };
        let signed: Signed<SessionPayload> = Signed::parse(jws, self.binding.peer())?;
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
                bound.check_hashes(&[
                    (stated.policy_hash, self.policy.hash),
                    (stated.session_commitment, self.policy.commitment),
                ])
            });
        checked.map_err(not_the_server)?;
        let fits = bound.fits(stated.session_id.as_ref(), &session.session_id)
            && bound.fits(stated.created_at.as_ref(), &session.created_at)
            && bound.fits(stated.expires_at.as_ref(), &session.expires_at);
        match fits {
            true => Ok(()),
            false => Err(unverified("another session was signed than the one sent")),
        }
    }

    fn establish(self, session: &Session, now: Now) -> Result<Established<Policy>, Failure> {
        let transcript = *self.attempt.transcript.state();
        let channel =
            match (self.attempt.half.0, &self.theirs) {
                (Some(half), Some(theirs)) => {
                    let agreed = half.agree(theirs, &transcript, Role::Client);
                    Some(agreed.map_err(|error| {
                        Failure::new(ErrorCode::HandshakeFailed, error.to_string())
                    })?)
                }
                _ => None,
            };
        let left = session.expires_at.0.saturating_sub(now.unix.0);
        let left = Duration::from_secs(u64::try_from(left).unwrap_or_default());
        Ok(Established {
            own: self.attempt.own,
            // Who was called is known.
            holder: Holder::Agent(agent_key(self.peer.did_text())),
            peer: self.peer,
            proof: self.proof,
            policy: self.policy,
            binding: self.binding,
            baseline: self.attempt.config.baseline,
            features: self.features,
            session_id: session.session_id.clone(),
            created_at: session.created_at,
            expires_at: session.expires_at,
            deadline: now.after(left),
            transcript,
            channel,
        })
    }
}
