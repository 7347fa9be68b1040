//! The files of a log: segments with records, and one file of checkpoints for each log.
//!
//! ```text
//! audit-00000001.jsonl      records, one a line
//! audit-00000002.jsonl      the segment after it
//! checkpoints/LOG_ID.jsonl  signed checkpoints, one a line
//! lock                      held by the one process that writes
//! ```

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::line::{MAX_LINE, is_log_id};
use crate::recover::ordinal;
use crate::regular;
use crate::verify::{End, Found, Report, Scope, Source, verify_within};
use crate::{Error, KeyCheck, Place};

const PREFIX: &str = "audit-";
const SUFFIX: &str = ".jsonl";
pub(crate) const CHECKPOINTS: &str = "checkpoints";

/// Verifies the log in a folder, also while it is being written.
///
/// # Errors
/// If something cannot be read. What is wrong with the log is in the report.
pub fn verify_folder(folder: &Path, keys: &dyn KeyCheck) -> io::Result<Report> {
    let mut tries = 0;
    loop {
        let before = files(folder)?;
        let outcome = FolderSource::open(folder)
            .and_then(|mut source| verify_within(&mut source, keys, Scope::All));
        // A purge may have taken what was about to be read, and is on record behind it.
        let is_doubtful = match &outcome {
            Ok(report) => !report.is_intact(),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        tries += 1;
        if !is_doubtful || tries == MAX_TRIES || files(folder)? == before {
            return outcome;
        }
    }
}

/// How often a log is read that purges change meanwhile.
const MAX_TRIES: u32 = 10;

/// The segments there are, and which file each is: a purge puts another one in its place.
fn files(folder: &Path) -> io::Result<Vec<(Segment, Option<u64>)>> {
    let segments = segments(folder)?.into_iter();
    let with_file = segments.map(|segment| {
        let file = fs::metadata(&segment.path).ok();
        (segment, file.map(|file| file.ino()))
    });
    Ok(with_file.collect())
}

/// A file of records.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Segment {
    /// Its number; later ones have later records.
    pub number: u64,
    /// Where it is.
    pub path: PathBuf,
}

impl Segment {
    pub(crate) fn new(folder: &Path, number: u64) -> Self {
        Self {
            number,
            path: folder.join(format!("{PREFIX}{number:08}{SUFFIX}")),
        }
    }

    /// The number of the one after it.
    pub(crate) fn next_number(&self) -> Result<u64, Error> {
        let path = self.path.clone();
        self.number.checked_add(1).ok_or(Error::LastNumber { path })
    }

    pub(crate) fn name(&self) -> Arc<str> {
        let name = self.path.file_name().unwrap_or_default();
        name.to_string_lossy().into()
    }
}

/// The segments of a log in their order.
///
/// # Errors
/// If the folder cannot be read.
pub fn segments(folder: &Path) -> io::Result<Vec<Segment>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        if let Some(number) = number_of(&name) {
            found.push(Segment::new(folder, number));
        }
    }
    found.sort();
    Ok(found)
}

/// The number in a segment's name; only in the one way it is written.
fn number_of(name: &OsString) -> Option<u64> {
    let name = name.to_str()?;
    let number = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
    let number = number.parse().ok()?;
    (format!("{PREFIX}{number:08}{SUFFIX}") == name).then_some(number)
}

/// All checkpoints there are, each a compact JWS, by their logs. To be kept elsewhere: a log that is
/// replaced as a whole does not have them.
///
/// # Errors
/// If they cannot be read.
pub fn checkpoints(folder: &Path) -> io::Result<Vec<String>> {
    let mut logs = checkpoint_logs(folder)?;
    logs.sort_by_key(|log_id| ordinal(log_id));
    let mut found = Vec::new();
    for log_id in logs {
        let text = regular::read(&checkpoint_path(folder, &log_id))?;
        // The last one may be cut off.
        let whole = text
            .split_inclusive('\n')
            .filter_map(|line| line.strip_suffix('\n'));
        found.extend(whole.map(str::to_owned));
    }
    Ok(found)
}

/// Where the checkpoints of a log are.
pub(crate) fn checkpoint_path(folder: &Path, log_id: &str) -> PathBuf {
    folder.join(CHECKPOINTS).join(format!("{log_id}{SUFFIX}"))
}

fn checkpoint_name(log_id: &str) -> Arc<str> {
    format!("{CHECKPOINTS}/{log_id}{SUFFIX}").into()
}

/// The logs of which there are checkpoints.
pub(crate) fn checkpoint_logs(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder.join(CHECKPOINTS)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut logs = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        let log_id = name.to_str().and_then(|name| name.strip_suffix(SUFFIX));
        logs.extend(log_id.filter(|id| is_log_id(id)).map(str::to_owned));
    }
    logs.sort();
    Ok(logs)
}

/// Reads a file line by line, up to the length it had when it was opened.
#[derive(Debug)]
pub struct Lines {
    reader: BufReader<io::Take<File>>,
    name: Arc<str>,
    number: u64,
    /// Where the next line begins.
    offset: u64,
}

impl Lines {
    /// Opens a segment.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn open(segment: &Segment) -> io::Result<Self> {
        Self::open_within(&segment.path, segment.name(), None)
    }

    /// Opens a segment where an earlier reader stopped. Lines are counted from there.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn open_at(segment: &Segment, offset: u64) -> io::Result<Self> {
        let mut lines = Self::open(segment)?;
        let length = lines.reader.get_ref().limit();
        lines.reader.seek(SeekFrom::Start(offset))?;
        lines
            .reader
            .get_mut()
            .set_limit(length.saturating_sub(offset));
        lines.offset = offset;
        Ok(lines)
    }

    fn open_within(path: &Path, name: Arc<str>, length: Option<u64>) -> io::Result<Self> {
        let file = regular::open_to_read(path)?;
        let length = match length {
            Some(length) => length,
            None => file.metadata()?.len(),
        };
        Ok(Self {
            reader: BufReader::with_capacity(64 * 1024, file.take(length)),
            name,
            number: 0,
            offset: 0,
        })
    }

    /// The next line, without its end, put into `line`; of one that is too long only its beginning.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn next_line(&mut self, line: &mut Vec<u8>) -> io::Result<Option<(Place, End)>> {
        line.clear();
        // One byte more than the longest line, and its end.
        let most = MAX_LINE as u64 + 2;
        let mut read = self.reader.by_ref().take(most).read_until(b'\n', line)? as u64;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        let end = match line.pop_if(|last| *last == b'\n') {
            Some(_) => End::Newline,
            None if line.len() > MAX_LINE => {
                read += self.reader.skip_until(b'\n')? as u64;
                line.truncate(MAX_LINE);
                End::TooLong
            }
            None => End::CutOff,
        };
        self.offset += read;
        Ok(Some((self.place(), end)))
    }

    /// Where the next line begins, in bytes.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    fn place(&self) -> Place {
        Place {
            file: Arc::clone(&self.name),
            line: self.number,
        }
    }
}

/// A folder as it was when it was opened.
#[derive(Debug)]
pub(crate) struct FolderSource {
    folder: PathBuf,
    /// Those that are still to be read, the next one last, with the length each had.
    segments: Vec<(Segment, u64)>,
    records: Option<Lines>,
    checkpoints: Option<Lines>,
    /// How long each file of checkpoints was before the segments were looked at.
    known: Vec<(String, u64)>,
    /// How long the file was that is being read.
    known_length: u64,
}

impl FolderSource {
    /// What is written while this is read must not look like damage: a checkpoint is written after
    /// its record and before the record that names it. So those that are there before anything
    /// else is looked at have their records, and the checkpoints that records name are there if
    /// their files are read after the length of the segments is taken.
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        let known = known_checkpoints(folder)?;
        Self::new(folder, segments(folder)?, known)
    }

    /// Only the end of it: the last segment with a whole record, and what comes after.
    pub(crate) fn tail(folder: &Path) -> io::Result<Self> {
        let known = known_checkpoints(folder)?;
        let mut segments = segments(folder)?;
        let mut line = Vec::new();
        let mut first = 0;
        for (index, segment) in segments.iter().enumerate().rev() {
            let found = Lines::open(segment)?.next_line(&mut line)?;
            if found.is_some_and(|(_, end)| end != End::CutOff) {
                first = index;
                break;
            }
        }
        segments.drain(..first);
        Self::new(folder, segments, known)
    }

    fn new(folder: &Path, segments: Vec<Segment>, known: Vec<(String, u64)>) -> io::Result<Self> {
        let segments = segments.into_iter().rev().map(|segment| {
            let length = length_of(&segment.path)?;
            Ok((segment, length))
        });
        Ok(Self {
            folder: folder.to_owned(),
            segments: segments.collect::<io::Result<_>>()?,
            records: None,
            checkpoints: None,
            known,
            known_length: 0,
        })
    }
}

fn length_of(path: &Path) -> io::Result<u64> {
    Ok(fs::metadata(path).map_err(regular::of(path))?.len())
}

fn known_checkpoints(folder: &Path) -> io::Result<Vec<(String, u64)>> {
    let logs = checkpoint_logs(folder)?.into_iter();
    logs.map(|log_id| {
        let length = length_of(&checkpoint_path(folder, &log_id))?;
        Ok((log_id, length))
    })
    .collect()
}

impl Source for FolderSource {
    fn next_record(&mut self, line: &mut Vec<u8>) -> io::Result<Option<Found>> {
        loop {
            if let Some(records) = &mut self.records
                && let Some((place, end)) = records.next_line(line)?
            {
                return Ok(Some(Found {
                    place,
                    end,
                    is_fresh: false,
                }));
            }
            let Some((segment, length)) = self.segments.pop() else {
                return Ok(None);
            };
            let lines = Lines::open_within(&segment.path, segment.name(), Some(length))?;
            self.records = Some(lines);
        }
    }

    fn begin_checkpoints(&mut self, log_id: &str) -> io::Result<()> {
        let known = self.known.iter().find(|(known, _)| known == log_id);
        self.known_length = known.map_or(0, |(_, length)| *length);
        let path = checkpoint_path(&self.folder, log_id);
        self.checkpoints = match Lines::open_within(&path, checkpoint_name(log_id), None) {
            Ok(lines) => Some(lines),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        Ok(())
    }

    fn next_checkpoint(&mut self, line: &mut Vec<u8>) -> io::Result<Option<Found>> {
        let Some(checkpoints) = &mut self.checkpoints else {
            return Ok(None);
        };
        let is_fresh = checkpoints.offset() >= self.known_length;
        let found = checkpoints.next_line(line)?;
        Ok(found.map(|(place, end)| Found {
            place,
            end,
            is_fresh,
        }))
    }

    fn checkpoint_logs(&mut self) -> io::Result<Vec<(String, Place)>> {
        let logs = self.known.iter().map(|(log_id, _)| {
            let file = checkpoint_name(log_id);
            (log_id.clone(), Place { file, line: 1 })
        });
        Ok(logs.collect())
    }
}
