//! Clients that we did not write, over every transport: each message of a session is checked.

use std::process::Command;

use crate::node::Node;

fn agent(arguments: &[&str]) {
    let script = testkit::workspace().join("conformance/a2e.py");
    let output = Command::new(testkit::python())
        .arg(script)
        .args(arguments)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {text}");
}

/// Proves H-22 to H-24, M-5 to M-9.
#[test]
fn python_over_stdio() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("frith.yaml");
    std::fs::write(&config, "plugins: [{name: demo, type: demo}]\n").unwrap();
    let host = env!("CARGO_BIN_EXE_frith");
    agent(&["stdio", host, "stdio", "--config", config.to_str().unwrap()]);
}

#[test]
fn python_over_sockets() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), "server: {tcp: \"127.0.0.1:0\"}");
    let tcp = node.at("tcp").strip_prefix("tcp:").unwrap();
    agent(&["tcp", tcp, &node.token]);
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), "{}");
    let unix = node.at("unix").strip_prefix("unix:").unwrap();
    agent(&["unix", unix, &node.token]);
}

#[test]
fn curl_over_http() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), "{}");
    agent(&["curl", node.at("http"), &node.token]);
}

/// Python's `http.client`, `requests` and curl write a whole body before they read. They learn why it is
/// refused: without a credential, and at a path where there is nothing.
#[test]
fn clients_that_write_first_read_the_refusal() {
    const MIB: usize = 1024 * 1024;
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), "global_limits: {max_line: 1024}\n");
    let body = folder.path().join("body");
    std::fs::write(&body, vec![b'7'; 4 * MIB]).unwrap();
    let script = testkit::workspace().join("conformance/oversize.py");
    for (path, tries, bytes, status, word) in [
        ("mcp", 20, 4 * MIB, "401", "Bearer"),
        ("none", 20, 4 * MIB, "404", "nothing at this path"),
    ] {
        let url = format!("{}/{path}", node.at("http"));
        let output = Command::new(testkit::python())
            .arg(&script)
            .args([&tries.to_string(), &bytes.to_string(), status, word, &url])
            .output()
            .unwrap();
        assert!(output.status.success(), "{path}: {output:?}");
        for _ in 0..tries {
            let output = Command::new("curl")
                .args(["--silent", "--show-error", "--write-out", "%{http_code}"])
                .args(["--header", "Expect:", "--data-binary"])
                .arg(format!("@{}", body.display()))
                .arg(&url)
                .output()
                .unwrap();
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(text.ends_with(status), "{path}: {output:?}");
        }
    }
}

#[test]
fn python_over_a_websocket() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), "{}");
    agent(&["websocket", node.at("ws"), &node.token]);
}

/// The agents of docs/writing-agents.md.
#[test]
fn the_examples_of_agents_work() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), "plugins: [{name: tools, type: tools}]\n");
    for (program, script) in [
        (testkit::python(), "examples/agents/agent.py"),
        ("node".into(), "examples/agents/agent.mjs"),
    ] {
        let output = Command::new(program)
            .arg(testkit::workspace().join(script))
            .arg(node.data())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{script}: {text}");
        let said = String::from_utf8(output.stdout).unwrap();
        let lines: Vec<&str> = said
            .lines()
            .filter(|it| !it.starts_with("status"))
            .collect();
        let wanted = [
            "found current_time",
            "log one",
            "exit code 0",
            "still there: True",
            "refused tool_denied",
        ];
        assert_eq!(lines.len(), wanted.len(), "{script}: {said}");
        for (line, wanted) in lines.iter().zip(wanted) {
            assert!(line.eq_ignore_ascii_case(wanted), "{script}: {said}");
        }
    }
}
