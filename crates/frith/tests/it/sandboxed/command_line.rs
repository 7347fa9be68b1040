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

/// Standard input arrives byte for byte, or the command fails: A2E carries text.
#[test]
fn standard_input_arrives_unchanged_or_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), ALL);
    let data = node.data();
    let run = |input: &[u8], script: &str| {
        assert_cmd::Command::new(env!("CARGO_BIN_EXE_frith"))
            .args(["run", "--data", data.to_str().unwrap(), "--", "sh", "-c"])
            .arg(script)
            .write_stdin(input)
            .output()
            .unwrap()
    };
    // Reads of a power of two end within characters.
    let text = format!("a{}", "é".repeat(40_000));
    let output = run(text.as_bytes(), "cat > copy; wc -c < copy; cat copy");
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stdout == format!("80001\n{text}").as_bytes());
    let output = run(b"\xff\xfe", "cat > copy");
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(
        error.contains("standard input is not UTF-8 text"),
        "{error}"
    );
    assert!(error.contains("base64 FILE |"), "{error}");
}

/// `frith send` ends its session, and with it what the session started.
#[test]
fn send_leaves_no_session() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), ALL);
    let data = node.data();
    let data = data.to_str().unwrap();
    let spawn = r#"{"type":"proc/spawn/req","id":"s","cmd":["sleep","1000"],"stdin_mode":"NULL"}"#;
    let (status, out, error) = frith(&["send", "-", "--data", data], spawn);
    assert_eq!(status, 0, "{out}{error}");
    let (_, out, error) = frith(&["status", "--json", "--data", data], "");
    let status: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(status["sessions"], 0, "{out}{error}");
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
