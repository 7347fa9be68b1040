//! Any sequence of what can be done with a log leaves one that verifies.

use std::fs;

use audit::{Log, Purge, UnixMillis};
use proptest::prelude::*;

use crate::support::{DAY, Place, append, intent};

#[derive(Debug, Clone)]
enum Operation {
    Append(String),
    Intent(String),
    Many(usize),
    Rotate,
    Reopen,
    /// A process that is gone without a word.
    Crash,
    /// So many bytes of a line that was not finished.
    Tear(usize),
    EraseBodies,
    EraseAddresses,
    DropRecords,
    Pass(i64),
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        4 => any::<String>().prop_map(Operation::Append),
        2 => ".{0,300}".prop_map(Operation::Intent),
        2 => (1_usize..12).prop_map(Operation::Many),
        1 => Just(Operation::Rotate),
        1 => Just(Operation::Reopen),
        1 => Just(Operation::Crash),
        1 => (1_usize..600).prop_map(Operation::Tear),
        1 => Just(Operation::EraseBodies),
        1 => Just(Operation::EraseAddresses),
        1 => Just(Operation::DropRecords),
        2 => (0..4 * DAY).prop_map(Operation::Pass),
    ]
}

/// What a crash leaves: the files as they are, without the end that `close` would write.
fn crash(place: &Place, log: &Log, torn: &[u8]) {
    let kept = place.folder().with_extension("kept");
    crate::opening::copy_folder(&place.folder(), &kept);
    log.close();
    fs::remove_dir_all(place.folder()).unwrap();
    fs::rename(kept, place.folder()).unwrap();
    if let Some(last) = audit::segments(&place.folder()).unwrap().last() {
        let mut text = fs::read(&last.path).unwrap();
        text.extend_from_slice(torn);
        fs::write(&last.path, text).unwrap();
    }
}

fn run(place: &Place, operations: &[Operation]) -> u64 {
    let mut log = place.open();
    let mut acknowledged = 0;
    for operation in operations {
        let week = UnixMillis(place.now().0 - 7 * DAY);
        match operation {
            Operation::Append(name) => acknowledged = append(&log, name),
            Operation::Intent(goal) => {
                acknowledged = log.append(&intent(goal)).unwrap().wait().unwrap().seq;
            }
            Operation::Many(count) => {
                let all: Vec<_> = (0..*count)
                    .map(|_| log.append(&intent("x")).unwrap())
                    .collect();
                for one in all {
                    acknowledged = one.wait().unwrap().seq;
                }
            }
            Operation::Rotate => drop(log.rotate().wait().unwrap()),
            Operation::Reopen => {
                log.close();
                log = place.open();
            }
            Operation::Crash => {
                crash(place, &log, b"");
                log = place.open();
            }
            Operation::Tear(bytes) => {
                let line = b"{\"body_hash\":\"".iter().cycle().take(*bytes);
                crash(place, &log, &line.copied().collect::<Vec<u8>>());
                log = place.open();
            }
            Operation::EraseBodies => drop(log.purge(&Purge::BodiesBefore(week)).unwrap()),
            Operation::EraseAddresses => drop(log.purge(&Purge::RemoteIpsBefore(week)).unwrap()),
            Operation::DropRecords => drop(log.purge(&Purge::RecordsBefore(week)).unwrap()),
            Operation::Pass(millis) => place.pass(*millis),
        }
    }
    log.close();
    acknowledged
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_sequence_leaves_a_log_that_verifies(
        operations in proptest::collection::vec(operation(), 1..25),
    ) {
        let mut place = Place::new();
        place.settings.segment_bytes = 8192;
        let acknowledged = run(&place, &operations);
        let report = place.intact();
        prop_assert_eq!((report.logs, report.unsigned), (1, 0));
        prop_assert!(report.head.is_some_and(|head| head.seq > acknowledged));
    }

    /// And one in which one line is missing, or one byte is another, never does.
    #[test]
    fn any_log_with_a_change_does_not_verify(
        operations in proptest::collection::vec(operation(), 1..15),
        which in any::<proptest::sample::Index>(),
        at in any::<proptest::sample::Index>(),
        bit in 0_u8..8,
    ) {
        let place = Place::new();
        run(&place, &operations);
        place.intact();
        let files = place.files();
        let file = &files[which.index(files.len())];
        let good = fs::read(file).unwrap();
        if good.is_empty() {
            return Ok(());
        }
        let mut bad = good.clone();
        bad[at.index(good.len())] ^= 1 << bit;
        fs::write(file, &bad).unwrap();
        prop_assert!(place.is_damaged());
        let text = String::from_utf8(good).unwrap();
        let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
        let missing = at.index(lines.len());
        // Nobody can know that there was another checkpoint after the last one.
        if *file == place.checkpoint_file() && missing + 1 == lines.len() {
            return Ok(());
        }
        lines.remove(missing);
        fs::write(file, lines.concat()).unwrap();
        prop_assert!(place.is_damaged());
    }
}
