//! What one agent can have under way, in all its sessions.

#[cfg(feature = "wasm")]
use std::fs;

use serde_json::{Value, json};

use super::{agent, call, spawn};
use crate::node::{Node, Wire};

fn is_refused(answer: &Value, key: &str) {
    assert_eq!(answer["code"], "runtime_error", "{answer}");
    assert_eq!(answer["retryable"], true, "{answer}");
    assert_eq!(answer["detail"]["reason"], "agent_limit", "{answer}");
    assert!(answer.to_string().contains(key), "{answer}");
}

/// Processes and commands count together: they all run in the sandbox.
#[test]
fn one_agent_has_so_many_commands() {
    let folder = tempfile::tempdir().unwrap();
    let config = format!(
        "{}global_limits: {{max_commands_per_agent: 2}}\n",
        super::ALL
    );
    let node = Node::start(folder.path(), &config);
    let (mut one, mut other) = (agent(&node), agent(&node));
    let idle = ["sleep", "3600"];
    let first = spawn(&mut one, "1", &idle, &json!({}));
    assert_eq!(first["ok"], true, "{first}");
    let second = spawn(&mut other, "2", &idle, &json!({}));
    assert_eq!(second["ok"], true, "{second}");
    let third = spawn(&mut other, "3", &idle, &json!({}));
    assert_eq!(
        (&third["ok"], &third["error"]),
        (&json!(false), &json!("proc_limit"))
    );
    let command = json!({"command": "echo hi"});
    let refused = call(&mut other, "4", "run_command", &command);
    is_refused(&refused, "global_limits.max_commands_per_agent");
    let kill = json!({"type": "proc/kill/req", "id": "k", "proc_id": first["proc_id"], "signal": "SIGKILL"});
    one.say(&kill);
    until_ended(&mut one);
    let done = call(&mut other, "5", "run_command", &command);
    assert_eq!(done["data"]["data"]["stdout"], "hi\n", "{done}");
}

/// Until a process has said with which code it ended.
fn until_ended(wire: &mut Wire) {
    while wire.hear().unwrap()["data"]["code"].is_null() {}
}

#[test]
#[cfg(feature = "wasm")]
fn one_agent_has_so_many_calls_of_components() {
    let folder = tempfile::tempdir().unwrap();
    let echo = testkit::workspace().join("examples/tools/echo.wat");
    let echo = fs::read_to_string(echo).unwrap();
    fs::write(folder.path().join("echo.wat"), &echo).unwrap();
    // It says that it runs, and then runs for good.
    let endless = "(call $status (i32.const 0x200) (i32.const 7)) (loop $on (br $on))";
    let endless = echo.replace(";; begin", endless);
    fs::write(folder.path().join("endless.wat"), endless).unwrap();
    let config = "plugins:
  - name: tools
    type: tools
    components: [{name: echo, path: echo.wat}, {name: endless, path: endless.wat}]
global_limits: {max_components_per_agent: 1}
";
    let node = Node::start(folder.path(), config);
    let (mut one, mut other) = (agent(&node), agent(&node));
    let works = call(&mut other, "1", "echo", &json!({"text": "hi"}));
    assert_eq!(works["data"]["data"]["text"], "hi", "{works}");
    one.say(&json!({"type": "tool/call/req", "id": "2", "tool_name": "endless", "arguments": {}, "streaming": true}));
    let runs = one.hear().unwrap();
    assert_eq!(runs["type"], "tool/event", "{runs}");
    let refused = call(&mut other, "3", "echo", &json!({}));
    is_refused(&refused, "global_limits.max_components_per_agent");
}
