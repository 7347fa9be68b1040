//! Pending calls at a terminal: in place where the node runs, and as an inbox.

use std::path::Path;

use serde_json::{Value, json};

use crate::frith;
use crate::node::{Node, Wire};
use crate::terminal::AtTerminal;

const RULES: &str = "plugins: [{name: demo, type: demo}, {name: tools, type: tools}]
policy: {rules: [{id: ask, name: [echo, run_command], action: require_approval}]}
";

/// Begins a call and waits until it is pending; gives its id.
fn pending(wire: &mut Wire, token: &str, call: (&str, &str, &Value)) -> String {
    let (id, tool, arguments) = call;
    let hello =
        json!({"type": "handshake/req", "id": "h", "agent_caps": ["tools"], "auth_token": token});
    assert_eq!(wire.ask(&hello)["ok"], true);
    let call = json!({"type": "tool/call/req", "id": id, "tool_name": tool, "arguments": arguments,
        "streaming": true});
    let status = wire.ask(&call);
    assert_eq!(status["data"]["status"], "approval_pending", "{status}");
    status["data"]["approval_id"].as_str().unwrap().to_owned()
}

/// A node at a terminal, and its data directory.
fn node_at_terminal(folder: &Path) -> AtTerminal {
    std::fs::write(folder.join("frith.yaml"), RULES).unwrap();
    let data = folder.join("data");
    let up = [
        "up",
        "--listen",
        "127.0.0.1:0",
        "--a2a-listen",
        "127.0.0.1:0",
        "--data",
    ];
    let mut terminal =
        AtTerminal::start(folder, 100, &[&up[..], &[data.to_str().unwrap()]].concat());
    terminal.until("Ctrl-C stops it.");
    terminal
}

fn wire_of(folder: &Path) -> (Wire, String) {
    let read = |name: &str| std::fs::read_to_string(folder.join("data").join(name)).unwrap();
    let endpoints: Value = serde_json::from_str(&read("endpoints.json")).unwrap();
    let unix = endpoints["unix"]
        .as_str()
        .unwrap()
        .strip_prefix("unix:")
        .unwrap();
    (
        Wire::connect(Path::new(unix)),
        read("token").trim().to_owned(),
    )
}

#[test]
fn node_shows_a_pending_call_and_takes_a_key() {
    let folder = tempfile::tempdir().unwrap();
    let mut terminal = node_at_terminal(folder.path());
    let (mut wire, token) = wire_of(folder.path());
    // What is typed before a call is shown decides nothing.
    terminal.press("aaaa\naa");
    let arguments = json!({"text": "\u{1b}[2Jhi"});
    let id = pending(&mut wire, &token, ("1", "echo", &arguments));
    let shown = terminal.until("[a] approve");
    assert!(
        shown.contains(&format!("a call waits for approval: {id}")),
        "{shown}"
    );
    assert!(shown.contains("agent default, rule ask"), "{shown}");
    assert!(
        shown.contains(r"\u001b[2Jhi") && !shown.contains("\u{1b}[2J"),
        "{shown}"
    );
    terminal.press("xd");
    terminal.until("the reason");
    terminal.press("not  \u{7f}today\r");
    terminal.until(&format!("denied {id}"));
    let refused = wire.hear().unwrap();
    assert_eq!(
        refused["detail"]["operator_reason"], "not today",
        "{refused}"
    );
    assert!(terminal.is_plain());
    // The next one, in the folder and with the network that it has.
    let (mut wire, token) = wire_of(folder.path());
    let id = pending(
        &mut wire,
        &token,
        (
            "2",
            "run_command",
            &json!({"command": "echo one\necho two"}),
        ),
    );
    let shown = terminal.until("[a] approve");
    assert!(
        shown.contains("  $ echo one\r\n  $ echo two\r\n  directory "),
        "{shown}"
    );
    assert!(
        shown.contains("data/workspace\r\n  network none\r\n"),
        "{shown}"
    );
    terminal.press("a");
    terminal.until(&format!("approved {id}"));
    let answer = answer(&mut wire);
    assert_eq!(answer["data"]["success"], true, "{answer}");
}

/// The answer, passing over events.
fn answer(wire: &mut Wire) -> Value {
    loop {
        let heard = wire.hear().unwrap();
        if !heard["type"].as_str().unwrap().ends_with("/event") {
            return heard;
        }
    }
}

/// A call that is decided about elsewhere takes no key any more.
#[test]
fn call_decided_elsewhere_is_not_asked_about_any_more() {
    let folder = tempfile::tempdir().unwrap();
    let mut terminal = node_at_terminal(folder.path());
    let (mut wire, token) = wire_of(folder.path());
    let id = pending(&mut wire, &token, ("1", "echo", &json!({})));
    terminal.until("[a] approve");
    let data = folder.path().join("data");
    let approve = ["approve", &id, "--data", data.to_str().unwrap()];
    let (status, _, error) = frith(&approve, "");
    assert_eq!(status, 0, "{error}");
    terminal.until(&format!("{id} is not pending any more"));
    assert!(terminal.is_plain());
    // A key that was meant for it does not decide about the next.
    let (mut wire, token) = wire_of(folder.path());
    let id = pending(&mut wire, &token, ("2", "echo", &json!({})));
    terminal.until("press Enter");
    terminal.press("a");
    terminal.until("press Enter");
    terminal.press("\r");
    terminal.until("[a] approve");
    terminal.press("a");
    terminal.until(&format!("approved {id}"));
}

#[test]
fn inbox_decides_with_keys() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), RULES);
    let data = node.data();
    let data = data.to_str().unwrap();
    let (mut first, mut second) = (node.wire(), node.wire());
    let one = pending(
        &mut first,
        &node.token,
        ("first", "echo", &json!({"text": "one"})),
    );
    let many: Vec<usize> = (0..60).collect();
    let two = pending(
        &mut second,
        &node.token,
        ("second", "echo", &json!({"list": many})),
    );
    let mut inbox = AtTerminal::start(
        folder.path(),
        100,
        &["approvals", "--watch", "--data", data],
    );
    let shown = inbox.until("[q] quit");
    assert!(shown.contains("2 calls wait"), "{shown}");
    assert!(shown.contains(&format!("> {one}")), "{shown}");
    inbox.press("j");
    inbox.until(&format!("> {two}"));
    // More than fits: it is approved when all of it was shown.
    inbox.until("[space] more");
    inbox.press("a");
    inbox.until("not all of it was shown yet");
    for part in ["  20,", "  40,"] {
        inbox.press(" ");
        inbox.until(part);
        inbox.until("[q] quit");
    }
    while !inbox.until("[q] quit").contains("[a] approve") {
        inbox.press(" ");
    }
    inbox.press("a");
    inbox.until(&format!("approved {two}"));
    assert_eq!(second.hear().unwrap()["data"]["success"], true);
    inbox.until("[j k] select");
    inbox.press("j");
    inbox.until("[a] approve");
    inbox.press("d");
    inbox.until("the reason");
    inbox.press("no, thanks\r");
    inbox.until(&format!("denied {one}"));
    assert_eq!(
        first.hear().unwrap()["detail"]["operator_reason"],
        "no, thanks"
    );
    inbox.press("q");
    assert!(inbox.ends_plain());
}

/// Without a terminal there is a line for each call.
#[test]
fn inbox_without_a_terminal_prints_lines() {
    use std::io::{BufRead as _, BufReader};
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), RULES);
    let mut watch = std::process::Command::new(env!("CARGO_BIN_EXE_frith"))
        .args(["approvals", "--watch", "--json", "--data"])
        .arg(node.data())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut wire = node.wire();
    let id = pending(
        &mut wire,
        &node.token,
        ("wire", "echo", &json!({"text": "one"})),
    );
    let mut line = String::new();
    let mut out = BufReader::new(watch.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    let call: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(call["id"], json!(id));
    watch.kill().unwrap();
    watch.wait().unwrap();
}
