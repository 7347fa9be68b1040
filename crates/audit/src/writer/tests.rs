//! The writer on a disk that fails.
#![expect(
    clippy::indexing_slicing,
    reason = "a test that is wrong about lengths must fail"
)]

mod disk;

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use canonical::Digest;
use tempfile::TempDir;

use self::disk::{Fate, FaultyDisk, Shared};
use crate::remembered::Nothing;
use crate::verify::Report;
use crate::{
    Alarm, Body, Checkpoint, Error, Event, KeyCheck, Log, NotSigned, Parts, Record, Refusal,
    Settings, Signer, SyncWhen, UnixMillis, verify_folder,
};

/// Signs without cryptography.
struct Stub;

impl Signer for Stub {
    fn sign(&self, checkpoint: &Checkpoint) -> Result<String, NotSigned> {
        let Checkpoint {
            log_id,
            seq,
            head_hash,
            timestamp,
        } = checkpoint;
        Ok(format!("{log_id}|{seq}|{head_hash}|{timestamp}"))
    }
}

impl KeyCheck for Stub {
    fn check(&self, jws: &str) -> Result<Checkpoint, Refusal> {
        let words: Vec<&str> = jws.split('|').collect();
        match words.as_slice() {
            [log_id, seq, head_hash, timestamp] => Ok(Checkpoint {
                log_id: (*log_id).to_owned(),
                seq: seq.parse().unwrap(),
                head_hash: head_hash.parse().unwrap(),
                timestamp: timestamp.parse().unwrap(),
            }),
            _ => Err(Refusal::Invalid("no checkpoint".into())),
        }
    }
}

struct Place {
    home: TempDir,
    disk: Arc<FaultyDisk>,
    settings: Settings,
    alarms: Arc<Mutex<Vec<String>>>,
}

impl Place {
    fn new(sync: SyncWhen) -> Self {
        Self {
            home: TempDir::new().unwrap(),
            disk: Arc::default(),
            settings: Settings {
                sync,
                queue_bytes: 64 * 1024,
                ..Settings::default()
            },
            alarms: Arc::default(),
        }
    }

    fn try_open(&self) -> Result<Log, Error> {
        let alarms = Arc::clone(&self.alarms);
        let counter = AtomicU64::new(0);
        let parts = Parts {
            signer: Box::new(Stub),
            keys: Box::new(Stub),
            random: Box::new(move |bytes: &mut [u8]| {
                let next = counter.fetch_add(1, Ordering::Relaxed).to_le_bytes();
                let bytes = bytes.iter_mut();
                bytes
                    .zip(Digest::of(&next).as_bytes().iter().cycle())
                    .for_each(|(to, from)| *to = *from);
                Ok(())
            }),
            clock: Box::new(|| UnixMillis(1_770_000_000_000)),
            alarm: Box::new(move |alarm: &Alarm| alarms.lock().unwrap().push(alarm.to_string())),
        };
        let disk = Arc::new(Shared(Arc::clone(&self.disk)));
        let (folder, settings) = (self.home.path(), self.settings.clone());
        Log::open_on(folder, settings, parts, Box::new(Nothing), disk)
    }

    fn open(&self) -> Log {
        self.try_open().unwrap()
    }

    fn verify(&self) -> Report {
        let report = verify_folder(self.home.path(), &Stub).unwrap();
        assert!(report.is_intact(), "{:?}", report.faults);
        report
    }

    fn text(&self) -> String {
        let segments = crate::segments(self.home.path()).unwrap();
        let texts = segments
            .iter()
            .map(|one| fs::read_to_string(&one.path).unwrap());
        texts.collect()
    }

    fn alarms(&self) -> Vec<String> {
        std::mem::take(&mut self.alarms.lock().unwrap())
    }
}

fn record(name: &str) -> Record<'_> {
    Record {
        event: Event::Request,
        body: Body {
            name: Some(name),
            ..Body::default()
        },
    }
}

fn write(log: &Log, name: &str) -> Result<u64, Error> {
    Ok(log.append(&record(name))?.wait()?.seq)
}

/// On a file system that cannot keep space free: a full disk is noticed in the middle of a line.
/// What was begun is taken back, requests are refused until there is space, and that is on record.
#[test]
fn threat_138_a_full_disk_is_noticed_in_the_middle_of_a_line() {
    for sync in [SyncWhen::Never, SyncWhen::Commit] {
        for space in [0, 1, 100, 399] {
            let place = Place::new(sync);
            let log = place.open();
            write(&log, "before").unwrap();
            let before = place.text();
            place.disk.set(|fate| fate.space = Some(space));
            let error = write(&log, "lost").unwrap_err();
            assert!(error.to_string().contains("cannot write"), "{error}");
            assert_eq!(place.text(), before, "nothing of it is left");
            for _ in 0..3 {
                assert!(matches!(
                    log.append(&record("refused")),
                    Err(Error::Io { .. })
                ));
            }
            assert!(log.check().is_err() && log.probe().wait().is_err());
            place.disk.set(|fate| fate.space = None);
            log.probe().wait().unwrap();
            log.check().unwrap();
            write(&log, "after").unwrap();
            log.close();
            let report = place.verify();
            assert_eq!((report.logs, report.gaps.len()), (1, 1));
            let text = place.text();
            assert!(
                text.contains("\"refused\":4") && text.contains("\"after\""),
                "{text}"
            );
            assert!(!text.contains("\"lost\""));
            let alarms = place.alarms();
            assert_eq!(alarms.len(), 2, "{alarms:?}");
        }
    }
}

/// With space kept free: new requests are refused, those that were let in before are recorded.
#[test]
fn threat_138_what_was_let_in_is_recorded_on_a_full_disk() {
    let place = Place::new(SyncWhen::Never);
    place.disk.set(|fate| fate.can_allocate = true);
    let log = place.open();
    let permits: Vec<_> = (0..5).map(|_| log.reserve().unwrap()).collect();
    // All that was not kept free is gone. The pieces in which space is kept hide that for a while,
    // so many records are written until it shows.
    place
        .disk
        .set(|fate| fate.space = Some(64 * 1024 + (1 << 20)));
    let mut written = 0;
    while write(&log, &"x".repeat(250)).is_ok() {
        written += 1;
    }
    assert!(written > 100, "{written}");
    let error = log.reserve().unwrap_err().to_string();
    assert!(error.contains("cannot keep room for"), "{error}");
    for permit in permits {
        permit.append(&record("let in")).unwrap().wait().unwrap();
    }
    place.disk.set(|fate| fate.space = None);
    log.probe().wait().unwrap();
    write(&log, "after").unwrap();
    log.close();
    assert_eq!(place.verify().logs, 1);
    assert_eq!(place.text().matches("\"let in\"").count(), 5);
}

/// A write that fails releases the reserved space, which is reserved again before the next permit is given.
#[test]
fn threat_138_a_failed_write_releases_no_reserved_space() {
    for is_shared in [false, true] {
        let place = Place::new(SyncWhen::Never);
        place.disk.set(|fate| fate.can_allocate = true);
        let log = place.open();
        let permits: Vec<_> = (0..5).map(|_| log.reserve().unwrap()).collect();
        place.disk.set(|fate| {
            fate.space = Some(0);
            fate.fails_write = true;
            fate.is_shared = is_shared;
        });
        let error = write(&log, "lost").unwrap_err();
        assert!(error.to_string().contains("cannot write"), "{error}");
        let probed = log.probe().wait();
        if is_shared {
            // Another program has taken the space, so nothing more is let in.
            assert!(probed.is_err());
            let error = log.reserve().unwrap_err().to_string();
            assert!(error.contains("cannot keep room for"), "{error}");
            place.disk.set(|fate| fate.space = None);
            log.probe().wait().unwrap();
        } else {
            probed.unwrap();
        }
        for permit in permits {
            permit.append(&record("let in")).unwrap().wait().unwrap();
        }
        // What a permit was given for has its space, however full the disk is.
        place.disk.set(|fate| fate.space = Some(0));
        while let Ok(permit) = log.reserve() {
            permit
                .append(&record(&"x".repeat(250)))
                .unwrap()
                .wait()
                .unwrap();
        }
        place.disk.set(|fate| fate.space = None);
        log.probe().wait().unwrap();
        log.close();
        assert_eq!(place.verify().logs, 1);
        assert_eq!(place.text().matches("\"let in\"").count(), 5);
    }
}

/// If what was begun cannot be taken back either, it is dropped when the log is looked at again.
#[test]
fn threat_138_a_disk_that_is_full_and_cannot_be_cut() {
    let place = Place::new(SyncWhen::Never);
    let log = place.open();
    // Whatever the thread still has to do after opening must not take the last of the space.
    log.probe().wait().unwrap();
    place.disk.set(|fate| {
        fate.space = Some(50);
        fate.fails_truncate = true;
    });
    write(&log, "lost").unwrap_err();
    place.disk.set(|fate| {
        fate.space = None;
        fate.fails_truncate = false;
    });
    log.probe().wait().unwrap();
    write(&log, "after").unwrap();
    log.close();
    let report = place.verify();
    let reasons: Vec<_> = report.gaps.iter().map(|gap| gap.reason.as_str()).collect();
    assert_eq!(
        (report.logs, reasons),
        (1, vec!["torn_tail", "sink_failed"])
    );
}

/// `sync: commit`: who is answered is on the disk, and a failed sync answers nobody.
#[test]
fn commit_syncs_before_it_acknowledges() {
    let place = Place::new(SyncWhen::Commit);
    let log = place.open();
    let syncs = || place.disk.fate.lock().unwrap().syncs;
    for _ in 0..3 {
        let before = syncs();
        write(&log, "x").unwrap();
        assert!(syncs() > before);
    }
    place.disk.set(|fate| fate.fails_sync = true);
    let error = write(&log, "lost").unwrap_err();
    assert!(error.to_string().contains("cannot sync"), "{error}");
    assert!(log.probe().wait().is_err(), "as long as it fails");
    place.disk.set(|fate| fate.fails_sync = false);
    log.probe().wait().unwrap();
    write(&log, "after").unwrap();
    log.close();
    assert_eq!(place.verify().logs, 1);
    assert!(!place.text().contains("\"lost\""));
}

/// The default: synced after a while, without anybody asking; a failure refuses new requests.
#[test]
fn an_interval_syncs_by_itself() {
    let place = Place::new(SyncWhen::Every(Duration::from_millis(1)));
    let log = place.open();
    let disk = Arc::clone(&place.disk);
    let wait_for = |what: &dyn Fn(&Fate) -> bool| {
        let fate = disk.fate.lock().unwrap();
        drop(disk.changed.wait_while(fate, |fate| !what(fate)).unwrap());
    };
    let before = disk.fate.lock().unwrap().syncs;
    write(&log, "x").unwrap();
    wait_for(&|fate| fate.syncs > before);
    let failed = {
        let mut fate = disk.fate.lock().unwrap();
        fate.fails_sync = true;
        fate.syncs
    };
    // With the kernel, or refused already if another file was being synced just now.
    let _ = write(&log, "with the kernel");
    wait_for(&|fate| fate.syncs > failed);
    // The one who writes hears of it, and answers nobody any more.
    while log.check().is_ok() {
        std::thread::yield_now();
    }
    assert!(matches!(
        log.append(&record("refused")),
        Err(Error::Io { .. })
    ));
    place.disk.set(|fate| fate.fails_sync = false);
    log.probe().wait().unwrap();
    write(&log, "after").unwrap();
    log.close();
    let report = place.verify();
    assert_eq!(report.logs, 1);
    assert!(!report.gaps.is_empty());
    assert!(place.alarms()[0].contains("cannot sync"));
}

/// After a failed sync the kernel does not write the same pages again, so the log must.
#[test]
fn records_of_a_failed_sync_survive_a_power_failure() {
    for sync in [SyncWhen::Every(Duration::from_millis(20)), SyncWhen::Commit] {
        let place = Place::new(sync);
        let log = place.open();
        write(&log, "before").unwrap();
        let acknowledged = loop {
            place.disk.set(|fate| fate.fails_sync = true);
            let written = write(&log, "unsynced");
            while log.check().is_ok() {
                std::thread::yield_now();
            }
            place.disk.set(|fate| fate.fails_sync = false);
            log.probe().wait().unwrap();
            // The sync may have failed for what came before already.
            if written.is_ok() || sync == SyncWhen::Commit {
                break written.is_ok();
            }
        };
        write(&log, "after").unwrap();
        log.close();
        place.disk.cut_power();
        let report = place.verify();
        assert_eq!(report.logs, 1, "{sync:?}");
        let text = place.text();
        assert!(text.contains("\"before\"") && text.contains("\"after\""));
        assert_eq!(text.contains("\"unsynced\""), acknowledged);
        assert_eq!(acknowledged, sync != SyncWhen::Commit);
    }
}

/// A purge rewrites segments through a temporary file while the log may be opened again.
#[test]
fn reopening_leaves_the_temporary_file_of_a_purge() {
    let place = Place::new(SyncWhen::Never);
    let log = place.open();
    write(&log, "before").unwrap();
    let temporary = place.home.path().join("audit-00000001.jsonl.1-1.tmp");
    fs::write(&temporary, "half").unwrap();
    place.disk.set(|fate| {
        fate.space = Some(50);
        fate.fails_truncate = true;
    });
    write(&log, "lost").unwrap_err();
    place.disk.set(|fate| {
        fate.space = None;
        fate.fails_truncate = false;
    });
    log.probe().wait().unwrap();
    assert!(temporary.exists());
    log.close();
    // What a process has left that ended goes when the log is opened.
    place.open().close();
    assert!(!temporary.exists());
}

/// A segment that cannot be begun does not stop the one before it.
#[test]
fn a_segment_that_cannot_be_begun_is_begun_later() {
    let mut place = Place::new(SyncWhen::Never);
    place.settings.segment_bytes = 2000;
    place.settings.checkpoint_age = Duration::ZERO;
    let log = place.open();
    place.disk.set(|fate| fate.fails_open = true);
    for _ in 0..20 {
        write(&log, "x").unwrap();
    }
    assert_eq!(crate::segments(place.home.path()).unwrap().len(), 1);
    let alarms = place.alarms();
    assert_eq!(alarms.len(), 1, "said once: {alarms:?}");
    place.disk.set(|fate| fate.fails_open = false);
    for _ in 0..3 {
        write(&log, "x").unwrap();
    }
    log.close();
    assert!(crate::segments(place.home.path()).unwrap().len() > 1);
    assert_eq!(place.verify().logs, 1);
}

/// A disk that is full when the log is opened.
#[test]
fn threat_138_a_log_that_cannot_be_opened_is_an_error() {
    let place = Place::new(SyncWhen::Never);
    place.disk.set(|fate| fate.space = Some(10));
    let error = place.try_open().unwrap_err();
    assert!(error.to_string().contains("cannot write"), "{error}");
    place.disk.set(|fate| fate.space = None);
    let log = place.open();
    write(&log, "x").unwrap();
    log.close();
    place.verify();
}

/// Nobody waits for ever for a thread that is gone.
#[test]
fn a_writer_that_is_gone_leaves_nobody_waiting() {
    let place = Place::new(SyncWhen::Never);
    let log = place.open();
    let permit = log.reserve().unwrap();
    log.close();
    assert!(matches!(
        permit.append(&record("late")).unwrap().wait(),
        Err(Error::Closed)
    ));
    assert!(matches!(log.probe().wait(), Err(Error::Closed)));
    assert!(matches!(log.reserve(), Err(Error::Closed)));
    assert!(matches!(log.check(), Err(Error::Closed)));
}
