//! Commands that wait for a node: the node goes away, or whoever waits has had enough.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::json;

use crate::frith;
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

    fn signal(&self, name: &str) {
        let id = self.0.id().to_string();
        let status = Command::new("kill").args([name, &id]).status();
        assert!(status.unwrap().success());
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

/// Whoever interrupts a command has the node stop what it does for it.
#[test]
fn an_interrupted_command_ends_what_it_waits_for() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), PLUGINS);
    for words in commands(folder.path()) {
        for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
            let waiting = Waiting::start(&node, &words);
            waiting.signal(signal);
            let (status, said) = waiting.end();
            assert_eq!(status, Some(code), "{words:?}: {said}");
            assert!(said.contains("interrupted"), "{words:?}: {said}");
            while is_running() {
                std::thread::yield_now();
            }
        }
    }
}

/// A node that does not listen keeps nobody who insists.
#[test]
fn a_second_interruption_ends_a_command_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), PLUGINS);
    let [run, ..] = commands(folder.path());
    let waiting = Waiting::start(&node, &run);
    node.signal("-STOP");
    waiting.signal("-INT");
    waiting.signal("-INT");
    let (status, said) = waiting.end();
    assert_eq!(status, Some(130), "{said}");
}

/// `frith run -- program | head -1`: who has seen enough ends the program.
#[test]
fn a_reader_that_has_seen_enough_ends_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), PLUGINS);
    let script = format!("sleep {} & while :; do echo more; done", duration());
    let mut child = Command::new(env!("CARGO_BIN_EXE_frith"))
        .env("FRITH_DATA", node.data())
        .args(["run", "--", "sh", "-c", &script])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "more\n");
    drop(out);
    child.wait().unwrap();
    while is_running() {
        std::thread::yield_now();
    }
}

/// A chain is named by its number.
#[test]
fn a_chain_has_a_number() {
    let (status, _, error) = frith(&["chain", "show", "x"], "");
    assert_eq!(status, 2);
    assert!(error.contains("a chain goes by its number"), "{error}");
}

/// The socket and `endpoints.json` of a node that was killed do not stand in the way of the fallback.
#[test]
fn call_falls_back_when_the_node_was_killed() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let data = home.join("frith");
    std::fs::create_dir_all(&home).unwrap();
    std::os::unix::fs::symlink(&data, folder.path().join("data")).unwrap();
    std::fs::create_dir(&data).unwrap();
    let node = Node::start(folder.path(), "{}");
    let frith = |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_frith"))
            .args(arguments)
            .env("XDG_DATA_HOME", &home)
            .env_remove("FRITH_DATA")
            .current_dir(folder.path())
            .output()
            .unwrap()
    };
    let call = ["call", "echo", r#"{"text":"hi"}"#];
    assert_eq!(String::from_utf8_lossy(&frith(&call).stderr), "");
    node.crash();
    assert!(data.join("a2e.sock").exists());
    let output = frith(&call);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{error}");
    assert_eq!(output.stdout, b"{\n  \"text\": \"hi\"\n}\n");
    assert!(
        error.contains("it was killed or it crashed (`frith up` starts it again)"),
        "{error}"
    );
    assert!(
        error.contains("a host inside this process answers"),
        "{error}"
    );
    // A node that was named is not replaced by another host.
    let named = data.to_str().unwrap();
    let output = frith(&["call", "echo", "{}", "--data", named]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    let hint = format!("`frith up --data {named}` starts it again");
    assert!(error.contains(&hint), "{error}");
}
