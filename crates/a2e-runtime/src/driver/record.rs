//! What is put on record of a request, before anybody sees its answer.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Waiting, Poll, ready};
use std::time::Duration;

use a2e_wire::{Body, Capability};
use audit::{Check, Event, Permit, PolicyChecks, Record, Verdict};
use canonical::Digest;

use super::Driver;
use super::work::{CacheEnd, Work};
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
    /// Its digest.
    rule_hash: Option<Digest>,
    pub(crate) verdict: Verdict,
    pub(crate) checks: PolicyChecks,
    /// The approval that let it pass, or did not.
    pub(crate) approval: Option<String>,
}

/// Statuses of requests that have no error code.
pub(crate) const SUCCESS: &str = "success";
pub(crate) const CANCELLED: &str = "cancelled";

/// An audit record that is on its way, and what follows when it is written.
pub(super) struct Unrecorded {
    pending: audit::Pending,
    cache_end: Option<CacheEnd>,
}

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
            rule_hash: None,
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
        self.rule_hash = ruling.hash;
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
            rule_hash,
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
            rule_hash,
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

    /// Puts the end of a request on record, and then into the idempotency cache: what another session is
    /// sent from there has left the node with a record.
    pub(super) fn record_end_of(
        &mut self,
        work: &mut Work,
        status: &str,
        cache_end: Option<CacheEnd>,
    ) {
        let Some(note) = work.note.take() else {
            if let Some(end) = cache_end {
                end.enter(self.now.monotonic);
            }
            return;
        };
        let now = self.host.inner.clock.monotonic();
        let took = now.saturating_sub(work.started());
        let output = match status {
            CANCELLED => 0,
            _ => self.session.last_written().len(),
        };
        let session = Arc::clone(work.session());
        self.put(*note, &session, (status, took, output), cache_end);
    }

    /// Puts on record what became of a request: its status, how long it took, and the size of the response.
    pub(super) fn put(
        &mut self,
        note: Note,
        session: &Session,
        (status, took, output): (&str, Duration, usize),
        cache_end: Option<CacheEnd>,
    ) {
        let Some(log) = &self.host.inner.audit else {
            return;
        };
        let session = self.session_body(Some(session));
        match note.enqueue(log, status, took, output, session) {
            Ok(pending) => self.unrecorded.push_back(Unrecorded { pending, cache_end }),
            Err(error) => self.not_recorded(&error, cache_end),
        }
    }

    /// Waits for a record of the session itself.
    pub(super) fn await_record(&mut self, pending: audit::Pending) {
        self.unrecorded.push_back(Unrecorded {
            pending,
            cache_end: None,
        });
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
        while let Some(Unrecorded { pending, .. }) = self.unrecorded.front_mut() {
            let written = ready!(Pin::new(pending).poll(cx));
            let cache_end = self.unrecorded.pop_front().and_then(|it| it.cache_end);
            match (written, cache_end) {
                (Ok(_), Some(end)) => end.enter(self.now.monotonic),
                (Ok(_), None) => {}
                (Err(error), cache_end) => self.not_recorded(&error, cache_end),
            }
        }
        Poll::Ready(())
    }

    /// A request was executed and is not on record. Its response does not leave, neither here nor to a
    /// retry, and the session ends for good.
    pub(super) fn not_recorded(&mut self, error: &audit::Error, cache_end: Option<CacheEnd>) {
        tracing::error!(%error, "a request is not on record; its session ends unanswered");
        if let Some(end) = cache_end {
            end.unrecorded().enter(self.now.monotonic);
        }
        self.drop_unrecorded();
        self.session.keep_nothing();
        if let Some(journal) = self.journal.take()
            && let Err(error) = journal.remove()
        {
            tracing::warn!(%error, "cannot remove the record of a session that has ended");
        }
        self.detach();
    }

    /// Does not wait for records any more: what is not recorded by now leaves with no retry either.
    pub(super) fn drop_unrecorded(&mut self) {
        for Unrecorded { cache_end, .. } in std::mem::take(&mut self.unrecorded) {
            if let Some(end) = cache_end {
                end.unrecorded().enter(self.now.monotonic);
            }
        }
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
