//! `frith chain`, on a node that runs.

use serde_json::{Value, json};

use crate::frith;
use crate::node::Node;

const PLUGINS: &str = "plugins: [{name: tools, type: tools}, {name: proc, type: proc}, \
                       {name: chains, type: chains}]\n";

#[test]
fn a_chain_runs_tools_and_programs_of_a_node() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), PLUGINS);
    let data = node.data();
    let chain = json!({"chain_id": "c", "entry_node": "write", "nodes": [
        {"node_id": "write", "kind": "tool", "name": "write_file", "next_node": "cat",
            "input_map": {"path": "$.file", "content": "'a line'"}},
        {"node_id": "cat", "kind": "proc", "next_node": "fails", "input": {"command": "cat a.txt"}},
        {"node_id": "fails", "kind": "proc", "on_error": "skip", "input": {"cmd": ["false"]}},
    ]});
    let input = json!({"file": "a.txt"}).to_string();
    let run = ["chain", "run", "-", "--watch", "--json", "--input", &input];
    let data = ["--data", data.to_str().unwrap()];
    let (status, out, told) = frith(&[&run[..], &data].concat(), &chain.to_string());
    let answer: Value = serde_json::from_str(&out).unwrap();
    let cat = &answer["outputs"]["cat"];
    assert_eq!(
        (&cat["status"], &cat["exit_code"]),
        (&json!("completed"), &json!(0)),
        "{out}"
    );
    assert_eq!(cat["stdout"].as_str().map(str::trim_end), Some("a line"));
    // Something failed, though the chain went on.
    assert_eq!(
        (status, &answer["success"], &answer["error"]),
        (1, &json!(false), &Value::Null)
    );
    assert!(
        told.contains("fails  failed: the process ended with code 1"),
        "{told}"
    );
    let (status, _, error) = frith(
        &[&["chain", "run", "-"][..], &data].concat(),
        "{\"nodes\": []}",
    );
    assert_eq!(status, 1);
    assert!(error.contains("bad_entry"), "{error}");
}
