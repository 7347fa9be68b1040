//! Checkpoints beside the records they stand for.

use std::io;

use canonical::{Digest, Object, Value, base64url};

use super::{End, Scope, Walk, integer, text};
use crate::keep::Keep;
use crate::line::Link;
use crate::verify::Head;
use crate::{Checkpoint, FaultKind, Place, Refusal};

/// How far the checkpoints of a log were followed.
#[derive(Debug, Default)]
pub(super) struct Checkpoints {
    /// The one whose record has not come yet.
    next: Option<Next>,
    /// The number of the last one that was read.
    last_seq: u64,
    /// The hash of the one that the record before has, and where it stands: the next record must
    /// name it.
    pub(super) to_name: Option<(Digest, Place)>,
    /// The last record with a valid checkpoint.
    pub(super) signed: u64,
    /// Whether there is any, the anchor included.
    is_signed: bool,
    /// One with an unknown key that no later one stands for yet.
    unknown: Option<Place>,
}

#[derive(Debug)]
struct Next {
    checkpoint: Checkpoint,
    place: Place,
    hash: Digest,
    is_known: bool,
    is_fresh: bool,
}

impl Walk<'_> {
    /// Reads on to the next checkpoint of the log that can be one.
    pub(super) fn next_checkpoint(&mut self) -> io::Result<()> {
        let mut line = Vec::new();
        let mut cut_off = None;
        loop {
            let found = self.source.next_checkpoint(&mut line)?;
            let Some(found) = found else {
                self.report.unfinished.extend(cut_off);
                return Ok(());
            };
            if let Some(place) = cut_off.take() {
                self.fault_of_log(place, FaultKind::Unfinished);
            }
            self.report.bytes += line.len() as u64 + 1;
            // Those from before the first segment that is looked at were looked at before.
            if self.scope == Scope::Tail
                && let Some(log) = &self.log
                && seq_of(&line).is_some_and(|seq| seq < log.seq)
            {
                continue;
            }
            // The last one may have been cut off by a crash; no record names it then.
            if found.end == End::CutOff {
                cut_off = Some(found.place);
                continue;
            }
            let read = match (found.end, std::str::from_utf8(&line)) {
                (End::Newline, Ok(jws)) => match self.keys.check(jws) {
                    Ok(checkpoint) => Ok((checkpoint, true)),
                    Err(Refusal::UnknownKey(checkpoint)) => Ok((checkpoint, false)),
                    Err(Refusal::Invalid(why)) => Err(why),
                },
                _ => Err("it is no JWS".to_owned()),
            };
            let Some(log) = &mut self.log else {
                return Ok(());
            };
            let read = read.and_then(|(checkpoint, is_known)| match &checkpoint {
                other if other.log_id != log.id => Err("it is of another log".to_owned()),
                other if other.seq <= log.checkpoints.last_seq => {
                    Err("it stands in the wrong place".to_owned())
                }
                _ => Ok((checkpoint, is_known)),
            });
            match read {
                Ok((checkpoint, is_known)) => {
                    log.checkpoints.last_seq = checkpoint.seq;
                    log.checkpoints.next = Some(Next {
                        checkpoint,
                        is_known,
                        hash: Digest::of(&line),
                        place: found.place,
                        is_fresh: found.is_fresh,
                    });
                    return Ok(());
                }
                Err(why) => self.fault_of_log(found.place, FaultKind::Checkpoint(why)),
            }
        }
    }

    /// Whether there is a checkpoint for what came before the first record there is.
    pub(super) fn find_anchor(&mut self, link: &Link<'_>) -> io::Result<bool> {
        loop {
            let Some(log) = &mut self.log else {
                return Ok(false);
            };
            let Some(next) = log.checkpoints.next.take() else {
                return Ok(false);
            };
            let is_anchor = next.checkpoint.seq + 1 == link.seq;
            if !is_anchor && next.checkpoint.seq >= link.seq {
                log.checkpoints.next = Some(next);
                return Ok(false);
            }
            let fits = next.checkpoint.head_hash == link.prev_hash;
            if is_anchor {
                log.checkpoints.take(next);
                self.report.checkpoints += 1;
            }
            self.next_checkpoint()?;
            if is_anchor {
                return Ok(fits);
            }
        }
    }

    /// Holds a record against the checkpoints there are.
    pub(super) fn match_checkpoints(
        &mut self,
        place: &Place,
        link: &Link<'_>,
        keep: Option<Keep>,
        body: Option<&Object<'_>>,
    ) -> io::Result<()> {
        let Some(log) = &mut self.log else {
            return Ok(());
        };
        let named = match keep {
            Some(Keep::Checkpoint) => body.and_then(|body| text(body, "checkpoint_hash")),
            _ => None,
        };
        let mut other = None;
        let fault = match (log.checkpoints.to_name.take(), keep, body) {
            // It was erased, which is a fault by itself.
            (_, Some(Keep::Checkpoint), None) => None,
            (Some((hash, _)), Some(Keep::Checkpoint), _) if named == Some(&hash.to_string()) => {
                None
            }
            // The record is as it was written, so the checkpoint is not.
            (Some((_, checkpoint)), Some(Keep::Checkpoint), _) => {
                other = Some(checkpoint);
                None
            }
            (None, Some(Keep::Checkpoint), _) => Some(FaultKind::MissingCheckpoint),
            (Some(_), _, _) => Some(FaultKind::UnnamedCheckpoint),
            (None, _, _) => None,
        };
        let is_here = |next: &mut Next| next.checkpoint.seq == link.seq;
        let here = log.checkpoints.next.take_if(is_here);
        let differs = here
            .as_ref()
            .is_some_and(|next| next.checkpoint.head_hash != log.hash);
        let is_here = here.is_some();
        if let Some(next) = here {
            log.checkpoints.take(next);
            self.report.checkpoints += 1;
        }
        if let Some(place) = other {
            let why = "it is not the one that is on record".to_owned();
            self.fault_of_log(place, FaultKind::Checkpoint(why));
        }
        if let Some(kind) = fault {
            self.fault(place.clone(), kind);
        }
        if differs {
            self.fault(place.clone(), FaultKind::CheckpointHash);
        }
        match is_here {
            true => self.next_checkpoint(),
            false => Ok(()),
        }
    }

    /// Ends the log that was walked over.
    pub(super) fn close_log(&mut self) {
        let Some(log) = self.log.take() else {
            return;
        };
        self.evidence.end_log();
        let checkpoints = &log.checkpoints;
        self.report.unsigned = log.seq.saturating_sub(checkpoints.signed);
        self.report.to_name = checkpoints.to_name.as_ref().map(|(hash, _)| *hash);
        let fault = match (&checkpoints.next, &checkpoints.unknown) {
            // What a broken log still has behind the fault is not known.
            _ if self.is_lost => None,
            (Some(next), _) if !next.is_fresh => Some((
                next.place.clone(),
                FaultKind::HeadBelow(next.checkpoint.seq),
            )),
            (_, Some(place)) => Some((place.clone(), FaultKind::UnknownKey)),
            (_, None) if !checkpoints.is_signed && log.has_content => {
                Some((log.first.clone(), FaultKind::NoCheckpoint))
            }
            _ => None,
        };
        self.report.head = Some(Head {
            log_id: log.id.clone(),
            seq: log.seq,
            hash: log.hash,
        });
        self.log = Some(log);
        if let Some((place, kind)) = fault {
            self.fault_of_log(place, kind);
        }
        self.log = None;
    }

    /// A fault of the log as a whole, or in the file of its checkpoints: of no single record.
    fn fault_of_log(&mut self, place: Place, kind: FaultKind) {
        let mut fault = self.at(place, kind);
        fault.seq = None;
        self.push(fault);
    }
}

/// The record that a checkpoint speaks of, without proof.
fn seq_of(jws: &[u8]) -> Option<u64> {
    let mut parts = std::str::from_utf8(jws).ok()?.split('.');
    let payload = base64url::decode(parts.nth(1)?).ok()?;
    let payload = Value::parse(&payload).ok()?;
    integer(payload.as_object()?, "seq")
}

impl Checkpoints {
    /// The record of this checkpoint is there.
    fn take(&mut self, next: Next) {
        self.to_name = Some((next.hash, next.place.clone()));
        if next.is_known {
            self.signed = next.checkpoint.seq;
            self.is_signed = true;
            self.unknown = None;
        } else {
            self.unknown = Some(next.place);
        }
    }
}
