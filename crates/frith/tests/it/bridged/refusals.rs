//! Refusals at each of the points where there is one to decide.

use super::*;

fn refused(pair: &Pair, id: &str, tool: &str, arguments: &Value) -> Value {
    let (_, answered) = call(&mut agent(&pair.a), id, tool, arguments);
    assert_eq!(answered["type"], "error", "{answered}");
    answered
}

/// A's rules, A's word about B, B's policy for peers, B's rules: in that order.
#[test]
fn each_of_four_points_can_refuse() {
    let pair = Pair::start(
        "policy: {rules: [{id: not-here, name: time_there, action: deny}]}\n",
        "a2a:\n  policy: {blocked_intents: [demo.blocked]}\npolicy: {rules: [{id: no-strangers, trust: self, name: current_time, action: deny}]}\n",
    );
    let nothing = json!({});
    let answered = refused(&pair, "c1", "time_there", &nothing);
    assert_eq!(answered["code"], "tool_denied");
    assert_eq!(answered["detail"]["rule"], "not-here", "{answered}");
    assert!(pair.story("c1")[1].is_null(), "nothing was sent");

    let answered = refused(&pair, "c2", "peer:beta:demo.blocked", &nothing);
    assert_eq!(answered["code"], "tool_denied");
    assert_eq!(answered["detail"]["a2a_code"], "POLICY_VIOLATION");
    assert_eq!(answered["detail"]["reason"], "intent_blocked", "{answered}");
    let [_, sent, received, done] = pair.story("c2");
    assert_eq!(sent["response_status"], "POLICY_VIOLATION", "{sent}");
    assert_eq!(received["policy_checks"]["intent_allowed"], "failed");
    assert!(done.is_null(), "{done}");

    let answered = refused(&pair, "c3", "peer:beta:demo.ruled", &nothing);
    assert_eq!(answered["code"], "tool_denied");
    assert_eq!(answered["detail"]["reason"], "intent_not_allowed");
    assert_eq!(answered["detail"]["signed"], true, "{answered}");
    let [_, _, received, done] = pair.story("c3");
    assert_eq!(received["response_status"], "POLICY_VIOLATION");
    assert_eq!(
        (&done["rule"], &done["result"]),
        (&json!("no-strangers"), &json!("rejected"))
    );

    let (status, _, error) = at(&pair.a, &["trust", "block", pair.b.at("did")]);
    assert_eq!(status, 0, "{error}");
    let answered = refused(
        &pair,
        "c4",
        "peer:beta:demo.count.v1",
        &json!({"text": "x"}),
    );
    assert_eq!(answered["code"], "tool_denied", "{answered}");
    let text = answered["message"].as_str().unwrap();
    assert!(text.contains("frith trust unblock"), "{answered}");
    assert!(pair.story("c4")[1].is_null(), "nothing was sent");
    intact(&[&pair.a, &pair.b]);
}

#[test]
fn what_does_not_fit_is_refused_by_whoever_knows_better() {
    let pair = Pair::start("", "");
    // A's own description, before anything is sent.
    let answered = refused(&pair, "c1", "peer:beta:demo.count.v1", &json!({"text": 5}));
    assert_eq!(answered["code"], "schema_violation", "{answered}");
    assert!(pair.story("c1")[1].is_null(), "nothing was sent");
    // The target's own schema, which is stricter.
    let answered = refused(
        &pair,
        "c2",
        "peer:beta:demo.count.v1",
        &json!({"text": "too long"}),
    );
    assert_eq!(answered["code"], "schema_violation", "{answered}");
    assert_eq!(
        answered["detail"]["a2a_code"], "INVALID_INTENT",
        "{answered}"
    );
    assert_eq!(answered["detail"]["field"], "intent.inputs", "{answered}");
    let answered = refused(&pair, "c3", "peer:beta:demo.missing", &json!({}));
    assert_eq!(answered["code"], "unknown_tool", "{answered}");
    assert_eq!(answered["detail"]["a2a_code"], "UNSUPPORTED_CAPABILITY");
}

/// A tool that failed is not run again behind the back of its agent, and its words stay where it is.
#[test]
fn a_tool_that_fails_there_fails_once() {
    let pair = Pair::start("", "");
    let answered = refused(
        &pair,
        "c1",
        "peer:beta:demo.fail",
        &json!({"path": "none.txt"}),
    );
    assert_eq!(answered["code"], "tool_error", "{answered}");
    assert_eq!(answered["detail"]["a2a_code"], "INTERNAL_ERROR");
    assert!(answered["detail"]["incident"].is_string(), "{answered}");
    assert!(!answered.to_string().contains("none.txt"), "{answered}");
    let all = records(&pair.b.data());
    let ran = all
        .iter()
        .filter(|it| it["message_type"] == "tool/call/req");
    assert_eq!(ran.count(), 1);
}

/// A command that ends with 3 has failed for its peer too, with what it has put out, and runs once.
#[test]
fn a_command_that_fails_there_fails_here_with_its_output() {
    let pair = Pair::start("", "");
    let mut wire = agent(&pair.a);
    let (_, answered) = call(&mut wire, "c1", "peer:beta:demo.exit", &json!({}));
    let result = &answered["data"];
    assert_eq!(
        (&result["success"], &result["exit_code"]),
        (&json!(false), &json!(3)),
        "{answered}"
    );
    assert_eq!(result["data"]["stdout"], "said\n", "{answered}");
    let peer_call = ["peer", "call", pair.b.at("did"), "demo.exit"];
    let (status, out, error) = at(&pair.a, &peer_call);
    assert_eq!(status, 1, "{out}{error}");
    let shown: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(shown["stdout"], "said\n", "{out}");
    assert!(error.contains("the tool failed there"), "{error}");
    // Nor is one tried again that has no result.
    let (status, out, error) = at(
        &pair.a,
        &[
            "peer",
            "call",
            pair.b.at("did"),
            "demo.fail",
            "{\"path\": \"none\"}",
        ],
    );
    assert_eq!(status, 1, "{out}{error}");
    assert!(!error.contains("trying again"), "{error}");
    let all = records(&pair.b.data());
    let ran = all
        .iter()
        .filter(|it| it["message_type"] == "tool/call/req");
    assert_eq!(ran.count(), 3);
}

/// Nothing is offered but what stands in the table, and the manifest says no more than that.
#[test]
fn nothing_is_exposed_by_default() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), "plugins: [{name: tools, type: tools}]\n");
    let manifest = fs::read_to_string(node.data().join("agent-manifest.json")).unwrap();
    let manifest: Value = serde_json::from_str(&manifest).unwrap();
    assert_eq!(manifest["capabilities"], json!(["frith.ping"]));
    let pair = Pair::start("", "");
    let manifest = fs::read_to_string(pair.b.data().join("agent-manifest.json")).unwrap();
    let manifest: Value = serde_json::from_str(&manifest).unwrap();
    let offered = manifest["capabilities"].as_array().unwrap();
    assert_eq!(offered.len(), 9, "{manifest}");
    assert!(offered.contains(&json!("demo.count.v1")), "{manifest}");
    let (status, _, error) = at(&pair.a, &["peer", "call", pair.b.at("did"), "current_time"]);
    assert_eq!(status, 1);
    assert!(error.contains("UNSUPPORTED_CAPABILITY"), "{error}");
}

/// A rule that holds: B's operator is asked about what A's agent wants.
#[test]
fn the_operator_of_the_other_node_is_asked() {
    let rules = "policy: {rules: [{id: ask, did: 'did:key:*', name: current_time, action: require_approval}]}\n";
    let pair = Pair::start("", rules);
    for (number, (word, is_done)) in [("approve", true), ("deny", false)].into_iter().enumerate() {
        let mut wire = agent(&pair.a);
        let id = format!("c{number}");
        wire.say(&call_of(&id, "time_there", &json!({})));
        let held = loop {
            let (status, out, error) = at(&pair.b, &["--json", "approvals"]);
            assert_eq!(status, 0, "{error}");
            let mut listed: Vec<Value> = serde_json::from_str(&out).unwrap();
            if let Some(held) = listed.pop() {
                break held;
            }
        };
        assert_eq!(held["agent"], pair.a.at("did"), "{held}");
        let approval = held["id"].as_str().unwrap();
        assert_eq!(at(&pair.b, &[word, approval]).0, 0);
        let (_, answered) = answer(&mut wire);
        assert_eq!(answered["data"]["success"] == true, is_done, "{answered}");
        let [.., done] = pair.story(&id);
        assert_eq!(done["approval_id"], approval, "{done}");
    }
    intact(&[&pair.a, &pair.b]);
}
