//! A peer that knows the base specification and nothing else, and programs that know nothing at all, with a node as anybody starts it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use a2e_runtime::DataDir;
use serde_json::{Value, json};
use testkit::Foreign;

use crate::frith;
use crate::node::Node;

/// The certificate that nodes of this user trust.
fn ca() -> PathBuf {
    DataDir::of_user().unwrap().path().join("ca/ca.pem")
}

fn python() -> Command {
    let mut command = Command::new(testkit::python());
    command.arg(testkit::workspace().join("conformance/seed004_wire.py"));
    command
}

fn lines(text: &[u8]) -> Vec<Value> {
    let lines = std::str::from_utf8(text).unwrap().lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// What the foreign client says of its session with a node, and of what it asks for.
pub(crate) fn call(node: &Node, intent: &str) -> Vec<Value> {
    let url = format!("{}/a2a/handshake", node.at("a2a"));
    let mut call = python();
    call.args(["call", &url]).arg(ca()).arg(intent);
    let output = call.args(["--did", node.at("did")]).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    lines(&output.stdout)
}

fn at(node: &Node, arguments: &[&str]) -> (i32, String, String) {
    let data = node.data();
    frith(
        &[arguments, &["--data", data.to_str().unwrap()]].concat(),
        "",
    )
}

/// What the node has on record of this kind.
fn records(node: &Node, event: &str) -> Vec<Value> {
    let (status, out, error) = at(node, &["audit", "tail", "-n", "200", "--json"]);
    assert_eq!(status, 0, "{error}");
    let all = lines(out.as_bytes()).into_iter();
    all.filter(|record| record["event_type"] == event).collect()
}

/// However it spells what its specification leaves open.
/// Proves A-1-5, A-2-1.
#[test]
fn the_base_specification_is_enough_to_call_a_node() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), "{}");
    let url = format!("{}/a2a/handshake", node.at("a2a"));
    let spellings: [&[&str]; 3] = [&[], &["--bare-did"], &["--kid"]];
    for spelling in spellings {
        let output = python()
            .args(["call", &url])
            .arg(ca())
            .arg(r#"{"goal":"frith.ping","inputs":{"echo":"hi"}}"#)
            .arg(r#"{"goal":"nlp.translate"}"#)
            .args(["--did", node.at("did")])
            .args(spelling)
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{spelling:?}: {error}");
        let [session, pong, refused] = &lines(&output.stdout)[..] else {
            panic!("{spelling:?}: {}", String::from_utf8_lossy(&output.stdout));
        };
        assert_eq!(session["server"], node.at("did"));
        assert_eq!(pong["result"]["echo"], "hi", "{pong}");
        assert_eq!(refused["error"], "UNSUPPORTED_CAPABILITY", "{refused}");
    }
    let served = records(&node, "request_received");
    assert_eq!(served.len(), 6, "{served:?}");
    for record in served {
        assert_eq!(record["binding"], "baseline", "{record}");
    }
    let (status, out, error) = at(&node, &["audit", "verify"]);
    assert_eq!(status, 0, "{out}{error}");
}

/// Document 004, §6, "Check payload size < max_payload_size", and §8: more than is read at all is a
/// POLICY_VIOLATION too, and signed like every error of a session.
/// Proves A-6-7.
#[test]
fn a_request_that_is_too_large_to_be_read_is_a_policy_violation() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), "a2a: {policy: {max_payload_size: 4096}}\n");
    let url = format!("{}/a2a/handshake", node.at("a2a"));
    let large = |bytes: usize| json!({"goal": "frith.ping", "inputs": {"echo": "x".repeat(bytes)}});
    let output = python()
        .args(["call", &url])
        .arg(ca())
        .args([5_000, 100_000].map(|bytes| large(bytes).to_string()))
        .args(["--did", node.at("did")])
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let said = lines(&output.stdout);
    for refused in &said[1..] {
        assert_eq!(refused["error"], "POLICY_VIOLATION", "{refused}");
        assert_eq!(refused["signed"], true, "{refused}");
    }
    assert_eq!(said.len(), 3, "{said:?}");
    let served = records(&node, "request_received");
    assert_eq!(served.len(), 2, "{served:?}");
    for record in served {
        assert_eq!(
            record["policy_checks"]["payload_size"], "failed",
            "{record}"
        );
    }
}

/// The foreign server, until its input ends.
struct Served {
    process: Child,
    out: BufReader<std::process::ChildStdout>,
    at: Value,
}

impl Served {
    fn start(folder: &Path) -> Self {
        let mut process = python()
            .arg("serve")
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        Self {
            process,
            out,
            at: serde_json::from_str(&line).unwrap(),
        }
    }

    /// Its own record of what it was asked.
    fn end(mut self) -> Value {
        drop(self.process.stdin.take());
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        self.process.wait().unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

/// It speaks HTTP/1.1 and no ALPN, as the server of a language's own library does. Document 004, §2 and
/// §6: what is asked for has a `domain` and a `goal`.
/// Proves A-1-5, A-2-3, A-2-9, A-3-4.
#[test]
fn a_node_calls_what_knows_only_the_base_specification() {
    let [its, ours] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let served = Served::start(its.path());
    let roots = its.path().join("roots.pem");
    let config = format!("a2a: {{tls: {{roots: ['{}']}}}}\n", roots.display());
    let node = Node::start(ours.path(), &config);
    let url = served.at["url"].as_str().unwrap();
    let (status, out, error) = at(&node, &["peer", "add", "seed", url]);
    assert_eq!(status, 0, "{out}{error}");
    assert!(out.contains(served.at["did"].as_str().unwrap()), "{out}");
    let (status, out, error) = at(
        &node,
        &["--json", "peer", "call", "seed", "echo", r#"{"a":1}"#],
    );
    assert_eq!(status, 0, "{out}{error}");
    let called: Value = serde_json::from_str(&out).unwrap();
    let answered = &called["answered"];
    assert_eq!(answered["result"]["echo"], json!({"a": 1}), "{called}");
    assert_eq!(answered["session"]["binding"], "baseline", "{called}");
    assert_eq!(answered["session"]["transport"], "http/1.1", "{called}");
    let (status, _, error) = at(&node, &["peer", "call", "seed", "delete_database"]);
    assert_eq!(status, 1);
    assert!(error.contains("POLICY_VIOLATION"), "{error}");
    let sent = records(&node, "request_sent");
    assert_eq!(sent[0]["binding"], "baseline", "{sent:?}");
    let text = r#"{"text":"Hello","target_language":"es"}"#;
    for domain in [&[][..], &["--domain", "nlp"], &["--domain", ""]] {
        let call = ["--json", "peer", "call", "seed", "nlp.translate", text];
        let (status, out, error) = at(&node, &[&call, domain].concat());
        assert_eq!(status, 0, "{out}{error}");
    }
    let audit = &served.end()["audit"];
    assert_eq!(audit[0]["result"], "approved", "{audit}");
    let named = |at: usize| (&audit[at]["intent_domain"], &audit[at]["intent_goal"]);
    let (nlp, translate) = (json!("nlp"), json!("translate"));
    assert_eq!(named(0), (&Value::Null, &json!("echo")), "{audit}");
    assert_eq!(named(2), (&nlp, &translate), "{audit}");
    assert_eq!(named(3), (&nlp, &translate), "{audit}");
    assert_eq!(named(4), (&Value::Null, &json!("nlp.translate")), "{audit}");
}

/// Carries what the foreign client says with `curl`, until it says what came of it.
fn carry(node: &Node, foreign: &mut Foreign, ask: &Value) -> (Value, Vec<Value>) {
    let (mut said, mut carried) = (foreign.ask(ask), Vec::new());
    while said["body"].is_string() {
        let answer = curl(node, &said);
        carried.push(said);
        said = foreign.ask(&json!({ "body": answer }));
    }
    (said, carried)
}

fn curl(node: &Node, said: &Value) -> String {
    let text = |name: &str| said[name].as_str().unwrap_or_default();
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--cacert"]);
    command.arg(ca());
    command.args(["--header", "Content-Type: application/json"]);
    if said["session"].is_string() {
        let header = format!("X-Session-ID: {}", text("session"));
        command.args(["--header", &header]);
    }
    let url = format!("{}/a2a/{}", node.at("a2a"), text("place"));
    let output = command.args(["--data", text("body"), &url]).output();
    let output = output.unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    String::from_utf8(output.stdout).unwrap()
}

/// A crash in the middle: what was captured before is worth nothing after, and work that has a name is not done again.
/// Proves A-7-13, A-9-3.
#[test]
fn curl_walks_a_handshake_and_a_crash_lets_nothing_be_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), "{}");
    let mut foreign = Foreign::start("seed004_wire.py", &["lines", "client"]);
    let shake = json!({"ask": "handshake", "did": node.at("did")});
    let (done, walked) = carry(&node, &mut foreign, &shake);
    assert_eq!(done["done"]["server_did"], node.at("did"), "{done}");
    assert_eq!(walked.len(), 3);
    let intent = json!({"goal": "frith.ping", "intent_id": "6f1c5b8e-3f57-4d1e-9a53-1f1b7e0c9d21",
        "inputs": {"echo": "once"}, "constraints": {"timeout_ms": 60_000}});
    let ping = json!({"ask": "request", "intent": intent});
    let (first, captured) = carry(&node, &mut foreign, &ping);
    assert_eq!(first["done"]["echo"], "once", "{first}");

    let address = node.at("a2a").trim_start_matches("https://").to_owned();
    let config = format!("a2a: {{listen: '{address}'}}\n");
    let folder = node.crash();
    let node = Node::start(&folder, &config);
    for said in walked.iter().skip(1).chain(&captured) {
        let answer: Value = serde_json::from_str(&curl(&node, said)).unwrap();
        assert_eq!(answer["type"], "error", "{answer}");
    }
    let (done, _) = carry(&node, &mut foreign, &shake);
    assert_eq!(done["done"]["server_did"], node.at("did"), "{done}");
    let (again, _) = carry(&node, &mut foreign, &ping);
    // The time is that of the first run.
    assert_eq!(again, first);
    let (status, out, error) = at(&node, &["audit", "verify"]);
    assert_eq!(status, 0, "{out}{error}");
}
