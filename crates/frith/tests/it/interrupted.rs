//! Calls that are interrupted: their program may have had an effect, so it is never run again under
//! their id.

use std::path::Path;

use serde_json::{Value, json};

use crate::node::{Node, Wire};

/// Requests may not take long when the node stops.
const TOOLS: &str = "plugins: [{name: tools, type: tools}]\nglobal_limits: {drain_seconds: 0}\n";

/// Adds to a file, says so, and does not end.
const PAY: &str = "echo paid >> notes; echo paid; mkfifo gate; cat gate";

fn pay(timeout: u64) -> Value {
    json!({"type": "tool/call/req", "id": "pay", "tool_name": "run_command", "streaming": true,
        "arguments": {"command": PAY}, "timeout": timeout})
}

fn hello(node: &Node, session: Option<&Value>) -> Value {
    let mut hello = json!({"type": "handshake/req", "id": "h", "agent_caps": ["tools"],
        "auth_token": node.token});
    if let Some(session) = session {
        hello["resume"] = json!({"session_id": session, "last_eid": 2});
    }
    hello
}

fn opened(node: &Node) -> (Wire, Value) {
    let mut wire = node.wire();
    let answer = wire.ask(&hello(node, None));
    assert_eq!(answer["ok"], true, "{answer}");
    (wire, answer["session_id"].clone())
}

/// Begins the call; when this returns its program runs.
fn begun(wire: &mut Wire, timeout: u64) {
    let event = wire.ask(&pay(timeout));
    assert_eq!(event["data"]["message"], "paid\n", "{event}");
}

fn until_draining(wire: &mut Wire) {
    let list = json!({"type": "tool/list/req", "id": ""});
    while wire.ask(&list)["detail"]["reason"] != "closing" {}
}

#[track_caller]
fn is_interrupted(wire: &mut Wire, timeout: u64) {
    let mut error = wire.ask(&pay(timeout));
    // While the end of the first call is not noticed its retry follows it.
    while error["type"] == "tool/event" {
        error = wire.hear().unwrap();
    }
    assert_eq!(error["req_id"], "pay", "{error}");
    assert_eq!(error["detail"]["reason"], "host_restarted", "{error}");
    assert_eq!(error["retryable"], false, "{error}");
}

#[track_caller]
fn paid_once(folder: &Path) {
    let notes = std::fs::read_to_string(folder.join("data/workspace/notes"));
    assert_eq!(notes.unwrap(), "paid\n");
}

/// Stopped past the drain, stopped at once by a second signal, and killed: neither a session that is
/// resumed nor a new one has the program run again.
#[test]
fn call_cut_off_by_the_end_of_the_node_is_not_run_again() {
    let commit = format!("{TOOLS}store: {{sync: commit}}\n");
    let patient = "plugins: [{name: tools, type: tools}]\nglobal_limits: {drain_seconds: 600}\n";
    for (config, signals) in [
        (TOOLS, &["-TERM"][..]),
        (patient, &["-TERM", "-TERM"]),
        (TOOLS, &["-KILL"]),
        (&commit, &["-KILL"]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut node = Node::start(folder.path(), config);
        let (mut wire, session) = opened(&node);
        begun(&mut wire, 1000);
        node.signal(signals[0]);
        if let Some(second) = signals.get(1) {
            // It is another signal only when the first has arrived.
            until_draining(&mut wire);
            node.signal(second);
        }
        node.wait();
        for _ in 0..2 {
            let node = Node::start(folder.path(), config);
            let mut wire = node.wire();
            let resumed = wire.ask(&hello(&node, Some(&session)));
            assert_eq!(resumed["resumed"], true, "{resumed}");
            is_interrupted(&mut opened(&node).0, 1000);
            node.crash();
        }
        paid_once(folder.path());
    }
}

/// Its time passes, and it is sent again and again, in its session and in others.
#[test]
fn call_that_timed_out_is_not_run_again() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), TOOLS);
    let (mut wire, _) = opened(&node);
    begun(&mut wire, 1);
    assert_eq!(wire.hear().unwrap()["code"], "timeout");
    for _ in 0..2 {
        is_interrupted(&mut wire, 1);
        is_interrupted(&mut opened(&node).0, 1);
    }
    paid_once(folder.path());
}

/// Its session ends, by the agent or because it does not come back, and a new one has the same id.
#[test]
fn call_of_a_session_that_has_ended_is_not_run_again() {
    let folder = tempfile::tempdir().unwrap();
    let config = "plugins: [{name: tools, type: tools}]\nglobal_limits: {resume_seconds: 0}\n";
    for is_left in [true, false] {
        let _ = std::fs::remove_dir_all(folder.path().join("data"));
        let node = Node::start(folder.path(), config);
        let (mut wire, _) = opened(&node);
        begun(&mut wire, 1000);
        if !is_left {
            wire.say(&json!({"type": "shutdown", "id": "s", "timeout": 0}));
            while wire.hear().is_some() {}
        }
        drop(wire);
        is_interrupted(&mut opened(&node).0, 1000);
        node.crash();
        is_interrupted(&mut opened(&Node::start(folder.path(), config)).0, 1000);
        paid_once(folder.path());
    }
}

/// An agent that closes its session while the node drains does not have it again after the restart.
#[test]
fn session_closed_while_the_node_drains_is_not_restored() {
    let folder = tempfile::tempdir().unwrap();
    let config = "plugins: [{name: tools, type: tools}]\nglobal_limits: {drain_seconds: 600}\n";
    let mut node = Node::start(folder.path(), config);
    let (mut wire, session) = opened(&node);
    begun(&mut wire, 1000);
    node.signal("-TERM");
    until_draining(&mut wire);
    wire.say(&json!({"type": "shutdown", "id": "s", "timeout": 0}));
    while wire.hear().is_some() {}
    assert_eq!(node.wait(), Some(0));
    let node = Node::start(folder.path(), config);
    let answer = node.wire().ask(&hello(&node, Some(&session)));
    assert_eq!(answer["reason"], "auth_failed", "{answer}");
    is_interrupted(&mut opened(&node).0, 1000);
    paid_once(folder.path());
}
