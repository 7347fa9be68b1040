//! How much may be learned from at once, and of how much.

use a2e_caps::learning::{
    MAX_AT_ONCE, MAX_COMPONENT_NAME, MAX_COMPONENTS, MAX_KNOWN, MAX_PLANNED, MAX_SAMPLE, Settings,
};
use serde_json::{Value, json};

use super::{agent, feedback, give, host_with, live, on_new_ledger, stats};
use crate::vault::store;
use crate::wire::Agent;

/// Each limit, at it and one past it.
#[tokio::test]
async fn experiences_have_limits() {
    let mut agent = on_new_ledger().await;
    assert_eq!(
        live(&mut agent, "bulk", 1.0, MAX_AT_ONCE).await["stored"],
        MAX_AT_ONCE
    );
    let many = live(&mut agent, "bulk", 1.0, MAX_AT_ONCE + 1).await;
    assert_eq!(many["code"], "schema_violation", "{many}");
    assert!(
        many["message"]
            .as_str()
            .unwrap()
            .contains("at most 10000 at once"),
        "{many}"
    );
    assert_eq!(
        stats(&mut agent, "bulk").await[0]["calls_total"],
        MAX_AT_ONCE
    );
    let mut one = async |action: Value, state: Value| {
        let experience = json!({"action": action, "state": state, "experience_id": "e"});
        let asked = json!({"type": "learn/experience/req", "experiences": [experience]});
        agent.ask(asked).await
    };
    let names = |count: usize| {
        (0..count)
            .map(|it| json!(it.to_string()))
            .collect::<Value>()
    };
    assert_eq!(
        one(json!({"tools": names(MAX_COMPONENTS)}), json!({})).await["stored"],
        1
    );
    let many = one(json!({"tools": names(MAX_COMPONENTS + 1)}), json!({})).await;
    assert_eq!(many["code"], "schema_violation", "{many}");
    let name = |length: usize| json!({"component_name": "x".repeat(length)});
    assert_eq!(one(name(MAX_COMPONENT_NAME), json!({})).await["stored"], 1);
    assert_eq!(
        one(name(MAX_COMPONENT_NAME + 1), json!({})).await["code"],
        "schema_violation"
    );
    assert_eq!(
        one(json!({"tools": ["a\u{1b}"]}), json!({})).await["code"],
        "schema_violation"
    );
    // The rest of it as it is kept has fewer than 300 bytes.
    let large = |length: usize| json!({"x": "x".repeat(length)});
    assert_eq!(one(json!({}), large(MAX_SAMPLE - 300)).await["stored"], 1);
    assert_eq!(
        one(json!({}), large(MAX_SAMPLE)).await["code"],
        "schema_violation"
    );
}

/// Of more components than that only the samples are kept, and those that are known go on.
#[tokio::test]
async fn statistics_are_kept_of_so_many_components() {
    let settings = Settings {
        adapt_every: 0,
        ..Settings::default()
    };
    let mut agent = agent(&host_with(&store(), settings).0, "ada").await;
    let names = |from: usize| {
        (from..from + 32)
            .map(|it| json!(format!("c{it}")))
            .collect::<Value>()
    };
    let one = |from: usize| json!({"action": {"components": names(from)}, "reward": 1.0});
    let all: Vec<Value> = (0..MAX_KNOWN).step_by(32).map(one).collect();
    assert!(all.len() * 32 > MAX_KNOWN);
    let asked = json!({"type": "learn/experience/req", "experiences": all});
    assert_eq!(agent.ask(asked.clone()).await["stored"], all.len());
    let known = async |agent: &mut Agent| stats(agent, "").await.as_array().unwrap().len();
    // All of them together are one.
    assert_eq!(known(&mut agent).await, MAX_KNOWN - 1);
    live(&mut agent, "another", 1.0, 1).await;
    live(&mut agent, "c0", 1.0, 1).await;
    assert_eq!(known(&mut agent).await, MAX_KNOWN - 1);
    assert_eq!(stats(&mut agent, "another").await, json!([]));
    assert_eq!(stats(&mut agent, "c0").await[0]["calls_total"], 2);
    // A plan has a limit, too, even if all do badly.
    let bad = json!({"action": {"components": names(0)}, "reward": -9.0});
    let bad: Vec<Value> = (0..=MAX_PLANNED / 32)
        .map(|it| {
            let mut one = bad.clone();
            one["action"]["components"] = names(it * 32);
            one
        })
        .collect();
    let asked = json!({"type": "learn/experience/req", "experiences": bad});
    assert_eq!(agent.ask(asked).await["stored"], bad.len());
    let plan = agent
        .ask(json!({"type": "learn/refinement/plan/req"}))
        .await;
    assert_eq!(plan["proposals"].as_array().unwrap().len(), MAX_PLANNED);
}

#[tokio::test]
async fn samples_come_page_by_page() {
    let mut agent = on_new_ledger().await;
    live(&mut agent, "c", 1.0, 5).await;
    give(&mut agent, &[feedback("m", 1.0)]).await;
    let mut after = json!(0);
    let mut sizes = Vec::new();
    while !after.is_null() {
        let asked = json!({"type": "learn/samples/req", "kind": "experience", "after": after,
            "limit": 2});
        let page = agent.ask(asked).await;
        assert_eq!(page["type"], "learn/samples/resp", "{page}");
        sizes.push(page["samples"].as_array().unwrap().len());
        after = page["next"].clone();
    }
    assert_eq!(sizes, [2, 2, 1]);
    let wrong = agent
        .ask(json!({"type": "learn/samples/req", "kind": "all"}))
        .await;
    assert_eq!(wrong["code"], "schema_violation");
    // A page has a size, too.
    let large = json!({"state": {"x": "x".repeat(200_000)}});
    let large = vec![large; 15];
    for _ in 0..2 {
        let asked = json!({"type": "learn/experience/req", "experiences": large});
        assert_eq!(agent.ask(asked).await["stored"], 15);
    }
    let page = agent
        .ask(json!({"type": "learn/samples/req", "kind": "experience"}))
        .await;
    let count = page["samples"].as_array().unwrap().len();
    assert!((10..20).contains(&count), "{count}");
    assert!(page["next"].is_i64());
}
