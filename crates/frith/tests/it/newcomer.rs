//! What somebody reads who does it for the first time, and wrong.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::frith;
use crate::node::Node;

/// After `auth_failed` it is said where the token came from, and where a good one is.
#[test]
fn a_token_that_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), "{}");
    let at = node.at("http");
    let data = node.data();
    let (status, _, text) = frith(&["tools", "--host", at], "");
    assert_eq!(status, 1);
    assert!(
        text.contains("no token was sent; pass one with --token"),
        "{text}"
    );
    let (_, _, text) = frith(&["tools", "--host", at, "--token", "wrong"], "");
    assert!(text.contains("the token of --token is not"), "{text}");
    for command in [["tools", "--data"].as_slice(), &["send", "-", "--data"]] {
        let output = assert_cmd::Command::new(env!("CARGO_BIN_EXE_frith"))
            .args(command)
            .arg(&data)
            .env("FRITH_TOKEN", "stale")
            .write_stdin(r#"{"type":"tool/list/req","id":"1"}"#)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(text.contains("auth_failed"), "{text}");
        assert!(text.contains("unset FRITH_TOKEN"), "{text}");
    }
}

/// With `auth_token` the file in the data directory opens nothing, and nobody is sent there.
#[test]
fn a_token_of_the_configuration() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("frith.yaml"),
        r#"{"auth_token": "chosen"}"#,
    )
    .unwrap();
    let mut process = Command::new(env!("CARGO_BIN_EXE_frith"))
        .args([
            "up",
            "--listen",
            "127.0.0.1:0",
            "--a2a-listen",
            "127.0.0.1:0",
            "--data",
            "data",
        ])
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let mut said = String::new();
    for line in lines.map(Result::unwrap) {
        said += &format!("{line}\n");
        if line.contains("Ctrl-C") {
            break;
        }
    }
    process.kill().unwrap();
    process.wait().unwrap();
    assert!(
        said.contains("token  `auth_token` of the configuration"),
        "{said}"
    );
    assert!(said.contains("--token TOKEN"), "{said}");
    for line in ["frith.yaml\n", "data/workspace\n"] {
        assert!(said.contains(line), "{said}");
    }
}

#[test]
fn a_tool_that_is_mistyped() {
    let (status, _, text) = frith(&["call", "ecko", "{}"], "");
    assert_eq!(status, 1);
    assert!(
        text.contains(r#"there is no tool "ecko"; did you mean "echo"?"#),
        "{text}"
    );
    assert!(text.contains("`frith tools`"), "{text}");
    let (_, _, text) = frith(&["call", "something", "{}"], "");
    assert!(
        text.contains("`frith tools` lists those that are"),
        "{text}"
    );
    let (_, out, _) = frith(&["--json", "call", "ecko", "{}"], "");
    let answer: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(answer["code"], "unknown_tool");
    let (_, out, _) = frith(&["tools"], "");
    assert!(out.contains("wait(seconds: integer)"), "{out}");
    let (_, out, _) = frith(&["--json", "tools"], "");
    // A list is one value.
    let all: Value = serde_json::from_str(&out).unwrap();
    let is_wait = |tool: &&Value| tool["name"] == "wait";
    let wait = all.as_array().unwrap().iter().find(is_wait).unwrap();
    assert_eq!(wait["input_parameters"][0]["description"], "How long");
}

/// What cannot come to anything is said before it is tried.
#[test]
fn what_cannot_be_meant() {
    let (status, _, text) = frith(&["peer", "add", "x", "127.0.0.1:8444"], "");
    assert_eq!(status, 2);
    assert!(
        text.contains("did you mean https://127.0.0.1:8444?"),
        "{text}"
    );
    let (status, _, text) = frith(&["memory", "put", "k", "v", "--tier", "working"], "");
    assert_eq!(status, 2);
    assert!(text.contains("would be forgotten at once"), "{text}");
    let (status, _, text) = frith(&["audit", "verify", "--data", "/nonexistent"], "");
    assert_eq!(status, 1);
    assert!(
        text.contains("there is no /nonexistent; is the path right?"),
        "{text}"
    );
}

/// A node that has no plugin for a command says how it gets one.
#[test]
fn a_list_of_plugins_replaces_the_built_in_one() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), "plugins: [{name: tools, type: tools}]\n");
    let data = node.data();
    let chain = folder.path().join("chain.json");
    std::fs::write(&chain, "{}").unwrap();
    for (command, capability) in [
        (["memory", "stats"].as_slice(), "memory"),
        (&["chain", "list"], "chains"),
        (&["chain", "run", chain.to_str().unwrap()], "chains"),
        (&["run", "--", "true"], "proc"),
    ] {
        let (first, rest) = command.split_at(1);
        let words = [first, &["--data", data.to_str().unwrap()], rest].concat();
        let (status, _, text) = frith(&words, "");
        assert_eq!(status, 1, "{command:?}: {text}");
        let hint = format!("this node has no plugin for `{capability}`: name it in `plugins`");
        assert!(text.contains(&hint), "{command:?}: {text}");
    }
}

/// Each address with the scheme of another.
#[test]
fn a_wrong_scheme() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), r#"{"server": {"tcp": "127.0.0.1:0"}}"#);
    let http = node.at("http").strip_prefix("http://").unwrap();
    let tcp = node.at("tcp").strip_prefix("tcp:").unwrap();
    for (asked, meant) in [
        (format!("https://{http}"), format!("http://{http}")),
        (format!("wss://{http}/ws"), format!("ws://{http}/ws")),
        (format!("tcp:{http}"), format!("http://{http}")),
        (format!("http://{tcp}"), format!("tcp:{tcp}")),
        (format!("tls:{tcp}"), format!("tcp:{tcp}")),
    ] {
        let (status, _, text) = frith(&["ping", "--host", &asked, "--token", &node.token], "");
        assert_eq!(status, 1, "{asked}: {text}");
        assert!(
            text.contains(&format!("try --host {meant}\n")),
            "{asked}: {text}"
        );
    }
}

/// For a script: one line, when everything can be reached.
#[test]
fn up_for_programs() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = Command::new(env!("CARGO_BIN_EXE_frith"))
        .args([
            "--json",
            "up",
            "--listen",
            "127.0.0.1:0",
            "--a2a-listen",
            "127.0.0.1:0",
            "--data",
            "data",
        ])
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut out = BufReader::new(process.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    let said: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(said["pid"], json!(process.id()));
    let token = folder.path().join(said["token_file"].as_str().unwrap());
    let token = std::fs::read_to_string(token).unwrap();
    let at = said["http"].as_str().unwrap();
    let (status, _, text) = frith(&["ping", "--host", at, "--token", token.trim()], "");
    process.kill().unwrap();
    process.wait().unwrap();
    assert_eq!(status, 0, "{text}");
}

#[test]
fn an_address_to_listen_on_that_is_none() {
    for (address, meant) in [
        ("8765", "did you mean 127.0.0.1:8765?"),
        (":8765", "did you mean 127.0.0.1:8765?"),
        ("10.0.0.1", "did you mean 10.0.0.1:8765?"),
        ("::1", "did you mean [::1]:8765?"),
        ("example.org:80", "must be ADDRESS:PORT"),
    ] {
        let (status, _, text) = frith(&["up", "--listen", address], "");
        assert_eq!(status, 2, "{text}");
        assert!(text.contains(meant), "{address}: {text}");
    }
}

#[test]
fn what_is_numbered() {
    let (_, out, _) = frith(&["types", "tool/call/resp"], "");
    assert!(out.contains("ts, req_id, eid as every"), "{out}");
    let (_, out, _) = frith(&["types", "tool/call/req"], "");
    assert!(!out.contains("eid"), "{out}");
}
