//! A node that is started on a backup of its database does nothing again that was done since.

use super::*;

const CONFIG: &str = "plugins: [{name: tools, type: tools}, {name: proc, type: proc}, {name: chains, type: chains}]
policy: {rules: [{id: ask, name: run_command, action: require_approval}]}
intents:
  demo.pay: {command: [sh, -c, 'echo paid >> paid; echo started; while ! test -e go; do sleep 0.05; done']}
";

/// An agent of B itself.
fn own_agent(node: &Node) -> Wire {
    let mut wire = node.wire();
    let caps = ["tools", "proc", "chains"];
    let hello =
        json!({"type": "handshake/req", "id": "h", "agent_caps": caps, "auth_token": node.token});
    assert_eq!(wire.ask(&hello)["ok"], true);
    wire
}

/// Of two nodes, the first waits.
fn chain() -> Value {
    let node = |id: &str, next: &str, command: &str| {
        json!({"node_id": id, "kind": "proc", "next_node": next, "idempotent": true,
            "input": {"command": ["sh", "-c", command]}})
    };
    json!({"type": "chain/req", "id": "chain", "chain_id": "c", "entry_node": "first",
    "streaming": true, "nodes": [
        node("first", "second", "echo first >> chain; while ! test -e go; do sleep 0.05; done"),
        node("second", "", "echo second >> chain")]})
}

/// A call that the operator is asked about; gives the id under which it is held.
fn held(wire: &mut Wire, id: &str) -> String {
    let arguments = json!({"command": "echo approved >> approved"});
    wire.say(&call_of(id, "run_command", &arguments));
    let event = wire.hear().unwrap();
    assert_eq!(event["data"]["status"], "approval_pending", "{event}");
    event["data"]["approval_id"].as_str().unwrap().to_owned()
}

/// Waits until a file of B's workspace has these lines.
fn has(node: &Node, name: &str, lines: &[&str]) {
    let file = node.data().join("workspace").join(name);
    let expected = lines.iter().map(|line| format!("{line}\n"));
    let expected = expected.collect::<String>();
    while fs::read_to_string(&file).unwrap_or_default() != expected {
        std::thread::yield_now();
    }
}

#[test]
fn a_restored_node_does_nothing_again() {
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let mut b = Node::start(folders[1].path(), CONFIG);
    let a = Node::start(
        folders[0].path(),
        &asking(&b, "      demo.pay: {description: Pays}\n"),
    );
    let mut peer = agent(&a);
    let (mut caller, mut runner) = (own_agent(&b), own_agent(&b));
    // Everything is open when the backup is made,
    peer.say(&call_of("c1", "peer:beta:demo.pay", &json!({})));
    has(&b, "paid", &["paid"]);
    runner.say(&chain());
    has(&b, "chain", &["first"]);
    let approval = held(&mut caller, "held");
    let backup = folders[1].path().join("backup.db");
    let (status, _, error) = at(&b, &["store", "backup", backup.to_str().unwrap()]);
    assert_eq!(status, 0, "{error}");
    // and goes on after it.
    assert_eq!(at(&b, &["approve", &approval]).0, 0);
    let (_, answered) = answer(&mut caller);
    assert_eq!(answered["data"]["success"], true, "{answered}");
    let go = b.data().join("workspace/go");
    fs::write(&go, "").unwrap();
    let (_, answered) = answer(&mut peer);
    assert_eq!(answered["data"]["success"], true, "{answered}");
    has(&b, "chain", &["first", "second"]);
    // What is begun after it is cut off by a crash, and A asks for it again.
    fs::remove_file(&go).unwrap();
    peer.say(&call_of("c2", "peer:beta:demo.pay", &json!({})));
    has(&b, "paid", &["paid", "paid"]);
    b.signal("-KILL");
    b.wait();
    let database = b.data().join("store.db");
    for suffix in ["-wal", "-shm"] {
        let _ = fs::remove_file(b.data().join(format!("store.db{suffix}")));
    }
    fs::copy(&backup, &database).unwrap();
    let address = b.at("a2a").trim_start_matches("https://").to_owned();
    let b = Node::start(
        folders[1].path(),
        &format!("{CONFIG}a2a: {{listen: '{address}'}}\n"),
    );
    let (_, answered) = answer(&mut peer);
    assert_eq!(answered["type"], "error", "{answered}");
    assert_eq!(
        answered["detail"]["a2a_code"], "SERVICE_UNAVAILABLE",
        "{answered}"
    );
    assert_eq!(answered["retryable"], false, "{answered}");
    // The chain does not go on, by itself or when it is asked for again.
    let (_, out, _) = at(&b, &["chain", "show", "1", "--json"]);
    let shown: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(shown["state"], "interrupted", "{shown}");
    let (status, _, error) = at(&b, &["chain", "resume", "1"]);
    assert_eq!(
        (status, error.contains("chain 1 has ended")),
        (1, true),
        "{error}"
    );
    let mut wire = own_agent(&b);
    let answered = wire.ask(&chain());
    assert_eq!(answered["type"], "chain/resp", "{answered}");
    assert_eq!(answered["error"]["code"], "chain_error", "{answered}");
    // Nothing waits for the operator, and another call like the one that was approved is asked about
    // anew. The request that was answered has its response still: that is not in the database.
    let (_, out, _) = at(&b, &["approvals"]);
    assert_eq!(out, "no call waits\n");
    assert_ne!(held(&mut wire, "another"), approval);
    for (name, lines) in [
        ("paid", &["paid", "paid"][..]),
        ("chain", &["first", "second"]),
        ("approved", &["approved"]),
    ] {
        has(&b, name, lines);
    }
    intact(&[&a, &b]);
}
