//! `notify`: who is told that a call waits for approval.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};

use crate::frith_in;
use crate::node::Node;

const RULES: &str = "plugins: [{name: demo, type: demo}]
policy: {rules: [{id: ask, name: echo, action: require_approval}]}
";

fn script(file: &Path, text: &str) {
    std::fs::write(file, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// A call that waits; its agent is gone again with what this gives.
fn pending(node: &Node, id: &str) -> crate::node::Wire {
    let mut wire = node.wire();
    let hello = json!({"type": "handshake/req", "id": "h", "agent_caps": ["tools"],
        "auth_token": node.token});
    assert_eq!(wire.ask(&hello)["ok"], true);
    let call = json!({"type": "tool/call/req", "id": id, "tool_name": "echo",
        "arguments": {"text": format!("hi $({id})")}, "streaming": true});
    assert_eq!(wire.ask(&call)["data"]["status"], "approval_pending");
    wire
}

/// One request: its headers, in lower case, and its body.
fn received(listener: &TcpListener) -> (String, String) {
    let (mut stream, _) = listener.accept().unwrap();
    let mut text = Vec::new();
    let (head, length) = loop {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        text.push(byte[0]);
        if text.ends_with(b"\r\n\r\n") {
            let head = String::from_utf8(text).unwrap().to_lowercase();
            let length = head.split_once("content-length: ").unwrap().1;
            let length = length.lines().next().unwrap().parse().unwrap();
            break (head, length);
        }
    };
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    stream
        .write_all(b"HTTP/1.1 204 No Content\r\n\r\n")
        .unwrap();
    (head, String::from_utf8(body).unwrap())
}

/// A hook that fails and one that is not there change nothing for the others, nor for the call.
#[test]
fn hooks_are_told_of_a_pending_call() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let told = folder.path().join("told");
    assert!(
        std::process::Command::new("mkfifo")
            .arg(&told)
            .status()
            .unwrap()
            .success()
    );
    let program = folder.path().join("hook");
    script(
        &program,
        &format!("echo \"$# $1\" > '{0}.words'; cat > '{0}'", told.display()),
    );
    let fails = folder.path().join("fails");
    script(&fails, "exit 1");
    let port = listener.local_addr().unwrap().port();
    let notify = json!([
        {"type": "command", "command": ["/nonexistent/program"]},
        {"type": "command", "command": [fails]},
        {"type": "command", "command": [program, "--quiet"]},
        {"type": "webhook", "url": format!("http://127.0.0.1:{port}/hook?a=b"), "secret": "hunter2"},
    ]);
    let node = Node::start(folder.path(), &format!("notify: {notify}\n{RULES}"));
    let mut wire = pending(&node, "1");
    let input = std::fs::read_to_string(&told).unwrap();
    // Nothing of the call stands in the arguments, which other users can see.
    let words = folder.path().join("told.words");
    assert_eq!(std::fs::read_to_string(words).unwrap(), "1 --quiet\n");
    let (head, body) = received(&listener);
    assert_eq!(input.trim_end(), body);
    let message: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(message["event"], "approval_pending");
    assert_eq!(
        (&message["agent"], &message["rule"]),
        (&json!("default"), &json!("ask"))
    );
    assert_eq!(message["summary"], "echo {\"text\":\"hi $(1)\"}");
    assert!(head.starts_with("post /hook?a=b http/1.1"), "{head}");
    let header = |name: &str| {
        head.split_once(&format!("{name}: "))
            .unwrap()
            .1
            .lines()
            .next()
            .unwrap()
    };
    let signed = format!("{}.{body}", header("x-frith-timestamp"));
    let openssl = assert_cmd::Command::new("openssl")
        .args(["dgst", "-sha256", "-hmac", "hunter2", "-r"])
        .write_stdin(signed)
        .output()
        .unwrap();
    let digest = String::from_utf8(openssl.stdout).unwrap();
    let digest = digest.split(' ').next().unwrap();
    assert_eq!(header("x-frith-signature"), format!("sha256={digest}"));
    let id = message["id"].as_str().unwrap();
    let data = node.data();
    let approve = ["approve", id, "--data", data.to_str().unwrap()];
    let (status, _, error) = frith_in(folder.path(), &approve, "");
    assert_eq!(status, 0, "{error}");
    assert_eq!(wire.hear().unwrap()["data"]["success"], true);
}

/// A hook that does not end holds up no call.
#[test]
fn slow_hook_holds_up_no_decision() {
    let folder = tempfile::tempdir().unwrap();
    let slow = folder.path().join("slow");
    script(&slow, "exec tail --pid=$PPID -f /dev/null");
    let notify = json!([{"type": "command", "command": [slow]}]);
    let node = Node::start(folder.path(), &format!("notify: {notify}\n{RULES}"));
    for id in ["1", "2", "3"] {
        let mut wire = pending(&node, id);
        let data = node.data();
        let data = data.to_str().unwrap();
        let listed = frith_in(folder.path(), &["--json", "approvals", "--data", data], "").1;
        let calls: Value = serde_json::from_str(&listed).unwrap();
        let id = calls[0]["id"].as_str().unwrap().to_owned();
        let (status, _, error) = frith_in(folder.path(), &["deny", &id, "--data", data], "");
        assert_eq!(status, 0, "{error}");
        assert_eq!(wire.hear().unwrap()["code"], "tool_denied");
    }
}

#[test]
fn mistaken_hooks_are_named() {
    let folder = tempfile::tempdir().unwrap();
    for (hook, hint) in [
        ("{type: pager}", "must be one of"),
        ("{type: command, command: []}", "needs a program"),
        (
            "{type: webhook, url: 'http://files.example/x'}",
            "readable on the network",
        ),
        (
            "{type: webhook, url: 'https://me:pass@x.example/'}",
            "without a user name",
        ),
        ("{type: desktop, url: x}", "url"),
    ] {
        std::fs::write(
            folder.path().join("frith.yaml"),
            format!("notify: [{hook}]\n"),
        )
        .unwrap();
        let (status, out, _) = frith_in(folder.path(), &["config", "check"], "");
        assert_eq!(status, 1, "{hook}");
        assert!(out.contains(hint), "{hook}: {out}");
    }
    for (count, status) in [(17, 1), (16, 0)] {
        let hooks = vec!["{type: desktop}"; count].join(", ");
        let text = format!("notify: [{hooks}]\n");
        std::fs::write(folder.path().join("frith.yaml"), text).unwrap();
        assert_eq!(frith_in(folder.path(), &["config", "check"], "").0, status);
    }
}
