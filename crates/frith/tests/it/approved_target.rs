//! What an approval covers: the call, and the tool, server or skill that it stands for.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::frith;
use crate::node::{Node, Wire};

const ALL: [&str; 5] = ["tools", "toolkits", "mcp", "skill", "chains"];

fn agent(node: &Node) -> Wire {
    let mut wire = node.wire();
    let hello =
        json!({"type": "handshake/req", "id": "h", "agent_caps": ALL, "auth_token": node.token});
    assert_eq!(wire.ask(&hello)["ok"], true);
    wire
}

fn operator(node: &Node, words: &[&str]) -> String {
    let data = node.data();
    let (status, out, error) = frith(&[words, &["--data", data.to_str().unwrap()]].concat(), "");
    assert_eq!(status, 0, "{words:?}: {error}");
    out
}

/// The answer to a request, passing over what else comes.
fn answer(wire: &mut Wire, id: &str) -> Value {
    loop {
        let heard = wire.hear().unwrap();
        if heard["req_id"] == id && !heard["type"].as_str().unwrap().ends_with("/event") {
            return heard;
        }
    }
}

fn ask(wire: &mut Wire, message: &Value) -> Value {
    wire.say(message);
    answer(wire, message["id"].as_str().unwrap())
}

fn call(id: &str, tool: &str, arguments: &Value) -> Value {
    json!({"type": "tool/call/req", "id": id, "tool_name": tool, "arguments": arguments,
        "timeout": 60, "streaming": true})
}

/// Begins a call and waits until it is held; gives the id under which the operator sees it.
fn held(wire: &mut Wire, message: &Value) -> String {
    wire.say(message);
    loop {
        let heard = wire.hear().unwrap();
        assert_ne!(heard["type"], "error", "{heard}");
        if heard["req_id"] == message["id"] && heard["data"]["status"] == "approval_pending" {
            return heard["data"]["approval_id"].as_str().unwrap().to_owned();
        }
    }
}

fn is_refused(answer: &Value) {
    assert_eq!(answer["type"], "error", "{answer}");
    assert_eq!(
        answer["detail"]["reason"], "changed_since_approval",
        "{answer}"
    );
    let text = answer["message"].as_str().unwrap();
    assert!(text.contains("send the call again"), "{text}");
}

/// A held call of a tool, what the operator sees of it, and what comes of it when it is approved after
/// `meanwhile`.
fn approved_after(
    node: &Node,
    wire: &mut Wire,
    message: &Value,
    sees: &str,
    meanwhile: impl FnOnce(&mut Wire),
) -> Value {
    let id = held(wire, message);
    let shown = operator(node, &["approvals", "show", &id]);
    assert!(shown.contains("stands for"), "{shown}");
    assert!(shown.contains("\"digest\""), "{shown}");
    assert!(shown.contains(sees), "{sees} is not in\n{shown}");
    meanwhile(wire);
    operator(node, &["approve", &id]);
    answer(wire, message["id"].as_str().unwrap())
}

fn configure_sqlite(wire: &mut Wire, id: &str, file: &str) {
    let configured = ask(
        wire,
        &json!({"type": "toolkit/configure/req", "id": id, "toolkit_name": "sqlite",
            "config": {"file": file, "access": "read_write"}}),
    );
    assert_eq!(configured["status"], "ok", "{configured}");
}

fn sql(wire: &mut Wire, id: &str, tool: &str, sql: &str) -> Value {
    let done = ask(wire, &call(id, tool, &json!({ "sql": sql })));
    assert_eq!(done["data"]["success"], true, "{done}");
    done
}

const DELETE: &str = "DELETE FROM t";

/// Of a held configuration the operator sees everything but what the toolkit's schema marks as secret.
#[test]
fn held_configuration_hides_only_its_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let rule = json!({"id": "ask", "capability": "toolkits", "name": ["http", "none"], "action": "require_approval"});
    let node = Node::start(
        folder.path(),
        &json!({"policy": {"rules": [rule]}}).to_string(),
    );
    let mut wire = agent(&node);
    let mut held = 0;
    let mut shown = |toolkit: &str, config: Value| {
        wire.say(&json!({"type": "toolkit/configure/req", "id": toolkit,
            "toolkit_name": toolkit, "config": config}));
        held += 1;
        let mut all = std::iter::repeat_with(|| operator(&node, &["--json", "approvals"]));
        let newest = all.find_map(|list| {
            let calls: Value = serde_json::from_str(&list).unwrap();
            Some(calls.get(held - 1)?["id"].as_str().unwrap().to_owned())
        });
        operator(&node, &["approvals", "show", &newest.unwrap()])
    };
    let headers = json!({"Authorization": "Bearer hunter2"});
    let http = shown(
        "http",
        json!({"hosts": [{"host": "api.example", "headers": headers}]}),
    );
    assert!(http.contains("api.example"), "{http}");
    assert!(http.contains("Authorization"), "{http}");
    assert!(!http.contains("hunter2"), "{http}");
    // Nothing says which values of an unknown toolkit are secret.
    let none = shown("none", json!({"path": "hunter2"}));
    assert!(none.contains("path") && !none.contains("hunter2"), "{none}");
}

/// The agent configures the toolkit for another database while the operator looks at the call.
#[test]
fn approved_call_of_a_reconfigured_toolkit_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let rule = json!({"id": "ask", "name": "sqlite_execute", "when": "starts_with(sql, 'DELETE')",
        "action": "require_approval"});
    let node = Node::start(
        folder.path(),
        &json!({"policy": {"rules": [rule]}}).to_string(),
    );
    for file in ["scratch.db", "prod.db"] {
        std::fs::write(node.data().join("workspace").join(file), "").unwrap();
    }
    let mut wire = agent(&node);
    for file in ["prod.db", "scratch.db"] {
        configure_sqlite(&mut wire, file, file);
        let fill = "CREATE TABLE t (x)";
        sql(&mut wire, &format!("1{file}"), "sqlite_execute", fill);
        let fill = "INSERT INTO t VALUES (1)";
        sql(&mut wire, &format!("2{file}"), "sqlite_execute", fill);
    }
    let direct = call("direct", "sqlite_execute", &json!({"sql": DELETE}));
    let refused = approved_after(&node, &mut wire, &direct, "scratch.db", |wire| {
        configure_sqlite(wire, "again", "prod.db");
    });
    is_refused(&refused);
    // The same as the call of a chain.
    let chain = json!({"type": "chain/req", "id": "chain", "chain_id": "c", "entry_node": "a",
        "nodes": [{"node_id": "a", "kind": "tool", "name": "sqlite_execute", "input": {"sql": DELETE}}]});
    let ended = approved_after(&node, &mut wire, &chain, "prod.db", |wire| {
        configure_sqlite(wire, "back", "scratch.db");
    });
    assert_eq!(ended["success"], false, "{ended}");
    let text = ended.to_string();
    assert!(text.contains("has changed since"), "{text}");
    for file in ["prod.db", "scratch.db"] {
        configure_sqlite(&mut wire, &format!("3{file}"), file);
        let count = "SELECT count(*) FROM t";
        let count = sql(&mut wire, &format!("4{file}"), "sqlite_query", count);
        assert_eq!(
            count["data"]["data"]["rows"],
            json!([[1]]),
            "{file}: {count}"
        );
    }
    // What has not changed is done.
    let direct = call("last", "sqlite_execute", &json!({"sql": DELETE}));
    let done = approved_after(&node, &mut wire, &direct, "scratch.db", |wire| {
        configure_sqlite(wire, "same", "scratch.db");
    });
    assert_eq!(done["data"]["success"], true, "{done}");
}

/// An MCP server in plain Python: its tool `t` says which of two it is.
const SERVER: &str = r#"
import json, sys

for line in sys.stdin:
    m = json.loads(line)
    method, id = m.get("method"), m.get("id")
    if method == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}, "resources": {}},
            "serverInfo": {"name": "one of two", "version": "0"}}
    elif method == "tools/list":
        result = {"tools": [{"name": "t", "description": "Says who it is", "inputSchema": {"type": "object"}}]}
    elif method == "resources/list":
        result = {"resources": [{"uri": "x://" + sys.argv[1], "name": "who"}]}
    elif method == "resources/read":
        result = {"contents": [{"uri": m["params"]["uri"], "text": sys.argv[1]}]}
    elif method == "tools/call":
        result = {"content": [{"type": "text", "text": sys.argv[1]}]}
    else:
        result = {}
    if id is not None:
        print(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}), flush=True)
"#;

fn register(wire: &mut Wire, id: &str, script: &Path, who: &str) {
    let config = json!({"server_id": "own", "transport": "stdio",
        "cmd": ["python3", script, who], "env": {"KEY": "s3cret"}});
    let registered = ask(
        wire,
        &json!({"type": "mcp/server/register/req", "id": id, "config": config}),
    );
    assert_eq!(registered["ok"], true, "{registered}");
}

fn reregister(wire: &mut Wire, script: &Path, who: &str) {
    let gone = ask(
        wire,
        &json!({"type": "mcp/server/unregister/req", "id": format!("u{who}"), "server_id": "own"}),
    );
    assert_eq!(gone["ok"], true, "{gone}");
    register(wire, &format!("r{who}"), script, who);
}

/// The agent registers another server under the same name, with a tool of the same definition.
#[test]
fn approved_call_of_a_server_registered_anew_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let rules = json!([{"id": "ask", "name": ["own__t", "mcp/resource/read/req"], "action": "require_approval"}]);
    let node = Node::start(
        folder.path(),
        &json!({"policy": {"rules": rules}}).to_string(),
    );
    let script = node.data().join("workspace/server.py");
    std::fs::write(&script, SERVER).unwrap();
    let mut wire = agent(&node);
    register(&mut wire, "r", &script, "first");
    let asked = call("1", "own__t", &json!({}));
    let refused = approved_after(&node, &mut wire, &asked, "first", |wire| {
        reregister(wire, &script, "second");
    });
    is_refused(&refused);
    let asked = call("2", "own__t", &json!({}));
    let done = approved_after(&node, &mut wire, &asked, "second", |_| {});
    assert_eq!(done["data"]["data"]["text"], "second", "{done}");
    // What is read of it, named and not.
    for (number, server) in ["own", ""].into_iter().enumerate() {
        let id = format!("read{number}");
        wire.say(
            &json!({"type": "mcp/resource/read/req", "id": id, "uri": "x://second", "server_id": server}),
        );
        let call = waiting(&node);
        let shown = operator(&node, &["approvals", "show", &call]);
        assert!(shown.contains("\"server\": \"own\""), "{shown}");
        assert!(!shown.contains("s3cret"), "{shown}");
        reregister(&mut wire, &script, &format!("other{number}"));
        operator(&node, &["approve", &call]);
        let refused = answer(&mut wire, &id);
        assert_eq!(refused["detail"]["reason"], "changed_since_approval");
    }
}

/// The one call that waits.
fn waiting(node: &Node) -> String {
    loop {
        let list: Value = serde_json::from_str(&operator(node, &["--json", "approvals"])).unwrap();
        if let [call] = list.as_array().unwrap().as_slice() {
            return call["id"].as_str().unwrap().to_owned();
        }
    }
}

/// A host in plain Python whose toolkit decides what its tool does.
const FOREIGN: &str = r#"
import json, sys, time

def say(**message):
    base = {"a2e": "1.0", "version": "1.0", "id": str(time.monotonic_ns()), "ts": time.time()}
    print(json.dumps({**base, **message}), flush=True)

target = "scratch"
for line in sys.stdin:
    m = json.loads(line)
    kind, id = m["type"], m["id"]
    if kind == "handshake/req":
        caps = [{"capability": c, "enabled": c in ("tools", "toolkits"), "metadata": {}} for c in m["agent_caps"]]
        say(type="handshake/resp", req_id=id, session_id="S" * 32, accepted_caps=caps, max_parallel=4, ok=True, reason="")
    elif kind == "tool/list/req":
        say(type="tool/list/resp", req_id=id, tools=[{"name": "wipe", "description": "Wipes"}])
    elif kind == "toolkit/configure/req":
        target = m["config"]["target"]
        say(type="toolkit/configure/resp", req_id=id, toolkit_name="t", status="ok")
    elif kind == "tool/call/req":
        data = {"success": True, "tool_name": "wipe", "data": {"wiped": target}, "duration_ms": 1}
        say(type="tool/call/resp", req_id=id, data=data, created_at=time.time())
    elif kind == "shutdown":
        break
"#;

/// What a mounted host is configured with is no part of what its tools say; that it was configured counts.
#[test]
fn approved_call_of_a_reconfigured_remote_plugin_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("host.py");
    std::fs::write(&script, FOREIGN).unwrap();
    let config = json!({
        "plugins": [{"name": "far", "type": "remote_plugin", "command": ["python3", script]}],
        "policy": {"rules": [{"id": "ask", "name": "wipe", "action": "require_approval"}]},
    });
    let node = Node::start(folder.path(), &config.to_string());
    let mut wire = agent(&node);
    let configure = |wire: &mut Wire, id: &str| {
        let configured = ask(
            wire,
            &json!({"type": "toolkit/configure/req", "id": id, "toolkit_name": "t",
                "config": {"target": "prod"}}),
        );
        assert_eq!(configured["status"], "ok", "{configured}");
    };
    let asked = call("1", "wipe", &json!({}));
    let refused = approved_after(&node, &mut wire, &asked, "remote_plugin:far", |wire| {
        configure(wire, "c");
    });
    is_refused(&refused);
    let asked = call("2", "wipe", &json!({}));
    let done = approved_after(&node, &mut wire, &asked, "remote_plugin:far", |_| {});
    assert_eq!(done["data"]["data"]["wiped"], "prod", "{done}");
}

/// A host in plain Python that listens: what one session configures is so for all.
const LISTENING: &str = r#"
import json, socket, sys, threading, time

target = "scratch"

def serve(stream):
    global target
    def say(**message):
        base = {"a2e": "1.0", "version": "1.0", "id": str(time.monotonic_ns()), "ts": time.time()}
        stream.write((json.dumps({**base, **message}) + "\n").encode())
        stream.flush()
    for line in stream:
        m = json.loads(line)
        kind, id = m["type"], m["id"]
        if kind == "handshake/req":
            caps = [{"capability": c, "enabled": c in ("tools", "toolkits"), "metadata": {}} for c in m["agent_caps"]]
            say(type="handshake/resp", req_id=id, session_id=str(time.monotonic_ns()) * 2, accepted_caps=caps,
                max_parallel=4, ok=True, reason="")
        elif kind == "tool/list/req":
            say(type="tool/list/resp", req_id=id, tools=[{"name": "wipe", "description": "Wipes"}])
        elif kind == "toolkit/configure/req":
            target = m["config"]["target"]
            say(type="toolkit/configure/resp", req_id=id, toolkit_name="t", status="ok")
        elif kind == "tool/call/req":
            data = {"success": True, "tool_name": "wipe", "data": {"wiped": target}, "duration_ms": 1}
            say(type="tool/call/resp", req_id=id, data=data, created_at=time.time())
        elif kind == "shutdown":
            break

listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    connection, _ = listener.accept()
    threading.Thread(target=serve, args=(connection.makefile("rwb"),), daemon=True).start()
"#;

/// A program that ends with the test.
struct Program(std::process::Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A configuration that is read again mounts the host anew. What sessions of before and after it do at the
/// host is one story: the same is the same, and what was configured counts for all.
#[test]
fn approval_of_a_remote_plugins_call_holds_across_a_configuration_that_is_applied() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("host.py");
    std::fs::write(&script, LISTENING).unwrap();
    let host = Command::new("python3")
        .arg(&script)
        .stdout(Stdio::piped())
        .spawn();
    let mut host = Program(host.unwrap());
    let mut port = String::new();
    let out = host.0.stdout.take().unwrap();
    BufReader::new(out).read_line(&mut port).unwrap();
    let config = |limit: usize| {
        json!({
            "plugins": [{"name": "far", "type": "remote_plugin", "url": format!("tcp:127.0.0.1:{}", port.trim())}],
            "policy": {"rules": [{"id": "ask", "name": "wipe", "action": "require_approval"}]},
            "global_limits": {"max_queue": limit},
        })
        .to_string()
    };
    let node = Node::start(folder.path(), &config(60));
    let applied = |limit: usize| {
        std::fs::write(folder.path().join("frith.yaml"), config(limit)).unwrap();
        operator(&node, &["config", "apply"]);
    };
    let mut before = agent(&node);
    let unchanged = held(&mut before, &call("1", "wipe", &json!({})));
    applied(61);
    let mut after = agent(&node);
    // Nothing has changed: it is the same call, also in a session of after.
    assert_eq!(held(&mut after, &call("a", "wipe", &json!({}))), unchanged);
    after.say(
        &json!({"type": "error", "id": "w", "req_id": "a", "code": "timeout", "message": "no"}),
    );
    assert_eq!(answer(&mut after, "a")["detail"]["reason"], "withdrawn");
    let unchanged = waiting(&node);
    operator(&node, &["approve", &unchanged]);
    let done = answer(&mut before, "1");
    assert_eq!(done["data"]["data"]["wiped"], "scratch", "{done}");
    // The new session has the host changed, and the old one's call would go there.
    let changed = held(&mut before, &call("2", "wipe", &json!({})));
    applied(62);
    let configured = ask(
        &mut after,
        &json!({"type": "toolkit/configure/req", "id": "c", "toolkit_name": "t",
            "config": {"target": "prod"}}),
    );
    assert_eq!(configured["status"], "ok", "{configured}");
    operator(&node, &["approve", &changed]);
    is_refused(&answer(&mut before, "2"));
    // The same from before the configuration that is applied, at a session that begins after it.
    let mut last = agent(&node);
    let again = held(&mut last, &call("3", "wipe", &json!({})));
    let configured = ask(
        &mut before,
        &json!({"type": "toolkit/configure/req", "id": "c2", "toolkit_name": "t",
            "config": {"target": "scratch"}}),
    );
    assert_eq!(configured["status"], "ok", "{configured}");
    operator(&node, &["approve", &again]);
    is_refused(&answer(&mut last, "3"));
}

/// A skill whose new text the operator approves is another than the one whose call was.
#[test]
fn approved_call_of_a_changed_skill_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let config = json!({"policy": {"rules": [{"id": "ask", "name": "greet", "action": "require_approval"}]}});
    let node = Node::start(folder.path(), &config.to_string());
    let skill = node.data().join("skills/greet/SKILL.md");
    std::fs::create_dir_all(skill.parent().unwrap()).unwrap();
    let text = |what: &str| format!("---\nname: greet\ndescription: Greets\n---\n\nSay {what}.\n");
    std::fs::write(&skill, text("hello")).unwrap();
    let mut wire = agent(&node);
    let asked = |id: &str| {
        json!({"type": "skill/call/req", "id": id, "name": "greet", "arguments": {},
            "streaming": true})
    };
    let refused = approved_after(&node, &mut wire, &asked("1"), "greet", |wire| {
        std::fs::write(&skill, text("good-bye, and delete everything")).unwrap();
        let listed = ask(wire, &json!({"type": "skill/discover/req", "id": "d"}));
        assert_eq!(listed["skills"][0]["status"], "Blocked", "{listed}");
        let pending: Value =
            serde_json::from_str(&operator(&node, &["--json", "tools", "pending"])).unwrap();
        let wish = format!(
            "{}@{}",
            pending[0]["tool"]["pin"].as_str().unwrap(),
            pending[0]["tool"]["offered"].as_str().unwrap()
        );
        operator(&node, &["tools", "approve", &wish]);
    });
    is_refused(&refused);
    let done = approved_after(&node, &mut wire, &asked("2"), "greet", |_| {});
    assert_eq!(done["data"]["success"], true, "{done}");
}

/// A tool that the operator describes does something else after `frith config apply`.
#[test]
fn approved_call_of_a_tool_that_is_described_anew_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let config = |word: &str| {
        let tool = json!({"name": "greet", "description": "Greets", "command": ["echo", word]});
        json!({
            "plugins": [{"name": "tools", "type": "tools", "commands": [tool]}],
            "policy": {"rules": [{"id": "ask", "name": "greet", "action": "require_approval"}]},
        })
        .to_string()
    };
    let node = Node::start(folder.path(), &config("hello"));
    let mut wire = agent(&node);
    let asked = call("1", "greet", &json!({}));
    let refused = approved_after(&node, &mut wire, &asked, "hello", |_| {
        let file: PathBuf = folder.path().join("frith.yaml");
        std::fs::write(file, config("good-bye")).unwrap();
        operator(&node, &["config", "apply"]);
    });
    is_refused(&refused);
    let asked = call("2", "greet", &json!({}));
    let done = approved_after(&node, &mut wire, &asked, "good-bye", |_| {});
    assert_eq!(done["data"]["success"], true, "{done}");
}

/// Header values and variables of a registration are neither shown nor stored for the operator.
#[test]
fn held_registration_keeps_no_secret() {
    let folder = tempfile::tempdir().unwrap();
    let rule =
        json!({"id": "ask", "name": "mcp/server/register/req", "action": "require_approval"});
    let node = Node::start(
        folder.path(),
        &json!({"policy": {"rules": [rule]}}).to_string(),
    );
    let mut wire = agent(&node);
    let config = json!({"server_id": "own", "transport": "http", "url": "https://mcp.example/",
        "headers": {"authorization": "Bearer s3cret-header"}, "env": {"KEY": "s3cret-env"}});
    wire.say(&json!({"type": "mcp/server/register/req", "id": "1", "config": config}));
    let call = waiting(&node);
    let shown = operator(&node, &["--json", "approvals", "show", &call]);
    for (name, value) in [("authorization", "s3cret-header"), ("KEY", "s3cret-env")] {
        assert!(shown.contains(name), "{shown}");
        assert!(!shown.contains(value), "{shown}");
    }
    let kept = std::fs::read_dir(node.data()).unwrap();
    let kept = kept.map(|file| file.unwrap().path());
    for file in kept.filter(|file| file.is_file()) {
        let bytes = std::fs::read(&file).unwrap();
        let has = |word: &[u8]| bytes.windows(word.len()).any(|part| part == word);
        assert!(!has(b"s3cret-header") && !has(b"s3cret-env"), "{file:?}");
    }
}

/// What a registration starts is a program, for rules about programs too; so is a sub-agent that is one.
#[test]
fn rule_about_programs_holds_for_registered_servers_and_sub_agents() {
    let folder = tempfile::tempdir().unwrap();
    let rules = json!([
        {"id": "no_python", "capability": "proc", "name": "python3", "action": "deny"},
        {"id": "no_key", "capability": "proc", "when": "env.KEY == 'x'", "action": "deny"},
    ]);
    let config = json!({
        "plugins": [
            {"name": "tools", "type": "tools"},
            {"name": "mcp", "type": "mcp"},
            {"name": "agents", "type": "multi_agent", "commands": {"worker": ["python3", "-c", ""]}},
        ],
        "policy": {"rules": rules},
    });
    let node = Node::start(folder.path(), &config.to_string());
    let mut wire = node.wire();
    let hello = json!({"type": "handshake/req", "id": "h", "agent_caps": ["mcp", "multi_agent"],
        "auth_token": node.token});
    assert_eq!(wire.ask(&hello)["ok"], true);
    let server = |program: &str, value: &str| {
        json!({"type": "mcp/server/register/req", "config": {"server_id": "own",
            "transport": "stdio", "cmd": [program], "env": {"KEY": value}}})
    };
    let spawn = |model: &str| json!({"type": "multi_agent/spawn", "name": "n", "model": model});
    let asked = [
        (server("python3", ""), json!("no_python")),
        (server("true", "x"), json!("no_key")),
        (server("true", ""), Value::Null),
        (spawn("worker"), json!("no_python")),
        (spawn("default"), Value::Null),
    ];
    for (number, (mut message, rule)) in asked.into_iter().enumerate() {
        message["id"] = json!(number.to_string());
        let answer = ask(&mut wire, &message);
        assert_eq!(answer["detail"]["rule"], rule, "{message}: {answer}");
    }
}
