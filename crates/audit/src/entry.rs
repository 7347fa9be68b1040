//! Records as they are read: for people, for export, for counting.

use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};

use canonical::{Digest, Number, Object, Value};

use crate::folder::{Lines, checkpoint_logs, checkpoint_path, segments};
use crate::line::{Content, Line, Space};
use crate::verify::{End, integer, text};
use crate::{FaultKind, UnixMillis, regular};

/// A record whose own hashes are right. Whether it stands in its place in the chain is a matter of
/// [`verify`](fn@crate::verify).
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The log it belongs to.
    pub log_id: String,
    /// Its number in that log.
    pub seq: u64,
    /// When it was written.
    pub timestamp: UnixMillis,
    /// What kind of thing happened.
    pub event_type: String,
    /// Its hash.
    pub hash: Digest,
    /// The address it came from, unless it was erased.
    pub remote_ip: Option<String>,
    /// What it says, unless that was erased.
    pub body: Option<Object<'static>>,
}

impl Entry {
    /// Reads a line, given without its end.
    ///
    /// # Errors
    /// If it is no record, or its hashes are not right.
    pub fn parse(line: &[u8]) -> Result<Self, FaultKind> {
        let parts = Line::split(line)?;
        let mut space = Space::default();
        let body = parts.check(&mut space)?.map(Object::into_owned);
        Ok(Self {
            log_id: parts.link.log_id.to_owned(),
            seq: parts.link.seq,
            timestamp: parts.link.timestamp,
            event_type: parts.link.event_type.to_owned(),
            hash: parts.hash,
            remote_ip: match parts.content {
                Content::Body {
                    remote_ip: Some(remote_ip),
                    ..
                } => Some(remote_ip.text.to_owned()),
                Content::Body { .. } | Content::Erased { .. } => None,
            },
            body,
        })
    }

    /// A member of the body that is a text.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.body.as_ref().and_then(|body| text(body, name))
    }

    /// A member of the body that is a number.
    #[must_use]
    pub fn integer(&self, name: &str) -> Option<u64> {
        self.body.as_ref().and_then(|body| integer(body, name))
    }

    /// The plain `AuditEntry` line of other A2E hosts; `None` if this is no A2E request, or its
    /// body was erased.
    #[must_use]
    pub fn to_a2e(&self) -> Option<String> {
        self.text("message_type")?;
        let status = self.text("response_status").unwrap_or_default();
        let is_success = status == "success";
        let id = self.text("request_id").unwrap_or_default();
        let string = |text: &str| Value::String(text.to_owned().into());
        let number = |name| {
            let value = self.integer(name).unwrap_or_default();
            let value = i64::try_from(value).ok().and_then(Number::integer);
            value.map_or(Value::Null, Value::Number)
        };
        let members = [
            (
                "session_id",
                string(self.text("session_id").unwrap_or_default()),
            ),
            ("req_id", string(id)),
            (
                "correlation_id",
                string(self.text("correlation_id").unwrap_or(id)),
            ),
            ("success", Value::Bool(is_success)),
            ("duration_ms", number("processing_time_ms")),
            (
                "error_code",
                if is_success {
                    Value::Null
                } else {
                    string(status)
                },
            ),
            ("input_bytes", number("input_bytes")),
            ("output_bytes", number("output_bytes")),
        ];
        // In the order in which others write them, which is not the canonical one.
        let members = members.map(|(name, value)| {
            let value = value.to_canonical();
            format!("\"{name}\":{}", String::from_utf8_lossy(&value))
        });
        let (seconds, millis) = (self.timestamp.seconds(), self.timestamp.0.rem_euclid(1_000));
        Some(format!(
            "{{\"ts\":{seconds}.{millis:03},{}}}",
            members.join(",")
        ))
    }
}

/// Reads a log from near its end, and goes on as it grows.
#[derive(Debug)]
pub struct Follower {
    folder: PathBuf,
    /// The segment that was read last, and how far.
    number: u64,
    offset: u64,
}

impl Follower {
    /// Begins with the last lines there are, given without their ends: at most so many.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn new(folder: &Path, count: usize) -> io::Result<(Self, Vec<Vec<u8>>)> {
        let mut follower = Self {
            folder: folder.to_owned(),
            number: 0,
            offset: 0,
        };
        let segments = segments(folder)?;
        // Backwards, until there are enough; lines are whole, so none is cut in two.
        let mut last: VecDeque<Vec<u8>> = VecDeque::new();
        for segment in segments.iter().rev() {
            let mut own = VecDeque::new();
            let missing = count - last.len();
            let offset = whole_lines(Lines::open(segment)?, |line| {
                own.push_back(line.to_vec());
                if own.len() > missing {
                    own.pop_front();
                }
            })?;
            if segment.number > follower.number {
                (follower.number, follower.offset) = (segment.number, offset);
            }
            own.append(&mut last);
            last = own;
            if last.len() == count {
                break;
            }
        }
        Ok((follower, last.into()))
    }

    /// The lines that were written since.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn next_lines(&mut self) -> io::Result<Vec<Vec<u8>>> {
        let mut found = Vec::new();
        for segment in segments(&self.folder)? {
            let offset = match segment.number.cmp(&self.number) {
                Ordering::Less => continue,
                Ordering::Equal => self.offset,
                Ordering::Greater => 0,
            };
            let lines = Lines::open_at(&segment, offset)?;
            self.offset = whole_lines(lines, |line| found.push(line.to_vec()))?;
            self.number = segment.number;
        }
        Ok(found)
    }
}

/// Shows every whole line; returns where the last one ends.
fn whole_lines(mut lines: Lines, mut show: impl FnMut(&[u8])) -> io::Result<u64> {
    let (mut line, mut end_of_last) = (Vec::new(), lines.offset());
    while let Some((_, end)) = lines.next_line(&mut line)? {
        if end == End::Newline {
            show(&line);
        }
        if end != End::CutOff {
            end_of_last = lines.offset();
        }
    }
    Ok(end_of_last)
}

/// What a log has, without verification.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// Files of records.
    pub segments: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Records.
    pub records: u64,
    /// Lines that are none.
    pub unreadable: u64,
    /// Records without body.
    pub erased: u64,
    /// Addresses that are still there.
    pub remote_ips: u64,
    /// Logs; more than one means that there was a gap.
    pub logs: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// The time of the first record.
    pub first: Option<UnixMillis>,
    /// The time of the last record.
    pub last: Option<UnixMillis>,
    /// Records by what happened.
    pub events: BTreeMap<String, u64>,
    /// Requests by whether they were let through.
    pub results: BTreeMap<String, u64>,
    /// Requests by the status of their response.
    pub statuses: BTreeMap<String, u64>,
}

/// Kinds of words that are counted; the rest is `other`, whatever somebody wrote into the files.
const MAX_WORDS: usize = 1_000;

impl Stats {
    /// Counts what is in a folder.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn of(folder: &Path) -> io::Result<Self> {
        let mut stats = Self::default();
        let (mut buffer, mut log_id) = (Vec::new(), String::new());
        for segment in segments(folder)? {
            stats.segments += 1;
            let mut lines = Lines::open(&segment)?;
            while let Some((_, end)) = lines.next_line(&mut buffer)? {
                let Some(entry) = Entry::parse(&buffer).ok().filter(|_| end == End::Newline) else {
                    stats.unreadable += 1;
                    continue;
                };
                stats.logs += u64::from(entry.log_id != log_id);
                stats.add(&entry);
                log_id = entry.log_id;
            }
            stats.bytes += lines.offset();
        }
        for log_id in checkpoint_logs(folder)? {
            let text = regular::read(&checkpoint_path(folder, &log_id))?;
            stats.checkpoints += text.bytes().filter(|byte| *byte == b'\n').count() as u64;
        }
        Ok(stats)
    }

    fn add(&mut self, entry: &Entry) {
        self.records += 1;
        self.erased += u64::from(entry.body.is_none());
        self.remote_ips += u64::from(entry.remote_ip.is_some());
        self.first.get_or_insert(entry.timestamp);
        self.last = Some(entry.timestamp);
        count(&mut self.events, &entry.event_type);
        if let Some(result) = entry.text("result") {
            count(&mut self.results, result);
        }
        if let Some(status) = entry.text("response_status") {
            count(&mut self.statuses, status);
        }
    }
}

fn count(words: &mut BTreeMap<String, u64>, word: &str) {
    let word = match words.len() < MAX_WORDS || words.contains_key(word) {
        true => word,
        false => "other",
    };
    *words.entry(word.to_owned()).or_default() += 1;
}
