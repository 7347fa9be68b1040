//! Memory of a node whose agents do not read, while they do not and afterwards.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::node::Node;
use crate::session_limits::{Tcp, echo, operator_calls, token_of};

const SESSIONS: usize = 100;

/// What the hostile agent may have waiting.
const MOST: u64 = 16 * 1024;

/// How long anything here may take.
const DEADLINE: Duration = Duration::from_secs(60);

/// A session that sends requests and reads no response.
struct Unread {
    stream: TcpStream,
    /// Many requests, and how many bytes of them are written.
    requests: Vec<u8>,
    written: usize,
}

impl Unread {
    fn begin(node: &Node, token: &str) -> Self {
        let stream = Tcp::begin(node, token).unwrap().into_stream();
        stream.set_nonblocking(true).unwrap();
        // Its id comes back with the response.
        let ping = format!("{}\n", json!({"type": "ping", "id": "p".repeat(1000)}));
        Self {
            stream,
            requests: ping.repeat(64).into_bytes(),
            written: 0,
        }
    }

    /// Writes what the node takes; says whether it took any, or nothing if it has ended the session.
    fn write(&mut self) -> Option<bool> {
        let rest = &self.requests[self.written..];
        match self.stream.write(rest) {
            Ok(size) => {
                self.written = (self.written + size) % self.requests.len();
                Some(true)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Some(false),
            Err(_) => None,
        }
    }
}

/// A hundred sessions of one agent send requests and read no response. The node keeps no more for
/// them than the agent may have waiting, pauses them and ends them; another agent and the operator
/// call as before. Once they are gone so is their memory.
#[test]
fn an_agent_that_never_reads_takes_no_more_than_its_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let config = format!(
        "server: {{tcp: '127.0.0.1:0'}}\n\
         global_limits: {{resume_seconds: 1, max_buffered_per_agent: {}}}\n",
        MOST * 1024
    );
    let node = Node::start(folder.path(), &config);
    let hostile = token_of(&node, "hostile");
    let mut honest = Tcp::begin(&node, &token_of(&node, "honest")).unwrap();
    operator_calls(&node);
    let before = node.memory("VmRSS");
    let mut unread: Vec<Unread> = (0..SESSIONS)
        .map(|_| Unread::begin(&node, &hostile))
        .collect();
    let (mut most, started) = (0, Instant::now());
    while unread.len() > SESSIONS / 2 {
        assert!(started.elapsed() < DEADLINE, "{} sessions", unread.len());
        unread.retain_mut(|session| session.write().is_some());
        assert_eq!(honest.ask(&echo())["type"], "tool/call/resp");
        most = most.max(node.memory("VmRSS"));
    }
    operator_calls(&node);
    // Buffers that grow are copied, and have room to spare. Without a limit it is 850 MiB.
    let grown = most.saturating_sub(before);
    assert!(grown < 5 * MOST, "{grown} KiB");
    for session in &mut unread {
        // The kernel's own buffer has what the node could write.
        let _ = session.stream.read(&mut [0; 1024]);
    }
    drop(unread);
    let ended = Instant::now();
    loop {
        let now = node.memory("VmRSS");
        // The allocator keeps some of what was freed.
        if now <= before + before / 4 {
            break;
        }
        assert!(
            ended.elapsed() < Duration::from_secs(10),
            "{now} KiB after {before} KiB, {most} KiB at most"
        );
        assert_eq!(honest.ask(&echo())["type"], "tool/call/resp");
        std::thread::yield_now();
    }
}
