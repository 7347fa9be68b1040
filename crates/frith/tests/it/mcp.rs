//! MCP clients that we did not write, and what is refused at `/mcp`.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::frith;
use crate::node::Node;

pub(crate) fn npm() -> PathBuf {
    testkit::workspace().join("target/npm")
}

fn node_script(script: &str, arguments: &[&str]) -> Output {
    Command::new("node")
        .arg(testkit::workspace().join("conformance").join(script))
        .args(arguments)
        .env("NPM", npm())
        .output()
        .unwrap()
}

pub(crate) fn passes(output: &Output) {
    let error = String::from_utf8_lossy(&output.stderr);
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{out}\n{error}");
}

fn python(arguments: &[&str]) -> Output {
    let script = testkit::workspace().join("conformance/mcp_client.py");
    Command::new(testkit::python())
        .arg(script)
        .args(arguments)
        .output()
        .unwrap()
}

/// A node, and the command that is an MCP server with what it has.
fn node(folder: &std::path::Path) -> (Node, Vec<String>) {
    let node = Node::start(folder, "{}");
    let data = node.data().to_str().unwrap().to_owned();
    let words = [env!("CARGO_BIN_EXE_frith"), "mcp", "--data", &data];
    (node, words.map(ToOwned::to_owned).into())
}

#[test]
fn the_typescript_sdk_over_stdio() {
    let folder = tempfile::tempdir().unwrap();
    let (_node, command) = node(folder.path());
    for generation in ["1", "2"] {
        let mut words = vec![generation, "stdio"];
        words.extend(command.iter().map(String::as_str));
        passes(&node_script("mcp_client.mjs", &words));
    }
}

#[test]
fn the_typescript_sdk_over_http() {
    let folder = tempfile::tempdir().unwrap();
    let (node, _) = node(folder.path());
    for generation in ["1", "2"] {
        let words = [generation, "http", node.at("mcp"), &node.token];
        passes(&node_script("mcp_client.mjs", &words));
    }
}

#[test]
fn the_python_sdk_over_stdio_and_http() {
    let folder = tempfile::tempdir().unwrap();
    let (node, command) = node(folder.path());
    let mut words = vec!["stdio"];
    words.extend(command.iter().map(String::as_str));
    passes(&python(&words));
    passes(&python(&["http", node.at("mcp"), &node.token]));
}

#[test]
fn the_inspectors_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let (_node, command) = node(folder.path());
    let inspector = npm().join("node_modules/@modelcontextprotocol/inspector-cli/build");
    let inspect = |method: &[&str]| -> Value {
        let output = Command::new("node")
            .args(["cli.js", "--cli"])
            // It looks there for what it is.
            .current_dir(&inspector)
            .args(&command)
            .args(method)
            .output()
            .unwrap();
        passes(&output);
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let listed = inspect(&["--method", "tools/list"]);
    let tools = listed["tools"].as_array().unwrap();
    assert!(tools.iter().any(|tool| tool["name"] == "echo"), "{listed}");
    let called = inspect(&[
        "--method",
        "tools/call",
        "--tool-name",
        "echo",
        "--tool-arg",
        "text=hi",
    ]);
    assert_eq!(called["structuredContent"], json!({"text": "hi"}));
}

/// Without a node, a host inside the program answers; what it does is what stdio does.
#[test]
fn without_a_node_there_is_a_host_inside() {
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}});
    let told = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call",
        "params": {"name": "current_time", "arguments": {}}});
    let (status, out, error) = frith(&["mcp"], &format!("{hello}\n{told}\n{call}\n"));
    assert_eq!(status, 0, "{error}");
    let answers: Vec<Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(answers[0]["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(answers[1]["result"]["isError"], false, "{out}");
}

/// One request over a connection of its own: its status and its answer.
pub(crate) fn http(
    node: &Node,
    method: &str,
    headers: &[(&str, &str)],
    body: &Value,
) -> (u16, String, String) {
    let address = node.at("http").strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let body = body.to_string();
    let mut head = format!("{method} /mcp HTTP/1.1\r\nconnection: close\r\n");
    if !headers.iter().any(|(name, _)| *name == "host") {
        head += &format!("host: {address}\r\n");
    }
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    head += "content-type: application/json\r\naccept: application/json, text/event-stream\r\n";
    write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_lowercase(), body.to_owned())
}

pub(crate) fn hello() -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}})
}

fn session_of(head: &str) -> String {
    let line = head
        .lines()
        .find_map(|line| line.strip_prefix("mcp-session-id: "));
    line.unwrap().to_owned()
}

/// `/mcp` asks for a token, and for a name and a page of its own, as every other path does
/// (`design.md` §2, "Browsers").
#[test]
fn who_may_not_ask_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (node, _) = node(folder.path());
    let bearer = format!("Bearer {}", node.token);
    let good = ("authorization", bearer.as_str());
    let (status, head, _) = http(&node, "POST", &[], &hello());
    assert_eq!(status, 401);
    assert!(head.contains("www-authenticate: bearer"), "{head}");
    let wrong = ("authorization", "Bearer frith_wrong");
    assert_eq!(http(&node, "POST", &[wrong], &hello()).0, 401);
    let origin = ("origin", "https://evil.example");
    assert_eq!(http(&node, "POST", &[good, origin], &hello()).0, 403);
    let host = ("host", "evil.example");
    assert_eq!(http(&node, "POST", &[good, host], &hello()).0, 421);
    assert_eq!(http(&node, "POST", &[good], &hello()).0, 200);
}

/// The node's own pages may ask without any configuration; those of other ports and names may not.
#[test]
fn own_origin_is_accepted_and_foreign_ones_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let (node, _) = node(folder.path());
    let bearer = format!("Bearer {}", node.token);
    let good = ("authorization", bearer.as_str());
    let own = node.at("http").trim_end_matches('/');
    let port = own.rsplit(':').next().unwrap();
    for (origin, status) in [
        (own.to_owned(), 200),
        (format!("http://evil.example:{port}"), 403),
        ("http://127.0.0.1".to_owned(), 403),
        ("http://127.0.0.1:1".to_owned(), 403),
        ("null".to_owned(), 403),
    ] {
        let headers = [good, ("origin", origin.as_str())];
        assert_eq!(
            http(&node, "POST", &headers, &hello()).0,
            status,
            "{origin}"
        );
    }
    let evil = format!("evil.example:{port}");
    let origin = format!("http://{evil}");
    let headers = [good, ("host", evil.as_str()), ("origin", origin.as_str())];
    assert_eq!(http(&node, "POST", &headers, &hello()).0, 421);
}

#[test]
fn ending_a_session_is_answered_without_content() {
    let folder = tempfile::tempdir().unwrap();
    let (node, _) = node(folder.path());
    let bearer = format!("Bearer {}", node.token);
    let good = ("authorization", bearer.as_str());
    let (_, head, _) = http(&node, "POST", &[good], &hello());
    let id = session_of(&head);
    let headers = [good, ("mcp-session-id", id.as_str())];
    let (status, _, body) = http(&node, "DELETE", &headers, &json!({}));
    assert_eq!((status, body.as_str()), (204, ""));
    assert_eq!(http(&node, "DELETE", &headers, &json!({})).0, 404);
}

/// Calls a tool in a session of its own.
fn call_tool(node: &Node, name: &str, arguments: &Value) -> Value {
    let bearer = format!("Bearer {}", node.token);
    let good = ("authorization", bearer.as_str());
    let (_, head, _) = http(node, "POST", &[good], &hello());
    let id = session_of(&head);
    let headers = [good, ("mcp-session-id", id.as_str())];
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call",
        "params": {"name": name, "arguments": arguments}});
    let (status, _, body) = http(node, "POST", &headers, &call);
    assert_eq!(status, 200, "{body}");
    // The body may come in chunks, each with its size before it.
    let (from, to) = (body.find('{').unwrap(), body.rfind('}').unwrap());
    serde_json::from_str(&body[from..=to]).unwrap()
}

/// What an MCP client remembers has the time at which it did, and the operator finds it by its key.
#[test]
fn memory_over_mcp_is_that_of_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), "plugins: [{name: memory, type: memory}]\n");
    let data = node.data();
    let data = ["--data", data.to_str().unwrap()];
    let before = std::time::SystemTime::now();
    let stored = call_tool(
        &node,
        "memory_store",
        &json!({"key": "pet", "content": "Rex"}),
    );
    assert_eq!(
        stored["result"]["structuredContent"]["stored"],
        json!(["pet"]),
        "{stored}"
    );
    let (status, _, error) = frith(
        &[&["memory", "put", "tea", "green"], &data[..]].concat(),
        "",
    );
    assert_eq!(status, 0, "{error}");
    let recalled = call_tool(&node, "memory_recall", &json!({"keys": ["pet", "tea"]}));
    let entries = &recalled["result"]["structuredContent"]["entries"];
    let keys: std::collections::BTreeSet<_> =
        (0..2).map(|at| entries[at]["key"].as_str()).collect();
    assert_eq!(keys, [Some("pet"), Some("tea")].into(), "{recalled}");
    let (status, out, error) = frith(
        &[&["memory", "get", "pet", "--json"], &data[..]].concat(),
        "",
    );
    assert_eq!(status, 0, "{error}");
    let entry: Value = serde_json::from_str(&out).unwrap();
    let before = before
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_secs_f64();
    for time in ["created_at", "updated_at"] {
        assert!(entry[time].as_f64().unwrap() >= before - 1.0, "{entry}");
    }
    let forgotten = call_tool(&node, "memory_forget", &json!({"keys": ["tea"]}));
    assert_eq!(
        forgotten["result"]["structuredContent"]["deleted"], 1,
        "{forgotten}"
    );
}

/// What the host says to agents of A2E is in the words of MCP.
#[test]
fn mcp_clients_see_no_names_of_a2e_messages() {
    let folder = tempfile::tempdir().unwrap();
    let plugins = ["tools", "memory", "env", "proc"].map(|it| json!({"name": it, "type": it}));
    let node = Node::start(folder.path(), &json!({"plugins": plugins}).to_string());
    for (tool, arguments) in [
        ("no_such_tool", json!({})),
        ("env_reset", json!({"env_name": "nowhere"})),
        ("env_step", json!({"episode_id": "none", "action": {}})),
        ("env_observe", json!({"episode_id": "none"})),
        (
            "memory_store",
            json!({"key": "k", "content": 1, "ttl": "x"}),
        ),
        ("memory_recall", json!({"limit": "x"})),
        ("proc_spawn", json!({"cmd": "x"})),
    ] {
        let answered = call_tool(&node, tool, &arguments).to_string();
        assert!(answered.contains("rror"), "{tool}: {answered}");
        assert!(!answered.contains("/req"), "{tool}: {answered}");
    }
}

/// A session belongs to the agent that began it; its id alone opens nothing.
#[test]
fn a_session_is_its_agents() {
    let folder = tempfile::tempdir().unwrap();
    let (node, _) = node(folder.path());
    let data = node.data();
    let made = frith(
        &["token", "new", "other", "--data", data.to_str().unwrap()],
        "",
    );
    let other = made
        .1
        .split_whitespace()
        .find(|word| word.starts_with("frith_"))
        .unwrap()
        .to_owned();
    let (own, other) = (format!("Bearer {}", node.token), format!("Bearer {other}"));
    let (status, head, _) = http(&node, "POST", &[("authorization", &own)], &hello());
    assert_eq!(status, 200);
    let id = session_of(&head);
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"});
    let with = |token: &str, session: &str, method: &str| {
        let headers = [("authorization", token), ("mcp-session-id", session)];
        http(&node, method, &headers, &list).0
    };
    assert_eq!(with(&own, &id, "POST"), 200);
    assert_eq!(with(&other, &id, "POST"), 404);
    assert_eq!(with(&other, &id, "DELETE"), 404);
    assert_eq!(with(&other, "unknown", "POST"), 404);
    assert_eq!(with(&own, &id, "POST"), 200);
    // A token that is taken back ends what it began.
    let agent = frith(
        &["token", "revoke", "other", "--data", data.to_str().unwrap()],
        "",
    );
    assert_eq!(agent.0, 0, "{}", agent.2);
    assert_eq!(with(&other, "unknown", "POST"), 401);
}

/// An agent has so many sessions and no more; requests of the newer era need none.
#[test]
fn an_agents_sessions_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let (node, _) = node(folder.path());
    let bearer = format!("Bearer {}", node.token);
    let good = ("authorization", bearer.as_str());
    let sessions: Vec<String> = (0..64)
        .map(|_| {
            let (status, head, _) = http(&node, "POST", &[good], &hello());
            assert_eq!(status, 200);
            session_of(&head)
        })
        .collect();
    assert_eq!(http(&node, "POST", &[good], &hello()).0, 429);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "0"},
    });
    let list =
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}});
    let headers = [
        good,
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/list"),
    ];
    let (status, _, body) = http(&node, "POST", &headers, &list);
    assert_eq!(status, 200, "{body}");
    let end = [good, ("mcp-session-id", sessions[0].as_str())];
    assert!(http(&node, "DELETE", &end, &json!({})).0 < 300);
    assert_eq!(http(&node, "POST", &[good], &hello()).0, 200);
}

/// Of many that begin at once, no more than may be.
#[test]
fn sessions_that_begin_at_once_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let (node, _) = node(folder.path());
    let bearer = format!("Bearer {}", node.token);
    let good = ("authorization", bearer.as_str());
    let begun = std::thread::scope(|scope| {
        let begin = || http(&node, "POST", &[good], &hello()).0;
        let all: Vec<_> = (0..128).map(|_| scope.spawn(begin)).collect();
        let all = all.into_iter().map(|one| one.join().unwrap());
        all.filter(|status| *status == 200).count()
    });
    assert!((1..=64).contains(&begun), "{begun}");
}
