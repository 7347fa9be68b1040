//! Tools of a node that are WebAssembly components.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::frith;
use crate::node::{Node, Wire};

const CONFIG: &str = "plugins:
  - name: tools
    type: tools
    components: [{name: echo, path: echo.wasm}]
";

/// The example in the text format, as the component of the configuration; `more` makes it another.
fn put(folder: &Path, more: &str) {
    let text = fs::read_to_string(testkit::workspace().join("examples/tools/echo.wat")).unwrap();
    let text = text.replace(";; begin", more);
    fs::write(folder.join("echo.wasm"), wat::parse_str(text).unwrap()).unwrap();
}

fn agent(node: &Node) -> Wire {
    let mut wire = node.wire();
    let hello = json!({"type": "handshake/req", "id": "h", "agent_caps": ["tools"], "auth_token": node.token});
    assert_eq!(wire.ask(&hello)["ok"], true);
    wire
}

fn call(wire: &mut Wire, id: &str) -> Value {
    let arguments = json!({"text": "hi"});
    wire.ask(&json!({"type": "tool/call/req", "id": id, "tool_name": "echo", "arguments": arguments, "streaming": false}))
}

/// Whoever applies a configuration with a large component is told what takes so long.
#[test]
fn a_large_component_is_told_of() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), "plugins: [{name: tools, type: tools}]\n");
    put(folder.path(), "");
    let file = folder.path().join("echo.wasm");
    let mut bytes = fs::read(&file).unwrap();
    // A section that nobody reads: its kind, its size, a name and much of nothing.
    let size = 1_100_000_u32;
    bytes.push(0);
    let mut rest = size;
    while rest >= 0x80 {
        bytes.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
    bytes.extend([1, b'x']);
    bytes.resize(bytes.len() + size as usize - 2, 0);
    fs::write(&file, bytes).unwrap();
    fs::write(folder.path().join("frith.yaml"), CONFIG).unwrap();
    let data = node.data();
    let (status, out, error) = frith(&["config", "apply", "--data", data.to_str().unwrap()], "");
    let applied = format!("applied {}\n", folder.path().join("frith.yaml").display());
    assert_eq!((status, &*out), (0, &*applied), "{error}");
    assert!(
        error.contains("compiling the component `echo` (1 MB)"),
        "{error}"
    );
    let mut wire = agent(&node);
    assert_eq!(call(&mut wire, "1")["data"]["data"]["text"], "hi");
}

/// A component that changes while the node is down is not called, whatever it says of itself.
#[test]
fn a_component_is_a_tool_until_it_changes() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "");
    let node = Node::start(folder.path(), CONFIG);
    let mut wire = agent(&node);
    let answer = call(&mut wire, "1");
    assert_eq!(answer["data"]["data"]["text"], "hi", "{answer}");
    let list = wire.ask(&json!({"type": "tool/list/req", "id": "2", "query": "echo"}));
    assert_eq!(list["tools"][0]["name"], "echo", "{list}");
    drop(wire);
    node.crash();
    put(folder.path(), "(drop (i32.const 1))");
    let node = Node::start(folder.path(), CONFIG);
    let mut wire = agent(&node);
    let answer = call(&mut wire, "3");
    assert_eq!(answer["code"], "tool_denied", "{answer}");
    assert_eq!(answer["detail"]["pin"], "component:echo/echo", "{answer}");
    // Of what runs, people are shown what there is to see.
    let data = node.data();
    let (_, out, _) = frith(&["tools", "pending", "--data", data.to_str().unwrap()], "");
    for shown in ["  -     \"bytes\": ", "  +     \"hash\": \"sha256:"] {
        assert!(out.contains(shown), "{out}");
    }
}
