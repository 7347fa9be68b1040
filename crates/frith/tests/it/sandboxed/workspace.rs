//! The workspace, and what must not be in reach from it.

use serde_json::json;

use super::{ALL, agent, call};
use crate::frith;
use crate::node::Node;

/// Files that tools write are there for commands, and the other way round.
#[test]
fn tools_and_commands_share_the_workspace() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), ALL);
    let mut wire = agent(&node);
    let written = call(
        &mut wire,
        "1",
        "write_file",
        &json!({"path": "a/b.txt", "content": "one\n", "create_parents": true}),
    );
    assert_eq!(written["data"]["success"], true, "{written}");
    let ran = call(
        &mut wire,
        "2",
        "run_command",
        &json!({"command": "echo two >> a/b.txt; mkdir c; pwd"}),
    );
    assert_eq!(ran["data"]["exit_code"], 0, "{ran}");
    let code = "import os; open('c/d', 'w').write(open('a/b.txt').read()); print(os.getuid() != 0)";
    let ran = call(
        &mut wire,
        "3",
        "run_code",
        &json!({"language": "python", "code": code}),
    );
    assert_eq!(ran["data"]["data"]["stdout"], "True\n", "{ran}");
    let read = call(&mut wire, "4", "read_file", &json!({"path": "c/d"}));
    assert!(read.to_string().contains("one\\ntwo\\n"), "{read}");
    // What fails says so, and what it wrote.
    let failed = call(
        &mut wire,
        "5",
        "run_command",
        &json!({"command": "echo no >&2; exit 3"}),
    );
    assert_eq!(
        (&failed["data"]["success"], &failed["data"]["exit_code"]),
        (&json!(false), &json!(3))
    );
    assert_eq!(failed["data"]["data"]["stderr"], "no\n");
}

/// The doors of the node and its secrets are not there for what agents run.
#[test]
fn commands_do_not_reach_the_node() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), ALL);
    let mut wire = agent(&node);
    let data = node.data().canonicalize().unwrap();
    let port = node.at("http").rsplit(':').next().unwrap().to_owned();
    for (index, (command, complaint)) in [
        (format!("cat {}/token", data.display()), "No such file"),
        (format!("ls {}/audit", data.display()), "No such file"),
        (format!("ls {}", folder.path().join("frith.yaml").display()), "No such file"),
        ("cat /etc/shadow".to_owned(), "No such file"),
        ("touch /usr/x".to_owned(), "Read-only file system"),
        (format!("python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"{}/operator.sock\")'", data.display()), "Error"),
        (format!("python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}))'"), "Error"),
        (format!("kill -9 {}", std::process::id()), "No such process"),
    ]
    .iter()
    .enumerate()
    {
        let ran = call(&mut wire, &format!("e{index}"), "run_command", &json!({"command": command}));
        let errors = ran["data"]["data"]["stderr"].as_str().unwrap();
        assert!(errors.contains(complaint), "{command}: {ran}");
    }
}

/// An agent could rewrite its own rules, or read what keeps others out.
#[test]
fn the_workspace_must_not_hold_the_node() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let data = path.join("data");
    std::fs::create_dir(path.join("skills")).unwrap();
    for (config, complaint) in [
        ("workspace: .", "agents could read the data directory"),
        (
            "sandbox: {readable: [.]}",
            "agents could read the data directory",
        ),
        ("workspace: nowhere", "`workspace` is no folder"),
        (
            "sandbox: {readable: [data/token]}",
            "agents could read the data directory",
        ),
        (
            "mcp: {servers: {sly: {command: [cat], readable: [.]}}}",
            "the MCP server `sly` could read the data directory",
        ),
        (
            "mcp: {servers: {sly: {command: [cat], writable: [data/store.key]}}}",
            "change `readable` or `writable` of `sly`",
        ),
        (
            "plugins: [{name: mcp, type: mcp, servers: {sly: {command: [cat], readable: [data]}}}]",
            "the MCP server `sly` could read the data directory",
        ),
        (
            "mcp: {servers: {sly: {command: [cat], writable: [frith.yaml]}}}",
            "the MCP server `sly` could rewrite the configuration",
        ),
        (
            "plugins: [{name: s, type: skills, folders: [skills]}, \
             {name: mcp, type: mcp, servers: {sly: {command: [cat], writable: [skills]}}}]",
            "agents could rewrite skills",
        ),
    ] {
        let file = path.join("frith.yaml");
        std::fs::write(&file, config).unwrap();
        let (status, _, error) = frith(
            &[
                "up",
                "--listen",
                "127.0.0.1:0",
                "--a2a-listen",
                "127.0.0.1:0",
                "--config",
                file.to_str().unwrap(),
                "--data",
                data.to_str().unwrap(),
            ],
            "",
        );
        assert_eq!(status, 1, "{config}");
        assert!(error.contains(complaint), "{error}");
    }
    let work = path.join("work");
    std::fs::create_dir(&work).unwrap();
    let file = work.join("frith.yaml");
    std::fs::write(&file, "workspace: .").unwrap();
    let (status, _, error) = frith(
        &[
            "up",
            "--listen",
            "127.0.0.1:0",
            "--a2a-listen",
            "127.0.0.1:0",
            "--config",
            file.to_str().unwrap(),
            "--data",
            data.to_str().unwrap(),
        ],
        "",
    );
    assert_eq!(status, 1);
    assert!(
        error.contains("agents could rewrite the configuration"),
        "{error}"
    );
}

/// What a server may read is looked at when it starts, too: what is at a path may have become another.
#[test]
fn a_path_that_comes_to_lead_into_the_data_directory_is_hidden_from_servers() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("link");
    let server = json!({"command": ["cat", link], "readable": [link]});
    let config = json!({"plugins": [{"name": "tools", "type": "tools"},
        {"name": "mcp", "type": "mcp", "servers": {"sly": server}}]});
    let node = Node::start(folder.path(), &config.to_string());
    std::os::unix::fs::symlink(node.data().join("token"), &link).unwrap();
    let mut wire = crate::mcp_servers::agent(&node);
    let mut number = 0;
    // The node has tried it before there was such a path.
    let refused = loop {
        number += 1;
        let refused = crate::mcp_servers::wake(&mut wire, &format!("w{number}"), "sly");
        if !refused["message"]
            .as_str()
            .unwrap()
            .contains("No such file")
        {
            break refused;
        }
    };
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("hidden from all commands"), "{refused}");
}
