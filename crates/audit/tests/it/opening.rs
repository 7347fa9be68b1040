//! Opening a log: where it ends, and whether it is as it was left.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use audit::Error;

use crate::support::{Place, append, request};

fn add(path: &Path, bytes: &[u8]) {
    let mut file = OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(bytes).unwrap();
}

fn cut(path: &Path, bytes: u64) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    let length = file.metadata().unwrap().len();
    file.set_len(length - bytes).unwrap();
}

/// Something that is done to the files, and what it is called.
struct Damage(&'static str, fn(&Place));

/// A log that was not closed: as a crash leaves it.
fn crashed(names: &[&str]) -> Place {
    let mut place = Place::new();
    place.settings.checkpoint_records = 1000;
    let log = place.open();
    for name in names {
        append(&log, name);
    }
    let folder = place.folder();
    let copy = folder.with_extension("copy");
    copy_folder(&folder, &copy);
    log.close();
    fs::remove_dir_all(&folder).unwrap();
    fs::rename(copy, folder).unwrap();
    place.alarms();
    place
}

pub(crate) fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        match path.is_dir() {
            true => copy_folder(&path, &target),
            false => drop(fs::copy(path, target).unwrap()),
        }
    }
}

#[test]
fn a_log_goes_on_where_it_ended() {
    let place = Place::new();
    for round in 1..=5 {
        let log = place.open();
        append(&log, "x");
        log.close();
        let report = place.intact();
        assert_eq!((report.logs, report.gaps.len()), (1, 0), "round {round}");
        assert_eq!(report.unsigned, 0);
    }
    assert_eq!(place.alarms(), [""; 0]);
    let mode = fs::metadata(place.folder()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let mode = fs::metadata(place.segment(1)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_crash_between_records_leaves_no_gap() {
    let place = crashed(&["one", "two"]);
    let before = place.intact();
    let log = place.open();
    append(&log, "three");
    log.close();
    let report = place.intact();
    assert_eq!((report.logs, report.gaps.len()), (1, 0));
    assert!(report.records > before.records);
    assert_eq!(place.alarms(), [""; 0]);
}

/// Threat 136: the partial last line is dropped, `audit_gap` says so, the chain goes on. Cut at
/// many bytes of the last line.
#[test]
fn threat_136_a_crash_in_the_middle_of_a_write() {
    let place = crashed(&["one", "two"]);
    let folder = place.folder();
    let whole = fs::read(place.segment(1)).unwrap();
    let last = whole[..whole.len() - 1]
        .iter()
        .rposition(|byte| *byte == b'\n')
        .unwrap()
        + 1;
    for end in (last + 1..whole.len()).step_by(29).chain([whole.len() - 1]) {
        let kept = folder.with_extension("kept");
        copy_folder(&folder, &kept);
        fs::write(place.segment(1), &whole[..end]).unwrap();
        let report = place.intact();
        assert_eq!(report.unfinished[0].line, 4);
        let log = place.open();
        append(&log, "three");
        log.close();
        let report = place.intact();
        assert_eq!((report.logs, report.gaps.len()), (1, 1), "cut at {end}");
        assert_eq!(
            (report.gaps[0].seq, report.gaps[0].reason.as_str()),
            (4, "torn_tail")
        );
        let alarms = place.alarms();
        assert!(
            alarms[0].contains(&format!("{} bytes", end - last)),
            "{alarms:?}"
        );
        let text = place.lines().concat();
        assert!(
            text.contains("\"one\"") && !text.contains("\"two\"") && text.contains("\"three\"")
        );
        fs::remove_dir_all(&folder).unwrap();
        fs::rename(kept, &folder).unwrap();
    }
}

/// A checkpoint that was cut off is named by no record, and goes.
#[test]
fn threat_136_a_crash_in_the_middle_of_a_checkpoint() {
    let place = crashed(&["one"]);
    add(&place.checkpoint_file(), b"eyJhbGciOiJFZERTQSIsImtpZCI6");
    assert_eq!(place.intact().unfinished.len(), 1);
    let log = place.open();
    append(&log, "two");
    log.close();
    assert_eq!(place.intact().logs, 1);
    assert_eq!(place.alarms(), [""; 0]);
}

/// Threat 135, at start: each damage raises an alarm, begins another log with `audit_gap`, and what
/// was there stays as evidence.
#[test]
fn threat_135_damage_begins_a_new_log() {
    let damages: &[Damage] = &[
        Damage("head_below_checkpoint", |place| cut(&place.segment(1), 400)),
        Damage("body_changed", |place| {
            let text = fs::read_to_string(place.segment(1)).unwrap();
            fs::write(place.segment(1), text.replace("\"two\"", "\"too\"")).unwrap();
        }),
        Damage("not_a_record", |place| {
            add(&place.segment(1), b"\0\0\0\0\n")
        }),
        Damage("missing_checkpoint", |place| {
            fs::remove_file(place.checkpoint_file()).unwrap()
        }),
        Damage("bad_checkpoint", |place| {
            let text = fs::read_to_string(place.checkpoint_file()).unwrap();
            let mut lines: Vec<&str> = text.lines().collect();
            let forged = lines.pop().unwrap().replace("ey", "eY");
            lines.push(&forged);
            fs::write(place.checkpoint_file(), lines.join("\n") + "\n").unwrap();
        }),
        Damage("missing_log", |place| {
            fs::remove_file(place.segment(1)).unwrap()
        }),
        Damage("wrong_seq", |place| {
            let text = fs::read_to_string(place.segment(1)).unwrap();
            let mut lines: Vec<&str> = text.lines().collect();
            lines.remove(3);
            fs::write(place.segment(1), lines.join("\n") + "\n").unwrap();
        }),
    ];
    for Damage(reason, damage) in damages {
        let place = Place::new();
        let log = place.open();
        for name in ["one", "two", "three"] {
            append(&log, name);
        }
        log.close();
        damage(&place);
        place.faults();
        let log = place.open();
        append(&log, "after");
        log.close();
        let alarms = place.alarms();
        assert!(
            alarms[0].contains(&format!("({reason})")),
            "{reason}: {alarms:?}"
        );
        let report = place.verify();
        let gap = report.gaps.last().unwrap();
        assert_eq!((gap.seq, gap.reason.as_str()), (1, *reason));
        assert!(gap.log_id.starts_with("log-2-"), "{}", gap.log_id);
        assert_eq!(report.unsigned, 0, "the new log is sound");
        // The damage is still told, and nothing else.
        let damaged = report
            .faults
            .iter()
            .filter_map(|fault| fault.log_id.as_deref());
        let damaged: Vec<&str> = damaged.collect();
        match *reason {
            // Nothing is left of that log, and no purge is on record.
            "missing_log" => assert_eq!(report.faults[0].kind.code(), "unrecorded_purge"),
            _ => assert!(
                damaged.iter().all(|log_id| log_id.starts_with("log-1-")),
                "{damaged:?}"
            ),
        }
        assert!(!report.is_intact(), "{reason}");
        // The next start finds the new log in order.
        place.open().close();
        assert_eq!(place.alarms(), [""; 0], "{reason}");
    }
}

/// Later logs are verified whatever became of earlier ones.
#[test]
fn a_gap_hides_nothing_that_comes_after() {
    let place = Place::new();
    let log = place.open();
    append(&log, "one");
    log.close();
    cut(&place.segment(1), 400);
    let log = place.open();
    append(&log, "two");
    log.close();
    assert_eq!(place.verify().faults.len(), 1);
    let text = fs::read_to_string(place.segment(2)).unwrap();
    fs::write(place.segment(2), text.replace("\"two\"", "\"too\"")).unwrap();
    let report = place.verify();
    assert_eq!(report.faults.len(), 2);
    assert_eq!(&*report.faults[1].place.file, "audit-00000002.jsonl");
    // A log whose predecessor lost more since is noticed too.
    fs::write(place.segment(2), text).unwrap();
    let kept = fs::read_to_string(place.segment(1)).unwrap();
    let lines: Vec<&str> = kept.lines().collect();
    fs::write(place.segment(1), lines[..1].join("\n") + "\n").unwrap();
    let codes: Vec<_> = place
        .verify()
        .faults
        .iter()
        .map(|fault| fault.kind.code())
        .collect();
    assert!(codes.contains(&"other_end"), "{codes:?}");
}

#[test]
fn a_crash_before_the_first_checkpoint_leaves_no_gap() {
    let place = crashed(&[]);
    fs::remove_file(place.checkpoint_file()).unwrap();
    let text = fs::read_to_string(place.segment(1)).unwrap();
    let first = text.lines().next().unwrap().to_owned();
    fs::write(place.segment(1), first + "\n").unwrap();
    let log = place.open();
    append(&log, "one");
    log.close();
    assert_eq!(place.intact().logs, 1);
    // But somebody else's records are not taken for one's own.
    fs::remove_file(place.checkpoint_file()).unwrap();
    let text = fs::read_to_string(place.segment(1)).unwrap();
    let lines: Vec<&str> = text.lines().take(1).collect();
    fs::write(place.segment(1), lines.join("\n") + "\n").unwrap();
    place.open().close();
    assert_eq!(place.alarms(), [""; 0], "nothing but `start` was there");
}

/// File gone, replaced, made longer or shorter under the writer; its checkpoints gone. The record
/// that meets it is refused, requests are refused until the log was looked at again, and what is
/// missing is on record.
#[test]
fn threat_138_a_file_that_changes_under_the_writer() {
    let damages: &[Damage] = &[
        Damage("gone", |place| fs::remove_file(place.segment(1)).unwrap()),
        Damage("replaced", |place| {
            let text = fs::read(place.segment(1)).unwrap();
            fs::remove_file(place.segment(1)).unwrap();
            fs::write(place.segment(1), text).unwrap();
        }),
        Damage("longer", |place| add(&place.segment(1), b"x")),
        Damage("shorter", |place| cut(&place.segment(1), 10)),
    ];
    for Damage(name, damage) in damages {
        let mut place = Place::new();
        place.settings.checkpoint_records = 1000;
        let log = place.open();
        append(&log, "before");
        damage(&place);
        let refused = log.append(&request("meets it")).unwrap().wait();
        let error = refused.unwrap_err();
        assert!(matches!(error, Error::Replaced { .. }), "{name}: {error}");
        log.probe().wait().unwrap();
        append(&log, "after");
        log.close();
        let alarms = place.alarms();
        assert!(
            alarms[0].contains("was removed, replaced or changed"),
            "{name}: {alarms:?}"
        );
        assert!(
            alarms.last().unwrap().contains("1 records were refused"),
            "{name}: {alarms:?}"
        );
        let report = place.verify();
        let reasons: Vec<&str> = report.gaps.iter().map(|gap| gap.reason.as_str()).collect();
        assert!(reasons.contains(&"sink_failed"), "{name}: {reasons:?}");
        // The same bytes in another file are the same log; a torn end is dropped.
        match *name {
            "replaced" | "longer" => assert!(report.is_intact(), "{name}"),
            _ => assert!(!report.is_intact(), "{name}"),
        }
        let text = place.lines().concat();
        assert!(
            text.contains("\"after\"") && !text.contains("\"meets it\""),
            "{name}"
        );
    }
}

#[test]
fn threat_138_checkpoints_that_vanish_under_the_writer() {
    let place = Place::new();
    let log = place.open();
    fs::remove_file(place.checkpoint_file()).unwrap();
    for _ in 0..10 {
        // The records go on; that they cannot be signed is noticed and said.
        drop(log.append(&request("x")).unwrap().wait());
    }
    log.close();
    let alarms = place.alarms();
    assert!(
        alarms[0].contains("checkpoint of the audit log could not be made"),
        "{alarms:?}"
    );
    let report = place.verify();
    assert!(
        report
            .gaps
            .iter()
            .any(|gap| gap.reason == "missing_checkpoint"),
        "{report:?}"
    );
}

/// A folder that is gone is not made again by itself, and what comes is refused until it is back.
#[test]
fn threat_138_a_folder_that_vanishes() {
    let place = Place::new();
    let log = place.open();
    append(&log, "before");
    let away = place.folder().with_extension("away");
    fs::rename(place.folder(), &away).unwrap();
    // Where a file is is looked at ten times a second; one that is moved still has its records.
    place.pass(100);
    assert!(log.append(&request("x")).unwrap().wait().is_err());
    assert!(log.probe().wait().is_err());
    let error = log.append(&request("x")).unwrap_err();
    assert!(error.to_string().contains("cannot look at"), "{error}");
    assert!(matches!(log.reserve(), Err(Error::Io { .. })));
    assert!(log.check().is_err() && !place.folder().exists());
    fs::rename(&away, place.folder()).unwrap();
    log.probe().wait().unwrap();
    append(&log, "after");
    log.close();
    let report = place.intact();
    assert_eq!((report.logs, report.gaps.len()), (1, 1));
    let refused = place
        .lines()
        .iter()
        .any(|line| line.contains(r#""refused":3"#));
    assert!(refused, "{:#?}", place.lines());
}

#[test]
fn a_folder_that_cannot_be_made_is_an_error() {
    let place = Place::new();
    fs::write(place.folder(), "a file").unwrap();
    let error = place.open_with(place.parts()).unwrap_err();
    assert!(
        error.to_string().contains("cannot make the folder"),
        "{error}"
    );
}
