//! A node that runs on this machine, and commands that find it.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use crate::frith;

struct Node {
    process: Child,
    folder: tempfile::TempDir,
    /// What it said when it was up.
    said: Vec<String>,
}

impl Node {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let mut process = Command::new(env!("CARGO_BIN_EXE_frith"))
            .args(["up", "--listen", "127.0.0.1:0", "--data"])
            .arg(&data)
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let mut said = Vec::new();
        for line in output.lines() {
            let line = line.unwrap();
            let last = line.contains("Ctrl-C");
            said.push(line);
            if last {
                break;
            }
        }
        Self {
            process,
            folder,
            said,
        }
    }

    fn ask(&self, arguments: &[&str], input: &str) -> (i32, String, String) {
        let data = self.folder.path().join("data");
        frith(
            &[arguments, &["--data", data.to_str().unwrap()]].concat(),
            input,
        )
    }

    /// An address that it named.
    fn address(&self, kind: &str) -> &str {
        let line = self
            .said
            .iter()
            .find(|line| line.trim_start().starts_with(kind));
        line.unwrap().split_whitespace().nth(1).unwrap()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

#[test]
fn commands_find_the_node_of_a_data_directory() {
    let node = Node::start();
    let (status, out, error) = node.ask(&["tools"], "");
    assert_eq!((status, out.lines().count()), (0, 4), "{error}");
    let (status, out, error) = node.ask(&["send", "-"], r#"{"type":"ping","id":"1"}"#);
    assert_eq!(status, 0, "{error}");
    assert!(out.contains("\"pong\""), "{out}");
    let token = std::fs::read_to_string(node.folder.path().join("data/token")).unwrap();
    for kind in ["http", "ws", "unix"] {
        let host = node.address(kind);
        let call = ["call", "echo", r#"{"x":1}"#, "--json", "--host", host];
        let (status, out, error) = frith(&[&call[..], &["--token", token.trim()]].concat(), "");
        assert_eq!(status, 0, "{host}: {error}");
        assert!(out.contains("\"x\":1"), "{out}");
        let (status, _, error) = frith(&[&call[..], &["--token", "wrong"]].concat(), "");
        assert_eq!(status, 1);
        assert!(error.contains("auth_failed"), "{error}");
    }
}

#[test]
fn a_data_directory_without_a_node() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let (status, _, error) = frith(&["ping", "--data", data], "");
    assert_eq!(status, 1);
    assert!(error.contains("no node runs there"), "{error}");
}
