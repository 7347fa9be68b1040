//! What happens in environments is learned from, if that is switched on.

use std::sync::Arc;

use a2e_caps::Placement;
use a2e_caps::env::{Environments, Settings, built_in};
use a2e_caps::learning::{
    Learning, Ledgers, MAX_COMPONENT_NAME, MAX_COMPONENTS, Settings as LearningSettings,
};
use a2e_runtime::{Host, Learner};
use serde_json::{Value, json};
use store::{AgentId, SampleKind, Store};

use crate::env::{begin, step};
use crate::vault::{Named, store};
use crate::wire::Agent;

/// Whether environments tell of what happens.
#[derive(PartialEq)]
enum Told {
    Yes,
    No,
}

/// A host with environments and learning.
fn host(store: &Store, told: &Told) -> Host {
    let ledgers = Arc::new(Ledgers::new(store.clone()));
    let placement = Placement::named("learning");
    let learning = Learning::new(ledgers, LearningSettings::default(), placement);
    let learner = Arc::new(learning.clone()) as Arc<dyn Learner>;
    let settings = Settings {
        learner: (*told == Told::Yes).then_some(learner),
        ..Settings::default()
    };
    Host::builder()
        .plugin(Environments::new(built_in(), settings))
        .plugin(learning)
        .authenticator(Named)
        .build()
}

async fn agent(host: &Host, name: &str) -> Agent {
    Agent::connect_as(host, name, &["env", "learning"]).await
}

/// The experiences of an agent, oldest first.
fn kept(store: &Store, agent: &str) -> Vec<Value> {
    let learning = store.for_agent(&AgentId::new(agent).unwrap()).learning();
    let all = learning.samples(SampleKind::Experience, 0, 10_000).wait();
    let read = |(_, body): (i64, Vec<u8>)| serde_json::from_slice(&body).unwrap();
    all.unwrap().into_iter().map(read).collect()
}

async fn batch(agent: &mut Agent, episodes: &[Value], action: impl Fn(usize) -> Value) -> Value {
    let actions: Vec<Value> = (0..episodes.len()).map(action).collect();
    agent
        .ask(json!({"type": "env/batch_step/req", "episode_ids": episodes, "actions": actions}))
        .await
}

#[tokio::test]
async fn each_step_is_an_experience_of_who_took_it() {
    let store = store();
    let host = host(&store, &Told::Yes);
    let (mut ada, mut bob) = (agent(&host, "ada").await, agent(&host, "bob").await);
    let episode = begin(&mut ada, "counter", json!({})).await;
    for action in ["inc", "fly", "noop", "inc", "inc", "inc", "inc", "inc"] {
        step(&mut ada, &episode, json!({"type": action})).await;
    }
    let others = begin(&mut bob, "counter", json!({})).await;
    step(
        &mut bob,
        &others,
        json!({"type": "inc", "component_name": "planner"}),
    )
    .await;
    let all = kept(&store, "ada");
    // One that was refused and one after the end are no steps.
    assert_eq!(all.len(), 6);
    let told = |it: &Value| {
        json!([
            it["step"],
            it["state"],
            it["action"],
            it["reward"],
            it["next_state"],
            it["done"]
        ])
    };
    assert_eq!(
        told(&all[1]),
        json!([2, {"count": 1}, {"type": "noop"}, 0.0, {"count": 1}, false])
    );
    assert_eq!(
        told(&all[5]),
        json!([6, {"count": 4}, {"type": "inc"}, 1.0, {"count": 5}, true])
    );
    assert!(all.iter().all(|it| it["episode_id"] == episode));
    assert_ne!(all[0]["experience_id"], all[1]["experience_id"]);
    assert_eq!(kept(&store, "bob").len(), 1);
    let stats = bob
        .ask(json!({"type": "learn/stats/req", "component_name": "planner"}))
        .await;
    assert_eq!(
        stats["components"][0]["component_name"], "planner",
        "{stats}"
    );
}

/// As many as are prepared on a thread of their own, over as many tasks as there are.
#[tokio::test]
async fn a_batch_is_kept_whole_before_it_is_answered() {
    let store = store();
    let mut ada = agent(&host(&store, &Told::Yes), "ada").await;
    let mut episodes = Vec::new();
    for _ in 0..600 {
        episodes.push(begin(&mut ada, "counter", json!({})).await);
    }
    let answer = batch(&mut ada, &episodes, |index| match index {
        7 => json!({"type": "fly"}),
        _ => json!({"type": "inc"}),
    })
    .await;
    assert_eq!(answer["results"].as_array().unwrap().len(), 600);
    let all = kept(&store, "ada");
    let taken: Vec<&Value> = all.iter().map(|it| &it["episode_id"]).collect();
    episodes.remove(7);
    assert_eq!(taken, episodes.iter().collect::<Vec<_>>());
}

/// At each limit a step is kept; past it, it is taken all the same, and so are the others.
#[tokio::test]
async fn what_cannot_be_kept_costs_nobody_a_step() {
    let store = store();
    let mut ada = agent(&host(&store, &Told::Yes), "ada").await;
    let mut episodes = Vec::new();
    for _ in 0..4 {
        episodes.push(begin(&mut ada, "counter", json!({})).await);
    }
    let components = |count: usize| (0..count).map(|it| it.to_string()).collect::<Vec<_>>();
    let actions = [
        json!({"type": "inc", "components": components(MAX_COMPONENTS)}),
        json!({"type": "inc", "components": components(MAX_COMPONENTS + 1)}),
        json!({"type": "inc", "component_name": "n".repeat(MAX_COMPONENT_NAME)}),
        json!({"type": "inc", "component_name": "n".repeat(MAX_COMPONENT_NAME + 1)}),
    ];
    let answer = batch(&mut ada, &episodes, |index| actions[index].clone()).await;
    for result in answer["results"].as_array().unwrap() {
        assert_eq!(result["obs"]["state"], json!({"count": 1}), "{result}");
    }
    let all = kept(&store, "ada");
    let taken: Vec<&Value> = all.iter().map(|it| &it["episode_id"]).collect();
    assert_eq!(taken, [&episodes[0], &episodes[2]]);
}

#[tokio::test]
async fn nothing_is_learned_unless_that_is_switched_on() {
    let store = store();
    let mut ada = agent(&host(&store, &Told::No), "ada").await;
    let episode = begin(&mut ada, "counter", json!({})).await;
    step(&mut ada, &episode, json!({"type": "inc"})).await;
    batch(&mut ada, &[episode], |_| json!({"type": "inc"})).await;
    assert_eq!(kept(&store, "ada"), [Value::Null; 0]);
}
