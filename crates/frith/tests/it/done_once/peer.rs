//! Work that another agent asks for: an intent with an `intent_id`.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::Answer;
use super::clock::Clock;
use super::site::{Gate, Site};
use crate::frith;
use crate::node::Node;

pub(super) const INTENT_ID: &str = "6f1c5b8e-3f57-4d1e-9a53-1f1b7e0c9d14";

/// Another agent: a node of its own, and its operator.
pub(super) struct Peer {
    node: Node,
    intent: Value,
    /// Where the answer to the work comes.
    asking: Option<Asking>,
    folder: TempDir,
}

/// An intent that was sent.
pub(super) struct Asking(BufReader<UnixStream>);

impl Peer {
    /// Begins work and waits until it has had its effect.
    pub(super) fn begin(site: &Site, timeout: u64) -> (Self, Gate) {
        let mut peer = Self::of(site);
        peer.intent["constraints"] = json!({"timeout_ms": timeout * 1000});
        site.make_gate();
        peer.ask();
        let gate = site.wait_for_tool();
        (peer, gate)
    }

    /// A peer that has a session.
    pub(super) fn in_session(site: &Site) -> Self {
        let peer = Self::of(site);
        let ping = json!({"goal": "frith.ping", "inputs": {}});
        assert!(matches!(peer.send(&ping).answer(), Answer::Response(_)));
        peer
    }

    /// A peer of a node.
    pub(super) fn of(site: &Site) -> Self {
        let folder = tempfile::tempdir().unwrap();
        if site.is_old() {
            start(&folder, "127.0.0.1:0", &Clock::off_by("-2d")).crash();
        }
        let node = start(&folder, "127.0.0.1:0", &Clock::default());
        let data = node.data();
        let url = site.node().at("a2a");
        let add = ["peer", "add", "beta", url, "--data", data.to_str().unwrap()];
        let (status, out, error) = frith(&add, "");
        assert_eq!(status, 0, "{out}{error}");
        Self {
            node,
            intent: json!({"goal": "demo.pay", "inputs": {}, "intent_id": INTENT_ID}),
            asking: None,
            folder,
        }
    }

    pub(super) fn did(&self) -> &str {
        self.node.at("did")
    }

    /// Goes on in another process, which sees another time.
    pub(super) fn restart_at(&mut self, clock: &Clock) {
        self.asking = None;
        self.node.signal("-KILL");
        self.node.wait();
        // With another address it would sign another manifest, at a time that is not later.
        let address = self
            .node
            .at("a2a")
            .trim_start_matches("https://")
            .to_owned();
        self.node = start(&self.folder, &address, clock);
    }

    /// Sends the work.
    pub(super) fn ask(&mut self) {
        self.asking = Some(self.send(&self.intent));
    }

    /// Sends an intent.
    pub(super) fn send(&self, intent: &Value) -> Asking {
        let socket = UnixStream::connect(self.node.data().join("operator.sock")).unwrap();
        let mut asking = Asking(BufReader::new(socket));
        let call = json!({"op": "peer.call", "to": "beta", "timeout_ms": 60_000,
            "encrypt": false, "stream": false, "intent": intent});
        writeln!(asking.0.get_mut(), "{call}").unwrap();
        asking
    }

    /// The answer to what was sent last.
    pub(super) fn answer(&mut self) -> Answer {
        self.asking.take().unwrap().answer()
    }

    /// Sends the work again.
    pub(super) fn retry(&mut self) -> Answer {
        self.ask();
        self.answer()
    }

    /// Whether an answer is still to come.
    pub(super) fn is_asking(&self) -> bool {
        self.asking.is_some()
    }

    /// Waits for the work no longer.
    pub(super) fn cancel(&mut self) {
        self.asking = None;
    }
}

impl Asking {
    /// The answer. The node sends an intent again by itself if its connection breaks.
    pub(super) fn answer(mut self) -> Answer {
        let heard = loop {
            let mut line = String::new();
            self.0.read_line(&mut line).unwrap();
            if !line.contains("\"setback\"") {
                break serde_json::from_str::<Value>(&line).unwrap();
            }
        };
        let called = heard.get("result").unwrap_or(&heard);
        let failed = &called["failed"];
        if failed.is_object() {
            let text = |name: &str| failed[name].as_str().unwrap().to_owned();
            return Answer::Failed {
                code: text("code"),
                reason: text("error"),
                is_retryable: false,
            };
        }
        assert!(called["answered"].is_object(), "{heard}");
        Answer::Response(called["answered"]["result"].clone())
    }
}

fn start(folder: &TempDir, address: &str, clock: &Clock) -> Node {
    let config = format!("plugins: []\na2a: {{listen: '{address}'}}\n");
    Node::start_with(folder.path(), &config, &clock.variables())
}

/// Whether a record says what came of the work when it was sent.
pub(super) fn is_its_record(record: &Value) -> bool {
    record["event_type"] == "request_received" && record["intent_id"] == INTENT_ID
}
