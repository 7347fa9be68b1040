//! Skills, chains and environments of B that A asks for.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use super::*;
use crate::frith_in;

const REPORT: &str = r#"{"entry_node": "put", "nodes": [
  {"node_id": "put", "kind": "tool", "name": "write_file", "input": {"path": "note.txt"}, "input_map": {"content": "$.text"}, "next_node": "get"},
  {"node_id": "get", "kind": "tool", "name": "read_file", "input": {"path": "note.txt"}}]}"#;

const OFFERED: &str = "plugins:
  - {name: tools, type: tools}
  - {name: chains, type: chains}
  - {name: skills, type: skills}
  - {name: env, type: env}
intents:
  demo.greet: {skill: greet}
  demo.missing: {skill: nobody}
  demo.report.v1: {chain: report.json, description: Reports, parameters: {text: {type: string, maxLength: 5}}, required: [text]}
  demo.slow:
    chain: {entry_node: wait, nodes: [{node_id: wait, kind: tool, name: run_command, input: {command: 'while ! test -e go; do sleep 0.05; done'}}]}
  demo.world: {env: counter}
  demo.other: {env: counter}
  demo.shell: {env: terminal}
policy:
  rules:
    - {id: no-shell, capability: env, name: terminal, trust: self, action: deny}
    - {id: not-mallory, capability: skill, name: greet, when: \"who == 'Mallory'\", action: deny}
";

const SKILL: &str = "---\nname: greet\ndescription: Greets somebody\ninputs: {who: string Whom}\n---\n\
    Say hello to {who}.\n";

fn pair() -> Pair {
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let [a, b] = &folders;
    fs::write(b.path().join("report.json"), REPORT).unwrap();
    let skill = b.path().join("data/skills/greet");
    fs::create_dir_all(&skill).unwrap();
    fs::write(skill.join("SKILL.md"), SKILL).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    fs::set_permissions(b.path().join("data"), mode).unwrap();
    let b = Node::start(b.path(), OFFERED);
    let (did, url) = (b.at("did"), b.at("a2a"));
    let mut config = format!(
        "plugins: [{{name: tools, type: tools}}]\npeers:\n  beta:\n    did: {did}\n    url: {url}\n    intents:\n"
    );
    let any = "parameters: {who: {}, text: {}, do: {}, seed: {}, options: {}, episode_id: {}, action: {}}";
    for name in [
        "greet",
        "missing",
        "report.v1",
        "slow",
        "world",
        "other",
        "shell",
    ] {
        config +=
            &format!("      demo.{name}: {{description: Does it there, tool: {name}, {any}}}\n");
    }
    let a = Node::start(a.path(), &config);
    Pair { a, b, folders }
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events
        .iter()
        .map(|it| it["kind"].as_str().unwrap())
        .collect()
}

#[test]
fn a_skill_is_called_for_a_peer() {
    let pair = pair();
    let mut wire = agent(&pair.a);
    let (events, answered) = call(&mut wire, "c1", "greet", &json!({"who": "Ada"}));
    let prompt = &answered["data"]["data"]["prompt"];
    assert_eq!(
        prompt.as_str().map(str::trim),
        Some("Say hello to Ada."),
        "{answered}"
    );
    let kinds = kinds(&events);
    assert_eq!(kinds.first(), Some(&"skill.started"), "{kinds:?}");
    assert_eq!(kinds.last(), Some(&"skill.completed"), "{kinds:?}");
    for (id, tool, arguments, code) in [
        ("c2", "greet", json!({}), "schema_violation"),
        ("c3", "greet", json!({"who": "Mallory"}), "tool_denied"),
        ("c4", "missing", json!({}), "unknown_tool"),
    ] {
        let (_, answered) = call(&mut wire, id, tool, &arguments);
        assert_eq!(answered["code"], code, "{answered}");
    }
    // One story: B has the call under the id that A sent it with.
    let [_, sent, received, _] = pair.story("c1");
    let all = records(&pair.b.data());
    let done = all.iter().find(|it| it["message_type"] == "skill/call/req");
    let done = done.unwrap();
    assert_eq!(done["request_id"], sent["request_id"], "{done}");
    assert_eq!(done["request_id"], received["request_id"], "{done}");
    assert_eq!(
        (&done["agent"], &done["name"]),
        (&json!(pair.a.at("did")), &json!("greet"))
    );
    assert_eq!(done["correlation_id"], sent["intent_id"], "{done}");
    intact(&[&pair.a, &pair.b]);
}

#[test]
fn a_chain_runs_for_a_peer() {
    let pair = pair();
    let mut wire = agent(&pair.a);
    let (events, answered) = call(&mut wire, "c1", "report.v1", &json!({"text": "four"}));
    let content = &answered["data"]["data"]["content"];
    assert!(
        content.as_str().is_some_and(|it| it.contains("four")),
        "{answered}"
    );
    let told: Vec<_> = events
        .iter()
        .map(|it| (&it["data"]["node_id"], &it["data"]["phase"]))
        .collect();
    let [put, get, start, done] = ["put", "get", "start", "done"].map(Value::from);
    assert_eq!(
        told,
        [(&put, &start), (&put, &done), (&get, &start), (&get, &done)]
    );
    // What goes in is checked, and the chain is not begun.
    for (id, arguments) in [("c2", json!({"text": "fives!"})), ("c3", json!({}))] {
        let (_, answered) = call(&mut wire, id, "report.v1", &arguments);
        assert_eq!(answered["code"], "schema_violation", "{answered}");
    }
    let [_, sent, _, done] = pair.story("c1");
    assert_eq!(done["name"], "intent:demo.report.v1", "{done}");
    let all = records(&pair.b.data());
    let chains: Vec<_> = all
        .iter()
        .filter(|it| it["message_type"] == "chain/req")
        .collect();
    let [chain] = chains.as_slice() else {
        panic!("{chains:?}");
    };
    let inside = format!("{}.0", sent["request_id"].as_str().unwrap());
    assert_eq!(chain["request_id"], inside, "{chain}");
    // It can be tried at home.
    let tried = at(
        &pair.b,
        &["call", "intent:demo.report.v1", r#"{"text": "here"}"#],
    );
    assert_eq!(tried.0, 0, "{tried:?}");
    assert!(tried.1.contains("here"), "{tried:?}");
    intact(&[&pair.a, &pair.b]);
}

#[test]
fn a_chain_ends_when_its_peer_waits_no_longer() {
    let pair = pair();
    let mut wire = agent(&pair.a);
    let mut request = call_of("c1", "slow", &json!({}));
    request["timeout"] = json!(1);
    wire.say(&request);
    let (events, answered) = answer(&mut wire);
    assert_eq!(events[0]["data"]["phase"], "start", "{events:?}");
    assert_eq!(answered["code"], "timeout", "{answered}");
    // The tool that is the intent, the chain, and the command in it.
    let ended = loop {
        let all = records(&pair.b.data());
        let ended = all.into_iter().filter(|it| {
            ["tool/call/req", "chain/req"]
                .iter()
                .any(|name| it["message_type"] == *name)
        });
        let ended: Vec<Value> = ended.collect();
        if ended.len() >= 3 {
            break ended;
        }
    };
    for record in &ended {
        assert_eq!(record["response_status"], "cancelled", "{record}");
    }
    assert_eq!(ended.len(), 3, "{ended:?}");
    intact(&[&pair.a, &pair.b]);
}

#[test]
fn an_episode_goes_on_from_one_request_to_the_next() {
    let pair = pair();
    let mut wire = agent(&pair.a);
    let mut number = 0;
    let mut ask = |tool: &str, arguments: Value| {
        number += 1;
        call(&mut wire, &format!("c{number}"), tool, &arguments).1
    };
    let space = ask("world", json!({"do": "space"}));
    assert!(space["data"]["data"]["action_space"].is_object(), "{space}");
    let begun = ask("world", json!({"do": "reset", "seed": 7}));
    let episode = &begun["data"]["data"]["obs"]["episode_id"];
    let step = json!({"do": "step", "episode_id": episode, "action": {"type": "inc"}});
    for number in 1..=5 {
        let stepped = ask("world", step.clone());
        let obs = &stepped["data"]["data"]["obs"];
        assert_eq!(obs["step_num"], number, "{stepped}");
        assert_eq!(obs["done"], number == 5, "{stepped}");
    }
    for (tool, arguments, code) in [
        ("world", json!({"do": "fly"}), "schema_violation"),
        (
            "world",
            json!({"do": "reset", "options": 5}),
            "schema_violation",
        ),
        ("shell", json!({"do": "reset"}), "tool_denied"),
    ] {
        let answered = ask(tool, arguments);
        assert_eq!(answered["code"], code, "{answered}");
    }
    // What was begun by one intent is not reached by another.
    let look = json!({"do": "observe", "episode_id": episode});
    let answered = ask("other", look.clone());
    assert_eq!(answered["code"], "schema_violation", "{answered}");
    assert_eq!(ask("world", look.clone())["data"]["success"], true);
    let close = json!({"do": "close", "episode_id": episode});
    assert_eq!(ask("world", close)["data"]["data"], json!({"closed": true}));
    let answered = ask("world", look);
    assert_eq!(answered["code"], "schema_violation", "{answered}");
    intact(&[&pair.a, &pair.b]);
}

/// An agent that the rules deny everything asks for more environments than are kept at once.
#[test]
fn requests_that_the_rules_deny_end_no_episode_of_others() {
    const INTENTS: usize = 70;
    let folders = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let [ada, mallory] = [0, 1].map(|number| Node::start(folders[number].path(), "{}"));
    let mut config = "plugins: [{name: env, type: env}]\nintents:\n".to_owned();
    for number in 0..INTENTS {
        config += &format!("  demo.e{number}: {{env: counter}}\n");
    }
    config += &format!(
        "policy: {{rules: [{{id: no, did: '{}', action: deny}}]}}\n",
        mallory.at("did")
    );
    let b = Node::start(folders[2].path(), &config);
    for node in [&ada, &mallory] {
        let (status, out, error) = at(node, &["peer", "add", "beta", b.at("a2a")]);
        assert_eq!(status, 0, "{out}{error}");
    }
    let ask = |intent: &str, inputs: &Value| {
        let call = [
            "--json",
            "peer",
            "call",
            "beta",
            intent,
            &inputs.to_string(),
        ];
        let (status, out, error) = at(&ada, &call);
        assert_eq!(status, 0, "{out}{error}");
        serde_json::from_str::<Value>(&out).unwrap()["answered"]["result"].take()
    };
    let begun = ask("demo.e0", &json!({"do": "reset", "seed": 7}));
    let episode = begun["obs"]["episode_id"].clone();
    assert!(episode.is_string(), "{begun}");
    let mut operator =
        BufReader::new(UnixStream::connect(mallory.data().join("operator.sock")).unwrap());
    for number in 0..INTENTS {
        let goal = format!("demo.e{number}");
        let asked = json!({"op": "peer.call", "to": "beta", "timeout_ms": 30_000, "encrypt": false, "stream": false,
            "intent": {"goal": goal, "inputs": {"do": "reset", "seed": 1}}});
        writeln!(operator.get_mut(), "{asked}").unwrap();
        let mut answer = String::new();
        operator.read_line(&mut answer).unwrap();
        assert!(answer.contains("POLICY_VIOLATION"), "{answer}");
    }
    let step = json!({"do": "step", "episode_id": episode, "action": {"type": "inc"}});
    assert_eq!(ask("demo.e0", &step)["obs"]["step_num"], 1);
    intact(&[&ada, &mallory, &b]);
}

/// Proves A-10-10.
#[test]
fn the_manifest_has_the_names_of_all_kinds() {
    let pair = pair();
    let text = fs::read_to_string(pair.b.data().join("agent-manifest.json")).unwrap();
    let manifest: Value = serde_json::from_str(&text).unwrap();
    let names = manifest["capabilities"].as_array().unwrap();
    for name in ["demo.greet", "demo.report.v1", "demo.slow", "demo.world"] {
        assert!(names.contains(&json!(name)), "{manifest}");
    }
}

/// Before anybody can ask for it.
#[test]
fn a_node_does_not_start_with_a_chain_that_cannot_run() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let up = |config: &str| {
        fs::write(folder.join("frith.yaml"), config).unwrap();
        let words = [
            "up",
            "--listen",
            "127.0.0.1:0",
            "--a2a-listen",
            "127.0.0.1:0",
            "--data",
            "data",
        ];
        let (status, _, error) = frith_in(folder, &words, "");
        assert_eq!(status, 1, "{error}");
        error
    };
    let error = up(
        "intents: {demo.x: {chain: {entry_node: b, nodes: [{node_id: a, kind: tool, name: y}]}}}\n",
    );
    assert!(
        error.contains("`intents.demo.x`: the chain cannot run: "),
        "{error}"
    );
    fs::create_dir(folder.join("work")).unwrap();
    fs::write(folder.join("work/c.json"), REPORT).unwrap();
    let error = up("workspace: work\nintents: {demo.x: {chain: work/c.json}}\n");
    assert!(error.contains("move one of them"), "{error}");
}
