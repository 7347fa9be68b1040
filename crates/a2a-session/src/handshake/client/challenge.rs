//! CHALLENGE at the client, and the PROOF that answers it.

use std::time::Duration;

use a2a_identity::{Did, KeySet, Signed, WebUrl};
use a2a_wire::{
    Challenge, ChallengePayload, Digest, ErrorCode, Kind, Message, Nonce, PROFILE, Proof,
    ProofPayload, Reason, Version,
};
use canonical::{Object, Value};
use policy::Encryption;

use super::{Aborted, Attempt, ExpectChallenge, ExpectPolicy, not_the_server, unexpected};
use crate::config::{Baseline, Directory};
use crate::failure::{Binding, Failure, bad_field, replayed, skewed, unverified, violation};
use crate::handshake::evidence::{PeerVerified, ProofValid};
use crate::handshake::hello::{canonical_bytes, read_nonce};
use crate::handshake::inline::Inline;
use crate::handshake::payloads::{Bound, Stated, is_did};
use crate::handshake::vetting::{Findings, Found, Need, Progress, Vetting, baseline_not_allowed};
use crate::handshake::{Features, sign_message};
use crate::{Now, times};

/// A client that must find out who the server is before it signs anything.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub struct CheckServer {
    attempt: Attempt,
    challenge: Challenge,
    /// Of CHALLENGE as it came.
    message_hash: Digest,
    nonce_b: Nonce,
    vetting: Vetting,
    need: Option<Need>,
}

/// How far a client is with the server.
#[derive(Debug)]
pub enum Server {
    /// Find this out, then call [`CheckServer::handle_found`].
    Resolve(Box<CheckServer>),
    /// Send PROOF.
    Proven {
        /// The next state.
        next: Box<ExpectPolicy>,
        /// PROOF.
        message: Vec<u8>,
    },
}

impl ExpectChallenge {
    /// Takes what the server answered to HELLO.
    ///
    /// # Errors
    /// Why the handshake is over.
    pub fn handle_message(
        self,
        now: Now,
        message: &[u8],
        directory: &dyn Directory,
    ) -> Result<Server, Aborted> {
        let received = self.attempt.read(now, message)?;
        let message_hash = received.hash();
        let kind = received.message().kind();
        let Message::Challenge(challenge) = received.into_message() else {
            return Err(Aborted::silently(unexpected(kind)));
        };
        let attempt = self.attempt;
        let nonce_b = read_nonce(&challenge.nonce_b, binding(&challenge)).map_err(|cause| {
            let cause = format!("nonce_b: {cause}");
            Aborted::silently(bad_field("nonce_b", cause))
        })?;
        let vetting = attempt
            .check(&challenge, &nonce_b, directory, now)
            .map_err(|failure| Aborted::telling(failure, &nonce_b))?;
        let deadline = attempt.deadline.next(now, times::SEND_PROOF);
        let check = CheckServer {
            attempt: Attempt {
                deadline,
                ..attempt
            },
            challenge,
            message_hash,
            nonce_b,
            vetting,
            need: None,
        };
        check.advance(now)
    }
}

/// How strongly the server binds what it signs.
fn binding(challenge: &Challenge) -> Binding {
    let profile = challenge.extensions.as_ref();
    let profile = profile.and_then(|it| it.profile.as_ref());
    match profile.is_some_and(|profile| profile.as_str() == PROFILE) {
        true => Binding::Profile,
        false => Binding::Baseline,
    }
}

impl Attempt {
    /// What can be checked without knowing the server.
    fn check(
        &self,
        challenge: &Challenge,
        nonce_b: &Nonce,
        directory: &dyn Directory,
        now: Now,
    ) -> Result<Vetting, Failure> {
        let binding = binding(challenge);
        self.check_version(challenge.protocol_version.as_ref(), binding)?;
        if !challenge.timestamp.is_near(now.unix) {
            return Err(skewed(now.unix));
        }
        let server = &self.config.server;
        if *nonce_b == self.nonce_a {
            return Err(replayed(
                Reason::NonceReused,
                "the server sent our own nonce",
            ));
        }
        if directory.saw_nonce(server, nonce_b.as_str()) {
            return Err(replayed(Reason::NonceReused, "the nonce was seen before"));
        }
        if !is_did(&challenge.server_did, server, binding) {
            return Err(unverified("the server is not the one expected"));
        }
        self.check_baseline(binding, directory)?;
        self.vet(challenge, binding, directory)
    }

    fn check_version(&self, chosen: Option<&Version>, binding: Binding) -> Result<(), Failure> {
        match chosen {
            Some(version) if self.config.versions.contains(version) => Ok(()),
            None if binding == Binding::Baseline => Ok(()),
            Some(_) => {
                let cause = "the server chose a version that was not offered";
                Err(Failure::new(ErrorCode::ProtocolVersionUnsupported, cause))
            }
            None => Err(bad_field(
                "protocol_version",
                "the chosen version is missing",
            )),
        }
    }

    fn check_baseline(&self, binding: Binding, directory: &dyn Directory) -> Result<(), Failure> {
        if binding == Binding::Profile {
            return Ok(());
        }
        if self.config.baseline == Baseline::Refuse {
            return Err(baseline_not_allowed(
                "the server does not speak the profile",
            ));
        }
        match directory.spoke_profile(&self.config.server) {
            true => Err(baseline_not_allowed("the server spoke the profile before")),
            false => Ok(()),
        }
    }

    fn vet(
        &self,
        challenge: &Challenge,
        binding: Binding,
        directory: &dyn Directory,
    ) -> Result<Vetting, Failure> {
        let did = self.config.server.clone();
        let manifest_hash = challenge.manifest_hash.parse();
        let manifest_hash = manifest_hash
            .map_err(|_| Failure::new(ErrorCode::InvalidManifest, "manifest_hash is no hash"))?;
        let claimed = KeySet::read(&challenge.public_keys, None);
        let claimed = claimed.map_err(|error| unverified(error.to_string()))?;
        let inline = challenge.extensions.as_ref();
        let inline = inline.and_then(|it| it.manifest.as_ref());
        Ok(Vetting {
            did_text: did
                .to_text()
                .unwrap_or_else(|| challenge.server_did.clone()),
            binding,
            claimed,
            manifest_hash,
            inline: inline.map(canonical_bytes).map(Inline::Claimed),
            pins: directory.pins(&did),
            last: directory.last_seen(&did),
            is_known: directory.is_known(&did),
            ask_about_key: true,
            found: Findings::default(),
            did,
        })
    }
}

impl CheckServer {
    /// What must be found out.
    #[must_use]
    pub const fn need(&self) -> Option<&Need> {
        self.need.as_ref()
    }

    /// When it is over.
    #[must_use]
    pub fn deadline(&self) -> Duration {
        self.attempt.deadline.at()
    }

    /// Goes on with what was found out.
    ///
    /// # Errors
    /// Why the handshake is over.
    pub fn handle_found(mut self, now: Now, found: Found) -> Result<Server, Aborted> {
        match self.vetting.found(found) {
            Ok(()) => self.advance(now),
            Err(failure) => Err(Aborted::telling(failure, &self.nonce_b)),
        }
    }

    fn advance(mut self, now: Now) -> Result<Server, Aborted> {
        let nonce_b = self.nonce_b.clone();
        let told = |failure| Aborted::telling(failure, &nonce_b);
        self.attempt.deadline.check(now).map_err(told)?;
        let progress = self.vetting.advance(now, &self.attempt.config.trust);
        match progress.map_err(told)? {
            Progress::Needs(need) => {
                self.need = Some(need);
                Ok(Server::Resolve(Box::new(self)))
            }
            Progress::Done(peer) => self.prove(now, peer).map_err(told),
        }
    }

    fn prove(mut self, now: Now, peer: PeerVerified) -> Result<Server, Failure> {
        self.check_url()?;
        let proof = self.check_signature(now, &peer)?;
        let theirs = self.challenge.extensions.as_ref();
        let theirs = theirs.and_then(|it| it.kx.clone());
        let theirs = theirs.filter(|_| peer_seals(&self.attempt, self.vetting.binding));
        if self.attempt.config.demands.encryption == Encryption::Needed && theirs.is_none() {
            let cause = "encryption is needed and the server offers none";
            return Err(violation(Reason::EncryptionRequired, cause));
        }
        let jws = self.challenge.policy_signature.as_str();
        let transcript = &mut self.attempt.transcript;
        transcript.add(&self.message_hash, Some(jws));
        let message = self.proof(now, &peer);
        let mut attempt = self.attempt;
        attempt.half.0 = attempt.half.0.filter(|_| theirs.is_some());
        let next = ExpectPolicy {
            policy_hash: self.challenge.policy_hash,
            features: Features::of(self.challenge.extensions.as_ref()),
            binding: self.vetting.binding,
            nonce_b: self.nonce_b,
            server_keys: self.vetting.claimed,
            attempt,
            peer,
            proof,
            theirs,
        };
        Ok(Server::Proven {
            next: Box::new(next),
            message,
        })
    }

    /// The address that was contacted is one that the server's manifest lists, or its DID document.
    fn check_url(&self) -> Result<(), Failure> {
        let endpoints = self.vetting.endpoints();
        if endpoints.is_empty() {
            return Ok(());
        }
        let contacted = WebUrl::parse(&self.attempt.config.url).ok();
        let mut endpoints = endpoints.iter();
        let lists = endpoints.any(|endpoint| {
            endpoint.kind.as_str() == "handshake"
                && contacted.is_some()
                && WebUrl::parse(endpoint.url.as_str()).ok() == contacted
        });
        match lists {
            true => Ok(()),
            false => Err(unverified("the server does not list the address")),
        }
    }

    /// The server has signed what both have seen, our nonce with it.
    fn check_signature(&self, now: Now, peer: &PeerVerified) -> Result<ProofValid, Failure> {
        let binding = self.vetting.binding;
        let attempt = &self.attempt;
        let jws = &self.challenge.policy_signature;
        let signed: Signed<ChallengePayload> = Signed::parse(jws, binding.peer())?;
        let verified = signed.verify(peer.keys(), now.unix)?;
        let stated = verified.payload();
        let transcript = (&attempt.transcript, &self.message_hash);
        let bound = Bound::by_peer(binding, peer.did(), &attempt.own, transcript, now);
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
                    [&attempt.nonce_a, &self.nonce_b],
                )
            })
            .and_then(|()| {
                bound.check_hashes(&[
                    (stated.server_manifest_hash, self.vetting.manifest_hash),
                    (stated.client_manifest_hash, attempt.own.manifest_hash()),
                ])
            });
        checked.map_err(not_the_server)?;
        let tree = verified.tree();
        match leads_to(
            stated.policy_hash,
            &tree,
            &self.challenge.policy_hash,
            binding,
        ) {
            true => Ok(ProofValid {
                key: verified.key().clone(),
            }),
            false => Err(unverified("another policy was signed than the one named")),
        }
    }

    fn proof(&mut self, now: Now, peer: &PeerVerified) -> Vec<u8> {
        let own = &self.attempt.own;
        let message = Proof {
            agent_did: own.did_text().clone(),
            proof_jws: own.placeholder(),
        };
        let payload = |transcript_hash| ProofPayload {
            issuer: Some(own.did_text().clone()),
            audience: Some(peer.did_text().clone()),
            timestamp: now.unix,
            nonce_a: self.attempt.nonce_a.clone(),
            nonce_b: self.nonce_b.clone(),
            server_manifest_hash: self.vetting.manifest_hash,
            client_manifest_hash: own.manifest_hash(),
            transcript_hash: Some(transcript_hash),
        };
        let tree = Message::Proof(message).into_object();
        let transcript = &mut self.attempt.transcript;
        sign_message(
            Kind::Proof,
            tree,
            transcript,
            (own, self.vetting.binding),
            payload,
        )
    }
}

/// Whether we offered a key agreement to a peer that may answer it.
fn peer_seals(attempt: &Attempt, binding: Binding) -> bool {
    attempt.half.0.is_some() && binding == Binding::Profile
}

/// Whether what the server signed leads to this policy. A baseline peer may sign the hash, the
/// policy among other members, or the policy itself.
pub(super) fn leads_to(
    stated: Option<Digest>,
    signed: &Object<'_>,
    policy_hash: &Digest,
    binding: Binding,
) -> bool {
    if let Some(stated) = stated {
        return stated == *policy_hash;
    }
    let inner = signed.get("policy").map(Value::digest);
    let whole = signed.digest_without(&[]);
    binding == Binding::Baseline && (inner == Some(*policy_hash) || whole == *policy_hash)
}

impl ExpectPolicy {
    /// Who the server is.
    #[must_use]
    pub const fn server(&self) -> &Did {
        self.peer.did()
    }
}
