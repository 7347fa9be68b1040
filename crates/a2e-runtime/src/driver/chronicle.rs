//! What is put on record of a session beside its requests: handshakes, who was turned away, the end.

use std::sync::Arc;
use std::time::Duration;

use a2e_session::RefusedRequest;
use a2e_wire::ErrorCode;
use a2e_wire::messages::base::HandshakeReason;
use audit::{Body, Check, Event, PolicyChecks, Record, Verdict};

use super::Driver;
use super::login::Known;
use super::record::SUCCESS;
use crate::access::Revocations;
use crate::decision::Asked;
use crate::host::TOO_MANY_SESSIONS;
use crate::resolution::Resolution;
use crate::session::Session;

/// Why requests are refused of which only the number is on record.
pub(crate) const RATE_LIMITED: &str = "rate_limited";
pub(super) const ID_REUSED: &str = "id_reused";
/// What stands for the rule in the record of a request whose stored answer was sent again: nothing was
/// done, so no rule decided.
pub(super) const RESENT: &str = "idempotency_cache";
const QUEUE_FULL: &str = "queue_full";
const CLOSING: &str = "closing";
const INVALID: &str = "invalid_message";

impl Driver {
    /// Takes room for the record of a handshake: one that cannot be put on record is refused.
    pub(super) fn take_room(&mut self) -> Result<(), HandshakeReason<'static>> {
        let room = self.host.inner.audit.as_ref().map(audit::Log::reserve);
        match room.transpose() {
            Ok(room) => {
                self.room = room;
                Ok(())
            }
            Err(error) => {
                tracing::debug!(%error, "a handshake is refused");
                Err(HandshakeReason::ServerError)
            }
        }
    }

    /// Puts a handshake on record that let its agent in.
    pub(super) fn record_handshake(&mut self, reason: Option<&str>) {
        let Some(room) = self.room.take() else {
            return;
        };
        let record = Record {
            event: Event::Handshake,
            body: Body {
                reason,
                response_status: Some(SUCCESS),
                result: Some(Verdict::Approved),
                ..self.session_body(self.known_session())
            },
        };
        match room.enqueue(&record) {
            Ok(pending) => self.await_record(pending),
            Err(error) => self.not_recorded(&error, None),
        }
    }

    /// A handshake let nobody in.
    pub(super) fn handshake_refused(&mut self, reason: &HandshakeReason<'_>) {
        self.room = None;
        self.identity = None;
        self.revocations = Revocations::default();
        self.host.turned_away(
            self.source,
            match reason {
                HandshakeReason::AuthFailed => "auth_failed",
                HandshakeReason::VersionMismatch => "version_mismatch",
                HandshakeReason::NoCaps => "no_caps",
                HandshakeReason::ServerError => "server_error",
                HandshakeReason::Other(_) => TOO_MANY_SESSIONS,
            },
        );
    }

    /// A request was refused of which there may be any number: they are on record by the minute.
    pub(super) fn count_refusal(&self, agent: &str, reason: &'static str) {
        if let Some(log) = &self.host.inner.audit {
            log.reject(self.source.address(), Some(agent), reason);
        }
    }

    /// A request was refused before it could be decided about.
    pub(super) fn request_refused(&mut self, refused: &RefusedRequest) {
        let Some(known) = &self.known else {
            return self.host.turned_away(self.source, "no_handshake");
        };
        #[expect(
            clippy::wildcard_enum_match_arm,
            reason = "the rest makes no sense here"
        )]
        let counted = match refused.code {
            ErrorCode::CapabilityMissing => None,
            ErrorCode::RuntimeError => Some(QUEUE_FULL),
            ErrorCode::Timeout => Some(CLOSING),
            _ => Some(INVALID),
        };
        if let Some(reason) = counted {
            return self.count_refusal(&known.session.identity().agent, reason);
        }
        let session = Arc::clone(&known.session);
        let unresolved = Resolution::default();
        let asked = Asked::new(&session, &refused.message, &refused.line, &unresolved);
        let note = self.note(asked);
        match note {
            Ok(Some(mut note)) => {
                note.verdict = Verdict::Rejected;
                note.checks = PolicyChecks {
                    capability_accepted: Some(Check::Failed),
                    ..PolicyChecks::default()
                };
                let output = self.session.last_written().len();
                let end = (refused.code.as_str(), Duration::ZERO, output);
                self.put(*note, &session, end, None);
            }
            Ok(None) => {}
            // Nothing was done that had to be on record.
            Err(error) => tracing::debug!(%error, "a refusal is not on record"),
        }
    }

    /// The session is over for good.
    pub(super) fn record_end(&mut self, known: &Known) {
        let Some(log) = &self.host.inner.audit else {
            return;
        };
        let record = Record {
            event: Event::SessionEnd,
            body: Body {
                // One that has not ended has become another.
                reason: Some(self.closed.map_or("new_handshake", |reason| reason.code())),
                ..self.session_body(Some(&known.session))
            },
        };
        match log.reserve().and_then(|room| room.enqueue(&record)) {
            Ok(pending) => self.await_record(pending),
            Err(error) => tracing::warn!(%error, "the end of a session is not on record"),
        }
    }

    fn known_session(&self) -> Option<&Session> {
        self.known.as_ref().map(|known| &*known.session)
    }

    /// What every record of a session says.
    pub(super) fn session_body<'a>(&self, session: Option<&'a Session>) -> Body<'a> {
        Body {
            agent: session.map(|session| session.identity().agent.as_str()),
            remote_ip: self.source.address(),
            session_id: session.map(Session::hash),
            transport: Some(self.transport),
            ..Body::default()
        }
    }
}
