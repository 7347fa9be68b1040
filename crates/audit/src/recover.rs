//! Finding the end of a log, and whether it is as it was left (profile §13, "Start").

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use base::TEMPORARY;
use canonical::Digest;

use crate::disk::make_folder;
use crate::error::at;
use crate::folder::{
    CHECKPOINTS, FolderSource, Lines, Segment, checkpoint_logs, checkpoint_path, segments,
};
use crate::line::Line;
use crate::verify::{End, Scope, verify_within};
use crate::{Error, Head, KeyCheck, UnixMillis, regular};

/// Where a log ends.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    /// Its last good record; `None` if there is no log yet.
    pub(crate) head: Option<Head>,
    /// Records up to this one are signed.
    pub(crate) signed: u64,
    /// The checkpoint of the last record that no record names yet.
    pub(crate) to_name: Option<Digest>,
    /// Why it cannot go on, if it cannot.
    pub(crate) gap: Option<&'static str>,
    /// Bytes of a line that was never finished, which were dropped.
    pub(crate) torn: u64,
    /// The last segment, and when it began.
    pub(crate) last: Option<(Segment, Option<UnixMillis>)>,
    /// How many logs were begun so far.
    pub(crate) ordinal: u64,
}

/// Verifies the end of the log in a folder and makes it ready to be written on.
///
/// `expected` is the last record that this process wrote, if it has written any.
pub(crate) fn recover(
    folder: &Path,
    keys: &dyn KeyCheck,
    expected: Option<&Head>,
) -> Result<Recovered, Error> {
    make_folder(&folder.join(CHECKPOINTS)).map_err(at("make the folder", folder))?;
    if expected.is_none() {
        remove_temporary(folder).map_err(at("clean up", folder))?;
    }
    let read = |error| at("read", folder)(error);
    let mut source = FolderSource::tail(folder).map_err(read)?;
    let report = verify_within(&mut source, keys, Scope::Tail).map_err(read)?;
    let logs = checkpoint_logs(folder).map_err(read)?;
    let newest_log = logs.iter().max_by_key(|log_id| ordinal(log_id));
    let newest = newest_log.map(|log_id| ordinal(log_id));
    let own = report.head.as_ref().map(|head| ordinal(&head.log_id));
    let gap = match (report.faults.first(), expected) {
        (Some(fault), _) => Some(fault.kind.code()),
        // There are checkpoints of a log after this one: its records are gone.
        (None, _) if newest > own => Some("missing_log"),
        (None, Some(expected)) if report.head.as_ref() != Some(expected) => Some("file_replaced"),
        (None, _) => None,
    };
    let head = match (gap, newest_log) {
        // What is left of it are its checkpoints: they say how far it went.
        (Some("missing_log"), Some(log_id)) => last_signed(folder, keys, log_id).map_err(read)?,
        _ => report.head,
    };
    let last = segments(folder).map_err(read)?.pop();
    let mut torn = 0;
    if let (None, Some(segment)) = (gap, &last) {
        // Why this is sound: whoever waits for a record is answered only after `write` has returned
        // for the whole of its line, the newline included, and what this process wrote is
        // appended in order. A line without its newline was therefore cut off by a crash inside
        // `write`, and nobody was answered for it. (After a power failure it may be one that
        // `sync` had not brought to the disk yet; then the settings allow its loss.) Had anyone
        // cut a longer log off here, a checkpoint might stand beyond it, and that is a gap.
        torn = cut_to_whole_lines(&segment.path).map_err(at("cut", &segment.path))?;
    }
    if let (None, Some(head)) = (gap, &head) {
        let path = checkpoint_path(folder, &head.log_id);
        // A record names a checkpoint only after it was written, so none names this one.
        cut_to_whole_lines(&path).map_err(at("cut", &path))?;
    }
    Ok(Recovered {
        signed: head
            .as_ref()
            .map_or(0, |head| head.seq.saturating_sub(report.unsigned)),
        to_name: report.to_name,
        gap,
        torn,
        last: match last {
            None => None,
            Some(segment) => {
                let began = began(&segment).map_err(read)?;
                Some((segment, began))
            }
        },
        ordinal: newest.max(own).unwrap_or_default(),
        head,
    })
}

/// The last record of a log for which there is a valid checkpoint.
fn last_signed(folder: &Path, keys: &dyn KeyCheck, log_id: &str) -> io::Result<Option<Head>> {
    let text = regular::read(&checkpoint_path(folder, log_id))?;
    let checkpoint = text.lines().rev().find_map(|jws| keys.check(jws).ok());
    let checkpoint = checkpoint.filter(|checkpoint| checkpoint.log_id == log_id);
    Ok(checkpoint.map(|checkpoint| Head {
        log_id: checkpoint.log_id,
        seq: checkpoint.seq,
        hash: checkpoint.head_hash,
    }))
}

/// Removes what a purge of an earlier process left behind. One of this process may still run.
fn remove_temporary(folder: &Path) -> io::Result<()> {
    for place in [folder, &folder.join(CHECKPOINTS)] {
        for entry in fs::read_dir(place)? {
            let entry = entry?;
            let path = entry.path();
            let is_ours = path.extension().is_some_and(|ending| ending == TEMPORARY);
            if is_ours && !entry.file_type()?.is_dir() {
                fs::remove_file(&path).map_err(regular::of(&path))?;
            }
        }
    }
    Ok(())
}

/// Drops the last line if it has no end, and space that was kept free; returns how much it dropped.
fn cut_to_whole_lines(path: &Path) -> io::Result<u64> {
    let file = match regular::open(path, OpenOptions::new().read(true).write(true)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        file => file?,
    };
    let length = file.metadata()?.len();
    let whole = whole_length(&file, length)?;
    file.set_len(whole)?;
    Ok(length - whole)
}

/// Where the last newline is, searched from the end.
fn whole_length(mut file: &File, length: u64) -> io::Result<u64> {
    let mut block = Vec::new();
    let mut end = length;
    while end > 0 {
        let start = end.saturating_sub(64 * 1024);
        block.clear();
        file.seek(SeekFrom::Start(start))?;
        file.take(end - start).read_to_end(&mut block)?;
        if let Some(at) = block.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

/// The time of a segment's first record.
pub(crate) fn began(segment: &Segment) -> io::Result<Option<UnixMillis>> {
    let mut line = Vec::new();
    Ok(match Lines::open(segment)?.next_line(&mut line)? {
        Some((_, End::Newline)) => Line::split(&line).ok().map(|line| line.link.timestamp),
        _ => None,
    })
}

/// The how-manieth log of its node this is: part of its id, so that one that vanished is missed.
pub(crate) fn ordinal(log_id: &str) -> u64 {
    let number = log_id
        .strip_prefix("log-")
        .map(|rest| match rest.split_once('-') {
            Some((number, _)) => number,
            None => rest,
        });
    number
        .and_then(|number| number.parse().ok())
        .unwrap_or_default()
}
