//! Chains as large as they may be, through a host.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use a2e_caps::chains::{Limits, Settings};
use a2e_caps::tool::Output;
use serde_json::{Value, json};

use crate::chains::with;
use crate::support::{defined, fake};
use crate::wire::Agent;

/// Items of a map, and nodes of a chain.
const ITEMS: usize = 100_000;
const NODES: usize = 10_000;

#[tokio::test]
async fn a_map_over_very_many_items_has_few_under_way() {
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counted = (Arc::clone(&running), Arc::clone(&most));
    let double = fake(defined("double").read_only().volatile(), move |call| {
        let (running, most) = (Arc::clone(&counted.0), Arc::clone(&counted.1));
        async move {
            most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            running.fetch_sub(1, Ordering::SeqCst);
            let n = call.arguments.value()["item"].as_u64().unwrap();
            Output::new(&json!(2 * n))
        }
    });
    let host = with(vec![double], Settings::default());
    let mut agent = Agent::connect_as(&host, "", &["tools", "chains"]).await;
    let items: Vec<usize> = (0..ITEMS).collect();
    let chain = |items: &[usize]| {
        json!({"type": "chain/req", "entry_node": "m", "streaming": false, "timeout": 3000,
            "initial_input": {"items": items}, "nodes": [
            {"node_id": "m", "kind": "map", "items_path": "$.items", "map_node": "d"},
            {"node_id": "d", "kind": "tool", "name": "double"}]})
    };
    let answer = agent.ask(chain(&items)).await;
    assert_eq!(answer["success"], true, "{}", answer["error"]);
    let doubled: Vec<usize> = serde_json::from_value(answer["outputs"]["m"].clone()).unwrap();
    assert!(doubled.iter().copied().eq((0..ITEMS).map(|n| 2 * n)));
    assert_eq!(
        most.load(Ordering::SeqCst),
        Settings::default().max_parallel
    );
    // One more is too many, and none of them is called.
    let more: Vec<usize> = (0..=ITEMS).collect();
    most.store(0, Ordering::SeqCst);
    let answer = agent.ask(chain(&more)).await;
    assert_eq!(answer["success"], false);
    assert!(
        answer["error"].to_string().contains("100000"),
        "{}",
        answer["error"]
    );
    assert_eq!(most.load(Ordering::SeqCst), 0);
}

/// Each node has what the one before it gave.
#[tokio::test]
async fn a_chain_of_very_many_nodes_runs_to_its_end() {
    let next = fake(defined("next").read_only().volatile(), |call| async move {
        let n = call.arguments.value()["n"].as_u64().unwrap();
        Output::new(&json!({ "n": n + 1 }))
    });
    let host = with(vec![next], Settings::default());
    let mut agent = Agent::connect_as(&host, "", &["tools", "chains"]).await;
    let chain = |count: usize| {
        let nodes: Vec<Value> = (0..count)
            .map(|n| {
                let from = match n {
                    0 => "$.n".to_owned(),
                    n => format!("n{}.n", n - 1),
                };
                let next = match n + 1 == count {
                    true => String::new(),
                    false => format!("n{}", n + 1),
                };
                json!({"node_id": format!("n{n}"), "kind": "tool", "name": "next",
                    "input_map": {"n": from}, "next_node": next})
            })
            .collect();
        json!({"type": "chain/req", "entry_node": "n0", "streaming": false, "timeout": 3000,
            "initial_input": {"n": 0}, "nodes": nodes})
    };
    let answer = agent.ask(chain(NODES)).await;
    assert_eq!(answer["success"], true, "{}", answer["error"]);
    assert_eq!(
        (&answer["nodes_run"], &answer["final_output"]),
        (&json!(NODES), &json!({"n": NODES}))
    );
    assert_eq!(Limits::default().nodes, NODES);
    let answer = agent.ask(chain(NODES + 1)).await;
    assert_eq!(answer["success"], false, "{answer}");
}
