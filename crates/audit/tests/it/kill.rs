//! Acknowledged records survive `kill -9` at any point.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use audit::{Entry, Error, SyncWhen};

use crate::support::{Place, request};

/// How often the writer is killed.
const ROUNDS: u64 = 200;
/// Where the writer finds its log.
const FOLDER: &str = "FRITH_TEST_AUDIT_FOLDER";

/// Not a test of its own: the process that is killed. It appends and says what was acknowledged.
#[test]
fn child_that_appends_until_it_is_killed() {
    use std::io::Write;
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let mut place = Place::new();
    place.settings.segment_bytes = 16 * 1024;
    place.settings.checkpoint_records = 20;
    // Small groups and large ones, checkpoints and segments: whatever the signal may hit.
    place.settings.sync = SyncWhen::Never;
    let log = audit::Log::open(folder.as_ref(), place.settings.clone(), place.parts()).unwrap();
    let mut out = std::io::stdout().lock();
    writeln!(out, "\nready").unwrap();
    for round in 0_u64.. {
        let names: Vec<String> = (0..1 + round % 7).map(|n| format!("{round}.{n}")).collect();
        let pending: Vec<_> = names
            .iter()
            .map(|name| match log.append(&request(name)) {
                Ok(pending) => Some(pending),
                Err(Error::QueueFull) => None,
                Err(error) => panic!("{error}"),
            })
            .collect();
        for (pending, name) in pending.into_iter().zip(&names) {
            if let Some(pending) = pending {
                let receipt = pending.wait().unwrap();
                writeln!(out, "ack {} {name}", receipt.seq).unwrap();
            }
        }
        out.flush().unwrap();
    }
}

#[test]
fn every_acknowledged_record_survives_kill_nine() {
    let place = Place::new();
    std::fs::create_dir_all(place.folder()).unwrap();
    let mut acknowledged: BTreeMap<u64, String> = BTreeMap::new();
    // A fixed sequence of how many acknowledgements are waited for before the kill.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    for round in 0..ROUNDS {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "kill::child_that_appends_until_it_is_killed",
                "--nocapture",
            ])
            .env(FOLDER, place.folder())
            // What it makes there goes with the folder of this test.
            .env("TMPDIR", place.home())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut left = state % 60;
        let mut read = |line: String| -> bool {
            if let Some((seq, name)) = line
                .strip_prefix("ack ")
                .and_then(|rest| rest.split_once(' '))
            {
                let before = acknowledged.insert(seq.parse().unwrap(), name.to_owned());
                assert_eq!(before, None, "round {round}: record {seq} was given twice");
                return true;
            }
            false
        };
        // Some are killed while they open the log.
        if round % 10 != 0 {
            while left > 0 {
                let line = lines.next().unwrap().unwrap();
                left -= u64::from(read(line));
            }
        }
        child.kill().unwrap();
        // What it still had said was acknowledged too.
        for line in lines.map_while(Result::ok) {
            read(line);
        }
        child.wait().unwrap();
    }
    let report = place.intact();
    assert_eq!(report.logs, 1, "{:?}", report.gaps);
    let found: BTreeMap<u64, Entry> = place
        .lines()
        .iter()
        .filter_map(|line| Entry::parse(line.as_bytes()).ok())
        .map(|entry| (entry.seq, entry))
        .collect();
    assert!(acknowledged.len() > 1000, "{}", acknowledged.len());
    for (seq, name) in acknowledged {
        let entry = found
            .get(&seq)
            .unwrap_or_else(|| panic!("record {seq} is missing"));
        assert_eq!(entry.text("name"), Some(name.as_str()), "record {seq}");
    }
}
