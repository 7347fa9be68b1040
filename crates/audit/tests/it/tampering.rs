//! Whatever is changed in the files is found, and named.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

use audit::FaultKind;

use crate::support::{Keys, Place, append, intent};

/// A closed log with two segments, addresses, an erased body and a purge.
pub(crate) fn small_log() -> Place {
    let mut place = Place::new();
    place.settings.segment_bytes = 4096;
    let log = place.open();
    append(&log, "one\u{1b}é");
    for goal in ["two", "three", "four"] {
        log.append(&intent(goal)).unwrap().wait().unwrap();
    }
    place.pass(8 * crate::support::DAY);
    let before = audit::UnixMillis(place.now().0 - 7 * crate::support::DAY);
    log.purge(&audit::Purge::BodiesBefore(before)).unwrap();
    append(&log, "five");
    log.append(&intent("six\u{1b}")).unwrap().wait().unwrap();
    log.close();
    place
}

/// Changes one byte in place, which is faster than writing a file anew.
pub(crate) fn put(file: &Path, at: usize, byte: u8) {
    let file = fs::OpenOptions::new().write(true).open(file).unwrap();
    file.write_all_at(&[byte], at as u64).unwrap();
}

/// The aim in so many words: tampering with any single byte of an audit file is found and named.
#[test]
fn every_changed_byte_is_found() {
    let place = small_log();
    let report = place.intact();
    assert!(report.erased >= 4 && report.unsigned == 0, "{report:?}");
    let mut tried = 0;
    for file in place.files() {
        let good = fs::read(&file).unwrap();
        let name = file.file_name().unwrap().to_str().unwrap();
        let mut line = 1;
        for at in 0..good.len() {
            // Turns letters into their other case too, and newlines into something else.
            put(&file, at, good[at] ^ [0x20, 1, 0x80, 4][at % 4]);
            let report = place.verify();
            put(&file, at, good[at]);
            let places = report.faults.iter().map(|fault| &fault.place);
            let is_named = places.chain(&report.unfinished).any(|place| {
                // The end of a line is also the beginning of the next.
                place.file.ends_with(name) && (line..=line + 1).contains(&place.line)
            });
            assert!(
                is_named,
                "{name}, byte {at} of line {line}: {:?}",
                report.faults
            );
            line += u64::from(good[at] == b'\n');
            tried += 1;
        }
    }
    place.intact();
    assert!(tried > 5000, "{tried}");
}

fn edit(path: &Path, change: impl FnOnce(&mut Vec<String>)) {
    let text = fs::read_to_string(path).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    change(&mut lines);
    fs::write(path, lines.join("\n") + "\n").unwrap();
}

/// A closed log of one segment, and the changes made to it, each from the same beginning.
fn changed(change: impl FnOnce(&mut Vec<String>)) -> Vec<audit::Fault> {
    let place = Place::new();
    let log = place.open();
    for name in ["one", "two", "three", "four", "five", "six"] {
        append(&log, name);
    }
    log.close();
    place.intact();
    edit(&place.segment(1), change);
    place.verify().faults
}

#[test]
fn threat_134_a_record_edited_deleted_inserted_reordered() {
    let seq = |faults: &[audit::Fault]| faults.first().map(|fault| (fault.seq, fault.place.line));
    let edited = changed(|lines| lines[3] = lines[3].replace("\"two\"", "\"too\""));
    assert_eq!(seq(&edited), Some((Some(4), 4)));
    assert_eq!(edited[0].kind, FaultKind::BodyHash);
    let deleted = changed(|lines| drop(lines.remove(3)));
    assert_eq!(seq(&deleted), Some((Some(4), 4)));
    assert_eq!(deleted[0].kind, FaultKind::Seq(5));
    let doubled = changed(|lines| lines.insert(4, lines[3].clone()));
    assert_eq!(seq(&doubled), Some((Some(5), 5)));
    assert_eq!(doubled[0].kind, FaultKind::Seq(4));
    let swapped = changed(|lines| lines.swap(3, 4));
    assert_eq!(seq(&swapped), Some((Some(4), 4)));
    let inserted = changed(|lines| {
        let foreign = changed_line(&lines[3]);
        lines.insert(4, foreign);
    });
    assert_eq!(seq(&inserted), Some((Some(5), 5)));
    let first = changed(|lines| drop(lines.remove(0)));
    assert_eq!(seq(&first), Some((Some(2), 1)));
    assert_eq!(
        first[0].kind,
        FaultKind::UnrecordedPurge,
        "there is a checkpoint, and no purge"
    );
    let two = changed(|lines| drop(lines.drain(..2)));
    assert_eq!(seq(&two), Some((Some(3), 1)));
    assert_eq!(two[0].kind, FaultKind::NoAnchor);
}

fn changed_line(line: &str) -> String {
    line.replace("\"seq\":4", "\"seq\":5")
}

/// Threat 134, where the forger recomputes what he changes: the chain behind it does not follow.
#[test]
fn threat_134_a_recomputed_record_does_not_fit_the_next() {
    let forged = changed(|lines| lines[3] = forge(&lines[3], "\"two\"", "\"too\""));
    assert_eq!(
        (forged[0].seq, &forged[0].kind),
        (Some(5), &FaultKind::PrevHash)
    );
}

/// Changes a record and makes its own hashes fit.
fn forge(line: &str, from: &str, to: &str) -> String {
    let mut record: serde_json::Value = serde_json::from_str(&line.replace(from, to)).unwrap();
    let tree = canonical::Value::from_serialize(&record).unwrap();
    let links = ["event_type", "log_id", "prev_hash", "seq", "timestamp"];
    let beside = [
        "body_hash",
        "hash",
        "body_salt",
        "remote_ip",
        "remote_ip_salt",
    ];
    let object = tree.as_object().unwrap();
    let mut body = canonical::Object::default();
    let mut link = canonical::Object::default();
    for (name, value) in object.iter() {
        if links.contains(&name) {
            link.insert(name.to_owned(), value.to_static());
        } else if !beside.contains(&name) {
            body.insert(name.to_owned(), value.to_static());
        }
    }
    let salt = canonical::base64url::decode(record["body_salt"].as_str().unwrap()).unwrap();
    let body = canonical::Value::Object(body).to_canonical();
    let hash = canonical::Digest::of(&[salt, body].concat()).to_string();
    record["body_hash"] = hash.clone().into();
    link.insert("body_hash", canonical::Value::String(hash.into()));
    record["hash"] = canonical::Value::Object(link).digest().to_string().into();
    String::from_utf8(crate::vectors::line(&record)).unwrap()
}

/// Threat 135 without a start: the whole chain recomputed, with the checkpoints left, replaced by
/// others, or removed.
#[test]
fn threat_135_a_recomputed_chain_has_no_signature() {
    let place = Place::new();
    let log = place.open();
    for name in ["one", "two", "three", "four", "five", "six"] {
        append(&log, name);
    }
    log.close();
    let mut previous: Option<String> = None;
    edit(&place.segment(1), |lines| {
        for line in lines.iter_mut() {
            if let Some(hash) = &previous {
                let old: serde_json::Value = serde_json::from_str(line).unwrap();
                let old = old["prev_hash"].as_str().unwrap().to_owned();
                *line = line.replace(&old, hash);
            }
            *line = forge(line, "\"two\"", "\"too\"");
            let new: serde_json::Value = serde_json::from_str(line).unwrap();
            previous = new["hash"].as_str().map(str::to_owned);
        }
    });
    let faults = place.faults();
    assert!(
        faults[0].contains("the signed checkpoint names another hash"),
        "{faults:?}"
    );
    let checkpoints = place.checkpoint_file();
    let kept = fs::read(&checkpoints).unwrap();
    fs::remove_file(&checkpoints).unwrap();
    let faults = place.faults();
    assert!(
        faults[0].contains("the checkpoint that it names is missing"),
        "{faults:?}"
    );
    // Checkpoints of another node's key are none.
    fs::write(&checkpoints, kept).unwrap();
    let other = audit::verify_folder(&place.folder(), &Keys(9)).unwrap();
    assert!(!other.is_intact());
}

/// Threat 135: the tail cut below the last checkpoint, at every line and at every byte of one.
#[test]
fn threat_135_a_cut_tail_is_found() {
    let place = small_log();
    let segments = audit::segments(&place.folder()).unwrap();
    let last = &segments.last().unwrap().path;
    let good = fs::read(last).unwrap();
    let ends: Vec<usize> = good
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'\n')
        .map(|(at, _)| at + 1)
        .collect();
    let cuts = ends.iter().rev().skip(1).copied().chain([0]);
    for cut in cuts.chain(ends[ends.len() - 2]..good.len()) {
        fs::write(last, &good[..cut]).unwrap();
        let report = place.verify();
        let codes: Vec<_> = report
            .faults
            .iter()
            .map(|fault| fault.kind.code())
            .collect();
        assert!(
            codes.contains(&"head_below_checkpoint"),
            "cut at {cut}: {codes:?}"
        );
    }
    fs::write(last, good).unwrap();
    place.intact();
    for segment in &segments {
        let kept = fs::read(&segment.path).unwrap();
        fs::remove_file(&segment.path).unwrap();
        assert!(!place.verify().is_intact());
        fs::write(&segment.path, kept).unwrap();
    }
    place.intact();
}

/// Checkpoints are kept apart from the log and are part of it all the same.
#[test]
fn a_checkpoint_removed_doubled_or_swapped_is_found() {
    let place = small_log();
    let path = place.checkpoint_file();
    let good = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = good.lines().collect();
    assert!(lines.len() > 3);
    for at in 0..lines.len() - 1 {
        let mut without = lines.clone();
        without.remove(at);
        let mut doubled = lines.clone();
        doubled.insert(at, lines[at]);
        let mut swapped = lines.clone();
        swapped.swap(at, at + 1);
        for bad in [without, doubled, swapped] {
            fs::write(&path, bad.join("\n") + "\n").unwrap();
            assert!(!place.verify().is_intact(), "checkpoint {at}");
        }
    }
    fs::write(&path, &good).unwrap();
    // One of another log, signed by the same node.
    let other = small_log();
    let foreign = fs::read_to_string(other.checkpoint_file()).unwrap();
    let first = foreign.lines().next().unwrap();
    fs::write(&path, format!("{first}\n{good}")).unwrap();
    let faults = place.faults();
    assert!(faults[0].contains("it is of another log"), "{faults:?}");
}

/// Whoever erases a body himself leaves a record that no purge is on record for.
#[test]
fn an_erasure_by_somebody_else_is_found() {
    let place = small_log();
    let erased = place
        .lines()
        .into_iter()
        .find(|line| line.contains("purged_at"))
        .unwrap();
    let erased: serde_json::Value = serde_json::from_str(&erased).unwrap();
    let path = audit::segments(&place.folder())
        .unwrap()
        .last()
        .unwrap()
        .path
        .clone();
    let good = fs::read(&path).unwrap();
    // A time at which nothing was purged, and one at which all that was purged is accounted for.
    for time in [
        "2026-05-05T05:05:05.000Z",
        erased["purged_at"].as_str().unwrap(),
    ] {
        edit(&path, |lines| {
            let at = lines
                .iter()
                .position(|line| line.contains("\"five\""))
                .unwrap();
            let (links, _) = lines[at].split_once(",\"body_salt\"").unwrap();
            lines[at] = format!("{links},\"purged_at\":\"{time}\"}}");
        });
        let faults = place.faults();
        assert!(
            faults[0].contains("no purge at that time is on record"),
            "{faults:?}"
        );
        fs::write(&path, &good).unwrap();
    }
    // What keeps the chain together is not erased by anyone.
    edit(&path, |lines| {
        let at = lines.len() - 1;
        let (links, _) = lines[at].split_once(",\"body_salt\"").unwrap();
        lines[at] = format!(
            "{links},\"purged_at\":\"{}\"}}",
            erased["purged_at"].as_str().unwrap()
        );
    });
    let faults = place.faults();
    assert!(faults[0].contains("never erased"), "{faults:?}");
}
