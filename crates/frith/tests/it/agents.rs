//! Programs that are sub-agents of an agent of a node, and `frith agents`.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::tempdir;

use crate::frith;
use crate::node::{Node, Wire};

/// A program that is an agent, in the words of the protocol.
const PROGRAM: &str = r#"
import json, os, sys
count = 0
def ask(kind, **members):
    global count
    count += 1
    print(json.dumps({"type": kind, "id": str(count), "version": "1.0", "ts": 1.0, **members}), flush=True)
    while True:
        line = json.loads(sys.stdin.readline())
        if line.get("req_id") == str(count):
            return line
task = json.loads(os.environ["A2E_TASK"])
ask("handshake/req", agent_id="worker", agent_caps=["tools", "memory", "proc", "multi_agent"], auth_token="", agent_version="1")
found = {"task": task["instruction"]}
if found["task"] == "wait":
    sys.stdin.readline()
found["tools"] = [it["name"] for it in ask("tool/list/req")["tools"]]
found["time"] = ask("tool/call/req", tool_name="current_time", arguments={})["data"]["success"]
found["command"] = ask("tool/call/req", tool_name="run_command", arguments={"command": "true"}).get("code")
found["proc"] = ask("proc/spawn/req", cmd=["true"]).get("code")
ask("memory/store/req", entries=[{"key": "k", "content": "of the worker", "tier": "episodic"}])
found["memory"] = sorted(it["content"] for it in ask("memory/retrieve/req", keys=["k", "p"])["entries"])
child = ask("multi_agent/spawn", name="child", model="tool:run_command", metadata={"tools": ["run_command"]})
ask("multi_agent/delegate", subagent_id=child["subagent_id"], task_name="t", instruction="x")
found["child"] = ask("multi_agent/await", subagent_id=child["subagent_id"])["error"]
found["other"] = ask("multi_agent/terminate", subagent_id="sub_none").get("code")
ask("multi_agent/result", result=found)
"#;

fn config() -> String {
    let commands = json!({"worker": ["python3", "-c", PROGRAM]});
    format!(
        "plugins:\n- {{name: tools, type: tools}}\n- {{name: memory, type: memory}}\n\
         - {{name: proc, type: proc}}\n- {{name: agents, type: multi_agent, commands: {commands}}}\n"
    )
}

struct Agent(Wire, usize);

impl Agent {
    fn ask(&mut self, mut request: Value) -> Value {
        self.1 += 1;
        request["id"] = json!(format!("r{}", self.1));
        self.0.say(&request);
        self.0.hear().unwrap()
    }

    fn outcome(&mut self, memory: &str) -> Value {
        let id = self.spawn(memory);
        self.delegate(&id, "Find otters");
        self.ask(json!({"type": "multi_agent/await", "subagent_id": id}))
    }

    fn spawn(&mut self, memory: &str) -> String {
        let spawn = json!({"type": "multi_agent/spawn", "name": "w", "model": "worker",
            "metadata": {"memory_scope": memory,
                "capabilities": ["current_time", "memory", "multi_agent"]}});
        self.ask(spawn)["subagent_id"].as_str().unwrap().to_owned()
    }

    fn delegate(&mut self, id: &str, instruction: &str) {
        let task = json!({"type": "multi_agent/delegate", "subagent_id": id, "task_name": "t",
            "instruction": instruction});
        assert_eq!(self.ask(task)["accepted"], true);
    }
}

#[test]
fn a_program_has_a_session_of_its_own_with_no_more_than_it_was_given() {
    let folder = tempdir().unwrap();
    let node = Node::start(folder.path(), &config());
    let mut agent = Agent(node.wire(), 0);
    let hello = json!({"type": "handshake/req", "agent_id": "a", "auth_token": node.token,
        "agent_caps": ["tools", "memory", "multi_agent"], "agent_version": "1"});
    assert_eq!(agent.ask(hello)["ok"], true);
    let entries = json!([{"key": "p", "content": "of the parent", "tier": "episodic"}]);
    agent.ask(json!({"type": "memory/store/req", "entries": entries}));
    for (scope, memory) in [
        ("isolated", json!(["of the worker"])),
        ("snapshot", json!(["of the parent", "of the worker"])),
        ("shared", json!(["of the parent", "of the worker"])),
    ] {
        let ended = agent.outcome(scope);
        assert_eq!(ended["status"], "COMPLETED", "{ended}");
        let result = &ended["result"];
        assert_eq!(result["memory"], memory, "{scope}");
        assert_eq!(result["tools"], json!(["current_time"]));
        assert_eq!(
            (&result["time"], &result["task"]),
            (&json!(true), &json!("Find otters"))
        );
        for denied in ["command", "other"] {
            assert_eq!(result[denied], "tool_denied", "{result}");
        }
        assert!(result["proc"].is_string(), "{result}");
        // Nobody gives more than it has.
        assert!(
            result["child"].as_str().unwrap().contains("not been given"),
            "{result}"
        );
        // Only what was shared is there for the agent itself.
        let seen = agent.ask(json!({"type": "memory/retrieve/req", "keys": ["k"]}));
        assert_eq!(
            seen["entries"].as_array().unwrap().len(),
            usize::from(scope == "shared")
        );
    }
    // The operator sees one at work, and ends it.
    let id = agent.spawn("shared");
    agent.delegate(&id, "wait");
    let data = node.data();
    let data = data.to_str().unwrap();
    let agents =
        |arguments: &[&str]| frith(&[&["agents"], arguments, &["--data", data]].concat(), "");
    let (status, out, error) = agents(&["list"]);
    assert_eq!(status, 0, "{error}");
    let line = out.lines().find(|line| line.contains(&id)).unwrap();
    assert!(
        line.contains("RUNNING") && line.contains("default"),
        "{out}"
    );
    let (_, out, _) = agents(&["show", &id, "--json"]);
    let shown: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(shown["model"], "worker");
    assert_eq!(agents(&["cancel", &id]).1, "cancelled 1\n");
    let ended = agent.ask(json!({"type": "multi_agent/await", "subagent_id": id}));
    assert_eq!(ended["status"], "CANCELLED");
    let (status, out, error) = agents(&["cancel", &id]);
    assert_eq!((status, out.as_str()), (1, ""));
    assert!(error.contains("it has ended already"), "{error}");
    let (status, _, error) = agents(&["show", "sub_none"]);
    assert_eq!(status, 1);
    assert!(error.contains("`frith agents list`"), "{error}");
}

/// A program whose task says what it does.
const TRIES: &str = r#"
import json, os, sys
count = 0
def say(kind, **members):
    global count
    count += 1
    print(json.dumps({"type": kind, "id": str(count), **members}), flush=True)
    return str(count)
heard = {}
def hear(id):
    while id not in heard:
        line = json.loads(sys.stdin.readline())
        heard[line.get("req_id")] = line
    return heard[id]
def ask(kind, **members):
    return hear(say(kind, **members))
def entry(content):
    return [{"key": "pet", "content": content, "tier": "episodic"}]
task = json.loads(os.environ["A2E_TASK"])["instruction"]
ask("handshake/req", agent_caps=["memory", "multi_agent"])
found = {}
if task == "complain":
    sys.stderr.write("x" * 300000)
    sys.stderr.flush()
elif task == "fail":
    sys.exit("ValueError: no otters")
elif task == "scope":
    opened = ask("memory/init/req", namespace="n", scope={"project": "p"})["memory_id"]
    found = ask("memory/store/req", memory_id=opened, entries=entry("cat"))["stored"]
elif task == "race":
    # What is stored while the copy is made stays.
    stored = say("memory/store/req", entries=entry("cat"))
    others = [say("memory/retrieve/req", keys=["pet"]) for _ in range(20)]
    for sent in [stored] + others:
        hear(sent)
if task != "scope":
    found = [it["content"] for it in ask("memory/retrieve/req", keys=["pet"])["entries"]]
ask("multi_agent/result", result={"found": found})
"#;

/// A node whose sub-agents are such programs, and an agent of it that remembers a dog.
fn tries(folder: &Path, memory: &str) -> (Node, Agent) {
    let commands = json!({"worker": ["python3", "-c", TRIES]});
    let node = Node::start(
        folder,
        &format!(
            "plugins:\n- {memory}\n- {{name: agents, type: multi_agent, commands: {commands}}}\n"
        ),
    );
    let mut agent = Agent(node.wire(), 0);
    let hello = json!({"type": "handshake/req", "agent_id": "a", "auth_token": node.token,
        "agent_caps": ["memory", "multi_agent"], "agent_version": "1"});
    assert_eq!(agent.ask(hello)["ok"], true);
    let entries = json!([{"key": "pet", "content": "dog", "tier": "episodic"}]);
    agent.ask(json!({"type": "memory/store/req", "entries": entries}));
    (node, agent)
}

impl Agent {
    fn tried(&mut self, task: &str, memory: &str) -> Value {
        let id = self.spawn(memory);
        self.delegate(&id, task);
        let ended = self.ask(json!({"type": "multi_agent/await", "subagent_id": id}));
        self.ask(json!({"type": "multi_agent/terminate", "subagent_id": id}));
        ended
    }
}

/// What a program writes on its standard error holds it up in nothing, and says why it failed.
#[test]
fn standard_error_of_a_program_is_read() {
    let folder = tempdir().unwrap();
    let (_node, mut agent) = tries(folder.path(), "{name: memory, type: memory}");
    let ended = agent.tried("complain", "shared");
    assert_eq!(ended["result"], json!({"found": ["dog"]}), "{ended}");
    let ended = agent.tried("fail", "shared");
    assert_eq!(
        ended["error"],
        "it ended with exit code 1: ValueError: no otters"
    );
}

#[test]
fn a_program_uses_the_scope_that_it_has_opened() {
    let folder = tempdir().unwrap();
    let (_node, mut agent) = tries(folder.path(), "{name: memory, type: memory}");
    for memory in ["shared", "isolated", "snapshot"] {
        let ended = agent.tried("scope", memory);
        assert_eq!(
            ended["result"],
            json!({"found": ["pet"]}),
            "{memory}: {ended}"
        );
    }
}

#[test]
fn what_is_stored_while_a_copy_is_made_stays() {
    let folder = tempdir().unwrap();
    let (_node, mut agent) = tries(folder.path(), "{name: memory, type: memory}");
    let entry =
        |number: usize| json!({"key": format!("k{number}"), "content": "x", "tier": "episodic"});
    for part in 0..10 {
        let entries: Vec<Value> = (0..100).map(|number| entry(100 * part + number)).collect();
        agent.ask(json!({"type": "memory/store/req", "entries": entries}));
    }
    for _ in 0..5 {
        let ended = agent.tried("race", "snapshot");
        assert_eq!(ended["result"], json!({"found": ["cat"]}), "{ended}");
    }
}

/// What a sub-agent has remembered for itself does not stay behind it.
#[test]
fn a_memory_of_a_sub_agent_ends_with_its_task() {
    let folder = tempdir().unwrap();
    let (_node, mut agent) = tries(folder.path(), "{name: memory, type: memory}");
    let id = agent.spawn("snapshot");
    agent.delegate(&id, "look");
    let ended = agent.ask(json!({"type": "multi_agent/await", "subagent_id": id}));
    assert_eq!(ended["result"], json!({"found": ["dog"]}), "{ended}");
    let deadline = Instant::now() + Duration::from_secs(60);
    let namespace = format!("{id}/default");
    loop {
        let opened = agent.ask(json!({"type": "memory/init/req", "namespace": namespace}));
        if opened["tiers"]["episodic"]["entries"] == 0 {
            break;
        }
        assert!(Instant::now() < deadline, "{opened}");
        std::thread::sleep(Duration::from_millis(20));
    }
    let own = agent.ask(json!({"type": "memory/init/req"}));
    assert_eq!(own["tiers"]["episodic"]["entries"], 1, "{own}");
}

/// An agent that may not read what all agents share has copies of the rest.
#[test]
fn a_copy_has_what_the_agent_may_read() {
    for rights in ["semantic_readers: [boss]", "semantic_writers: [boss]"] {
        let folder = tempdir().unwrap();
        let plugin = format!("{{name: memory, type: memory, {rights}}}");
        let (_node, mut agent) = tries(folder.path(), &plugin);
        let ended = agent.tried("look", "snapshot");
        assert_eq!(
            ended["result"],
            json!({"found": ["dog"]}),
            "{rights}: {ended}"
        );
    }
}
