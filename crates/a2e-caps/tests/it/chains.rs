//! Chains as other A2E clients see them (a2e-behaviour, section 4, chains; a2e-conflicts, section 11).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use a2e_caps::chains::{Chains, Settings};
use a2e_caps::tool::{Output, Tool, ToolFailure};
use a2e_caps::tools::Settings as ToolSettings;
use a2e_runtime::Host;
use serde_json::{Value, json};
use tokio::sync::{Barrier, Notify};

use crate::support::{defined, fake, plugin};
use crate::wire::Agent;

/// Gives back what it is given.
fn echo() -> Arc<dyn Tool> {
    fake(defined("echo").read_only(), |call| async move {
        Output::new(call.arguments.value())
    })
}

/// Fails so often, then gives how often it was called.
fn flaky(failures: usize) -> (Arc<dyn Tool>, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let tool = fake(defined("flaky"), move |_| {
        let call = counted.fetch_add(1, Ordering::SeqCst) + 1;
        async move {
            match call > failures {
                true => Output::new(&json!({ "call": call })),
                false => Err(ToolFailure::new("not yet")),
            }
        }
    });
    (tool, calls)
}

pub(crate) fn with(tools: Vec<Arc<dyn Tool>>, settings: Settings) -> Host {
    let tools = plugin(tools, ToolSettings::default());
    Host::builder()
        .plugin(tools)
        .plugin(Chains::new(settings))
        .build()
}

async fn agent(tools: Vec<Arc<dyn Tool>>) -> Agent {
    let host = with(tools, Settings::default());
    Agent::connect_as(&host, "", &["tools", "chains"]).await
}

/// Runs a chain to its response; its events come before.
async fn run(agent: &mut Agent, mut chain: Value) -> (Vec<Value>, Value) {
    chain["type"] = json!("chain/req");
    agent.say(chain).await;
    let mut events = Vec::new();
    loop {
        let heard = agent.hear().await;
        match heard["type"].as_str() {
            Some("chain/event") => events.push(heard),
            Some("chain/resp") => return (events, heard),
            _ => panic!("{heard}"),
        }
    }
}

fn tool(id: &str, name: &str, input: Value, next: &str) -> Value {
    json!({"node_id": id, "kind": "tool", "name": name, "input": input, "next_node": next})
}

fn phases(events: &[Value]) -> Vec<(&str, &str)> {
    events
        .iter()
        .map(|event| {
            (
                event["node_id"].as_str().unwrap(),
                event["phase"].as_str().unwrap(),
            )
        })
        .collect()
}

/// The samples of section 4, field by field.
/// Proves H-18, N-15.
#[tokio::test]
async fn every_field_is_there_with_its_type() {
    let mut agent = agent(vec![echo()]).await;
    let chain = json!({"chain_id": "c", "entry_node": "a",
        "nodes": [tool("a", "echo", json!({"text": "hi"}), "")]});
    let (events, mut response) = run(&mut agent, chain).await;
    let members = |value: &Value, names: &[&str]| -> Value {
        names
            .iter()
            .map(|name| ((*name).to_owned(), value[*name].clone()))
            .collect()
    };
    let of_event = [
        "req_id", "kind", "data", "seq", "node_id", "phase", "output", "error",
    ];
    assert_eq!(
        members(&events[0], &of_event),
        json!({"req_id": "R", "kind": "status", "data": {}, "seq": 0, "node_id": "a",
            "phase": "start", "output": null, "error": ""})
    );
    assert_eq!(
        members(&events[1], &of_event),
        json!({"req_id": "R", "kind": "status", "data": {}, "seq": 1, "node_id": "a",
            "phase": "done", "output": {"text": "hi"}, "error": ""})
    );
    assert!(response["duration_ms"].take().is_u64());
    let of_response = [
        "req_id",
        "chain_id",
        "success",
        "outputs",
        "final_output",
        "nodes_run",
        "error",
    ];
    assert_eq!(
        members(&response, &of_response),
        json!({"req_id": "R", "chain_id": "c", "success": true, "outputs": {"a": {"text": "hi"}},
            "final_output": {"text": "hi"}, "nodes_run": 1, "error": null})
    );
}

#[tokio::test]
async fn outputs_flow_branches_choose_and_maps_keep_their_order() {
    let mut agent = agent(vec![echo()]).await;
    let chain = json!({"entry_node": "a", "initial_input": {"list": [1, 2, 3]}, "nodes": [
        tool("a", "echo", json!({"n": 7}), "b"),
        {"node_id": "b", "kind": "branch", "condition": "$.a.n > 5", "true_node": "m", "false_node": "z"},
        {"node_id": "m", "kind": "map", "items_path": "$.input.list", "map_node": "each", "next_node": "z"},
        {"node_id": "each", "kind": "tool", "name": "echo", "input_map": {"x": "item"}},
        {"node_id": "z", "kind": "tool", "name": "echo", "input": {"k": 1}, "input_map": {"all": "m[*].x"}},
    ]});
    let (events, response) = run(&mut agent, chain).await;
    assert_eq!(
        response["final_output"],
        json!({"k": 1, "all": [1, 2, 3]}),
        "{response}"
    );
    assert_eq!(
        response["outputs"]["m"],
        json!([{"x": 1}, {"x": 2}, {"x": 3}])
    );
    assert_eq!(
        (&response["success"], &response["nodes_run"]),
        (&json!(true), &json!(3))
    );
    let seq: Vec<_> = events
        .iter()
        .map(|event| event["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(seq, (0..events.len() as u64).collect::<Vec<_>>());
    let ends = phases(&events);
    assert_eq!(ends.first(), Some(&("a", "start")));
    assert_eq!(ends.last(), Some(&("z", "done")));
    assert_eq!(ends.iter().filter(|(id, _)| *id == "each").count(), 6);
    assert!(ends.iter().all(|(id, _)| *id != "b"));
}

/// Conflicts 152 and 157, and what the behaviour says of failures.
#[tokio::test]
async fn failures_end_skip_or_go_elsewhere() {
    for (on_error, success, error, last, seen) in [
        (
            "abort",
            false,
            json!("chain_node_error"),
            json!(null),
            vec![("a", "start"), ("a", "error")],
        ),
        (
            "skip",
            false,
            json!(null),
            json!({"from": "b"}),
            vec![
                ("a", "start"),
                ("a", "error"),
                ("a", "skip"),
                ("b", "start"),
                ("b", "done"),
            ],
        ),
        (
            "c",
            false,
            json!(null),
            json!({"from": "c"}),
            vec![
                ("a", "start"),
                ("a", "error"),
                ("c", "start"),
                ("c", "done"),
            ],
        ),
    ] {
        let mut agent = agent(vec![echo(), flaky(9).0]).await;
        let mut failing = tool("a", "flaky", json!({}), "b");
        failing["on_error"] = json!(on_error);
        let mut nodes = vec![failing, tool("b", "echo", json!({"from": "b"}), "")];
        if on_error == "c" {
            nodes.push(tool("c", "echo", json!({"from": "c"}), ""));
        }
        let (events, response) = run(&mut agent, json!({"entry_node": "a", "nodes": nodes})).await;
        assert_eq!(response["success"], success);
        assert_eq!(response["error"]["code"], error, "{response}");
        assert_eq!(response["final_output"], last);
        assert_eq!(response["outputs"]["a"], json!(null));
        assert_eq!(phases(&events), seen);
    }
}

#[tokio::test]
async fn nothing_runs_of_a_chain_with_problems() {
    let (counted, calls) = flaky(0);
    let mut agent = agent(vec![counted]).await;
    let unknown = json!({"entry_node": "a", "nodes": [
        tool("a", "flaky", json!({}), "b"), tool("b", "flakey", json!({}), "c"),
        tool("c", "gone", json!({}), "")]});
    let (events, response) = run(&mut agent, unknown).await;
    assert_eq!(response["error"]["code"], "chain_error");
    let text = response["error"]["message"].as_str().unwrap();
    assert!(
        text.contains("`flakey`") && text.contains("`gone`"),
        "{text}"
    );
    let circle = json!({"entry_node": "a", "nodes": [tool("a", "flaky", json!({}), "a")]});
    let (_, response) = run(&mut agent, circle).await;
    assert_eq!(response["error"]["code"], "chain_cycle");
    assert_eq!((events.len(), calls.load(Ordering::SeqCst)), (0, 0));
}

/// With `deps`, what can run at the same time does: each waits for the other here.
#[tokio::test]
async fn nodes_of_a_graph_run_side_by_side() {
    let both = Arc::new(Barrier::new(2));
    let met = fake(defined("meet"), move |_| {
        let both = Arc::clone(&both);
        async move {
            both.wait().await;
            Output::new(&json!("met"))
        }
    });
    let mut agent = agent(vec![met, echo()]).await;
    let chain = json!({"streaming": false, "nodes": [
        {"node_id": "a", "kind": "tool", "name": "meet", "deps": []},
        {"node_id": "b", "kind": "tool", "name": "meet", "deps": []},
        {"node_id": "c", "kind": "tool", "name": "echo", "deps": ["b"], "input_map": {"a": "$.a", "b": "$.b"}},
    ]});
    let (events, response) = run(&mut agent, chain).await;
    assert_eq!(response["final_output"], json!({"a": "met", "b": "met"}));
    assert_eq!(events, Vec::<Value>::new());
}

#[tokio::test]
async fn no_more_run_at_a_time_than_may() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let seen = Arc::clone(&most);
    let counting = fake(defined("count"), move |_| {
        let (now, most) = (Arc::clone(&now), Arc::clone(&most));
        async move {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            now.fetch_sub(1, Ordering::SeqCst);
            Output::new(&json!(1))
        }
    });
    let settings = Settings {
        max_parallel: 3,
        ..Settings::default()
    };
    let host = with(vec![counting], settings);
    let mut agent = Agent::connect_as(&host, "", &["tools", "chains"]).await;
    let chain = json!({"entry_node": "m", "streaming": false, "initial_input": {"list": vec![0; 50]}, "nodes": [
        {"node_id": "m", "kind": "map", "items_path": "$.list", "map_node": "t"},
        {"node_id": "t", "kind": "tool", "name": "count"}]});
    let (_, response) = run(&mut agent, chain).await;
    assert_eq!(response["final_output"].as_array().unwrap().len(), 50);
    assert_eq!(seen.load(Ordering::SeqCst), 3);
}

#[tokio::test(start_paused = true)]
async fn a_failed_node_is_tried_again_as_often_as_it_says() {
    for (retries, success, made) in [(2, true, 3), (1, false, 2)] {
        let (tool, calls) = flaky(2);
        let mut agent = agent(vec![tool]).await;
        let chain = json!({"entry_node": "a", "nodes": [
            {"node_id": "a", "kind": "tool", "name": "flaky", "retries": retries, "backoff_ms": 1000}]});
        let (_, response) = run(&mut agent, chain).await;
        assert_eq!(response["success"], success, "{response}");
        assert_eq!(calls.load(Ordering::SeqCst), made);
    }
}

/// Says so when it is dropped.
struct Dropped(Arc<Notify>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// A tool that never ends, and what says that it was cancelled.
fn hanging() -> (Arc<dyn Tool>, Arc<Notify>) {
    let dropped = Arc::new(Notify::new());
    let told = Arc::clone(&dropped);
    let tool = fake(defined("hang"), move |_| {
        let guard = Dropped(Arc::clone(&told));
        async move {
            let _guard = guard;
            std::future::pending::<Result<Output, ToolFailure>>().await
        }
    });
    (tool, dropped)
}

#[tokio::test(start_paused = true)]
async fn a_late_chain_says_what_it_has_done_and_what_runs_ends() {
    let (hang, dropped) = hanging();
    let mut agent = agent(vec![hang, echo()]).await;
    let chain = json!({"entry_node": "a", "timeout": 2, "nodes": [
        tool("a", "echo", json!({"n": 1}), "b"), tool("b", "hang", json!({}), "")]});
    let (_, response) = run(&mut agent, chain).await;
    assert_eq!(response["error"]["code"], "timeout");
    assert_eq!(response["outputs"], json!({"a": {"n": 1}}));
    dropped.notified().await;
}

#[tokio::test]
async fn what_runs_ends_with_the_session_and_with_an_abort() {
    let (hang, dropped) = hanging();
    let mut agent = agent(vec![hang, flaky(9).0]).await;
    let chain = json!({"streaming": false, "nodes": [
        {"node_id": "a", "kind": "tool", "name": "hang", "deps": []},
        {"node_id": "b", "kind": "tool", "name": "flaky", "deps": []}]});
    let (_, response) = run(&mut agent, chain).await;
    assert_eq!(response["error"]["code"], "chain_node_error");
    dropped.notified().await;
    let chain = json!({"type": "chain/req", "entry_node": "a", "nodes": [tool("a", "hang", json!({}), "")]});
    agent.say(chain).await;
    assert_eq!(agent.hear().await["phase"], "start");
    drop(agent);
    tokio::time::timeout(Duration::from_secs(60), dropped.notified())
        .await
        .unwrap();
}
