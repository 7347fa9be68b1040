//! What the fuzz targets run. Not part of the interface.
#![expect(
    clippy::panic,
    reason = "a fuzz target reports a finding by panicking; no other code calls this"
)]

use std::io;

use canonical::Digest;

use crate::line::{Content, Link, NO_HASH, push_line};
use crate::random::Salt;
use crate::verify::{End, Found, Report, Source, verify};
use crate::{Body, Checkpoint, Entry, KeyCheck, Place, Refusal, UnixMillis};

/// Any bytes as a file of records; then a good log whose texts are made of the bytes, in which no
/// byte can change without being found.
pub fn audit_file(bytes: &[u8]) {
    let lines: Vec<Vec<u8>> = bytes
        .split(|byte| *byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect();
    for line in &lines {
        if let Ok(entry) = Entry::parse(line) {
            let _ = entry.to_a2e();
        }
    }
    let mut strange = Memory::new(lines, bytes.to_vec());
    let _ = strange.verify();

    let mut log = good_log(bytes);
    let report = log.verify();
    assert!(report.is_intact(), "{:?}", report.faults);
    let at = bytes.iter().fold(7_usize, |at, byte| {
        at.wrapping_mul(31).wrapping_add(usize::from(*byte))
    });
    log.flip(at);
    assert!(!log.verify().is_intact(), "a changed byte was not found");
}

/// Three records, the last of them under a checkpoint.
fn good_log(bytes: &[u8]) -> Memory {
    let mut log = Memory::new(Vec::new(), Vec::new());
    let mut hash = Digest::from(NO_HASH);
    for (seq, part) in (1..=3).zip(bytes.chunks(bytes.len() / 3 + 1).chain([&[][..]; 3])) {
        let text = String::from_utf8_lossy(part);
        let body = Body {
            name: Some(&text),
            reason: Some(&text),
            input_bytes: Some(part.len() as u64),
            ..Body::default()
        };
        let mut salted = [seq; 16].to_vec();
        body.push_canonical(&mut salted, None);
        let link = Link {
            log_id: "log-1",
            seq: seq.into(),
            timestamp: UnixMillis(1_770_000_000_000),
            event_type: "request_received",
            prev_hash: hash,
            body_hash: Digest::of(&salted),
        };
        let content = Content::Body {
            salt: Salt([seq; 16]),
            remote_ip: None,
            members: salted.get(17..).unwrap_or_default(),
        };
        let mut line = Vec::new();
        hash = push_line(&mut line, &link, &content);
        line.pop();
        log.records.push(line);
    }
    log.checkpoint = Stub::sign(&format!("log-1 3 {hash}"));
    log
}

/// A log in memory.
struct Memory {
    records: Vec<Vec<u8>>,
    checkpoint: Vec<u8>,
    line: usize,
    is_read: bool,
}

impl Memory {
    const fn new(records: Vec<Vec<u8>>, checkpoint: Vec<u8>) -> Self {
        Self {
            records,
            checkpoint,
            line: 0,
            is_read: false,
        }
    }

    fn verify(&mut self) -> Report {
        (self.line, self.is_read) = (0, false);
        match verify(self, &Stub) {
            Ok(report) => report,
            Err(error) => panic!("memory cannot fail: {error}"),
        }
    }

    fn flip(&mut self, at: usize) {
        let texts = || self.records.iter().chain([&self.checkpoint]);
        let total: usize = texts().map(Vec::len).sum();
        let mut at = at % total.max(1);
        for text in self.records.iter_mut().chain([&mut self.checkpoint]) {
            match text.get_mut(at) {
                Some(byte) => {
                    *byte ^= 1 << (total % 7);
                    return;
                }
                None => at -= text.len(),
            }
        }
    }

    fn found(line: usize) -> Found {
        Found {
            place: Place {
                file: "memory".into(),
                line: line as u64,
            },
            end: End::Newline,
            is_fresh: false,
        }
    }
}

impl Source for Memory {
    fn next_record(&mut self, line: &mut Vec<u8>) -> io::Result<Option<Found>> {
        let Some(record) = self.records.get(self.line) else {
            return Ok(None);
        };
        line.clone_from(record);
        self.line += 1;
        Ok(Some(Self::found(self.line)))
    }

    fn begin_checkpoints(&mut self, _: &str) -> io::Result<()> {
        self.is_read = false;
        Ok(())
    }

    fn next_checkpoint(&mut self, line: &mut Vec<u8>) -> io::Result<Option<Found>> {
        if std::mem::replace(&mut self.is_read, true) {
            return Ok(None);
        }
        line.clone_from(&self.checkpoint);
        Ok(Some(Self::found(1)))
    }

    fn checkpoint_logs(&mut self) -> io::Result<Vec<(String, Place)>> {
        Ok(Vec::new())
    }
}

/// Stands for a signature: gets past cryptography, and still notices every change.
struct Stub;

impl Stub {
    fn sign(text: &str) -> Vec<u8> {
        format!("{text} {}", Digest::of(text.as_bytes())).into_bytes()
    }
}

impl KeyCheck for Stub {
    fn check(&self, jws: &str) -> Result<Checkpoint, Refusal> {
        let invalid = || Refusal::Invalid("not signed".into());
        let (text, _) = jws.rsplit_once(' ').ok_or_else(invalid)?;
        if Self::sign(text) != jws.as_bytes() {
            return Err(invalid());
        }
        let mut words = text.split(' ');
        let mut word = || words.next().ok_or_else(invalid);
        Ok(Checkpoint {
            log_id: word()?.to_owned(),
            seq: word()?.parse().map_err(|_| invalid())?,
            head_hash: word()?.parse().map_err(|_| invalid())?,
            timestamp: 0,
        })
    }
}
