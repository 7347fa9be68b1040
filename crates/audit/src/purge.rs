//! Taking things out of a log without breaking it (profile §13, "Purge").
//!
//! What is taken away is put on record first, then it is taken: a crash in between leaves more
//! than the record says, never less. Only segments that are sealed are changed, so that writing goes on
//! meanwhile.

mod rewrite;

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use self::rewrite::{Change, change, count, drop_checkpoints, drop_prefix};
use crate::error::at;
use crate::folder::{Lines, Segment, checkpoint_path, segments};
use crate::keep::{Keep, Note, PurgeKind};
use crate::line::{Line, Space};
use crate::log::Log;
use crate::queue::Control;
use crate::recover::began;
use crate::verify::{End, integer, text};
use crate::{Error, KeyCheck, Receipt, Refusal, UnixMillis, regular};

/// What to take away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purge {
    /// Records before this time, up to the last checkpoint among them, which stays as the anchor.
    RecordsBefore(UnixMillis),
    /// Records up to this one, which must have a checkpoint.
    RecordsThrough {
        /// The log.
        log_id: String,
        /// Its record.
        seq: u64,
    },
    /// The bodies of records before this time. What chains them stays.
    BodiesBefore(UnixMillis),
    /// The addresses beside records before this time.
    RemoteIpsBefore(UnixMillis),
}

/// What was taken away.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Purged {
    /// Whole records.
    pub records: u64,
    /// Bodies.
    pub bodies: u64,
    /// Addresses.
    pub remote_ips: u64,
    /// The last record that was dropped, by its log and number.
    pub through: Option<(String, u64)>,
}

/// How long things are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    records: Duration,
    remote_ips: Duration,
}

const DAY: Duration = Duration::from_secs(24 * 3600);

impl Retention {
    /// Records and their bodies are kept so long at least.
    pub const MIN: Duration = DAY.saturating_mul(7);

    /// Keeps records for so long, and addresses for so long.
    ///
    /// # Errors
    /// If records would be kept for less than seven days.
    pub fn new(records: Duration, remote_ips: Duration) -> Result<Self, Error> {
        match records >= Self::MIN {
            true => Ok(Self {
                records,
                remote_ips,
            }),
            false => Err(Error::TooYoung),
        }
    }

    /// What is to be purged now.
    #[must_use]
    pub fn due(&self, now: UnixMillis) -> [Purge; 3] {
        let before = |age: Duration| now.minus(age.as_millis().try_into().unwrap_or(i64::MAX));
        [
            Purge::RecordsBefore(before(self.records)),
            // Those that no checkpoint lets go yet.
            Purge::BodiesBefore(before(self.records)),
            Purge::RemoteIpsBefore(before(self.remote_ips)),
        ]
    }
}

impl Default for Retention {
    /// 90 days, and seven for addresses.
    fn default() -> Self {
        Self {
            records: DAY.saturating_mul(90),
            remote_ips: DAY.saturating_mul(7),
        }
    }
}

/// Where a prefix ends.
struct Cut {
    /// Segments that go wholly.
    whole: usize,
    /// Bytes that go of the one after them.
    offset: u64,
    log_id: String,
    seq: u64,
    /// What is on record: `seq`, or more if the log went further and its end was lost.
    through: u64,
    timestamp: UnixMillis,
    count: u64,
    /// The earliest and the latest time of what goes.
    range: Range,
}

/// The earliest and the latest time of some records.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Range {
    pub(crate) from: UnixMillis,
    pub(crate) to: UnixMillis,
}

impl Range {
    const fn of(time: UnixMillis) -> Self {
        Self {
            from: time,
            to: time,
        }
    }

    fn with(self, time: UnixMillis) -> Self {
        Self {
            from: self.from.min(time),
            to: self.to.max(time),
        }
    }
}

/// What a purge of bodies or addresses takes away.
struct Meant {
    count: u64,
    log_id: String,
    /// The last record.
    seq: u64,
    range: Range,
}

impl Log {
    /// Takes something away. This reads and writes files on the calling thread, while records are
    /// written on.
    ///
    /// # Errors
    /// If the purge cannot be put on record, what it asks for may not go, or a file cannot be
    /// rewritten. A purge that was interrupted can be asked for again.
    pub fn purge(&self, purge: &Purge) -> Result<Purged, Error> {
        let _alone = self.purging();
        match purge {
            Purge::RecordsBefore(time) => {
                self.check_age(*time)?;
                let sealed = self.sealed(Some(*time))?;
                let cut = find_cut(self.folder(), self.keys(), &sealed, |line| {
                    line.link.timestamp < *time
                });
                match cut.map_err(at("read", self.folder()))? {
                    Some(cut) => self.drop_through(&sealed, &cut),
                    None => Ok(Purged::default()),
                }
            }
            Purge::RecordsThrough { log_id, seq } => self.drop_exactly(log_id, *seq),
            Purge::BodiesBefore(time) => {
                self.check_age(*time)?;
                let bodies = self.change(PurgeKind::Body, *time)?;
                Ok(Purged {
                    bodies,
                    ..Purged::default()
                })
            }
            Purge::RemoteIpsBefore(time) => {
                let remote_ips = self.change(PurgeKind::RemoteIp, *time)?;
                Ok(Purged {
                    remote_ips,
                    ..Purged::default()
                })
            }
        }
    }

    /// Takes away what has been kept long enough, by the time that the log bears out
    /// ([`Log::clock_ahead`]).
    ///
    /// # Errors
    /// As [`Log::purge`].
    pub fn retain(&self, retention: &Retention) -> Result<Purged, Error> {
        let ahead = self.clock_ahead()?.as_millis();
        let now = self
            .clock()
            .now()
            .minus(ahead.try_into().unwrap_or(i64::MAX));
        let [records, bodies, remote_ips] = retention.due(now);
        let dropped = self.purge(&records)?;
        Ok(Purged {
            bodies: self.purge(&bodies)?.bodies,
            remote_ips: self.purge(&remote_ips)?.remote_ips,
            ..dropped
        })
    }

    fn check_age(&self, before: UnixMillis) -> Result<(), Error> {
        let least = i64::try_from(Retention::MIN.as_millis()).unwrap_or(i64::MAX);
        match before > self.clock().now().minus(least) {
            true => Err(Error::TooYoung),
            false => Ok(()),
        }
    }

    /// The segments that nobody writes any more; if the one that is being written has something
    /// from before this time, it is sealed too.
    fn sealed(&self, before: Option<UnixMillis>) -> Result<Vec<Segment>, Error> {
        let read = |error| at("read", self.folder())(error);
        let active = || self.shared().active.load(Ordering::Acquire);
        let number = active();
        let all = segments(self.folder()).map_err(read)?;
        if let Some(written) = all.iter().find(|segment| segment.number == number) {
            let began = began(written).map_err(read)?;
            if before.is_none_or(|before| began.is_some_and(|began| began < before)) {
                self.rotate().wait()?;
            }
        }
        let number = active();
        Ok(all
            .into_iter()
            .filter(|segment| segment.number < number)
            .collect())
    }

    fn drop_exactly(&self, log_id: &str, seq: u64) -> Result<Purged, Error> {
        let sealed = self.sealed(None)?;
        let mut is_past = false;
        let cut = find_cut(self.folder(), self.keys(), &sealed, |line| {
            let is_before = !is_past;
            is_past |= line.link.log_id == log_id && line.link.seq >= seq;
            is_before
        });
        let cut = cut.map_err(at("read", self.folder()))?;
        match cut.filter(|cut| cut.log_id == log_id && cut.seq == seq) {
            Some(cut) => {
                self.check_age(UnixMillis(cut.timestamp.0.saturating_add(1)))?;
                self.drop_through(&sealed, &cut)
            }
            None => Err(Error::NoCheckpoint {
                log_id: log_id.to_owned(),
                seq,
            }),
        }
    }

    fn drop_through(&self, sealed: &[Segment], cut: &Cut) -> Result<Purged, Error> {
        let last = (cut.log_id.as_str(), cut.through);
        self.note(Note::purge(
            PurgeKind::Prefix,
            cut.count,
            last,
            None,
            cut.range,
        ))?;
        drop_prefix(sealed, cut.whole, cut.offset).map_err(at("purge", self.folder()))?;
        drop_checkpoints(self.folder()).map_err(at("purge", self.folder()))?;
        Ok(Purged {
            records: cut.count,
            through: Some((cut.log_id.clone(), cut.seq)),
            ..Purged::default()
        })
    }

    /// Erases parts of records before a time; returns how many there were.
    fn change(&self, kind: PurgeKind, before: UnixMillis) -> Result<u64, Error> {
        let sealed = self.sealed(Some(before))?;
        let mut all: Option<Meant> = None;
        let mut found = Vec::new();
        for segment in sealed {
            let meant = count(&segment, kind, before).map_err(at("read", &segment.path))?;
            let Some(meant) = meant else { continue };
            all = Some(match all {
                None => meant,
                Some(all) => all.and(meant),
            });
            found.push(segment);
        }
        let Some(Meant {
            count,
            log_id,
            seq,
            range,
        }) = all
        else {
            return Ok(0);
        };
        let note = Note::purge(kind, count, (&log_id, seq), Some(before), range);
        let Receipt { timestamp, .. } = self.note(note)?;
        let wanted = Change {
            kind,
            before,
            timestamp,
        };
        for segment in found {
            change(&segment, &wanted).map_err(at("purge", &segment.path))?;
        }
        Ok(count)
    }

    fn note(&self, note: Note) -> Result<Receipt, Error> {
        self.shared().queue.control(Control::Note(note)).wait()
    }
}

impl Meant {
    fn and(self, later: Self) -> Self {
        Self {
            count: self.count + later.count,
            range: self.range.with(later.range.from).with(later.range.to),
            ..later
        }
    }
}

/// The last place at which the log may be cut among the records that may go.
fn find_cut(
    folder: &Path,
    keys: &dyn KeyCheck,
    sealed: &[Segment],
    mut may_go: impl FnMut(&Line<'_>) -> bool,
) -> io::Result<Option<Cut>> {
    let mut cut: Option<Cut> = None;
    let mut last: Option<Cut> = None;
    let mut space = Space::default();
    let mut anchors = BTreeSet::new();
    let (mut buffer, mut count) = (Vec::new(), 0);
    let mut range: Option<Range> = None;
    for (whole, segment) in sealed.iter().enumerate() {
        let mut lines = Lines::open(segment)?;
        loop {
            let start = lines.offset();
            let Some((_, end)) = lines.next_line(&mut buffer)? else {
                break;
            };
            // What is no record goes with its log.
            let line = match end {
                End::Newline => Line::split(&buffer).ok(),
                End::CutOff | End::TooLong => None,
            };
            let Some(line) = line else { continue };
            if !may_go(&line) {
                return Ok(cut);
            }
            let is_new = last
                .as_ref()
                .is_none_or(|last| last.log_id != line.link.log_id);
            if is_new {
                // The end of a log needs no anchor: the one after it begins by itself.
                if let Some(last) = last.take() {
                    let offset = start;
                    let through = last.through.max(end_of(&last.log_id, &line, &mut space));
                    cut = Some(Cut {
                        whole,
                        offset,
                        through,
                        ..last
                    });
                }
                anchors = anchors_of(folder, keys, line.link.log_id)?;
            }
            count += 1;
            let time = line.link.timestamp;
            let range = range.get_or_insert_with(|| Range::of(time));
            *range = range.with(time);
            let range = *range;
            let here = |offset, through| Cut {
                whole,
                offset,
                log_id: line.link.log_id.to_owned(),
                seq: line.link.seq,
                through,
                timestamp: time,
                count,
                range,
            };
            if anchors.contains(&(line.link.seq, *line.hash.as_bytes())) {
                cut = Some(here(lines.offset(), line.link.seq));
            }
            // In a log that was damaged the last one need not have the highest number.
            let through = last.map_or(0, |last| last.through).max(line.link.seq);
            last = Some(here(lines.offset(), through));
        }
    }
    Ok(cut)
}

/// Where the log before another one ended, if the first record of that one says so.
fn end_of(log_id: &str, first: &Line<'_>, space: &mut Space) -> u64 {
    let body = first.check(space).ok().flatten();
    let gap = body.filter(|_| Keep::of(first.link.event_type) == Some(Keep::AuditGap));
    let gap = gap.filter(|gap| text(gap, "previous_log_id") == Some(log_id));
    gap.and_then(|gap| integer(&gap, "previous_seq"))
        .unwrap_or_default()
}

/// The records of a log that have a checkpoint, with their hashes.
fn anchors_of(
    folder: &Path,
    keys: &dyn KeyCheck,
    log_id: &str,
) -> io::Result<BTreeSet<(u64, [u8; 32])>> {
    let path = checkpoint_path(folder, log_id);
    let text = match regular::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        text => text?,
    };
    let checkpoints = text.lines().filter_map(|jws| match keys.check(jws) {
        // For one whose key is gone a later one stands.
        Ok(checkpoint) | Err(Refusal::UnknownKey(checkpoint)) => Some(checkpoint),
        Err(Refusal::Invalid(_)) => None,
    });
    Ok(checkpoints
        .map(|checkpoint| (checkpoint.seq, *checkpoint.head_hash.as_bytes()))
        .collect())
}
