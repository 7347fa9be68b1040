//! HELLO at the server, and the CHALLENGE that answers it (profile §8.2).

use std::sync::Arc;

use a2a_identity::seal::EphemeralKey;
use a2a_identity::{Did, DidError, KeySet, Randomness};
use a2a_wire::{
    Challenge, ChallengePayload, DidText, Digest, ErrorCode, Extensions, Hello, KeyExchange, Kind,
    Message, NOT_HASHED, Nonce, PROFILE, Read as _, Reason, Received, Transcript, Unparsed,
    Version, Write as _, WrongForm, limits,
};
use canonical::{Object, Value};
use policy::EffectivePolicy;

use super::inline::Inline;
use super::reply::Party;
use super::vetting::{Findings, Vetting, baseline_not_allowed};
use super::{Deadline, Features, Half, features, sign_message};
use crate::config::{Baseline, Directory, Method, Sealing, ServerConfig, ShowManifest};
use crate::failure::{Binding, Failure, bad_field, failed, skewed, unverified, violation};
use crate::replay::nonce_key;
use crate::{Now, Own, times};

/// A server that has sent CHALLENGE and waits for PROOF.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct ExpectProof {
    pub(crate) own: Arc<Own>,
    pub(crate) vetting: Vetting,
    pub(crate) baseline: Baseline,
    pub(crate) nonce_a: Nonce,
    pub(crate) nonce_b: Nonce,
    /// The agent and nonce, as they are remembered.
    pub(crate) begun_with: Digest,
    pub(crate) policy: EffectivePolicy,
    pub(crate) policy_hash: Digest,
    pub(crate) transcript: Transcript,
    pub(crate) half: Half,
    pub(crate) theirs: Option<KeyExchange>,
    pub(crate) features: Features,
    pub(crate) deadline: Deadline,
}

/// What a HELLO begins a handshake with, and what we answer it with: all that needs no state.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) binding: Binding,
    nonce_a: Result<Nonce, Failure>,
    did: Result<Did, DidError>,
    /// The agent and nonce, as they are remembered.
    pub(crate) begun_with: Digest,
    pub(crate) nonce_b: Nonce,
}

/// A HELLO of which no more is known than that it is one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claimed<'m> {
    pub(crate) hello: &'m Hello,
    pub(crate) opening: &'m Opening,
}

/// Who someone says it is, with everything that can be checked without asking anyone.
pub(crate) struct Greeting {
    vetting: Vetting,
    baseline: Baseline,
    version: Version,
    nonce_a: Nonce,
    nonce_b: Nonce,
    begun_with: Digest,
    policy: EffectivePolicy,
    theirs: Option<KeyExchange>,
    features: Features,
}

impl Opening {
    pub(crate) fn of(hello: &Hello, random: &mut dyn Randomness) -> Result<Self, Failure> {
        let profile = hello.extensions.as_ref().and_then(|it| it.profile.as_ref());
        let binding = match profile.is_some_and(|profile| profile.as_str() == PROFILE) {
            true => Binding::Profile,
            false => Binding::Baseline,
        };
        let did = Did::parse(hello.agent_did.as_str(), binding.peer());
        let name = match &did {
            Ok(did) => did.to_string(),
            Err(_) => hello.agent_did.to_string(),
        };
        let nonce_a = read_nonce(&hello.nonce, binding);
        let nonce_a = nonce_a.map_err(|cause| bad_field("nonce", cause));
        let mut bytes = [0; 32];
        random.fill(&mut bytes)?;
        Ok(Self {
            binding,
            nonce_a,
            did,
            begun_with: nonce_key(&name, hello.nonce.as_str()),
            nonce_b: Nonce::of(&bytes),
        })
    }
}

/// Reads a nonce. Only a peer of the base specification may write it with padding, which then stays:
/// what is signed and hashed is the text.
pub(super) fn read_nonce(nonce: &Unparsed<Nonce>, binding: Binding) -> Result<Nonce, String> {
    let read: Nonce = nonce
        .parse()
        .map_err(|error: WrongForm| error.to_string())?;
    match binding == Binding::Profile && read.is_padded() {
        true => Err("it has padding".to_owned()),
        false => Ok(read),
    }
}

impl<'m> Claimed<'m> {
    /// Whom it says it is from.
    pub(super) fn party(&self) -> Party {
        Party {
            agent: self.hello.agent_did.clone(),
            proven: false,
            binding: self.opening.binding,
        }
    }

    fn extensions(&self) -> Option<&'m Extensions> {
        self.hello.extensions.as_ref()
    }

    /// Checks 3 to 5, in their order. `is_fresh` is asked about the nonce.
    pub(crate) fn check_first(
        &self,
        config: &ServerConfig,
        now: Now,
        is_fresh: impl FnOnce(&Digest) -> Result<(), Failure>,
    ) -> Result<Version, Failure> {
        let version = self.choose_version(&config.versions)?;
        if !self.hello.timestamp.is_near(now.unix) {
            return Err(skewed(now.unix));
        }
        if let Err(failure) = &self.opening.nonce_a {
            return Err(failure.clone());
        }
        is_fresh(&self.opening.begun_with)?;
        Ok(version)
    }

    /// Checks 6 to 9, in their order.
    pub(crate) fn check(
        &self,
        version: Version,
        own: &Own,
        config: &ServerConfig,
        directory: &dyn Directory,
        now: Now,
    ) -> Result<Greeting, Failure> {
        let did = (self.opening.did.clone()).map_err(|error| not_a_did(&error))?;
        let baseline = self.check_agent(&did, own, config, directory)?;
        let mut vetting = self.vet(did, directory)?;
        self.check_inline(&mut vetting, now, config, directory)?;
        let policy = self.policy(&vetting, directory)?;
        let theirs = self.extensions().and_then(|it| it.kx.clone());
        let theirs = theirs.filter(|_| self.opening.binding == Binding::Profile);
        if policy.require_encryption() && theirs.is_none() {
            let cause = "the policy requires encryption and the client offers none";
            return Err(violation(Reason::EncryptionRequired, cause));
        }
        Ok(Greeting {
            vetting,
            baseline,
            version,
            nonce_a: self.opening.nonce_a.clone()?,
            nonce_b: self.opening.nonce_b.clone(),
            begun_with: self.opening.begun_with,
            policy,
            theirs,
            features: Features::of(self.extensions()),
        })
    }

    /// The best of our versions that the client offers.
    fn choose_version(&self, versions: &[Version]) -> Result<Version, Failure> {
        let wanted = std::slice::from_ref(&self.hello.protocol_version);
        let offered = self.hello.supported_versions.as_deref().unwrap_or(wanted);
        if !offered.contains(&self.hello.protocol_version) {
            let cause = "the version asked for is not among those supported";
            return Err(bad_field("supported_versions", cause));
        }
        let common = versions.iter().find(|version| offered.contains(version));
        common.cloned().ok_or_else(|| {
            let code = ErrorCode::ProtocolVersionUnsupported;
            let names = versions.iter().map(a2a_wire::Write::write).collect();
            Failure::new(code, "no common protocol version")
                .with("supported_versions", Value::Array(names))
        })
    }

    /// Check 6.
    fn check_agent(
        &self,
        did: &Did,
        own: &Own,
        config: &ServerConfig,
        directory: &dyn Directory,
    ) -> Result<Baseline, Failure> {
        if !config.methods.contains(&Method::of(did)) {
            return Err(not_a_did(&DidError::UnsupportedMethod));
        }
        if did == own.did() {
            return Err(unverified("it says that it is this agent"));
        }
        if directory.is_blocked(did) {
            return Err(unverified("the agent is blocked"));
        }
        let baseline = directory.baseline(did);
        if self.opening.binding == Binding::Profile {
            return Ok(baseline);
        }
        if baseline == Baseline::Refuse {
            return Err(baseline_not_allowed("it does not speak the profile"));
        }
        match directory.spoke_profile(did) {
            true => Err(baseline_not_allowed("it spoke the profile before")),
            false => Ok(baseline),
        }
    }

    /// Check 7.
    fn vet(&self, did: Did, directory: &dyn Directory) -> Result<Vetting, Failure> {
        let manifest_hash = self.hello.manifest_hash.parse();
        let manifest_hash =
            manifest_hash.map_err(|error| invalid(format!("manifest_hash: {error}")))?;
        let claimed = KeySet::read(&self.hello.public_keys, None);
        let claimed = claimed.map_err(|error| invalid(error.to_string()))?;
        if let Did::Key(key) = &did
            && !claimed.iter().any(|claimed| claimed.key == *key.key())
        {
            return Err(unverified("the key of its did:key is not among its keys"));
        }
        let inline = self.extensions().and_then(|it| it.manifest.as_ref());
        let did_text: Option<DidText> = did.to_text();
        Ok(Vetting {
            did_text: did_text.unwrap_or_else(|| self.hello.agent_did.clone()),
            binding: self.opening.binding,
            claimed,
            manifest_hash,
            inline: inline.map(canonical_bytes).map(Inline::Claimed),
            pins: directory.pins(&did),
            last: directory.last_seen(&did),
            is_known: directory.is_known(&did),
            ask_about_key: false,
            found: Findings::default(),
            did,
        })
    }

    /// Check 8.
    fn check_inline(
        &self,
        vetting: &mut Vetting,
        now: Now,
        config: &ServerConfig,
        directory: &dyn Directory,
    ) -> Result<(), Failure> {
        let inline = self.extensions().and_then(|it| it.manifest.as_ref());
        let Some(manifest) = inline else {
            return Ok(());
        };
        // Written out, numbers can be longer than they came.
        if vetting.inline.as_ref().map_or(0, Inline::size) > limits::MANIFEST {
            return Err(invalid("the manifest sent along is larger than 64 KiB"));
        }
        if manifest.digest_without(NOT_HASHED) != vetting.manifest_hash {
            return Err(invalid("the manifest sent along is not the one named"));
        }
        vetting.verify_inline_now(now, &config.trust, directory)
    }

    /// The policy for this agent, tightened by what it asks for. That needs no proof.
    fn policy(
        &self,
        vetting: &Vetting,
        directory: &dyn Directory,
    ) -> Result<EffectivePolicy, Failure> {
        let policy = directory.policy_for(&vetting.did);
        let ceiling = policy::limits::PAYLOAD_CEILING;
        let extensions = self.extensions();
        if let Some(request) = extensions.and_then(|it| it.policy_request.as_ref()) {
            let name = "extensions.policy_request";
            let wrong = |error: policy::Error| bad_field(name, error.to_string());
            let request = policy::Policy::read(request.tree(), ceiling).map_err(wrong)?;
            return policy.tightened_by(&request).map_err(wrong);
        }
        let stated = extensions.and_then(|it| it.manifest.as_ref()?.get("policy")?.as_object());
        let Some(stated) = stated else {
            return Ok(policy);
        };
        let wrong = |error: policy::Error| invalid(format!("policy: {error}"));
        let stated = policy::Policy::read(stated, ceiling).map_err(wrong)?;
        policy.tightened_by_manifest(&stated).map_err(wrong)
    }
}

impl Greeting {
    /// Makes CHALLENGE, and the state that waits for PROOF.
    pub(crate) fn challenge(
        self,
        own: &Arc<Own>,
        config: &ServerConfig,
        hello: &Received<'_>,
        now: Now,
        random: &mut dyn Randomness,
    ) -> Result<(Box<ExpectProof>, Vec<u8>), Failure> {
        let nonce_b = self.nonce_b.clone();
        if nonce_b == self.nonce_a {
            return Err(failed(Reason::NonceMismatch, "both nonces are the same"));
        }
        let seals = self.theirs.is_some()
            && (config.sealing == Sealing::Offered || self.policy.require_encryption());
        let half = match seals {
            true => Some(EphemeralKey::generate(random)?),
            false => None,
        };
        let mut transcript = Transcript::default();
        transcript.add_received(hello);
        let policy_hash = self.policy.to_tree().digest_without(&[]);
        let message = self.message(own, config, &nonce_b, policy_hash, half.as_ref(), now);
        let payload = |transcript_hash| ChallengePayload {
            issuer: Some(own.did_text().clone()),
            audience: Some(self.vetting.did_text.clone()),
            timestamp: Some(now.unix),
            policy_hash: Some(policy_hash),
            nonce_a: Some(self.nonce_a.clone()),
            nonce_b: Some(nonce_b.clone()),
            server_manifest_hash: Some(own.manifest_hash()),
            client_manifest_hash: Some(self.vetting.manifest_hash),
            transcript_hash: Some(transcript_hash),
        };
        let tree = Message::Challenge(message).into_object();
        let bytes = sign_message(
            Kind::Challenge,
            tree,
            &mut transcript,
            (own, self.vetting.binding),
            payload,
        );
        let state = ExpectProof {
            own: Arc::clone(own),
            vetting: self.vetting,
            baseline: self.baseline,
            nonce_a: self.nonce_a,
            nonce_b,
            begun_with: self.begun_with,
            policy: self.policy,
            policy_hash,
            transcript,
            theirs: self.theirs.filter(|_| half.is_some()),
            half: Half(half),
            features: self.features,
            deadline: Deadline::begin(now, times::PROOF),
        };
        Ok((Box::new(state), bytes))
    }

    fn message(
        &self,
        own: &Own,
        config: &ServerConfig,
        nonce_b: &Nonce,
        policy_hash: Digest,
        half: Option<&EphemeralKey>,
        now: Now,
    ) -> Challenge {
        let extensions = Extensions {
            profile: PROFILE.parse().ok(),
            features: features(half.is_some()),
            manifest: match config.show_manifest {
                ShowManifest::Inline => Some(own.manifest().clone()),
                ShowManifest::ByHash => None,
            },
            kx: half.map(EphemeralKey::public),
            policy_request: None,
        };
        Challenge {
            protocol_version: Some(self.version.clone()),
            nonce_b: nonce_b.into(),
            server_did: own.did_text().clone(),
            manifest_hash: (&own.manifest_hash()).into(),
            public_keys: own.public_keys(),
            policy_hash,
            policy_signature: own.placeholder(),
            timestamp: now.unix,
            extensions: Some(extensions),
        }
    }
}

pub(crate) fn canonical_bytes(object: &Object<'static>) -> Vec<u8> {
    let mut bytes = object.to_canonical();
    bytes.shrink_to_fit();
    bytes
}

fn invalid(cause: impl Into<std::borrow::Cow<'static, str>>) -> Failure {
    Failure::new(ErrorCode::InvalidManifest, cause).because(Reason::ManifestInvalid)
}

fn not_a_did(error: &DidError) -> Failure {
    let reason = match error {
        DidError::UnsupportedMethod | DidError::UnsupportedKeyType(_) => Reason::DidUnsupported,
        DidError::Malformed(_) => Reason::VerificationFailed,
    };
    Failure::new(ErrorCode::UnverifiedAgent, error.to_string()).because(reason)
}

/// The policy as POLICY carries it.
pub(crate) fn wire_policy(policy: &EffectivePolicy) -> Result<a2a_wire::Policy, Failure> {
    let tree = policy.to_tree().write();
    Ok(a2a_wire::Policy::read(&tree)?)
}
