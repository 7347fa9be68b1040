//! Verification: one walk over a log, from its first record to its last, in constant memory.
//!
//! It needs nothing but the files and the node's public key. What it proves: every record up to the
//! last checkpoint is as the node wrote it, none is missing or added, and what was purged was
//! purged by the node. Records after the last checkpoint hang together, but whoever can write the
//! files could have written them too; [`Report::unsigned`] says how many there are.

mod checkpoints;
mod evidence;
mod report;

use std::io;

use canonical::{Digest, Object, Value};

use self::checkpoints::Checkpoints;
use self::evidence::Evidence;
pub use self::report::{End, Found, Gap, Head, RecordedPurge, Report, Source};
use crate::keep::{Keep, PurgeKind};
use crate::line::{Content, Line, Link, NO_HASH, Space};
use crate::recover::ordinal;
use crate::{Fault, FaultKind, KeyCheck, Place, UnixMillis};

/// How much is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The whole folder.
    All,
    /// The last segments, when a log is opened: what was purged is no question then.
    Tail,
}

/// Verifies all there is.
///
/// # Errors
/// If something cannot be read. What is wrong with the log is in the report.
pub fn verify(source: &mut dyn Source, keys: &dyn KeyCheck) -> io::Result<Report> {
    verify_within(source, keys, Scope::All)
}

pub(crate) fn verify_within(
    source: &mut dyn Source,
    keys: &dyn KeyCheck,
    scope: Scope,
) -> io::Result<Report> {
    let mut walk = Walk {
        source,
        keys,
        scope,
        report: Report::default(),
        log: None,
        is_lost: false,
        seen: Vec::new(),
        evidence: Evidence::default(),
    };
    walk.run()?;
    Ok(walk.report)
}

/// Faults and gaps that are kept.
const MAX_NAMED: usize = 100;
/// Purges that are kept. A node that purges as often as it looks has a dozen a day.
const MAX_PURGES: usize = 10_000;
/// Logs that one folder may have.
const MAX_LOGS: usize = 10_000;

struct Walk<'a> {
    source: &'a mut dyn Source,
    keys: &'a dyn KeyCheck,
    scope: Scope,
    report: Report,
    log: Option<Log>,
    /// The log is broken; nothing in it counts until the next one begins.
    is_lost: bool,
    seen: Vec<String>,
    evidence: Evidence,
}

/// The log that is being walked over.
struct Log {
    id: String,
    seq: u64,
    hash: Digest,
    first: Place,
    /// Where the last record stands that was taken.
    last: Option<Place>,
    /// Whether it has a record that anyone could have been answered for.
    has_content: bool,
    checkpoints: Checkpoints,
}

impl Log {
    /// Whether a checkpoint stands for its last record.
    const fn is_signed_here(&self) -> bool {
        self.checkpoints.signed == self.seq
    }
}

impl Walk<'_> {
    fn run(&mut self) -> io::Result<()> {
        let (mut line, mut space) = (Vec::new(), Space::default());
        let mut unfinished: Option<Place> = None;
        while let Some(found) = self.source.next_record(&mut line)? {
            self.report.bytes += line.len() as u64 + 1;
            if let Some(place) = unfinished.take() {
                self.broken(place, FaultKind::Unfinished);
            }
            match found.end {
                End::CutOff => unfinished = Some(found.place),
                End::TooLong => self.broken(found.place, FaultKind::TooLong),
                End::Newline => {
                    let outcome = match Line::split(&line) {
                        Ok(parts) => match parts.check(&mut space) {
                            Ok(body) => self.record(&found.place, &parts, body.as_ref())?,
                            Err(kind) => Err(kind),
                        },
                        Err(kind) => Err(kind),
                    };
                    if let Err(kind) = outcome {
                        self.broken(found.place, kind);
                    }
                }
            }
        }
        self.report.unfinished.extend(unfinished);
        self.close_log();
        self.finish()
    }

    /// Takes a record whose own hashes are right.
    fn record(
        &mut self,
        place: &Place,
        line: &Line<'_>,
        body: Option<&Object<'_>>,
    ) -> io::Result<Result<(), FaultKind>> {
        let link = &line.link;
        let begins = match &self.log {
            Some(log) => link.seq == 1 && link.log_id != log.id,
            None => !self.is_lost || link.seq == 1,
        };
        let keep = Keep::of(link.event_type);
        if self.is_lost && !(begins && keep == Some(Keep::AuditGap)) {
            return Ok(Ok(()));
        }
        let outcome = match begins {
            true => self.begin(place, link, body)?,
            false => self.follow(link),
        };
        if outcome.is_err() {
            return Ok(outcome);
        }
        let Some(log) = &mut self.log else {
            return Ok(Ok(()));
        };
        log.seq = link.seq;
        log.hash = line.hash;
        log.last = Some(place.clone());
        log.has_content |= !matches!(keep, Some(Keep::Start | Keep::AuditGap));
        self.report.records += 1;
        if let Content::Erased { .. } = line.content {
            self.report.erased += 1;
            if keep.is_some() {
                self.fault(place.clone(), FaultKind::Erased);
            }
        }
        self.match_checkpoints(place, link, keep, body)?;
        self.note(place, line, keep, body);
        if self.log.as_ref().is_some_and(Log::is_signed_here) {
            self.evidence.signed(&self.seen);
        }
        Ok(Ok(()))
    }

    fn begin(
        &mut self,
        place: &Place,
        link: &Link<'_>,
        body: Option<&Object<'_>>,
    ) -> io::Result<Result<(), FaultKind>> {
        let is_first = self.seen.is_empty() && self.report.faults.is_empty();
        let gap = match Keep::of(link.event_type) {
            Some(Keep::AuditGap) => body,
            _ => None,
        };
        let outcome = self.check_beginning(place, link, gap, is_first);
        self.close_log();
        self.is_lost = false;
        self.source.begin_checkpoints(link.log_id)?;
        self.seen.push(link.log_id.to_owned());
        self.report.logs += 1;
        self.log = Some(Log {
            id: link.log_id.to_owned(),
            seq: link.seq.saturating_sub(1),
            hash: link.prev_hash,
            first: place.clone(),
            last: None,
            has_content: false,
            checkpoints: Checkpoints::default(),
        });
        self.next_checkpoint()?;
        if outcome.is_err() || link.seq == 1 {
            if is_first {
                let previous = gap.and_then(|gap| Some((gap, text(gap, "previous_log_id")?)));
                if let Some((gap, log_id)) = previous {
                    // One that does not say how far the other log went is content with nothing.
                    let through = integer(gap, "previous_seq").unwrap_or(u64::MAX);
                    self.evidence.need_log(log_id, through, place);
                }
            }
            return Ok(outcome);
        }
        if !self.find_anchor(link)? {
            return Ok(Err(FaultKind::NoAnchor));
        }
        self.evidence.need_prefix(link.log_id, link.seq - 1, place);
        Ok(Ok(()))
    }

    fn check_beginning(
        &mut self,
        place: &Place,
        link: &Link<'_>,
        gap: Option<&Object<'_>>,
        is_first: bool,
    ) -> Result<(), FaultKind> {
        if self.seen.len() >= MAX_LOGS || self.seen.iter().any(|id| id == link.log_id) {
            return Err(FaultKind::Begins("there was one of this id before"));
        }
        if link.seq > 1 {
            return match is_first {
                true => Ok(()),
                false => Err(FaultKind::Begins("its first record is not record 1")),
            };
        }
        if *link.prev_hash.as_bytes() != NO_HASH {
            return Err(FaultKind::Begins("its first record follows another"));
        }
        if is_first {
            return Ok(());
        }
        let gap = gap.ok_or(FaultKind::Begins("it does not say why another one ended"))?;
        let previous = text(gap, "previous_log_id");
        if previous.is_some() && previous != self.seen.last().map(String::as_str) {
            // It is missing. What comes after can be followed all the same.
            self.push(Fault {
                place: place.clone(),
                log_id: Some(link.log_id.to_owned()),
                seq: Some(link.seq),
                kind: FaultKind::Begins("the log before it is not the one it names"),
            });
            return Ok(());
        }
        let (Some(log), false) = (&self.log, self.is_lost) else {
            return Ok(());
        };
        let end = (integer(gap, "previous_seq"), text(gap, "previous_hash"));
        if let ((Some(seq), Some(hash)), Some(last)) = (end, &log.last)
            && (seq != log.seq || hash != log.hash.to_string())
        {
            let last = last.clone();
            self.fault(last, FaultKind::OtherEnd(seq));
        }
        Ok(())
    }

    fn follow(&self, link: &Link<'_>) -> Result<(), FaultKind> {
        let Some(log) = &self.log else {
            return Ok(());
        };
        if link.log_id != log.id {
            return Err(FaultKind::ForeignRecord(link.log_id.to_owned()));
        }
        if link.seq != log.seq + 1 {
            return Err(FaultKind::Seq(link.seq));
        }
        if link.prev_hash != log.hash {
            return Err(FaultKind::PrevHash);
        }
        Ok(())
    }

    /// Puts down what a record says about gaps and purges.
    fn note(
        &mut self,
        place: &Place,
        line: &Line<'_>,
        keep: Option<Keep>,
        body: Option<&Object<'_>>,
    ) {
        let link = &line.link;
        match (&line.content, body) {
            (Content::Erased { purged_at }, _) => {
                let fault = self.at(
                    place.clone(),
                    FaultKind::UnrecordedErasure((*purged_at).into()),
                );
                let kept = self.evidence.erased(purged_at, link, &self.seen, fault);
                if let Some(fault) = kept {
                    self.push(fault);
                }
            }
            (_, Some(body)) if keep == Some(Keep::Purge) => {
                self.evidence.purge(link.timestamp, body, &self.seen);
                if self.report.purges.len() < MAX_PURGES {
                    self.report.purges.extend(recorded(place, link, body));
                }
            }
            (_, Some(body))
                if keep == Some(Keep::AuditGap) && self.report.gaps.len() < MAX_NAMED =>
            {
                self.report.gaps.push(Gap {
                    place: place.clone(),
                    log_id: link.log_id.to_owned(),
                    seq: link.seq,
                    timestamp: link.timestamp,
                    reason: text(body, "reason").unwrap_or_default().to_owned(),
                });
            }
            _ => {}
        }
    }

    /// What only the end of everything can tell.
    fn finish(&mut self) -> io::Result<()> {
        // In a broken log records were passed over that could have been the evidence.
        if self.scope == Scope::Tail || !self.report.faults.is_empty() {
            return Ok(());
        }
        // Those of logs before the first one may have been left by a purge that was interrupted;
        // whether there was one is asked below.
        let first = self.seen.first().map(|log_id| ordinal(log_id));
        for (log_id, place) in self.source.checkpoint_logs()? {
            if !self.seen.contains(&log_id) && Some(ordinal(&log_id)) >= first {
                self.push(Fault {
                    place,
                    log_id: Some(log_id),
                    seq: None,
                    kind: FaultKind::MissingLog,
                });
            }
        }
        let verdict = std::mem::take(&mut self.evidence).verdict();
        self.report.unproven = verdict.unproven;
        for fault in verdict.faults {
            self.push(fault);
        }
        Ok(())
    }

    /// Notes a fault after which the log cannot be followed.
    fn broken(&mut self, place: Place, kind: FaultKind) {
        if !self.is_lost {
            self.fault(place, kind);
        }
        self.is_lost = true;
    }

    fn fault(&mut self, place: Place, kind: FaultKind) {
        let fault = self.at(place, kind);
        self.push(fault);
    }

    fn push(&mut self, fault: Fault) {
        if self.report.faults.len() < MAX_NAMED {
            self.report.faults.push(fault);
        }
    }

    fn at(&self, place: Place, kind: FaultKind) -> Fault {
        Fault {
            // A record that was just taken is the head; one that is refused should have followed it.
            seq: self
                .log
                .as_ref()
                .map(|log| match log.last.as_ref() == Some(&place) {
                    true => log.seq,
                    false => log.seq + 1,
                }),
            log_id: self.log.as_ref().map(|log| log.id.clone()),
            place,
            kind,
        }
    }
}

/// What a record says of a purge of the log. Agreed payload that was erased is none of the log.
fn recorded(place: &Place, link: &Link<'_>, body: &Object<'_>) -> Option<RecordedPurge> {
    let time = |name| text(body, name).and_then(UnixMillis::parse);
    Some(RecordedPurge {
        place: place.clone(),
        log_id: link.log_id.to_owned(),
        seq: link.seq,
        timestamp: link.timestamp,
        kind: text(body, "kind").and_then(PurgeKind::of)?,
        count: integer(body, "count").unwrap_or_default(),
        from: time("purged_from"),
        to: time("purged_to"),
    })
}

pub(crate) fn text<'a>(body: &'a Object<'_>, name: &str) -> Option<&'a str> {
    body.get(name).and_then(Value::as_str)
}

pub(crate) fn integer(body: &Object<'_>, name: &str) -> Option<u64> {
    match body.get(name) {
        Some(Value::Number(number)) => number.as_i64().and_then(|value| value.try_into().ok()),
        _ => None,
    }
}
