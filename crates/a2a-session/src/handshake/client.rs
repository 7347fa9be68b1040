//! The client's side of one handshake (profile §8.3).

mod challenge;
mod policy;
mod session;

use std::sync::Arc;
use std::time::Duration;

use a2a_identity::seal::EphemeralKey;
use a2a_identity::{NoRandomness, Randomness};
use a2a_wire::{
    ErrorMessage, Extensions, Hello, Kind, Message, Nonce, PROFILE, Phase, Read as _, Reason,
    Received, Transcript, limits, message_hash,
};
use canonical::{Object, Value};

pub use self::challenge::{CheckServer, Server as ServerStep};
pub use self::policy::ExpectPolicy;
pub use self::session::ExpectSession;

use super::{Deadline, Half, features};
use crate::config::{ClientConfig, Sealing, ShowManifest};
use crate::failure::{Binding, Failure, bytes, failed, timed_out, unverified};
use crate::{Now, Own, times};

/// What the states of a client have in common.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Attempt {
    pub(crate) own: Arc<Own>,
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) nonce_a: Nonce,
    pub(crate) transcript: Transcript,
    pub(crate) half: Half,
    pub(crate) deadline: Deadline,
}

/// A client that has a HELLO to send and then waits for CHALLENGE.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub struct ExpectChallenge {
    pub(crate) attempt: Attempt,
}

/// A handshake that failed at the client.
#[derive(Debug, Clone, PartialEq)]
pub struct Aborted {
    /// Why.
    pub failure: Failure,
    /// What to tell the server, best effort: that it may forget this handshake.
    pub message: Option<Vec<u8>>,
    /// Whether this is what the server said; unsigned, and so a hint.
    pub by_server: bool,
}

impl ExpectChallenge {
    /// Begins: the state, and HELLO to send.
    ///
    /// # Errors
    /// If there is no randomness.
    pub fn begin(
        own: Arc<Own>,
        config: Arc<ClientConfig>,
        now: Now,
        random: &mut dyn Randomness,
    ) -> Result<(Self, Vec<u8>), NoRandomness> {
        let mut nonce = [0; 32];
        random.fill(&mut nonce)?;
        let nonce_a = Nonce::of(&nonce);
        let demanded = config.demands.encryption == ::policy::Encryption::Needed;
        let half = match config.sealing == Sealing::Offered || demanded {
            true => Some(EphemeralKey::generate(random)?),
            false => None,
        };
        let hello = hello(&own, &config, &nonce_a, half.as_ref(), now);
        let tree = Message::Hello(hello).into_object();
        let mut transcript = Transcript::default();
        transcript.add(&message_hash(Kind::Hello, &tree), None);
        let attempt = Attempt {
            own,
            config,
            nonce_a,
            transcript,
            half: Half(half),
            deadline: Deadline::begin(now, times::SEND_HELLO),
        };
        let message = Value::Object(tree).to_canonical();
        Ok((Self { attempt }, message))
    }

    /// HELLO is on its way: from now on CHALLENGE has its time.
    pub const fn sent(&mut self, now: Now) {
        self.attempt.deadline = self.attempt.deadline.next(now, times::CHALLENGE);
    }

    /// When it is over.
    #[must_use]
    pub fn deadline(&self) -> Duration {
        self.attempt.deadline.at()
    }
}

impl Attempt {
    /// Reads what came; an error of the server ends the handshake.
    pub(crate) fn read<'m>(&self, now: Now, message: &'m [u8]) -> Result<Received<'m>, Aborted> {
        self.deadline.check(now).map_err(Aborted::silently)?;
        let received = Received::parse(message, limits::HANDSHAKE);
        let received = received.map_err(|error| Aborted::silently(error.into()))?;
        if let Message::Error(error) = received.message() {
            return Err(Aborted {
                failure: told(error),
                message: None,
                by_server: true,
            });
        }
        Ok(received)
    }
}

impl Aborted {
    pub(crate) const fn silently(failure: Failure) -> Self {
        Self {
            failure,
            message: None,
            by_server: false,
        }
    }

    /// Tells the server too, which knows the handshake by its nonce.
    pub(crate) fn telling(failure: Failure, nonce_b: &Nonce) -> Self {
        let mut error = failure.to_message(Binding::Profile, Phase::Handshake);
        let mut extensions = Object::default();
        let nonce_b = nonce_b.as_str().to_owned();
        extensions.insert("nonce_b", Value::String(nonce_b.into()));
        error.extensions = Some(extensions);
        // The server needs to know that it is over, not what we think of its members.
        error.details = None;
        Self {
            failure,
            message: Some(bytes(Message::Error(error))),
            by_server: false,
        }
    }

    /// What a state comes to that nothing arrived for in time.
    #[must_use]
    pub fn timed_out() -> Self {
        Self::silently(timed_out())
    }
}

/// What a server says went wrong. Nobody signed it: it ends the attempt and changes nothing else.
fn told(error: &ErrorMessage) -> Failure {
    let mut failure = Failure::new(error.error_code.clone(), "the server refused");
    let details = error.details.as_ref();
    let reason = details.and_then(|details| details.get("reason")?.as_str());
    failure.reason = reason.and_then(|word| {
        let named = |reason: &&Reason| reason.as_str() == word;
        Reason::ALL.iter().find(named).copied()
    });
    for name in [
        "retry_after_ms",
        "reset_at",
        "server_time",
        "supported_versions",
    ] {
        if let Some(value) = details.and_then(|details| details.get(name)) {
            failure = failure.with(name, value.to_static());
        }
    }
    failure
}

/// A message that is not the one expected.
pub(crate) fn unexpected(kind: Kind) -> Failure {
    let cause = format!("`{}` is not what comes next", kind.as_str());
    failed(Reason::UnexpectedMessage, cause)
}

/// A wrong signature of the server: whatever it is, the server is not who it should be.
pub(crate) fn not_the_server(failure: Failure) -> Failure {
    unverified(failure.cause)
}

fn hello(
    own: &Own,
    config: &ClientConfig,
    nonce_a: &Nonce,
    half: Option<&EphemeralKey>,
    now: Now,
) -> Hello {
    let request = config
        .policy_request
        .as_ref()
        .map(::policy::Policy::to_tree);
    let request = request.and_then(|tree| a2a_wire::Policy::read(&Value::Object(tree)).ok());
    let extensions = Extensions {
        profile: PROFILE.parse().ok(),
        features: features(half.is_some()),
        manifest: match config.show_manifest {
            ShowManifest::Inline => Some(own.manifest().clone()),
            ShowManifest::ByHash => None,
        },
        kx: half.map(EphemeralKey::public),
        policy_request: request,
    };
    let versions = config.versions.clone();
    Hello {
        protocol_version: versions.first().cloned().unwrap_or_else(|| own.version()),
        supported_versions: Some(versions),
        agent_did: own.did_text().clone(),
        agent_id: own.agent_id().clone(),
        manifest_hash: (&own.manifest_hash()).into(),
        nonce: nonce_a.into(),
        public_keys: own.public_keys(),
        timestamp: now.unix,
        user_agent: config.user_agent.clone(),
        extensions: Some(extensions),
    }
}
