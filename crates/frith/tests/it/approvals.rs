//! Held calls and the operator's word, and the rules that only an operator may loosen.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::frith;
use crate::node::{Node, Wire};

const HOLD: &str = "policy: {rules: [{id: ask, name: echo, action: require_approval}]}\n";

fn agent(node: &Node) -> Wire {
    let mut wire = node.wire();
    let hello = json!({"type": "handshake/req", "id": "h", "agent_caps": ["tools"], "auth_token": node.token});
    assert_eq!(wire.ask(&hello)["ok"], true);
    wire
}

fn echo(id: &str, streaming: bool) -> Value {
    json!({"type": "tool/call/req", "id": id, "tool_name": "echo", "arguments": {"text": "hi"}, "streaming": streaming})
}

fn operator(node: &Node, words: &[&str]) -> (i32, String, String) {
    let data = node.data();
    frith(&[words, &["--data", data.to_str().unwrap()]].concat(), "")
}

/// The calls that wait.
fn waiting(node: &Node) -> Vec<Value> {
    let (status, out, error) = operator(node, &["--json", "approvals"]);
    assert_eq!(status, 0, "{error}");
    serde_json::from_str(&out).unwrap()
}

/// Begins a call and waits until it is held; gives its id.
fn held(wire: &mut Wire) -> String {
    let status = wire.ask(&echo("1", true));
    assert_eq!(status["data"]["status"], "approval_pending", "{status}");
    status["data"]["approval_id"].as_str().unwrap().to_owned()
}

#[test]
fn a_held_call_waits_for_yes_or_no() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), HOLD);
    let mut wire = agent(&node);
    let id = held(&mut wire);
    let (_, out, _) = operator(&node, &["approvals"]);
    assert!(
        out.starts_with(&id) && out.contains("echo {\"text\":\"hi\"}"),
        "{out}"
    );
    let (_, out, _) = operator(&node, &["approvals", "show", &id]);
    assert!(
        out.contains("rule ask") && out.contains("\"text\": \"hi\""),
        "{out}"
    );
    let (status, out, _) = operator(&node, &["approve", &id]);
    assert_eq!((status, out), (0, format!("approved {id} of default\n")));
    assert_eq!(wire.hear().unwrap()["data"]["success"], true);
    let (_, out, _) = operator(&node, &["audit", "tail"]);
    assert!(out.contains(&format!(" approval={id} ")), "{out}");
    let (status, _, error) = operator(&node, &["approve", &id]);
    assert_eq!(status, 1);
    assert!(error.contains("no call `"), "{error}");
    assert!(waiting(&node).is_empty());

    wire.say(&echo("2", true));
    let id = wire.hear().unwrap()["data"]["approval_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let deny = ["deny", &id, "--reason", "not on a Friday"];
    let (status, out, _) = operator(&node, &deny);
    assert_eq!((status, out), (0, format!("denied {id} of default\n")));
    let answer = wire.hear().unwrap();
    assert_eq!(
        answer["detail"],
        json!({"rule": "ask", "reason": "approval_denied", "approval_id": id,
            "operator_reason": "not on a Friday"})
    );
}

/// A refusal names the rule by its id and says who can change it, not where it is configured.
#[test]
fn pending_edit_is_shown_as_a_difference() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(
        folder.path(),
        "plugins: [{name: tools, type: tools}]
policy: {rules: [{id: ask, name: edit_file, action: require_approval}]}
",
    );
    let mut wire = agent(&node);
    let arguments = json!({"path": "plan.txt", "old_text": "ship\non Friday", "new_text": "ship\non\u{9b}Monday"});
    let call = json!({"type": "tool/call/req", "id": "1", "tool_name": "edit_file", "arguments": arguments, "streaming": true});
    let status = wire.ask(&call);
    let id = status["data"]["approval_id"].as_str().unwrap();
    let (_, out, _) = operator(&node, &["approvals", "show", id]);
    let shown = "\n  file plan.txt\n    ship\n  - on Friday\n  + on\\u{9b}Monday\n";
    assert!(out.contains(shown), "{out}");
}

#[test]
fn refusal_names_no_place_in_the_configuration() {
    let rules = json!({"default": "deny", "rules": [
        {"id": "no-clock", "name": "current_time", "action": "deny"}, {"name": "fail", "action": "deny"}]});
    let config = json!({"agents": [{"name": "default", "policy": rules}],
        "plugins": [{"name": "demo", "type": "demo"}]});
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), &config.to_string());
    let mut wire = agent(&node);
    for (tool, rule) in [
        ("current_time", "no-clock"),
        ("fail", "unnamed"),
        ("echo", "default"),
    ] {
        let refused = wire.ask(&json!({"type": "tool/call/req", "id": tool, "tool_name": tool}));
        assert_eq!(refused["detail"], json!({ "rule": rule }), "{refused}");
        let text = refused["message"].as_str().unwrap();
        assert!(text.contains("only the operator of this node"), "{text}");
        assert!(
            !text.contains("agents[") && !text.contains("policy"),
            "{text}"
        );
    }
    // The operator, whose command line this is, reads how.
    let (status, _, error) = operator(&node, &["call", "echo", "{}"]);
    assert_eq!(status, 1);
    assert!(error.contains("runs `frith config apply`"), "{error}");
}

/// A held call that nobody decides about says so.
#[test]
fn held_call_expires() {
    let folder = tempfile::tempdir().unwrap();
    let limits = "global_limits: {approval_seconds: 1}\n";
    let node = Node::start(folder.path(), &format!("{HOLD}{limits}"));
    let mut wire = agent(&node);
    let expired = wire.ask(&echo("1", false));
    assert_eq!(expired["code"], "tool_denied", "{expired}");
    assert_eq!(expired["detail"]["reason"], "approval_expired", "{expired}");
    assert!(waiting(&node).is_empty());
}

fn fits(out: &str) {
    for line in out.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

/// Whatever agents are called and send, and however many bytes their letters have.
#[test]
fn lists_of_held_calls_fit_into_a_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), HOLD);
    let name = "a-name-of-an-agent-that-is-longer-than-the-column-that-it-has-in-a-list-of-calls";
    let (_, made, _) = operator(&node, &["--json", "token", "new", name]);
    let made: Value = serde_json::from_str(&made).unwrap();
    let mut wire = node.wire();
    let hello = json!({"type": "handshake/req", "id": "h", "agent_caps": ["tools"],
        "auth_token": made["token"]});
    assert_eq!(wire.ask(&hello)["ok"], true);
    let mut long = echo("1", true);
    long["arguments"]["text"] = json!("\u{e4}".repeat(200));
    let status = wire.ask(&long);
    let id = status["data"]["approval_id"].as_str().unwrap();
    let (_, out, _) = operator(&node, &["approvals"]);
    assert!(
        out.contains("echo {\"text\":\"\u{e4}") && out.ends_with("\u{2026}\n"),
        "{out}"
    );
    fits(&out);
    let (_, out, _) = operator(&node, &["deny", id]);
    assert!(out.starts_with(&format!("denied {id} of a-name")), "{out}");
    assert_eq!(out.lines().count(), 1);
    fits(&out);
}

/// Whoever runs a chain is told that it waits for the operator, be it all of it or a call in it.
#[test]
fn a_chain_that_waits_says_so() {
    let rules = "policy: {rules: [{capability: chains, name: chain/req, action: require_approval}, \
                 {capability: tools, name: echo, action: require_approval}]}\n";
    let plugins = "plugins: [{name: demo, type: demo}, {name: chains, type: chains}]\n";
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), &format!("{plugins}{rules}"));
    let file = folder.path().join("chain.json");
    for (name, more) in [("watched", ["--watch"].as_slice()), ("quiet", &[])] {
        let chain = json!({"chain_id": name, "entry_node": "a", "nodes": [
            {"node_id": "a", "kind": "tool", "name": "echo", "input": {"text": name}}]});
        std::fs::write(&file, chain.to_string()).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_frith"))
            .env("FRITH_DATA", node.data())
            .args(["chain", "run"])
            .arg(&file)
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stderr.take().unwrap());
        let mut said = said.lines().map(Result::unwrap);
        // As a whole, and then for its call.
        for _ in 0..2 {
            let mut heard = Vec::new();
            let line = said.find(|line| {
                heard.push(line.clone());
                line.contains("waits for the operator")
            });
            let line = line.unwrap_or_else(|| panic!("{name}: {heard:?}"));
            let id = line.rsplit(' ').next().unwrap();
            assert!(
                line.contains(&format!("frith approvals show {id}")),
                "{line}"
            );
            assert_eq!(operator(&node, &["approve", id]).0, 0, "{line}");
        }
        let rest: Vec<String> = said.collect();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{rest:?}");
    }
}

/// The question outlives the node, and so does the word: the agent that comes back with the same call
/// is let through once.
#[test]
fn a_held_call_survives_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), HOLD);
    let id = held(&mut agent(&node));
    let node = Node::start(&node.crash(), HOLD);
    assert_eq!(waiting(&node)[0]["id"], json!(id));
    let (status, out, _) = operator(&node, &["approve", &id]);
    assert_eq!(status, 0);
    assert!(out.contains("no request waits for it now"), "{out}");
    fits(&out);
    let mut wire = agent(&node);
    assert_eq!(wire.ask(&echo("again", true))["data"]["success"], true);
    let status = wire.ask(&echo("and again", true));
    assert_ne!(status["data"]["approval_id"], json!(id), "{status}");
}

/// A call that was approved and cut off is not released again: the word was used when it began.
#[test]
fn an_approved_call_that_was_cut_off_is_asked_about_anew() {
    let config = "plugins: [{name: tools, type: tools}]
global_limits: {drain_seconds: 0}
policy: {rules: [{id: ask, name: run_command, action: require_approval}]}
";
    let run = |id: &str| {
        let command = "echo paid >> log; sleep 1000";
        json!({"type": "tool/call/req", "id": id, "tool_name": "run_command", "streaming": true,
            "arguments": {"command": command}})
    };
    let hold = |wire: &mut Wire, id: &str| {
        let status = wire.ask(&run(id));
        assert_eq!(status["data"]["status"], "approval_pending", "{status}");
        status["data"]["approval_id"].as_str().unwrap().to_owned()
    };
    for signal in ["-TERM", "-KILL"] {
        let folder = tempfile::tempdir().unwrap();
        let mut node = Node::start(folder.path(), config);
        let log = || std::fs::read_to_string(folder.path().join("data/workspace/log"));
        let mut wire = agent(&node);
        let first = hold(&mut wire, "1");
        assert_eq!(operator(&node, &["approve", &first]).0, 0);
        while log().is_ok_and(|text| text.is_empty()) || log().is_err() {
            std::thread::yield_now();
        }
        node.signal(signal);
        node.wait();
        let node = Node::start(folder.path(), config);
        // The word is not there any more, nor is the question.
        assert_eq!(waiting(&node), Vec::<Value>::new());
        let (status, _, error) = operator(&node, &["approve", &first]);
        assert_eq!((status, error.contains("no call `")), (1, true), "{error}");
        let second = hold(&mut agent(&node), "2");
        assert_ne!(second, first);
        assert_eq!(log().unwrap(), "paid\n", "{signal}");
    }
}

/// No door that an agent has leads to the operator.
#[test]
fn an_agent_cannot_approve_of_itself() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), HOLD);
    let mut wire = agent(&node);
    let id = held(&mut wire);
    let decide = json!({"op": "approvals.decide", "id": id, "grant": true});
    // Its own socket, as it is and dressed up as a message.
    for (attempt, code) in [
        (decide.clone(), "schema_violation"),
        (
            json!({"type": "approvals.decide", "id": "x", "op": "approvals.decide", "grant": true}),
            "invalid_message",
        ),
        (
            json!({"type": "approve/decide/req", "id": "y", "approval_id": id, "grant": true}),
            "invalid_message",
        ),
    ] {
        assert_eq!(wire.ask(&attempt)["code"], code, "{attempt}");
    }
    // HTTP, with its token.
    for path in ["approve", "operator", "approve/decide"] {
        let url = format!("{}/{path}", node.at("http"));
        let bearer = format!("Authorization: Bearer {}", node.token);
        let curl = Command::new("curl")
            .args([
                "-s",
                "-o",
                "/dev/null",
                "-w",
                "%{http_code}",
                "-H",
                &bearer,
                "-d",
            ])
            .args([&decide.to_string(), &url])
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&curl.stdout), "404", "{path}");
    }
    // The operator's socket, as another user. Who may become one can try.
    let socket = node.data().join("operator.sock");
    let connect = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])";
    let mut python = Command::new("python3");
    python.args(["-c", connect]).arg(&socket);
    if rustix::process::geteuid().is_root() {
        let output = python.uid(65534).gid(65534).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(error.contains("PermissionError"), "{error}");
    }
    assert_eq!(waiting(&node).len(), 1, "it still waits");
}

/// Whoever can write the file and send a signal can tighten the rules, not loosen them.
#[test]
fn only_the_operator_loosens_the_rules() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(
        folder.path(),
        "policy: {rules: [{id: never, name: echo, action: deny}]}\n",
    );
    let mut wire = agent(&node);
    assert_eq!(wire.ask(&echo("1", false))["detail"]["rule"], "never");
    std::fs::write(folder.path().join("frith.yaml"), "{}").unwrap();
    let (status, _, error) = operator(&node, &["config", "apply"]);
    assert_eq!(status, 0, "{error}");
    assert_eq!(wire.ask(&echo("2", false))["data"]["success"], true);

    let tight = "policy: {defaults: {tools: deny}}\n";
    std::fs::write(folder.path().join("frith.yaml"), tight).unwrap();
    node.signal("-HUP");
    // The signal is handled some time after it was sent.
    let mut number = 3;
    while wire.ask(&echo(&number.to_string(), false))["detail"]["rule"] != "default" {
        number += 1;
    }
    std::fs::write(
        folder.path().join("frith.yaml"),
        "telemetry: {log: error}\n",
    )
    .unwrap();
    node.signal("-HUP");
    // What comes after another reload, the operator's, comes after this one too.
    std::fs::write(folder.path().join("frith.yaml"), tight).unwrap();
    assert_eq!(operator(&node, &["config", "apply"]).0, 0);
    assert_eq!(wire.ask(&echo("last", false))["code"], "tool_denied");

    std::fs::write(folder.path().join("frith.yaml"), "policy: {rule: []}\n").unwrap();
    let (status, _, error) = operator(&node, &["config", "apply"]);
    assert_eq!(status, 1);
    assert!(error.contains("did you mean `rules`?"), "{error}");
}

/// What the operator does to a node that runs, the node does: the rules and the record are its own.
#[test]
fn a_running_node_purges_its_log_and_records_its_rules() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), "{}");
    std::fs::write(folder.path().join("frith.yaml"), HOLD).unwrap();
    assert_eq!(operator(&node, &["config", "apply"]).0, 0);
    let (status, out, error) = operator(&node, &["audit", "purge", "--before", "90d"]);
    assert_eq!((status, &*error), (0, ""));
    assert_eq!(out, "dropped no records\nerased 0 bodies and 0 addresses\n");
    let (status, _, error) = operator(&node, &["audit", "purge", "--before", "1d"]);
    assert_eq!(status, 1);
    assert!(error.contains("at least 7 days"), "{error}");
    let (_, out, _) = operator(&node, &["audit", "tail"]);
    for line in [
        r#"policy_change    "applied by the operator""#,
        "operator         config.apply approved",
        "operator         audit.purge rejected",
    ] {
        assert!(out.contains(line), "{out}");
    }
}

/// Rules that are written right and mean nothing are found at the start.
#[test]
fn rules_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    for (rules, complaint) in [
        (
            "policy: {rules: [{capability: tool, action: deny}]}",
            "policy.rules[0]",
        ),
        (
            "policy: {rules: [{when: 'a(', action: deny}]}",
            "policy.rules[0].when",
        ),
        ("policy: {rules: [{when: , action: deny}]}", "has no value"),
        ("policy: {rate_limit: 5}", "rate_period"),
        (
            "agents: [{name: a, policy: {}}, {name: a, policy: {}}]",
            "twice",
        ),
    ] {
        std::fs::write(folder.path().join("frith.yaml"), rules).unwrap();
        let up = Command::new(env!("CARGO_BIN_EXE_frith"))
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
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&up.stderr).into_owned();
        assert!(!up.status.success(), "{rules}");
        assert!(error.contains(complaint), "{rules}: {error}");
    }
}
