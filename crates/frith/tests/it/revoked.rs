//! Access that is revoked, by every way there is: everything ends that acts for the agent.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::frith;
use crate::identity::User;
use crate::mcp_servers::ask;
use crate::node::{Node, Wire};

/// An MCP server with one resource.
const SERVER: &str = r#"
import json, sys

def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

for line in sys.stdin:
    m = json.loads(line)
    method, id = m.get("method"), m.get("id")
    if method == "initialize":
        has = {"tools": {}, "resources": {"subscribe": True}}
        say(id=id, result={"protocolVersion": "2025-06-18", "capabilities": has,
            "serverInfo": {"name": "s", "version": "0"}})
    elif method == "resources/list":
        say(id=id, result={"resources": [{"uri": "x://a", "name": "a"}]})
    elif method == "tools/list":
        say(id=id, result={"tools": []})
    elif method in ("resources/subscribe", "resources/unsubscribe"):
        say(id=id, result={})
    elif id is not None:
        say(id=id, error={"code": -32601, "message": "no"})
"#;

const CAPABILITIES: [&str; 5] = ["tools", "proc", "chains", "mcp", "multi_agent"];

/// What acts for an agent, by kind.
#[derive(Debug, PartialEq, Eq)]
struct Acting {
    sessions: u64,
    held_calls: usize,
    sub_agents: usize,
    servers: usize,
    /// Programs of a process, a chain, a sub-agent and an MCP server.
    programs: [usize; 4],
}

const NOTHING: Acting = Acting {
    sessions: 0,
    held_calls: 0,
    sub_agents: 0,
    servers: 0,
    programs: [0; 4],
};

/// A node, and an agent of it that has one of each kind.
struct Scene {
    node: Node,
    folder: TempDir,
    /// Tells these programs from all others of the machine.
    mark: String,
    wire: Wire,
    /// The key of the agent, if it comes in by its DID.
    user: User,
    did: String,
    /// Its token, and the id of that.
    token: Option<[String; 2]>,
}

/// How an agent comes in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Token,
    Did,
}

/// A program that does not end by itself, and is found by its name.
fn program(mark: &str, kind: &str) -> Value {
    json!([
        "sh",
        "-c",
        format!("while :; do sleep 1; done # {mark}-{kind}")
    ])
}

/// How many programs of this machine have a word in their command.
fn running(word: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap();
    let commands = processes.filter_map(|it| std::fs::read(it.ok()?.path().join("cmdline")).ok());
    commands
        .filter(|command| String::from_utf8_lossy(command).contains(word))
        .count()
}

fn config(mark: &str, agents: &str) -> String {
    let worker = program(mark, "sub");
    format!(
        "plugins:
- {{name: tools, type: tools}}
- {{name: proc, type: proc}}
- {{name: chains, type: chains}}
- {{name: mcp, type: mcp}}
- {{name: agents, type: multi_agent, commands: {{worker: {worker}}}}}
policy: {{rules: [{{id: ask, name: current_time, action: require_approval}}]}}
{agents}"
    )
}

fn mark() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    format!("mark{}", now.as_nanos())
}

fn operator(node: &Node, words: &[&str]) -> (i32, String, String) {
    let data = node.data();
    frith(&[words, &["--data", data.to_str().unwrap()]].concat(), "")
}

fn operator_json(node: &Node, words: &[&str]) -> Value {
    let (status, out, error) = operator(node, &[words, &["--json"]].concat());
    assert_eq!(status, 0, "{words:?}: {error}");
    serde_json::from_str(&out).unwrap()
}

fn shake_hands(node: &Node, token: &str) -> (Wire, Value) {
    let mut wire = node.wire();
    let hello = json!({"type": "handshake/req", "id": "h", "agent_caps": CAPABILITIES,
        "auth_token": token});
    let answer = wire.ask(&hello);
    (wire, answer)
}

impl Scene {
    /// The agent `eve` has one of each kind.
    fn start(by: By) -> Self {
        let (folder, mark, user) = (tempfile::tempdir().unwrap(), mark(), User::new());
        let did = user.json(&["id", "new"])["did"]
            .as_str()
            .unwrap()
            .to_owned();
        let agents = match by {
            By::Token => String::new(),
            By::Did => format!("agents: [{{name: eve, did: '{did}'}}]\n"),
        };
        let node = Node::start(folder.path(), &config(&mark, &agents));
        let token = (by == By::Token).then(|| {
            let made = operator_json(&node, &["token", "new", "eve"]);
            ["token", "id"].map(|name| made[name].as_str().unwrap().to_owned())
        });
        let mut scene = Self {
            wire: node.wire(),
            node,
            folder,
            mark,
            user,
            did,
            token,
        };
        let (wire, answer) = scene.log_in();
        assert_eq!(answer["ok"], true, "{answer}");
        scene.wire = wire;
        scene.begin();
        scene
    }

    fn log_in(&self) -> (Wire, Value) {
        let token = match &self.token {
            Some([token, _]) => token.clone(),
            None => {
                let make = ["token", "did", "--host-did", self.node.at("did")];
                self.user.ok(&make).trim().to_owned()
            }
        };
        shake_hands(&self.node, &token)
    }

    /// Begins one of each kind, and waits until it is there.
    fn begin(&mut self) {
        // A session that waits for its agent.
        let (other, answer) = self.log_in();
        assert_eq!(answer["ok"], true, "{answer}");
        drop(other);
        let workspace = self.node.data().join("workspace");
        std::fs::write(workspace.join("server.py"), SERVER).unwrap();
        let mark = self.mark.clone();
        let wire = &mut self.wire;
        let spawn = json!({"type": "proc/spawn/req", "id": "p", "cmd": program(&mark, "proc")});
        assert_eq!(ask(wire, &spawn)["ok"], true);
        let node = json!({"node_id": "n", "kind": "proc",
            "input": {"command": program(&mark, "chain")}});
        wire.say(&json!({"type": "chain/req", "id": "c", "entry_node": "n", "nodes": [node]}));
        wire.say(&json!({"type": "tool/call/req", "id": "t", "tool_name": "current_time"}));
        let sub = json!({"type": "multi_agent/spawn", "id": "s", "name": "w", "model": "worker"});
        let sub = ask(wire, &sub)["subagent_id"].clone();
        let task = json!({"type": "multi_agent/delegate", "id": "d", "subagent_id": sub,
            "task_name": "t", "instruction": "x"});
        assert_eq!(ask(wire, &task)["accepted"], true);
        let server = json!({"server_id": "own", "transport": "stdio",
            "cmd": ["python3", "server.py", format!("{mark}-mcp")]});
        let register = json!({"type": "mcp/server/register/req", "id": "m", "config": server});
        let registered = ask(wire, &register);
        assert_eq!(registered["ok"], true, "{registered}");
        let subscribe = json!({"type": "mcp/resource/subscribe/req", "id": "b",
            "server_id": "own", "uri": "x://a"});
        assert_eq!(ask(wire, &subscribe)["ok"], true);
        let all = Acting {
            sessions: 2,
            held_calls: 1,
            sub_agents: 1,
            servers: 1,
            programs: [1; 4],
        };
        while self.acting() != all {
            std::thread::yield_now();
        }
    }

    fn acting(&self) -> Acting {
        let status = operator_json(&self.node, &["status"]);
        let servers = status["servers"].as_array().unwrap().iter();
        let sub_agents = operator_json(&self.node, &["agents", "list"]);
        let sub_agents = sub_agents.as_array().unwrap().iter();
        let kinds = ["proc", "chain", "sub", "mcp"];
        Acting {
            sessions: status["sessions"].as_u64().unwrap(),
            held_calls: operator_json(&self.node, &["approvals"])
                .as_array()
                .unwrap()
                .len(),
            sub_agents: sub_agents.filter(|it| it["status"] == "RUNNING").count(),
            servers: servers.filter(|it| it["agent"] == "eve").count(),
            programs: kinds.map(|kind| running(&format!("{}-{kind}", self.mark))),
        }
    }

    /// Everything has ended, and the agent does not come in any more.
    fn wait_until_over(mut self) {
        while self.acting() != NOTHING {
            std::thread::yield_now();
        }
        while self.wire.hear().is_some() {}
        assert_eq!(self.log_in().1["ok"], false);
    }
}

#[test]
fn revoking_an_agents_tokens_ends_everything_that_acts_for_it() {
    let scene = Scene::start(By::Token);
    let revoked = operator_json(&scene.node, &["token", "revoke", "eve"]);
    assert_eq!(revoked["sessions"], 2, "{revoked}");
    // It has ended when the command returns.
    assert_eq!(scene.acting().sessions, 0);
    scene.wait_until_over();
}

#[test]
fn revoking_one_token_ends_everything_that_acts_for_its_agent() {
    let scene = Scene::start(By::Token);
    let [_, id] = scene.token.as_ref().unwrap();
    let revoked = operator_json(&scene.node, &["token", "revoke", id]);
    assert_eq!(revoked["agents"], json!(["eve"]), "{revoked}");
    scene.wait_until_over();
}

#[test]
fn revoking_an_agent_by_name_ends_what_came_in_by_its_did_and_blocks_the_did() {
    let scene = Scene::start(By::Did);
    let (status, out, error) = operator(&scene.node, &["token", "revoke", "eve"]);
    assert_eq!(status, 0, "{error}");
    let did = &scene.did;
    assert!(out.contains(&format!("frith trust unblock {did}")), "{out}");
    assert!(out.contains("ended 2 sessions of `eve`"), "{out}");
    assert!(out.lines().all(|line| line.chars().count() <= 80), "{out}");
    scene.wait_until_over();
}

#[test]
fn revoking_a_did_ends_everything_that_came_in_by_it() {
    let scene = Scene::start(By::Did);
    let revoked = operator_json(&scene.node, &["token", "revoke", &scene.did]);
    assert_eq!(revoked["dids"], json!([scene.did]), "{revoked}");
    scene.wait_until_over();
}

#[test]
fn blocking_a_did_ends_everything_that_came_in_by_it() {
    let scene = Scene::start(By::Did);
    let (status, out, error) = operator(&scene.node, &["trust", "block", &scene.did]);
    assert_eq!(status, 0, "{error}");
    let did = &scene.did;
    assert_eq!(out, format!("blocked {did}\nended 2 sessions\n"));
    scene.wait_until_over();
}

fn rewrite(scene: &Scene, agents: &str) {
    let file = scene.folder.path().join("frith.yaml");
    std::fs::write(file, config(&scene.mark, agents)).unwrap();
}

#[test]
fn applying_a_configuration_without_the_agent_ends_everything_that_acts_for_it() {
    let scene = Scene::start(By::Did);
    rewrite(&scene, "");
    assert_eq!(operator(&scene.node, &["config", "apply"]).0, 0);
    scene.wait_until_over();
}

#[test]
fn applying_a_configuration_that_gives_the_agent_another_did_ends_everything_of_the_old() {
    let scene = Scene::start(By::Did);
    let other = User::new();
    let other = other.json(&["id", "new"])["did"].clone();
    rewrite(&scene, &format!("agents: [{{name: eve, did: {other}}}]\n"));
    assert_eq!(operator(&scene.node, &["config", "apply"]).0, 0);
    scene.wait_until_over();
}

#[test]
fn reading_a_configuration_again_without_the_agent_ends_everything_that_acts_for_it() {
    let scene = Scene::start(By::Did);
    rewrite(&scene, "");
    scene.node.signal("-HUP");
    scene.wait_until_over();
}

/// Another token in the configuration is as good as a revocation of the one before.
#[test]
fn another_configured_token_ends_the_sessions_of_the_one_before() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), "{}");
    let (mut wire, answer) = shake_hands(&node, &node.token);
    assert_eq!(answer["ok"], true, "{answer}");
    let file = folder.path().join("frith.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{text}auth_token: another-token\n")).unwrap();
    assert_eq!(operator(&node, &["config", "apply"]).0, 0);
    while wire.hear().is_some() {}
    assert_eq!(shake_hands(&node, "another-token").1["ok"], true);
}

/// Chains that the next process goes on with have no session. They end too: those that run, and those
/// that wait for their turn.
#[test]
fn chains_that_go_on_after_a_restart_end_when_their_agent_is_revoked() {
    const CHAINS: usize = 6;
    let (folder, mark) = (tempfile::tempdir().unwrap(), mark());
    let chain_word = format!("{mark}-chain");
    let begin = |folder: &Path| {
        let node = Node::start(folder, &config(&mark, ""));
        let made = operator_json(&node, &["token", "new", "eve"]);
        // A session runs four requests at a time.
        let mut wires = [(); 2].map(|()| {
            let (wire, answer) = shake_hands(&node, made["token"].as_str().unwrap());
            assert_eq!(answer["ok"], true, "{answer}");
            wire
        });
        for number in 0..CHAINS {
            let step = json!({"node_id": "n", "kind": "proc", "idempotent": true,
                "input": {"command": program(&mark, "chain")}});
            let wire = &mut wires[number % 2];
            wire.say(&json!({"type": "chain/req", "id": format!("c{number}"),
                "entry_node": "n", "nodes": [step], "timeout": 3600}));
        }
        while running(&chain_word) < CHAINS {
            std::thread::yield_now();
        }
        node.crash();
        while running(&chain_word) > 0 {
            std::thread::yield_now();
        }
    };
    begin(folder.path());
    let node = Node::start(folder.path(), &config(&mark, ""));
    // Four at a time.
    while running(&chain_word) < 4 {
        std::thread::yield_now();
    }
    let (status, _, error) = operator(&node, &["token", "revoke", "eve"]);
    assert_eq!(status, 0, "{error}");
    while running(&chain_word) > 0 {
        std::thread::yield_now();
    }
    let made = operator_json(&node, &["token", "new", "eve"]);
    let (mut wire, answer) = shake_hands(&node, made["token"].as_str().unwrap());
    assert_eq!(answer["ok"], true, "{answer}");
    let listed = ask(&mut wire, &json!({"type": "chain/list/req", "id": "l"}));
    let chains = listed["chains"].as_array().unwrap();
    let states: Vec<_> = chains
        .iter()
        .map(|it| it["state"].as_str().unwrap())
        .collect();
    assert_eq!(states, ["cancelled"; CHAINS], "{listed}");
}

/// What a session has asked for is finished when another handshake begins a new session on its
/// connection. A process that it starts only then is killed, whether the session had processes before or
/// not.
#[test]
fn process_started_after_the_end_of_its_session_is_killed() {
    for has_processes in [true, false] {
        let (folder, mark) = (tempfile::tempdir().unwrap(), mark());
        let node = Node::start(folder.path(), &config(&mark, ""));
        let workspace = node.data().join("workspace");
        let (mut wire, answer) = shake_hands(&node, &node.token);
        assert_eq!(answer["ok"], true, "{answer}");
        let first = format!("{mark}-first");
        if has_processes {
            let spawn =
                json!({"type": "proc/spawn/req", "id": "p", "cmd": program(&mark, "first")});
            assert_eq!(ask(&mut wire, &spawn)["ok"], true);
            while running(&first) == 0 {
                std::thread::yield_now();
            }
        }
        let wait = "touch begun; until [ -e go ]; do sleep 0.01; done";
        wire.say(&json!({"type": "chain/req", "id": "c", "entry_node": "wait", "nodes": [
            {"node_id": "wait", "kind": "tool", "name": "run_command", "input": {"command": wait},
                "next_node": "start"},
            {"node_id": "start", "kind": "proc", "input": {"command": program(&mark, "late")}},
        ]}));
        while !workspace.join("begun").exists() {
            std::thread::yield_now();
        }
        let hello = json!({"type": "handshake/req", "id": "h2", "agent_caps": CAPABILITIES,
            "auth_token": node.token});
        assert_eq!(ask(&mut wire, &hello)["ok"], true);
        while running(&first) > 0 {
            std::thread::yield_now();
        }
        std::fs::write(workspace.join("go"), "").unwrap();
        let ended = loop {
            let heard = wire.hear().unwrap();
            if heard["type"] == "chain/resp" {
                break heard;
            }
        };
        assert_eq!(ended["success"], false, "{ended}");
        assert!(ended.to_string().contains("killed"), "{ended}");
        assert_eq!(running(&format!("{mark}-late")), 0);
    }
}

/// A call waits for the operator in a session that this process knows only from its record.
#[test]
fn blocking_a_did_withdraws_calls_that_waited_before_a_restart() {
    let (folder, mark, user) = (tempfile::tempdir().unwrap(), mark(), User::new());
    let did = user.json(&["id", "new"])["did"]
        .as_str()
        .unwrap()
        .to_owned();
    let config = config(&mark, &format!("agents: [{{name: eve, did: '{did}'}}]\n"));
    let node = Node::start(folder.path(), &config);
    let make = ["token", "did", "--host-did", node.at("did")];
    let (mut wire, answer) = shake_hands(&node, user.ok(&make).trim());
    assert_eq!(answer["ok"], true, "{answer}");
    wire.say(&json!({"type": "tool/call/req", "id": "t", "tool_name": "current_time"}));
    let waiting = |node: &Node| {
        let listed = operator_json(node, &["approvals"]);
        listed.as_array().unwrap().len()
    };
    while waiting(&node) == 0 {
        std::thread::yield_now();
    }
    let node = Node::start(&node.crash(), &config);
    assert_eq!(waiting(&node), 1);
    assert_eq!(operator(&node, &["trust", "block", &did]).0, 0);
    assert_eq!(waiting(&node), 0);
}
