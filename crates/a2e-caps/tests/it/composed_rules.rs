//! Rules hold inside of skills, chains and sub-agents: each nested call is decided about with the
//! arguments that it really has.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use a2e_caps::Placement;
use a2e_caps::agents::{Agents, Forest, Shop};
use a2e_caps::chains::{Chains, Settings as ChainSettings};
use a2e_caps::shares::{Kind, Shares};
use a2e_caps::skills::{Settings, Skills};
use a2e_caps::tool::Source;
use a2e_caps::tools::{Settings as ToolSettings, Tools};
use a2e_caps::workplace::Workplace;
use a2e_runtime::config::Policy;
use a2e_runtime::{Host, Policies};
use serde_json::{Value, json};

use crate::agents::{LIMITS, outcome};
use crate::model_double::{Double, says, wants};
use crate::skills::Bench;
use crate::support::{counting, defined};
use crate::vault::Named;
use crate::wire::Agent;

const SKILL: &str = "---\nname: look\ndescription: d\nallowed-tools: write\n---\nLook";

/// Nobody writes to the place of keys, and nobody erases anything.
fn policies() -> Policies {
    let rules = json!({"rules": [
        {"id": "no-keys", "capability": "tools", "when": "path == '/keys'", "action": "deny"},
        {"id": "no-erasing", "name": "erase", "action": "deny"}]});
    let text = rules.to_string();
    let rules = canonical::Value::parse(text.as_bytes()).unwrap();
    let policy = Policy {
        common: rules.deserialize_into().unwrap(),
        agents: Vec::new(),
    };
    Policies::compile(&policy).unwrap()
}

/// A host in which everything can lead to everything, and how often its tools were called.
struct Composed {
    bench: Bench,
    host: Host,
    writes: Arc<AtomicUsize>,
    erasures: Arc<AtomicUsize>,
}

impl Composed {
    fn new(double: &Double) -> Self {
        // This process starts none, and need not be told how.
        sandbox::enter_if_asked();
        let bench = Bench::new();
        bench.put("look/SKILL.md", SKILL);
        let (write, writes) = counting(defined("write"));
        let (erase, erasures) = counting(defined("erase"));
        bench.catalogue.set(Source::Config, vec![write, erase]);
        let models = double.models(double.settings());
        let shop = Arc::new(Shop {
            models: Arc::clone(&models),
            commands: BTreeMap::new(),
            workplace: Arc::new(Workplace {
                launcher: sandbox::Launcher::none().unwrap(),
                profile: sandbox::Profile::default(),
                folder: std::env::temp_dir(),
                commands: Shares::new(Kind::Commands, 8),
            }),
        });
        let placement = Placement::named("agents");
        let agents = Agents::new(shop, LIMITS, Arc::<Forest>::default(), placement);
        let skills = Skills::new(Arc::clone(&bench.shelf), models, Settings::default());
        let catalogue = Arc::clone(&bench.catalogue);
        let host = Host::builder()
            .plugin(Tools::new(catalogue, ToolSettings::default()).unwrap())
            .plugin(skills)
            .plugin(Chains::new(ChainSettings::default()))
            .plugin(agents)
            .authenticator(Named)
            .policies(policies())
            .build();
        Self {
            bench,
            host,
            writes,
            erasures,
        }
    }

    async fn agent(&self) -> Agent {
        let capabilities = ["tools", "skill", "chains", "multi_agent"];
        Agent::connect_as(&self.host, "ada", &capabilities).await
    }

    fn calls(&self) -> (usize, usize) {
        let [writes, erasures] = [&self.writes, &self.erasures].map(|it| it.load(Ordering::SeqCst));
        (writes, erasures)
    }
}

/// A model that has been talked into it: keys, then something harmless, then what it never had.
const INJECTED: [(&str, &str); 3] = [
    ("write", "{\"path\": \"/keys\"}"),
    ("write", "{\"path\": \"/notes\"}"),
    ("erase", "{}"),
];

/// What the model was told about its calls.
fn told(double: &Double) -> Vec<String> {
    let asked = double.asked();
    let (_, last) = asked.last().unwrap();
    let messages = last["messages"].as_array().unwrap().iter();
    let results = messages.filter(|it| it["role"] == "tool");
    results
        .map(|it| it["content"].as_str().unwrap().to_owned())
        .collect()
}

fn check(told: &[String]) {
    assert!(told[0].contains("tool_denied"), "{told:?}");
    assert_eq!(told[1], "{\"call\":1}");
    assert!(told[2].contains("no such tool"), "{told:?}");
}

#[tokio::test]
async fn a_skill_that_was_injected_gets_what_the_rules_and_it_allow() {
    let double = Double::start(vec![wants(&INJECTED, 10), says(&["done"], 10)]).await;
    let composed = Composed::new(&double);
    let mut agent = composed.agent().await;
    let asked = json!({"type": "skill/call/req", "name": "look", "streaming": false});
    let answer = agent.ask(asked).await;
    assert_eq!(answer["data"]["success"], true, "{answer}");
    check(&told(&double));
    assert_eq!(composed.calls(), (1, 0));
}

#[tokio::test]
async fn a_sub_agent_gets_what_the_rules_and_its_parent_allow() {
    let double = Double::start(vec![wants(&INJECTED, 10), says(&["done"], 10)]).await;
    let composed = Composed::new(&double);
    let mut agent = composed.agent().await;
    let wish = json!({"metadata": {"tools": ["write"]}});
    let ended = outcome(&mut agent, wish).await;
    assert_eq!(ended["status"], "COMPLETED", "{ended}");
    check(&told(&double));
    assert_eq!(composed.calls(), (1, 0));
    // What the agent itself may not, no sub-agent of its may, whatever it is given.
    let wish = json!({"model": "tool:erase", "metadata": {"tools": ["erase"]}});
    let ended = outcome(&mut agent, wish).await;
    assert!(
        ended["error"].as_str().unwrap().contains("tool_denied"),
        "{ended}"
    );
    assert_eq!(composed.calls(), (1, 0));
}

async fn chain(agent: &mut Agent, nodes: Value) -> Value {
    let chain = json!({"type": "chain/req", "entry_node": "a", "nodes": nodes,
        "initial_input": {"where": "/keys"}, "streaming": false});
    agent.ask(chain).await
}

#[tokio::test]
async fn a_node_of_a_chain_is_decided_about_with_what_it_really_has() {
    let double = Double::start(vec![wants(&INJECTED, 10), says(&["done"], 10)]).await;
    let composed = Composed::new(&double);
    let mut agent = composed.agent().await;
    let node = |more: Value| {
        let mut node = json!({"node_id": "a", "kind": "tool", "name": "write"});
        for (key, value) in more.as_object().unwrap() {
            node[key] = value.clone();
        }
        node
    };
    // Only while it runs does anybody know what it is called with.
    let nodes = json!([node(json!({"input_map": {"path": "$.where"}}))]);
    let answer = chain(&mut agent, nodes).await;
    assert_eq!(answer["success"], false, "{answer}");
    assert!(
        answer["error"].to_string().contains("tool_denied"),
        "{answer}"
    );
    // What is denied whatever it is called with is refused before anything runs.
    let nodes = json!([node(json!({"next_node": "b"})),
        {"node_id": "b", "kind": "tool", "name": "erase"}]);
    let answer = chain(&mut agent, nodes).await;
    assert_eq!(answer["type"], "error", "{answer}");
    assert_eq!(composed.calls(), (0, 0));
    // A chain in which a skill is talked into something.
    let nodes = json!([node(json!({"kind": "skill", "name": "look"}))]);
    let answer = chain(&mut agent, nodes).await;
    assert_eq!(answer["success"], true, "{answer}");
    check(&told(&double));
    assert_eq!(composed.calls(), (1, 0));
    drop(composed.bench);
}
