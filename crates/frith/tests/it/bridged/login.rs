//! An agent that comes to its node by its own DID.

use super::*;
use crate::identity::User;

fn shake_hands(node: &Node, token: &str) -> (Wire, Value) {
    let mut wire = node.wire();
    let hello = json!({"type": "handshake/req", "id": "h", "agent_id": "me", "agent_caps": ["tools"], "auth_token": token});
    let answer = wire.ask(&hello);
    (wire, answer)
}

#[test]
fn an_agent_is_known_by_its_did() {
    let user = User::new();
    let did = user.json(&["id", "new"])["did"]
        .as_str()
        .unwrap()
        .to_owned();
    let folder = tempfile::tempdir().unwrap();
    let config = format!(
        "plugins: [{{name: demo, type: demo}}]
policy: {{rules: [{{id: not-by-did, did: '{did}', name: clock, action: deny}}]}}
agents: [{{name: ada, did: '{did}', policy: {{rules: [{{id: not-ada, name: fail, action: deny}}]}}}}]
"
    );
    let node = Node::start(folder.path(), &config);
    let make = ["token", "did", "--host-did", node.at("did")];
    let token = user.ok(&make).trim().to_owned();
    let (mut wire, answer) = shake_hands(&node, &token);
    assert_eq!(answer["ok"], true, "{answer}");
    let (_, answered) = call(&mut wire, "c1", "echo", &json!({"x": 1}));
    assert_eq!(answered["data"]["data"], json!({"x": 1}), "{answered}");
    for (id, tool, rule) in [("c2", "clock", "not-by-did"), ("c3", "fail", "not-ada")] {
        let (_, answered) = call(&mut wire, id, tool, &json!({}));
        assert_eq!(answered["detail"]["rule"], rule, "{answered}");
    }
    let all = records(&node.data());
    let record = all.iter().find(|it| it["request_id"] == "c1").unwrap();
    assert_eq!(record["agent"], "ada", "{record}");

    let (_, answer) = shake_hands(&node, &token);
    assert_eq!(answer["ok"], false, "used once: {answer}");
    let token = user.json(&make)["token"].as_str().unwrap().to_owned();
    assert_eq!(shake_hands(&node, &token).1["ok"], true);
    // Somebody else, and for somebody else.
    let stranger = User::new();
    stranger.ok(&["id", "new"]);
    assert_eq!(shake_hands(&node, stranger.ok(&make).trim()).1["ok"], false);
    let elsewhere = user.ok(&["token", "did", "--host-did", &did]);
    assert_eq!(shake_hands(&node, elsewhere.trim()).1["ok"], false);
    // Whoever is blocked stays out.
    assert_eq!(at(&node, &["trust", "block", &did]).0, 0);
    assert_eq!(shake_hands(&node, user.ok(&make).trim()).1["ok"], false);
    // And the common token is still the default agent's.
    assert_eq!(shake_hands(&node, &node.token).1["ok"], true);
}

#[test]
fn a_credential_needs_a_host_and_a_key() {
    let user = User::new();
    let (status, _, error) = user.run(&["token", "did"]);
    assert_eq!(status, 1);
    assert!(error.contains("--host-did DID"), "{error}");
    let (status, _, error) = user.run(&["token", "did", "--host-did", "bob"]);
    assert_eq!(status, 2);
    assert!(
        error.contains("--host-did: `bob` cannot be used"),
        "{error}"
    );
    let host = "did:key:z6MktwupdmLXVVqTzCw4i46r4uGyosGXRnR3XjN4Zq7oMMsw";
    let (status, _, error) = user.run(&["token", "did", "--host-did", host]);
    assert_eq!(status, 1);
    assert!(
        error.contains("`frith id new default` makes one"),
        "{error}"
    );
}
