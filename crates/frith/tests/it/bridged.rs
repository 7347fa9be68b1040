//! Both protocols joined, as processes: an agent, its node A (A2E), node B (A2A), and a tool in B's sandbox.

mod chained;
mod crashes;
mod load;
mod login;
mod refusals;
mod reload;
mod restored;
mod retention;
mod sub_agents;
mod targets;

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::frith;
use crate::node::{Node, Wire};

/// What B offers.
const OFFER: &str = "plugins: [{name: tools, type: tools}]
intents:
  demo.count.v1:
    command: [sh, -c, 'for i in 1 2 3; do echo $i; done; echo $0', '{text}']
    parameters: {text: {type: string, maxLength: 5}}
    required: [text]
  demo.wait: {command: [sh, -c, 'echo started; while ! test -e go; do sleep 0.05; done; echo ended']}
  demo.long: {command: [sh, -c, 'head -c 100000 /dev/zero | tr \"\\\\0\" x']}
  demo.fail: {tool: read_file}
  demo.exit: {command: [sh, -c, 'echo said; exit 3']}
  demo.blocked: {tool: current_time}
  demo.ruled: {tool: current_time}
  demo.time: {tool: current_time}
";

/// What A asks of it.
const ASKED: &str = "      demo.count.v1: {description: Counts, parameters: {text: {type: string}}, required: [text]}
      demo.wait: {description: Waits}
      demo.long: {description: Says much}
      demo.fail: {description: Fails, parameters: {path: {type: string}}}
      demo.exit: {description: Ends with 3}
      demo.blocked: {description: Is blocked}
      demo.ruled: {description: Is against the rules}
      demo.time: {description: Tells the time, tool: time_there}
      demo.missing: {description: Is not there}
";

struct Pair {
    a: Node,
    b: Node,
    folders: [TempDir; 2],
}

impl Pair {
    fn start(a_says: &str, b_says: &str) -> Self {
        let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let b = Node::start(folders[1].path(), &format!("{OFFER}{b_says}"));
        let a = Node::start(folders[0].path(), &asking(&b, a_says));
        Self { a, b, folders }
    }

    /// What is on record of a call, on both sides: A2E and A2A at A, A2A and A2E at B.
    fn story(&self, id: &str) -> [Value; 4] {
        let (a, b) = (records(&self.a.data()), records(&self.b.data()));
        let find = |all: &[Value], what: &dyn Fn(&Value) -> bool| {
            let found = all.iter().find(|record| what(record)).cloned();
            found.unwrap_or_default()
        };
        let asked = find(&a, &|it| it["request_id"] == id);
        let sent = find(&a, &|it| {
            it["event_type"] == "request_sent" && it["correlation_id"] == id
        });
        let same =
            |it: &Value| !it["request_id"].is_null() && it["request_id"] == sent["request_id"];
        let received = find(&b, &|it| same(it) && !it["intent_goal"].is_null());
        let done = find(&b, &|it| same(it) && it["message_type"] == "tool/call/req");
        [asked, sent, received, done]
    }
}

/// A's configuration.
fn asking(b: &Node, more: &str) -> String {
    let (did, url) = (b.at("did"), b.at("a2a"));
    format!(
        "plugins: [{{name: tools, type: tools}}]\npeers:\n  beta:\n    did: {did}\n    url: {url}\n    intents:\n{ASKED}{more}"
    )
}

fn agent(node: &Node) -> Wire {
    let mut wire = node.wire();
    let hello = json!({"type": "handshake/req", "id": "h", "agent_caps": ["tools"], "auth_token": node.token});
    assert_eq!(wire.ask(&hello)["ok"], true);
    wire
}

fn call_of(id: &str, tool: &str, arguments: &Value) -> Value {
    json!({"type": "tool/call/req", "id": id, "tool_name": tool, "arguments": arguments,
        "streaming": true, "timeout": 60})
}

/// Events, and then the answer.
fn answer(wire: &mut Wire) -> (Vec<Value>, Value) {
    let mut events = Vec::new();
    loop {
        let heard = wire.hear().unwrap();
        match heard["type"].as_str().unwrap() {
            "tool/event" => events.push(heard),
            _ => return (events, heard),
        }
    }
}

fn call(wire: &mut Wire, id: &str, tool: &str, arguments: &Value) -> (Vec<Value>, Value) {
    wire.say(&call_of(id, tool, arguments));
    answer(wire)
}

/// What a node has on record.
pub(crate) fn records(data: &Path) -> Vec<Value> {
    let mut files: Vec<_> = fs::read_dir(data.join("audit"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|it| it == "jsonl"))
        .collect();
    files.sort();
    let texts = files.iter().map(|file| fs::read_to_string(file).unwrap());
    let texts: Vec<String> = texts.collect();
    let lines = texts.iter().flat_map(|text| text.lines());
    // The last line of a log that grows may be half written.
    lines
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

fn at(node: &Node, arguments: &[&str]) -> (i32, String, String) {
    let data = node.data();
    frith(
        &[arguments, &["--data", data.to_str().unwrap()]].concat(),
        "",
    )
}

fn intact(nodes: &[&Node]) {
    for node in nodes {
        let (status, out, error) = at(node, &["audit", "verify"]);
        assert_eq!(status, 0, "{out}{error}");
    }
}

#[test]
fn an_agent_has_a_tool_run_on_another_node() {
    let pair = Pair::start("", "");
    let mut wire = agent(&pair.a);
    let listed = wire.ask(&json!({"type": "tool/list/req", "id": "l", "query": "Counts"}));
    let tools = listed["tools"].as_array().unwrap();
    let tool = tools
        .iter()
        .find(|it| it["name"] == "peer:beta:demo.count.v1");
    let tool = tool.unwrap_or_else(|| panic!("{listed}"));
    assert_eq!(tool["input_parameters"][0]["name"], "text", "{tool}");

    let (events, answered) = call(
        &mut wire,
        "c1",
        "peer:beta:demo.count.v1",
        &json!({"text": "four"}),
    );
    let result = &answered["data"];
    assert_eq!(result["data"]["stdout"], "1\n2\n3\nfour\n", "{answered}");
    assert_eq!(result["exit_code"], 0, "{answered}");
    let told: String = events
        .iter()
        .filter(|event| event["kind"] == "log")
        .map(|event| event["data"]["message"].as_str().unwrap())
        .collect();
    assert_eq!(told, "1\n2\n3\nfour\n", "{events:?}");

    let (a, b) = (pair.a.at("did"), pair.b.at("did"));
    let [asked, sent, received, done] = pair.story("c1");
    assert_eq!(asked["name"], "peer:beta:demo.count.v1", "{asked}");
    assert_eq!(
        (
            &sent["remote_agent_did"],
            &sent["intent_domain"],
            &sent["intent_goal"]
        ),
        (&json!(b), &json!("demo"), &json!("count.v1"))
    );
    assert_eq!(received["remote_agent_did"], a, "{received}");
    assert_eq!(received["intent_id"], sent["intent_id"]);
    assert_eq!(
        (&done["agent"], &done["name"]),
        (&json!(a), &json!("intent:demo.count.v1"))
    );
    assert_eq!(done["correlation_id"], sent["intent_id"], "{done}");
    for record in [asked, sent, received, done] {
        assert_eq!(record["response_status"], "success", "{record}");
    }
    intact(&[&pair.a, &pair.b]);
}

/// What is too large for an agent is cut by its own node, which keeps the rest for it.
#[test]
fn a_large_result_comes_whole_to_the_node_that_asked() {
    let pair = Pair::start("", "");
    let mut wire = agent(&pair.a);
    let (_, answered) = call(&mut wire, "c1", "peer:beta:demo.long", &json!({}));
    let result = &answered["data"];
    assert_eq!(result["truncated"], true, "{answered}");
    let artifact = &result["data"]["artifacts"]["stdout"];
    assert_eq!(artifact["bytes"], 100_000, "{answered}");
    let arguments = json!({"id": artifact["id"], "offset": 99_990});
    let (_, rest) = call(&mut wire, "c2", "artifact_read", &arguments);
    assert_eq!(rest["data"]["data"]["content"], "x".repeat(10), "{rest}");
}

/// What is on record of a call that was given up, when all is.
fn cancelled(pair: &Pair, id: &str) {
    let [_, sent, received, done] = loop {
        let story = pair.story(id);
        if story.iter().all(|record| !record.is_null()) {
            break story;
        }
    };
    for record in [sent, received] {
        assert_eq!(record["response_status"], "CANCELLED", "{record}");
    }
    assert_eq!(done["response_status"], "cancelled", "{done}");
}

/// An agent that waits no longer is noticed as far as the tool.
#[test]
fn a_cancelled_call_ends_on_the_other_node() {
    let pair = Pair::start("", "");
    let mut wire = agent(&pair.a);
    let mut request = call_of("c1", "peer:beta:demo.wait", &json!({}));
    request["timeout"] = json!(1);
    wire.say(&request);
    let (events, answered) = answer(&mut wire);
    assert_eq!(events[0]["data"]["message"], "started\n", "{events:?}");
    assert_eq!(answered["code"], "timeout", "{answered}");
    cancelled(&pair, "c1");
    // And it is not in the way of what comes next.
    let (_, answered) = call(&mut wire, "c2", "time_there", &json!({}));
    assert_eq!(answered["data"]["success"], true, "{answered}");
    intact(&[&pair.a, &pair.b]);
}

/// So is one that ends its session.
#[test]
fn an_agent_that_leaves_takes_its_calls_along() {
    let pair = Pair::start("", "");
    let mut wire = agent(&pair.a);
    wire.say(&call_of("c1", "peer:beta:demo.wait", &json!({})));
    let event = wire.hear().unwrap();
    assert_eq!(event["data"]["message"], "started\n", "{event}");
    wire.say(&json!({"type": "shutdown", "id": "s", "timeout": 0}));
    cancelled(&pair, "c1");
    intact(&[&pair.a, &pair.b]);
}
