//! Taking things out of a log.

use std::fs;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use audit::{
    Checkpoint, Clock, Entry, Error, KeyCheck, Log, Parts, Purge, PurgeKind, Purged, Refusal,
    Retention, UnixMillis,
};

use crate::support::{DAY, Keys, NOW, Place, append};

/// A log with records of three days, the last of them today.
fn old_log() -> (Place, Log) {
    let place = Place::new();
    let log = place.open();
    for day in 0..3 {
        for _ in 0..7 {
            append(&log, &format!("day {day}"));
        }
        place.pass(5 * DAY);
    }
    append(&log, "today");
    (place, log)
}

/// Before so many days ago, and a little.
fn before(place: &Place, days: i64) -> UnixMillis {
    UnixMillis(place.now().0 - days * DAY - 1)
}

fn entries(place: &Place) -> Vec<Entry> {
    let lines = place.lines();
    lines
        .iter()
        .map(|line| Entry::parse(line.as_bytes()).unwrap())
        .collect()
}

#[test]
fn threat_139_bodies_are_erased_and_the_chain_holds() {
    let (place, log) = old_log();
    let hashes: Vec<_> = entries(&place).iter().map(|entry| entry.hash).collect();
    let purged = log.purge(&Purge::BodiesBefore(before(&place, 7))).unwrap();
    assert_eq!(purged.bodies, 14);
    let report = place.intact();
    assert_eq!(report.erased, 14);
    let named = &report.purges[0];
    assert_eq!((named.kind, named.count), (PurgeKind::Body, 14));
    let (first, last) = (UnixMillis(NOW), UnixMillis(NOW + 5 * DAY));
    assert_eq!((named.from, named.to), (Some(first), Some(last)));
    let after: Vec<_> = entries(&place).iter().map(|entry| entry.hash).collect();
    assert_eq!(after[..hashes.len()], hashes);
    // Once erased is enough.
    let again = log.purge(&Purge::BodiesBefore(before(&place, 7))).unwrap();
    assert_eq!(again.bodies, 0);
    log.close();
    place.intact();
    place.open().close();
    assert_eq!(place.intact().logs, 1);
}

/// Threat 140: the salt goes with the body, and the address with both.
#[test]
fn threat_140_nothing_is_left_to_guess_from() {
    let (place, log) = old_log();
    let salt = |line: &str| {
        let (_, rest) = line.split_once("\"body_salt\":\"")?;
        rest.get(..22).map(str::to_owned)
    };
    let old: Vec<String> = place.lines();
    let salts: Vec<String> = old
        .iter()
        .filter(|line| line.contains("\"day 0\""))
        .filter_map(|line| salt(line))
        .collect();
    assert_eq!(salts.len(), 7);
    log.purge(&Purge::BodiesBefore(before(&place, 7))).unwrap();
    log.close();
    let text = place.lines().concat();
    for gone in salts
        .iter()
        .map(String::as_str)
        .chain(["\"day 0\"", "\"day 1\""])
    {
        assert!(!text.contains(gone), "{gone}");
    }
    // No copy is left behind either.
    let names = fs::read_dir(place.folder()).unwrap();
    let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    assert!(
        names
            .iter()
            .all(|name| !name.to_string_lossy().ends_with("tmp")),
        "{names:?}"
    );
    let erased = place
        .lines()
        .into_iter()
        .find(|line| line.contains("purged_at"))
        .unwrap();
    assert!(
        !erased.contains("remote_ip") && !erased.contains("salt"),
        "{erased}"
    );
}

#[test]
fn addresses_are_erased_alone() {
    let (place, log) = old_log();
    assert_eq!(
        entries(&place)
            .iter()
            .filter(|one| one.remote_ip.is_some())
            .count(),
        22
    );
    let purged = log
        .purge(&Purge::RemoteIpsBefore(before(&place, 7)))
        .unwrap();
    assert_eq!(purged.remote_ips, 14);
    log.close();
    place.intact();
    let entries = entries(&place);
    let old = entries
        .iter()
        .find(|entry| entry.text("name") == Some("day 0"))
        .unwrap();
    assert!(old.remote_ip.is_none() && old.text("remote_ip_hash").is_some());
    assert_eq!(
        entries.iter().filter(|one| one.remote_ip.is_some()).count(),
        8
    );
    // An address that is put back, or another one, does not fit.
    let text = fs::read_to_string(place.segment(1)).unwrap();
    let forged = text.replacen(
        "\",\"agent\"",
        "\",\"remote_ip\":\"192.0.2.7\",\"remote_ip_salt\":\"AAAAAAAAAAAAAAAAAAAAAA\",\"agent\"",
        1,
    );
    assert_ne!(forged, text);
    fs::write(place.segment(1), forged).unwrap();
    let faults = place.faults();
    assert!(
        faults[0].contains("does not fit `remote_ip_hash`"),
        "{faults:?}"
    );
}

#[test]
fn threat_139_a_prefix_goes_up_to_a_checkpoint() {
    let (place, log) = old_log();
    let all = entries(&place).len() as u64;
    let purged = log.purge(&Purge::RecordsBefore(before(&place, 7))).unwrap();
    let (log_id, seq) = purged.through.clone().unwrap();
    assert_eq!(purged.records, seq);
    let report = place.intact();
    let left = entries(&place);
    assert_eq!((left[0].seq, &left[0].log_id), (seq + 1, &log_id));
    // All of the first day goes; of the second what comes after its last checkpoint stays.
    assert!(left.iter().all(|entry| entry.text("name") != Some("day 0")));
    assert!(left.iter().any(|entry| entry.text("name") == Some("today")));
    assert!(purged.records >= 10 && report.records < all, "{purged:?}");
    // What cannot go yet can be erased.
    log.purge(&Purge::BodiesBefore(before(&place, 7))).unwrap();
    log.close();
    place.intact();
    assert!(!place.lines().concat().contains("\"day 1\""));
    let log = place.open();
    place.pass(10 * DAY);
    log.purge(&Purge::RecordsBefore(before(&place, 7))).unwrap();
    log.close();
    assert_eq!(place.intact().logs, 1);
    assert!(!place.lines().concat().contains("\"today\""));
}

#[test]
fn threat_139_a_prefix_does_not_end_elsewhere() {
    let (place, log) = old_log();
    let log_id = entries(&place)[0].log_id.clone();
    let report = place.intact();
    let checkpoints: Vec<u64> = entries(&place)
        .iter()
        .filter(|entry| entry.event_type == "checkpoint")
        .map(|entry| entry.seq - 1)
        .collect();
    for seq in 1..=14 {
        if checkpoints.contains(&seq) {
            continue;
        }
        let through = Purge::RecordsThrough {
            log_id: log_id.clone(),
            seq,
        };
        let error = log.purge(&through).unwrap_err();
        assert!(matches!(error, Error::NoCheckpoint { .. }), "{error}");
    }
    let foreign = Purge::RecordsThrough {
        log_id: "log-9-x".into(),
        seq: 1,
    };
    assert!(matches!(
        log.purge(&foreign),
        Err(Error::NoCheckpoint { .. })
    ));
    assert!(place.intact().records >= report.records);
    let second = checkpoints[1];
    log.purge(&Purge::RecordsThrough {
        log_id,
        seq: second,
    })
    .unwrap();
    log.close();
    place.intact();
    assert_eq!(entries(&place)[0].seq, second + 1);
}

/// Whoever removes a prefix himself, at a checkpoint or not, has no purge on record.
#[test]
fn threat_139_a_prefix_that_somebody_else_removed_is_found() {
    let (place, log) = old_log();
    log.close();
    place.intact();
    let lines = place.lines();
    let entries = entries(&place);
    for segment in audit::segments(&place.folder()).unwrap() {
        fs::remove_file(segment.path).unwrap();
    }
    for cut in 1..lines.len() - 1 {
        fs::write(place.segment(1), lines[cut..].join("\n") + "\n").unwrap();
        let report = place.verify();
        let code = report.faults[0].kind.code();
        let expected = match entries[cut].event_type.as_str() {
            "checkpoint" => "unrecorded_purge",
            _ => "no_anchor",
        };
        assert_eq!(
            (code, report.faults[0].seq),
            (expected, Some(entries[cut].seq))
        );
    }
}

/// Threat 142's limit on the log itself: nothing goes before its time.
#[test]
fn records_are_kept_for_a_week_at_least() {
    let (place, log) = old_log();
    let young = UnixMillis(place.now().0 - 7 * DAY + 1);
    assert!(matches!(
        log.purge(&Purge::RecordsBefore(young)),
        Err(Error::TooYoung)
    ));
    assert!(matches!(
        log.purge(&Purge::BodiesBefore(young)),
        Err(Error::TooYoung)
    ));
    let log_id = entries(&place)[0].log_id.clone();
    let seq = entries(&place)
        .iter()
        .rfind(|one| one.event_type == "checkpoint")
        .unwrap()
        .seq
        - 1;
    let through = Purge::RecordsThrough { log_id, seq };
    assert!(matches!(log.purge(&through), Err(Error::TooYoung)));
    // Addresses may go at any time.
    let purged = log
        .purge(&Purge::RemoteIpsBefore(UnixMillis(place.now().0 + 1)))
        .unwrap();
    assert_eq!(purged.remote_ips, 22);
    assert!(Retention::new(Duration::from_secs(7 * 86_400), Duration::ZERO).is_ok());
    assert!(Retention::new(Duration::from_secs(7 * 86_400 - 1), Duration::ZERO).is_err());
    log.close();
    place.intact();
}

/// Profile §16: 90 days, and 7 for addresses.
#[test]
fn retention_takes_what_is_due() {
    let place = Place::new();
    let log = place.open();
    for _ in 0..100 {
        append(&log, "x");
        place.pass(DAY);
    }
    let purged = log.retain(&Retention::default()).unwrap();
    log.close();
    place.intact();
    let entries = entries(&place);
    let ninety = UnixMillis(place.now().0 - 90 * DAY);
    let requests = entries
        .iter()
        .filter(|entry| entry.event_type == "request_received");
    for entry in requests {
        assert_eq!(entry.body.is_some(), entry.timestamp >= ninety, "{entry:?}");
    }
    assert_eq!(
        entries
            .iter()
            .filter(|entry| entry.remote_ip.is_some())
            .count(),
        7
    );
    assert_eq!(purged.remote_ips, 90 - 7);
    assert!(purged.records > 5);
}

/// A purge that was interrupted leaves a log that verifies, and can be asked for again.
#[test]
fn an_interrupted_purge_leaves_a_log_that_verifies() {
    let mut place = Place::new();
    place.settings.segment_bytes = 2048;
    let log = place.open();
    for _ in 0..30 {
        append(&log, "old");
    }
    place.pass(8 * DAY);
    let kept = place.folder().with_extension("kept");
    crate::opening::copy_folder(&place.folder(), &kept);
    log.purge(&Purge::RecordsBefore(before(&place, 7))).unwrap();
    log.close();
    // Back come the segments that a crash would have left: all, then fewer and fewer.
    let old = audit::segments(&kept).unwrap();
    let dropped: Vec<_> = old
        .iter()
        .filter(|one| !place.segment(one.number).exists())
        .collect();
    assert!(dropped.len() > 3, "{}", dropped.len());
    for segment in &dropped {
        fs::copy(&segment.path, place.segment(segment.number)).unwrap();
    }
    for segment in dropped {
        place.intact();
        fs::remove_file(place.segment(segment.number)).unwrap();
    }
    // A file that was being rewritten is of no account, and goes.
    let left_behind = place.folder().join("audit-00000004.tmp");
    fs::write(&left_behind, "half").unwrap();
    place.intact();
    place.open().close();
    assert!(!left_behind.exists());
    assert_eq!(place.alarms(), [""; 0]);
}

/// Logs that ended in a gap go wholly, with their checkpoints.
#[test]
fn a_purge_goes_over_gaps() {
    let place = Place::new();
    for _ in 0..3 {
        let log = place.open();
        append(&log, "x");
        log.close();
        let last = audit::segments(&place.folder())
            .unwrap()
            .last()
            .unwrap()
            .path
            .clone();
        let text = fs::read(&last).unwrap();
        fs::write(&last, &text[..text.len() - 300]).unwrap();
    }
    place.pass(8 * DAY);
    let log = place.open();
    append(&log, "today");
    assert_eq!(place.verify().logs, 4);
    let purged = log.purge(&Purge::RecordsBefore(before(&place, 7))).unwrap();
    assert!(purged.records > 3, "{purged:?}");
    log.close();
    let report = place.verify();
    // The last of the damaged logs ends where today's begins, without a checkpoint of its own end.
    assert!(report.logs <= 2, "{report:?}");
    assert!(place.files().len() <= 5);
    assert!(
        report
            .faults
            .iter()
            .all(|fault| fault.kind.code() == "cut_off"),
        "{report:?}"
    );
}

/// A purge that runs while the log is verified, between one file and the next: what it took is on
/// record, only behind what was there when verification began.
#[test]
fn a_log_that_is_purged_meanwhile_verifies() {
    struct Purging<'a>(Keys, &'a Log, Mutex<Vec<Purge>>);
    impl KeyCheck for Purging<'_> {
        fn check(&self, jws: &str) -> Result<Checkpoint, Refusal> {
            if let Some(purge) = self.2.lock().unwrap().pop() {
                self.1.purge(&purge).unwrap();
            }
            self.0.check(jws)
        }
    }
    let mut place = Place::new();
    place.settings.segment_bytes = 4096;
    let log = place.open();
    for _ in 0..30 {
        append(&log, "old");
    }
    place.pass(8 * DAY);
    append(&log, "today");
    let week = before(&place, 7);
    for purge in [Purge::BodiesBefore(week), Purge::RecordsBefore(week)] {
        let keys = Purging(place.keys, &log, Mutex::new(vec![purge.clone()]));
        let report = audit::verify_folder(&place.folder(), &keys).unwrap();
        assert!(report.is_intact(), "{purge:?}: {:?}", report.faults);
    }
    log.close();
    place.intact();
}

/// A clock whose uptime a test moves, too.
struct Clocks {
    time: Arc<AtomicI64>,
    uptime: Arc<AtomicI64>,
}

impl Clock for Clocks {
    fn now(&self) -> UnixMillis {
        UnixMillis(self.time.load(Ordering::Relaxed))
    }

    fn uptime(&self) -> Duration {
        Duration::from_millis(self.uptime.load(Ordering::Relaxed).try_into().unwrap())
    }
}

/// A log with five records, one a day, and a retention under which none of them is due.
fn young_log() -> (Place, Retention) {
    let place = Place::new();
    let log = place.open();
    for _ in 0..5 {
        append(&log, "young");
        place.pass(DAY);
    }
    log.close();
    let month = Duration::from_secs(30 * 86_400);
    (place, Retention::new(month, month).unwrap())
}

fn young(place: &Place) -> usize {
    place.lines().concat().matches("\"young\"").count()
}

#[test]
fn a_start_with_a_wrong_clock_purges_nothing_that_is_young() {
    let (place, retention) = young_log();
    // Wrong for a few starts, right, and wrong again.
    for step in [100 * DAY, 0, 0, -100 * DAY, 100 * DAY] {
        place.pass(step);
        let log = place.open();
        append(&log, "wrong");
        let days = log.clock_ahead().unwrap().as_secs() / 86_400;
        assert!(if step < 0 { days == 0 } else { days >= 98 }, "{days}");
        assert_eq!(log.retain(&retention).unwrap(), Purged::default());
        log.close();
    }
    assert_eq!(young(&place), 5);
    assert!(place.intact().purges.is_empty());
}

/// Seven days after a pause it counts, and what was purged is named.
#[test]
fn a_log_that_goes_on_after_a_pause_is_purged_by_the_clock() {
    let (place, retention) = young_log();
    place.pass(100 * DAY);
    let log = place.open();
    for day in 0..7 {
        assert_eq!(young(&place), 5, "day {day}");
        log.retain(&retention).unwrap();
        append(&log, "later");
        place.pass(DAY);
    }
    let purged = log.retain(&retention).unwrap();
    assert!(purged.records >= 5, "{purged:?}");
    assert_eq!(young(&place), 0);
    log.close();
    let report = place.intact();
    let [records] = &report.purges[..] else {
        panic!("{:?}", report.purges)
    };
    assert_eq!(
        (records.kind, records.count),
        (PurgeKind::Prefix, purged.records)
    );
    assert_eq!(records.from, Some(UnixMillis(NOW)));
    assert!(records.to >= Some(UnixMillis(NOW + 4 * DAY)), "{records:?}");
}

/// A clock that is set while the log is open is compared with the uptime, with records and without.
#[test]
fn a_step_of_the_clock_makes_no_record_old() {
    for has_records in [false, true] {
        let (place, retention) = young_log();
        let (time, uptime) = (AtomicI64::new(place.now().0), AtomicI64::new(0));
        let (time, uptime) = (Arc::new(time), Arc::new(uptime));
        let clock = Clocks {
            time: Arc::clone(&time),
            uptime: Arc::clone(&uptime),
        };
        let parts = Parts {
            clock: Box::new(clock),
            ..place.parts()
        };
        let log = place.open_with(parts).unwrap();
        let pass = |days: i64, lived: i64| {
            time.fetch_add(days * DAY, Ordering::Relaxed);
            uptime.fetch_add(lived * DAY, Ordering::Relaxed);
        };
        pass(100, 1);
        if has_records {
            append(&log, "after the step");
        }
        log.retain(&retention).unwrap();
        assert_eq!(young(&place), 5);
        // A day more or less is no step: a log without records grows old by the uptime.
        pass(-99, 0);
        if has_records {
            append(&log, "the clock is right");
        }
        // By days: the log may look at its clocks while one of them was set already.
        for _ in 0..28 {
            pass(1, 1);
        }
        log.retain(&retention).unwrap();
        assert!(young(&place) < 5);
        log.close();
        place.intact();
    }
}
