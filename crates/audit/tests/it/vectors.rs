//! The vectors of the profile.

use audit::{End, Entry, Found, KeyCheck as _, Place, Source, verify};
use canonical::{Object, Value};
use serde_json::json;

use crate::support::check_with;

fn section() -> serde_json::Value {
    testkit::vectors("a2a/a2a-vectors.json")["audit"].take()
}

/// A record of the vectors as a line: the same members in the order of our files.
pub(crate) fn line(record: &serde_json::Value) -> Vec<u8> {
    let Value::Object(mut tree) = Value::from_serialize(record).unwrap() else {
        panic!("{record}");
    };
    let mut part = |names: &[&str]| {
        let mut part = Object::default();
        for name in names {
            if let Some(value) = tree.remove(name) {
                part.insert((*name).to_owned(), value);
            }
        }
        Value::Object(part).to_canonical()
    };
    let links = [
        "body_hash",
        "event_type",
        "log_id",
        "prev_hash",
        "seq",
        "timestamp",
    ];
    let parts = [
        part(&links),
        part(&["hash"]),
        part(&["purged_at"]),
        part(&["body_salt"]),
        part(&["remote_ip", "remote_ip_salt"]),
        Value::Object(tree).to_canonical(),
    ];
    let inner = parts.iter().map(|part| &part[1..part.len() - 1]);
    let inner: Vec<&[u8]> = inner.filter(|part| !part.is_empty()).collect();
    [b"{", inner.join(&b","[..]).as_slice(), b"}"].concat()
}

/// Records and checkpoints in memory.
pub(crate) struct Memory {
    pub(crate) records: Vec<Vec<u8>>,
    pub(crate) checkpoints: Vec<(String, Vec<String>)>,
    next: (usize, usize, usize),
}

impl Memory {
    pub(crate) fn new(records: Vec<Vec<u8>>, checkpoints: &[(&str, &str)]) -> Self {
        let checkpoints = checkpoints.iter();
        Self {
            records,
            checkpoints: checkpoints
                .map(|(log_id, jws)| ((*log_id).to_owned(), vec![(*jws).to_owned()]))
                .collect(),
            next: (0, 0, 0),
        }
    }
}

fn found(file: &str, line: usize) -> Found {
    Found {
        place: Place {
            file: file.into(),
            line: line as u64,
        },
        end: End::Newline,
        is_fresh: false,
    }
}

impl Source for Memory {
    fn next_record(&mut self, line: &mut Vec<u8>) -> std::io::Result<Option<Found>> {
        let record = self.records.get(self.next.0).cloned();
        self.next.0 += 1;
        *line = record.clone().unwrap_or_default();
        Ok(record.map(|_| found("records", self.next.0)))
    }

    fn begin_checkpoints(&mut self, log_id: &str) -> std::io::Result<()> {
        let log = self.checkpoints.iter().position(|(id, _)| id == log_id);
        (self.next.1, self.next.2) = (log.unwrap_or(usize::MAX), 0);
        Ok(())
    }

    fn next_checkpoint(&mut self, line: &mut Vec<u8>) -> std::io::Result<Option<Found>> {
        let log = self.checkpoints.get(self.next.1);
        let jws = log.and_then(|(_, all)| all.get(self.next.2)).cloned();
        self.next.2 += 1;
        *line = jws.clone().unwrap_or_default().into_bytes();
        Ok(jws.map(|_| found("checkpoints", self.next.2)))
    }

    fn checkpoint_logs(&mut self) -> std::io::Result<Vec<(String, Place)>> {
        let logs = self.checkpoints.iter();
        Ok(logs
            .map(|(id, _)| (id.clone(), found("checkpoints", 1).place))
            .collect())
    }
}

struct VectorKeys;

impl audit::KeyCheck for VectorKeys {
    fn check(&self, jws: &str) -> Result<audit::Checkpoint, audit::Refusal> {
        check_with(&[("sig-2026-01", 2)], jws)
    }
}

/// Profile §13: the hashes of records, and the checkpoint's signature.
#[test]
fn the_vectors_verify() {
    let section = section();
    let records = section["records"].as_array().unwrap();
    let jws = section["checkpoint"]["jws"].as_str().unwrap();
    let lines: Vec<Vec<u8>> = records.iter().map(line).collect();
    for (record, line) in records.iter().zip(&lines) {
        let entry = Entry::parse(line).unwrap();
        assert_eq!(entry.hash.to_string(), record["hash"]);
        assert_eq!(entry.text("intent_goal"), Some("translate"));
    }
    let report = verify(&mut Memory::new(lines, &[("log-1", jws)]), &VectorKeys).unwrap();
    assert!(report.is_intact(), "{:?}", report.faults);
    assert_eq!(
        (report.records, report.checkpoints, report.unsigned),
        (3, 1, 0)
    );
    let checkpoint = VectorKeys.check(jws).unwrap();
    let payload = &section["checkpoint"]["payload"];
    let said = json!({"log_id": checkpoint.log_id, "seq": checkpoint.seq,
        "head_hash": checkpoint.head_hash.to_string(), "timestamp": checkpoint.timestamp,
        "issuer": payload["issuer"]});
    assert_eq!(&said, payload);
}

/// Threat 139, 140: a record without its body still chains; who wants to know whether the node did
/// it finds no purge on record, since these vectors have none.
#[test]
fn the_vectors_verify_after_a_purge() {
    let section = section();
    let lines: Vec<Vec<u8>> = section["after_purge_of_seq_2"]
        .as_array()
        .unwrap()
        .iter()
        .map(line)
        .collect();
    assert!(Entry::parse(&lines[1]).unwrap().body.is_none());
    let jws = section["checkpoint"]["jws"].as_str().unwrap();
    let report = verify(&mut Memory::new(lines, &[("log-1", jws)]), &VectorKeys).unwrap();
    assert_eq!((report.records, report.erased, report.unsigned), (3, 1, 0));
    let codes: Vec<&str> = report
        .faults
        .iter()
        .map(|fault| fault.kind.code())
        .collect();
    assert_eq!(codes, ["unrecorded_erasure"]);
}
