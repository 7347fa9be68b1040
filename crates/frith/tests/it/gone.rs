//! Commands that wait for a node: the node goes away, or whoever waits has had enough.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::json;

use crate::node::Node;

const PLUGINS: &str = "plugins: [{name: tools, type: tools}, {name: proc, type: proc}, \
                       {name: chains, type: chains}]\n";

/// How long what runs would run. Nothing else on the machine sleeps for so long.
fn duration() -> String {
    format!("1000.{}", std::process::id())
}

/// Makes a file, and does not end by itself.
fn endless() -> String {
    format!("touch begun; exec sleep {}", duration())
}

/// Whether what runs does.
fn is_running() -> bool {
    let wanted = format!("sleep\0{}\0", duration());
    let processes = std::fs::read_dir("/proc").unwrap();
    processes
        .filter_map(|entry| std::fs::read_to_string(entry.ok()?.path().join("cmdline")).ok())
        .any(|line| line == wanted)
}

/// The commands that can wait long, each with a file that it may need.
fn commands(folder: &Path) -> [Vec<String>; 3] {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let script = endless();
    let call = json!({"command": script}).to_string();
    let file = folder.join("chain.json");
    let chain = json!({"chain_id": "c", "entry_node": "wait", "nodes": [
        {"node_id": "wait", "kind": "proc", "input": {"cmd": ["sh", "-c", script]}}]});
    std::fs::write(&file, chain.to_string()).unwrap();
    [
        words(&["run", "--", "sh", "-c", &script]),
        words(&["call", "run_command", &call, "--timeout", "600"]),
        words(&["chain", "run", file.to_str().unwrap()]),
    ]
}

/// A command of a node that waits for what runs.
struct Waiting(Child);

impl Waiting {
    fn start(node: &Node, words: &[String]) -> Self {
        let begun: PathBuf = node.data().join("workspace/begun");
        let _ = std::fs::remove_file(&begun);
        let child = Command::new(env!("CARGO_BIN_EXE_frith"))
            .env("FRITH_DATA", node.data())
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        while !(begun.exists() && is_running()) {
            std::thread::yield_now();
        }
        Self(child)
    }

    /// Its exit status, and what it said.
    fn end(self) -> (Option<i32>, String) {
        let output = self.0.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), said)
    }
}

/// Nobody waits for a node that is killed, and everybody is told what to do.
#[test]
fn a_node_that_is_killed() {
    for index in 0..3 {
        let folder = tempfile::tempdir().unwrap();
        let node = Node::start(folder.path(), PLUGINS);
        let words = &commands(folder.path())[index];
        let waiting = Waiting::start(&node, words);
        node.crash();
        let (status, said) = waiting.end();
        assert_eq!(status, Some(1), "{words:?}: {said}");
        assert!(said.contains("went away before"), "{words:?}: {said}");
        assert!(said.contains("`frith up`"), "{words:?}: {said}");
        if words[0] == "chain" {
            assert!(said.contains("`frith chain show NUMBER`"), "{said}");
        }
    }
}

/// The same for one that is stopped in order.
#[test]
fn a_node_that_is_stopped() {
    for index in 0..3 {
        let folder = tempfile::tempdir().unwrap();
        let config = format!("{PLUGINS}global_limits: {{drain_seconds: 1}}\n");
        let node = Node::start(folder.path(), &config);
        let words = &commands(folder.path())[index];
        let waiting = Waiting::start(&node, words);
        node.signal("-TERM");
        let (status, said) = waiting.end();
        assert_eq!(status, Some(1), "{words:?}: {said}");
        assert!(said.contains("`frith up`"), "{words:?}: {said}");
    }
}
