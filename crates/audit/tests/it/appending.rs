//! Records on their way into the log.

use std::collections::BTreeSet;
use std::time::Duration;

use audit::{Entry, Error, NoRandomness, Parts, SyncWhen};

use crate::support::{Keys, Place, append, intent, request};

#[test]
fn records_are_chained_signed_and_acknowledged() {
    let place = Place::new();
    let log = place.open();
    // The log begins with `start`, and with the record that names its checkpoint.
    assert_eq!(append(&log, "one"), 3);
    assert_eq!(append(&log, "two"), 4);
    log.append(&intent("translate")).unwrap().wait().unwrap();
    log.close();
    let report = place.intact();
    assert_eq!((report.logs, report.unsigned), (1, 0));
    let lines = place.lines();
    assert_eq!(lines.len() as u64, report.records);
    assert!(lines[0].contains(r#""event_type":"start""#), "{}", lines[0]);
    assert!(lines[2].contains(r#""name":"one""#), "{}", lines[2]);
    assert!(lines.last().unwrap().contains(r#""event_type":"stop""#));
    assert_eq!(place.alarms(), [""; 0]);
    assert!(matches!(log.append(&request("late")), Err(Error::Closed)));
}

/// Profile §13: a checkpoint every so many records, and each is named by the record after it.
#[test]
fn checkpoints_come_with_records() {
    let place = Place::new();
    let log = place.open();
    for _ in 0..40 {
        append(&log, "x");
    }
    log.close();
    let report = place.intact();
    let named = place
        .lines()
        .iter()
        .filter(|line| line.contains("checkpoint_hash"))
        .count();
    // Five records with the one that names the checkpoint before them.
    assert!(report.checkpoints >= 10, "{}", report.checkpoints);
    assert_eq!(
        report.checkpoints,
        named as u64 + 1,
        "the last one is named at the next start"
    );
    let files = place.files();
    assert!(
        files
            .iter()
            .any(|file| file.ends_with("audit-00000001.jsonl"))
    );
}

/// Profile §13: … or when a minute has passed, but only if something happened.
#[test]
fn checkpoints_come_with_time() {
    let place = Place::new();
    let log = place.open();
    append(&log, "x");
    assert_eq!(place.intact().unsigned, 2);
    place.pass(60_000);
    log.probe().wait().unwrap();
    assert_eq!(place.intact().unsigned, 0);
    let before = place.intact();
    for _ in 0..3 {
        place.pass(60_000);
        log.probe().wait().unwrap();
    }
    assert_eq!(place.intact().checkpoints, before.checkpoints);
    log.close();
}

/// Many threads at once: every receipt is the number of exactly that record.
#[test]
fn receipts_name_their_record() {
    let place = Place::new();
    let log = place.open();
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            let log = log.clone();
            std::thread::spawn(move || {
                let names: Vec<String> = (0..100).map(|n| format!("{thread}-{n}")).collect();
                let mut pending = Vec::new();
                for name in names {
                    pending.push((log.append(&request(&name)).unwrap(), name));
                    if pending.len() == 4 {
                        break;
                    }
                }
                let pending = pending.into_iter();
                pending
                    .map(|(one, name)| (one.wait().unwrap().seq, name))
                    .collect::<Vec<_>>()
            })
        })
        .collect();
    let receipts: Vec<_> = threads
        .into_iter()
        .flat_map(|one| one.join().unwrap())
        .collect();
    log.close();
    place.intact();
    let lines = place.lines();
    let numbers: BTreeSet<u64> = receipts.iter().map(|(seq, _)| *seq).collect();
    assert_eq!(numbers.len(), receipts.len());
    for (seq, name) in receipts {
        let entry = Entry::parse(lines[seq as usize - 1].as_bytes()).unwrap();
        assert_eq!((entry.seq, entry.text("name")), (seq, Some(name.as_str())));
    }
}

/// What it is for: awaited by a task of any executor, here tokio's.
#[test]
fn a_record_can_be_awaited() {
    let place = Place::new();
    let log = place.open();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap();
    let mut numbers = runtime.block_on(async {
        let mut tasks = Vec::new();
        for _ in 0..50 {
            let log = log.clone();
            tasks.push(tokio::spawn(async move {
                let pending = log.append(&request("x")).unwrap();
                pending.await.unwrap().seq
            }));
            if tasks.len() % 10 == 0 {
                tokio::task::yield_now().await;
            }
        }
        let mut numbers = Vec::new();
        for task in tasks {
            numbers.push(task.await.unwrap());
        }
        numbers
    });
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 50);
    log.close();
    place.intact();
}

/// Bounded by records and by bytes: at the limit and past it. Room that is not used comes back.
#[test]
fn threat_138_a_full_queue_refuses_at_once() {
    for (records, bytes, room) in [(3, 1 << 20, 3), (100, 5 * 4096, 5), (100, 6 * 4096 - 1, 5)] {
        let mut place = Place::new();
        place.settings.queue_records = records;
        place.settings.queue_bytes = bytes;
        let log = place.open();
        let mut permits: Vec<_> = (0..room).map(|_| log.reserve().unwrap()).collect();
        assert!(matches!(log.reserve(), Err(Error::QueueFull)));
        assert!(matches!(log.append(&request("x")), Err(Error::QueueFull)));
        drop(permits.pop());
        let last = log.reserve().unwrap();
        assert!(matches!(log.reserve(), Err(Error::QueueFull)));
        permits.push(last);
        let pending: Vec<_> = permits
            .into_iter()
            .map(|one| one.append(&request("x")).unwrap())
            .collect();
        for one in pending {
            one.wait().unwrap();
        }
        append(&log, "there is room again");
        log.close();
        place.intact();
    }
}

/// Threat 137: newlines, terminal commands and 10 KiB in what a peer says.
#[test]
fn threat_137_one_line_for_each_record() {
    let place = Place::new();
    let log = place.open();
    let hostile = [
        "a\nb\r\n{\"seq\":1}".to_owned(),
        "\u{1b}[2J\u{9b}31m\u{7f}\u{2028}\u{202e}".to_owned(),
        "x".repeat(10 * 1024),
        "\u{0}".repeat(10 * 1024),
        "\"\\}{".repeat(3000),
    ];
    for text in &hostile {
        let mut record = request(text);
        record.body.agent = Some(text);
        record.body.reason = Some(text);
        log.append(&record).unwrap().wait().unwrap();
    }
    log.close();
    let report = place.intact();
    let lines = place.lines();
    assert_eq!(lines.len() as u64, report.records);
    for line in lines {
        assert!(line.len() < 4096);
        assert!(!line.chars().any(char::is_control), "{line}");
        let entry = Entry::parse(line.as_bytes()).unwrap();
        assert!(entry.text("name").unwrap_or_default().chars().count() <= 256);
    }
}

/// Threat 144: what was given as a secret does not show, and there is no member for a payload.
#[test]
fn threat_144_session_ids_are_hashed_and_nothing_shows_salts() {
    let place = Place::new();
    let log = place.open();
    let secret = "7c1f0e0a9a3b4d7e8f000123456789ab";
    let hash = audit::session_hash(secret).to_string();
    let mut record = request("x");
    record.body.session_id = Some(&hash);
    log.append(&record).unwrap().wait().unwrap();
    log.close();
    let text = place.lines().concat();
    assert!(text.contains(&hash) && !text.contains(secret));
    for word in [
        "payload",
        "inputs",
        "arguments",
        "result_data",
        "jws",
        "auth_token",
    ] {
        assert!(!audit::Body::NAMES.contains(&word));
    }
    let parts = place.parts();
    assert_eq!(format!("{parts:?}"), "Parts(..)");
}

#[test]
fn without_randomness_nothing_is_written() {
    let place = Place::new();
    let parts = Parts {
        random: Box::new(|_: &mut [u8]| Err(NoRandomness)),
        ..place.parts()
    };
    let error = place.open_with(parts).unwrap_err();
    assert!(matches!(error, Error::NoRandomness(_)), "{error}");
}

/// A signer without a key: there would be a log that anybody could have written.
#[test]
fn without_a_key_no_log_begins() {
    struct Nobody;
    impl audit::Signer for Nobody {
        fn sign(&self, _: &audit::Checkpoint) -> Result<String, audit::NotSigned> {
            Err(audit::NotSigned("no key".into()))
        }
    }
    let place = Place::new();
    let parts = Parts {
        signer: Box::new(Nobody),
        ..place.parts()
    };
    let error = place.open_with(parts).unwrap_err();
    assert!(matches!(error, Error::NotSigned(_)), "{error}");
}

#[test]
fn one_process_writes() {
    let place = Place::new();
    let log = place.open();
    let other = place.open_with(place.parts());
    let error = other.unwrap_err().to_string();
    let own = format!("in use by process {}", std::process::id());
    assert!(error.contains(&own), "{error}");
    log.close();
    place.open().close();
}

/// Every setting of `sync`, with segments that change often.
#[test]
fn segments_are_sealed_by_size() {
    let settings = [
        SyncWhen::Commit,
        SyncWhen::Every(Duration::from_millis(1)),
        SyncWhen::Never,
    ];
    for sync in settings {
        let mut place = Place::new();
        place.settings.sync = sync;
        place.settings.segment_bytes = 4096;
        let log = place.open();
        for _ in 0..30 {
            append(&log, "x");
        }
        log.close();
        place.intact();
        let segments = audit::segments(&place.folder()).unwrap();
        assert!(segments.len() > 4, "{}", segments.len());
        for segment in segments {
            let length = std::fs::metadata(segment.path).unwrap().len();
            assert!(length < 4096 + 2 * 4096, "{length}");
        }
    }
}

#[test]
fn segments_are_sealed_by_age() {
    let place = Place::new();
    let log = place.open();
    append(&log, "x");
    place.pass(24 * 3600 * 1000);
    log.probe().wait().unwrap();
    append(&log, "y");
    log.close();
    place.intact();
    let text = std::fs::read_to_string(place.segment(2)).unwrap();
    assert!(text.contains(r#""name":"y""#) && !text.contains(r#""name":"x""#));
    // A segment in which nothing stands is not sealed.
    let log = place.open();
    log.rotate().wait().unwrap();
    log.rotate().wait().unwrap();
    log.close();
    place.intact();
}

/// Space that was kept free for the queue is given back.
#[test]
fn no_space_is_kept_when_the_log_is_closed() {
    use std::os::unix::fs::MetadataExt;
    let place = Place::new();
    let log = place.open();
    append(&log, "x");
    let blocks = |number| std::fs::metadata(place.segment(number)).unwrap().blocks() * 512;
    let while_open = blocks(1);
    log.rotate().wait().unwrap();
    append(&log, "y");
    log.close();
    assert!(blocks(1) <= 8192 && blocks(2) <= 8192);
    // Not every file system can keep space; those of the tests' machines can.
    assert!(while_open >= 64 * 1024, "{while_open}");
}

/// Threat 143, in the log: as many records as sources and minutes.
#[test]
fn threat_143_rejections_become_few_records() {
    let place = Place::new();
    let log = place.open();
    for n in 0..100_000_i64 {
        let source = [198, 51, 100, (n % 4) as u8];
        log.reject(Some(source.into()), None, "verification_failed");
        place.pass(1);
    }
    log.close();
    place.intact();
    let lines = place.lines();
    let records = lines
        .iter()
        .filter(|line| line.contains(r#""event_type":"rejections""#));
    let counts: Vec<u64> = records
        .map(|line| {
            let (_, count) = line.split_once(r#""count":"#).unwrap();
            count.split(',').next().unwrap().parse().unwrap()
        })
        .collect();
    // 100 seconds touch two or three minutes.
    assert!((8..=12).contains(&counts.len()), "{counts:?}");
    assert_eq!(counts.iter().sum::<u64>(), 100_000);
}

/// A key that was rotated: what the old one signed counts as long as the new one stands for it.
#[test]
fn a_later_key_stands_for_an_earlier_one() {
    struct Both;
    impl audit::KeyCheck for Both {
        fn check(&self, jws: &str) -> Result<audit::Checkpoint, audit::Refusal> {
            crate::support::check_with(&[("sig-1", 1), ("sig-2", 2)], jws)
        }
    }
    let mut place = Place::new();
    place.open().close();
    place.keys = Keys(2);
    let parts = Parts {
        keys: Box::new(Both),
        ..place.parts()
    };
    let log = place.open_with(parts).unwrap();
    append(&log, "x");
    log.close();
    // Only the new key is known.
    let report = place.intact();
    assert_eq!(report.logs, 1);
    // With only the old one nobody stands for the end.
    place.keys = Keys(1);
    let faults = place.faults();
    assert!(faults[0].contains("a key that is not known"), "{faults:?}");
    // Who signs with a key that nobody knows does not get far.
    place.keys = Keys(3);
    let log = place.open();
    assert!(place.alarms()[0].contains("unknown_key"));
    log.close();
}
