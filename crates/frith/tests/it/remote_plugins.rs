//! Other hosts as plugins, against scripted ones that know nothing but the documents: what they may say
//! wrong, late or unasked, and which plugin answers.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::node::{Node, Wire};

/// A host that says what it is told to: `answers` has, for a type of request or for the tool that is
/// called, the messages that follow. `$id` stands for the id of the request. `dies` names a file: as long
/// as that is not there, the host makes it and ends. `$slow` stands for the id of the last call of `slow`.
const SCRIPTED: &str = r#"
import json, os, sys, time

script = json.load(open(sys.argv[1]))
if "dies" in script and not os.path.exists(script["dies"]):
    open(script["dies"], "w").close()
    sys.exit(3)

count, slow = 0, None
def say(message):
    global count
    count += 1
    base = {"a2e": "1.0", "version": "1.0", "id": f"host-{count}", "ts": time.time()}
    print(json.dumps({**base, **message}), flush=True)

def filled(value, id):
    if isinstance(value, dict):
        return {name: filled(it, id) for name, it in value.items()}
    if isinstance(value, list):
        return [filled(it, id) for it in value]
    return {"$id": id, "$slow": slow}.get(value, value) if isinstance(value, str) else value

for line in sys.stdin:
    m = json.loads(line)
    if m["type"] == "handshake/req":
        caps = [{"capability": c, "enabled": c in script["capabilities"], "metadata": {}} for c in m["agent_caps"]]
        say({"type": "handshake/resp", "req_id": m["id"], "session_id": "S" * 32, "accepted_caps": caps,
             "max_parallel": 4, "ok": True, "reason": ""})
    elif m["type"] == "shutdown":
        break
    elif m["type"] == "tool/list/req":
        tools = [{"name": name, "description": script.get("says", "")} for name in script.get("tools", [])]
        say({"type": "tool/list/resp", "req_id": m["id"], "tools": tools})
    elif m.get("tool_name") == "ends":
        break
    else:
        if m.get("tool_name") == "slow":
            slow = m["id"]
        unknown = [{"type": "error", "req_id": "$id", "code": "unknown_tool", "message": m["type"]}]
        answers = script["answers"]
        for answer in filled(answers.get(m.get("tool_name"), answers.get(m["type"], unknown)), m["id"]):
            say(answer)
"#;

/// Writes a scripted host; returns the command that starts it.
fn scripted(folder: &Path, name: &str, script: &Value) -> Value {
    let program = folder.join("scripted.py");
    std::fs::write(&program, SCRIPTED).unwrap();
    let file = folder.join(format!("{name}.json"));
    std::fs::write(&file, script.to_string()).unwrap();
    json!(["python3", program, file])
}

/// The result of a tool.
fn result(data: &str) -> Value {
    json!({"type": "tool/call/resp", "req_id": "$id", "created_at": 1.0,
        "data": {"success": true, "tool_name": "t", "data": data, "duration_ms": 1}})
}

fn remote(name: &str, command: &Value) -> Value {
    json!({"name": name, "type": "remote_plugin", "command": command})
}

/// `plugin` with more members.
fn with(mut plugin: Value, members: &Value) -> Value {
    for (name, value) in members.as_object().unwrap() {
        plugin[name] = value.clone();
    }
    plugin
}

fn start(folder: &Path, plugins: &[Value]) -> Node {
    Node::start(folder, &json!({"plugins": plugins}).to_string())
}

fn agent(node: &Node, capabilities: &[&str]) -> (Wire, Value) {
    let mut wire = node.wire();
    let welcome = wire.ask(&json!({"type": "handshake/req", "id": "h",
        "agent_caps": capabilities, "auth_token": node.token}));
    assert_eq!(welcome["ok"], true, "{welcome}");
    wire.set_deadline(Duration::from_secs(30));
    (wire, welcome)
}

fn call(tool: &str) -> Value {
    json!({"type": "tool/call/req", "id": tool, "tool_name": tool, "arguments": {}, "streaming": true})
}

/// All that is heard up to the answer to a ping.
fn heard(wire: &mut Wire) -> Vec<Value> {
    wire.say(&json!({"type": "ping", "id": "last"}));
    let heard = std::iter::from_fn(|| wire.hear());
    heard.take_while(|it| it["type"] != "pong").collect()
}

/// Message format, "Type String Convention" and "Decoding": a type that is not in the registry degrades
/// gracefully. With the id of a call it is an event of that call, and the response comes after it. The ids
/// of the node's own session with the host stay there.
#[test]
fn unknown_types_are_events_of_the_agents_request() {
    let folder = tempfile::tempdir().unwrap();
    let mut whole = result("whole");
    whole["data"]["events"] = json!([{"a2e": "1.0", "type": "tool/event", "id": "e", "ts": 1.0,
        "req_id": "$id", "eid": 7, "kind": "status", "data": {}, "seq": 0}]);
    let command = scripted(
        folder.path(),
        "host",
        &json!({"capabilities": ["tools"], "tools": ["t"], "answers": {"t": [
            {"type": "own/event", "req_id": "$id", "eid": 77, "n": 1},
            {"type": "own/news", "req_id": "$id", "n": 2},
            whole,
        ]}}),
    );
    let node = start(folder.path(), &[remote("lab", &command)]);
    let (mut wire, _) = agent(&node, &["tools"]);
    wire.say(&call("t"));
    for (name, number) in [("own/event", 1), ("own/news", 2)] {
        let event = wire.hear().unwrap();
        assert_eq!(
            (&event["type"], &event["req_id"], &event["n"]),
            (&json!(name), &json!("t"), &json!(number))
        );
        assert_ne!(event["eid"], 77);
    }
    let response = wire.hear().unwrap();
    assert_eq!(
        (&response["type"], &response["req_id"]),
        (&json!("tool/call/resp"), &json!("t"))
    );
    assert_eq!(response["data"]["events"][0]["req_id"], "t", "{response}");
    assert_eq!(response["data"]["events"][0].get("eid"), None, "{response}");
}

/// Message format, "Message Ordering": "Responses reference their request via req_id"; each request has its
/// one response, of its own type. A host that answers with something else, or not at all, fails the request.
#[test]
fn every_request_is_answered_whatever_the_host_answers() {
    let folder = tempfile::tempdir().unwrap();
    let command = scripted(
        folder.path(),
        "host",
        &json!({"capabilities": ["tools"], "tools": ["wrong", "newer", "ends", "right"], "answers": {
            "wrong": [{"type": "memory/init/resp", "req_id": "$id", "memory_id": "m", "namespace": "n"}],
            "newer": [{"type": "tool/call2/resp", "req_id": "$id", "data": {}}],
            "right": [result("right")],
        }}),
    );
    let node = start(folder.path(), &[remote("lab", &command)]);
    let (mut wire, _) = agent(&node, &["tools"]);
    for (tool, answered) in [("wrong", "memory/init/resp"), ("newer", "tool/call2/resp")] {
        let error = wire.ask(&call(tool));
        assert_eq!(
            (&error["type"], &error["req_id"], &error["code"]),
            (&json!("error"), &json!(tool), &json!("runtime_error")),
            "{error}"
        );
        assert_eq!(error["detail"]["reason"], "unexpected_response");
        assert_eq!(error["capability_name"], "tools");
        assert!(
            error["message"].as_str().unwrap().contains(answered),
            "{error}"
        );
        assert_eq!(error["retryable"], false, "it may have been done");
    }
    // The session with the host goes on, and begins anew when the host has ended.
    for tool in ["right", "ends", "right"] {
        let mut request = call(tool);
        request["id"] = json!(format!("again-{tool}-{}", heard(&mut wire).len()));
        let answer = wire.ask(&request);
        match tool {
            "ends" => assert_eq!(answer["code"], "runtime_error", "{answer}"),
            _ => assert_eq!(answer["data"]["data"], "right", "{answer}"),
        }
    }
}

/// Message format, "Message Ordering": events have a monotonic `seq` within their `req_id`, also those that
/// come after the response.
/// Proves M-36.
#[test]
fn late_events_keep_the_request_id() {
    let folder = tempfile::tempdir().unwrap();
    let event = |number: i64| json!({"type": "tool/event", "req_id": "$id", "kind": "status", "data": {"n": number}, "seq": 40});
    let command = scripted(
        folder.path(),
        "host",
        &json!({"capabilities": ["tools"], "tools": ["late"], "answers": {"late": [
            event(0), result("done"), event(1), {"type": "own/event", "req_id": "$id", "n": 2}, event(3),
        ]}}),
    );
    let node = start(folder.path(), &[remote("lab", &command)]);
    let (mut wire, _) = agent(&node, &["tools"]);
    // Of more calls than are remembered, each has its own late events.
    for round in 0..70 {
        let id = format!("late-{round}");
        let mut request = call("late");
        request["id"] = json!(id);
        wire.say(&request);
        let all: Vec<Value> = (0..5).map(|_| wire.hear().unwrap()).collect();
        assert!(all.iter().all(|it| it["req_id"] == *id), "{all:?}");
        assert_eq!(all[1]["type"], "tool/call/resp", "{all:?}");
        let events = all.iter().filter(|it| it["type"] == "tool/event");
        let events: Vec<_> = events.map(|it| (&it["data"]["n"], &it["seq"])).collect();
        let expected = [(0, 0), (1, 1), (3, 3)].map(|(n, seq)| (json!(n), json!(seq)));
        let expected: Vec<_> = expected.iter().map(|(n, seq)| (n, seq)).collect();
        // An event of a type of its own has no number, and takes one.
        assert_eq!(events, expected, "{all:?}");
    }
}

/// A call that takes long has its late events, however many newer ones are over before it.
#[test]
fn late_events_of_a_call_that_newer_ones_overtake() {
    let folder = tempfile::tempdir().unwrap();
    let event = |id: &str| json!({"type": "tool/event", "req_id": id, "kind": "status", "data": {}, "seq": 0});
    let mut slow = result("slow");
    slow["req_id"] = json!("$slow");
    let command = scripted(
        folder.path(),
        "host",
        &json!({"capabilities": ["tools"], "tools": ["slow", "quick", "frees"], "answers": {
            "slow": [event("$id")],
            "quick": [result("quick")],
            "frees": [result("frees"), slow, event("$slow")],
        }}),
    );
    let node = start(folder.path(), &[remote("lab", &command)]);
    let (mut wire, _) = agent(&node, &["tools"]);
    wire.say(&call("slow"));
    assert_eq!(wire.hear().unwrap()["req_id"], "slow");
    for round in 0..65 {
        let mut request = call("quick");
        request["id"] = json!(format!("quick-{round}"));
        assert_eq!(wire.ask(&request)["data"]["data"], "quick");
    }
    wire.say(&call("frees"));
    let all: Vec<Value> = (0..3).map(|_| wire.hear().unwrap()).collect();
    let of_slow = all.iter().filter(|it| it["req_id"] == "slow");
    let types: Vec<_> = of_slow.map(|it| &it["type"]).collect();
    assert_eq!(types, ["tool/call/resp", "tool/event"], "{all:?}");
}

/// A program that ends at its start does not prevent that of the node; who uses it later starts it again.
#[test]
fn command_that_dies_at_start_is_started_by_its_sessions() {
    let folder = tempfile::tempdir().unwrap();
    let mark = |name: &str| folder.path().join(format!("{name}-died"));
    let script = |name: &str| {
        json!({"capabilities": ["tools", "memory"], "tools": [name], "dies": mark(name),
            "answers": {name: [result(name)]}})
    };
    let [named, unnamed] =
        ["named", "unnamed"].map(|name| scripted(folder.path(), name, &script(name)));
    let node = start(
        folder.path(),
        &[
            with(remote("named", &named), &json!({"capabilities": ["tools"]})),
            remote("unnamed", &unnamed),
        ],
    );
    assert!(mark("named").exists() && mark("unnamed").exists());
    let (mut wire, welcome) = agent(&node, &["tools", "memory"]);
    let enabled = |index: usize| &welcome["accepted_caps"][index]["enabled"];
    assert_eq!(
        (enabled(0), enabled(1)),
        (&json!(true), &json!(false)),
        "{welcome}"
    );
    assert_eq!(wire.ask(&call("named"))["data"]["data"], "named");
    assert_eq!(wire.ask(&call("unnamed"))["code"], "unknown_tool");
}

/// Message format, "Extensibility": new namespaces, served by another host as the configuration says.
/// Capability negotiation, "After Negotiation": only messages for accepted capabilities are processed.
/// Proves M-40, M-44.
#[test]
fn types_of_a_remote_plugins_own_belong_to_a_capability() {
    let folder = tempfile::tempdir().unwrap();
    let command = scripted(
        folder.path(),
        "host",
        &json!({"capabilities": ["tools"], "answers": {
            "own/thing/req": [
                {"type": "own/thing/event", "req_id": "$id", "n": 1},
                {"type": "own/push", "n": 2},
                {"type": "own/thing/resp", "req_id": "$id", "eid": 99, "n": 3},
            ],
            "own/wrong/req": [{"type": "own/thing/resp", "req_id": "$id"}],
            "own/refused/req": [{"type": "error", "req_id": "$id", "code": "own_code", "message": "no"}],
        }}),
    );
    let plugin = with(
        remote("lab", &command),
        &json!({"serves": ["own/*"], "serves_as": "env"}),
    );
    let rule =
        json!({"id": "not-this", "capability": "env", "name": "own/denied/req", "action": "deny"});
    let config = json!({"plugins": [plugin], "policy": {"rules": [rule]}});
    let node = Node::start(folder.path(), &config.to_string());
    let own = |verb: &str| json!({"type": format!("own/{verb}/req"), "id": verb, "x": 1});

    let (mut wire, _) = agent(&node, &["tools"]);
    let refused = wire.ask(&own("thing"));
    assert_eq!(
        (&refused["code"], &refused["capability_name"]),
        (&json!("capability_missing"), &json!("env"))
    );

    let (mut wire, welcome) = agent(&node, &["env"]);
    assert_eq!(welcome["accepted_caps"][0]["metadata"]["name"], "lab");
    wire.say(&own("thing"));
    let mut all: Vec<Value> = (0..3).map(|_| wire.hear().unwrap()).collect();
    all.sort_by_key(|it| it["n"].as_i64());
    let types: Vec<_> = all.iter().map(|it| &it["type"]).collect();
    assert_eq!(types, ["own/thing/event", "own/push", "own/thing/resp"]);
    assert_eq!(
        (&all[0]["req_id"], &all[2]["req_id"]),
        (&json!("thing"), &json!("thing"))
    );
    assert_eq!(all[1].get("req_id"), None, "{all:?}");
    assert_ne!(all[2]["eid"], 99);
    for (verb, code) in [
        ("wrong", "runtime_error"),
        ("refused", "own_code"),
        ("denied", "unauthorized"),
    ] {
        let error = wire.ask(&own(verb));
        assert_eq!(
            (&error["code"], &error["req_id"]),
            (&json!(code), &json!(verb)),
            "{error}"
        );
    }
    let unserved = wire.ask(&json!({"type": "other/thing/req", "id": "o"}));
    assert_eq!(unserved["code"], "invalid_message");
    // What may be sent is found in the same way.
    let permitted = wire.ask(&json!({"type": "policy/permitted/req", "id": "p",
        "types": ["own/thing/req", "own/denied/req"]}));
    assert_eq!(permitted["types"], json!(["own/thing/req"]), "{permitted}");
    let records = records(&node);
    let recorded = records
        .iter()
        .filter(|it| it["message_type"] == "own/thing/req");
    let capabilities: Vec<_> = recorded.map(|it| &it["capability"]).collect();
    assert_eq!(capabilities, ["env", "env"], "{records:?}");
}

/// The records of a node's audit log.
fn records(node: &Node) -> Vec<Value> {
    let data = node.data();
    let arguments = ["audit", "tail", "--json", "--data", data.to_str().unwrap()];
    let (status, out, error) = crate::frith(&arguments, "");
    assert_eq!(status, 0, "{error}");
    out.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Capability negotiation, "After Negotiation": a push of a capability reaches those alone that have
/// negotiated it.
#[test]
fn pushes_reach_sessions_that_negotiated_their_capability() {
    let folder = tempfile::tempdir().unwrap();
    let command = scripted(
        folder.path(),
        "host",
        &json!({"capabilities": ["tools", "env", "mcp"], "tools": ["t"], "answers": {"t": [
            {"type": "env/state_push", "episode_id": "e", "step_id": 1, "event_type": "status",
                "delta": {"x": 1}},
            {"type": "mcp/sample/req", "id": "question", "server_id": "x", "messages": [],
                "model_preferences": {}, "system_prompt": "", "max_tokens": 5},
            result("done"),
        ]}}),
    );
    let node = start(folder.path(), &[remote("lab", &command)]);
    for (capabilities, expected) in [
        (&["tools"][..], vec!["tool/call/resp"]),
        (&["tools", "env"], vec!["env/state_push", "tool/call/resp"]),
        (&["tools", "mcp"], vec!["mcp/sample/req", "tool/call/resp"]),
    ] {
        let (mut wire, _) = agent(&node, capabilities);
        wire.say(&with(call("t"), &json!({"id": capabilities.join("-")})));
        let mut types: Vec<String> = Vec::new();
        while types.len() < expected.len() {
            let message = wire.hear().unwrap();
            types.push(message["type"].as_str().unwrap().to_owned());
        }
        types.extend(heard(&mut wire).iter().map(|it| it["type"].to_string()));
        types.sort();
        assert_eq!(types, expected);
    }
}

/// Capability negotiation, "Negotiation Rules": of equal tools of two hosts that of the plugin with the
/// highest priority is listed and answers, of equal priorities that of the first; the metadata names it.
/// Proves N-22, N-23.
#[test]
fn equal_tools_of_two_hosts_go_by_priority() {
    for (priorities, expected) in [([0, 5], "b"), ([5, 0], "a"), ([0, 0], "a")] {
        let folder = tempfile::tempdir().unwrap();
        let plugins = ["a", "b"]
            .into_iter()
            .zip(priorities)
            .map(|(name, priority)| {
                let own = format!("own_{name}");
                let script = json!({"capabilities": ["tools"], "tools": ["both", own], "says": name,
                "answers": {"both": [result(name)], own: [result(name)]}});
                let command = scripted(folder.path(), name, &script);
                with(remote(name, &command), &json!({"priority": priority}))
            });
        let node = start(folder.path(), &plugins.collect::<Vec<_>>());
        let (mut wire, welcome) = agent(&node, &["tools"]);
        assert_eq!(welcome["accepted_caps"][0]["metadata"]["name"], expected);
        let list = wire.ask(&json!({"type": "tool/list/req", "id": "l"}));
        let mut listed: Vec<(&str, &str)> = list["tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| {
                (
                    it["name"].as_str().unwrap(),
                    it["description"].as_str().unwrap(),
                )
            })
            .collect();
        listed.sort_unstable();
        assert_eq!(listed, [("both", expected), ("own_a", "a"), ("own_b", "b")]);
        assert_eq!(wire.ask(&call("both"))["data"]["data"], expected);
    }
}

/// Capability negotiation, "Negotiation Rules": an exclusive plugin gets sole handling of its message types,
/// whatever its priority; two of them for a type are a mistake of the configuration.
/// Proves N-21.
#[test]
fn exclusive_remote_plugins() {
    let folder = tempfile::tempdir().unwrap();
    let hosts = ["a", "b"].map(|name| {
        let script =
            json!({"capabilities": ["tools"], "tools": [name], "answers": {name: [result(name)]}});
        remote(name, &scripted(folder.path(), name, &script))
    });
    let [a, b] = hosts;
    let exclusive = with(b, &json!({"exclusive": true, "priority": -5}));
    let node = start(folder.path(), &[a.clone(), exclusive.clone()]);
    let (mut wire, welcome) = agent(&node, &["tools"]);
    let metadata = json!({"name": "b", "type": "tools", "priority": -5, "exclusive": true});
    assert_eq!(welcome["accepted_caps"][0]["metadata"], metadata);
    assert_eq!(wire.ask(&call("b"))["data"]["data"], "b");
    assert_eq!(wire.ask(&call("a"))["code"], "unknown_tool");
    drop((wire, node));

    let both = [with(a, &json!({"exclusive": true})), exclusive];
    let error = refused(folder.path(), &json!({"plugins": both}));
    let expected = "the plugins `a` and `b` are both `exclusive` and both serve `tool/";
    assert!(error.contains(expected), "{error}");
}

/// What a node says that does not start.
fn refused(folder: &Path, config: &Value) -> String {
    std::fs::write(folder.join("frith.yaml"), config.to_string()).unwrap();
    let data: PathBuf = folder.join("other");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_frith"))
        .args([
            "up",
            "--listen",
            "127.0.0.1:0",
            "--a2a-listen",
            "127.0.0.1:0",
        ])
        .arg("--data")
        .arg(data)
        .current_dir(folder)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Capability negotiation, "Capability Metadata": each plugin stands where its configuration says, that of
/// processes as well.
/// Proves N-23.
#[test]
fn plugin_of_processes_stands_where_it_is_configured() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = json!({"name": "runner", "type": "proc", "priority": 7, "exclusive": true});
    let node = start(folder.path(), &[plugin]);
    let (_, welcome) = agent(&node, &["proc"]);
    let metadata = json!({"name": "runner", "type": "proc", "priority": 7, "exclusive": true});
    assert_eq!(welcome["accepted_caps"][0]["metadata"], metadata);
}
