//! `frith status`: what an operator sees of a node that runs.

use std::os::unix::net::UnixListener;

use serde_json::{Value, json};

use crate::frith;
use crate::node::Node;

#[test]
fn a_node_says_how_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let held = "policy: {rules: [{name: echo, action: require_approval}]}\n";
    let mut node = Node::start(folder.path(), held);
    let data = node.data();
    let data = data.to_str().unwrap();
    let ask = || -> Value {
        let (status, out, error) = frith(&["status", "--data", data, "--json"], "");
        assert_eq!(status, 0, "{error}");
        serde_json::from_str(&out).unwrap()
    };
    let before = ask();
    assert_eq!(before["sessions"], 0);
    assert_eq!(before["endpoints"], node.endpoints);
    assert_eq!(before["sandbox"]["tree_memory"], false);
    assert_eq!(before["peers"]["known"], 0);
    assert_eq!(before["audit"]["problem"], Value::Null);
    assert!(before["store"]["bytes"].as_u64().unwrap() > 0, "{before}");
    let mut wire = node.wire();
    let hello = json!({"type": "handshake/req", "id": "1", "agent_caps": ["tools"], "auth_token": node.token});
    assert_eq!(wire.ask(&hello)["ok"], true);
    let call = json!({"type": "tool/call/req", "id": "2", "tool_name": "echo", "arguments": {"text": "x"}, "streaming": true});
    // Its first event is that it is held.
    assert_eq!(wire.ask(&call)["data"]["status"], "approval_pending");
    let during = ask();
    assert_eq!(during["sessions"], 1);
    assert_eq!(during["pending_approvals"], 1);
    let seq = |status: &Value| status["audit"]["seq"].as_u64().unwrap();
    assert!(seq(&during) > seq(&before), "{before} {during}");
    let (status, out, _) = frith(&["status", "--data", data], "");
    assert_eq!(status, 0);
    assert!(
        out.contains("sessions 1; 1 call is waiting for approval"),
        "{out}"
    );
    node.signal("-KILL");
    node.wait();
    let (status, _, error) = frith(&["status", "--data", data], "");
    assert_eq!(status, 1);
    assert!(error.contains("no node is running"), "{error}");
}

/// A node that was killed may take the connection, and never answer it.
#[test]
fn waiting_goes_on_when_a_node_ends_before_it_answers() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = Node::start(folder.path(), "");
    node.signal("-KILL");
    node.wait();
    let data = node.data();
    let socket = data.join("operator.sock");
    std::fs::remove_file(&socket).unwrap();
    let listener = UnixListener::bind(&socket).unwrap();
    std::thread::scope(|scope| {
        let status =
            scope.spawn(|| frith(&["status", "--wait", "--data", data.to_str().unwrap()], ""));
        drop(listener.accept().unwrap());
        drop(listener);
        std::fs::remove_file(&socket).unwrap();
        let _node = Node::start(folder.path(), "");
        let (status, out, error) = status.join().unwrap();
        assert_eq!(status, 0, "{out}{error}");
    });
}
