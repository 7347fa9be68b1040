//! Secrets that agents configure: nowhere on the disk in clear, not even while the request is open.

use std::path::Path;

use serde_json::json;

use crate::frith;
use crate::node::Node;

const SECRET: &str = "xyzzy-3cb1f0";

/// The files below a folder that have the secret in them.
fn found(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(self::found(&path));
        }
        // Sockets cannot be read.
        let bytes = std::fs::read(&path).unwrap_or_default();
        let mut windows = bytes.windows(SECRET.len());
        if windows.any(|window| window == SECRET.as_bytes()) {
            found.push(path.display().to_string());
        }
    }
    found
}

#[test]
fn a_secret_is_not_on_the_disk_while_its_request_is_open_nor_after() {
    let folder = tempfile::tempdir().unwrap();
    let config = "plugins: [{name: tools, type: tools}, {name: toolkits, type: toolkits}]\n\
                  policy: {rules: [{id: ask, capability: toolkits, action: require_approval}]}\n";
    let node = Node::start(folder.path(), config);
    let data = node.data();
    let data = data.to_str().unwrap();
    let mut wire = node.wire();
    let hello = json!({"type": "handshake/req", "id": "h", "agent_caps": ["toolkits"], "auth_token": node.token});
    assert_eq!(wire.ask(&hello)["ok"], true);
    let configure = json!({"type": "toolkit/configure/req", "id": "c", "toolkit_name": "http",
        "config": {"hosts": [{"host": "a.example", "headers": {"token": SECRET}}]}});
    wire.say(&configure);
    // What is answered after it was put on record after it.
    assert_eq!(
        wire.ask(&json!({"type": "ping", "id": "p"}))["type"],
        "pong"
    );
    let waiting = (0..).find_map(|_| {
        let (_, out, _) = frith(&["--json", "approvals", "--data", data], "");
        let calls: serde_json::Value = serde_json::from_str(&out).unwrap();
        Some(calls[0]["id"].as_str()?.to_owned())
    });
    assert_eq!(found(&node.data()), [""; 0]);
    let (status, _, error) = frith(&["approve", &waiting.unwrap(), "--data", data], "");
    assert_eq!(status, 0, "{error}");
    let answer = wire.hear().unwrap();
    assert_eq!(answer["status"], "ok", "{answer}");
    assert_eq!(found(&node.data()), [""; 0]);
    // Also when the node is killed with all that is in its memory.
    let folder = node.crash();
    assert_eq!(found(&folder), [""; 0]);
}
