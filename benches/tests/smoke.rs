//! Every benchmark runs, in the profile of the tests; how fast, only `cargo xtask bench` says.

use std::process::Command;

#[test]
fn wire_runs() {
    let text = smoke(env!("CARGO_BIN_EXE_wire"));
    let rows = text.lines().filter(|line| line.contains('x')).count();
    assert!(rows >= 7, "{rows} rows");
}

#[test]
fn identity_runs() {
    let text = smoke(env!("CARGO_BIN_EXE_identity"));
    let rows = text.lines().filter(|line| line.contains('x')).count();
    assert!(rows >= 9, "{rows} rows");
}

#[test]
fn policy_runs() {
    let text = smoke(env!("CARGO_BIN_EXE_policy"));
    let rows = text.lines().filter(|line| line.contains(" ns")).count();
    assert!(rows >= 14, "{rows} rows:\n{text}");
}

#[test]
fn audit_runs() {
    let text = smoke(env!("CARGO_BIN_EXE_audit"));
    let rows = text.lines().filter(|line| line.contains('x')).count();
    assert!(rows >= 4, "{text}");
    assert!(text.contains("verify "), "{text}");
}

#[test]
fn store_runs() {
    let text = smoke(env!("CARGO_BIN_EXE_store"));
    let rows = text.lines().filter(|line| line.contains('x')).count();
    assert!(rows >= 8, "{text}");
}

#[test]
fn memory_runs() {
    let text = smoke(env!("CARGO_BIN_EXE_memory"));
    let rows = text.lines().filter(|line| line.contains('x')).count();
    assert!(rows >= 7, "{text}");
    let writes = text.lines().filter(|line| line.ends_with("3.00x"));
    assert_eq!(writes.count(), 4, "{text}");
}

#[test]
fn learn_runs() {
    let text = smoke(env!("CARGO_BIN_EXE_learn"));
    let rows = text.lines().filter(|line| line.starts_with("  ")).count();
    assert_eq!(rows, 10, "{text}");
}

#[test]
fn chain_runs() {
    let text = smoke(env!("CARGO_BIN_EXE_chain"));
    let rows = text.lines().filter(|line| line.contains("  -")).count();
    assert_eq!(rows, 6, "{text}");
}

#[test]
fn mcp_runs() {
    let text = smoke(env!("CARGO_BIN_EXE_mcp"));
    let rows = text.lines().filter(|line| line.ends_with(" %")).count();
    assert_eq!(rows, 2, "{text}");
}

/// With or without ripgrep and bubblewrap, which only `cargo xtask bench tools` installs.
#[test]
fn tools_run() {
    let text = smoke(env!("CARGO_BIN_EXE_tools"));
    let rows = text.lines().filter(|line| line.ends_with('x')).count();
    assert!(rows >= 6, "{text}");
    let lists = text.lines().filter(|line| line.ends_with("1.00 ms"));
    assert_eq!(lists.count(), 5, "{text}");
}

/// Without Gymnasium and OpenEnv, which only `cargo xtask bench env` installs.
#[test]
fn env_runs() {
    let text = smoke(env!("CARGO_BIN_EXE_env"));
    for transport in ["stdio", "TCP", "HTTP"] {
        // Echo and step, one and many in flight, and the batch.
        let rows = text.lines().filter(|line| line.starts_with(transport));
        assert!(rows.count() >= 5, "{transport} is missing:\n{text}");
    }
}

/// Without the peers, which are not built for the tests.
#[test]
fn a2e_runs() {
    let text = smoke(env!("CARGO_BIN_EXE_a2e"));
    for transport in ["stdio", "Unix socket", "TCP", "HTTP + SSE", "WebSocket"] {
        let rows = text.lines().filter(|line| line.starts_with(transport));
        // Three numbers in flight and a line of latencies, with both on one CPU at least.
        assert!(rows.count() >= 4, "{transport} is missing:\n{text}");
    }
    assert!(text.contains("start of `frith stdio`"), "{text}");
    assert!(text.contains("idle sessions, HTTP + SSE"), "{text}");
}

/// Without the peers, which are not built for the tests.
#[test]
fn a2a_runs() {
    let text = smoke(env!("CARGO_BIN_EXE_a2a"));
    for transport in ["http/1.1", "h2", "grpc", "websocket"] {
        let rows = text.lines().filter(|line| line.starts_with(transport));
        // Two things to do with three numbers in flight, with both on one CPU at least.
        assert!(rows.count() >= 6, "{transport} is missing:\n{text}");
    }
    assert!(text.contains("idle sessions: each"), "{text}");
    assert!(text.contains("replay of a handshake"), "{text}");
}

/// A little of the load: it is borne all the same.
#[test]
fn a2a_load_runs() {
    let text = smoke(env!("CARGO_BIN_EXE_a2a_load"));
    assert!(text.contains("6 sessions of 2 agents"), "{text}");
    assert!(
        text.contains(", 0 let in") && text.contains("lost: 0"),
        "{text}"
    );
}

#[test]
fn bridge_runs() {
    let text = smoke(env!("CARGO_BIN_EXE_bridge"));
    assert!(text.contains("agent, node, node, tool"), "{text}");
    assert!(text.contains("x the sum of its parts"), "{text}");
}

fn smoke(program: &str) -> String {
    let output = Command::new(program).arg("--smoke").output();
    let text = output.map(|output| [output.stdout, output.stderr].concat());
    String::from_utf8_lossy(&text.unwrap_or_default()).into_owned()
}
