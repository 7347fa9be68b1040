//! Rules about what a request selects: the server, the tier, the plan, the component, the episode. Leaving the
//! selector out selects what the rule is about, too.

use std::path::Path;

use serde_json::{Value, json};

use crate::frith;
use crate::node::{Node, Wire};

/// An MCP server in plain Python with one resource and one prompt.
const SERVER: &str = r#"
import json, sys

for line in sys.stdin:
    m = json.loads(line)
    method, id = m.get("method"), m.get("id")
    result = {}
    if method == "initialize":
        result = {"protocolVersion": "2025-06-18", "serverInfo": {"name": "s", "version": "0"},
            "capabilities": {"tools": {}, "resources": {"subscribe": True}, "prompts": {}}}
    elif method == "tools/list":
        result = {"tools": []}
    elif method == "resources/list":
        result = {"resources": [{"uri": "x://" + sys.argv[1], "name": "who"}]}
    elif method == "resources/read":
        result = {"contents": [{"uri": m["params"]["uri"], "text": sys.argv[1]}]}
    elif method == "prompts/list":
        result = {"prompts": [{"name": "p"}]}
    elif method == "prompts/get":
        result = {"messages": [{"role": "user", "content": {"type": "text", "text": sys.argv[1]}}]}
    if id is not None:
        print(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}), flush=True)
"#;

struct Asker {
    wire: Wire,
    count: usize,
}

impl Asker {
    fn ask(&mut self, kind: &str, members: &Value) -> Value {
        self.count += 1;
        let id = self.count.to_string();
        let mut message = json!({"type": kind, "id": id});
        let object = message.as_object_mut().unwrap();
        object.extend(members.as_object().unwrap().clone());
        self.wire.say(&message);
        loop {
            let heard = self.wire.hear().unwrap();
            if heard["req_id"] == id && !heard["type"].as_str().unwrap().ends_with("/event") {
                return heard;
            }
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// A node with something of each kind that can be selected, and an agent that asks for it.
struct Scene {
    folder: tempfile::TempDir,
    node: Node,
    agent: Asker,
    plans: [String; 2],
    episodes: [String; 2],
}

impl Scene {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let scripts = folder.path().join("scripts");
        std::fs::create_dir_all(&scripts).unwrap();
        std::fs::write(scripts.join("server.py"), SERVER).unwrap();
        let node = Node::start(folder.path(), &config(folder.path(), &[]));
        let mut wire = node.wire();
        let caps = ["tools", "mcp", "memory", "planning", "learning", "env"];
        let hello = json!({"type": "handshake/req", "id": "h", "agent_caps": caps, "auth_token": node.token});
        assert_eq!(wire.ask(&hello)["ok"], true);
        let mut agent = Asker { wire, count: 0 };
        let plans = ["secret", "open"].map(|name| {
            let made = agent.ask("planning/plan/create", &json!({"name": name}));
            text(&made["plan_id"])
        });
        let episodes = [1, 2].map(|seed| {
            let reset = json!({"env_name": "counter", "seed": seed});
            let begun = agent.ask("env/reset/req", &reset);
            text(&begun["obs"]["episode_id"])
        });
        for component in ["secret", "open"] {
            let experience = json!({"action": {"component_name": component}, "reward": 1});
            let experiences = json!({"experiences": [experience]});
            let answer = agent.ask("learn/experience/req", &experiences);
            assert_eq!(answer["stored"], 1, "{answer}");
        }
        Self {
            folder,
            node,
            agent,
            plans,
            episodes,
        }
    }

    /// Puts rules in force.
    fn apply(&self, rules: &[Value]) {
        let path = self.folder.path();
        std::fs::write(path.join("frith.yaml"), config(path, rules)).unwrap();
        let data = self.node.data();
        let apply = ["config", "apply", "--data", data.to_str().unwrap()];
        let (status, _, error) = frith(&apply, "");
        assert_eq!(status, 0, "{error}");
    }
}

fn config(folder: &Path, rules: &[Value]) -> String {
    let scripts = folder.join("scripts");
    let server = |name: &str| {
        let command = json!(["python3", scripts.join("server.py"), name]);
        json!({"command": command, "readable": [scripts]})
    };
    json!({"plugins": [
        {"name": "tools", "type": "tools"},
        {"name": "mcp", "type": "mcp", "servers": {"bank": server("bank"), "shop": server("shop")}},
        {"name": "memory", "type": "memory"},
        {"name": "planning", "type": "planning"},
        {"name": "learning", "type": "learning"},
        {"name": "env", "type": "env"},
    ], "policy": {"rules": rules}})
    .to_string()
}

#[test]
fn rule_about_a_selector_holds_where_it_is_left_out() {
    let mut scene = Scene::start();
    // Of each selector: what the rule is about, and something else.
    let [secret_plan, open_plan] = &scene.plans;
    // Without an episode it is the one that was used last.
    let [open_episode, secret_episode] = &scene.episodes;
    let server = ("server_id", "bank", "shop");
    let tier = ("tier", "semantic", "working");
    let plan = ("plan_id", secret_plan.as_str(), open_plan.as_str());
    let component = ("component_name", "secret", "open");
    let episode = ("episode_id", secret_episode.as_str(), open_episode.as_str());
    let cases = [
        ("mcp/resource/list/req", server, json!({})),
        ("mcp/resource/read/req", server, json!({"uri": "x://shop"})),
        (
            "mcp/resource/subscribe/req",
            server,
            json!({"uri": "x://shop"}),
        ),
        ("mcp/prompt/list/req", server, json!({})),
        ("mcp/prompt/get/req", server, json!({"name": "p"})),
        ("memory/retrieve/req", tier, json!({})),
        ("memory/forget/req", tier, json!({"tags": ["t"]})),
        ("planning/task/list", plan, json!({})),
        ("planning/plan/board", plan, json!({})),
        ("learn/stats/req", component, json!({})),
        ("learn/adapt/req", component, json!({})),
        ("learn/refinement/plan/req", component, json!({})),
        ("env/exp/list/req", episode, json!({})),
        ("env/plan/req", episode, json!({})),
    ];
    let rules: Vec<Value> = [server, tier, plan, component, episode]
        .iter()
        .map(|(member, denied, _)| {
            json!({"id": format!("no_{member}"), "when": format!("{member} == '{denied}'"),
                "capability": ["mcp", "memory", "planning", "learning", "env"], "action": "deny"})
        })
        .collect();
    scene.apply(&rules);
    let agent = &mut scene.agent;
    for (kind, (member, denied, other), more) in &cases {
        let with = |value: &str| {
            let mut members = more.clone();
            members[*member] = json!(value);
            members
        };
        let rule = format!("no_{member}");
        let named = agent.ask(kind, &with(denied));
        assert_eq!(named["detail"]["rule"], json!(rule), "{kind}: {named}");
        let allowed = agent.ask(kind, &with(other));
        assert_ne!(allowed["type"], "error", "{kind}: {allowed}");
        for left_out in [more.clone(), with("")] {
            // Here it has a default that names one.
            if *kind == "memory/forget/req" && left_out == *more {
                continue;
            }
            let answer = agent.ask(kind, &left_out);
            assert_eq!(answer["detail"]["rule"], json!(rule), "{kind}: {answer}");
            let why = text(&answer["message"]);
            assert!(why.contains(&format!("name a `{member}`")), "{why}");
        }
    }
}

/// A word that stands for another is that one.
#[test]
fn rule_about_a_word_holds_for_words_that_stand_for_it() {
    let mut scene = Scene::start();
    let open_episode = &scene.episodes[0];
    let words = [
        (
            "memory/retrieve/req",
            json!({"tier": ""}),
            "tier == 'episodic'",
        ),
        (
            "memory/store/req",
            json!({"entries": [{"key": "k", "content": 1, "tier": ""}]}),
            "entries[0].tier == 'episodic'",
        ),
        (
            "memory/init/req",
            json!({"namespace": ""}),
            "namespace == 'default'",
        ),
        (
            "env/render/req",
            json!({"episode_id": open_episode, "mode": null}),
            "mode == 'screenshot'",
        ),
    ];
    let rules: Vec<Value> = words
        .iter()
        .map(|(kind, _, when)| {
            json!({"id": kind.replace('/', "."), "name": kind, "when": when, "action": "deny"})
        })
        .collect();
    scene.apply(&rules);
    let agent = &mut scene.agent;
    for (kind, members, _) in &words {
        let answer = agent.ask(kind, members);
        let rule = kind.replace('/', ".");
        assert_eq!(answer["detail"]["rule"], json!(rule), "{answer}");
    }
}
