//! What was purged must be on record: whoever can remove or blank records without a trace can hide
//! what they said.
//!
//! A purge counts once a checkpoint stands for the record of it: before that, anybody could have
//! written it. It counts for exactly what it says: a prefix up to one record, or the bodies of the
//! records up to one that are from before a time.

use std::collections::BTreeMap;

use canonical::Object;

use super::{integer, text};
use crate::line::Link;
use crate::{Fault, FaultKind, Place, UnixMillis};

/// Erasures, and purges that have still to be found.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    need: Option<Need>,
    erased: BTreeMap<UnixMillis, Erased>,
    /// Purges that no checkpoint stands for yet.
    unsigned: Vec<Purge>,
}

/// A record's place in all that is read: the how-manieth log, and its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Position(usize, u64);

/// What was removed before the first record there is.
#[derive(Debug)]
struct Need {
    log_id: String,
    /// Up to this record.
    through: u64,
    /// Whether nothing of the log is left.
    is_whole: bool,
    place: Place,
}

/// Bodies that were erased at one time.
#[derive(Debug)]
struct Erased {
    count: u64,
    recorded: u64,
    /// Those that no purge reaches yet. One that is neither later in the log nor of a later time than
    /// another is reached whenever that one is, so it is not kept: mostly there is one.
    beyond: Vec<Blank>,
    /// Whether a purge of that time does not say how far it reaches.
    is_vague: bool,
    first: Fault,
}

/// A record without its body.
#[derive(Debug)]
struct Blank {
    position: Position,
    timestamp: UnixMillis,
    fault: Fault,
}

/// A purge on record.
#[derive(Debug)]
enum Purge {
    Prefix {
        log_id: String,
        through: u64,
    },
    Body {
        timestamp: UnixMillis,
        count: u64,
        reach: Reach,
    },
}

/// How far a purge of bodies goes.
#[derive(Debug)]
enum Reach {
    /// To records up to this one, which are from before this time.
    To(Position, UnixMillis),
    /// To records that are all gone since.
    Nowhere,
    /// It does not say: it was written before purges did.
    Unknown,
}

/// What only the end of everything can tell.
pub(super) struct Verdict {
    /// What is not on record.
    pub(super) faults: Vec<Fault>,
    /// Bodies that were erased by purges that do not say how far they reach.
    pub(super) unproven: u64,
}

/// Times of erasures that are remembered until their purge is found, and purges that are until they
/// are signed.
const MAX_TIMES: usize = 65_536;
/// Records that are kept apart for one time: as often as the clock went back between them.
const MAX_BEYOND: usize = 256;

impl Evidence {
    /// The first log says that another came before it, up to this record, which is not there.
    pub(super) fn need_log(&mut self, log_id: &str, through: u64, place: &Place) {
        self.need = Some(Need {
            log_id: log_id.to_owned(),
            through,
            is_whole: true,
            place: place.clone(),
        });
    }

    /// The first log has lost its records up to this one.
    pub(super) fn need_prefix(&mut self, log_id: &str, through: u64, place: &Place) {
        self.need = Some(Need {
            log_id: log_id.to_owned(),
            through,
            is_whole: false,
            place: place.clone(),
        });
    }

    /// A record of the last log in `seen` has no body any more. Gives the fault back if it cannot be
    /// remembered.
    pub(super) fn erased(
        &mut self,
        purged_at: &str,
        link: &Link<'_>,
        seen: &[String],
        fault: Fault,
    ) -> Option<Fault> {
        let Some(time) = UnixMillis::parse(purged_at) else {
            return Some(fault);
        };
        if self.erased.len() >= MAX_TIMES && !self.erased.contains_key(&time) {
            return Some(fault);
        }
        let erased = self.erased.entry(time).or_insert_with(|| Erased {
            count: 0,
            recorded: 0,
            beyond: Vec::new(),
            is_vague: false,
            first: fault.clone(),
        });
        erased.count += 1;
        // All that are there come earlier in the log.
        erased
            .beyond
            .retain(|blank| blank.timestamp > link.timestamp);
        if erased.beyond.len() >= MAX_BEYOND {
            return Some(fault);
        }
        erased.beyond.push(Blank {
            position: Position(seen.len().saturating_sub(1), link.seq),
            timestamp: link.timestamp,
            fault,
        });
        None
    }

    /// A purge is on record; `seen` are the logs up to here.
    pub(super) fn purge(&mut self, timestamp: UnixMillis, body: &Object<'_>, seen: &[String]) {
        let log_id = text(body, "purged_log_id").unwrap_or_default();
        let through = integer(body, "purged_through").unwrap_or_default();
        let purge = match text(body, "kind") {
            Some("body") => Purge::Body {
                timestamp,
                count: integer(body, "count").unwrap_or_default(),
                reach: match text(body, "purged_before").map(UnixMillis::parse) {
                    None => Reach::Unknown,
                    Some(before) => {
                        let log = seen.iter().position(|seen| seen == log_id);
                        log.zip(before).map_or(Reach::Nowhere, |(log, before)| {
                            Reach::To(Position(log, through), before)
                        })
                    }
                },
            },
            Some("prefix") => Purge::Prefix {
                log_id: log_id.to_owned(),
                through,
            },
            _ => return,
        };
        if self.unsigned.len() < MAX_TIMES {
            self.unsigned.push(purge);
        }
    }

    /// A checkpoint stands for all records up to here; `seen` are the logs.
    pub(super) fn signed(&mut self, seen: &[String]) {
        for purge in std::mem::take(&mut self.unsigned) {
            match purge {
                Purge::Prefix { log_id, through } => {
                    let is_covered = |need: &mut Need| match need.log_id == log_id {
                        true => through >= need.through,
                        // It went into a later log, and was interrupted.
                        false => seen.contains(&log_id),
                    };
                    self.need.take_if(is_covered);
                }
                Purge::Body {
                    timestamp,
                    count,
                    reach,
                } => {
                    if let Some(erased) = self.erased.get_mut(&timestamp) {
                        erased.recorded = erased.recorded.saturating_add(count);
                        erased.reached(&reach);
                    }
                }
            }
        }
    }

    /// The log ends; for what is not signed in it nobody ever stands.
    pub(super) fn end_log(&mut self) {
        self.unsigned.clear();
    }

    pub(super) fn verdict(self) -> Verdict {
        let need = self.need.map(|need| Fault {
            place: need.place,
            seq: (!need.is_whole).then(|| need.through.saturating_add(1)),
            log_id: (!need.is_whole).then_some(need.log_id),
            kind: FaultKind::UnrecordedPurge,
        });
        let mut verdict = Verdict {
            faults: need.into_iter().collect(),
            unproven: 0,
        };
        for erased in self.erased.into_values() {
            if erased.count > erased.recorded {
                verdict.faults.push(erased.first);
            } else if erased.is_vague && !erased.beyond.is_empty() {
                verdict.unproven += erased.count;
            } else {
                let beyond = erased.beyond.into_iter().map(|blank| blank.fault);
                verdict.faults.extend(beyond);
            }
        }
        verdict
    }
}

impl Erased {
    /// A purge is on record that goes so far.
    fn reached(&mut self, reach: &Reach) {
        match reach {
            Reach::To(last, before) => self
                .beyond
                .retain(|blank| blank.position > *last || blank.timestamp >= *before),
            Reach::Nowhere => {}
            Reach::Unknown => self.is_vague = true,
        }
    }
}
