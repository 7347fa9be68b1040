//! What is offered and asked changes while both nodes run.

use super::*;

const WITHOUT: &str = "plugins: [{name: tools, type: tools}]\n";

fn says(pair: &Pair, id: &str) -> Value {
    let (_, answered) = call(&mut agent(&pair.a), id, "time_there", &json!({}));
    answered
}

fn manifest(node: &Node) -> Value {
    let text = fs::read_to_string(node.data().join("agent-manifest.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn a_file_takes_offers_back_and_only_the_operator_adds_them() {
    let pair = Pair::start("", "");
    assert_eq!(says(&pair, "c0")["data"]["success"], true);
    let file = pair.folders[1].path().join("frith.yaml");
    // Taking back needs nobody's consent.
    fs::write(&file, WITHOUT).unwrap();
    pair.b.signal("-HUP");
    let mut number = 1;
    while says(&pair, &format!("c{number}"))["code"] != "unknown_tool" {
        number += 1;
    }
    while manifest(&pair.b)["capabilities"] != json!(["frith.ping"]) {}
    // Offering does.
    let offer = format!("{WITHOUT}intents: {{demo.time: {{tool: current_time}}}}\n");
    fs::write(&file, offer).unwrap();
    let (status, out, error) = at(&pair.b, &["config", "apply"]);
    assert_eq!(status, 0, "{out}{error}");
    assert_eq!(says(&pair, "last")["data"]["success"], true);
    assert_eq!(
        manifest(&pair.b)["capabilities"],
        json!(["frith.ping", "demo.time"])
    );
    intact(&[&pair.a, &pair.b]);
}

/// What is asked of other agents holds as soon as the operator says so, in sessions that are there too;
/// and what waits for the next start is named.
#[test]
fn a_policy_for_others_holds_from_the_next_request_on() {
    let pair = Pair::start("", "");
    assert_eq!(says(&pair, "c0")["data"]["success"], true);
    let file = pair.folders[1].path().join("frith.yaml");
    let before = fs::read_to_string(&file).unwrap();
    let blocked = "a2a:\n  policy: {blocked_intents: [demo.time]}\n";
    fs::write(
        &file,
        format!("{before}{blocked}host_id: b\nworkspace: .\n"),
    )
    .unwrap();
    let (status, out, error) = at(&pair.b, &["config", "apply"]);
    assert_eq!(status, 0, "{out}{error}");
    assert!(
        error.contains("these change at the next start: workspace\n"),
        "{error}"
    );
    let answered = says(&pair, "c1");
    assert_eq!(answered["code"], "tool_denied", "{answered}");
    assert_eq!(answered["detail"]["reason"], "intent_blocked", "{answered}");
    assert_eq!(
        manifest(&pair.b)["policy"]["blocked_intents"],
        json!(["demo.time"])
    );
    intact(&[&pair.a, &pair.b]);
}

/// What a peer has asked for runs in the name of an agent without a session of it. It ends all the same.
#[test]
fn an_intent_of_a_peer_ends_when_it_is_that_agent_no_longer() {
    let pair = Pair::start("", "");
    let file = pair.folders[1].path().join("frith.yaml");
    let before = fs::read_to_string(&file).unwrap();
    let apply = |text: &str| {
        fs::write(&file, text).unwrap();
        let (status, out, error) = at(&pair.b, &["config", "apply"]);
        assert_eq!(status, 0, "{out}{error}");
    };
    let did = pair.a.at("did");
    apply(&format!("{before}agents: [{{name: eve, did: '{did}'}}]\n"));
    let mut wire = agent(&pair.a);
    wire.say(&call_of("w", "peer:beta:demo.wait", &json!({})));
    let started = wire.hear().unwrap();
    assert_eq!(started["type"], "tool/event", "{started}");
    apply(&before);
    let (_, answered) = answer(&mut wire);
    assert_eq!(answered["type"], "error", "{answered}");
    assert_eq!(says(&pair, "c1")["data"]["success"], true);
}
