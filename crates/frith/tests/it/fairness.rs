//! One agent takes all that it can get of a resource. The calls of the others succeed in time.
//!
//! What strangers can take over A2A is in `a2a-net` (`tests/it/fairness.rs`), which has sources of its
//! own; here is what is the node's.

use std::io::{ErrorKind, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::frith;
use crate::node::{Node, Wire};

/// How long an honest agent waits for an answer.
const DEADLINE: Duration = Duration::from_secs(30);

/// Agents that do nothing but their work.
const HONEST: [&str; 2] = ["ada", "bob"];

const PLUGINS: &str = "plugins:
  - {name: demo, type: demo}
  - {name: tools, type: tools}
  - {name: proc, type: proc, max_procs: 100}
  - {name: memory, type: memory}
";

/// A node with three agents, of which one is hostile.
struct Shared {
    node: Node,
    honest: [String; 2],
    hostile: String,
    _folder: TempDir,
}

impl Shared {
    fn start(config: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let node = Node::start(folder.path(), &format!("{PLUGINS}{config}"));
        let data = node.data();
        let token = |agent: &str| {
            let words = ["token", "new", agent, "--data", data.to_str().unwrap()];
            let (status, token, error) = frith(&words, "");
            assert_eq!(status, 0, "{error}");
            token.trim().to_owned()
        };
        Self {
            honest: HONEST.map(token),
            hostile: token("eve"),
            node,
            _folder: folder,
        }
    }

    /// A session of an agent.
    fn session(&self, token: &str) -> Wire {
        let mut wire = self.node.wire();
        wire.set_deadline(DEADLINE);
        let answer = wire.ask(&hello(token));
        assert_eq!(answer["ok"], true, "{answer}");
        wire
    }

    /// Each honest agent comes, and has something done of each kind.
    fn check_honest(&self, round: &str) {
        for token in &self.honest {
            let mut wire = self.session(token);
            for (tool, arguments) in [
                ("echo", json!({"text": "hi"})),
                ("run_command", json!({"command": "echo hi"})),
                ("write_file", json!({"path": "note", "content": "hi"})),
            ] {
                let answer = wire.ask(&call(&format!("{round} {tool}"), tool, &arguments));
                assert_eq!(answer["data"]["success"], true, "{round}: {answer}");
            }
            let stored = wire.ask(&memory(&format!("{round} memory"), &words(0, 1600)));
            assert_eq!(stored["errors"], json!([]), "{round}: {stored}");
        }
    }
}

fn hello(token: &str) -> Value {
    json!({"type": "handshake/req", "id": "h", "auth_token": token,
        "agent_caps": ["tools", "proc", "memory"]})
}

fn call(id: &str, tool: &str, arguments: &Value) -> Value {
    json!({"type": "tool/call/req", "id": id, "tool_name": tool, "arguments": arguments,
        "streaming": false})
}

/// A text of so many words, of 33 bytes each. No word comes twice, so that the index of it is as large as
/// it can be.
fn words(first: u64, count: u64) -> String {
    let words = (first..first + count).map(|word| format!("{:032x}", u128::from(word) << 40));
    words.collect::<Vec<_>>().join(" ")
}

fn memory(key: &str, text: &str) -> Value {
    let entry = json!({"key": key, "tier": "episodic", "content": text});
    json!({"type": "memory/store/req", "id": key, "entries": [entry]})
}

/// Checks the honest agents while so many threads do what takes a resource, until they see that it is over.
/// Returns what came of them.
fn while_flooding<T: Send>(
    threads: usize,
    is_over: &AtomicBool,
    flood: impl Fn(usize) -> T + Copy + Send,
    check: impl FnOnce(),
) -> Vec<T> {
    std::thread::scope(|scope| {
        let floods: Vec<_> = (0..threads)
            .map(|number| scope.spawn(move || flood(number)))
            .collect();
        let checked = catch_unwind(AssertUnwindSafe(check));
        is_over.store(true, Ordering::Relaxed);
        let done = floods.into_iter().map(|flood| flood.join().unwrap());
        let done = done.collect();
        checked.unwrap();
        done
    })
}

/// Whether a call was refused since its agent has as many under way as it may.
fn is_agent_limit(answer: &Value) -> bool {
    answer["detail"]["reason"] == "agent_limit"
}

/// Requests under way, more than the audit log has slots for: those of the hostile agent wait for an hour.
#[test]
fn requests_of_one_agent_leave_room_for_others() {
    const SESSIONS: usize = 5;
    const REQUESTS: usize = 1000;
    let limits =
        "global_limits: {max_parallel: 1024, max_queue: 1024, max_requests_per_agent: 100}\n";
    let shared = Shared::start(limits);
    let wait = json!({"seconds": 3600});
    let mut refused = 0;
    let sessions = (0..SESSIONS).map(|number| {
        let mut wire = shared.session(&shared.hostile);
        for request in 0..REQUESTS {
            wire.say(&call(&format!("{number} {request}"), "wait", &wait));
        }
        // Answered after all of them were begun or refused.
        let last = call(&format!("{number} last"), "none", &json!({}));
        wire.say(&last);
        loop {
            let answer = wire.hear().unwrap();
            if answer["req_id"] == last["id"] {
                break wire;
            }
            assert!(is_agent_limit(&answer), "{answer}");
            refused += 1;
        }
    });
    let sessions: Vec<_> = sessions.collect();
    shared.check_honest("requests");
    drop(sessions);
    assert_eq!(refused, SESSIONS * REQUESTS - 100);
}

/// Sessions over which nothing is asked.
#[test]
fn sessions_of_one_agent_leave_room_for_others() {
    let shared = Shared::start("global_limits: {max_sessions: 40}\n");
    let mut sessions = Vec::new();
    loop {
        let mut wire = shared.node.wire();
        wire.set_deadline(DEADLINE);
        match wire.ask(&hello(&shared.hostile)) {
            answer if answer["ok"] == true => sessions.push(wire),
            _ => break,
        }
    }
    assert_eq!(sessions.len(), 20, "half of all");
    shared.check_honest("sessions");
}

/// Responses that are not read.
#[test]
fn unread_bytes_of_one_agent_leave_room_for_others() {
    let limits = "max_buffered: 4194304, max_buffered_per_agent: 1048576";
    let shared = Shared::start(&format!("global_limits: {{{limits}}}\n"));
    let ping = format!("{}\n", json!({"type": "ping", "id": "p".repeat(1000)})).repeat(64);
    let is_over = AtomicBool::new(false);
    let flood = |_| {
        let stream = shared.session(&shared.hostile).into_stream();
        stream.set_nonblocking(true).unwrap();
        let mut written = 0;
        while !is_over.load(Ordering::Relaxed) {
            match (&stream).write(&ping.as_bytes()[written..]) {
                Ok(size) => written = (written + size) % ping.len(),
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
                // The node has ended the session.
                Err(_) => return true,
            }
        }
        false
    };
    while_flooding(8, &is_over, flood, || shared.check_honest("memory"));
}

/// Processes and commands of a shell, which are counted together.
#[test]
fn processes_of_one_agent_leave_room_for_others() {
    let shared = Shared::start("global_limits: {max_commands_per_agent: 8}\n");
    let mut wire = shared.session(&shared.hostile);
    let busy = ["sh", "-c", "while :; do :; done"];
    let began = (0..20).filter(|number| {
        let spawn = json!({"type": "proc/spawn/req", "id": number.to_string(), "cmd": busy});
        wire.ask(&spawn)["ok"] == true
    });
    assert_eq!(began.count(), 8);
    let mut other = shared.session(&shared.hostile);
    for number in 0..4 {
        let command = json!({"command": "sleep 3600"});
        let answer = other.ask(&call(&format!("c{number}"), "run_command", &command));
        assert!(is_agent_limit(&answer), "{answer}");
    }
    shared.check_honest("processes");
}

/// Records of requests, as fast as they can be made.
#[test]
fn records_of_one_agent_leave_room_for_others() {
    let shared = Shared::start("");
    let is_over = AtomicBool::new(false);
    let text = "x".repeat(1024);
    let flood = |number: usize| {
        let mut wire = shared.session(&shared.hostile);
        let mut answered = 0;
        while !is_over.load(Ordering::Relaxed) {
            for request in 0..100 {
                let id = format!("{number} {answered} {request}");
                wire.say(&call(&id, "echo", &json!({"text": text})));
            }
            for _ in 0..100 {
                wire.hear().unwrap();
            }
            answered += 100;
        }
        answered
    };
    let answered = while_flooding(4, &is_over, flood, || {
        for round in 0..3 {
            shared.check_honest(&format!("records {round}"));
        }
    });
    let answered: usize = answered.iter().sum();
    assert!(answered > 0);
    let data = shared.node.data();
    let (status, out, error) = frith(&["audit", "verify", "--data", data.to_str().unwrap()], "");
    assert_eq!(status, 0, "{out}{error}");
}

/// Bytes of the store: the hostile agent writes as much as the file may have.
#[test]
fn what_one_agent_keeps_leaves_room_in_the_store() {
    let shared = Shared::start("store: {max_bytes: 8388608}\n");
    let mut wire = shared.session(&shared.hostile);
    for number in 0..160_u64 {
        wire.ask(&memory(&format!("k{number}"), &words(number * 2048, 2048)));
    }
    shared.check_honest("store");
    let (_, out, _) = frith(
        &[
            "status",
            "--json",
            "--data",
            shared.node.data().to_str().unwrap(),
        ],
        "",
    );
    let status: Value = serde_json::from_str(&out).unwrap();
    let bytes = status["store"]["bytes"].as_u64().unwrap();
    assert!(bytes < 8_000_000, "{bytes}");
}

/// Connections to the port for other agents, over which nothing is said.
#[test]
fn silent_connections_of_peers_leave_room_for_others() {
    let limits = "a2a: {listen: '127.0.0.1:0', limits: {connections: 8}}\n";
    let shared = Shared::start(limits);
    let address = shared.node.at("a2a").strip_prefix("https://").unwrap();
    let connect = |_| std::net::TcpStream::connect(address).unwrap();
    let silent: Vec<_> = (0..100).map(connect).collect();
    let folder = tempfile::tempdir().unwrap();
    let peer = Node::start(folder.path(), "{}");
    let data = peer.data();
    let hello = ["peer", "probe", shared.node.at("a2a"), "--data"];
    let hello = [hello.as_slice(), &[data.to_str().unwrap()]].concat();
    let (status, out, error) = frith(&hello, "");
    assert_eq!(status, 0, "{out}{error}");
    shared.check_honest("handshakes");
    drop(silent);
}
