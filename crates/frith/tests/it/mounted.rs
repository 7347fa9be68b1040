//! Hosts inside hosts: what one has, the other offers.

use serde_json::json;

use crate::node::Node;

/// A host in plain Python, which knows nothing of ours: one tool, an event, a push, a question.
const FOREIGN: &str = r#"
import json, sys, time

def say(**message):
    base = {"a2e": "1.0", "version": "1.0", "id": str(time.monotonic_ns()), "ts": time.time()}
    print(json.dumps({**base, **message}), flush=True)

asked = None
for line in sys.stdin:
    m = json.loads(line)
    kind, id = m["type"], m["id"]
    if kind == "handshake/req":
        caps = [{"capability": c, "enabled": c in ("tools", "mcp"), "metadata": {}} for c in m["agent_caps"]]
        say(type="handshake/resp", req_id=id, session_id="S" * 32, accepted_caps=caps, max_parallel=4, ok=True, reason="")
    elif kind == "tool/list/req":
        say(type="tool/list/resp", req_id=id, tools=[{"name": "shout", "description": "In capitals"}])
    elif kind == "tool/call/req" and m["tool_name"] == "shout":
        say(type="tool/event", req_id=id, kind="progress", data={"pct": 50, "message": "half"}, seq=7)
        say(type="mcp/server/push", server_id="x", method="notifications/tools/list_changed", params={"n": 1})
        asked = m
        say(type="mcp/sample/req", id="question", server_id="x", messages=[], model_preferences={}, system_prompt="", max_tokens=5)
    elif kind == "mcp/sample/resp":
        text = asked["arguments"]["text"].upper() + m["model"]
        data = {"success": True, "tool_name": "shout", "data": {"text": text}, "duration_ms": 1}
        say(type="tool/call/resp", req_id=asked["id"], data=data, created_at=time.time())
    elif kind == "tool/call/req":
        say(type="error", req_id=id, code="unknown_tool", message="no such tool", retryable=False, detail={}, capability_name="tools")
    elif kind == "shutdown":
        break
"#;

#[test]
fn a_foreign_host_is_a_plugin() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("foreign host.py");
    std::fs::write(&script, FOREIGN).unwrap();
    let config = json!({"plugins": [
        {"name": "demo", "type": "demo"},
        {"name": "foreign", "type": "remote_plugin", "command": ["python3", script], "priority": 5},
    ]});
    let node = Node::start(folder.path(), &config.to_string());
    let mut wire = node.wire();
    let hello = wire.ask(&json!({
        "type": "handshake/req", "id": "h", "agent_caps": ["tools", "mcp", "memory"], "auth_token": node.token
    }));
    let plugins: Vec<_> = hello["accepted_caps"].as_array().unwrap().iter().collect();
    let names: Vec<_> = plugins.iter().map(|cap| &cap["metadata"]["name"]).collect();
    assert_eq!(
        names[..2],
        [&json!("foreign"), &json!("foreign")],
        "{hello}"
    );
    assert_eq!(plugins[2]["enabled"], false);

    let list = wire.ask(&json!({"type": "tool/list/req", "id": "l"}));
    let tools: Vec<_> = list["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| &tool["name"])
        .collect();
    assert_eq!(tools, ["shout", "echo", "clock", "fail", "stream", "wait"]);
    // A tool that the foreign host does not have is found at the next plugin.
    let echo = wire.ask(
        &json!({"type": "tool/call/req", "id": "e", "tool_name": "echo", "arguments": {"x": 1}}),
    );
    assert_eq!(echo["data"]["data"], json!({"x": 1}));

    wire.say(&json!({"type": "tool/call/req", "id": "c", "tool_name": "shout", "arguments": {"text": "hi"}, "streaming": true}));
    let mut heard = std::collections::BTreeMap::new();
    while heard.len() < 3 {
        let message = wire.hear().unwrap();
        heard.insert(message["type"].as_str().unwrap().to_owned(), message);
    }
    let event = &heard["tool/event"];
    assert_eq!(
        (&event["req_id"], &event["seq"]),
        (&json!("c"), &json!(0)),
        "{event}"
    );
    assert_eq!(heard["mcp/server/push"]["params"], json!({"n": 1}));
    let question = &heard["mcp/sample/req"];
    wire.say(&json!({
        "type": "mcp/sample/resp", "id": "a", "req_id": question["id"], "role": "assistant",
        "content": {"type": "text", "text": "ok"}, "model": "!", "stop_reason": "end",
    }));
    let answer = wire.hear().unwrap();
    assert_eq!(
        (&answer["type"], &answer["req_id"]),
        (&json!("tool/call/resp"), &json!("c")),
        "{answer}"
    );
    assert_eq!(answer["data"]["data"], json!({"text": "HI!"}));
}

/// Tags filter the tools of every source, with and without a query: the foreign host knows no filter.
#[test]
fn tags_filter_tools_of_every_plugin() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("foreign.py");
    std::fs::write(&script, FOREIGN).unwrap();
    let config = json!({"plugins": [
        {"name": "demo", "type": "demo"},
        {"name": "tools", "type": "tools"},
        {"name": "foreign", "type": "remote_plugin", "command": ["python3", script]},
    ]});
    let node = Node::start(folder.path(), &config.to_string());
    let mut wire = node.wire();
    let hello = json!({"type": "handshake/req", "id": "h", "agent_caps": ["tools"], "auth_token": node.token});
    assert_eq!(wire.ask(&hello)["ok"], true);
    let mut listed = |id: &str, tags: &[&str], query: &str| {
        let request =
            json!({"type": "tool/list/req", "id": id, "filter_tags": tags, "query": query});
        let list = wire.ask(&request);
        let tools = list["tools"].as_array().unwrap().iter();
        tools
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert!(listed("all", &[], "").contains(&"shout".to_owned()));
    let demo = ["echo", "clock", "fail", "stream", "wait"];
    assert_eq!(listed("some", &["Demo"], ""), demo);
    assert_eq!(listed("found", &["demo"], "echo"), ["echo"]);
    assert!(listed("none", &["demo", "file"], "").is_empty());
}

/// A node as a plugin of another node, over HTTP, with a token of its own.
#[test]
fn a_node_is_a_plugin_of_another() {
    let (inner, outer) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let below = Node::start(inner.path(), "{}");
    let config = json!({"plugins": [
        {"name": "below", "type": "remote_plugin", "url": below.at("http"), "token": below.token},
    ]});
    let node = Node::start(outer.path(), &config.to_string());
    let mut wire = node.wire();
    wire.ask(&json!({"type": "handshake/req", "id": "h", "agent_caps": ["tools"], "auth_token": node.token}));
    wire.say(&json!({"type": "tool/call/req", "id": "s", "tool_name": "stream", "arguments": {"count": 3}, "streaming": true}));
    for number in 0..3 {
        let event = wire.hear().unwrap();
        assert_eq!(
            (&event["req_id"], &event["seq"]),
            (&json!("s"), &json!(number)),
            "{event}"
        );
    }
    assert_eq!(wire.hear().unwrap()["data"]["data"], json!({"counted": 3}));
    // Its errors come through as they are.
    let error = wire
        .ask(&json!({"type": "tool/call/req", "id": "f", "tool_name": "fail", "arguments": {}}));
    assert_eq!(
        (&error["code"], &error["message"]),
        (&json!("tool_error"), &json!("this tool always fails"))
    );
    drop(below);
    let error = wire.ask(&json!({"type": "tool/call/req", "id": "e", "tool_name": "echo", "arguments": {}, "timeout": 1}));
    assert_eq!(error["type"], "error", "{error}");
}

/// A host that begins a session and then does not answer keeps no request from another host.
#[test]
fn a_silent_host_delays_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let foreign = folder.path().join("foreign.py");
    std::fs::write(&foreign, FOREIGN).unwrap();
    // It answers when it is mounted, and never again.
    let silent = folder.path().join("silent.py");
    let answers_once = "import os, sys\n\
        try:\n    os.mkdir(__file__ + '.mounted')\n\
        except FileExistsError:\n    sys.stdin.read()\n";
    std::fs::write(&silent, format!("{answers_once}{FOREIGN}")).unwrap();
    let config = json!({"plugins": [
        {"name": "silent", "type": "remote_plugin", "command": ["python3", silent], "capabilities": ["mcp"]},
        {"name": "foreign", "type": "remote_plugin", "command": ["python3", foreign], "capabilities": ["tools"]},
    ]});
    let node = Node::start(folder.path(), &config.to_string());
    let mut wire = node.wire();
    wire.ask(&json!({
        "type": "handshake/req", "id": "h", "agent_caps": ["tools", "mcp"], "auth_token": node.token
    }));
    wire.say(&json!({"type": "mcp/server/list/req", "id": "m"}));
    wire.say(&json!({"type": "tool/list/req", "id": "t"}));
    let first = wire.hear().unwrap();
    assert_eq!(
        (&first["type"], &first["req_id"]),
        (&json!("tool/list/resp"), &json!("t")),
        "{first}"
    );
}

/// Each session has a program of its own; when there are enough, the next is told, and told that it
/// may try again.
#[test]
fn no_more_children_than_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("foreign.py");
    std::fs::write(&script, FOREIGN).unwrap();
    let config = json!({"plugins": [
        {"name": "foreign", "type": "remote_plugin", "command": ["python3", script], "max_children": 2},
    ]});
    let node = Node::start(folder.path(), &config.to_string());
    let hello = json!({"type": "handshake/req", "id": "h", "agent_caps": ["tools"], "auth_token": node.token});
    let list = |id: &str| json!({"type": "tool/list/req", "id": id});
    let mut wires: Vec<_> = (0..3).map(|_| node.wire()).collect();
    for (index, wire) in wires.iter_mut().enumerate() {
        assert_eq!(wire.ask(&hello)["ok"], true);
        let answer = wire.ask(&list(&format!("l{index}")));
        match index {
            0 | 1 => assert_eq!(answer["tools"][0]["name"], "shout", "{answer}"),
            _ => assert_eq!(
                (&answer["detail"]["reason"], &answer["retryable"]),
                (&json!("too_many_children"), &json!(true)),
                "{answer}"
            ),
        }
    }
    wires[0].say(&json!({"type": "shutdown", "id": "s", "timeout": 0}));
    assert_eq!(wires[0].hear(), None);
    let tools = (0..).map(|index| wires[2].ask(&list(&format!("again{index}"))));
    let answer = tools.into_iter().find(|answer| answer["type"] != "error");
    assert_eq!(answer.unwrap()["tools"][0]["name"], "shout");
}

#[test]
fn a_host_that_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let config = json!({"plugins": [{"name": "gone", "type": "remote_plugin", "command": ["/no/such/program"]}]});
    std::fs::write(folder.path().join("frith.yaml"), config.to_string()).unwrap();
    let data = folder.path().join("data");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_frith"))
        .args([
            "up",
            "--listen",
            "127.0.0.1:0",
            "--a2a-listen",
            "127.0.0.1:0",
            "--data",
        ])
        .arg(data)
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        text.contains("plugin `gone` at cmd:/no/such/program"),
        "{text}"
    );
}

/// The example of `docs/plugins.md`, by itself and inside of a node.
#[test]
fn the_example_in_python_is_a_plugin() {
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../examples/plugins/greeter.py"
    );
    let host = format!("cmd:python3 {script}");
    let (status, out, error) =
        crate::frith(&["call", "greet", r#"{"name":"Ada"}"#, "--host", &host], "");
    assert_eq!(status, 0, "{error}");
    assert!(out.contains("Hello, Ada!"), "{out}");
    let (status, _, error) = crate::frith(&["call", "nothing", "{}", "--host", &host], "");
    assert_eq!(status, 1);
    assert!(error.contains("there is no tool \"nothing\""), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let config = json!({"plugins": [
        {"name": "demo", "type": "demo"},
        {"name": "greeter", "type": "remote_plugin", "command": ["python3", script], "priority": 5},
    ]});
    let node = Node::start(folder.path(), &config.to_string());
    let mut wire = node.wire();
    let hello = json!({"type": "handshake/req", "id": "h", "agent_caps": ["tools"], "auth_token": node.token});
    assert_eq!(wire.ask(&hello)["ok"], true);
    for (tool, arguments, key, value) in [
        ("greet", json!({"name": "Bob"}), "text", "Hello, Bob!"),
        ("echo", json!({"text": "x"}), "text", "x"),
    ] {
        let call =
            json!({"type": "tool/call/req", "id": tool, "tool_name": tool, "arguments": arguments});
        assert_eq!(wire.ask(&call)["data"]["data"][key], value, "{tool}");
    }
}
