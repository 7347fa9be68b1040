//! Every verb of memory, planning, learning and environments, tried by another agent and by another
//! session with all the names that the owner has: nothing is shown, and nothing of the owner's changes.

use std::collections::BTreeSet;
use std::sync::Arc;

use a2e_caps::Placement;
use a2e_caps::env::{Environments, Settings as EnvSettings, built_in};
use a2e_caps::learning::{Learning, Ledgers, Settings as LearningSettings};
use a2e_caps::memory::{Memory, Settings as MemorySettings};
use a2e_caps::planning::{Planning, Sharing};
use a2e_runtime::Host;
use a2e_wire::{Direction, MessageKind, Namespace, Tag};
use serde_json::{Value, json};

use crate::vault::{Named, store};
use crate::wire::Agent;

/// What only the owner's agent may see, and what only its session.
const OF_AGENT: &str = "xqzagent";
const OF_SESSION: &str = "xqzsession";

const CAPABILITIES: [&str; 4] = ["memory", "planning", "learning", "env"];

fn host() -> Host {
    let store = store();
    let memory = Memory::new(store.clone(), MemorySettings::default());
    let placement = Placement::named("planning");
    let planning = Planning::new(store.clone(), Sharing::Own, placement);
    let ledgers = Arc::new(Ledgers::new(store));
    let placement = Placement::named("learning");
    let learning = Learning::new(ledgers, LearningSettings::default(), placement);
    Host::builder()
        .plugin(memory)
        .plugin(planning)
        .plugin(learning)
        .plugin(Environments::new(built_in(), EnvSettings::default()))
        .authenticator(Named)
        .build()
}

async fn agent(host: &Host, name: &str, ids: &'static str) -> Agent {
    let mut agent = Agent::connect_as(host, name, &CAPABILITIES).await;
    agent.ids = ids;
    agent
}

/// The names of what the owner has.
struct Owned {
    memory: Value,
    plan: Value,
    task: Value,
    episode: Value,
}

const REFINEMENT: &str = "r1";

/// Has the owner use everything.
async fn fill(owner: &mut Agent) -> Owned {
    let memory = owner
        .ask(json!({"type": "memory/init/req", "namespace": "n"}))
        .await["memory_id"]
        .clone();
    let entries = json!([
        {"key": "w", "content": OF_SESSION, "tier": "working", "tags": ["t"]},
        {"key": "e", "content": OF_AGENT, "tier": "episodic", "tags": ["t"]}]);
    for id in [&memory, &json!("")] {
        let stored = owner
            .ask(json!({"type": "memory/store/req", "memory_id": id, "entries": entries}))
            .await;
        assert_eq!(stored["errors"], json!([]), "{stored}");
    }
    let plan = owner
        .ask(json!({"type": "planning/plan/create", "name": OF_AGENT}))
        .await["plan_id"]
        .clone();
    let task = owner
        .ask(json!({"type": "planning/task/add", "plan_id": plan, "title": OF_AGENT}))
        .await["task_id"]
        .clone();
    let feedback = json!({"rated_turn": {"prompt": "p", "response": "r", "model": OF_AGENT},
        "polarity": "negative", "score": -1});
    owner
        .ask(json!({"type": "learn/feedback/req", "feedbacks": vec![feedback; 40]}))
        .await;
    let lived = json!({"action": {"component_name": OF_AGENT}, "reward": -1});
    owner
        .ask(json!({"type": "learn/experience/req", "experiences": [lived]}))
        .await;
    let applied = owner.ask(apply("prompt.a", OF_AGENT)).await;
    assert_eq!(applied["applied_edits"], 1, "{applied}");
    let begun = owner
        .ask(json!({"type": "env/reset/req", "env_name": "counter", "seed": 1}))
        .await;
    let episode = begun["obs"]["episode_id"].clone();
    let action = json!({"type": "inc", "note": OF_SESSION});
    owner
        .ask(json!({"type": "env/step/req", "episode_id": episode, "action": action}))
        .await;
    Owned {
        memory,
        plan,
        task,
        episode,
    }
}

fn apply(path: &str, value: &str) -> Value {
    let edit = json!({"target": "prompt", "op": "replace", "path": path, "new_value": value});
    let proposal = json!({"refinement_id": REFINEMENT, "edits": [edit], "confidence": 1.0});
    json!({"type": "learn/refinement/apply/req", "proposal": proposal})
}

/// All that can be read, as its owner reads it.
async fn seen(owner: &mut Agent, owned: &Owned) -> Vec<Value> {
    let mut all = Vec::new();
    let mut requests = vec![
        json!({"type": "memory/init/req", "namespace": "n"}),
        json!({"type": "planning/plan/list"}),
        json!({"type": "planning/plan/board"}),
        json!({"type": "planning/task/list", "plan_id": owned.plan, "task_id": owned.task}),
        json!({"type": "learn/stats/req"}),
        json!({"type": "learn/refinement/history/req"}),
        json!({"type": "env/observe/req", "episode_id": owned.episode}),
        json!({"type": "env/exp/list/req"}),
        json!({"type": "env/exp/list/req", "episode_id": owned.episode}),
    ];
    for id in [&owned.memory, &json!("")] {
        requests.push(json!({"type": "memory/retrieve/req", "memory_id": id, "limit": 100}));
    }
    for kind in ["feedback", "experience"] {
        requests.push(json!({"type": "learn/samples/req", "kind": kind}));
    }
    for request in requests {
        let mut answer = owner.ask(request).await;
        assert_ne!(answer["type"], "error", "{answer}");
        let members = answer.as_object_mut().unwrap();
        members.retain(|name, _| !["id", "ts", "req_id", "eid"].contains(&name.as_str()));
        all.push(answer);
    }
    all
}

/// What somebody tries who knows every name.
fn attempts(owned: &Owned) -> Vec<Value> {
    let mut all = of_memory(owned);
    all.extend(of_plans(owned));
    all.extend(of_learning());
    all.extend(of_episodes(owned));
    all
}

fn of_memory(owned: &Owned) -> Vec<Value> {
    let mine = json!([{"key": "e", "content": "mine", "tier": "episodic"},
        {"key": "w", "content": "mine", "tier": "working"}]);
    let mut all = vec![
        json!({"type": "memory/init/req", "namespace": "n"}),
        json!({"type": "memory/init/req"}),
    ];
    for id in [owned.memory.clone(), json!("")] {
        let mut ask = |mut request: Value| {
            request["memory_id"] = id.clone();
            all.push(request);
        };
        for how in [
            json!({}),
            json!({"keys": ["e", "w"]}),
            json!({"tags": ["t"]}),
            json!({"query": format!("{OF_AGENT} {OF_SESSION}")}),
            json!({"query": "xqzagentt"}),
            json!({"tier": "working"}),
            json!({"tier": "working", "after": 0}),
            json!({"tier": "episodic", "after": 0}),
        ] {
            let mut request = how;
            request["type"] = json!("memory/retrieve/req");
            ask(request);
        }
        ask(json!({"type": "memory/store/req", "entries": mine}));
        for tier in ["working", "episodic", ""] {
            ask(json!({"type": "memory/forget/req", "keys": ["e", "w"], "tier": tier}));
            ask(json!({"type": "memory/forget/req", "tags": ["t"], "tier": tier}));
            ask(json!({"type": "memory/forget/req", "tier": tier}));
        }
    }
    all
}

fn of_plans(Owned { plan, task, .. }: &Owned) -> Vec<Value> {
    vec![
        json!({"type": "planning/plan/create", "name": "mine"}),
        json!({"type": "planning/plan/list"}),
        json!({"type": "planning/plan/board"}),
        json!({"type": "planning/plan/board", "plan_id": plan}),
        json!({"type": "planning/task/add", "plan_id": plan, "title": "mine", "deps": [task]}),
        json!({"type": "planning/task/update", "plan_id": plan, "task_id": task, "status": "done"}),
        json!({"type": "planning/task/update", "plan_id": plan, "task_id": task,
            "seen_version": 9}),
        json!({"type": "planning/task/list"}),
        json!({"type": "planning/task/list", "plan_id": plan}),
        json!({"type": "planning/task/list", "plan_id": plan, "task_id": task}),
        json!({"type": "planning/task/list", "task_id": task}),
        json!({"type": "planning/plan/remove", "plan_id": plan}),
    ]
}

fn of_learning() -> Vec<Value> {
    let feedback = json!({"rated_turn": null, "polarity": "positive", "score": 1});
    let lived = json!({"action": {"component_name": "c"}, "reward": 1});
    let edit = json!({"target": "prompt", "op": "replace", "path": "prompt.a", "new_value": 1});
    let proposal = json!({"refinement_id": REFINEMENT, "edits": [edit], "confidence": 1.0});
    vec![
        json!({"type": "learn/feedback/req", "feedbacks": [feedback]}),
        json!({"type": "learn/experience/req", "experiences": [lived]}),
        json!({"type": "learn/adapt/req"}),
        json!({"type": "learn/adapt/req", "component_name": OF_AGENT}),
        json!({"type": "learn/stats/req"}),
        json!({"type": "learn/stats/req", "component_name": OF_AGENT}),
        json!({"type": "learn/refinement/plan/req", "scope": "global"}),
        json!({"type": "learn/refinement/review/req", "proposal": proposal}),
        // What was refined is not there for others, so there is nothing to take back.
        json!({"type": "learn/refinement/rollback/req", "refinement_id": REFINEMENT}),
        apply("prompt.a", "mine"),
        json!({"type": "learn/refinement/history/req"}),
        json!({"type": "learn/samples/req", "kind": "feedback"}),
        json!({"type": "learn/samples/req", "kind": "experience"}),
    ]
}

fn of_episodes(Owned { episode, .. }: &Owned) -> Vec<Value> {
    let inc = json!({"type": "inc"});
    vec![
        json!({"type": "env/list/req"}),
        json!({"type": "env/space/req", "env_name": "counter"}),
        json!({"type": "env/plan/req"}),
        json!({"type": "env/exp/list/req"}),
        json!({"type": "env/reset/req", "env_name": "counter", "episode_id": episode, "seed": 1}),
        json!({"type": "env/step/req", "episode_id": episode, "action": inc}),
        json!({"type": "env/batch_step/req", "episode_ids": [episode], "actions": [inc]}),
        json!({"type": "env/observe/req", "episode_id": episode}),
        json!({"type": "env/render/req", "episode_id": episode, "mode": "json"}),
        json!({"type": "env/plan/req", "episode_id": episode}),
        json!({"type": "env/exp/list/req", "episode_id": episode}),
        json!({"type": "env/close/req", "episode_id": episode}),
    ]
}

/// A verb that is added must be tried, too.
#[tokio::test]
async fn all_verbs_are_tried() {
    let mut owner = agent(&host(), "ada", "A").await;
    let owned = fill(&mut owner).await;
    let attempts = attempts(&owned);
    let tried: BTreeSet<&str> = attempts
        .iter()
        .map(|it| it["type"].as_str().unwrap())
        .collect();
    let namespaces = [
        Namespace::Memory,
        Namespace::Planning,
        Namespace::Learn,
        Namespace::Env,
    ];
    let asked = |tag: &&Tag| {
        namespaces.contains(&tag.namespace())
            && tag.kind() == MessageKind::Request
            && tag.direction() == Direction::AgentToHost
    };
    let all = Tag::ALL.iter().filter(asked).map(|tag| tag.as_str());
    assert_eq!(tried, all.collect());
}

#[tokio::test]
async fn another_agent_reaches_nothing() {
    let host = host();
    let mut owner = agent(&host, "ada", "A").await;
    let owned = fill(&mut owner).await;
    let before = seen(&mut owner, &owned).await;
    let mut other = agent(&host, "bob", "B").await;
    for request in attempts(&owned) {
        let answer = other.ask(request.clone()).await.to_string();
        for secret in [OF_AGENT, OF_SESSION] {
            assert!(!answer.contains(secret), "{request}: {answer}");
        }
    }
    assert_eq!(seen(&mut owner, &owned).await, before);
}

/// What is the agent's is in both of its sessions; what is a session's is not.
#[tokio::test]
async fn another_session_reaches_nothing_of_a_session() {
    let host = host();
    let mut owner = agent(&host, "ada", "A").await;
    let owned = fill(&mut owner).await;
    let mut later = agent(&host, "ada", "B").await;
    let shared = later.ask(json!({"type": "memory/retrieve/req"})).await;
    assert_eq!(shared["entries"][0]["content"], OF_AGENT, "{shared}");
    let of_session = |request: &Value| {
        let names_episode = request
            .to_string()
            .contains(owned.episode.as_str().unwrap());
        request["memory_id"] == owned.memory || names_episode
    };
    let before = seen(&mut owner, &owned).await;
    for request in attempts(&owned).into_iter().filter(of_session) {
        // A reset begins an episode of one's own, whatever else it says.
        if request["type"] == "env/reset/req" {
            continue;
        }
        let answer = later.ask(request.clone()).await;
        assert_eq!(answer["type"], "error", "{request}: {answer}");
    }
    assert_eq!(seen(&mut owner, &owned).await, before);
    // Nor by the names that both have: here the second session forgets what is its own and shared.
    for request in of_memory(&owned) {
        let answer = later.ask(request.clone()).await.to_string();
        assert!(!answer.contains(OF_SESSION), "{request}: {answer}");
    }
    let kept = json!({"type": "memory/retrieve/req", "tier": "working"});
    let kept = owner.ask(kept).await;
    assert_eq!(kept["entries"][0]["content"], OF_SESSION, "{kept}");
}
