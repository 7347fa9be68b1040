//! Queries of agents on SQLite databases, in a node.

use serde_json::{Value, json};

use crate::frith;
use crate::mcp_servers::ask;
use crate::node::{Node, Wire};

fn session(node: &Node, token: &str, capabilities: &[&str]) -> Wire {
    let mut wire = node.wire();
    let hello = json!({"type": "handshake/req", "id": "h", "agent_caps": capabilities,
        "auth_token": token});
    assert_eq!(wire.ask(&hello)["ok"], true);
    wire
}

/// Statements of one agent that need more memory than they may have are refused; the memory of the node
/// does not grow meanwhile, and what another agent stores is stored.
#[test]
fn a_query_that_needs_much_memory_leaves_the_node_and_other_agents_alone() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), "plugins: []\n");
    std::fs::write(node.data().join("workspace/x.db"), "").unwrap();
    let data = node.data();
    let made = [
        "token",
        "new",
        "bob",
        "--json",
        "--data",
        data.to_str().unwrap(),
    ];
    let (status, made, error) = frith(&made, "");
    assert_eq!(status, 0, "{error}");
    let made: Value = serde_json::from_str(&made).unwrap();
    let mut bob = session(&node, made["token"].as_str().unwrap(), &["memory"]);
    let mut eve = session(&node, &node.token, &["tools", "toolkits"]);
    let configure = json!({"type": "toolkit/configure/req", "id": "c", "toolkit_name": "sqlite",
        "config": {"file": "x.db"}});
    assert_eq!(ask(&mut eve, &configure)["status"], "ok");
    // 300 MiB of values at once.
    let values: Vec<String> = (0..150)
        .map(|at| format!("hex(zeroblob({}))", (1 << 20) - at))
        .collect();
    let sql = format!("SELECT {}", values.join(", "));
    node.forget_peak();
    let before = node.memory("VmRSS");
    let ids = ["q0", "q1", "q2", "q3"];
    for id in ids {
        eve.say(
            &json!({"type": "tool/call/req", "id": id, "tool_name": "sqlite_query",
            "arguments": {"sql": sql}}),
        );
    }
    for number in 0..200 {
        let entry = json!({"key": format!("k{number}"), "content": "x", "tier": "episodic"});
        let store =
            json!({"type": "memory/store/req", "id": format!("m{number}"), "entries": [entry]});
        let stored = ask(&mut bob, &store);
        assert_eq!(stored["errors"], json!([]), "{stored}");
    }
    for _ in ids {
        let refused = eve.hear().unwrap();
        let message = refused["message"].as_str().unwrap_or_default();
        assert!(
            message.contains("more memory than it may have"),
            "{refused}"
        );
    }
    let grown = node.memory("VmHWM").saturating_sub(before);
    assert!(grown < 64 * 1024, "{grown} KiB");
    let count = json!({"type": "tool/call/req", "id": "n", "tool_name": "sqlite_query",
        "arguments": {"sql": "SELECT 1"}});
    assert_eq!(ask(&mut eve, &count)["data"]["data"]["rows"], json!([[1]]));
}
