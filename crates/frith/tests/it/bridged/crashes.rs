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

/// The orderly end of B is no different from a crash: what is cut off when its time to drain is over
/// may have been done.
#[test]
fn b_stops_past_its_drain_and_the_work_is_not_done_twice() {
    let pays = "  demo.pay: {command: [sh, -c, 'echo paid >> log; echo started; while ! test -e go; do sleep 0.05; done']}
global_limits: {drain_seconds: 0}
";
    let mut pair = Pair::start("      demo.pay: {description: Pays}\n", pays);
    let mut wire = agent(&pair.a);
    wire.say(&call_of("c1", "peer:beta:demo.pay", &json!({})));
    let event = wire.hear().unwrap();
    assert_eq!(event["data"]["message"], "started\n", "{event}");
    let address = pair.b.at("a2a").trim_start_matches("https://").to_owned();
    let folder = pair.folders[1].path().to_owned();
    pair.b.signal("-TERM");
    assert_eq!(pair.b.wait(), Some(0));
    let again = format!("{OFFER}{pays}a2a: {{listen: '{address}'}}\n");
    pair.b = Node::start(&folder, &again);
    let (_, answered) = answer(&mut wire);
    assert_eq!(answered["code"], "tool_error", "{answered}");
    assert_eq!(
        answered["detail"]["reason"], "already_executed",
        "{answered}"
    );
    assert_eq!(answered["retryable"], false, "{answered}");
    let log = fs::read_to_string(pair.b.data().join("workspace/log")).unwrap();
    assert_eq!(log, "paid\n");
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

/// The peer's tool has its time, of the tool here or of the agent's request: B may have done what it was
/// asked for, so neither the agent's retry nor the node has it done again.
#[test]
fn call_of_a_peer_that_timed_out_is_not_sent_again() {
    let pay = "echo paid >> paid-$0; echo paid; while ! test -e go; do sleep 0.05; done";
    let offer = format!(
        "  demo.pay: {{command: [sh, -c, '{pay}', '{{to}}'], parameters: {{to: {{type: string}}}}, \
         required: [to]}}\n"
    );
    let asked = "      demo.pay: {description: Pays, timeout_seconds: 2, \
                 parameters: {to: {type: string}}, required: [to]}\n";
    let pair = Pair::start(asked, &offer);
    let mut wire = agent(&pair.a);
    for (to, timeout) in [("tool", 60), ("request", 1)] {
        let mut request = call_of(to, "peer:beta:demo.pay", &json!({"to": to}));
        request["timeout"] = json!(timeout);
        let ask = |wire: &mut Wire| {
            wire.say(&request);
            answer(wire)
        };
        let (events, answered) = ask(&mut wire);
        assert_eq!(events[0]["data"]["message"], "paid\n", "{events:?}");
        assert_eq!(answered["code"], "timeout", "{answered}");
        for _ in 0..2 {
            let (_, answered) = ask(&mut wire);
            assert_eq!(answered["retryable"], false, "{to}: {answered}");
        }
        let paid = pair.b.data().join(format!("workspace/paid-{to}"));
        assert_eq!(fs::read_to_string(paid).unwrap(), "paid\n");
    }
    intact(&[&pair.a, &pair.b]);
}
