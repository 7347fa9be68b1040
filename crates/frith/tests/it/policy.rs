//! `frith policy`: rules are tried without doing anything, and decisions of the past are explained.

use std::path::Path;

use serde_json::{Value, json};

use crate::frith_in;
use crate::node::{Node, Wire};

const RULES: &str = "plugins: [{name: demo, type: demo}, {name: chains, type: chains}]
policy:
  defaults: {memory: deny}
  rules:
    - {id: no-keys, name: read_file, when: \"contains(path, '.ssh')\", action: deny, reason: keys stay here}
    - {id: writes, name: 'write_*', action: require_approval}
    - {id: ask, name: clock, action: require_approval}
    - {id: no-time, name: current_time, action: deny}
agents:
  - {name: ada, policy: {rules: [{id: ada-writes, name: write_file, action: allow}]}}
";

fn rules(folder: &Path) {
    std::fs::write(folder.join("frith.yaml"), RULES).unwrap();
}

/// `frith policy test --call`, and what it prints.
fn try_call(folder: &Path, words: &[&str]) -> (i32, String, String) {
    frith_in(folder, &[&["policy", "test", "--call"], words].concat(), "")
}

fn json_of(folder: &Path, words: &[&str]) -> Value {
    let (status, out, error) = frith_in(folder, &[&["--json", "policy"], words].concat(), "");
    assert_eq!(status, 0, "{error}");
    serde_json::from_str(&out).unwrap()
}

#[test]
fn given_call_is_decided_without_a_node() {
    let folder = tempfile::tempdir().unwrap();
    rules(folder.path());
    let decided = |words: &[&str]| {
        let (status, out, error) = try_call(folder.path(), words);
        assert_eq!(status, 0, "{error}");
        out
    };
    let keys = decided(&["read_file", "--arguments", r#"{"path": "a/.ssh/id"}"#]);
    assert_eq!(
        keys, "deny by `no-keys` (frith.yaml)\n  keys stay here\n",
        "{keys}"
    );
    let other = decided(&["read_file", "--arguments", r#"{"path": "a"}"#]);
    assert!(other.starts_with("allow by `built-in`"), "{other}");
    // A condition that cannot be evaluated denies.
    let unreadable = decided(&["read_file", "--arguments", r#"{"path": 1}"#]);
    assert!(unreadable.contains("cannot be evaluated"), "{unreadable}");
    let write = decided(&["write_file"]);
    assert!(write.starts_with("require_approval by `writes`"), "{write}");
    let ada = decided(&["write_file", "--agent", "ada"]);
    assert!(ada.starts_with("allow by `ada-writes`"), "{ada}");
    let message = r#"{"type": "memory/store/req", "key": "a", "content": "b"}"#;
    let message = decided(&[message]);
    assert!(
        message.starts_with("deny by `policy.defaults.memory`"),
        "{message}"
    );
    // A default does not stand against a list, and a chain is refused for what is in it.
    let list = decided(&[r#"{"type": "mcp/server/list/req"}"#]);
    assert!(list.starts_with("allow"), "{list}");
    let chain = json!({"type": "chain/req", "chain_id": "c", "entry_node": "a", "nodes": [
        {"node_id": "a", "kind": "tool", "name": "current_time"}]});
    let chain = decided(&[&chain.to_string()]);
    assert!(chain.starts_with("deny by `no-time`"), "{chain}");
    let value = json_of(folder.path(), &["test", "--call", "write_file"]);
    let expected = json!({"agent": "default", "decisions": [
        {"decision": "require_approval", "rule": "writes", "reason": "the rule matches"}]});
    assert_eq!(value, expected);
}

#[test]
fn what_is_no_call_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    rules(folder.path());
    for (words, status, hint) in [
        (&["{"][..], 2, "--call is no JSON"),
        (
            &["echo", "--arguments", "[]"],
            2,
            "--arguments must be a JSON object",
        ),
        (&["{}"], 1, "no A2E message"),
        (
            &[r#"{"type": "planning/plan/board"}"#],
            1,
            "name a `plan_id`",
        ),
    ] {
        let (found, _, error) = try_call(folder.path(), words);
        assert_eq!(found, status, "{words:?}: {error}");
        assert!(error.contains(hint), "{words:?}: {error}");
    }
    let (status, _, error) = frith_in(folder.path(), &["policy", "test", "--data", "none"], "");
    assert_eq!(status, 1);
    assert!(error.contains("cannot read the audit log"), "{error}");
}

fn agent(node: &Node) -> Wire {
    let mut wire = node.wire();
    let hello = json!({"type": "handshake/req", "id": "h", "agent_caps": ["tools"],
        "auth_token": node.token});
    assert_eq!(wire.ask(&hello)["ok"], true);
    wire
}

fn call(id: &str, tool: &str) -> Value {
    json!({"type": "tool/call/req", "id": id, "tool_name": tool, "streaming": true})
}

/// A node whose log has an allowed call, two that were denied, and one that the operator refused.
fn with_calls(folder: &Path) -> (Node, String) {
    let node = Node::start(folder, RULES);
    let mut wire = agent(&node);
    assert_eq!(wire.ask(&call("echo-1", "echo"))["data"]["success"], true);
    for id in ["time-1", "time-2"] {
        assert_eq!(wire.ask(&call(id, "current_time"))["code"], "tool_denied");
    }
    let held = wire.ask(&call("clock-1", "clock"));
    let approval = held["data"]["approval_id"].as_str().unwrap().to_owned();
    let data = node.data();
    let deny = ["deny", &approval, "--reason", "not\u{1b}[2J now", "--data"];
    let (status, _, error) = frith_in(folder, &[&deny[..], &[data.to_str().unwrap()]].concat(), "");
    assert_eq!(status, 0, "{error}");
    assert_eq!(wire.hear().unwrap()["code"], "tool_denied");
    (node, approval)
}

/// Rules that allow what was denied, and of which one asks for an argument of what was allowed.
fn looser() -> String {
    RULES
        .replace(
            "{id: no-time, name: current_time, action: deny}",
            "{id: time, name: current_time, action: allow}",
        )
        .replace("defaults: {memory: deny}", "default: allow")
        .replace("name: read_file", "name: [read_file, echo]")
}

#[test]
fn recorded_calls_are_tried_with_the_rules_of_now() {
    let folder = tempfile::tempdir().unwrap();
    let (node, _) = with_calls(folder.path());
    let data = node.data();
    let data = data.to_str().unwrap();
    let all = json_of(
        folder.path(),
        &["test", "--data", data, "--all", "--capability", "tools"],
    );
    let summary = json!({"changed": 0, "same": 4, "depends_on_arguments": 0,
        "stopped_as_repetition": 0, "not_listed": 0});
    assert_eq!(all["summary"], summary, "{all}");
    assert_eq!(all["items"][0]["calls"], 2, "{all}");
    assert_eq!(all["items"][0]["before"][0]["rule"], "no-time", "{all}");
    std::fs::write(folder.path().join("new.yaml"), looser()).unwrap();
    let (status, out, error) = frith_in(
        folder.path(),
        &["policy", "test", "--data", data, "--config", "new.yaml"],
        "",
    );
    assert_eq!(status, 0, "{error}");
    let changed = "changed: tools current_time, 2 calls of default\n  before  deny by `no-time`\n  \
                   after   allow by `time`\n";
    assert!(out.starts_with(changed), "{out}");
    let open = "depends on arguments: tools echo, 1 call of default\n  before  allow by `built-in`\n  \
                after   deny by `no-keys` if contains(path, '.ssh'), else allow by `policy.default`\n";
    assert!(out.contains(open), "{out}");
    let end = "2 calls decided otherwise, 1 call depending on arguments, 1 call as before\n";
    assert!(out.ends_with(end), "{out}");
    let only = [
        "test", "--data", data, "--config", "new.yaml", "--name", "e*", "--agent", "default",
    ];
    assert_eq!(
        json_of(folder.path(), &only)["items"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    let other = ["test", "--data", data, "--agent", "ada", "--all"];
    assert_eq!(json_of(folder.path(), &other)["items"], json!([]));
    // Two sets of rules: what depends on arguments in both is the same if the rules are.
    let against = [
        "test",
        "--data",
        data,
        "--against",
        "new.yaml",
        "--capability",
        "tools",
    ];
    let value = json_of(folder.path(), &against);
    assert_eq!(value["summary"]["changed"], 2, "{value}");
    assert_eq!(value["allows_more"], true, "{value}");
    let itself = [
        "test",
        "--data",
        data,
        "--config",
        "new.yaml",
        "--against",
        "new.yaml",
    ];
    let value = json_of(folder.path(), &itself);
    assert_eq!(
        (&value["items"], &value["allows_more"]),
        (&json!([]), &json!(false)),
        "{value}"
    );
    let (_, out, _) = frith_in(folder.path(), &[&["policy"], &against[..]].concat(), "");
    assert!(
        out.contains("only `frith config apply` has a node take it"),
        "{out}"
    );
    let given = ["test", "--call", "current_time", "--against", "new.yaml"];
    assert_eq!(json_of(folder.path(), &given)["change"], "changed");
}

#[test]
fn decision_of_the_past_is_explained() {
    let folder = tempfile::tempdir().unwrap();
    let (node, approval) = with_calls(folder.path());
    let data = node.data();
    let data = data.to_str().unwrap();
    let explain = |id: &str| {
        let words = ["policy", "explain", id, "--data", data];
        frith_in(folder.path(), &words, "")
    };
    let (status, out, error) = explain("clock-1");
    assert_eq!(status, 0, "{error}");
    assert!(
        out.contains("tool/call/req clock of default\n  decision  require_approval by `ask`\n"),
        "{out}"
    );
    assert!(
        out.contains(&format!("approval  {approval} denied at ")),
        "{out}"
    );
    assert!(out.contains(r": not\u{1b}[2J now"), "{out}");
    assert!(
        out.contains(r#"unchanged in frith.yaml: {"id":"ask","name":["clock"]"#),
        "{out}"
    );
    assert_eq!(explain(&approval).1, out);
    let value = json_of(folder.path(), &["explain", "time-1", "--data", data]);
    let item = &value["items"][0];
    assert_eq!(
        (&item["decision"], &item["rule"]),
        (&json!("deny"), &json!("no-time"))
    );
    let by_number = item["seq"].to_string();
    let value = json_of(folder.path(), &["explain", &by_number, "--data", data]);
    assert_eq!(value["items"][0]["request_id"], "time-1");
    let (_, out, _) = explain("echo-1");
    assert!(
        out.contains("unchanged in frith.yaml: built-in: allow"),
        "{out}"
    );
    // Rules that have changed since are not shown as if they had decided.
    let new = RULES.replace(
        "{id: ask, name: clock, action: require_approval}",
        "{id: ask, name: clock, action: deny}",
    );
    let new = new.replace(
        "    - {id: no-time, name: current_time, action: deny}\n",
        "",
    );
    std::fs::write(folder.path().join("frith.yaml"), new).unwrap();
    assert!(explain("clock-1").1.contains("has changed since"));
    assert!(
        explain("time-1")
            .1
            .contains("is not in frith.yaml any more")
    );
    let (status, _, error) = explain("none");
    assert_eq!(status, 1);
    assert!(error.contains("no call `none`"), "{error}");
}
