//! Skills in the order of what was learned of them.

use std::sync::Arc;

use a2e_caps::Placement;
use a2e_caps::learning::{Learning, Ledgers, Settings as LearningSettings};
use a2e_caps::skills::{Settings, Skills};
use a2e_caps::tools::{Settings as ToolSettings, Tools};
use a2e_runtime::{Host, Weights};
use serde_json::{Value, json};

use crate::learning::live;
use crate::skills::{Bench, listed, tool};
use crate::vault::{Named, store};
use crate::wire::Agent;

fn names(skills: &[Value]) -> Vec<String> {
    let names = skills.iter().map(|it| it["name"].as_str().unwrap());
    names.map(str::to_owned).collect()
}

async fn searched(agent: &mut Agent, query: &str) -> Vec<String> {
    let found = tool(agent, "search_skills", json!({ "query": query })).await;
    names(found["data"]["data"]["skills"].as_array().unwrap())
}

/// What has done well for an agent is listed and found first; who names a skill gets it all the same.
#[tokio::test]
async fn skills_are_ranked_by_weights_when_told_to() {
    let bench = Bench::new();
    for name in ["zonk_a", "zonk_b", "zonk_c"] {
        let text = format!("---\nname: {name}\ndescription: Deals with a zonk\n---\nDo it.");
        bench.put(&format!("{name}/skill.md"), &text);
    }
    let ledgers = Arc::new(Ledgers::new(store()));
    let placement = Placement::named("learning");
    let learning = Learning::new(Arc::clone(&ledgers), LearningSettings::default(), placement);
    let tools = Tools::new(Arc::clone(&bench.catalogue), ToolSettings::default()).unwrap();
    let skills = Skills::new(
        Arc::clone(&bench.shelf),
        Arc::default(),
        Settings::default(),
    );
    let builder = Host::builder()
        .plugin(tools)
        .plugin(skills)
        .plugin(learning);
    let host = builder.authenticator(Named).build();
    let all = ["skill", "tools", "learning"];
    let mut agent = Agent::connect_as(&host, "ada", &all).await;
    let before = searched(&mut agent, "zonk").await;
    let [first, second, third] = before.as_slice() else {
        panic!("{before:?}");
    };
    live(&mut agent, third, 1.0, 50).await;
    live(&mut agent, first, -1.0, 50).await;
    let adapt = json!({"type": "learn/adapt/req", "strategy": "softmax"});
    agent.ask(adapt).await;
    let in_order = ["zonk_a", "zonk_b", "zonk_c"];
    assert_eq!(names(&listed(&mut agent).await), in_order);
    assert_eq!(searched(&mut agent, "zonk").await, before);
    bench.shelf.rank_by(Some(ledgers as Arc<dyn Weights>));
    let after = [third.clone(), second.clone(), first.clone()];
    assert_eq!(names(&listed(&mut agent).await), after);
    assert_eq!(searched(&mut agent, "").await, after);
    assert_eq!(searched(&mut agent, "zonk").await, after);
    assert_eq!(searched(&mut agent, first).await[0], *first);
    // What one agent has learned is nothing to another.
    let mut bob = Agent::connect_as(&host, "bob", &all).await;
    assert_eq!(names(&listed(&mut bob).await), in_order);
    bench.shelf.rank_by(None);
    assert_eq!(searched(&mut agent, "zonk").await, before);
}
