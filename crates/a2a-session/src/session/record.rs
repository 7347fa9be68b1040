//! What is to be put on record about a request (profile §13).

use std::borrow::Cow;
use std::time::Duration;

use a2a_identity::TrustLevel;
use a2a_wire::{DidText, Digest, Intent, Kid, SessionId};

use crate::{Binding, Established, Failure};

/// The outcome of one check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Check {
    /// It held.
    Passed,
    /// It did not.
    Failed,
    /// It was not made, since an earlier one failed or it does not apply.
    #[default]
    Skipped,
}

/// `policy_checks` of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Checks {
    /// The session is there and has not ended.
    pub session_valid: Check,
    /// The request is signed by the session's peer, and fresh.
    pub signature_verified: Check,
    /// The token buckets had a token.
    pub rate_limit: Check,
    /// The intent is on no block list and on the allow list, if there is one.
    pub intent_allowed: Check,
    /// The request is not too large.
    pub payload_size: Check,
}

/// All that a record says of a request, but for its time and transport.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The session.
    pub session_id: Option<SessionId>,
    /// Who asked, as proven.
    pub remote_agent_did: Option<DidText>,
    /// The request's id, if it has the form of one.
    pub request_id: Option<String>,
    /// The intent's goal.
    pub intent_goal: Option<String>,
    /// The intent's domain.
    pub intent_domain: Option<String>,
    /// The intent's id.
    pub intent_id: Option<String>,
    /// What was checked.
    pub checks: Checks,
    /// Whether it was let through.
    pub approved: bool,
    /// `success`, or the code of the error.
    pub response_status: String,
    /// The precise cause.
    pub reason: Option<Cow<'static, str>>,
    /// The peer's manifest.
    pub manifest_hash: Option<Digest>,
    /// The agreed policy.
    pub policy_hash: Option<Digest>,
    /// The request as received.
    pub request_hash: Option<Digest>,
    /// The response as sent.
    pub response_hash: Option<Digest>,
    /// The key that signed.
    pub kid: Option<Kid>,
    /// How strongly the request was bound to its session.
    pub binding: Option<Binding>,
    /// Whether the session is encrypted.
    pub encrypted: bool,
    /// How much the peer is trusted.
    pub trust_level: Option<TrustLevel>,
    /// When it came, on the clock that never jumps.
    pub received: Duration,
}

impl Record {
    /// Of a request whose session is not known.
    pub(crate) fn unknown(received: Duration, request_id: Option<String>) -> Self {
        Self {
            session_id: None,
            remote_agent_did: None,
            request_id,
            intent_goal: None,
            intent_domain: None,
            intent_id: None,
            checks: Checks::default(),
            approved: false,
            response_status: String::new(),
            reason: None,
            manifest_hash: None,
            policy_hash: None,
            request_hash: None,
            response_hash: None,
            kid: None,
            binding: None,
            encrypted: false,
            trust_level: None,
            received,
        }
    }

    /// Of a request in a session.
    pub(crate) fn of<P>(
        session: &Established<P>,
        received: Duration,
        request_id: Option<String>,
    ) -> Self {
        Self {
            session_id: Some(session.session_id.clone()),
            remote_agent_did: Some(session.peer.did_text().clone()),
            manifest_hash: Some(session.peer.manifest_hash()),
            policy_hash: Some(session.policy.hash()),
            binding: Some(session.binding),
            encrypted: session.is_encrypted(),
            trust_level: Some(session.peer.trust_level()),
            ..Self::unknown(received, request_id)
        }
    }

    pub(crate) fn intend(&mut self, intent: &Intent) {
        self.intent_goal = Some(intent.goal.to_string());
        self.intent_domain = intent.domain.as_ref().map(ToString::to_string);
        self.intent_id = intent.intent_id.as_ref().map(ToString::to_string);
    }

    pub(crate) fn refuse(&mut self, failure: &Failure) {
        self.response_status = failure.code.as_str().to_owned();
        self.reason = Some(failure.cause.clone());
    }
}
