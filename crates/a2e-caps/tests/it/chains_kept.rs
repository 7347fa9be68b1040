//! Chains that outlive their process. A host that stops with a chain under way leaves it as a killed
//! one does; `frith/tests/it/chains.rs` kills a real one.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use a2e_caps::chains::{Chains, Keeper, MAX_SHOWN, Settings};
use a2e_caps::tool::{Output, Tool};
use a2e_caps::tools::Settings as ToolSettings;
use a2e_runtime::{Host, HostBuilder};
use rusqlite::Connection;
use serde_json::{Value, json};
use store::{Limits, Memory, Options, Sqlite, Store};
use tempfile::TempDir;
use tokio::sync::Notify;

use crate::support::{defined, fake, plugin};
use crate::vault::Named;
use crate::wire::Agent;

/// What was called, by what each call was given as `n`.
#[derive(Clone, Default)]
struct Calls(Arc<Mutex<Vec<i64>>>);

/// Ends never, and says when it began and when it was dropped.
#[derive(Clone, Default)]
struct Hang {
    began: Arc<Notify>,
    dropped: Arc<Notify>,
}

struct Dropped(Arc<Notify>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl Calls {
    fn all(&self) -> Vec<i64> {
        self.0.lock().unwrap().clone()
    }

    /// The tools `step` and `again`, of which the second may be called again. The call with `at`
    /// hangs.
    fn tools(&self, at: Option<i64>, hang: &Hang) -> Vec<Arc<dyn Tool>> {
        let make = |definition| {
            let (calls, hang) = (self.clone(), hang.clone());
            fake(definition, move |call| {
                let n = call.arguments.value()["n"].as_i64().unwrap();
                calls.0.lock().unwrap().push(n);
                let hang = (at == Some(n)).then(|| hang.clone());
                async move {
                    if let Some(Hang { began, dropped }) = hang {
                        let _dropped = Dropped(dropped);
                        began.notify_one();
                        std::future::pending::<()>().await;
                    }
                    Output::new(&json!({ "n": n }))
                }
            })
        };
        vec![make(defined("step")), make(defined("again").idempotent())]
    }
}

fn builder(tools: Vec<Arc<dyn Tool>>, keeper: &Arc<Keeper>) -> HostBuilder {
    let chains = Chains::new(Settings {
        keeper: Some(Arc::clone(keeper)),
        ..Settings::default()
    });
    let runs = chains.runs().unwrap();
    let tools = plugin(tools, ToolSettings::default());
    let builder = Host::builder().plugin(tools).plugin(chains);
    builder.plugin(runs)
}

fn host(tools: Vec<Arc<dyn Tool>>, keeper: &Arc<Keeper>) -> Host {
    builder(tools, keeper).build()
}

/// One whose agents have names.
fn named(tools: Vec<Arc<dyn Tool>>, keeper: &Arc<Keeper>) -> Host {
    builder(tools, keeper).authenticator(Named).build()
}

async fn agent(host: &Host) -> Agent {
    Agent::connect_as(host, "", &["tools", "chains"]).await
}

/// The database that processes have one after another.
struct Disk(TempDir);

impl Disk {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// As the next process has it.
    fn open(&self) -> Store {
        let options = Options::new(self.0.path().join("store.db"));
        Store::new(Sqlite::open(&options).unwrap())
    }

    /// Adds to all times of day that are kept of chains.
    fn shift(&self, millis: i64) {
        let connection = Connection::open(self.0.path().join("store.db")).unwrap();
        let shift = "UPDATE chains SET begun = begun + ?1, ended = ended + ?1,
                     expires = iif(state = 0, expires, expires + ?1)";
        assert_eq!(connection.execute(shift, [millis]).unwrap(), 1);
    }

    fn keeper(&self) -> Arc<Keeper> {
        Arc::new(Keeper::new(self.open()))
    }
}

fn store() -> Store {
    Store::new(Memory::new(Limits::default()))
}

/// Four nodes that call a tool one after another, or all of them for one that gathers them.
fn chain(tool: &str, is_graph: bool, on_error: &str) -> Value {
    let nodes: Vec<Value> = (0..4)
        .map(|n| {
            let next = if n < 3 {
                format!("n{}", n + 1)
            } else {
                String::new()
            };
            let mut node = json!({"node_id": format!("n{n}"), "kind": "tool", "name": tool,
                "input": {"n": n}, "on_error": on_error});
            match is_graph {
                true if n == 3 => node["deps"] = json!(["n0", "n1", "n2"]),
                true => node["deps"] = json!([]),
                false => node["next_node"] = json!(next),
            }
            node
        })
        .collect();
    json!({"type": "chain/req", "chain_id": "c", "entry_node": "n0", "nodes": nodes})
}

/// Runs a chain until a call hangs, then ends the host.
async fn cut_off(disk: &Disk, calls: &Calls, at: i64, chain: Value) {
    let (hang, keeper) = (Hang::default(), disk.keeper());
    let host = host(calls.tools(Some(at), &hang), &keeper);
    let mut agent = agent(&host).await;
    agent.say(chain).await;
    hang.began.notified().await;
    host.stop();
    drop(agent);
    hang.dropped.notified().await;
}

/// The next process goes on; what came of it, as `chain/show/req` has it.
async fn go_on(disk: &Disk, calls: &Calls) -> Value {
    let keeper = disk.keeper();
    let host = host(calls.tools(None, &Hang::default()), &keeper);
    let left = keeper.left_open().await.unwrap();
    let [(_, number)] = left.as_slice() else {
        panic!("{left:?}");
    };
    let number = *number;
    keeper.resume(&host, left).await;
    let mut agent = agent(&host).await;
    let shown = agent
        .ask(json!({"type": "chain/show/req", "number": number}))
        .await;
    shown["chain"].clone()
}

/// Whatever node was at work: what was done is not done again, what may be is.
#[tokio::test]
async fn a_chain_goes_on_from_every_node() {
    for is_graph in [false, true] {
        for at in 0..4 {
            let (disk, calls) = (Disk::new(), Calls::default());
            cut_off(&disk, &calls, at, chain("again", is_graph, "abort")).await;
            let shown = go_on(&disk, &calls).await;
            assert_eq!(shown["state"], "done", "{shown}");
            let outputs = &shown["response"]["outputs"];
            for n in 0..4 {
                assert_eq!(outputs[format!("n{n}")], json!({ "n": n }));
            }
            let mut made = calls.all();
            made.sort_unstable();
            let mut expected: Vec<i64> = (0..4).chain([at]).collect();
            expected.sort_unstable();
            // Of a graph, others may have been at work at the same time.
            match is_graph && at < 3 {
                true => assert!(made.len() >= 5 && made.len() <= 7, "{made:?}"),
                false => assert_eq!(made, expected),
            }
        }
    }
}

/// What must not be done twice is not: it failed, as far as anybody knows.
#[tokio::test]
async fn what_may_have_been_done_is_not_done_again() {
    for at in 0..4 {
        let (disk, calls) = (Disk::new(), Calls::default());
        cut_off(&disk, &calls, at, chain("step", false, "abort")).await;
        let shown = go_on(&disk, &calls).await;
        assert_eq!(shown["state"], "failed", "{shown}");
        assert_eq!(shown["response"]["error"]["code"], "chain_node_error");
        let node = &shown["nodes"][usize::try_from(at).unwrap()];
        assert_eq!(node["state"], "failed");
        assert!(
            node["error"].as_str().unwrap().contains("nobody knows"),
            "{node}"
        );
        assert_eq!(calls.all(), (0..=at).collect::<Vec<_>>());
    }
    // `on_error` says what follows.
    let (disk, calls) = (Disk::new(), Calls::default());
    cut_off(&disk, &calls, 1, chain("step", false, "skip")).await;
    let shown = go_on(&disk, &calls).await;
    assert_eq!(calls.all(), [0, 1, 2, 3]);
    assert_eq!(shown["response"]["success"], false);
    assert_eq!(shown["response"]["outputs"]["n1"], Value::Null);
    assert_eq!(shown["response"]["outputs"]["n3"], json!({"n": 3}));
    // And the node itself whether it does harm.
    let (disk, calls) = (Disk::new(), Calls::default());
    let mut harmless = chain("step", false, "abort");
    harmless["nodes"][2]["idempotent"] = json!(true);
    cut_off(&disk, &calls, 2, harmless).await;
    assert_eq!(go_on(&disk, &calls).await["state"], "done");
    assert_eq!(calls.all(), [0, 1, 2, 2, 3]);
}

/// Items of a map that are done stay so, in their order.
#[tokio::test]
async fn a_map_goes_on_with_the_items_that_are_left() {
    let (disk, calls) = (Disk::new(), Calls::default());
    let map = json!({"type": "chain/req", "entry_node": "m", "initial_input": {"list": [0, 1, 2, 3, 4, 5]},
        "nodes": [{"node_id": "m", "kind": "map", "items_path": "$.list", "map_node": "t"},
            {"node_id": "t", "kind": "tool", "name": "again", "input_map": {"n": "$.item"}}]});
    cut_off(&disk, &calls, 3, map).await;
    let shown = go_on(&disk, &calls).await;
    let list: Vec<Value> = (0..6).map(|n| json!({ "n": n })).collect();
    assert_eq!(shown["response"]["final_output"], json!(list));
    assert_eq!(calls.all().iter().filter(|n| **n == 3).count(), 2);
}

/// One that ends its host each time does so three times.
#[tokio::test]
async fn a_host_does_not_try_for_ever() {
    let (disk, calls) = (Disk::new(), Calls::default());
    cut_off(&disk, &calls, 0, chain("again", false, "abort")).await;
    for attempt in 0..4 {
        let (hang, keeper) = (Hang::default(), disk.keeper());
        let host = host(calls.tools(Some(0), &hang), &keeper);
        let left = keeper.left_open().await.unwrap();
        let began = async { hang.began.notified().await };
        let began = tokio::select! {
            () = keeper.resume(&host, left) => false,
            () = began => true,
        };
        assert_eq!(began, attempt < 3);
    }
    // Its agent may.
    let keeper = disk.keeper();
    let host = host(calls.tools(None, &Hang::default()), &keeper);
    let mut agent = agent(&host).await;
    let number = keeper.left_open().await.unwrap()[0].1;
    let resumed = agent
        .ask(json!({"type": "chain/resume/req", "number": number}))
        .await;
    assert_eq!(resumed["response"]["success"], true, "{resumed}");
    let again = agent
        .ask(json!({"type": "chain/resume/req", "number": number}))
        .await;
    assert_eq!(again["error"], format!("chain {number} has ended"));
}

#[tokio::test]
async fn a_chain_can_be_listed_shown_and_cancelled_while_it_runs() {
    let (hang, calls) = (Hang::default(), Calls::default());
    let keeper = Arc::new(Keeper::new(store()));
    let host = host(calls.tools(Some(2), &hang), &keeper);
    let mut running = agent(&host).await;
    let mut quiet = chain("step", false, "abort");
    quiet["streaming"] = json!(false);
    running.say(quiet).await;
    hang.began.notified().await;
    let mut other = agent(&host).await;
    other.ids = "S";
    let listed = other.ask(json!({"type": "chain/list/req"})).await;
    let head = &listed["chains"][0];
    assert_eq!(
        (&head["chain_id"], &head["state"]),
        (&json!("c"), &json!("running"))
    );
    let number = &head["number"];
    let shown = other
        .ask(json!({"type": "chain/show/req", "number": number}))
        .await;
    let states = shown["chain"]["nodes"].as_array().unwrap().iter();
    let states: Vec<&str> = states.map(|node| node["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["done", "done", "started", "waiting"]);
    let resumed = other
        .ask(json!({"type": "chain/resume/req", "number": number}))
        .await;
    assert_eq!(resumed["error"], format!("chain {number} runs"));
    let cancelled = other
        .ask(json!({"type": "chain/cancel/req", "number": number}))
        .await;
    assert_eq!(cancelled["success"], true);
    let response = running.hear().await;
    assert_eq!(response["error"]["code"], "cancelled", "{response}");
    assert_eq!(response["outputs"]["n1"], json!({"n": 1}));
    hang.dropped.notified().await;
    let listed = other.ask(json!({"type": "chain/list/req"})).await;
    assert_eq!(listed["chains"][0]["state"], "cancelled");
    let missing = other
        .ask(json!({"type": "chain/cancel/req", "number": 99}))
        .await;
    assert_eq!(missing["success"], false);
    let missing = other
        .ask(json!({"type": "chain/show/req", "number": 99}))
        .await;
    assert_eq!(missing["chain"], Value::Null);
}

/// Nobody goes on with what its agent has given up.
#[tokio::test]
async fn a_chain_that_ends_with_its_session_is_cancelled() {
    let (hang, calls, store) = (Hang::default(), Calls::default(), store());
    let keeper = Arc::new(Keeper::new(store.clone()));
    let host = host(calls.tools(Some(1), &hang), &keeper);
    let mut leaving = agent(&host).await;
    leaving.say(chain("again", false, "abort")).await;
    hang.began.notified().await;
    drop(leaving);
    hang.dropped.notified().await;
    let mut agent = agent(&host).await;
    agent.ids = "S";
    // The tool is dropped before its chain is.
    loop {
        let listed = agent.ask(json!({"type": "chain/list/req"})).await;
        match listed["chains"][0]["state"].as_str() {
            Some("running") => tokio::task::yield_now().await,
            state => break assert_eq!(state, Some("cancelled")),
        }
    }
    assert_eq!(store.open_chains().wait(), Ok(Vec::new()));
}

/// What would be lost is not begun.
#[tokio::test]
async fn a_chain_that_cannot_be_kept_does_not_run() {
    let store = Store::new(Memory::new(Limits {
        chains: store::Limit {
            value: 10,
            entries: 10,
            bytes: 10,
        },
        ..Limits::default()
    }));
    let calls = Calls::default();
    let keeper = Arc::new(Keeper::new(store));
    let host = host(calls.tools(None, &Hang::default()), &keeper);
    let mut agent = agent(&host).await;
    let mut quiet = chain("step", false, "abort");
    quiet["streaming"] = json!(false);
    let response = agent.ask(quiet).await;
    assert_eq!(response["error"]["code"], "chain_error");
    let text = response["error"]["message"].as_str().unwrap();
    assert!(text.contains("cannot be kept"), "{text}");
    assert_eq!(calls.all(), [0_i64; 0]);
}

/// The next process, which is sent a chain again, or another one.
async fn sent_to_next(disk: &Disk, calls: &Calls, chain: Value) -> Value {
    let keeper = disk.keeper();
    let host = host(calls.tools(None, &Hang::default()), &keeper);
    let mut agent = agent(&host).await;
    let mut chain = chain;
    chain["streaming"] = json!(false);
    agent.ask(chain).await
}

/// With the same id and the same in all else, it is the same chain: it goes on, and is done once.
#[tokio::test]
async fn a_request_that_is_sent_again_runs_nothing_twice() {
    let (disk, calls) = (Disk::new(), Calls::default());
    let mut wanted = chain("again", false, "abort");
    wanted["streaming"] = json!(false);
    cut_off(&disk, &calls, 2, wanted.clone()).await;
    assert_eq!(calls.all(), [0, 1, 2]);
    let first = sent_to_next(&disk, &calls, wanted.clone()).await;
    assert_eq!(
        (&first["success"], &first["nodes_run"]),
        (&json!(true), &json!(4)),
        "{first}"
    );
    // What was under way may be done again, the rest was done once.
    assert_eq!(calls.all(), [0, 1, 2, 2, 3]);
    // Its answer was lost, too: it is given again.
    let second = sent_to_next(&disk, &calls, wanted.clone()).await;
    for part in [
        "chain_id",
        "success",
        "outputs",
        "final_output",
        "nodes_run",
        "error",
    ] {
        assert_eq!(second[part], first[part], "{part}");
    }
    assert_eq!(calls.all().len(), 5);
    // Another chain with this id is another chain.
    wanted["nodes"][3]["input"] = json!({"n": 9});
    let other = sent_to_next(&disk, &calls, wanted).await;
    assert_eq!(other["final_output"], json!({"n": 9}), "{other}");
    assert_eq!(calls.all().len(), 9);
}

/// What is asked for again is known by the run of the store, whatever the system's clock says.
#[tokio::test]
async fn a_clock_that_is_set_makes_no_chain_run_twice() {
    const DAY: i64 = 24 * 3600 * 1000;
    for days in [-1, 1, -30, 30] {
        let (disk, calls) = (Disk::new(), Calls::default());
        let mut wanted = chain("step", false, "skip");
        wanted["streaming"] = json!(false);
        cut_off(&disk, &calls, 2, wanted.clone()).await;
        // As if the process before had another time of day.
        disk.shift(days * DAY);
        let first = sent_to_next(&disk, &calls, wanted.clone()).await;
        assert_eq!(first["nodes_run"], 4, "{days}: {first}");
        assert_eq!(calls.all(), [0, 1, 2, 3], "{days}");
        disk.shift(days * DAY);
        let second = sent_to_next(&disk, &calls, wanted).await;
        assert_eq!(second["outputs"], first["outputs"], "{days}");
        assert_eq!(calls.all(), [0, 1, 2, 3], "{days}");
    }
}

/// The host has taken it up by itself: who asks for it again waits for what comes of that.
#[tokio::test]
async fn who_asks_again_waits_for_whoever_goes_on() {
    let (disk, calls) = (Disk::new(), Calls::default());
    let mut wanted = chain("again", false, "abort");
    wanted["streaming"] = json!(false);
    cut_off(&disk, &calls, 1, wanted.clone()).await;
    let keeper = disk.keeper();
    let hang = Hang::default();
    let host = host(calls.tools(Some(2), &hang), &keeper);
    let left = keeper.left_open().await.unwrap();
    let number = left[0].1;
    let going = {
        let (keeper, host) = (Arc::clone(&keeper), host.clone());
        tokio::spawn(async move { keeper.resume(&host, left).await })
    };
    hang.began.notified().await;
    let mut waiting = agent(&host).await;
    waiting.say(wanted).await;
    let mut other = agent(&host).await;
    other.ids = "O";
    let cancel = json!({"type": "chain/cancel/req", "number": number});
    assert_eq!(other.ask(cancel).await["success"], true);
    let answer = waiting.hear().await;
    assert_eq!(answer["error"]["code"], "cancelled", "{answer}");
    going.await.unwrap();
    assert_eq!(calls.all(), [0, 1, 1, 2]);
}

/// What was asked for and what came of it may be larger than an answer.
#[tokio::test]
async fn what_is_too_large_of_a_chain_is_left_out_and_named() {
    let keeper = Arc::new(Keeper::new(store()));
    let calls = Calls::default();
    let host = host(calls.tools(None, &Hang::default()), &keeper);
    let mut agent = agent(&host).await;
    let show = |number: i64| json!({"type": "chain/show/req", "number": number});
    for (number, text) in [(1, 10), (2, MAX_SHOWN)] {
        let mut chain = chain("step", false, "abort");
        chain["initial_input"] = json!({"text": "x".repeat(text)});
        chain["streaming"] = json!(false);
        assert_eq!(agent.ask(chain).await["success"], true);
        let shown = agent.ask(show(number)).await["chain"].clone();
        let is_large = number == 2;
        let left_out = if is_large {
            json!(["request"])
        } else {
            Value::Null
        };
        assert_eq!(shown["left_out"], left_out);
        assert_eq!(shown["request"].is_null(), is_large);
        assert_eq!(shown["response"]["outputs"]["n3"], json!({"n": 3}));
        assert_eq!(shown["nodes"][3]["state"], "done");
    }
}

/// Chains of an agent that do not end keep no other agent's from going on.
#[tokio::test]
async fn chains_of_an_agent_do_not_wait_for_those_of_others() {
    let (disk, calls) = (Disk::new(), Calls::default());
    let one = |n: i64, name: String| {
        json!({"type": "chain/req", "chain_id": name, "entry_node": "n", "nodes": [
            {"node_id": "n", "kind": "tool", "name": "again", "input": {"n": n}}]})
    };
    let agents = [("eve", 0); 8].into_iter().chain([("ada", 1)]);
    for (number, (name, n)) in agents.enumerate() {
        let (hang, keeper) = (Hang::default(), disk.keeper());
        let host = named(calls.tools(Some(n), &hang), &keeper);
        let mut agent = Agent::connect_as(&host, name, &["tools", "chains"]).await;
        agent.say(one(n, number.to_string())).await;
        hang.began.notified().await;
        host.stop();
        drop(agent);
        hang.dropped.notified().await;
    }
    let (hang, keeper) = (Hang::default(), disk.keeper());
    let host = named(calls.tools(Some(0), &hang), &keeper);
    let left = keeper.left_open().await.unwrap();
    assert_eq!(left.len(), 9);
    let mut ada = Agent::connect_as(&host, "ada", &["tools", "chains"]).await;
    let done = async {
        loop {
            let listed = ada.ask(json!({"type": "chain/list/req"})).await;
            if listed["chains"][0]["state"] == "done" {
                return;
            }
        }
    };
    tokio::select! {
        () = keeper.resume(&host, left) => panic!("those of eve ended"),
        done = tokio::time::timeout(Duration::from_secs(60), done) => done.unwrap(),
    }
    // Four of the others go on meanwhile.
    let again = calls.all().iter().filter(|n| **n == 0).count();
    assert_eq!(again, 8 + 4);
}
