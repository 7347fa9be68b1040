//! Changing sealed segments.

use std::fs::{self, File};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

use base::{Durability, PRIVATE, replace_file};

use super::{Meant, Range};
use crate::UnixMillis;
use crate::disk::{Disk, RealDisk};
use crate::folder::{Lines, Segment, checkpoint_logs, checkpoint_path, segments};
use crate::keep::{Keep, PurgeKind};
use crate::line::{Content, Line};
use crate::recover::ordinal;
use crate::regular::open_to_read;
use crate::verify::End;

/// What is to be changed in records.
pub(super) struct Change {
    pub(super) kind: PurgeKind,
    pub(super) before: UnixMillis,
    /// When: the time of the purge on record.
    pub(super) timestamp: UnixMillis,
}

/// Whether a record has what is to go.
fn is_meant(line: &Line<'_>, kind: PurgeKind, before: UnixMillis) -> bool {
    let Content::Body { remote_ip, .. } = &line.content else {
        return false;
    };
    line.link.timestamp < before
        && match kind {
            PurgeKind::Body => Keep::of(line.link.event_type).is_none(),
            PurgeKind::RemoteIp => remote_ip.is_some(),
            PurgeKind::Prefix => false,
        }
}

/// The records of a segment that have what is to go.
pub(super) fn count(
    segment: &Segment,
    kind: PurgeKind,
    before: UnixMillis,
) -> io::Result<Option<Meant>> {
    let (mut lines, mut buffer) = (Lines::open(segment)?, Vec::new());
    let mut found: Option<Meant> = None;
    while let Some((_, end)) = lines.next_line(&mut buffer)? {
        let line = Line::split(&buffer).ok().filter(|_| end == End::Newline);
        let Some(line) = line.filter(|line| is_meant(line, kind, before)) else {
            continue;
        };
        let time = line.link.timestamp;
        let found = found.get_or_insert_with(|| Meant {
            count: 0,
            log_id: String::new(),
            seq: 0,
            range: Range::of(time),
        });
        found.count += 1;
        line.link.log_id.clone_into(&mut found.log_id);
        found.seq = line.link.seq;
        found.range = found.range.with(time);
    }
    Ok(found)
}

/// Rewrites a segment without what is to go. Lines that are no records stay as they are.
pub(super) fn change(segment: &Segment, wanted: &Change) -> io::Result<()> {
    let (mut lines, mut buffer) = (Lines::open(segment)?, Vec::new());
    replace_file(&segment.path, PRIVATE, Durability::Durable, |file| {
        let mut file = BufWriter::with_capacity(64 * 1024, file);
        let mut out = Vec::new();
        while let Some((place, end)) = lines.next_line(&mut buffer)? {
            out.clear();
            match (end, Line::split(&buffer)) {
                (End::Newline, Ok(line)) if is_meant(&line, wanted.kind, wanted.before) => {
                    match wanted.kind {
                        PurgeKind::Body => line.push_erased(&mut out, wanted.timestamp),
                        PurgeKind::RemoteIp | PurgeKind::Prefix => line.push_without_ip(&mut out),
                    }
                }
                (End::Newline, _) => {
                    out.extend_from_slice(&buffer);
                    out.push(b'\n');
                }
                (End::CutOff, _) => out.extend_from_slice(&buffer),
                (End::TooLong, _) => {
                    let why = format!("line {} is longer than any record", place.line);
                    return Err(io::Error::new(io::ErrorKind::InvalidData, why));
                }
            }
            file.write_all(&out)?;
        }
        file.flush()
    })
}

/// Removes segments, the oldest first, and the beginning of the one after them. Wherever this is
/// interrupted, what is left begins at a checkpoint or with a log.
pub(super) fn drop_prefix(sealed: &[Segment], whole: usize, offset: u64) -> io::Result<()> {
    for segment in sealed.iter().take(whole) {
        fs::remove_file(&segment.path)?;
    }
    if let (Some(segment), 1..) = (sealed.get(whole), offset) {
        let mut source = open_to_read(&segment.path)?;
        if offset < source.metadata()?.len() {
            source.seek(SeekFrom::Start(offset))?;
            let copy = |file: &mut File| io::copy(&mut source, file).map(drop);
            return replace_file(&segment.path, PRIVATE, Durability::Durable, copy);
        }
        fs::remove_file(&segment.path)?;
    }
    let folder = sealed.first().and_then(|segment| segment.path.parent());
    folder.map_or(Ok(()), |folder| RealDisk.sync_folder(folder))
}

/// Removes the checkpoints of logs that are gone. Those of a log that is still there stay, the
/// anchor among them: they are small and say nothing about anybody.
pub(super) fn drop_checkpoints(folder: &Path) -> io::Result<()> {
    let Some(first) = first_log(folder)? else {
        return Ok(());
    };
    for log_id in checkpoint_logs(folder)? {
        if ordinal(&log_id) < ordinal(&first) {
            fs::remove_file(checkpoint_path(folder, &log_id))?;
        }
    }
    Ok(())
}

fn first_log(folder: &Path) -> io::Result<Option<String>> {
    let mut buffer = Vec::new();
    for segment in segments(folder)? {
        if let Some((_, End::Newline)) = Lines::open(&segment)?.next_line(&mut buffer)? {
            let line = Line::split(&buffer).ok();
            return Ok(line.map(|line| line.link.log_id.to_owned()));
        }
    }
    Ok(None)
}
