//! `frith run` and `frith doctor`.

use serde_json::Value;

use super::ALL;
use crate::frith;
use crate::node::Node;

/// `frith run`: as if the program ran here.
#[test]
fn a_program_runs_as_if_here() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), ALL);
    let data = node.data();
    let data = data.to_str().unwrap();
    let script = "read a; echo \"out $a\"; echo err >&2; exit 7";
    let (status, out, error) = frith(&["run", "--data", data, "--", "bash", "-c", script], "hi\n");
    assert_eq!((status, &*out, &*error), (7, "out hi\n", "err\n"));
    let (status, out, _) = frith(&["run", "--data", data, "--", "cat"], "to the end\nof it");
    assert_eq!((status, &*out), (0, "to the end\nof it"));
    let (status, _, error) = frith(
        &[
            "run",
            "--timeout",
            "1",
            "--data",
            data,
            "--",
            "sleep",
            "100",
        ],
        "",
    );
    assert_eq!((status, &*error), (137, "frith: killed: timeout\n"));
    let (status, _, error) = frith(&["run", "--data", data, "--", "no-such-program"], "");
    assert_eq!(status, 1);
    assert!(error.contains("no-such-program"), "{error}");
}

/// Every guard of this machine is tried, and holds.
#[test]
fn the_doctor_tries_every_guard() {
    let (status, out, error) = frith(&["--json", "doctor"], "");
    assert_eq!(status, 0, "{out}{error}");
    let guards: Vec<Value> = serde_json::from_str(&out).unwrap();
    assert_eq!(guards.len(), 14);
    for guard in &guards {
        assert_ne!(guard["proof"]["outcome"], "broken", "{guard}");
    }
    let held = guards.iter().filter(|guard| guard["active"] == true);
    assert!(held.count() >= 11, "{out}");
    let (_, out, _) = frith(&["doctor"], "");
    assert!(out.ends_with("guards hold\n"), "{out}");
}
