//! A node with few descriptors, and more silent connections than it has descriptors.

use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use serde_json::json;

use crate::frith;
use crate::node::Node;

/// What `ulimit -n` says.
const OPEN_FILES: usize = 64;

/// Connections over which nothing is said.
const SILENT: usize = 150;

/// Silent connections are closed by nothing but the need for descriptors while the test runs.
const CONFIG: &str = "server: {tcp: '127.0.0.1:0'}
global_limits: {handshake_seconds: 600}
telemetry: {log_file: node.log}
";

/// Lines that the node may log in all: what it says at its start and end, and each message that repeats
/// a few times.
const MOST_LINES: usize = 40;

enum Silent {
    Unix(#[expect(dead_code, reason = "is held open")] UnixStream),
    Tcp(#[expect(dead_code, reason = "is held open")] TcpStream),
}

fn connect(node: &Node, listener: &str) -> Silent {
    let address = node.at(listener);
    if let Some(path) = address.strip_prefix("unix:") {
        return Silent::Unix(UnixStream::connect(path).unwrap());
    }
    let (_, address) = address.split_once(':').unwrap();
    Silent::Tcp(TcpStream::connect(address.trim_start_matches('/')).unwrap())
}

fn at(node: &Node, arguments: &[&str]) -> (i32, String, String) {
    let data = node.data();
    frith(
        &[arguments, &["--data", data.to_str().unwrap()]].concat(),
        "",
    )
}

/// The operator and honest agents are answered; over each listener in turn, and then all.
#[test]
fn silent_connections_leave_descriptors_to_the_operator_and_to_agents() {
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let [folder, other] = folders.each_ref().map(tempfile::TempDir::path);
    let node = Node::start_with_open_files(folder, CONFIG, OPEN_FILES);
    let peer = Node::start(other, "{}");
    let mut all = Vec::new();
    for listener in ["unix", "tcp", "http", "a2a"] {
        let silent: Vec<_> = (0..SILENT).map(|_| connect(&node, listener)).collect();
        let (status, out, error) = at(&node, &["status"]);
        assert_eq!(status, 0, "{listener}: {out}{error}");
        let (unix, tcp, http) = (node.at("unix"), node.at("tcp"), node.at("http"));
        for host in [unix, tcp, http] {
            let call = ["call", "echo", r#"{"text":"hi"}"#, "--host", host];
            let token = ["--token", &node.token];
            let (status, out, error) = at(&node, &[call.as_slice(), &token].concat());
            assert_eq!(status, 0, "{listener}, {host}: {out}{error}");
        }
        let (status, out, error) = at(&peer, &["peer", "probe", node.at("a2a")]);
        assert_eq!(status, 0, "{listener}: {out}{error}");
        all.push(silent);
    }
    let log = std::fs::read_to_string(folder.join("node.log")).unwrap();
    let lines = log.lines().count();
    assert!(lines <= MOST_LINES, "{lines} lines:\n{log}");
    assert!(log.contains("the limit of open files is 64"), "{log}");
    drop(all);
}

/// Agents have filled the table with connections over which they have shaken hands. The operator gets in over
/// each listener, and so does another agent.
#[test]
fn connections_of_agents_leave_room_for_the_operator_and_for_others() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start_with_open_files(folder.path(), CONFIG, OPEN_FILES);
    let token = |agent: &str| {
        let (status, token, error) = at(&node, &["token", "new", agent]);
        assert_eq!(status, 0, "{error}");
        token.trim().to_owned()
    };
    let mut all = Vec::new();
    for agent in ["ada", "bob", "eve"] {
        let token = token(agent);
        for _ in 0..6 {
            let mut wire = node.wire();
            let hello = json!({"type": "handshake/req", "id": "h", "agent_caps": ["tools"], "auth_token": token});
            wire.say(&hello);
            // The connection of an agent that has as many as each other is closed.
            if let Some(answer) = wire.hear_of_killed() {
                assert_eq!(answer["ok"], true);
            }
            all.push(wire);
        }
    }
    let (status, out, error) = at(&node, &["status"]);
    assert_eq!(status, 0, "{out}{error}");
    let joe = token("joe");
    for token in [&node.token, &joe] {
        for host in [node.at("unix"), node.at("tcp"), node.at("http")] {
            let call = ["call", "echo", r#"{"text":"hi"}"#, "--host", host];
            let token = ["--token", token];
            let (status, out, error) = at(&node, &[call.as_slice(), &token].concat());
            assert_eq!(status, 0, "{host}: {out}{error}");
        }
    }
    drop(all);
}

/// Processes of agents take descriptors that no limit of connections counts.
#[test]
fn the_operator_is_answered_while_processes_have_all_descriptors() {
    let folder = tempfile::tempdir().unwrap();
    let config = "plugins: [{name: proc, type: proc, max_procs: 64}]\n";
    let node = Node::start_with_open_files(folder.path(), config, OPEN_FILES);
    let mut wire = node.wire();
    let hello = json!({"type": "handshake/req", "id": "h", "agent_caps": ["proc"], "auth_token": node.token});
    assert_eq!(wire.ask(&hello)["ok"], true);
    let spawned = (0..64).take_while(|number| {
        let spawn =
            json!({"type": "proc/spawn/req", "id": number.to_string(), "cmd": ["sleep", "3600"]});
        wire.ask(&spawn)["ok"] == true
    });
    let spawned = spawned.count();
    assert!(spawned < 32, "there is a descriptor left");
    let (status, out, error) = at(&node, &["status"]);
    assert_eq!(status, 0, "{spawned}: {out}{error}");
}
