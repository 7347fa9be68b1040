//! What is missing was taken by the node, and nothing else was: a purge on record excuses exactly
//! what it says.

use std::fs;
use std::time::Duration;

use audit::{Checkpoint, Log, Purge, Signer as _, UnixMillis};
use canonical::{Digest, Value, base64url};
use serde_json::json;

use crate::support::{DAY, Keys, NOW, Place, append};
use crate::vectors::line;

/// Records made by hand, each chained to the one before it.
struct Chain {
    log_id: String,
    seq: u64,
    hash: Digest,
    timestamp: UnixMillis,
    lines: Vec<Vec<u8>>,
    checkpoints: Vec<String>,
}

impl Chain {
    fn new() -> Self {
        Self {
            log_id: "log-1".into(),
            seq: 0,
            hash: Digest::from([0; 32]),
            timestamp: UnixMillis(NOW),
            lines: Vec::new(),
            checkpoints: Vec::new(),
        }
    }

    /// Goes on where a closed log ends.
    fn after(place: &Place) -> Self {
        let head = place.intact().head.unwrap();
        let kept = fs::read_to_string(place.checkpoint_file()).unwrap();
        let mut chain = Self {
            log_id: head.log_id,
            seq: head.seq,
            hash: head.hash,
            timestamp: place.now(),
            lines: Vec::new(),
            checkpoints: kept.lines().map(str::to_owned).collect(),
        };
        chain.name_checkpoint();
        chain
    }

    fn push(&mut self, event_type: &str, body: &serde_json::Value) {
        let canonical = Value::from_serialize(body).unwrap().to_canonical();
        self.seq += 1;
        let mut record = json!({
            "body_hash": Digest::of(&[&[0; 16], &canonical[..]].concat()).to_string(),
            "event_type": event_type,
            "log_id": self.log_id,
            "prev_hash": self.hash.to_string(),
            "seq": self.seq,
            "timestamp": self.timestamp.to_string(),
        });
        self.hash = Value::from_serialize(&record).unwrap().digest();
        record["hash"] = self.hash.to_string().into();
        record["body_salt"] = base64url::encode(&[0; 16]).into();
        for (name, value) in body.as_object().unwrap() {
            record[name] = value.clone();
        }
        self.lines.push(line(&record));
    }

    fn sign(&mut self) {
        let checkpoint = Checkpoint {
            log_id: self.log_id.clone(),
            seq: self.seq,
            head_hash: self.hash,
            timestamp: self.timestamp.seconds(),
        };
        self.checkpoints.push(Keys(1).sign(&checkpoint).unwrap());
        self.name_checkpoint();
    }

    fn name_checkpoint(&mut self) {
        let hash = Digest::of(self.checkpoints.last().unwrap().as_bytes());
        self.push("checkpoint", &json!({"checkpoint_hash": hash.to_string()}));
    }

    /// Takes the body of a record away, as a purge does.
    fn blank(&mut self, seq: usize, purged_at: UnixMillis) {
        let text = String::from_utf8(self.lines[seq - 1].clone()).unwrap();
        self.lines[seq - 1] = blanked(&text, &purged_at.to_string()).into_bytes();
    }

    /// Writes it to a folder of its own.
    fn place(&self) -> Place {
        let place = Place::new();
        fs::create_dir_all(place.folder().join("checkpoints")).unwrap();
        fs::write(place.segment(1), self.text()).unwrap();
        let checkpoints = self.checkpoints.join("\n") + "\n";
        let path = format!("checkpoints/{}.jsonl", self.log_id);
        fs::write(place.folder().join(path), checkpoints).unwrap();
        place
    }

    /// Writes it behind a log.
    fn append_to(&self, place: &Place) {
        let last = audit::segments(&place.folder()).unwrap().pop().unwrap();
        let kept = fs::read(&last.path).unwrap();
        fs::write(&last.path, [kept, self.text()].concat()).unwrap();
    }

    fn text(&self) -> Vec<u8> {
        let lines = self.lines.iter();
        lines.flat_map(|line| [line, &b"\n"[..]].concat()).collect()
    }
}

fn blanked(line: &str, purged_at: &str) -> String {
    let (links, _) = line.split_once(",\"body_salt\"").unwrap();
    format!("{links},\"purged_at\":\"{purged_at}\"}}")
}

/// Blanks the bodies that have this word, as at that time.
fn blank(place: &Place, word: &str, purged_at: &str) {
    for segment in audit::segments(&place.folder()).unwrap() {
        let text = fs::read_to_string(&segment.path).unwrap();
        let lines = text.lines().map(|line| match line.contains(word) {
            true => blanked(line, purged_at) + "\n",
            false => line.to_owned() + "\n",
        });
        fs::write(&segment.path, lines.collect::<String>()).unwrap();
    }
}

fn codes(report: &audit::Report) -> Vec<&'static str> {
    let faults = report.faults.iter();
    faults.map(|fault| fault.kind.code()).collect()
}

/// The time of the last purge of a kind.
fn time_of(place: &Place, kind: &str) -> String {
    let kind = format!("\"kind\":\"{kind}\"");
    let lines = place.lines();
    let note = lines.iter().rfind(|line| line.contains(&kind)).unwrap();
    let note: serde_json::Value = serde_json::from_str(note).unwrap();
    note["timestamp"].as_str().unwrap().to_owned()
}

/// Before so many days ago.
fn before(place: &Place, days: i64) -> UnixMillis {
    UnixMillis(place.now().0 - days * DAY)
}

/// Five old records, and five that were written 19 days later; 20 more days have passed.
fn two_ages() -> (Place, Log) {
    let place = Place::new();
    let log = place.open();
    for _ in 0..5 {
        append(&log, "old");
    }
    log.rotate().wait().unwrap();
    place.pass(19 * DAY);
    for _ in 0..5 {
        append(&log, "mallory");
    }
    log.rotate().wait().unwrap();
    place.pass(20 * DAY);
    (place, log)
}

/// Bodies are erased, then their records are dropped: now the purge has count to spare, and somebody
/// blanks others.
pub(crate) fn others_blanked() -> Place {
    let (place, log) = two_ages();
    let purge = Purge::BodiesBefore(before(&place, 30));
    assert_eq!(log.purge(&purge).unwrap().bodies, 5);
    log.purge(&Purge::RecordsBefore(before(&place, 30)))
        .unwrap();
    log.close();
    assert_eq!(place.intact().erased, 0);
    blank(&place, "\"mallory\"", &time_of(&place, "body"));
    place
}

#[test]
fn threat_139_a_purge_of_bodies_excuses_no_other_bodies() {
    let place = others_blanked();
    let report = place.verify();
    assert_eq!(report.erased, 5);
    assert_eq!(codes(&report), ["unrecorded_erasure"]);
    let named = report.faults[0].place.line as usize - 1;
    let file = place.folder().join(&*report.faults[0].place.file);
    let text = fs::read_to_string(file).unwrap();
    assert!(text.lines().nth(named).unwrap().contains("purged_at"));
}

/// Somebody blanks a record that was written after the purge, and has an earlier time.
pub(crate) fn later_blanked() -> Place {
    let place = Place::new();
    let log = place.open();
    append(&log, "old");
    place.pass(40 * DAY);
    assert_eq!(
        log.purge(&Purge::BodiesBefore(before(&place, 30)))
            .unwrap()
            .bodies,
        1
    );
    // The clock goes back.
    place.pass(-40 * DAY);
    append(&log, "mallory");
    place.pass(40 * DAY);
    log.close();
    place.intact();
    // As if the other were dropped: the count is right.
    let time = time_of(&place, "body");
    let text = fs::read_to_string(place.segment(1)).unwrap();
    fs::write(
        place.segment(1),
        text.replace(&time, "2026-01-01T00:00:00.000Z"),
    )
    .unwrap();
    blank(&place, "\"mallory\"", &time);
    place
}

#[test]
fn a_purge_of_bodies_ends_with_its_last_record() {
    let report = later_blanked().verify();
    let named = report.faults.iter().filter_map(|fault| fault.seq);
    assert!(named.max() > Some(3), "{:?}", report.faults);
}

/// Two purges at the same moment: what the one does not reach the other does.
#[test]
fn purges_of_one_moment_count_together() {
    let (place, log) = two_ages();
    for days in [30, 10] {
        let purge = Purge::BodiesBefore(before(&place, days));
        assert_eq!(log.purge(&purge).unwrap().bodies, 5);
    }
    log.close();
    assert_eq!(place.intact().erased, 10);
}

/// Somebody blanks bodies, and writes a purge behind the last checkpoint.
pub(crate) fn blanked_with_a_note() -> Place {
    let (place, log) = two_ages();
    log.close();
    let mut chain = Chain::after(&place);
    let lines = place.lines();
    let mallory = lines.iter().rfind(|line| line.contains("\"mallory\""));
    let mallory: serde_json::Value = serde_json::from_str(mallory.unwrap()).unwrap();
    let purge = json!({"kind": "body", "count": 5, "purged_log_id": chain.log_id,
        "purged_through": mallory["seq"], "purged_before": place.now().to_string()});
    chain.push("purge", &purge);
    chain.append_to(&place);
    assert_eq!(place.intact().unsigned, 2);
    blank(&place, "\"mallory\"", &place.now().to_string());
    place
}

/// The same with records that are dropped up to a checkpoint.
pub(crate) fn dropped_with_a_note() -> Place {
    let (place, log) = two_ages();
    log.close();
    let mut chain = Chain::after(&place);
    let through = json!({"kind": "prefix", "count": 8, "purged_log_id": chain.log_id,
        "purged_through": 99});
    chain.push("purge", &through);
    chain.append_to(&place);
    place.intact();
    fs::remove_file(place.segment(1)).unwrap();
    place
}

/// Nobody has signed such a purge.
#[test]
fn a_purge_that_is_not_signed_excuses_nothing() {
    let blanked = blanked_with_a_note().verify();
    assert_eq!(codes(&blanked), ["unrecorded_erasure"]);
    let dropped = dropped_with_a_note().verify();
    assert_eq!(codes(&dropped), ["unrecorded_purge"]);
}

/// A log with one body erased, and what a purge says of it.
fn purge_that_says(said: &serde_json::Value) -> Place {
    let mut chain = Chain::new();
    chain.push("start", &json!({"name": "test"}));
    chain.push("request_received", &json!({"name": "old"}));
    chain.timestamp = UnixMillis(NOW + 8 * DAY);
    chain.push("purge", said);
    chain.sign();
    chain.blank(2, chain.timestamp);
    chain.place()
}

/// As earlier versions wrote it.
pub(crate) fn vague_purge() -> Place {
    purge_that_says(&json!({"kind": "body", "count": 1}))
}

/// Purges of earlier versions say how many and no more. They count, and that they prove less is said.
#[test]
fn a_purge_that_does_not_say_which_is_unproven() {
    let report = vague_purge().intact();
    assert_eq!((report.erased, report.unproven), (1, 1));
    // At the limits of what a purge says, and past each.
    let day = UnixMillis(NOW + 1).to_string();
    let moment = UnixMillis(NOW).to_string();
    for (count, log_id, through, before, is_intact) in [
        (1, "log-1", 2, &day, true),
        (0, "log-1", 2, &day, false),
        (1, "log-0", 2, &day, false),
        (1, "log-1", 1, &day, false),
        (1, "log-1", 2, &moment, false),
        (1, "log-1", 2, &"soon".to_owned(), false),
    ] {
        let said = json!({"kind": "body", "count": count, "purged_log_id": log_id,
            "purged_through": through, "purged_before": before});
        let report = purge_that_says(&said).verify();
        assert_eq!(report.is_intact(), is_intact, "{said}");
        assert_eq!(report.unproven, 0);
    }
}

/// A log of two ages that is whole, and a second one that was begun after it.
fn two_logs() -> (Place, Log) {
    let (place, log) = two_ages();
    log.close();
    let last = audit::segments(&place.folder()).unwrap().pop().unwrap();
    let good = fs::read(&last.path).unwrap();
    fs::write(&last.path, [&good[..], b"x\n"].concat()).unwrap();
    let log = place.open();
    append(&log, "second");
    fs::write(&last.path, good).unwrap();
    assert_eq!(place.intact().logs, 2);
    (place, log)
}

/// The beginning of a log is purged, and somebody removes the rest of it.
pub(crate) fn rest_removed() -> Place {
    let (place, log) = two_logs();
    let purge = Purge::RecordsBefore(before(&place, 30));
    let (log_id, seq) = log.purge(&purge).unwrap().through.unwrap();
    assert!(log_id.starts_with("log-1-") && seq > 5, "{log_id} {seq}");
    log.close();
    place.intact();
    for segment in audit::segments(&place.folder()).unwrap() {
        if fs::read_to_string(&segment.path)
            .unwrap()
            .contains(&format!("\"log_id\":\"{log_id}\""))
        {
            fs::remove_file(&segment.path).unwrap();
        }
    }
    place
}

#[test]
fn threat_139_a_purge_of_a_beginning_excuses_no_end() {
    let report = rest_removed().verify();
    assert_eq!((report.logs, codes(&report)), (1, vec!["unrecorded_purge"]));
}

/// A whole log that is purged is gone rightly, also one that had lost its end before, or whose last
/// line is not its last record.
#[test]
fn a_log_that_lost_its_end_can_be_purged() {
    let damages: [fn(Vec<u8>) -> Vec<u8>; 2] = [
        |good| good[..good.len() - 600].to_vec(),
        |good| {
            let first = good.split_inclusive(|byte| *byte == b'\n').next().unwrap();
            [&good[..], first].concat()
        },
    ];
    for damage in damages {
        let mut place = Place::new();
        place.settings.checkpoint_records = 1000;
        place.settings.checkpoint_age = Duration::from_secs(30 * 86_400);
        let log = place.open();
        for _ in 0..5 {
            append(&log, "first");
        }
        let path = place.segment(1);
        let bad = damage(fs::read(&path).unwrap());
        place.pass(8 * DAY);
        fs::remove_file(&path).unwrap();
        fs::write(&path, bad).unwrap();
        drop(
            log.append(&crate::support::request("refused"))
                .unwrap()
                .wait(),
        );
        log.probe().wait().unwrap();
        place.pass(DAY);
        append(&log, "second");
        place.faults();
        place.pass(8 * DAY);
        // The second log begins before that, and has no checkpoint so early.
        let purge = Purge::RecordsBefore(UnixMillis(NOW + 8 * DAY + 1));
        let purged = log.purge(&purge).unwrap();
        assert!(purged.through.unwrap().0.starts_with("log-1-"));
        log.close();
        let report = place.intact();
        assert_eq!(report.logs, 1, "{report:?}");
        assert!(!place.lines().concat().contains("\"first\""));
    }
}

/// A log that says that there was another one, and not how far it went, proves nothing of it.
#[test]
fn a_gap_that_does_not_say_how_far_is_no_excuse() {
    let mut chain = Chain::new();
    chain.push(
        "audit_gap",
        &json!({"reason": "x", "previous_log_id": "log-0"}),
    );
    let purge =
        json!({"kind": "prefix", "count": 8, "purged_log_id": "log-0", "purged_through": 9});
    chain.push("purge", &purge);
    chain.sign();
    assert_eq!(codes(&chain.place().verify()), ["unrecorded_purge"]);
}
