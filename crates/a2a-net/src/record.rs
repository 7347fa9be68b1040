//! What is put on record (profile §13), before anybody is answered.

use std::borrow::Cow;
use std::net::IpAddr;
use std::time::Duration;

use a2a_identity::{Did, TrustLevel};
use a2a_session::{Binding, Check, Checks, Established, Failure, Lapsed, Own, Record, Refused};
use a2a_wire::{Digest, ErrorCode};
use audit::{Body, Event, Log, Pending, Permit, PolicyChecks, Verdict};

use crate::transport::Carrier;

/// How a message came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Way {
    pub(crate) carrier: Carrier,
    pub(crate) source: IpAddr,
}

/// Puts things on record, if a record is kept.
#[derive(Debug, Clone)]
pub(crate) struct Recorder(Option<Log>);

/// Room for a record, taken before the thing happens that it is about.
#[derive(Debug)]
pub(crate) struct Room(Option<Permit>);

/// A record on its way to the log.
#[derive(Debug)]
pub(crate) struct Written(Option<Pending>);

impl Written {
    /// Waits until it is with the kernel.
    pub(crate) async fn settled(self) -> Result<(), audit::Error> {
        match self.0 {
            Some(pending) => pending.await.map(drop),
            None => Ok(()),
        }
    }
}

impl Room {
    fn append(self, event: Event, body: Body<'_>) -> Result<Written, audit::Error> {
        let append = |permit: Permit| permit.append(&audit::Record { event, body });
        Ok(Written(self.0.map(append).transpose()?))
    }
}

impl Recorder {
    pub(crate) const fn new(log: Option<Log>) -> Self {
        Self(log)
    }

    /// Takes room for a record.
    pub(crate) fn reserve(&self) -> Result<Room, audit::Error> {
        let permit = self.0.as_ref().map(Log::reserve);
        Ok(Room(permit.transpose()?))
    }

    /// A request of a peer, and what became of it.
    pub(crate) fn request(
        &self,
        room: Room,
        record: &Record,
        way: Way,
        now: Duration,
    ) -> Result<Written, audit::Error> {
        room.append(Event::Request, request_body(record, way, now))
    }

    /// Counts what was refused to somebody who proved nothing.
    pub(crate) fn reject(&self, source: Option<IpAddr>, agent: Option<&str>, failure: &Failure) {
        if let Some(log) = &self.0 {
            log.reject(source, agent, cause_of(failure));
        }
    }

    /// A handshake that a client of ours failed in.
    pub(crate) fn refused(&self, refused: &Refused, way: Way) {
        // Its name counts only if it was proven; who is not known yet has proven a key at most.
        let is_known = refused.proven
            && !matches!(
                refused.failure.code,
                ErrorCode::UnverifiedAgent
                    | ErrorCode::InvalidManifest
                    | ErrorCode::ServiceUnavailable
            );
        if !is_known {
            self.reject(Some(way.source), None, &refused.failure);
            return;
        }
        let body = Body {
            remote_agent_did: refused.agent.as_ref().map(|it| audit::DidText(it.as_str())),
            binding: Some(binding(refused.binding)),
            remote_ip: Some(way.source),
            transport: Some(way.carrier.name()),
            ..failed(&refused.failure)
        };
        self.append(Event::Handshake, body);
    }

    /// A handshake with a verified client that was refused when its session was to begin.
    pub(crate) fn refused_at_the_end<P>(
        &self,
        session: &Established<P>,
        failure: &Failure,
        way: Way,
    ) {
        let peer = session.peer();
        let body = Body {
            remote_agent_did: Some(audit::DidText(peer.did_text().as_str())),
            manifest_hash: Some(peer.manifest_hash()),
            policy_hash: Some(session.policy().hash()),
            binding: Some(binding(session.binding())),
            trust_level: Some(peer.trust_level().as_str()),
            remote_ip: Some(way.source),
            transport: Some(way.carrier.name()),
            ..failed(failure)
        };
        self.append(Event::Handshake, body);
    }

    /// A handshake that ended without a message. That of a client which was not verified is counted.
    pub(crate) fn lapsed(&self, lapsed: &Lapsed) {
        let source = lapsed.source.address();
        if !lapsed.proven || lapsed.failure.code == ErrorCode::ServiceUnavailable {
            self.reject(Some(source), None, &lapsed.failure);
            return;
        }
        let body = Body {
            remote_agent_did: Some(audit::DidText(lapsed.agent.as_str())),
            binding: Some(binding(lapsed.binding)),
            remote_ip: Some(source),
            ..failed(&lapsed.failure)
        };
        self.append(Event::Handshake, body);
    }

    /// A handshake that came to a session.
    pub(crate) fn established<P>(
        &self,
        event: Event,
        session: &Established<P>,
        way: Option<Way>,
        (carrier, took): (Carrier, Option<Duration>),
    ) -> Result<Written, audit::Error> {
        let body = Body {
            remote_ip: way.map(|way| way.source),
            transport: Some(carrier.name()),
            result: Some(Verdict::Approved),
            response_status: Some("success"),
            kid: Some(session.proof().key().kid.as_str()),
            processing_time_ms: took.map(millis),
            reason: session
                .peer()
                .is_partial()
                .then_some("an endorsement of the agent does not count"),
            ..session_body(session)
        };
        self.reserve()?.append(event, body)
    }

    /// A handshake of ours that failed.
    pub(crate) fn not_established(
        &self,
        server: &Did,
        failure: &Failure,
        carrier: Option<Carrier>,
    ) {
        let server = server.to_string();
        let body = Body {
            remote_agent_did: Some(audit::DidText(&server)),
            transport: carrier.map(Carrier::name),
            ..failed(failure)
        };
        self.append(Event::HandshakeSent, body);
    }

    /// A session that ended.
    pub(crate) fn session_ended<P>(&self, session: &Established<P>, reason: &str) {
        let body = Body {
            reason: Some(reason),
            ..session_body(session)
        };
        self.append(Event::SessionEnd, body);
    }

    /// A manifest that was fetched anew.
    pub(crate) fn manifest_refreshed(&self, did: &Did, hash: Digest) {
        let did = did.to_string();
        let body = Body {
            remote_agent_did: Some(audit::DidText(&did)),
            manifest_hash: Some(hash),
            ..Body::default()
        };
        self.append(Event::ManifestRefresh, body);
    }

    /// A policy, or who is blocked, has changed.
    pub(crate) fn policy_changed(&self) {
        let body = Body {
            reason: Some("the rules for other agents were set"),
            ..Body::default()
        };
        self.append(Event::PolicyChange, body);
    }

    /// A key of a peer was found to be revoked.
    pub(crate) fn key_changed(&self, did: &str, manifest: Digest) {
        let body = Body {
            remote_agent_did: Some(audit::DidText(did)),
            manifest_hash: Some(manifest),
            reason: Some("a key that a session used was revoked"),
            ..Body::default()
        };
        self.append(Event::KeyChange, body);
    }

    /// Another key of the node signs from now on.
    pub(crate) fn own_key_changed(&self, own: &Own) {
        let body = Body {
            kid: Some(own.kid().as_str()),
            manifest_hash: Some(own.manifest_hash()),
            reason: Some("the node signs with another key"),
            ..Body::default()
        };
        self.append(Event::KeyChange, body);
    }

    /// A request of ours, and what became of it.
    pub(crate) fn sent(&self, room: Room, body: Body<'_>) -> Result<Written, audit::Error> {
        room.append(Event::RequestSent, body)
    }

    /// Nobody waits for this one. If it cannot be written, the log itself says so later.
    fn append(&self, event: Event, body: Body<'_>) {
        let _ = self.reserve().and_then(|room| room.append(event, body));
    }
}

/// What a record says of a session.
pub(crate) fn session_body<P>(session: &Established<P>) -> Body<'_> {
    let peer = session.peer();
    Body {
        session_id: Some(session.session_id().as_str()),
        remote_agent_did: Some(audit::DidText(peer.did_text().as_str())),
        manifest_hash: Some(peer.manifest_hash()),
        policy_hash: Some(session.policy().hash()),
        binding: Some(binding(session.binding())),
        encrypted: Some(session.is_encrypted()),
        trust_level: Some(peer.trust_level().as_str()),
        ..Body::default()
    }
}

fn request_body(record: &Record, way: Way, now: Duration) -> Body<'_> {
    Body {
        session_id: record.session_id.as_ref().map(|id| id.as_str()),
        remote_agent_did: record
            .remote_agent_did
            .as_ref()
            .map(|did| audit::DidText(did.as_str())),
        request_id: record.request_id.as_deref(),
        intent_goal: record.intent_goal.as_deref(),
        intent_domain: record.intent_domain.as_deref(),
        intent_id: record.intent_id.as_deref(),
        policy_checks: Some(checks(&record.checks)),
        result: Some(match record.approved {
            true => Verdict::Approved,
            false => Verdict::Rejected,
        }),
        response_status: Some(&record.response_status),
        reason: record.reason.as_deref(),
        processing_time_ms: Some(millis(now.saturating_sub(record.received))),
        manifest_hash: record.manifest_hash,
        policy_hash: record.policy_hash,
        request_hash: record.request_hash,
        response_hash: record.response_hash,
        kid: record.kid.as_ref().map(|kid| kid.as_str()),
        binding: record.binding.map(binding),
        encrypted: Some(record.encrypted),
        trust_level: record.trust_level.map(TrustLevel::as_str),
        remote_ip: Some(way.source),
        transport: Some(way.carrier.name()),
        ..Body::default()
    }
}

fn failed(failure: &Failure) -> Body<'_> {
    Body {
        result: Some(Verdict::Rejected),
        response_status: Some(failure.code.as_str()),
        reason: Some(&failure.cause),
        ..Body::default()
    }
}

const fn checks(checks: &Checks) -> PolicyChecks {
    PolicyChecks {
        approval: None,
        capability_accepted: None,
        rule_allowed: None,
        session_valid: Some(check(checks.session_valid)),
        signature_verified: Some(check(checks.signature_verified)),
        rate_limit: Some(check(checks.rate_limit)),
        intent_allowed: Some(check(checks.intent_allowed)),
        payload_size: Some(check(checks.payload_size)),
    }
}

const fn check(check: Check) -> audit::Check {
    match check {
        Check::Passed => audit::Check::Passed,
        Check::Failed => audit::Check::Failed,
        Check::Skipped => audit::Check::Skipped,
    }
}

const fn binding(binding: Binding) -> audit::Binding {
    match binding {
        Binding::Profile => audit::Binding::Profile,
        Binding::Baseline => audit::Binding::Baseline,
    }
}

pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Why, in words of ours alone: what is counted must not grow with what peers send.
fn cause_of(failure: &Failure) -> &'static str {
    match (&failure.cause, failure.reason) {
        (Cow::Borrowed(cause), _) => cause,
        (Cow::Owned(_), Some(reason)) => reason.as_str(),
        (Cow::Owned(_), None) => failure.code.text(),
    }
}
