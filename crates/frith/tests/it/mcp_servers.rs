//! MCP servers that we did not write, behind a node.

use std::path::Path;

use serde_json::{Value, json};

use crate::frith;
use crate::node::{Node, Wire};

/// The configuration of a node with these servers.
pub(crate) fn with_servers(servers: &Value) -> String {
    let config = json!({"plugins": [
        {"name": "tools", "type": "tools"},
        {"name": "mcp", "type": "mcp", "servers": servers},
    ]});
    config.to_string()
}

/// A node with these servers. Of what they need, the packages of the tests are readable.
fn node(folder: &Path, servers: &Value) -> (Node, Wire) {
    let node = Node::start(folder, &with_servers(servers));
    let wire = agent(&node);
    (node, wire)
}

pub(crate) fn agent(node: &Node) -> Wire {
    let mut wire = node.wire();
    let hello = json!({"type": "handshake/req", "id": "h", "agent_caps": ["tools", "mcp"],
        "auth_token": node.token});
    assert_eq!(wire.ask(&hello)["ok"], true);
    wire
}

/// Asks for something, passing over what nobody asked for.
pub(crate) fn ask(wire: &mut Wire, message: &Value) -> Value {
    wire.say(message);
    loop {
        let heard = wire.hear().unwrap();
        let is_event = heard["type"].as_str().unwrap().ends_with("/event");
        if heard["req_id"] == message["id"] && !is_event {
            return heard;
        }
    }
}

pub(crate) fn call(wire: &mut Wire, id: &str, tool: &str, arguments: &Value) -> Value {
    ask(
        wire,
        &json!({"type": "tool/call/req", "id": id, "tool_name": tool, "arguments": arguments,
            "timeout": 60}),
    )
}

/// Has the node connect to a server now: asking for its prompts waits for it.
pub(crate) fn wake(wire: &mut Wire, id: &str, server: &str) -> Value {
    ask(
        wire,
        &json!({"type": "mcp/prompt/list/req", "id": id, "server_id": server}),
    )
}

/// A program of the Python packages of the tests.
pub(crate) fn python_module(module: &str, more: &Value) -> Value {
    // The sandbox has the folder at its real path; what is linked to from there may lie anywhere.
    let packages = testkit::workspace().join("target/python");
    let packages = packages.canonicalize().unwrap();
    let python = packages.join("bin/python3");
    let real = python.canonicalize().unwrap();
    let home = real.parent().and_then(Path::parent).unwrap();
    let mut server = json!({
        "command": [python, "-m", module],
        "readable": [packages, home],
    });
    let members = server.as_object_mut().unwrap();
    members.extend(more.as_object().unwrap().clone());
    server
}

/// A section of its own takes nothing away that a node has without it.
#[test]
fn servers_beside_all_that_is_built_in() {
    let folder = tempfile::tempdir().unwrap();
    let server = python_module("mcp_server_time", &json!({}));
    let config = json!({"mcp": {"servers": {"time": server}}});
    let node = Node::start(folder.path(), &config.to_string());
    let mut wire = agent(&node);
    wake(&mut wire, "w", "time");
    let noon = json!({"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"});
    let converted = call(&mut wire, "1", "time__convert_time", &noon);
    assert_eq!(converted["data"]["success"], true, "{converted}");
    let told = call(&mut wire, "2", "current_time", &json!({}));
    assert_eq!(told["data"]["success"], true, "{told}");
}

#[test]
fn the_time_server() {
    let folder = tempfile::tempdir().unwrap();
    let args = json!({"args": ["--local-timezone", "Europe/Paris"]});
    let (_node, mut wire) = node(
        folder.path(),
        &json!({"time": python_module("mcp_server_time", &args)}),
    );
    wake(&mut wire, "w", "time");
    let converted = call(
        &mut wire,
        "1",
        "time__convert_time",
        &json!({"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}),
    );
    let text = converted["data"]["data"]["text"].as_str().unwrap();
    assert!(text.contains("21:00"), "{converted}");
    let wrong = call(
        &mut wire,
        "2",
        "time__get_current_time",
        &json!({"timezone": "Nowhere"}),
    );
    assert_eq!(wrong["data"]["success"], false, "{wrong}");
    let listed = ask(
        &mut wire,
        &json!({"type": "mcp/server/list/req", "id": "3"}),
    );
    assert_eq!(listed["servers"][0]["status"], "ready");
    assert_eq!(listed["servers"][0]["tools_count"], 2);
}

#[test]
fn the_git_server() {
    let folder = tempfile::tempdir().unwrap();
    let (node, mut wire) = node(
        folder.path(),
        // Each program has a user of its own, and git asks whose a repository is.
        &json!({"git": python_module("mcp_server_git", &json!({"env": {
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "safe.directory",
            "GIT_CONFIG_VALUE_0": "*",
        }}))}),
    );
    let workspace = node.data().join("workspace");
    wake(&mut wire, "w", "git");
    let made = call(
        &mut wire,
        "1",
        "run_command",
        &json!({"command": "git init -q . && echo ok"}),
    );
    assert_eq!(made["data"]["success"], true, "{made}");
    let status = call(
        &mut wire,
        "2",
        "git__git_status",
        &json!({"repo_path": workspace}),
    );
    let text = status["data"]["data"]["text"].to_string();
    assert!(text.contains("No commits yet"), "{status}");
}

/// The reference server of everything: tools, progress, pictures, resources, prompts, sampling, roots.
#[test]
#[expect(clippy::too_many_lines, reason = "one story, told in order")]
fn the_server_of_everything() {
    let folder = tempfile::tempdir().unwrap();
    let npm = testkit::workspace().join("target/npm");
    let program = npm.join("node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    let server =
        json!({"command": ["node", program, "stdio"], "readable": [npm], "memory": 8_u64 << 30});
    let (_node, mut wire) = node(folder.path(), &json!({"all": server}));
    let prompts = wake(&mut wire, "w", "all");
    let names: Vec<_> = prompts["prompts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].clone())
        .collect();
    assert!(names.contains(&json!("simple-prompt")), "{prompts}");

    let echoed = call(&mut wire, "1", "all__echo", &json!({"message": "hi"}));
    assert_eq!(echoed["data"]["data"]["text"], "Echo: hi", "{echoed}");
    let picture = call(&mut wire, "2", "all__get-tiny-image", &json!({}));
    assert_eq!(
        picture["data"]["data"]["images"][0]["mimeType"], "image/png",
        "{picture}"
    );

    // Progress comes as events, in order.
    wire.say(&json!({"type": "tool/call/req", "id": "3", "tool_name": "all__trigger-long-running-operation",
        "arguments": {"duration": 1, "steps": 4}, "streaming": true, "timeout": 60}));
    let mut percents = Vec::new();
    loop {
        let heard = wire.hear().unwrap();
        match heard["type"].as_str().unwrap() {
            "tool/event" => percents.extend(heard["data"]["pct"].as_i64()),
            "tool/call/resp" => break,
            _ => {}
        }
    }
    assert_eq!(percents, [25, 50, 75, 100]);

    let resources = ask(
        &mut wire,
        &json!({"type": "mcp/resource/list/req", "id": "4"}),
    );
    let uri = resources["resources"][0]["uri"].clone();
    let read = ask(
        &mut wire,
        &json!({"type": "mcp/resource/read/req", "id": "5", "uri": uri}),
    );
    assert_eq!(read["contents"][0]["uri"], uri, "{read}");
    let subscribed = ask(
        &mut wire,
        &json!({"type": "mcp/resource/subscribe/req", "id": "6", "uri": uri}),
    );
    assert_eq!(subscribed["ok"], true, "{subscribed}");
    let prompt = ask(
        &mut wire,
        &json!({"type": "mcp/prompt/get/req", "id": "7", "name": "args-prompt",
        "arguments": {"city": "Basel"}}),
    );
    assert!(
        prompt["messages"][0]["content"]["text"]
            .as_str()
            .unwrap()
            .contains("Basel"),
        "{prompt}"
    );

    // It is told the folders that an agent is told, by either name of the request.
    for request in ["mcp/root/list/req", "mcp/roots/list/req"] {
        let told = ask(
            &mut wire,
            &json!({"type": request, "id": request, "server_id": "all"}),
        );
        let root = &told["roots"][0];
        assert_eq!(root["name"], "workspace", "{told}");
        let workspace = std::fs::canonicalize(folder.path().join("data/workspace")).unwrap();
        assert_eq!(root["uri"], format!("file://{}", workspace.display()));
        let roots = call(
            &mut wire,
            &format!("c{request}"),
            "all__get-roots-list",
            &json!({}),
        );
        let text = roots["data"]["data"]["text"].as_str().unwrap();
        assert!(text.contains(root["uri"].as_str().unwrap()), "{roots}");
    }

    // It asks for a completion; the agent's model answers.
    wire.say(
        &json!({"type": "tool/call/req", "id": "8", "tool_name": "all__trigger-sampling-request",
        "arguments": {"prompt": "Say something", "maxTokens": 10}, "timeout": 60}),
    );
    let sampled = loop {
        let heard = wire.hear().unwrap();
        match heard["type"].as_str().unwrap() {
            "mcp/sample/req" => {
                assert_eq!(heard["server_id"], "all");
                assert!(
                    heard["messages"][0]["content"]["text"]
                        .as_str()
                        .unwrap()
                        .contains("Say something")
                );
                wire.say(&json!({"type": "mcp/sample/resp", "id": "s", "req_id": heard["id"],
                    "server_id": "all", "mcp_request_id": heard["mcp_request_id"], "role": "assistant",
                    "content": {"type": "text", "text": "something"}, "model": "m", "stop_reason": "endTurn"}));
            }
            "tool/call/resp" | "error" => break heard,
            _ => {}
        }
    };
    assert!(
        sampled["data"]["data"]["text"]
            .as_str()
            .unwrap()
            .contains("something"),
        "{sampled}"
    );
}

/// A server that takes the folders that it is told for those of its command line, as
/// `@modelcontextprotocol/server-filesystem` does.
const FOLDERS: &str = r#"
import json, sys
from urllib.parse import unquote, urlparse

def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

def answer(id):
    say(id=id, result={"content": [{"type": "text", "text": json.dumps(allowed)}]})

allowed, has_roots, waiting = sys.argv[1:], True, []
for line in sys.stdin:
    m = json.loads(line)
    method, id = m.get("method"), m.get("id")
    if method == "initialize":
        has_roots = "roots" in m["params"]["capabilities"]
        say(id=id, result={"protocolVersion": "2025-06-18", "serverInfo": {"name": "folders", "version": "0"},
            "capabilities": {"tools": {}, "prompts": {}}})
    elif method == "notifications/initialized" and has_roots:
        say(id="roots", method="roots/list")
    elif id == "roots":
        allowed = [unquote(urlparse(root["uri"]).path) for root in m["result"]["roots"]] or allowed
        has_roots = False
        for call in waiting:
            answer(call)
    elif method == "tools/list":
        say(id=id, result={"tools": [{"name": "allowed", "inputSchema": {"type": "object"}}]})
    elif method == "tools/call" and has_roots:
        waiting.append(id)
    elif method == "tools/call":
        answer(id)
    elif id is not None:
        say(id=id, result={"prompts": []})
"#;

/// A server is told the folders that it can reach, so that it takes the one of its command line.
#[test]
fn roots_of_a_server_are_its_own_folders() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap();
    let docs = path.join("my docs");
    std::fs::create_dir_all(&docs).unwrap();
    let scripts = path.join("scripts");
    std::fs::create_dir_all(&scripts).unwrap();
    let script = scripts.join("folders.py");
    std::fs::write(&script, FOLDERS).unwrap();
    let server = |more: Value| {
        let mut server = json!({"command": ["python3", script, docs], "readable": [docs, scripts]});
        server
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        server
    };
    let servers = json!({
        "usual": server(json!({})),
        "named": server(json!({"roots": [docs]})),
        "none": server(json!({"roots": []})),
    });
    let (_node, mut wire) = node(&path, &servers);
    let workspace = path.join("data/workspace");
    for (name, expected) in [
        ("usual", vec![&workspace, &docs, &scripts]),
        ("named", vec![&docs]),
        // Told none, it keeps that of its command line.
        ("none", vec![&docs]),
    ] {
        wake(&mut wire, &format!("w{name}"), name);
        let allowed = call(&mut wire, name, &format!("{name}__allowed"), &json!({}));
        let text = allowed["data"]["data"]["text"].as_str().unwrap();
        let allowed: Vec<std::path::PathBuf> = serde_json::from_str(text).unwrap();
        assert_eq!(allowed.iter().collect::<Vec<_>>(), expected, "{name}");
    }
    let told = ask(
        &mut wire,
        &json!({"type": "mcp/root/list/req", "id": "r", "server_id": "named"}),
    );
    assert_eq!(told["roots"][0]["name"], "my docs", "{told}");
}

/// A server of the configuration that nobody answers for is not passed over in silence.
#[test]
fn a_server_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let servers = json!({"gone": {"command": ["/no/such/program"]}});
    let node = Node::start(folder.path(), &with_servers(&servers));
    // Asked for its prompts, the node tries it.
    wake(&mut agent(&node), "p", "gone");
    let data = node.data();
    let data = data.to_str().unwrap();
    let (status, out, error) = frith(&["status", "--data", data], "");
    assert_eq!(status, 0, "{error}");
    assert!(out.contains("servers  1 MCP server: 1 not there"), "{out}");
    assert!(out.contains("         gone (error): "), "{out}");
    assert!(out.contains("`gone` under `mcp.servers`"), "{out}");
}

/// What a server writes on its standard error, and how it ends, is what its operator sees of a failed
/// start; agents are told how it ended, not what it wrote.
#[test]
fn the_operator_sees_why_a_server_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let script = "echo 'no module named that' >&2; exit 3";
    let servers = json!({
        "broken": {"command": ["sh", "-c", script], "auto_reconnect": false},
        "time": python_module("mcp_server_time", &json!({})),
    });
    let node = Node::start(folder.path(), &with_servers(&servers));
    let mut wire = agent(&node);
    let refused = wake(&mut wire, "p", "broken");
    let text = refused.to_string();
    assert!(
        text.contains("it exited with code 3 before it answered"),
        "{text}"
    );
    assert!(!text.contains("no module named that"), "{text}");
    wake(&mut wire, "t", "time");
    let data = node.data();
    let data = data.to_str().unwrap();
    let run = |words: &[&str]| {
        let words: Vec<&str> = words.iter().copied().chain(["--data", data]).collect();
        frith(&words, "")
    };
    let (status, out, error) = run(&["status"]);
    assert_eq!(status, 0, "{error}");
    for part in [
        "2 MCP servers: 1 not there, 1 running",
        "broken (error): it exited with code 3 before it answered",
        "           no module named that",
        "`frith mcp logs broken`",
    ] {
        assert!(out.contains(part), "{part} in {out}");
    }
    let (_, out, _) = run(&["mcp", "list"]);
    assert!(out.contains("broken  not there"), "{out}");
    assert!(out.contains("time    running           2 tools"), "{out}");
    let (status, out, _) = run(&["mcp", "logs", "broken"]);
    assert_eq!(status, 0);
    assert!(
        out.contains("no module named that\n") && out.contains("[frith] it exited with code 3\n"),
        "{out}"
    );
    let (status, _, error) = run(&["mcp", "restart", "broken"]);
    assert_eq!(status, 1);
    assert!(
        error.contains("code 3 before it answered\n  no module named that"),
        "{error}"
    );
    let (_, out, _) = run(&["mcp", "show", "time", "--json"]);
    let shown: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(shown["server"]["starts"], 1);
    let (status, out, _) = run(&["mcp", "restart", "time", "--json"]);
    assert_eq!(status, 0, "{out}");
    let shown: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(shown["server"]["starts"], 2);
    assert_eq!(shown["tools"][0]["name"], "time__get_current_time", "{out}");
    let (status, _, error) = run(&["mcp", "test", "nobody"]);
    assert_eq!(status, 1);
    assert!(error.contains("it has broken, time"), "{error}");
}

/// What other programs need to start this one is put beside what they have.
#[test]
fn the_files_of_other_programs_get_this_node() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(".cursor/mcp.json");
    let config = |words: &[&str]| {
        let words: Vec<&str> = ["mcp", "config"].iter().chain(words).copied().collect();
        crate::frith_in(folder.path(), &words, "")
    };
    let (status, out, error) = config(&["cursor", "--data", "data"]);
    assert_eq!(status, 0, "{error}");
    let snippet: Value = serde_json::from_str(&out).unwrap();
    let data = folder.path().join("data");
    let own = &snippet["mcpServers"]["frith"];
    assert_eq!(own["args"], json!(["mcp", "--data", data]));
    assert!(error.contains("# .cursor/mcp.json"), "{error}");
    assert!(!file.exists());
    std::fs::create_dir(folder.path().join(".cursor")).unwrap();
    std::fs::write(&file, r#"{"mcpServers": {"a": {"command": "x"}}}"#).unwrap();
    let (status, out, error) = config(&["cursor", "--data", "data", "--write"]);
    assert_eq!(status, 0, "{error}");
    assert!(out.contains("+     \"frith\": {"), "{out}");
    let written: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(written["mcpServers"]["a"], json!({"command": "x"}));
    assert_eq!(&written["mcpServers"]["frith"], own);
}
