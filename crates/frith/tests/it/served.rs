//! Every message that a node serves, ours included: its responses have the base schema, it needs its
//! capability, and rules by capability cover it.

use std::collections::BTreeSet;
use std::path::Path;

use a2e_wire::{MessageKind, Sender, Tag};
use serde_json::{Value, json};

use crate::node::{Node, Wire};

/// Our own requests, with members that fit.
fn ours() -> Vec<Value> {
    vec![
        json!({"type": "chain/list/req"}),
        json!({"type": "chain/show/req", "number": 1}),
        json!({"type": "chain/resume/req", "number": 1}),
        json!({"type": "chain/cancel/req", "number": 1}),
        json!({"type": "env/list/req"}),
        json!({"type": "learn/samples/req", "kind": "feedback"}),
        json!({"type": "planning/plan/remove", "plan_id": "p"}),
        json!({"type": "policy/permitted/req", "types": ["ping"]}),
        json!({"type": "proc/resize/req", "proc_id": "p", "rows": 1, "cols": 1}),
    ]
}

/// The requests of agents that are answered, but for the handshake.
fn requests() -> impl Iterator<Item = Tag> {
    let all = Tag::ALL.iter().copied();
    all.filter(|tag| {
        tag.kind() == MessageKind::Request
            && tag.may_be_sent_by(Sender::Agent)
            && tag.response().is_some()
            && *tag != Tag::HandshakeRequest
    })
}

fn agent(node: &Node, capabilities: &[&str]) -> (Wire, BTreeSet<String>) {
    let mut wire = node.wire();
    let welcome = wire.ask(&json!({"type": "handshake/req", "id": "h",
        "agent_caps": capabilities, "auth_token": node.token}));
    assert_eq!(welcome["ok"], true, "{welcome}");
    let accepted = welcome["accepted_caps"].as_array().unwrap().iter();
    let accepted = accepted.filter(|it| it["enabled"] == true);
    let accepted = accepted.map(|it| it["capability"].as_str().unwrap().to_owned());
    (wire, accepted.collect())
}

/// Sends a request; returns its response.
fn ask(wire: &mut Wire, mut request: Value, id: &str) -> Value {
    request["id"] = json!(id);
    wire.say(&request);
    loop {
        let heard = wire.hear().unwrap();
        if heard["req_id"] == id && !heard["type"].as_str().unwrap().ends_with("/event") {
            return heard;
        }
    }
}

fn node(folder: &Path, rules: &Value) -> Node {
    Node::start(folder, &json!({"policy": {"rules": rules}}).to_string())
}

const ALL: [&str; 11] = [
    "tools",
    "toolkits",
    "skill",
    "memory",
    "env",
    "proc",
    "learning",
    "chains",
    "mcp",
    "multi_agent",
    "planning",
];

/// 002, base message schema: "Every A2E message conforms to this base schema".
/// Proves M-5 to M-9, N-25.
#[test]
fn every_response_has_the_base_schema() {
    let folder = tempfile::tempdir().unwrap();
    let node = node(folder.path(), &json!([]));
    let (mut wire, _) = agent(&node, &ALL);
    let bare = requests().map(|tag| json!({"type": tag.as_str()}));
    for (index, request) in bare.chain(ours()).enumerate() {
        let id = format!("r{index}");
        let response = ask(&mut wire, request.clone(), &id);
        assert_eq!(response["a2e"], "1.0", "{request}: {response}");
        assert!(response["ts"].is_f64(), "{request}: {response}");
        assert!(response["eid"].is_u64(), "{request}: {response}");
        let own_id = response["id"].as_str().unwrap();
        assert!(!own_id.is_empty() && own_id != id, "{request}: {response}");
    }
    // With members that fit they are answered with their own responses.
    for (index, request) in ours().into_iter().enumerate() {
        let response = ask(&mut wire, request.clone(), &format!("o{index}"));
        let tag = Tag::parse(request["type"].as_str().unwrap(), Sender::Agent).unwrap();
        let expected = tag.response().unwrap().as_str();
        assert_eq!(response["type"], expected, "{response}");
    }
}

/// 001, "the agent can only use capabilities listed in `accepted_caps`".
/// Proves N-26, N-27.
#[test]
fn every_request_needs_its_capability() {
    let folder = tempfile::tempdir().unwrap();
    let node = node(folder.path(), &json!([]));
    for negotiated in ["tools", "memory"] {
        let (mut wire, _) = agent(&node, &[negotiated]);
        let bare = requests().map(|tag| (json!({"type": tag.as_str()}), false));
        let ours = ours().into_iter().map(|request| (request, true));
        for (index, (request, is_whole)) in bare.chain(ours).enumerate() {
            let tag = Tag::parse(request["type"].as_str().unwrap(), Sender::Agent).unwrap();
            let capability = tag.namespace().capability();
            if capability.is_none_or(|it| it.as_str() == negotiated) {
                continue;
            }
            let response = ask(&mut wire, request, &format!("{negotiated}-{index}"));
            // What lacks a field is refused for that; both name the capability.
            if is_whole || response["code"] != "schema_violation" {
                assert_eq!(response["code"], "capability_missing", "{response}");
            }
            let needed = tag.namespace().capability();
            let needed = needed.as_ref().map(|it| it.as_str().to_owned());
            assert_eq!(
                response["capability_name"].as_str(),
                needed.as_deref(),
                "{response}"
            );
        }
    }
}

#[test]
fn rules_by_capability_cover_every_request_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let rules: Vec<Value> = ALL
        .iter()
        .map(|name| json!({"capability": name, "action": "deny", "id": format!("no-{name}")}))
        .collect();
    let node = node(folder.path(), &json!(rules));
    let (mut wire, accepted) = agent(&node, &ALL);
    assert!(accepted.len() > 8, "{accepted:?}");
    for (index, request) in ours().into_iter().enumerate() {
        let tag = Tag::parse(request["type"].as_str().unwrap(), Sender::Agent).unwrap();
        let Some(capability) = tag.namespace().capability() else {
            continue;
        };
        let response = ask(&mut wire, request, &format!("d{index}"));
        assert_eq!(response["code"], "unauthorized", "{response}");
        let rule = format!("no-{}", capability.as_str());
        assert_eq!(response["detail"]["rule"], rule, "{response}");
    }
}
