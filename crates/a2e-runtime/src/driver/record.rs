//! What is put on record of a request, before anybody sees its answer.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Waiting, Poll, ready};
use std::time::Duration;

use a2e_wire::{Body, Capability};
use audit::{Check, Event, Permit, PolicyChecks, Record, Verdict};
use canonical::Digest;

use super::Driver;
use super::work::Work;
use crate::decision::{self, Asked, Ruling};
use crate::session::Session;

/// What will be put on record of a request, and the room for it.
pub(crate) struct Note {
    /// None while it is held: others need the room meanwhile.
    permit: Option<Permit>,
    request_id: String,
    message_type: String,
    capability: Option<Capability<'static>>,
    name: String,
    correlation_id: String,
    input_bytes: u64,
    request_hash: Digest,
    /// The rule that decided.
    pub(super) rule: String,
    pub(crate) verdict: Verdict,
    pub(crate) checks: PolicyChecks,
    /// The approval that let it pass, or did not.
    pub(crate) approval: Option<String>,
}

/// Statuses of requests that have no error code.
pub(crate) const SUCCESS: &str = "success";
pub(crate) const CANCELLED: &str = "cancelled";

impl Note {
    /// Takes room for the record of a request; nothing if nothing is put on record here.
    pub(crate) fn take(
        log: Option<&audit::Log>,
        asked: Asked<'_>,
    ) -> Result<Option<Box<Self>>, audit::Error> {
        let Some(log) = log else {
            return Ok(None);
        };
        let Asked { message, line, .. } = asked;
        Ok(Some(Box::new(Self {
            permit: Some(log.reserve()?),
            request_id: message.envelope.id.as_str().to_owned(),
            message_type: asked.type_name().to_owned(),
            capability: asked.capability(),
            name: asked.name().to_owned(),
            correlation_id: correlation_id(&message.body).to_owned(),
            input_bytes: line.len() as u64,
            request_hash: Digest::of(line),
            rule: String::new(),
            verdict: Verdict::Approved,
            checks: PolicyChecks::default(),
            approval: None,
        })))
    }

    /// Gives its room to others.
    pub(crate) fn set_aside(&mut self) {
        self.permit = None;
    }

    /// Takes room again.
    pub(crate) fn resume(&mut self, log: Option<&audit::Log>) -> Result<(), audit::Error> {
        if let Some(log) = log {
            self.permit = Some(log.reserve()?);
        }
        Ok(())
    }

    /// What the rules said.
    pub(crate) fn ruled(&mut self, rules: &policy::Rules, ruling: &Ruling<'_>) {
        ruling.rule.clone_into(&mut self.rule);
        self.checks.rate_limit = rules.rate().map(|_| Check::Passed);
        self.checks.rule_allowed = Some(match ruling.verdict {
            decision::Verdict::Deny(_) => Check::Failed,
            decision::Verdict::Allow | decision::Verdict::Hold(_) => Check::Passed,
        });
    }

    /// Puts on record what became of the request, beside what every record of its session says.
    pub(crate) fn enqueue(
        self,
        log: &audit::Log,
        status: &str,
        took: Duration,
        output: usize,
        session: audit::Body<'_>,
    ) -> Result<audit::Pending, audit::Error> {
        let Self {
            permit,
            request_id,
            message_type,
            capability,
            name,
            correlation_id,
            input_bytes,
            request_hash,
            rule,
            verdict,
            checks,
            approval,
        } = self;
        let body = audit::Body {
            approval_id: approval.as_deref(),
            capability: capability.as_ref().map(Capability::as_str),
            correlation_id: (!correlation_id.is_empty()).then_some(&*correlation_id),
            input_bytes: Some(input_bytes),
            message_type: Some(&message_type),
            name: Some(&name),
            output_bytes: Some(output as u64),
            policy_checks: Some(checks),
            processing_time_ms: Some(millis(took)),
            request_hash: Some(request_hash),
            request_id: Some(&request_id),
            response_status: Some(status),
            result: Some(verdict),
            rule: Some(&rule),
            ..session
        };
        let permit = permit.map_or_else(|| log.reserve(), Ok)?;
        permit.enqueue(&Record {
            event: Event::Request,
            body,
        })
    }
}

impl Driver {
    /// Takes room for the record of a request that its session lets through.
    pub(super) fn note(&self, asked: Asked<'_>) -> Result<Option<Box<Note>>, audit::Error> {
        let mut note = Note::take(self.host.inner.audit.as_ref(), asked)?;
        if let Some(note) = &mut note {
            note.checks.capability_accepted = Some(Check::Passed);
        }
        Ok(note)
    }

    /// What is on record of a request that was given up while it was held: nobody let it through.
    pub(super) fn note_withdrawn(work: &mut Work) {
        if let (Some(note), Some(_)) = (&mut work.note, &work.held) {
            note.verdict = Verdict::Rejected;
            note.checks.approval = Some(Check::Failed);
        }
    }

    /// Takes room again for a request that was held.
    pub(super) fn note_again(&self, work: &mut Work) -> Result<(), audit::Error> {
        match &mut work.note {
            Some(note) => note.resume(self.host.inner.audit.as_ref()),
            None => Ok(()),
        }
    }

    /// Puts the end of a request on record.
    pub(super) fn put_on_record(&mut self, work: &mut Work, status: &str) {
        let Some(note) = work.note.take() else {
            return;
        };
        let now = self.host.inner.clock.monotonic();
        let took = now.saturating_sub(work.started());
        let output = match status {
            CANCELLED => 0,
            _ => self.session.last_written().len(),
        };
        let session = Arc::clone(work.session());
        self.put(*note, &session, status, took, output);
    }

    /// Puts on record what became of a request.
    pub(super) fn put(
        &mut self,
        note: Note,
        session: &Session,
        status: &str,
        took: Duration,
        output: usize,
    ) {
        let Some(log) = &self.host.inner.audit else {
            return;
        };
        let session = self.session_body(Some(session));
        match note.enqueue(log, status, took, output, session) {
            Ok(pending) => self.unrecorded.push_back(pending),
            Err(error) => self.not_recorded(&error),
        }
    }

    /// Has what was added to the record written.
    pub(super) fn commit_records(&self) {
        if let Some(log) = self
            .host
            .inner
            .audit
            .as_ref()
            .filter(|_| !self.unrecorded.is_empty())
        {
            log.commit();
        }
    }

    /// Waits until everything that is to be on record is.
    pub(super) fn poll_recorded(&mut self, cx: &mut Waiting<'_>) -> Poll<()> {
        while let Some(pending) = self.unrecorded.front_mut() {
            let written = ready!(Pin::new(pending).poll(cx));
            self.unrecorded.pop_front();
            if let Err(error) = written {
                self.not_recorded(&error);
            }
        }
        Poll::Ready(())
    }

    /// Something was done and is not on record. Its answer does not leave, and with it the session
    /// ends.
    pub(super) fn not_recorded(&mut self, error: &audit::Error) {
        tracing::error!(%error, "a request is not on record; its session ends unanswered");
        self.unrecorded.clear();
        self.session.keep_nothing();
        self.detach();
    }
}

pub(super) fn correlation_id<'a>(body: &'a Body<'_>) -> &'a str {
    #[expect(clippy::wildcard_enum_match_arm, reason = "no other request has one")]
    match body {
        Body::ToolCallRequest(call) => call.correlation_id.as_str(),
        Body::SkillCallRequest(call) => call.correlation_id.as_str(),
        Body::ChainRequest(chain) => chain.correlation_id.as_str(),
        _ => "",
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
