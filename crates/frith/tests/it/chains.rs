//! `frith chain`, on a node that runs.

use std::path::Path;

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

/// A chain whose second node does not end as long as there is no file `gate`.
fn waiting() -> Value {
    let write = |id: &str, next: &str| {
        json!({"node_id": id, "kind": "tool", "name": "write_file", "next_node": next,
            "input": {"path": format!("{id}.txt"), "content": id}})
    };
    let wait = "test -e gate || exec sleep 1000";
    json!({"type": "chain/req", "id": "c", "chain_id": "waits", "entry_node": "first", "nodes": [
        write("first", "wait"),
        {"node_id": "wait", "kind": "proc", "next_node": "last", "on_error": "skip",
            "input": {"command": ["sh", "-c", wait]}},
        write("last", "")]})
}

/// Runs a chain until its second node has begun, and then kills the node.
fn killed(folder: &Path, chain: &Value) {
    killed_at(folder, chain, "wait", &|| true);
}

/// Runs a chain until this node of it has begun, and done what it is waited for; then kills the node.
fn killed_at(folder: &Path, chain: &Value, id: &str, is_done: &dyn Fn() -> bool) {
    let node = Node::start(folder, PLUGINS);
    let mut wire = node.wire();
    let caps = ["tools", "proc", "chains"];
    let hello =
        json!({"type": "handshake/req", "id": "h", "agent_caps": caps, "auth_token": node.token});
    assert_eq!(wire.ask(&hello)["ok"], true);
    wire.say(chain);
    loop {
        let heard = wire.hear().unwrap();
        assert_eq!(heard["type"], "chain/event", "{heard}");
        if heard["node_id"] == id {
            break;
        }
    }
    while !is_done() {
        std::thread::yield_now();
    }
    node.crash();
}

/// What a chain has come to, once it has ended.
fn ended(node: &Node) -> Value {
    let data = node.data();
    let data = data.to_str().unwrap();
    loop {
        let (status, out, error) = frith(&["chain", "show", "1", "--json", "--data", data], "");
        assert_eq!(status, 0, "{error}");
        let shown: Value = serde_json::from_str(&out).unwrap();
        if shown["state"] != "running" && shown["state"] != "cut_off" {
            return shown;
        }
    }
}

/// After `kill -9` the next process goes on by itself.
#[test]
fn a_chain_goes_on_after_its_node_was_killed() {
    let folder = tempfile::tempdir().unwrap();
    killed(folder.path(), &waiting());
    let workspace = folder.path().join("data/workspace");
    assert!(workspace.join("first.txt").exists());
    assert!(!workspace.join("last.txt").exists());
    let node = Node::start(folder.path(), PLUGINS);
    let shown = ended(&node);
    // Nobody knows what became of the program, and the chain says to go on.
    let states = shown["nodes"].as_array().unwrap().iter();
    let states: Vec<&str> = states.map(|it| it["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["done", "failed", "done"], "{shown}");
    assert_eq!(shown["resumed"], 1);
    assert!(workspace.join("last.txt").exists());
    let data = node.data();
    let data = ["--data", data.to_str().unwrap()];
    let (status, out, _) = frith(&[&["chain", "list"][..], &data].concat(), "");
    assert_eq!(status, 0);
    assert!(out.contains("1  failed    waits"), "{out}");
    let (status, _, error) = frith(&[&["chain", "resume", "1"][..], &data].concat(), "");
    assert_eq!(status, 1);
    assert!(error.contains("chain 1 has ended"), "{error}");
}

/// `kill -9` at each node: what was done before it is not done again, and what follows is done once.
#[test]
fn a_chain_goes_on_wherever_its_node_was_killed() {
    for at in 0..3 {
        let folder = tempfile::tempdir().unwrap();
        let nodes = (0..3).map(|n| {
            let wait = if n == at { "test -e gate || exec sleep 1000" } else { "true" };
            let next = if n < 2 { format!("n{}", n + 1) } else { String::new() };
            json!({"node_id": format!("n{n}"), "kind": "proc", "next_node": next, "idempotent": true,
                "input": {"command": ["sh", "-c", format!("echo {n} >> log; {wait}")]}})
        });
        let chain = json!({"type": "chain/req", "id": "c", "entry_node": "n0",
            "nodes": nodes.collect::<Vec<_>>()});
        let workspace = folder.path().join("data/workspace");
        let log = || std::fs::read_to_string(workspace.join("log")).unwrap_or_default();
        let has_begun = || log().lines().count() == at + 1;
        killed_at(folder.path(), &chain, &format!("n{at}"), &has_begun);
        std::fs::write(workspace.join("gate"), "").unwrap();
        let node = Node::start(folder.path(), PLUGINS);
        let shown = ended(&node);
        assert_eq!(shown["state"], "done", "{shown}");
        let expected = (0..=at).chain(at..3).map(|n| format!("{n}\n"));
        assert_eq!(log(), expected.collect::<String>(), "{at}");
    }
}

/// The operator's agent cancels a chain that runs: its program ends, and nobody goes on with it.
#[test]
fn a_chain_is_cancelled_from_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), PLUGINS);
    let mut wire = node.wire();
    let hello = json!({"type": "handshake/req", "id": "h", "auth_token": node.token,
        "agent_caps": ["tools", "proc", "chains"]});
    assert_eq!(wire.ask(&hello)["ok"], true);
    wire.say(&waiting());
    while wire.hear().unwrap()["node_id"] != "wait" {}
    let data = node.data();
    let data = ["--data", data.to_str().unwrap()];
    let (status, _, error) = frith(&[&["chain", "cancel", "1"][..], &data].concat(), "");
    assert_eq!(status, 0, "{error}");
    assert_eq!(ended(&node)["state"], "cancelled");
    let (_, out, _) = frith(&[&["chain", "list"][..], &data].concat(), "");
    assert!(out.contains("1  cancelled"), "{out}");
}

/// What may be done again is.
#[test]
fn a_program_that_does_no_harm_is_run_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut chain = waiting();
    chain["nodes"][1]["idempotent"] = json!(true);
    killed(folder.path(), &chain);
    std::fs::write(folder.path().join("data/workspace/gate"), "").unwrap();
    let node = Node::start(folder.path(), PLUGINS);
    let shown = ended(&node);
    assert_eq!(shown["state"], "done", "{shown}");
    assert_eq!(shown["response"]["outputs"]["wait"]["exit_code"], 0);
}

#[test]
fn a_chain_is_drawn() {
    let (status, out, error) = frith(&["chain", "graph", "-"], &waiting().to_string());
    assert_eq!(status, 0, "{error}");
    assert!(out.starts_with("first  tool write_file\n"), "{out}");
    let (_, out, _) = frith(&["chain", "graph", "-", "--svg"], &waiting().to_string());
    assert!(
        out.starts_with("<svg ") && out.ends_with("</svg>\n"),
        "{out}"
    );
    let (status, _, error) = frith(&["chain", "graph", "-"], "{\"nodes\": []}");
    assert_eq!(status, 1);
    assert!(error.contains("`entry_node` is empty"), "{error}");
}
