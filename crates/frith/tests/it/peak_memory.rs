//! How much a node has in memory at most while eight sessions read the largest of what their agent
//! may keep.

mod kept;

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::mcp_servers::{ask, with_servers};
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

/// Bytes of the largest page of a list that is read, about, and of the largest message.
const LARGEST_PAGE: usize = 2_000_000;
const LARGEST_MESSAGE: usize = 16_000_000;

/// How much there is to read: `cargo xtask full` has the most that an agent may keep, within reason.
#[derive(Clone, Copy)]
struct Amount {
    memories: usize,
    refinements: usize,
    samples: usize,
    tasks: usize,
    plans: usize,
    line: usize,
    files: usize,
    /// Bytes of what a chain is asked for, and how often one of its nodes gives a text.
    input: usize,
    outputs: usize,
    servers: usize,
    processes: usize,
    skills: usize,
    /// Calls that wait for the operator, and results that were too large to send.
    held: usize,
    artifacts: usize,
}

const FEW: Amount = Amount {
    memories: 48,
    refinements: 80,
    samples: 160,
    tasks: 300,
    plans: 20,
    line: 48 << 20,
    files: 3000,
    input: 2 << 20,
    outputs: 200,
    servers: 2,
    processes: 4,
    skills: 40,
    held: 16,
    artifacts: 8,
};

const MANY: Amount = Amount {
    memories: 1000,
    refinements: 400,
    samples: 1000,
    tasks: 2000,
    plans: 1000,
    line: 240 << 20,
    files: 100_000,
    input: 7 << 20,
    outputs: 600,
    servers: 4,
    processes: 64,
    skills: 500,
    held: 56,
    artifacts: 64,
};

fn session(node: &Node, number: usize) -> Wire {
    let mut wire = node.wire();
    let hello = json!({"type": "handshake/req", "id": format!("h{number}"),
        "agent_caps": CAPABILITIES, "auth_token": node.token});
    assert_eq!(wire.ask(&hello)["ok"], true);
    wire
}

/// What the node had in memory at most, in KiB, beyond what it had before, while it was asked this by
/// all at once; and the bytes of an answer. Each session is prepared first, which gives more members of
/// its request.
fn peak(
    node: &Node,
    prepare: &impl Fn(&mut Wire, usize) -> Value,
    request: &Value,
) -> (u64, usize) {
    let wires = (0..AT_ONCE).map(|number| {
        let mut wire = session(node, number);
        (prepare(&mut wire, number), wire)
    });
    let mut wires: Vec<(Value, Wire)> = wires.collect();
    let answered = AtomicUsize::new(0);
    let requests = wires.iter_mut().enumerate().map(|(number, (more, wire))| {
        let mut request = request.clone();
        // The node before this one was asked for something else.
        let pid = &node.endpoints["pid"];
        request["id"] = json!(format!("{} {pid} {number}", request["type"]));
        for (name, value) in more.as_object().unwrap() {
            request[name] = value.clone();
        }
        let answered = &answered;
        move || {
            let answer = ask(wire, &request);
            let kind = answer["type"].as_str().unwrap();
            let text = answer.to_string();
            answered.fetch_max(text.len(), Ordering::Relaxed);
            let shown: String = text.chars().take(300).collect();
            assert!(
                kind != "error" && answer["success"] != false,
                "{request}: {shown}"
            );
        }
    });
    let peak = peak_of(node, requests.collect());
    (peak, answered.into_inner())
}

/// What the node had in memory at most, in KiB, beyond what it had before, while these ran at once.
fn peak_of(node: &Node, all: Vec<impl FnOnce() + Send>) -> u64 {
    node.forget_peak();
    let before = node.memory("VmRSS");
    std::thread::scope(|scope| {
        for one in all {
            scope.spawn(one);
        }
    });
    node.memory("VmHWM").saturating_sub(before)
}

/// Each request by itself, on a node that has what `fill` gives it and has answered nothing yet.
fn assert_bounded(fill: impl Fn(&Node, &mut Wire), requests: &[Value]) {
    let folder = tempfile::tempdir().unwrap();
    assert_bounded_in(
        folder.path(),
        "plugins: []\n",
        fill,
        |_, _| json!({}),
        requests,
    );
}

/// The same with this configuration, and sessions that are prepared.
#[expect(clippy::print_stdout, reason = "the figures, for who looks at them")]
fn assert_bounded_in(
    folder: &Path,
    config: &str,
    fill: impl Fn(&Node, &mut Wire),
    prepare: impl Fn(&mut Wire, usize) -> Value,
    requests: &[Value],
) {
    let mut node = Node::start(folder, config);
    fill(&node, &mut session(&node, 100));
    let mut peaks = Vec::new();
    for request in requests {
        drop(node);
        node = Node::start(folder, config);
        let shown: String = request.to_string().chars().take(100).collect();
        peaks.push((peak(&node, &prepare, request), shown));
    }
    println!("{peaks:#?}");
    let is_bounded = peaks.iter().all(|((peak, _), _)| *peak <= MOST);
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
            // Each byte of it is six as JSON.
            let escaped = format!("{number}{}", "\u{1}".repeat(250));
            let entry = json!({"key": format!("k{number}"), "tier": "episodic", "tags": ["t", escaped],
                "source": "\u{1}".repeat(1024), "content": format!("apple {text}")});
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
        for number in 0..amount.plans {
            // Each byte of it is six as JSON.
            let create = json!({"type": "planning/plan/create", "id": format!("p{number}"),
                "name": number.to_string(), "description": "\u{1}".repeat(8 * 1024)});
            if done(wire, &create)["success"] == false {
                break;
            }
        }
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
            if added["success"] == false {
                // As many as there may be.
                assert!(number > amount.tasks / 4, "{added}");
                break;
            }
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

fn chains(amount: Amount) {
    let fill = |node: &Node, wire: &mut Wire| {
        let text = format!("{}\n", "r".repeat(119)).repeat(100);
        std::fs::write(node.data().join("workspace/text"), text).unwrap();
        // The largest, and one of which all is shown.
        for (input, outputs) in [(amount.input, amount.outputs), (200 << 10, 25)] {
            let items: Vec<usize> = (0..outputs).collect();
            let chain = json!({"type": "chain/req", "id": format!("c{outputs}"), "entry_node": "m",
                "initial_input": {"items": items, "text": "x".repeat(input)}, "streaming": false,
                "nodes": [
                {"node_id": "m", "kind": "map", "items_path": "$.items", "map_node": "r"},
                {"node_id": "r", "kind": "tool", "name": "read_file",
                    "input_map": {"path": "'text'"}}]});
            let ended = done(wire, &chain);
            assert_eq!(ended["success"], true, "{}", ended["error"]);
        }
    };
    assert_bounded(
        fill,
        &[
            json!({"type": "chain/list/req"}),
            json!({"type": "chain/show/req", "number": 1}),
            json!({"type": "chain/show/req", "number": 2}),
        ],
    );
}

/// A server whose lists are as long as its argument says, in pages of so many bytes.
const LARGE: &str = r#"
import json, sys

PAGE, ITEM = int(sys.argv[1]), 32768

def page(name, item):
    return {name: [item(n) for n in range(PAGE // ITEM)]}

for line in sys.stdin:
    message = json.loads(line)
    text = "x" * (ITEM - 128)
    answers = {
        "initialize": lambda: {"protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
            "serverInfo": {"name": "n" * ITEM, "version": "v" * ITEM}},
        "tools/list": lambda: page("tools", lambda n: {"name": f"t{n}", "description": text,
            "inputSchema": {"type": "object"}}),
        "resources/list": lambda: page("resources", lambda n: {"uri": f"x://{n}", "name": f"r{n}",
            "description": text}),
        "prompts/list": lambda: page("prompts", lambda n: {"name": f"p{n}", "description": text}),
    }
    answer, id = answers.get(message.get("method")), message.get("id")
    if answer:
        print(json.dumps({"jsonrpc": "2.0", "id": id, "result": answer()}), flush=True)
    elif id is not None:
        error = {"code": -32601, "message": "no"}
        print(json.dumps({"jsonrpc": "2.0", "id": id, "error": error}), flush=True)
"#;

/// Lists of what servers have that send pages of so many bytes.
fn servers(amount: Amount, page: usize) {
    let folder = tempfile::tempdir().unwrap();
    let scripts = folder.path().join("scripts");
    std::fs::create_dir_all(&scripts).unwrap();
    let script = scripts.join("large.py");
    std::fs::write(&script, LARGE).unwrap();
    let command = json!({"command": ["python3", script, page.to_string()], "readable": [scripts]});
    let names = (0..amount.servers).map(|number| format!("s{number}"));
    let servers: Value = names.map(|name| (name, command.clone())).collect();
    let fill = |_: &Node, wire: &mut Wire| {
        for server in servers.as_object().unwrap().keys() {
            let wake = json!({"type": "mcp/prompt/list/req", "id": server, "server_id": server});
            let prompts = ask(wire, &wake)["prompts"].as_array().unwrap().len();
            let is_listed = (25..40).contains(&prompts);
            assert!(is_listed == (page <= LARGEST_PAGE), "{prompts}");
        }
    };
    let types = [
        "tool/list/req",
        "mcp/server/list/req",
        "mcp/resource/list/req",
        "mcp/prompt/list/req",
    ];
    let requests = types.map(|name| json!({ "type": name }));
    let config = with_servers(&servers);
    assert_bounded_in(folder.path(), &config, fill, |_, _| json!({}), &requests);
}

/// Lists of what a session has.
fn sessions(amount: Amount) {
    let folder = tempfile::tempdir().unwrap();
    let prepare = |wire: &mut Wire, session: usize| {
        // The node reads them once.
        let discover = json!({"type": "skill/discover/req", "id": format!("d{session}"),
            "filter_tags": ["none"]});
        assert_eq!(ask(wire, &discover)["skills"], json!([]));
        let word = "\u{1}".repeat(60 * 1024);
        for number in 0..amount.processes {
            let id = format!("p{session}.{number}");
            let spawn = json!({"type": "proc/spawn/req", "id": id, "cmd": ["true", word]});
            assert_eq!(ask(wire, &spawn)["ok"], true);
        }
        let more = json!({"system_prompt": "\u{1}".repeat(8 * 1024), "capabilities": []});
        let spawn = json!({"type": "multi_agent/spawn", "id": format!("a{session}"),
            "name": "\u{1}".repeat(1024), "role": "r".repeat(8 * 1024), "metadata": more});
        assert_ne!(ask(wire, &spawn)["subagent_id"], "");
        let id = format!("e{session}");
        let reset = json!({"type": "env/reset/req", "id": id, "env_name": "counter"});
        let episode = ask(wire, &reset)["obs"]["episode_id"].clone();
        for number in 0..8 {
            let action = json!({"type": "noop", "text": "\u{1}".repeat(16 * 1024)});
            let step = json!({"type": "env/step/req", "id": format!("t{session}.{number}"),
                "episode_id": episode, "action": action});
            assert_eq!(ask(wire, &step)["type"], "env/step/resp");
        }
        json!({ "episode_id": episode })
    };
    let types = [
        "tool/list/req",
        "toolkit/list/req",
        "skill/discover/req",
        "env/list/req",
        "env/exp/list/req",
        "proc/status/req",
        "multi_agent/list",
        "SUBAGENT_LIST_REQ",
    ];
    let requests = types.map(|name| json!({ "type": name }));
    let config = "plugins: []\nsandbox: none\n";
    let fill = |node: &Node, _: &mut Wire| skills(node, amount);
    assert_bounded_in(folder.path(), config, fill, prepare, &requests);
}

/// Skills of which each says as much as it may, nearly.
fn skills(node: &Node, amount: Amount) {
    let skills = node.data().join("skills");
    for number in 0..amount.skills {
        let skill = skills.join(format!("s{number}"));
        std::fs::create_dir_all(&skill).unwrap();
        let notes = "n".repeat(60 * 1024);
        let text =
            format!("---\nname: s{number}\ndescription: d\nmetadata: {{notes: {notes}}}\n---\nx\n");
        std::fs::write(skill.join("SKILL.md"), text).unwrap();
    }
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
fn eight_readings_of_chains_stay_below_64_mib() {
    chains(FEW);
}

#[test]
fn eight_listings_of_servers_stay_below_64_mib() {
    servers(FEW, LARGEST_PAGE);
}

#[test]
fn eight_listings_of_what_a_session_has_stay_below_64_mib() {
    sessions(FEW);
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

#[test]
#[ignore = "takes minutes: `cargo xtask full` runs it"]
fn peak_memory_of_the_largest_chains() {
    chains(MANY);
}

#[test]
#[ignore = "takes minutes: `cargo xtask full` runs it"]
fn peak_memory_of_the_largest_servers() {
    servers(MANY, LARGEST_PAGE);
    servers(MANY, LARGEST_MESSAGE);
}

#[test]
#[ignore = "takes minutes: `cargo xtask full` runs it"]
fn peak_memory_of_the_largest_sessions() {
    sessions(MANY);
}
