//! Two nodes that do not know each other, over the network.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::frith;
use crate::node::Node;

struct Pair {
    ada: Node,
    bob: Node,
    _folders: [TempDir; 2],
}

impl Pair {
    fn start(config: &str) -> Self {
        let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let [ada, bob] = [0, 1].map(|index| Node::start(folders[index].path(), config));
        Self {
            ada,
            bob,
            _folders: folders,
        }
    }

    /// What Ada's operator types.
    fn ada(&self, arguments: &[&str]) -> (i32, String, String) {
        at(&self.ada, arguments)
    }

    fn ada_json(&self, arguments: &[&str]) -> Value {
        let arguments = [&["--json"], arguments].concat();
        let (_, out, error) = self.ada(&arguments);
        let parsed = serde_json::from_str(&out);
        assert!(parsed.is_ok(), "{out}{error}");
        parsed.unwrap()
    }

    fn meet(&self) {
        let (status, out, error) = self.ada(&["peer", "add", "bob", self.bob.at("a2a")]);
        assert_eq!(status, 0, "{out}{error}");
        assert!(out.contains("pinned sha256:"), "{out}");
    }
}

fn at(node: &Node, arguments: &[&str]) -> (i32, String, String) {
    let data = node.data();
    frith(
        &[arguments, &["--data", data.to_str().unwrap()]].concat(),
        "",
    )
}

fn intact(node: &Node) {
    let (status, out, error) = at(node, &["audit", "verify"]);
    assert_eq!(status, 0, "{out}{error}");
}

/// The records of a log with this event, as one line of text each.
fn records(data: &Path, event: &str) -> Vec<String> {
    let data = data.to_str().unwrap();
    let (_, out, _) = frith(&["audit", "tail", "--data", data], "");
    let about = out.lines().filter(|line| line.contains(event));
    about.map(str::to_owned).collect()
}

/// Proves A-1-1, A-1-2, A-5-1.
#[test]
fn they_prove_who_they_are_and_answer() {
    let pair = Pair::start("{}");
    let (status, out, error) = pair.ada(&["peer", "probe", pair.bob.at("a2a")]);
    assert_eq!(status, 0, "{out}{error}");
    for word in [
        "-> hello",
        "<- challenge",
        "-> proof",
        "<- policy",
        "-> accept_policy",
        "<- session",
    ] {
        assert!(out.contains(word), "{word}: {out}");
    }
    assert!(out.contains(pair.bob.at("did")), "{out}");
    assert_eq!(
        pair.ada_json(&["peer", "list"]),
        json!([]),
        "nothing is kept"
    );
    pair.meet();
    let asked = ["peer", "call", "bob", "frith.ping", r#"{"echo":"hi"}"#];
    let answer = pair.ada_json(&asked);
    assert_eq!(answer["answered"]["result"]["echo"], "hi", "{answer}");
    let by_did = [
        "peer",
        "call",
        pair.bob.at("did"),
        "frith.ping",
        "--encrypt",
    ];
    let answer = pair.ada_json(&by_did);
    assert_eq!(answer["answered"]["session"]["encrypted"], true, "{answer}");
    let here = pair.ada_json(&["peer", "sessions"]);
    assert_eq!(here["outgoing"][0]["did"], pair.bob.at("did"), "{here}");
    assert_eq!(here["outgoing"][0]["name"], "bob", "{here}");
    let (_, out, _) = pair.ada(&["peer", "sessions"]);
    assert!(
        out.starts_with(&format!("-> bob ({})\n", pair.bob.at("did"))),
        "{out}"
    );
    let resolved = pair.ada_json(&["resolve", pair.bob.at("did")]);
    assert_eq!(resolved["did"], pair.bob.at("did"));
    for node in [&pair.ada, &pair.bob] {
        intact(node);
    }
    assert!(!records(&pair.bob.data(), "frith.ping").is_empty());
}

#[test]
fn what_is_not_offered_or_too_much_is_refused() {
    let pair = Pair::start("{}");
    pair.meet();
    let (status, _, error) = pair.ada(&["peer", "call", "bob", "nlp.translate"]);
    assert_eq!(status, 1);
    assert!(error.contains("UNSUPPORTED_CAPABILITY"), "{error}");
    assert!(error.contains("`frith peer show bob` shows"), "{error}");
    // By its name, its DID, which does not say where it is, and its address.
    for agent in ["bob", pair.bob.at("did"), pair.bob.at("a2a")] {
        let (status, out, error) = pair.ada(&["peer", "show", agent]);
        assert_eq!(status, 0, "{error}");
        assert!(out.contains("can do    frith.ping"), "{out}");
    }
    let (status, _, error) = pair.ada(&["peer", "show", "bobb"]);
    assert_eq!(status, 1);
    assert!(error.contains("there is no peer `bobb`"), "{error}");
    let long = json!({"echo": "x".repeat(1025)}).to_string();
    let (status, _, error) = pair.ada(&["peer", "call", "bob", "frith.ping", &long]);
    assert_eq!(status, 1, "{error}");
    assert!(error.contains("INVALID_INTENT"), "{error}");
    let (status, _, error) = pair.ada(&["peer", "call", "carol", "frith.ping"]);
    assert_eq!(status, 1);
    assert!(error.contains("there is no peer `carol`"), "{error}");
    let (status, _, error) = pair.ada(&["peer", "call", "bob", "frith.ping", "[1]"]);
    assert_eq!(status, 2, "{error}");
}

/// What the operator says holds in sessions that are open.
#[test]
fn a_blocked_agent_is_not_spoken_to() {
    let pair = Pair::start("{}");
    pair.meet();
    let ping = ["peer", "call", "bob", "frith.ping"];
    assert_eq!(pair.ada(&ping).0, 0);
    let (status, _, error) = at(&pair.bob, &["trust", "block", pair.ada.at("did")]);
    assert_eq!(status, 0, "{error}");
    let (status, _, error) = pair.ada(&ping);
    assert_eq!(status, 1);
    assert!(
        error.contains("POLICY_VIOLATION") || error.contains("UNVERIFIED_AGENT"),
        "{error}"
    );
    let (status, _, error) = at(&pair.bob, &["trust", "unblock", pair.ada.at("did")]);
    assert_eq!(status, 0, "{error}");
    assert_eq!(pair.ada(&ping).0, 0);

    // By the name that one has for it, too.
    let (status, _, error) = pair.ada(&["trust", "block", "bob"]);
    assert_eq!(status, 0, "{error}");
    let (status, _, error) = pair.ada(&ping);
    assert_eq!(status, 1);
    assert!(error.contains("frith trust unblock"), "{error}");
    assert_eq!(pair.ada(&["trust", "unblock", "bob"]).0, 0);
    assert_eq!(pair.ada(&ping).0, 0);
    let (status, _, error) = pair.ada(&["trust", "block", "carol"]);
    assert_eq!(status, 2);
    assert!(error.contains("no peer `carol`"), "{error}");
}

/// Has the operator of a node ask for all of these at the same time; each is confirmed.
fn ask_at_once(node: &Node, requests: &[Value]) {
    let socket = node.data().join("operator.sock");
    let mut connections: Vec<_> = requests
        .iter()
        .map(|_| UnixStream::connect(&socket).unwrap())
        .collect();
    for (connection, request) in connections.iter_mut().zip(requests) {
        writeln!(connection, "{request}").unwrap();
    }
    for connection in connections {
        let mut answer = String::new();
        BufReader::new(connection).read_line(&mut answer).unwrap();
        assert!(answer.contains(r#""ok":true"#), "{answer}");
    }
}

/// What is confirmed is in force, whatever else is changed at the same time.
#[test]
fn a_block_is_in_force_when_others_change_the_book_at_once() {
    let pair = Pair::start("{}");
    pair.meet();
    let ping = ["peer", "call", "bob", "frith.ping"];
    let ada = pair.ada.at("did");
    for round in 0..3 {
        let mut requests: Vec<Value> = (0..24)
            .map(|number| {
                let did = format!("did:web:agent-{round}-{number}.example.com");
                json!({"op": "trust.block", "did": did, "block": {}})
            })
            .collect();
        requests[12]["did"] = json!(ada);
        ask_at_once(&pair.bob, &requests);
        let (status, _, error) = pair.ada(&ping);
        assert_eq!(status, 1, "{error}");
        assert!(
            error.contains("VIOLATION") || error.contains("UNVERIFIED"),
            "{error}"
        );
        ask_at_once(&pair.bob, &[json!({"op": "trust.unblock", "did": ada})]);
    }
    let (status, _, error) = pair.ada(&ping);
    assert_eq!(status, 0, "{error}");
}

/// Whoever waits for one that is not there is told so, and what to do.
#[test]
fn an_agent_that_is_down_is_not_waited_for_in_silence() {
    let mut pair = Pair::start("{}");
    pair.meet();
    pair.bob.signal("-TERM");
    assert_eq!(pair.bob.wait(), Some(0));
    let (status, _, error) = pair.ada(&["peer", "call", "bob", "frith.ping", "--timeout", "3"]);
    assert_eq!(status, 1);
    assert!(error.contains("bob has not answered yet"), "{error}");
    assert!(error.contains("`frith up` starts a node"), "{error}");
    let (_, out, _) = pair.ada(&["peer", "probe", "bob"]);
    assert!(out.contains("`frith up` starts a node"), "{out}");
}

/// A restart ends sessions; the manifest that was pinned is still the same, and the next call shakes hands anew.
#[test]
fn a_restart_is_not_noticed_by_whoever_calls_next() {
    let mut pair = Pair::start("{}");
    pair.meet();
    let ping = ["peer", "call", "bob", "frith.ping"];
    assert_eq!(pair.ada(&ping).0, 0);
    let address = pair.bob.at("a2a").trim_start_matches("https://").to_owned();
    pair.bob.signal("-TERM");
    assert_eq!(pair.bob.wait(), Some(0));
    let config = format!("a2a: {{listen: '{address}'}}\n");
    pair.bob = Node::start(pair._folders[1].path(), &config);
    let (status, out, error) = pair.ada(&ping);
    assert_eq!(status, 0, "{out}{error}");
    intact(&pair.ada);
}

#[test]
fn an_agent_that_moved_is_called_where_it_is_now() {
    let mut pair = Pair::start("{}");
    pair.meet();
    let ping = ["peer", "call", "bob", "frith.ping"];
    assert_eq!(pair.ada(&ping).0, 0);
    pair.bob.signal("-TERM");
    assert_eq!(pair.bob.wait(), Some(0));
    pair.bob = Node::start(pair._folders[1].path(), "{}");
    assert_eq!(pair.ada(&["peer", "remove", "bob"]).0, 0);
    pair.meet();
    let (status, out, error) = pair.ada(&ping);
    assert_eq!(status, 0, "{out}{error}");
}

/// Profile §4: a pin holds to the letter, also when the agent has only added a key. The operator takes the
/// new manifest, and that holds at once.
#[test]
fn a_pinned_agent_that_rotated_is_added_again() {
    let pair = Pair::start("{}");
    pair.meet();
    let hello = ["peer", "probe", "bob"];
    assert_eq!(pair.ada(&hello).0, 0);
    let manifest = pair.bob.data().join("agent-manifest.json");
    let before = std::fs::read_to_string(&manifest).unwrap();
    assert_eq!(at(&pair.bob, &["id", "rotate", "default"]).0, 0);
    while std::fs::read_to_string(&manifest).unwrap() == before {}
    let (status, out, error) = pair.ada(&hello);
    assert_eq!(status, 1, "{out}{error}");
    assert!(out.contains("INVALID_MANIFEST"), "{out}");
    assert!(out.contains("`frith peer remove bob`"), "{out}");
    assert_eq!(pair.ada(&["peer", "remove", "bob"]).0, 0);
    pair.meet();
    let (status, out, error) = pair.ada(&hello);
    assert_eq!(status, 0, "{out}{error}");
}

#[test]
fn a_node_may_keep_to_itself() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), "a2a: false\n");
    assert_eq!(node.endpoints["a2a"], Value::Null);
    let (status, _, error) = at(&node, &["peer", "sessions"]);
    assert_eq!(status, 1);
    assert!(error.contains("a2a"), "{error}");
}

/// `/metrics` tells of both protocols, on both sides.
#[test]
fn what_they_do_is_counted() {
    let pair = Pair::start("{}");
    pair.meet();
    let call = ["peer", "call", "bob", "frith.ping", r#"{"echo":"hi"}"#];
    assert_eq!(pair.ada(&call).0, 0);
    assert_eq!(
        pair.ada(&["peer", "call", "bob", "example.none.v1", "{}"])
            .0,
        1
    );
    let counts = |node: &Node| {
        let url = format!("{}/metrics", node.at("http"));
        let output = std::process::Command::new("curl")
            .args(["-sS", &url])
            .output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    let (ada, bob) = (counts(&pair.ada), counts(&pair.bob));
    let has = |text: &str, line: &str| text.lines().any(|known| known == line);
    for line in [
        r#"frith_a2a_calls_total{outcome="ok"} 1"#,
        r#"frith_a2a_calls_total{outcome="UNSUPPORTED_CAPABILITY"} 1"#,
        "frith_a2a_sessions 0",
        "frith_a2e_sessions 0",
    ] {
        assert!(has(&ada, line), "{line} in\n{ada}");
    }
    for line in [
        "frith_a2a_sessions 1",
        "frith_a2a_sessions_opened_total 1",
        r#"frith_a2a_handshake_messages_total{outcome="ok"} 3"#,
        r#"frith_a2a_messages_total{outcome="ok"} 1"#,
        r#"frith_a2a_calls_total{outcome="ok"} 0"#,
    ] {
        assert!(has(&bob, line), "{line} in\n{bob}");
    }
}

/// Rates of peers are counted in memory. A start gives each peer one bucket, and no more.
#[test]
fn a_restart_refills_the_rates_of_peers_once() {
    let config = |listen: &str| {
        format!("a2a: {{listen: '{listen}', policy: {{rate_limit: 2, rate_period: 3600}}}}\n")
    };
    let mut pair = Pair::start(&config("127.0.0.1:0"));
    pair.meet();
    let address = pair.bob.at("a2a").trim_start_matches("https://");
    let address = address.split('/').next().unwrap().to_owned();
    let restart = |node: Node, listen: &str| Node::start(&node.crash(), &config(listen));
    for _ in 0..2 {
        for is_within in [true, true, false] {
            if !is_within {
                // Bob refuses, since a client that is new knows of no request before.
                pair.ada = restart(pair.ada, "127.0.0.1:0");
            }
            let (status, out, error) = pair.ada(&["peer", "call", "bob", "frith.ping"]);
            assert_eq!(status == 0, is_within, "{out}{error}");
            assert_eq!(error.contains("RATE_LIMIT"), !is_within, "{error}");
        }
        pair.bob = restart(pair.bob, &address);
        pair.ada = restart(pair.ada, "127.0.0.1:0");
    }
}
