//! Clients that we did not write, over every transport: each message of a session is checked.

use std::process::Command;

use crate::node::Node;

fn agent(arguments: &[&str]) {
    let script = testkit::workspace().join("conformance/a2e.py");
    let output = Command::new(testkit::python())
        .arg(script)
        .args(arguments)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {text}");
}

#[test]
fn python_over_stdio() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("frith.yaml");
    std::fs::write(&config, "plugins: [{name: demo, type: demo}]\n").unwrap();
    let host = env!("CARGO_BIN_EXE_frith");
    agent(&["stdio", host, "stdio", "--config", config.to_str().unwrap()]);
}

#[test]
fn python_over_sockets() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), "server: {tcp: \"127.0.0.1:0\"}");
    let tcp = node.at("tcp").strip_prefix("tcp:").unwrap();
    agent(&["tcp", tcp, &node.token]);
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), "{}");
    let unix = node.at("unix").strip_prefix("unix:").unwrap();
    agent(&["unix", unix, &node.token]);
}

#[test]
fn curl_over_http() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), "{}");
    agent(&["curl", node.at("http"), &node.token]);
}

#[test]
fn python_over_a_websocket() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), "{}");
    agent(&["websocket", node.at("ws"), &node.token]);
}
