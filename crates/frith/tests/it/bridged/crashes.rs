//! Either node ends in the middle of a call.

use super::*;

/// A call that waits on B: it has begun when this returns. Also the agent's session.
fn begun(pair: &Pair) -> (Wire, Value) {
    let mut wire = pair.a.wire();
    let hello = wire.ask(&hello(&pair.a));
    assert_eq!(hello["ok"], true, "{hello}");
    wire.say(&call_of("c1", "peer:beta:demo.wait", &json!({})));
    let event = wire.hear().unwrap();
    assert_eq!(event["data"]["message"], "started\n", "{event}");
    (wire, hello["session_id"].clone())
}

fn hello(node: &Node) -> Value {
    json!({"type": "handshake/req", "id": "h", "agent_caps": ["tools"], "auth_token": node.token})
}

/// A asks again, and B does not do again what it may have done.
#[test]
fn b_crashes_and_the_work_is_not_done_twice() {
    let mut pair = Pair::start("", "");
    let (mut wire, _) = begun(&pair);
    let address = pair.b.at("a2a").trim_start_matches("https://").to_owned();
    let folder = pair.folders[1].path().to_owned();
    let again = format!("{OFFER}a2a: {{listen: '{address}'}}\n");
    pair.b.signal("-KILL");
    pair.b.wait();
    pair.b = Node::start(&folder, &again);
    let (_, answered) = answer(&mut wire);
    assert_eq!(answered["code"], "tool_error", "{answered}");
    assert_eq!(
        answered["detail"]["reason"], "already_executed",
        "{answered}"
    );
    assert_eq!(answered["retryable"], false, "{answered}");
    let ran = records(&pair.b.data());
    let ran = ran
        .iter()
        .filter(|it| it["message_type"] == "tool/call/req");
    assert_eq!(
        ran.count(),
        0,
        "it never came to an end, and it was not begun again"
    );
    // The node is itself again.
    let (_, answered) = call(&mut wire, "c2", "time_there", &json!({}));
    assert_eq!(answered["data"]["success"], true, "{answered}");
    intact(&[&pair.a, &pair.b]);
}

/// B goes on with work that has a name, whoever waits for it; the agent is told that nobody does.
#[test]
fn a_crashes_and_b_ends_what_it_began() {
    let mut pair = Pair::start("", "");
    let (wire, session) = begun(&pair);
    let folder = pair.folders[0].path().to_owned();
    pair.a.signal("-KILL");
    pair.a.wait();
    drop(wire);
    fs::write(pair.b.data().join("workspace/go"), "").unwrap();
    let done = loop {
        let all = records(&pair.b.data());
        let done = all.iter().find(|it| it["message_type"] == "tool/call/req");
        if let Some(done) = done {
            break done.clone();
        }
    };
    assert_eq!(done["response_status"], "success", "{done}");
    pair.a = Node::start(&folder, &asking(&pair.b, ""));
    let mut wire = pair.a.wire();
    let mut again = hello(&pair.a);
    again["resume"] = json!({"session_id": session, "last_eid": 2});
    assert_eq!(wire.ask(&again)["resumed"], true);
    let told = wire.hear().unwrap();
    assert_eq!(
        (&told["req_id"], &told["detail"]["reason"]),
        (&json!("c1"), &json!("host_restarted")),
        "{told}"
    );
    let (_, answered) = call(&mut wire, "c2", "time_there", &json!({}));
    assert_eq!(answered["data"]["success"], true, "{answered}");
    let [_, sent, received, _] = pair.story("c2");
    assert_eq!(sent["response_hash"], received["response_hash"]);
    intact(&[&pair.a, &pair.b]);
}
