//! What agents remember and learn, in a node that is killed, and by the rules of its operator.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::frith;
use crate::node::{Node, Wire};

const CONFIG: &str = "plugins: [{name: memory, type: memory}, \
                      {name: learning, type: learning, adapt_every: 0}]\n";

fn hello(node: &Node) -> Value {
    json!({"type": "handshake/req", "id": "h", "agent_caps": ["memory", "learning"],
        "auth_token": node.token})
}

fn agent(node: &Node) -> (Wire, Value) {
    let mut wire = node.wire();
    let opened = wire.ask(&hello(node));
    assert_eq!(opened["ok"], true, "{opened}");
    (wire, opened["session_id"].clone())
}

/// A session that comes back has what it remembered for itself, by the names it had; another has not.
#[test]
fn a_session_that_comes_back_remembers() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), CONFIG);
    let (mut wire, session) = agent(&node);
    let init = json!({"type": "memory/init/req", "id": "1", "namespace": "n"});
    let memory = wire.ask(&init)["memory_id"].clone();
    let entries = json!([{"key": "k", "content": "kept", "tier": "working"}]);
    let store =
        json!({"type": "memory/store/req", "id": "2", "memory_id": memory, "entries": entries});
    assert_eq!(wire.ask(&store)["stored"], json!(["k"]));
    drop(wire);
    let find = |wire: &mut Wire, id: &str| {
        wire.ask(
            &json!({"type": "memory/retrieve/req", "id": id, "memory_id": memory,
            "tier": "working"}),
        )
    };
    let back = |node: &Node, last_eid: u64| {
        let mut wire = node.wire();
        let mut again = hello(node);
        again["resume"] = json!({"session_id": session, "last_eid": last_eid});
        let answer = wire.ask(&again);
        assert_eq!(answer["resumed"], true, "{answer}");
        wire
    };
    let mut wire = back(&node, 3);
    let found = find(&mut wire, "3");
    assert_eq!(found["entries"][0]["content"], "kept", "{found}");
    node.crash();
    let node = Node::start(folder.path(), CONFIG);
    let mut wire = back(&node, 4);
    let found = find(&mut wire, "4");
    assert_eq!(found["entries"][0]["content"], "kept", "{found}");
    let (mut other, _) = agent(&node);
    let refused = find(&mut other, "5");
    assert_eq!(refused["code"], "memory_not_found", "{refused}");
    let own = other.ask(&json!({"type": "memory/init/req", "id": "6", "namespace": "n"}));
    assert_eq!(own["tiers"]["working"]["entries"], 0, "{own}");
}

/// How often the node is killed, how much is stored at once, and how many requests are under way.
const KILLS: usize = 6;
const BULK: usize = 300;
const WINDOW: usize = 6;

/// The requests of a number: entries, experiences and a refinement of two edits.
fn requests(number: usize) -> [Value; 3] {
    let entry = |part: usize| {
        json!({"key": {"bulk": number, "part": part}, "content": format!("words of {number}"),
            "tier": "episodic", "tags": [format!("b{number}")]})
    };
    let lived = json!({"action": {"component_name": "c"}, "reward": 1});
    let edit = |path: &str| json!({"target": "prompt", "op": "replace", "path": path, "new_value": number});
    let edits = [edit("prompt.a"), edit("prompt.b")];
    let proposal = json!({"refinement_id": format!("r{number}"), "edits": edits, "confidence": 1});
    let entries: Vec<Value> = (0..BULK).map(entry).collect();
    [
        json!({"type": "memory/store/req", "id": format!("m{number}"), "entries": entries}),
        json!({"type": "learn/experience/req", "id": format!("e{number}"),
            "experiences": vec![lived; BULK]}),
        json!({"type": "learn/refinement/apply/req", "id": format!("r{number}"),
            "proposal": proposal}),
    ]
}

/// What one node was asked for and has acknowledged until it was killed.
fn work_and_crash(folder: &Path, first: usize, wanted: usize) -> (usize, Vec<String>) {
    let node = Node::start(folder, CONFIG);
    let (mut wire, _) = agent(&node);
    let mut next = first;
    let mut heard = Vec::new();
    for _ in 0..WINDOW {
        requests(next).iter().for_each(|request| wire.say(request));
        next += 1;
    }
    while heard.len() < wanted {
        heard.push(wire.hear().unwrap());
        if heard.len() % 3 == 0 {
            requests(next).iter().for_each(|request| wire.say(request));
            next += 1;
        }
    }
    node.crash();
    // What it had said by then was acknowledged too.
    heard.extend(wire.last_words());
    let done = heard.iter().map(|answer| {
        assert_ne!(answer["type"], "error", "{answer}");
        answer["req_id"].as_str().unwrap().to_owned()
    });
    (next, done.collect())
}

/// Every entry there is, by its bulk.
fn bulks(wire: &mut Wire) -> BTreeMap<usize, usize> {
    let mut counts = BTreeMap::new();
    let mut after = json!(0);
    while !after.is_null() {
        let page = wire.ask(
            &json!({"type": "memory/retrieve/req", "id": format!("p{after}"),
            "tier": "episodic", "after": after, "limit": 1000}),
        );
        for entry in page["entries"].as_array().unwrap() {
            let bulk = usize::try_from(entry["key"]["bulk"].as_u64().unwrap()).unwrap();
            *counts.entry(bulk).or_default() += 1;
        }
        after = page["next"].clone();
    }
    counts
}

/// What was acknowledged is there, and nothing is there in part.
fn look(folder: &Path, acknowledged: &[String]) {
    let node = Node::start(folder, CONFIG);
    let (mut wire, _) = agent(&node);
    let bulks = bulks(&mut wire);
    for (bulk, count) in &bulks {
        assert_eq!(*count, BULK, "bulk {bulk} is there in part");
        let words = json!({"type": "memory/retrieve/req", "id": format!("w{bulk}"),
            "query": format!("{bulk}"), "tags": [format!("b{bulk}")], "limit": 1});
        assert_eq!(wire.ask(&words)["total"], BULK, "the index of bulk {bulk}");
    }
    let stats = wire.ask(&json!({"type": "learn/stats/req", "id": "s", "component_name": "c"}));
    // The first may be killed before it was told of any.
    let lived = stats["components"][0]["calls_total"].as_u64().unwrap_or(0);
    assert_eq!(
        lived % BULK as u64,
        0,
        "experiences were counted in part: {lived}"
    );
    let history = wire.ask(&json!({"type": "learn/refinement/history/req", "id": "y"}));
    let history = history["entries"].as_array().unwrap();
    let mut refined = Vec::new();
    for entry in history {
        let prompt = &entry["after_snapshot"]["prompt"];
        assert_eq!(prompt["a"], prompt["b"], "applied in part: {entry}");
        refined.push(entry["refinement_id"].as_str().unwrap());
    }
    let has = |kind: char| acknowledged.iter().filter(move |id| id.starts_with(kind));
    for id in has('m') {
        assert!(bulks.contains_key(&id[1..].parse().unwrap()), "{id}");
    }
    assert!(lived >= (has('e').count() * BULK) as u64);
    for id in has('r') {
        assert!(refined.contains(&&**id), "{id}");
    }
    // The newest can be taken back, to what was there before it.
    if let [newest, before, ..] = history.as_slice() {
        assert_eq!(newest["before_snapshot"], before["after_snapshot"]);
    }
}

#[test]
fn bulks_and_refinements_survive_kill_9() {
    let folder = tempfile::tempdir().unwrap();
    let (mut next, mut all) = (0, Vec::new());
    for round in 0..KILLS {
        let (after, acknowledged) = work_and_crash(folder.path(), next, 1 + round * 3);
        // Numbers beyond the last that was acknowledged may be there, too.
        next = after;
        all.extend(acknowledged);
        look(folder.path(), &all);
    }
    assert!(all.len() > KILLS, "{}", all.len());
}

/// The rule that docs/memory.md has: what is to be shared waits for the operator, the rest does not.
#[test]
fn rules_see_what_is_to_be_shared() {
    let rule = "{id: share, capability: memory, name: memory/store/req, \
                when: \"contains(entries[].tier, 'semantic')\", action: deny}";
    let docs = std::fs::read_to_string(testkit::workspace().join("docs/memory.md")).unwrap();
    let told = rule
        .replace("id: share, ", "")
        .replace("deny", "require_approval");
    assert!(docs.contains(&told), "{told}");
    let folder = tempfile::tempdir().unwrap();
    let config = format!("{CONFIG}policy: {{rules: [{rule}]}}\n");
    let node = Node::start(folder.path(), &config);
    let (mut wire, _) = agent(&node);
    let mut store = |id: &str, entries: Value| {
        wire.ask(&json!({"type": "memory/store/req", "id": id, "entries": entries}))
    };
    let own = json!({"key": "a", "content": 1, "tier": "episodic"});
    let shared = json!({"key": "b", "content": 1, "tier": "semantic"});
    assert_eq!(store("1", json!([own]))["stored"], json!(["a"]));
    let refused = store("2", json!([own, shared]));
    assert_eq!(refused["code"], "unauthorized", "{refused}");
    assert_eq!(refused["detail"]["rule"], "share", "{refused}");
}

/// A model that others serve, until it is dropped.
struct Served(Child);

impl Served {
    fn start() -> (Self, String) {
        let mut process = Command::new(testkit::python())
            .arg(testkit::workspace().join("conformance/embeddings.py"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(process.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        (Self(process), line.trim().to_owned())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Keeps some things, and asks until something comes first that has no word of the question.
fn found_by_meaning(embedder: &str, entries: &[(&str, &str)], query: &str, expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    let config = format!("plugins: [{{name: memory, type: memory, embedder: {embedder}}}]\n");
    let node = Node::start(folder.path(), &config);
    let data = node.data();
    let memory = |words: &[&str]| {
        let data = ["--data", data.to_str().unwrap()];
        let (status, out, error) = frith(&[&["memory"], words, &data].concat(), "");
        assert_eq!(status, 0, "{error}");
        out
    };
    for (key, content) in entries {
        memory(&["put", key, content]);
    }
    // Vectors are made in the background.
    loop {
        let found = memory(&["search", "--json", query]);
        let found: Value = serde_json::from_str(&found).unwrap();
        if found[0]["key"] == json!({"key": expected}) {
            return;
        }
    }
}

#[test]
fn a_served_model_reads_what_is_remembered() {
    let (_served, url) = Served::start();
    let host = url.trim_start_matches("http://").trim_end_matches("/v1");
    let embedder = format!("{{url: '{url}', model: wordllama, private_hosts: ['{host}']}}");
    let entries = [
        ("pet", "we have a small dog called Rex"),
        ("shed", "the hammer is in the garden shed"),
    ];
    found_by_meaning(&embedder, &entries, "puppy", "pet");
}

#[cfg(feature = "embed")]
#[test]
fn a_model_in_a_folder_reads_what_is_remembered() {
    let model = testkit::workspace().join("crates/a2e-caps/tests/it/memory_local/plain");
    let embedder = format!("{{folder: '{}'}}", model.display());
    let entries = [("name", "name"), ("mail", "mail")];
    found_by_meaning(&embedder, &entries, "user", "mail");
}

/// Tools that a search finds, in its order, before and after one was found good and another bad.
fn ranked(learning: &str) -> (Vec<String>, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let config = format!("plugins: [{{name: tools, type: tools}}, {learning}]\n");
    let node = Node::start(folder.path(), &config);
    let mut wire = node.wire();
    let mut hello = hello(&node);
    hello["agent_caps"] = json!(["tools", "learning"]);
    assert_eq!(wire.ask(&hello)["ok"], true);
    let search = |wire: &mut Wire, id: &str| -> Vec<String> {
        let list = wire.ask(&json!({"type": "tool/list/req", "id": id, "query": "file"}));
        let tools = list["tools"].as_array().unwrap().iter();
        tools
            .map(|it| it["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let before = search(&mut wire, "1");
    for (id, tool, reward) in [("2", &before[0], -1), ("3", &before[2], 1)] {
        let lived = json!({"action": {"tools": [tool]}, "reward": reward});
        let request = json!({"type": "learn/experience/req", "id": id,
            "experiences": vec![lived; 40]});
        assert_eq!(wire.ask(&request)["stored"], 40);
    }
    wire.ask(&json!({"type": "learn/adapt/req", "id": "4", "strategy": "softmax"}));
    let after = search(&mut wire, "5");
    (before, after)
}

#[test]
fn a_search_goes_by_what_was_learned_if_the_configuration_says_so() {
    let place = |names: &[String], name: &String| names.iter().position(|it| it == name);
    let (before, after) = ranked("{name: learning, type: learning, rank_tools: true}");
    assert!(
        place(&after, &before[2]) < place(&after, &before[0]),
        "{after:?}"
    );
    let (before, after) = ranked("{name: learning, type: learning}");
    assert_eq!(before, after);
}
