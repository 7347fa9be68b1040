//! How much a node has in memory at most while eight sessions read the largest of what their agent
//! may keep.

use std::fs::File;
use std::io::Write;

use serde_json::{Value, json};

use crate::node::{Node, Wire};

/// Requests at once, each of a session of its own.
const AT_ONCE: usize = 8;

/// What they may take together, in KiB.
const MOST: u64 = 64 * 1024;

/// All that an agent may use.
const CAPABILITIES: [&str; 12] = [
    "tools",
    "toolkits",
    "skill",
    "proc",
    "memory",
    "learning",
    "chains",
    "env",
    "planning",
    "mcp",
    "multi_agent",
    "events",
];

/// How much there is to read: `cargo xtask full` has the most that an agent may keep, within reason.
#[derive(Clone, Copy)]
struct Amount {
    memories: usize,
    refinements: usize,
    samples: usize,
    tasks: usize,
    line: usize,
    files: usize,
}

const FEW: Amount = Amount {
    memories: 48,
    refinements: 80,
    samples: 160,
    tasks: 300,
    line: 48 << 20,
    files: 3000,
};

const MANY: Amount = Amount {
    memories: 1000,
    refinements: 400,
    samples: 1000,
    tasks: 800,
    line: 240 << 20,
    files: 100_000,
};

fn session(node: &Node, number: usize) -> Wire {
    let mut wire = node.wire();
    let hello = json!({"type": "handshake/req", "id": format!("h{number}"),
        "agent_caps": CAPABILITIES, "auth_token": node.token});
    assert_eq!(wire.ask(&hello)["ok"], true);
    wire
}

/// What the node had in memory at most, in KiB, beyond what it had before, while it was asked this by
/// all at once.
fn peak(node: &Node, request: &Value) -> u64 {
    let mut wires: Vec<Wire> = (0..AT_ONCE).map(|number| session(node, number)).collect();
    node.forget_peak();
    let before = node.memory("VmRSS");
    std::thread::scope(|scope| {
        for (number, wire) in wires.iter_mut().enumerate() {
            let mut request = request.clone();
            request["id"] = json!(format!("r{number}"));
            scope.spawn(move || {
                let answer = wire.ask(&request);
                let kind = answer["type"].as_str().unwrap();
                let shown: String = answer.to_string().chars().take(300).collect();
                assert!(
                    kind != "error" && answer["success"] != false,
                    "{request}: {shown}"
                );
            });
        }
    });
    node.memory("VmHWM").saturating_sub(before)
}

/// Each request by itself, on a node that has what `fill` gives it and has answered nothing yet.
#[expect(clippy::print_stdout, reason = "the figures, for who looks at them")]
fn assert_bounded(fill: impl Fn(&Node, &mut Wire), requests: &[Value]) {
    let folder = tempfile::tempdir().unwrap();
    let mut node = Node::start(folder.path(), "plugins: []\n");
    fill(&node, &mut session(&node, 100));
    let mut peaks = Vec::new();
    for request in requests {
        drop(node);
        node = Node::start(folder.path(), "plugins: []\n");
        let shown: String = request.to_string().chars().take(100).collect();
        peaks.push((peak(&node, request), shown));
    }
    println!("{peaks:#?}");
    let is_bounded = peaks.iter().all(|(peak, _)| *peak <= MOST);
    assert!(is_bounded, "more than {MOST} KiB: {peaks:#?}");
}

fn done(wire: &mut Wire, request: &Value) -> Value {
    let answer = wire.ask(request);
    let shown: String = answer.to_string().chars().take(300).collect();
    assert_ne!(answer["type"], "error", "{shown}");
    answer
}

fn memories(amount: Amount) {
    let fill = |_: &Node, wire: &mut Wire| {
        let text = format!("{} ", "abcdefghij".repeat(10)).repeat(10_000);
        for number in 0..amount.memories {
            let entry = json!({"key": format!("k{number}"), "tier": "episodic", "tags": ["t"],
                "content": format!("apple {text}")});
            let store =
                json!({"type": "memory/store/req", "id": format!("m{number}"), "entries": [entry]});
            assert_eq!(done(wire, &store)["errors"], json!([]));
        }
    };
    let keys: Vec<String> = (0..amount.memories)
        .map(|number| format!("k{number}"))
        .collect();
    let retrieve = |more: Value| {
        let mut request = json!({"type": "memory/retrieve/req", "limit": 1000});
        request
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        request
    };
    assert_bounded(
        fill,
        &[
            retrieve(json!({"tier": "episodic"})),
            retrieve(json!({"query": "apple"})),
            retrieve(json!({"keys": keys})),
            retrieve(json!({"tags": ["t"]})),
            retrieve(json!({"tier": "episodic", "after": 0})),
        ],
    );
}

fn learning(amount: Amount) {
    let fill = |_: &Node, wire: &mut Wire| {
        let state = "s".repeat(30 * 1024);
        for number in 0..amount.refinements {
            let edits: Vec<Value> = (0..2)
                .map(|path| {
                    json!({"target": "prompt", "op": "update", "path": format!("p{path}"),
                    "new_value": format!("{number}{state}"), "confidence": 0.9})
                })
                .collect();
            let proposal = json!({"refinement_id": format!("f{number}"), "edits": edits});
            let apply = json!({"type": "learn/refinement/apply/req", "id": format!("a{number}"), "proposal": proposal});
            assert_eq!(done(wire, &apply)["applied_edits"], 2);
        }
        let step = "s".repeat(240 * 1024);
        for number in 0..amount.samples {
            let experience = json!({"state": {"text": step}, "action": {"component_name": format!("c{number}")}, "reward": 1.0});
            let request = json!({"type": "learn/experience/req", "id": format!("x{number}"), "experiences": [experience]});
            assert_eq!(done(wire, &request)["stored"], 1);
        }
    };
    assert_bounded(
        fill,
        &[
            json!({"type": "learn/refinement/history/req"}),
            json!({"type": "learn/refinement/review/req", "proposal": {"edits": [{"target": "prompt",
                "op": "update", "path": "p0", "new_value": "x", "confidence": 0.9}]}}),
            json!({"type": "learn/samples/req", "kind": "experience", "limit": 1000}),
            json!({"type": "learn/stats/req"}),
            json!({"type": "learn/refinement/plan/req"}),
        ],
    );
}

fn plans(amount: Amount) {
    let fill = |_: &Node, wire: &mut Wire| {
        let plan = done(
            wire,
            &json!({"type": "planning/plan/create", "id": "p", "name": "p"}),
        );
        let text = "d".repeat(16 * 1024);
        let mut first: Vec<Value> = Vec::new();
        for number in 0..amount.tasks {
            let task = json!({"type": "planning/task/add", "id": format!("t{number}"), "plan_id": plan["plan_id"],
                "title": format!("{number}{}", "t".repeat(250)), "description": text,
                "metadata": {"text": text}, "deps": first});
            let added = done(wire, &task);
            assert_eq!(added["success"], true, "{added}");
            if first.len() < 32 {
                first.push(added["task_id"].clone());
            }
        }
    };
    assert_bounded(
        fill,
        &[
            json!({"type": "planning/plan/list"}),
            json!({"type": "planning/task/list"}),
            json!({"type": "planning/plan/board"}),
        ],
    );
}

fn files(amount: Amount) {
    let fill = |node: &Node, _: &mut Wire| {
        let workspace = node.data().join("workspace");
        let mut long = File::create(workspace.join("long")).unwrap();
        for _ in 0..amount.line >> 20 {
            long.write_all(&vec![b'a'; 1 << 20]).unwrap();
        }
        let lines = format!("{}\n", "b".repeat(480)).repeat(5000);
        std::fs::write(workspace.join("lines"), lines).unwrap();
        let many = workspace.join("many");
        std::fs::create_dir(&many).unwrap();
        for number in 0..amount.files {
            let name = format!("{number}{}", "n".repeat(200));
            File::create(many.join(name)).unwrap();
        }
    };
    let call = |tool: &str, arguments: Value| json!({"type": "tool/call/req", "tool_name": tool, "arguments": arguments, "streaming": false});
    assert_bounded(
        fill,
        &[
            call("grep", json!({"pattern": "x"})),
            call(
                "grep",
                json!({"pattern": "b", "limit": 1000, "context": 20}),
            ),
            call(
                "grep",
                json!({"pattern": "a", "path": "long", "mode": "count"}),
            ),
            call("glob", json!({"pattern": "*", "limit": 1000})),
            call("list_dir", json!({"path": "many", "limit": 2000})),
            call("list_dir", json!({"depth": 10, "limit": 2000})),
            call("read_file", json!({"path": "long"})),
            call("read_file", json!({"path": "long", "encoding": "base64"})),
        ],
    );
}

/// What lists nothing that agents keep, or only names.
fn listings() {
    let types = [
        "tool/list/req",
        "toolkit/list/req",
        "env/list/req",
        "env/exp/list/req",
        "proc/status/req",
        "chain/list/req",
        "multi_agent/list",
        "mcp/server/list/req",
    ];
    let requests = types.map(|name| json!({ "type": name }));
    assert_bounded(|_, _| {}, &requests);
}

#[test]
fn eight_readings_of_memories_stay_below_64_mib() {
    memories(FEW);
}

#[test]
fn eight_readings_of_what_was_learned_stay_below_64_mib() {
    learning(FEW);
}

#[test]
fn eight_readings_of_plans_stay_below_64_mib() {
    plans(FEW);
}

#[test]
fn eight_searches_of_files_stay_below_64_mib() {
    files(FEW);
}

#[test]
fn eight_listings_of_each_kind_stay_below_64_mib() {
    listings();
}

#[test]
#[ignore = "takes minutes: `cargo xtask full` runs it"]
fn peak_memory_of_the_largest_memories() {
    memories(MANY);
}

#[test]
#[ignore = "takes minutes: `cargo xtask full` runs it"]
fn peak_memory_of_the_largest_amount_that_was_learned() {
    learning(MANY);
}

#[test]
#[ignore = "takes minutes: `cargo xtask full` runs it"]
fn peak_memory_of_the_largest_plans() {
    plans(MANY);
}

#[test]
#[ignore = "takes minutes: `cargo xtask full` runs it"]
fn peak_memory_of_the_largest_files() {
    files(MANY);
}
