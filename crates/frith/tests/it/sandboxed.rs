//! What agents run: tools, commands and processes of a node, in the sandbox.

mod command_line;
mod configured;
mod processes;
mod shares;
mod terminal;
mod workspace;

use serde_json::{Value, json};

use crate::node::{Node, Wire};

/// A node with everything that is built in.
const ALL: &str = "plugins: [{name: tools, type: tools}, {name: proc, type: proc, max_procs: 2}]\n";

fn agent(node: &Node) -> Wire {
    let mut wire = node.wire();
    let hello = json!({"type": "handshake/req", "id": "h", "agent_caps": ["tools", "proc"], "auth_token": node.token});
    assert_eq!(wire.ask(&hello)["ok"], true);
    wire
}

fn call(wire: &mut Wire, id: &str, tool: &str, arguments: &Value) -> Value {
    wire.ask(&json!({"type": "tool/call/req", "id": id, "tool_name": tool, "arguments": arguments, "streaming": false}))
}

fn spawn(wire: &mut Wire, id: &str, cmd: &[&str], more: &Value) -> Value {
    let mut request = json!({"type": "proc/spawn/req", "id": id, "cmd": cmd});
    let members = request.as_object_mut().unwrap();
    members.extend(more.as_object().unwrap().clone());
    wire.ask(&request)
}

/// What comes over the streams of a process up to its exit code, which is last.
fn until_exit(wire: &mut Wire) -> (Vec<(String, Value)>, i64) {
    let mut heard = Vec::new();
    for seq in 0.. {
        let event = wire.hear().unwrap();
        assert_eq!(event["type"], "proc/read/event", "{event}");
        assert_eq!(event["seq"], seq, "{event}");
        if let Some(code) = event["data"]["code"].as_i64() {
            let stream = if code == 0 { "stdout" } else { "stderr" };
            assert_eq!(event["stream_type"], stream);
            return (heard, code);
        }
        let stream = event["stream_type"].as_str().unwrap().to_owned();
        heard.push((stream, event["data"].clone()));
    }
    unreachable!()
}
