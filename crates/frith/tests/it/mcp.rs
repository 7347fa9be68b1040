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
