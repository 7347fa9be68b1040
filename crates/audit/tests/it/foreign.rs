//! A verifier that shares nothing with this crate: `conformance/audit_verify.py`. It says the same
//! of the same files, good and bad.

use std::fs;

use serde_json::json;

use crate::evidence;
use crate::support::Place;
use crate::tampering::{put, small_log};

struct Foreign(testkit::Foreign);

impl Foreign {
    fn start() -> Self {
        Self(testkit::Foreign::start("audit_verify.py", &[]))
    }

    /// Holds both verifiers against each other; returns whether the log is intact.
    fn agree(&mut self, place: &Place, what: &str) -> bool {
        let ours = place.verify();
        let theirs = self.0.ask(&json!({
            "folder": place.folder(),
            "keys": {place.keys.kid(): place.keys.public()},
        }));
        assert_eq!(
            theirs["intact"],
            ours.is_intact(),
            "{what}: {:#?}\n{theirs}",
            ours.faults
        );
        if ours.is_intact() {
            let unfinished = ours.unfinished.iter().map(|place| place.file.to_string());
            let expected = json!({"intact": true, "records": ours.records, "unsigned": ours.unsigned,
                "unproven": ours.unproven,
                "unfinished": unfinished.collect::<Vec<_>>()});
            assert_eq!(theirs, expected, "{what}");
        } else {
            // It stops at the first fault; ours goes on, and may have read a checkpoint ahead.
            let mut places = ours.faults.iter().map(|fault| &fault.place);
            let is_same =
                places.any(|place| theirs["file"] == *place.file && theirs["line"] == place.line);
            assert!(is_same, "{what}: {:#?}\n{theirs}", ours.faults);
        }
        ours.is_intact() && ours.unfinished.is_empty()
    }
}

#[test]
fn both_verify_good_logs() {
    let mut foreign = Foreign::start();
    let place = small_log();
    assert!(foreign.agree(&place, "closed"));
    let log = place.open();
    crate::support::append(&log, "after");
    assert!(foreign.agree(&place, "open"));
    place.pass(8 * crate::support::DAY);
    let week = audit::UnixMillis(place.now().0 - 7 * crate::support::DAY);
    log.purge(&audit::Purge::RecordsBefore(week)).unwrap();
    assert!(foreign.agree(&place, "without its beginning"));
    log.purge(&audit::Purge::RemoteIpsBefore(place.now()))
        .unwrap();
    log.close();
    assert!(foreign.agree(&place, "without addresses"));
    // A gap: both tell the damage and verify what comes after.
    let last = audit::segments(&place.folder())
        .unwrap()
        .last()
        .unwrap()
        .path
        .clone();
    let text = fs::read(&last).unwrap();
    fs::write(&last, &text[..text.len() - 300]).unwrap();
    place.open().close();
    assert!(!foreign.agree(&place, "a gap"));
}

/// Every 11th byte of every file is another one.
#[test]
fn both_find_the_same_changed_bytes() {
    let mut foreign = Foreign::start();
    let place = small_log();
    for file in place.files() {
        let good = fs::read(&file).unwrap();
        for at in (0..good.len()).step_by(11).chain([good.len() - 1]) {
            put(&file, at, good[at] ^ [0x20, 1, 0x80][at % 3]);
            let what = format!("{} byte {at}", file.display());
            assert!(!foreign.agree(&place, &what), "{what}");
            put(&file, at, good[at]);
        }
    }
}

#[test]
fn both_find_the_same_missing_and_swapped_lines() {
    let mut foreign = Foreign::start();
    let place = small_log();
    for file in place.files() {
        let good = fs::read_to_string(&file).unwrap();
        let lines: Vec<&str> = good.split_inclusive('\n').collect();
        for at in 0..lines.len() {
            let mut without = lines.clone();
            without.remove(at);
            let mut doubled = lines.clone();
            doubled.insert(at, lines[at]);
            let mut swapped = lines.clone();
            swapped.swap(at, (at + 1) % lines.len());
            for (name, bad) in [
                ("without", without),
                ("doubled", doubled),
                ("swapped", swapped),
            ] {
                // Nobody can know that there was another checkpoint after the last one.
                if file == place.checkpoint_file() && name == "without" && at + 1 == lines.len() {
                    continue;
                }
                fs::write(&file, bad.concat()).unwrap();
                let what = format!("{} {name} line {}", file.display(), at + 1);
                assert!(!foreign.agree(&place, &what), "{what}");
            }
        }
        fs::remove_file(&file).unwrap();
        assert!(!foreign.agree(&place, "a file is gone"));
        fs::write(&file, &good).unwrap();
    }
    assert!(foreign.agree(&place, "as it was"));
}

/// Records that were blanked or removed, each beside a purge that does not mean them.
#[test]
fn both_take_a_purge_for_what_it_says() {
    let mut foreign = Foreign::start();
    for (name, place) in [
        ("others blanked", evidence::others_blanked()),
        ("a later one blanked", evidence::later_blanked()),
        ("blanked with a note", evidence::blanked_with_a_note()),
        ("dropped with a note", evidence::dropped_with_a_note()),
        ("the rest removed", evidence::rest_removed()),
    ] {
        assert!(!foreign.agree(&place, name), "{name}");
    }
    assert!(foreign.agree(&evidence::vague_purge(), "an earlier version"));
}
