//! A whole node as an MCP server, with all its capabilities, and MCP servers over HTTP behind one.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::json;

use crate::mcp_servers::ask;
use crate::node::{Node, Wire};

const GREET: &str = "---\nname: greet\ndescription: Greets somebody\n---\nSay hello.\n";

/// The Python SDK uses memory, environments, processes, skills and artifacts, over both ways in and in
/// both eras, and hears of a skill that is added.
#[test]
fn the_python_sdk_uses_all_that_a_node_has() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), "{host_id: whole}");
    let data = node.data();
    let skills = data.join("skills");
    std::fs::create_dir_all(skills.join("greet")).unwrap();
    std::fs::write(skills.join("greet/SKILL.md"), GREET).unwrap();
    let frith = env!("CARGO_BIN_EXE_frith");
    let data = data.to_str().unwrap();
    let stdio = ["stdio", frith, "mcp", "--data", data];
    let http = ["http", node.at("mcp"), &node.token];
    for way in [stdio.as_slice(), http.as_slice()] {
        let output = Command::new(testkit::python())
            .arg(testkit::workspace().join("conformance/mcp_whole.py"))
            .arg(&skills)
            .args(way)
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {error}", way[0]);
    }
}

/// The reference server, over a transport of HTTP.
struct Everything {
    process: Child,
    address: String,
}

impl Everything {
    fn start(transport: &str) -> Self {
        let npm = testkit::workspace().join("target/npm/node_modules");
        let program = npm.join("@modelcontextprotocol/server-everything/dist/index.js");
        // It takes a port and tells none: one that was free a moment ago.
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let mut process = Command::new("node")
            .arg(program)
            .arg(transport)
            .env("PORT", address.port().to_string())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut told = BufReader::new(process.stderr.take().unwrap()).lines();
        let is_up = told.any(|line| line.unwrap().contains(&address.port().to_string()));
        assert!(is_up, "the server did not come up");
        // It goes on telling, and must find somebody to listen.
        std::thread::spawn(move || told.for_each(drop));
        Self {
            process,
            address: address.to_string(),
        }
    }
}

impl Drop for Everything {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn agent(folder: &Path, url: &str, transport: &str, private: &str) -> (Node, Wire) {
    let server = json!({"url": url, "transport": transport});
    let config = json!({"plugins": [
        {"name": "tools", "type": "tools"},
        {"name": "mcp", "type": "mcp", "servers": {"all": server}, "private_hosts": [private]},
    ]});
    let node = Node::start(folder, &config.to_string());
    let mut wire = node.wire();
    let hello = json!({"type": "handshake/req", "id": "h", "agent_caps": ["tools", "mcp"],
        "auth_token": node.token});
    assert_eq!(wire.ask(&hello)["ok"], true);
    (node, wire)
}

/// Tools, progress, resources, prompts and completions of the reference server over one transport.
fn uses_everything(started: &str, path: &str, transport: &str) {
    let server = Everything::start(started);
    let folder = tempfile::tempdir().unwrap();
    let url = format!("http://{}/{path}", server.address);
    let (_node, mut wire) = agent(folder.path(), &url, transport, &server.address);
    let prompts = ask(
        &mut wire,
        &json!({"type": "mcp/prompt/list/req", "id": "p", "server_id": "all"}),
    );
    let prompts = prompts["prompts"].as_array().unwrap().clone();
    assert!(
        prompts.iter().any(|one| one["name"] == "simple-prompt"),
        "{prompts:?}"
    );
    let listed = ask(
        &mut wire,
        &json!({"type": "mcp/server/list/req", "id": "l"}),
    );
    let info = &listed["servers"][0];
    assert_eq!(
        (&info["status"], &info["transport"]),
        (&json!("ready"), &json!(transport))
    );
    let echoed = ask(
        &mut wire,
        &json!({"type": "tool/call/req", "id": "1", "tool_name": "all__echo",
            "arguments": {"message": "hi"}, "timeout": 60}),
    );
    assert_eq!(echoed["data"]["data"]["text"], "Echo: hi", "{echoed}");
    wire.say(&json!({"type": "tool/call/req", "id": "2",
        "tool_name": "all__trigger-long-running-operation",
        "arguments": {"duration": 1, "steps": 2}, "streaming": true, "timeout": 60}));
    let mut percents = Vec::new();
    loop {
        let heard = wire.hear().unwrap();
        match heard["type"].as_str().unwrap() {
            "tool/event" => percents.extend(heard["data"]["pct"].as_i64()),
            "tool/call/resp" => break,
            _ => {}
        }
    }
    // The last of it may come together with the answer.
    assert_eq!(percents.first(), Some(&50));
    let resources = ask(
        &mut wire,
        &json!({"type": "mcp/resource/list/req", "id": "3"}),
    );
    let uri = &resources["resources"][0]["uri"];
    let read = ask(
        &mut wire,
        &json!({"type": "mcp/resource/read/req", "id": "4", "uri": uri}),
    );
    assert_eq!(read["contents"][0]["uri"], *uri, "{read}");
    wire.say(
        &json!({"type": "tool/call/req", "id": "5", "tool_name": "all__trigger-sampling-request",
            "arguments": {"prompt": "Say something", "maxTokens": 10}, "timeout": 60}),
    );
    let sampled = loop {
        let heard = wire.hear().unwrap();
        match heard["type"].as_str().unwrap() {
            "mcp/sample/req" => wire.say(
                &json!({"type": "mcp/sample/resp", "id": "s", "req_id": heard["id"],
                    "server_id": "all", "mcp_request_id": heard["mcp_request_id"],
                    "content": {"type": "text", "text": "something"}, "model": "m",
                    "stop_reason": "endTurn"}),
            ),
            "tool/call/resp" | "error" => break heard,
            _ => {}
        }
    };
    let text = sampled["data"]["data"]["text"].as_str().unwrap_or_default();
    assert!(text.contains("something"), "{sampled}");
}

#[test]
fn the_server_of_everything_over_sse() {
    uses_everything("sse", "sse", "sse");
}

#[test]
fn the_server_of_everything_over_streamable_http() {
    uses_everything("streamableHttp", "mcp", "http");
}
