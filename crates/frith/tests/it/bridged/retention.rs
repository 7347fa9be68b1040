//! Data retention `none`: what is in a request that is refused is in no file when the answer is there.

use std::collections::BTreeSet;
use std::thread;

use super::*;

const OFFERED: &str = r#"plugins:
  - {name: tools, type: tools}
  - {name: chains, type: chains}
  - {name: skills, type: skills}
  - {name: env, type: env}
intents:
  demo.short: {command: [echo, '{text}'], parameters: {text: {type: string, maxLength: 5}}, required: [text]}
  demo.file: {tool: read_file}
  demo.ruled: {tool: list_files}
  demo.asked: {command: [echo, '{text}'], parameters: {text: {type: string}}}
  demo.blocked: {tool: current_time}
  demo.greet: {skill: greet}
  demo.missing: {skill: nobody}
  demo.chain:
    chain: {entry_node: a, nodes: [{node_id: a, kind: tool, name: list_files, input_map: {path: $.text}}]}
    parameters: {text: {type: string}}
  demo.world: {env: counter}
  demo.shell: {env: terminal}
policy:
  rules:
    - {id: no-listing, capability: tools, name: list_files, action: deny}
    - {id: no-shell, capability: env, name: terminal, action: deny}
    - {id: no-marker, capability: skill, name: greet, when: "starts_with(who, 'marker')", action: deny}
    - {id: ask, name: 'intent:demo.asked', action: require_approval}
a2a:
  policy: {data_retention: none, blocked_intents: [demo.blocked], max_payload_size: 65536}
telemetry: {log: 'debug,bridge=trace,a2a_net=trace,a2e_runtime=trace,a2e_caps=trace', log_file: node.log}
"#;

const SKILL: &str = "---\nname: greet\ndescription: Greets somebody\ninputs: {who: string Whom}\n---\n\
    Say hello to {who}.\n";

/// Each way to be refused: the intent, its inputs with `MARKER` in them, and the code.
const REFUSED: [(&str, &str, &str); 18] = [
    (
        "demo.none",
        r#"{"text": "MARKER"}"#,
        "UNSUPPORTED_CAPABILITY",
    ),
    ("demo.blocked", r#"{"text": "MARKER"}"#, "POLICY_VIOLATION"),
    ("demo.short", r#"{"text": "MARKER"}"#, "INVALID_INTENT"),
    ("demo.short", r#"{"MARKER": "x"}"#, "INVALID_INTENT"),
    (
        "demo.short",
        r#"{"text": {"MARKER": ["MARKER"]}}"#,
        "INVALID_INTENT",
    ),
    ("demo.file", r#"{"path": "MARKER"}"#, "INTERNAL_ERROR"),
    (
        "demo.file",
        r#"{"path": "/MARKER/../MARKER"}"#,
        "POLICY_VIOLATION",
    ),
    ("demo.ruled", r#"{"path": "MARKER"}"#, "POLICY_VIOLATION"),
    ("demo.greet", r#"{"who": "MARKER"}"#, "POLICY_VIOLATION"),
    ("demo.greet", r#"{"who": ["MARKER"]}"#, "POLICY_VIOLATION"),
    (
        "demo.missing",
        r#"{"who": "MARKER"}"#,
        "UNSUPPORTED_CAPABILITY",
    ),
    ("demo.chain", r#"{"text": ["MARKER"]}"#, "INVALID_INTENT"),
    ("demo.world", r#"{"do": "MARKER"}"#, "INVALID_INTENT"),
    (
        "demo.world",
        r#"{"do": "reset", "MARKER": 1}"#,
        "INVALID_INTENT",
    ),
    (
        "demo.world",
        r#"{"do": "reset", "options": "MARKER"}"#,
        "INVALID_INTENT",
    ),
    (
        "demo.world",
        r#"{"do": "observe", "episode_id": "MARKER"}"#,
        "INVALID_INTENT",
    ),
    (
        "demo.world",
        r#"{"do": "step", "episode_id": "MARKER", "action": {"type": "MARKER"}}"#,
        "INVALID_INTENT",
    ),
    (
        "demo.shell",
        r#"{"do": "reset", "options": {"command": "MARKER"}}"#,
        "POLICY_VIOLATION",
    ),
];

fn pair() -> Pair {
    pair_with(OFFERED)
}

fn pair_with(offered: &str) -> Pair {
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let [a, b] = &folders;
    let skill = b.path().join("data/skills/greet");
    fs::create_dir_all(&skill).unwrap();
    fs::write(skill.join("SKILL.md"), SKILL).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    fs::set_permissions(b.path().join("data"), mode).unwrap();
    let b = Node::start(b.path(), offered);
    let a = Node::start(a.path(), "{}");
    let (status, out, error) = at(&a, &["peer", "add", "beta", b.at("a2a")]);
    assert_eq!(status, 0, "{out}{error}");
    Pair { a, b, folders }
}

/// All files below a folder in which this text stands.
fn files_with(folder: &Path, text: &str, found: &mut BTreeSet<String>) -> usize {
    let mut looked_at = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_dir() {
            looked_at += files_with(&path, text, found);
        } else if kind.is_file() {
            looked_at += 1;
            let bytes = fs::read(&path).unwrap();
            if bytes.windows(text.len()).any(|it| it == text.as_bytes()) {
                found.insert(path.display().to_string());
            }
        }
    }
    looked_at
}

/// Nothing of a refused request is left at either node.
fn nothing_is_left(pair: &Pair, marker: &str, what: &str) {
    let mut found = BTreeSet::new();
    for folder in &pair.folders {
        let looked_at = files_with(folder.path(), marker, &mut found);
        assert!(looked_at >= 8, "{looked_at}");
    }
    assert!(found.is_empty(), "{what}: {marker} is in {found:?}");
}

fn call_beta(node: &Node, intent: &str, inputs: &str) -> String {
    let (status, out, error) = at(node, &["peer", "call", "beta", intent, inputs]);
    assert_eq!(status, 1, "{intent} {inputs}: {out}");
    error
}

#[test]
fn inputs_of_refused_calls_are_in_no_file() {
    let pair = pair();
    for (number, (intent, inputs, code)) in REFUSED.into_iter().enumerate() {
        let marker = format!("marker{number}qzx");
        let error = call_beta(&pair.a, intent, &inputs.replace("MARKER", &marker));
        assert!(error.contains(code), "{intent} {inputs}: {error}");
        nothing_is_left(&pair, &marker, intent);
    }
    // Too large for the policy of B, which A knows.
    let large = json!({"text": "markerlargeqzx".repeat(5000)}).to_string();
    call_beta(&pair.a, "demo.short", &large);
    nothing_is_left(&pair, "markerlargeqzx", "too large");
    // A chain of which a part is against the rules.
    let error = call_beta(&pair.a, "demo.chain", r#"{"text": "markerchainqzx"}"#);
    assert!(
        error.contains("POLICY_VIOLATION") || error.contains("INTERNAL_ERROR"),
        "{error}"
    );
    nothing_is_left(&pair, "markerchainqzx", "a part of a chain");
    let did = pair.a.at("did");
    let (status, out, error) = at(&pair.b, &["trust", "block", did]);
    assert_eq!(status, 0, "{error}");
    assert_eq!(
        out,
        format!("blocked {did}\nrefuses further requests in 1 A2A session\n")
    );
    let error = call_beta(&pair.a, "demo.short", r#"{"text": "markerblockedqzx"}"#);
    assert!(error.contains("POLICY_VIOLATION"), "{error}");
    nothing_is_left(&pair, "markerblockedqzx", "blocked");
    // The log is there, and says what became of them.
    let log = fs::read_to_string(pair.folders[1].path().join("node.log")).unwrap();
    assert!(log.contains("a request of a peer is refused"), "{log}");
}

/// Also of those that come too often for the rules of the node.
#[test]
fn inputs_of_calls_that_come_too_often_are_in_no_file() {
    let limited = OFFERED.replace(
        "policy:\n  rules:",
        "policy:\n  rate_limit: 1\n  rate_period: 3600\n  rules:",
    );
    let pair = pair_with(&limited);
    for number in 0..3 {
        let marker = format!("marker{number}qzx");
        let error = call_beta(
            &pair.a,
            "demo.short",
            &json!({ "text": marker }).to_string(),
        );
        let code = if number == 0 {
            "INVALID_INTENT"
        } else {
            "RATE_LIMIT_EXCEEDED"
        };
        assert!(error.contains(code), "{error}");
        nothing_is_left(&pair, &marker, code);
    }
}

/// What the operator is asked about is shown while it waits, and is in no file even then.
#[test]
fn inputs_of_calls_that_the_operator_refuses_are_in_no_file() {
    let pair = pair();
    for (number, refuses) in [true, false].into_iter().enumerate() {
        let marker = format!("markerheld{number}qzx");
        let inputs = json!({ "text": marker }).to_string();
        let data = pair.a.data();
        let call = thread::spawn(move || {
            let data = data.to_str().unwrap();
            let timeout = if refuses { "60" } else { "3" };
            let words = [
                "peer",
                "call",
                "beta",
                "demo.asked",
                &inputs,
                "--timeout",
                timeout,
            ];
            frith(&[words.as_slice(), &["--data", data]].concat(), "")
        });
        let held = loop {
            let (status, out, error) = at(&pair.b, &["--json", "approvals"]);
            assert_eq!(status, 0, "{error}");
            let mut listed: Vec<Value> = serde_json::from_str(&out).unwrap();
            if let Some(held) = listed.pop() {
                break held;
            }
        };
        let approval = held["id"].as_str().unwrap();
        let (_, shown, _) = at(&pair.b, &["approvals", "show", approval]);
        assert!(shown.contains(&marker), "{shown}");
        nothing_is_left(&pair, &marker, "held");
        if refuses {
            let (status, out, error) = at(&pair.b, &["deny", approval]);
            assert_eq!(status, 0, "{error}");
            assert_eq!(out.lines().count(), 1, "{out}");
        }
        let (status, out, error) = call.join().unwrap();
        assert_eq!(status, 1, "{out}{error}");
        nothing_is_left(&pair, &marker, "refused by the operator");
        let (_, shown, _) = at(&pair.b, &["approvals", "show", approval]);
        assert!(!shown.contains(&marker), "{shown}");
    }
}
