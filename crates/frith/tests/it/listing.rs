//! Lists of what there is: with everything denied by default they have what the agent may use, and
//! nothing else.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::frith;
use crate::node::{Node, Wire};

const CAPABILITIES: [&str; 9] = [
    "tools",
    "toolkits",
    "skill",
    "env",
    "mcp",
    "memory",
    "planning",
    "multi_agent",
    "chains",
];

/// An MCP server in plain Python with a tool, a resource and a prompt of its name.
const SERVER: &str = r#"
import json, sys

name = sys.argv[1]
for line in sys.stdin:
    m = json.loads(line)
    if m.get("id") is None:
        continue
    results = {
        "initialize": {"protocolVersion": "2025-06-18", "serverInfo": {"name": name, "version": "0"},
            "capabilities": {"tools": {}, "resources": {}, "prompts": {}}},
        "tools/list": {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]},
        "resources/list": {"resources": [{"uri": name + "://" + it, "name": it} for it in ("open", "shut")]},
        "prompts/list": {"prompts": [{"name": name + "-prompt"}]},
    }
    if m["method"] in results:
        print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": results[m["method"]]}), flush=True)
    else:
        error = {"code": -32601, "message": "unknown"}
        print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "error": error}), flush=True)
"#;

/// A node whose agents may do what these rules allow.
fn node(folder: &Path, rules: &Value) -> Node {
    let scripts = folder.join("scripts");
    std::fs::create_dir_all(&scripts).unwrap();
    let script = scripts.join("server.py");
    std::fs::write(&script, SERVER).unwrap();
    let server = |name: &str| json!({"command": ["python3", script, name], "readable": [scripts]});
    for name in ["cut", "sew"] {
        let skill = folder.join("skills").join(name);
        std::fs::create_dir_all(&skill).unwrap();
        let text = format!("---\nname: {name}\ndescription: Does it\n---\nDo it.\n");
        std::fs::write(skill.join("SKILL.md"), text).unwrap();
    }
    let config = json!({
        "policy": {"default": "deny", "rules": rules},
        "plugins": [
            {"name": "demo", "type": "demo"},
            {"name": "tools", "type": "tools"},
            {"name": "toolkits", "type": "toolkits"},
            {"name": "skills", "type": "skills", "folders": ["skills"]},
            {"name": "env", "type": "env"},
            {"name": "memory", "type": "memory"},
            {"name": "planning", "type": "planning", "shared": true},
            {"name": "agents", "type": "multi_agent"},
            {"name": "chains", "type": "chains"},
            {"name": "mcp", "type": "mcp", "servers": {"docs": server("docs"), "secret": server("secret")}},
        ],
    });
    Node::start(folder, &config.to_string())
}

fn agent(node: &Node) -> Wire {
    let mut wire = node.wire();
    let hello = json!({"type": "handshake/req", "id": "h", "agent_caps": CAPABILITIES,
        "auth_token": node.token});
    assert_eq!(wire.ask(&hello)["ok"], true);
    wire
}

fn ask(wire: &mut Wire, kind: &str, members: &Value) -> Value {
    static REQUESTS: AtomicUsize = AtomicUsize::new(0);
    let id = REQUESTS.fetch_add(1, Ordering::Relaxed).to_string();
    let mut request = members.clone();
    request["type"] = json!(kind);
    request["id"] = json!(id);
    wire.say(&request);
    loop {
        let heard = wire.hear().unwrap();
        if heard["req_id"] == id && !heard["type"].as_str().unwrap().ends_with("/event") {
            return heard;
        }
    }
}

/// What a list has, by this member of its entries.
fn listed(wire: &mut Wire, kind: &str, list: &str, name: &str) -> Vec<String> {
    let answer = ask(wire, kind, &json!({}));
    let entries = answer[list].as_array();
    assert!(entries.is_some(), "{answer}");
    let names = entries
        .unwrap()
        .iter()
        .map(|it| it[name].as_str().unwrap().to_owned());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// Every list, with the member that has the entries and the one that names each.
const LISTS: [(&str, &str, &str); 10] = [
    ("tool/list/req", "tools", "name"),
    ("toolkit/list/req", "toolkits", "name"),
    ("skill/discover/req", "skills", "name"),
    ("env/list/req", "environments", "name"),
    ("mcp/server/list/req", "servers", "server_id"),
    ("mcp/resource/list/req", "resources", "uri"),
    ("mcp/prompt/list/req", "prompts", "name"),
    ("planning/plan/list", "plans", "plan_id"),
    ("SUBAGENT_LIST_REQ", "subagents", "subagent_id"),
    ("multi_agent/list", "subagents", "subagent_id"),
];

#[test]
fn lists_have_exactly_what_the_agent_may_use() {
    let folder = tempfile::tempdir().unwrap();
    let rules = json!([
        {"capability": "tools", "name": ["echo", "docs__*"], "action": "allow"},
        {"capability": "tools", "name": "current_time", "action": "require_approval"},
        // Some calls of it are allowed.
        {"capability": "tools", "name": "fail", "when": "text == 'x'", "action": "allow"},
        {"capability": "tools", "name": "wait", "when": "text == 'x'", "action": "deny"},
        {"capability": "toolkits", "name": "sqlite", "action": "allow"},
        {"capability": "skill", "name": "cut", "action": "allow"},
        {"capability": "env", "name": "counter", "action": "allow"},
        {"capability": "mcp", "name": "mcp/resource/read/req",
            "when": "server_id == 'docs' && ends_with(uri, 'open')", "action": "allow"},
        {"capability": "mcp", "name": "mcp/prompt/get/req", "when": "server_id == 'docs'",
            "action": "require_approval"},
        {"capability": "planning", "name": ["planning/plan/create", "planning/task/add"],
            "when": "plan_id == 'mine' || name == 'mine'", "action": "allow"},
    ]);
    let node = node(folder.path(), &rules);
    let mut wire = agent(&node);
    let mut list = |(kind, list, name): (&str, &str, &str)| listed(&mut wire, kind, list, name);
    // Asked for their prompts, the servers are waited for.
    assert_eq!(list(LISTS[6]), ["docs-prompt"]);
    assert_eq!(list(LISTS[0]), ["current_time", "docs__t", "echo", "fail"]);
    assert_eq!(list(LISTS[1]), ["sqlite"]);
    assert_eq!(list(LISTS[2]), ["cut"]);
    assert_eq!(list(LISTS[3]), ["counter"]);
    assert_eq!(list(LISTS[4]), ["docs"]);
    assert_eq!(list(LISTS[5]), ["docs://open"]);
    for nothing in &LISTS[7..] {
        assert!(list(*nothing).is_empty(), "{nothing:?}");
    }
    let toolkit = ask(&mut wire, "toolkit/list/req", &json!({}))["toolkits"][0].clone();
    assert_eq!(toolkit["tools"], json!([]), "{toolkit}");
    // A search finds no more.
    let found = ask(
        &mut wire,
        "tool/list/req",
        &json!({"query": "time of day", "include_deferred": true}),
    );
    assert_eq!(found["tools"].as_array().unwrap().len(), 1, "{found}");
    // What is listed can be used, and what is not cannot.
    let called = ask(&mut wire, "tool/call/req", &json!({"tool_name": "echo"}));
    assert_eq!(called["data"]["success"], true, "{called}");
    let called = ask(&mut wire, "tool/call/req", &json!({"tool_name": "wait"}));
    assert_eq!(called["detail"], json!({"rule": "default"}), "{called}");
}

/// Chains of one's own are listed if one may run them.
#[test]
fn own_chains_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let run = json!({"capability": "chains", "name": "chain/req", "action": "allow"});
    let echo = json!({"capability": "tools", "name": "echo", "action": "allow"});
    let node = node(folder.path(), &json!([run, echo]));
    let mut wire = agent(&node);
    let chain = json!({"chain_id": "c", "entry_node": "a", "streaming": false, "nodes": [
        {"node_id": "a", "kind": "tool", "name": "echo", "input": {}}]});
    let ended = ask(&mut wire, "chain/req", &chain);
    assert_eq!(ended["type"], "chain/resp", "{ended}");
    let chains = listed(&mut wire, "chain/list/req", "chains", "chain_id");
    assert_eq!(chains, ["c"]);
}

/// Whoever may use nothing sees that there is nothing, and a rule about a list is about that list.
#[test]
fn only_a_rule_denies_a_list() {
    let folder = tempfile::tempdir().unwrap();
    let node = node(folder.path(), &json!([]));
    let mut wire = agent(&node);
    for (kind, list, name) in LISTS {
        assert!(listed(&mut wire, kind, list, name).is_empty(), "{kind}");
    }
    drop((wire, node));
    let rules = json!([
        {"id": "no-lists", "name": ["tool/list/req", "env/list/req"], "action": "deny"},
        {"id": "no-mcp", "capability": "mcp", "action": "deny"},
        {"action": "allow"},
    ]);
    let node = self::node(folder.path(), &rules);
    let mut wire = agent(&node);
    for (kind, rule) in [
        ("tool/list/req", "no-lists"),
        ("env/list/req", "no-lists"),
        ("mcp/server/list/req", "no-mcp"),
        ("mcp/prompt/list/req", "no-mcp"),
    ] {
        let refused = ask(&mut wire, kind, &json!({}));
        assert_eq!(refused["detail"]["rule"], rule, "{refused}");
    }
    let kits = listed(&mut wire, "toolkit/list/req", "toolkits", "name");
    assert!(kits.contains(&"sqlite".to_owned()), "{kits:?}");
}

/// At the limit of what is asked about at once, and past it.
#[test]
fn permitted_types_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let rules = json!([
        {"capability": "memory", "name": "memory/retrieve/req", "action": "allow"},
        {"capability": "tools", "name": "echo", "action": "allow"},
        {"name": "skill/discover/req", "action": "deny"},
    ]);
    let node = node(folder.path(), &rules);
    let mut wire = agent(&node);
    let types = json!([
        "memory/store/req",
        "memory/retrieve/req",
        "memory/recall",
        "tool/call/req",
        "tool/list/req",
        "skill/list",
        "env/reset/req",
        "env/list/req",
        "chain/show/req",
        "none"
    ]);
    let told = ask(
        &mut wire,
        "policy/permitted/req",
        &json!({ "types": types }),
    );
    let permitted = [
        "memory/retrieve/req",
        "memory/recall",
        "tool/call/req",
        "tool/list/req",
        "env/list/req",
    ];
    assert_eq!(told["types"], json!(permitted), "{told}");
    let many = |count: usize| json!({"types": vec!["none"; count]});
    let told = ask(&mut wire, "policy/permitted/req", &many(256));
    assert_eq!(told["types"], json!([]), "{told}");
    let refused = ask(&mut wire, "policy/permitted/req", &many(257));
    assert_eq!(refused["code"], "schema_violation", "{refused}");
    let text = refused["message"].as_str().unwrap();
    assert!(text.contains("more than 256"), "{refused}");
}

/// The official Python SDK of MCP, in both eras of the protocol.
const CLIENT: &str = r#"
import asyncio, json, sys

import httpx2
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

async def check(client, expected):
    tools = sorted(tool.name for tool in (await client.list_tools()).tools)
    assert tools == expected["tools"], tools
    called = await client.call_tool("echo", {"text": "hi"})
    assert called.structured_content == {"text": "hi"}, called
    denied = await client.call_tool("shell", {})
    assert denied.is_error, denied
    text = denied.content[0].text
    assert "the rule `default` refuses this" in text and "policy" not in text, text
    prompts = sorted(prompt.name for prompt in (await client.list_prompts()).prompts)
    assert prompts == expected["prompts"], prompts
    resources = [str(resource.uri) for resource in (await client.list_resources()).resources]
    assert resources == expected["resources"], resources
    found = await client.call_tool("tool_search", {"query": "echo"})
    found = [tool["name"] for tool in found.structured_content["tools"]]
    assert found == ["echo"], found

async def main():
    url, token, expected, *command = sys.argv[1:]
    expected = json.loads(expected)
    headers = {"Authorization": "Bearer " + token}
    for mode in ("legacy", "auto", "2026-07-28"):
        server = StdioServerParameters(command=command[0], args=command[1:])
        async with Client(server, mode=mode) as client:
            await check(client, expected)
        async with httpx2.AsyncClient(headers=headers, timeout=30) as http:
            async with Client(streamable_http_client(url, http_client=http), mode=mode) as client:
                await check(client, expected)

asyncio.run(main())
"#;

#[cfg(feature = "mcp")]
#[test]
fn python_mcp_sdk_lists_and_calls_what_it_may() {
    let folder = tempfile::tempdir().unwrap();
    let rules = json!([
        {"capability": "tools", "name": "echo", "action": "allow"},
        {"capability": "tools", "name": "current_time", "action": "require_approval"},
        {"capability": "memory", "name": ["memory/init/req", "memory/retrieve/req"], "action": "allow"},
        {"capability": "env", "name": "counter", "action": "allow"},
        {"capability": "skill", "name": "cut", "action": "allow"},
        {"capability": "mcp", "name": "mcp/resource/read/req", "when": "server_id == 'docs' && ends_with(uri, 'open')", "action": "allow"},
    ]);
    let node = node(folder.path(), &rules);
    let expected = json!({
        "tools": ["current_time", "echo", "env_reset", "memory_recall", "tool_search"],
        "prompts": ["cut"],
        "resources": ["docs://open"],
    });
    let data = node.data();
    let output = Command::new(testkit::python())
        .args([
            "-c",
            CLIENT,
            node.at("mcp"),
            &node.token,
            &expected.to_string(),
        ])
        .args([env!("CARGO_BIN_EXE_frith"), "mcp", "--data"])
        .arg(data)
        .output()
        .unwrap();
    crate::mcp::passes(&output);
}

/// The command line lists what its agent may use, too.
#[test]
fn tools_of_the_command_line_are_those_that_are_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let allow = json!({"capability": "tools", "name": "echo", "action": "allow"});
    let node = node(folder.path(), &json!([allow]));
    let data = node.data();
    let words = ["--json", "tools", "--data", data.to_str().unwrap()];
    let (status, out, error) = frith(&words, "");
    assert_eq!(status, 0, "{error}");
    let tools: Value = serde_json::from_str(&out).unwrap();
    let names: Vec<&Value> = tools
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["name"])
        .collect();
    assert_eq!(names, [&json!("echo")]);
}
