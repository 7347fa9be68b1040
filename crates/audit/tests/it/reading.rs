//! Reading a log: tail, export, statistics, and verification while it is written.

use std::sync::atomic::{AtomicBool, Ordering};

use audit::{Entry, Follower, Stats, verify_folder};
use serde_json::json;

use crate::support::{Place, append, intent, request};

#[test]
fn the_last_lines_come_from_as_many_segments_as_it_takes() {
    let mut place = Place::new();
    place.settings.segment_bytes = 2048;
    let log = place.open();
    for n in 0..20 {
        append(&log, &n.to_string());
    }
    log.close();
    let all = place.lines();
    for count in [0, 1, 3, 10, all.len() - 1, all.len(), all.len() + 5] {
        let (_, last) = Follower::new(&place.folder(), count).unwrap();
        let expected = &all[all.len().saturating_sub(count)..];
        assert_eq!(
            last,
            expected
                .iter()
                .map(|line| line.as_bytes())
                .collect::<Vec<_>>()
        );
    }
}

/// Also over the change of segments, and without a line that is not whole yet.
#[test]
fn a_follower_goes_on_where_it_stopped() {
    let place = Place::new();
    let log = place.open();
    append(&log, "one");
    let (mut follower, last) = Follower::new(&place.folder(), 1).unwrap();
    let names = |lines: &[Vec<u8>]| -> Vec<String> {
        let entries = lines.iter().map(|line| Entry::parse(line).unwrap());
        entries
            .filter_map(|entry| entry.text("name").map(str::to_owned))
            .collect()
    };
    assert_eq!(names(&last), ["one"]);
    assert_eq!(follower.next_lines().unwrap(), [[0_u8; 0]; 0]);
    append(&log, "two");
    assert_eq!(names(&follower.next_lines().unwrap()), ["two"]);
    append(&log, "three");
    log.rotate().wait().unwrap();
    append(&log, "four");
    log.rotate().wait().unwrap();
    append(&log, "five");
    assert_eq!(
        names(&follower.next_lines().unwrap()),
        ["three", "four", "five"]
    );
    log.close();
    assert_eq!(follower.next_lines().unwrap().len(), 1, "stop");
    let whole = std::fs::read(place.segment(3)).unwrap();
    std::fs::write(place.segment(3), [&whole[..], b"{\"body"].concat()).unwrap();
    assert_eq!(follower.next_lines().unwrap().len(), 0);
}

/// The plain lines of other A2E hosts: `AuditEntry` of the catalogue, every key, in its order.
#[test]
fn a2e_requests_are_exported_as_audit_entries() {
    let place = Place::new();
    let log = place.open();
    append(&log, "echo");
    let mut failed = request("write");
    failed.body.response_status = Some("tool_denied");
    failed.body.correlation_id = None;
    log.append(&failed).unwrap().wait().unwrap();
    log.append(&intent("translate")).unwrap().wait().unwrap();
    log.close();
    let entries = place.lines();
    let entries = entries
        .iter()
        .map(|line| Entry::parse(line.as_bytes()).unwrap());
    let exported: Vec<String> = entries.filter_map(|entry| entry.to_a2e()).collect();
    assert_eq!(exported.len(), 2, "only A2E requests");
    let first: serde_json::Value = serde_json::from_str(&exported[0]).unwrap();
    assert_eq!(
        first,
        json!({"ts": 1_770_000_000.0, "session_id": "sha256:0000", "req_id": "r-1",
            "correlation_id": "c-1", "success": true, "duration_ms": 7, "error_code": null,
            "input_bytes": 120, "output_bytes": 80})
    );
    let second: serde_json::Value = serde_json::from_str(&exported[1]).unwrap();
    assert_eq!(second["error_code"], "tool_denied");
    assert_eq!(
        (&second["success"], &second["correlation_id"]),
        (&json!(false), &json!("r-1"))
    );
    let catalogue = testkit::a2e_catalogue();
    let fields = catalogue["config_structs"]["AuditEntry"]["fields"]
        .as_array()
        .unwrap();
    let mut rest = exported[0].as_str();
    for field in fields {
        let name = format!("\"{}\":", field["name"].as_str().unwrap());
        let at = rest
            .find(&name)
            .unwrap_or_else(|| panic!("{name} is not next in {rest}"));
        rest = &rest[at..];
    }
    assert_eq!(first.as_object().unwrap().len(), fields.len());
}

#[test]
fn statistics_count_what_is_there() {
    let place = Place::new();
    let log = place.open();
    append(&log, "one");
    place.pass(1000);
    append(&log, "two");
    log.append(&intent("translate")).unwrap().wait().unwrap();
    log.close();
    let stats = Stats::of(&place.folder()).unwrap();
    let report = place.intact();
    assert_eq!(stats.records, report.records);
    assert_eq!(stats.checkpoints, report.checkpoints);
    assert_eq!(
        (
            stats.logs,
            stats.segments,
            stats.unreadable,
            stats.remote_ips
        ),
        (1, 1, 0, 2)
    );
    assert_eq!(stats.events["request_received"], 3);
    assert_eq!(
        (stats.results["approved"], stats.results["rejected"]),
        (2, 1)
    );
    assert_eq!(stats.statuses["POLICY_VIOLATION"], 1);
    assert_eq!(stats.last.unwrap().0 - stats.first.unwrap().0, 1000);
}

/// Verification of a log that is being written finds nothing wrong, whenever it looks.
#[test]
fn a_log_can_be_verified_while_it_is_written() {
    let mut place = Place::new();
    place.settings.segment_bytes = 32 * 1024;
    let log = place.open();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (folder, keys, is_done) = (place.folder(), place.keys, &is_done);
        scope.spawn(move || {
            for _ in 0..600 {
                append(&log, "x");
            }
            log.close();
            is_done.store(true, Ordering::Release);
        });
        let mut rounds = 0;
        loop {
            let was_done = is_done.load(Ordering::Acquire);
            let report = verify_folder(&folder, &keys).unwrap();
            assert!(report.is_intact(), "round {rounds}: {:?}", report.faults);
            rounds += 1;
            if was_done {
                break;
            }
        }
    });
    assert_eq!(place.intact().unsigned, 0);
}
