//! What was purged must be on record: whoever can remove or blank records without a trace can hide
//! what they said.

use std::collections::BTreeMap;

use canonical::Object;

use super::{integer, text};
use crate::{Fault, FaultKind, Place, UnixMillis};

/// Erasures, and purges that have still to be found.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    need: Option<Need>,
    erased: BTreeMap<UnixMillis, Erased>,
}

/// What was removed before the first record there is.
#[derive(Debug)]
struct Need {
    log_id: String,
    /// Up to this record; `None` for the whole log.
    through: Option<u64>,
    place: Place,
}

/// Bodies that were erased at one time.
#[derive(Debug)]
struct Erased {
    count: u64,
    recorded: u64,
    first: Fault,
}

/// Times of erasures that are remembered until their purge is found.
const MAX_TIMES: usize = 65_536;

impl Evidence {
    /// The first log says that another came before it, which is not there.
    pub(super) fn need_log(&mut self, previous: Option<&str>, place: &Place) {
        self.need = previous.map(|log_id| Need {
            log_id: log_id.to_owned(),
            through: None,
            place: place.clone(),
        });
    }

    /// The first log has lost its records up to this one.
    pub(super) fn need_prefix(&mut self, log_id: &str, through: u64, place: &Place) {
        self.need = Some(Need {
            log_id: log_id.to_owned(),
            through: Some(through),
            place: place.clone(),
        });
    }

    /// A record has no body any more. Gives the fault back if it cannot be remembered.
    pub(super) fn erased(&mut self, purged_at: &str, fault: Fault) -> Option<Fault> {
        let Some(time) = UnixMillis::parse(purged_at) else {
            return Some(fault);
        };
        if self.erased.len() >= MAX_TIMES && !self.erased.contains_key(&time) {
            return Some(fault);
        }
        let erased = self.erased.entry(time).or_insert_with(|| Erased {
            count: 0,
            recorded: 0,
            first: fault,
        });
        erased.count += 1;
        None
    }

    /// A purge is on record; `seen` are the logs up to here.
    pub(super) fn purge(&mut self, timestamp: UnixMillis, body: &Object<'_>, seen: &[String]) {
        match text(body, "kind") {
            Some("body") => {
                if let Some(erased) = self.erased.get_mut(&timestamp) {
                    erased.recorded += integer(body, "count").unwrap_or_default();
                }
            }
            Some("prefix") => {
                let log_id = text(body, "purged_log_id").unwrap_or_default();
                let through = integer(body, "purged_through").unwrap_or_default();
                // A purge that was interrupted may have removed less than it says.
                let is_covered = |need: &Need| match need.through {
                    Some(needed) if need.log_id == log_id => through >= needed,
                    None if need.log_id == log_id => true,
                    _ => seen
                        .iter()
                        .any(|seen| seen == log_id && *seen != need.log_id),
                };
                if self.need.as_ref().is_some_and(is_covered) {
                    self.need = None;
                }
            }
            _ => {}
        }
    }

    /// What is not on record.
    pub(super) fn missing(self) -> Vec<Fault> {
        let need = self.need.map(|need| Fault {
            place: need.place,
            seq: need.through.map(|through| through + 1),
            log_id: need.through.map(|_| need.log_id),
            kind: FaultKind::UnrecordedPurge,
        });
        let erased = self.erased.into_values();
        let erased = erased.filter(|erased| erased.count > erased.recorded);
        need.into_iter()
            .chain(erased.map(|erased| erased.first))
            .collect()
    }
}
