//! Held calls, and results that were too large to send.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use super::{AT_ONCE, Amount, FEW, MANY, MOST, done, peak_of, session};
use crate::frith;
use crate::mcp_servers::ask;
use crate::node::Node;

/// Bytes of a held call, about; the operator is shown at most 64 KiB.
const HELD: usize = 60 * 1024;

/// Bytes of a result, each of which is six as JSON: so few that what it took to make it hides no peak.
const RESULT: usize = 1_000_000;

#[expect(clippy::print_stdout, reason = "the figures, for who looks at them")]
fn assert_bounded(peaks: &[(&str, u64)]) {
    println!("{peaks:#?}");
    let is_bounded = peaks.iter().all(|(_, peak)| *peak <= MOST);
    assert!(is_bounded, "more than {MOST} KiB: {peaks:#?}");
}

/// So many calls of one agent wait for the operator.
fn approvals(amount: Amount) {
    let folder = tempfile::tempdir().unwrap();
    let config = "plugins: [{name: demo, type: demo}]\n\
        policy: {rules: [{id: ask, name: echo, action: require_approval}]}\n\
        global_limits: {approval_seconds: 3600}\n";
    let node = Node::start(folder.path(), config);
    let mut wires: Vec<_> = (0..AT_ONCE).map(|number| session(&node, number)).collect();
    let mut ids = vec![String::new(); AT_ONCE];
    let asking = wires.iter_mut().zip(&mut ids).enumerate();
    let asking = asking.map(|(session, (wire, id))| {
        move || {
            for number in 0..amount.held / AT_ONCE {
                let text = format!("{session}.{number}{}", "\u{1}".repeat(HELD / 6));
                let call = json!({"type": "tool/call/req", "id": format!("{session}.{number}"),
                    "tool_name": "echo", "arguments": {"text": text}, "streaming": true});
                let held = wire.ask(&call);
                assert_eq!(held["data"]["status"], "approval_pending", "{held}");
                id.replace_range(.., held["data"]["approval_id"].as_str().unwrap());
            }
        }
    });
    let asking = peak_of(&node, asking.collect());
    let data = node.data();
    let operator = &|words: &[&str]| {
        let words = [words, &["--data", data.to_str().unwrap()]].concat();
        let (status, out, error) = frith(&words, "");
        assert_eq!(status, 0, "{error}");
        out
    };
    let listed = || {
        let listed: Value = serde_json::from_str(&operator(&["--json", "approvals"])).unwrap();
        assert_eq!(listed.as_array().unwrap().len(), amount.held);
    };
    let listing = peak_of(&node, vec![listed; AT_ONCE]);
    let showing = ids
        .iter()
        .map(|id| move || assert!(operator(&["--json", "approvals", "show", id]).len() > HELD));
    let showing = peak_of(&node, showing.collect());
    assert_bounded(&[
        ("asked for", asking),
        ("listed", listing),
        ("shown", showing),
    ]);
}

/// A session of a client of MCP.
struct Mcp {
    address: String,
    token: String,
    session: Option<String>,
}

impl Mcp {
    fn begin(node: &Node) -> Self {
        let address = node.at("mcp").strip_prefix("http://").unwrap();
        let mut mcp = Self {
            address: address.strip_suffix("/mcp").unwrap().to_owned(),
            token: node.token.clone(),
            session: None,
        };
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "test", "version": "0"}});
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello});
        let (head, _) = mcp.post(&hello);
        let id = head
            .lines()
            .find_map(|line| line.strip_prefix("mcp-session-id: "));
        mcp.session = Some(id.unwrap().to_owned());
        mcp.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        mcp
    }

    fn ask(&self, method: &str, params: &Value) -> Value {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let (head, body) = self.post(&request);
        assert!(body.contains('{'), "{head}{body}");
        let from = body.find('{').unwrap();
        let mut answer = serde_json::Deserializer::from_str(&body[from..]).into_iter::<Value>();
        answer.next().unwrap().unwrap()["result"].take()
    }

    /// The head and the body of what is answered.
    fn post(&self, message: &Value) -> (String, String) {
        let body = message.to_string();
        let session = self.session.as_ref();
        let session = session.map_or_else(String::new, |id| format!("mcp-session-id: {id}\r\n"));
        let request = format!(
            "POST /mcp HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\n{session}\
             content-type: application/json\r\naccept: application/json, text/event-stream\r\n\
             connection: close\r\ncontent-length: {}\r\n\r\n{body}",
            self.address,
            self.token,
            body.len()
        );
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), body.to_owned())
    }
}

/// So many large results are kept for one agent, which reads them.
fn artifacts(amount: Amount) {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), "plugins: []\nsandbox: none\n");
    let call = |id: &str, tool: &str, arguments: Value| {
        json!({"type": "tool/call/req", "id": id, "tool_name": tool, "arguments": arguments,
            "streaming": false})
    };
    let writing = |bytes: usize, byte: &str| json!({"command": format!("head -c {bytes} /dev/zero | tr '\\0' '{byte}'")});
    let mut wire = session(&node, 100);
    let ids = (0..amount.artifacts).map(|number| {
        let byte = if number == 0 { "\\n" } else { "\\001" };
        let call = call(&format!("w{number}"), "run_command", writing(RESULT, byte));
        let made = done(&mut wire, &call);
        let id = &made["data"]["data"]["artifacts"]["stdout"]["id"];
        assert!(id.is_string(), "{made}");
        id.as_str().unwrap().to_owned()
    });
    let ids: Vec<String> = ids.collect();
    let (lines, long) = (&ids[0], &ids[1]);
    let search = |id: &str, pattern: &str| {
        (
            "artifact_search",
            json!({"id": id, "pattern": pattern, "limit": 200}),
        )
    };
    let mut peaks = Vec::new();
    let clients: Vec<Mcp> = (0..AT_ONCE).map(|_| Mcp::begin(&node)).collect();
    for client in &clients {
        let call = json!({"name": "run_command", "arguments": writing(100_000, "x")});
        assert_eq!(client.ask("tools/call", &call)["isError"], false);
    }
    for (name, method, params, member) in [
        ("listed over MCP", "resources/list", json!({}), "resources"),
        (
            "read over MCP",
            "resources/read",
            json!({"uri": format!("frith://artifact/{long}")}),
            "contents",
        ),
    ] {
        let reads = clients.iter().map(|client| {
            let params = &params;
            move || {
                let answer = client.ask(method, params);
                assert_ne!(answer[member].as_array().map_or(0, Vec::len), 0, "{answer}");
            }
        });
        peaks.push((name, peak_of(&node, reads.collect())));
    }
    for (name, (tool, arguments)) in [
        ("read", ("artifact_read", json!({"id": long}))),
        ("searched for lines", search(lines, "^")),
        ("searched for a long line", search(long, "\\x01")),
        (
            "searched for nothing",
            search(long, "(\\x01{1,50}y?){1,50}x"),
        ),
    ] {
        let mut wires: Vec<_> = (0..AT_ONCE).map(|number| session(&node, number)).collect();
        let calls = wires.iter_mut().enumerate().map(|(number, wire)| {
            let call = call(&format!("{name}{number}"), tool, arguments.clone());
            move || {
                let answer = ask(wire, &call);
                // An expression may take longer than a call, but not more memory.
                let took_too_long = name == "searched for nothing" && answer["code"] == "timeout";
                assert!(
                    took_too_long || answer["data"]["success"] == true,
                    "{answer}"
                );
            }
        });
        peaks.push((name, peak_of(&node, calls.collect())));
    }
    assert_bounded(&peaks);
}

#[test]
fn eight_readings_of_held_calls_stay_below_64_mib() {
    approvals(FEW);
}

#[test]
fn eight_readings_of_artifacts_stay_below_64_mib() {
    artifacts(FEW);
}

#[test]
#[ignore = "takes minutes: `cargo xtask full` runs it"]
fn peak_memory_of_the_largest_held_calls() {
    approvals(MANY);
}

#[test]
#[ignore = "takes minutes: `cargo xtask full` runs it"]
fn peak_memory_of_the_largest_artifacts() {
    artifacts(MANY);
}
