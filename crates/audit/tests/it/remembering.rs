//! A log that was emptied or put back is missed by whoever remembers it.

use std::fs;
use std::sync::{Arc, Mutex};

use audit::{Head, Log, Remembered};

use crate::opening::copy_folder;
use crate::support::{Place, append};

#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Option<Head>>>);

impl Remembered for Memory {
    fn load(&self) -> Option<Head> {
        self.0.lock().unwrap().clone()
    }

    fn save(&self, head: &Head) {
        *self.0.lock().unwrap() = Some(head.clone());
    }
}

fn open(place: &Place, memory: &Memory) -> Log {
    let (folder, settings) = (place.folder(), place.settings.clone());
    let memory = Box::new(memory.clone());
    Log::open_remembered(&folder, settings, place.parts(), memory).unwrap()
}

/// What is remembered is what is signed, and goes with the log.
#[test]
fn every_checkpoint_is_remembered() {
    let (place, memory) = (Place::new(), Memory::default());
    for round in 0..3 {
        let log = open(&place, &memory);
        for _ in 0..7 {
            append(&log, "x");
            let report = place.verify();
            let head = report.head.unwrap();
            let remembered = memory.load().unwrap();
            assert_eq!(remembered.seq, head.seq - report.unsigned, "round {round}");
            assert_eq!(Head::lacks(Some(&head), &remembered), None);
        }
        log.close();
        assert_eq!(place.intact().head, memory.load());
    }
    assert_eq!((place.intact().logs, place.alarms()), (1, vec![]));
}

/// The new log says how far the old one had come, and verification that no purge took it.
#[test]
fn threat_135_an_emptied_folder_begins_with_a_gap() {
    let (place, memory) = (Place::new(), Memory::default());
    let log = open(&place, &memory);
    append(&log, "one");
    log.close();
    let lost = memory.load().unwrap();
    fs::remove_dir_all(place.folder()).unwrap();
    let log = open(&place, &memory);
    append(&log, "two");
    log.close();
    assert!(place.alarms()[0].contains("(missing_log)"));
    let report = place.verify();
    assert_eq!(report.gaps[0].reason, "missing_log");
    assert_eq!(report.faults[0].kind.code(), "unrecorded_purge");
    let first = &place.lines()[0];
    assert!(first.contains(&format!("\"previous_seq\":{}", lost.seq)));
    assert!(first.contains(&format!("\"previous_log_id\":\"{}\"", lost.log_id)));
    assert!(memory.load().unwrap().log_id.starts_with("log-2-"));
    // Once is enough.
    open(&place, &memory).close();
    assert_eq!(place.alarms(), [""; 0]);
    // Without memory it is a log like any other.
    fs::remove_dir_all(place.folder()).unwrap();
    place.open().close();
    assert_eq!(place.intact().gaps.len(), 0);
}

/// Records and checkpoints are those of an earlier day, and all fits.
#[test]
fn threat_135_a_folder_that_was_put_back_begins_with_a_gap() {
    let (place, memory) = (Place::new(), Memory::default());
    let log = open(&place, &memory);
    append(&log, "one");
    log.close();
    let kept = place.folder().with_extension("kept");
    copy_folder(&place.folder(), &kept);
    let log = open(&place, &memory);
    append(&log, "two");
    log.close();
    let put_back = || {
        fs::remove_dir_all(place.folder()).unwrap();
        copy_folder(&kept, &place.folder());
        place.intact();
    };
    put_back();
    let log = open(&place, &memory);
    append(&log, "three");
    log.close();
    assert!(place.alarms()[0].contains("(missing_records)"));
    let codes = |place: &Place| -> Vec<&str> {
        let faults = place.verify().faults;
        faults.iter().map(|fault| fault.kind.code()).collect()
    };
    assert_eq!(codes(&place), ["other_end"]);
    // Back to before the second log, which is missed as a whole; the third is sound.
    put_back();
    open(&place, &memory).close();
    assert!(place.alarms()[0].contains("(missing_log)"));
    assert_eq!(codes(&place), ["wrong_beginning"]);
    let report = place.verify();
    assert_eq!((report.logs, report.unsigned), (2, 0));
    assert!(report.head.unwrap().log_id.starts_with("log-3-"));
}

/// What stands in the memory is no log's: it is not written into one, and keeps nobody from beginning.
#[test]
fn a_memory_that_is_not_one_does_no_harm() {
    for (log_id, is_taken) in [
        ("a\nb", false),
        ("", false),
        ("log-18446744073709551615-x", true),
    ] {
        let (place, memory) = (Place::new(), Memory::default());
        memory.save(&Head {
            log_id: log_id.into(),
            seq: u64::MAX,
            hash: canonical::Digest::of(b""),
        });
        open(&place, &memory).close();
        assert_eq!(place.verify().gaps.len(), usize::from(is_taken), "{log_id}");
        open(&place, &memory).close();
        assert_eq!(place.verify().logs, 1);
    }
}
