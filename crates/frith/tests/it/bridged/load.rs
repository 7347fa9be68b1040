//! What an operator does to both nodes while agents work through them.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

/// B lets A ask as often as it likes.
const OFTEN: &str = "a2a:\n  policy: {rate_limit: 100000, rate_period: 3600}\n";

/// Told to the agents, whatever becomes of the test.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Has agents call tools of B through A, each in one session and one call after the other, while
/// something is done. Each call is answered well; returns their ids.
fn under_load(pair: &Pair, meanwhile: impl FnOnce()) -> Vec<String> {
    let is_over = AtomicBool::new(false);
    let work = |agent_number: usize| {
        let mut wire = agent(&pair.a);
        let mut ids = Vec::new();
        while ids.len() < 2 || !is_over.load(Ordering::Relaxed) {
            let id = format!("a{agent_number}-{}", ids.len());
            let (tool, arguments) = match ids.len() % 4 {
                0 => ("peer:beta:demo.count.v1", json!({"text": "four"})),
                _ => ("time_there", json!({})),
            };
            let (events, answered) = call(&mut wire, &id, tool, &arguments);
            assert_eq!(answered["data"]["success"], true, "{id}: {answered}");
            assert_eq!(events.is_empty(), tool == "time_there", "{id}: {events:?}");
            ids.push(id);
        }
        ids
    };
    std::thread::scope(|scope| {
        let over = Over(&is_over);
        let agents: Vec<_> = (0..3)
            .map(|number| scope.spawn(move || work(number)))
            .collect();
        meanwhile();
        drop(over);
        let ids = agents.into_iter().map(|agent| agent.join().unwrap());
        ids.flatten().collect()
    })
}

/// The one record that is meant: it tells of something that went well.
fn one<'a>(all: &'a [Value], what: &dyn Fn(&Value) -> bool) -> &'a Value {
    let found: Vec<_> = all.iter().filter(|it| what(it)).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    let found = found[0];
    assert_eq!(found["response_status"], "success", "{found}");
    found
}

/// Both records verify, and tell of each call the same, once.
fn told_alike(pair: &Pair, ids: &[String]) {
    intact(&[&pair.a, &pair.b]);
    let (a, b) = (records(&pair.a.data()), records(&pair.b.data()));
    for id in ids {
        let asked = one(&a, &|it| {
            it["message_type"] == "tool/call/req" && it["request_id"] == **id
        });
        let sent = one(&a, &|it| it["correlation_id"] == **id);
        let same = |it: &Value| it["request_id"] == sent["request_id"];
        let received = one(&b, &|it| same(it) && it["intent_id"] == sent["intent_id"]);
        let done = one(&b, &|it| same(it) && it["message_type"] == "tool/call/req");
        assert_eq!(received["response_hash"], sent["response_hash"], "{id}");
        assert_eq!(received["intent_goal"], sent["intent_goal"], "{id}");
        assert_eq!(done["correlation_id"], sent["intent_id"], "{id}");
        assert_ne!(asked["session_id"], done["session_id"], "{id}");
    }
    let ran = b.iter().filter(|it| it["message_type"] == "tool/call/req");
    assert_eq!(
        ran.count(),
        ids.len(),
        "nothing was done that nobody asked for"
    );
}

fn applied(node: &Node) {
    let (status, out, error) = at(node, &["config", "apply"]);
    assert_eq!(status, 0, "{out}{error}");
}

/// Rules, offers and peers change on both sides, by signal and by the operator.
#[test]
fn both_nodes_read_their_configurations_again_and_no_call_fails() {
    let pair = Pair::start("", OFTEN);
    let [a, b] = [0, 1].map(|side| pair.folders[side].path().join("frith.yaml"));
    let (a_said, b_said) = (
        fs::read_to_string(&a).unwrap(),
        fs::read_to_string(&b).unwrap(),
    );
    let ids = under_load(&pair, || {
        for round in 0..3 {
            let tighter = "policy: {rules: [{name: read_file, action: deny}]}\n";
            fs::write(&b, format!("{b_said}{tighter}")).unwrap();
            pair.b.signal("-HUP");
            let more = format!("      demo.extra{round}: {{description: Is new, tool: extra}}\n");
            fs::write(&a, format!("{a_said}{more}")).unwrap();
            applied(&pair.a);
            let more = format!("  demo.extra{round}: {{tool: current_time}}\n");
            let offered = b_said.replace("intents:\n", &format!("intents:\n{more}"));
            fs::write(&b, offered).unwrap();
            applied(&pair.b);
        }
    });
    told_alike(&pair, &ids);
    // What came last holds.
    let (_, answered) = call(&mut agent(&pair.a), "last", "extra", &json!({}));
    assert_eq!(answered["data"]["success"], true, "{answered}");
    assert_eq!(pair.story("last")[1]["intent_goal"], "extra2");
}

/// The record of B's keys.
fn keys(pair: &Pair) -> (std::path::PathBuf, Value) {
    let file = pair.b.data().join("identity/default/identity.json");
    let record = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    (file, record)
}

/// The key that B proved itself with, each time that A shook hands with it.
fn proved_with(pair: &Pair) -> Vec<Value> {
    let all = records(&pair.a.data());
    let shaken = all
        .iter()
        .filter(|it| it["event_type"] == "handshake_sent" && it["response_status"] == "success");
    shaken.map(|it| it["kid"].clone()).collect()
}

/// Adds a key to B's, and waits until others are shown it; it does not sign yet.
fn rotate(pair: &Pair) -> Value {
    let (status, out, error) = at(&pair.b, &["id", "rotate", "default"]);
    assert_eq!(status, 0, "{out}{error}");
    let new_key = keys(pair).1["keys"][1]["kid"].clone();
    loop {
        let manifest = pair.b.data().join("agent-manifest.json");
        let shown = fs::read_to_string(manifest).unwrap();
        if shown.contains(new_key.as_str().unwrap()) {
            return new_key;
        }
    }
}

/// Has the hour pass at once until the new key signs.
fn take_over(pair: &Pair, new_key: &Value) {
    let (file, mut record) = keys(pair);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    record["keys"][1]["signs_from"] = json!(now.unwrap().as_secs() + 2);
    let beside = file.with_extension("new");
    fs::write(&beside, record.to_string()).unwrap();
    fs::rename(&beside, &file).unwrap();
    loop {
        let all = records(&pair.b.data());
        let changed = all.iter().find(|it| it["event_type"] == "key_change");
        if let Some(changed) = changed {
            assert_eq!(changed["kid"], *new_key, "{changed}");
            return;
        }
    }
}

/// From the first word of a new key until it signs, no call in a session that is open fails, and nobody has
/// to tell the node.
/// Proves A-9-12.
#[test]
fn a_new_key_takes_over_while_calls_go_on() {
    let pair = Pair::start("", OFTEN);
    let mut new_key = Value::Null;
    let ids = under_load(&pair, || {
        new_key = rotate(&pair);
        take_over(&pair, &new_key);
    });
    told_alike(&pair, &ids);
    let before = proved_with(&pair);
    assert!(!before.contains(&new_key), "{before:?}");
    intact(&[&pair.a, &pair.b]);
}

/// A knows B, a did:key, by its address alone: B's manifest there says which keys are its own, while the
/// new one is only shown and when it signs.
#[test]
fn a_new_key_is_believed_in_new_sessions() {
    let pair = Pair::start("", OFTEN);
    let shake = || {
        let (status, out, error) = at(&pair.a, &["peer", "probe", pair.b.at("did")]);
        assert_eq!(status, 0, "{out}{error}");
        proved_with(&pair).pop().unwrap_or_default()
    };
    let new_key = rotate(&pair);
    assert_ne!(shake(), new_key);
    take_over(&pair, &new_key);
    assert_eq!(shake(), new_key);
    // Whoever knows the base specification alone knows the key of the did:key alone.
    let (b, ping) = (
        &pair.b,
        json!({"goal": "frith.ping", "inputs": {"echo": "hi"}}),
    );
    let [session, pong] = &crate::seed004::call(b, &ping.to_string())[..] else {
        panic!("a session and an answer");
    };
    assert_eq!(session["server"], b.at("did"), "{session}");
    assert_eq!(pong["result"]["echo"], "hi", "{pong}");
    let refreshed = records(&pair.a.data());
    let refreshed = refreshed.iter().filter(|it| {
        it["event_type"] == "manifest_refresh" && it["remote_agent_did"] == pair.b.at("did")
    });
    assert!(refreshed.count() >= 1, "it is on record");
    intact(&[&pair.a, &pair.b]);
}

/// Waits until a node has heard that it is to stop.
fn is_stopping(node: &Node) {
    loop {
        let (_, out, _) = at(node, &["status", "--json"]);
        let status: Value = serde_json::from_str(&out).unwrap();
        if status["stopping"] == true {
            return;
        }
    }
}

/// Over either protocol: what runs ends well, and nothing new begins.
#[test]
fn a_node_that_stops_lets_calls_end() {
    let patient = "global_limits: {drain_seconds: 300}\n";
    for stops in ["a", "b"] {
        let mut pair = Pair::start(patient, patient);
        let mut wire = agent(&pair.a);
        wire.say(&call_of("c1", "peer:beta:demo.wait", &json!({})));
        let event = wire.hear().unwrap();
        assert_eq!(event["data"]["message"], "started\n", "{event}");
        let stopping = match stops {
            "a" => &pair.a,
            _ => &pair.b,
        };
        stopping.signal("-TERM");
        is_stopping(stopping);
        let mut late = call_of("c2", "time_there", &json!({}));
        late["timeout"] = json!(1);
        wire.say(&late);
        let (_, refused) = answer(&mut wire);
        assert_eq!(
            (&refused["type"], &refused["req_id"]),
            (&json!("error"), &json!("c2")),
            "{refused}"
        );
        fs::write(pair.b.data().join("workspace/go"), "").unwrap();
        let (_, answered) = answer(&mut wire);
        assert_eq!(answered["data"]["success"], true, "{stops}: {answered}");
        let stopped = match stops {
            "a" => &mut pair.a,
            _ => &mut pair.b,
        };
        assert_eq!(stopped.wait(), Some(0));
        let [asked, sent, received, done] = pair.story("c1");
        for record in [asked, sent, received, done] {
            assert_eq!(record["response_status"], "success", "{stops}: {record}");
        }
        assert!(pair.story("c2")[3].is_null(), "{stops}");
        intact(&[&pair.a, &pair.b]);
    }
}
