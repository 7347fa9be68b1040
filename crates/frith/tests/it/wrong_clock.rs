//! A node whose clock is wrong: the audit log is purged by age, and loses nothing by that.

use std::path::Path;

use crate::audit;
use crate::frith;
use crate::identity::{User, outcome};
use crate::node::Node;

/// Purges as early as may be.
const CONFIG: &str =
    "audit: {keep_days: 7}\ntelemetry: {log: 'info,frith=debug', log_file: node.log}\n";

/// The environment of a process whose clock says something else, as `faketime` has it.
fn at(clock: &str) -> [(&str, &Path); 3] {
    [
        // The loader of programs replaces `$LIB`.
        (
            "LD_PRELOAD",
            Path::new("/usr/$LIB/faketime/libfaketime.so.1"),
        ),
        ("FAKETIME", Path::new(clock)),
        ("TZ", Path::new("UTC")),
    ]
}

fn start(folder: &Path, clock: &str) -> Node {
    Node::start_with(folder, CONFIG, &at(clock))
}

/// Waits until the node has logged something.
fn wait_for(node: &Node, words: &str) {
    let log = node.data().with_file_name("node.log");
    let logged = || std::fs::read_to_string(&log).unwrap_or_default();
    while !logged().contains(words) {
        std::thread::yield_now();
    }
}

fn operator(folder: &Path, words: &[&str]) -> String {
    let data = folder.join("data");
    let (status, out, error) = frith(&[words, &["--data", data.to_str().unwrap()]].concat(), "");
    assert_eq!((status, &*error), (0, ""), "{out}");
    out
}

/// A hundred days ahead, and fast, so that the first purge is due after a second.
#[test]
fn a_start_with_a_wrong_clock_purges_no_records() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let node = Node::start(folder, CONFIG);
    operator(folder, &["call", "echo", "{\"text\":\"hi\"}"]);
    node.crash();
    let node = start(folder, "+100d x7200");
    wait_for(&node, "the clock is ahead of the audit log");
    wait_for(&node, "nothing of the audit log is due to be purged");
    node.crash();
    let out = operator(folder, &["audit", "verify"]);
    assert!(out.starts_with("intact: "), "{out}");
    let records = operator(folder, &["audit", "export"]);
    assert!(records.contains("\"name\":\"echo\""), "{records}");
    let first = records.lines().next().unwrap();
    assert!(first.contains("\"seq\":1,"), "{first}");
}

/// Half a day after the last record the clock is believed, and what was purged is named.
#[test]
fn a_start_with_a_right_clock_purges_what_is_old() {
    let user = User::new();
    let variables = at("@2026-02-01 00:00:00");
    assert_eq!(outcome(user.command(&["id", "new"]).envs(variables)).0, 0);
    let user = {
        let node = audit::Node { user };
        node.open_log().close();
        node.user
    };
    let folder = user.path(".");
    let node = start(&folder, "@2026-02-11 12:00:00 x7200");
    wait_for(&node, "purged the audit log");
    node.crash();
    let out = operator(&folder, &["audit", "verify"]);
    let purged = out.lines().next().unwrap();
    assert!(purged.starts_with("purged   "), "{out}");
    let range = "from 2026-02-02T02:40:00.000Z to 2026-02-0";
    assert!(purged.contains(range), "{out}");
    assert!(
        out.contains("\nintact except for what was purged: "),
        "{out}"
    );
}

/// What is purged by age is as wrong as the clock. A date is not.
#[test]
fn a_purge_by_age_is_refused_if_the_clock_is_ahead() {
    let user = audit::Node::with_log().user;
    let (status, _, error) = user.run(&["audit", "purge", "--before", "90d"]);
    assert_eq!(status, 1);
    assert!(error.contains("days ahead of the records"), "{error}");
    assert!(error.contains("give a date instead of an age"), "{error}");
    user.ok(&["audit", "purge", "--before", "2026-02-07"]);
    let report = user.json(&["audit", "verify"]);
    let purge = &report["purges"][0];
    assert_eq!(
        (&purge["kind"], &purge["from"]),
        (&"prefix".into(), &"2026-02-02T02:40:00.000Z".into())
    );
    assert!(purge["count"].as_u64() >= Some(4), "{report}");
}
