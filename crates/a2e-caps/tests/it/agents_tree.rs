//! Models that have sub-agents of their own: three deep, the last of them a runaway.

use a2e_caps::agents::Limits;
use a2e_caps::model::ModelSettings;
use serde_json::{Value, json};

use crate::agents::{Bench, LIMITS, delegate, outcome, rest, spawn};
use crate::model_double::{Double, says, wants};
use crate::support::{counting, defined};
use crate::wire::Agent;

/// The one that asks, as it was told who it is.
fn who(asked: &Value) -> &str {
    let system = asked["messages"][0]["content"].as_str().unwrap();
    let name = system.strip_prefix("You are ").unwrap();
    name.split('.').next().unwrap()
}

fn offered(asked: &Value) -> Vec<&str> {
    let tools = asked["tools"].as_array().unwrap().iter();
    tools
        .map(|it| it["function"]["name"].as_str().unwrap())
        .collect()
}

/// `one` has `two`, `two` has `three`, and `three` goes on for ever.
fn tree(asked: &Value) -> String {
    let below = match who(asked) {
        "one" => "two",
        "two" => "three",
        _ => return wants(&[("grep", "{}")], 10),
    };
    let messages = asked["messages"].as_array().unwrap();
    let last = messages.last().unwrap()["content"].as_str().unwrap();
    match messages.len() {
        2 => {
            let wish = json!({"name": below, "instruction": "Go on", "max_steps": 1000,
                "tools": ["grep", "danger", "multi_agent"]});
            wants(&[("spawn_agent", &wish.to_string())], 10)
        }
        4 => wants(&[("await_agent", last)], 10),
        _ => says(&[last], 10),
    }
}

fn settings(double: &Double) -> ModelSettings {
    ModelSettings {
        max_tokens: u64::MAX,
        ..double.settings()
    }
}

const WIDE: Limits = Limits {
    steps: usize::MAX,
    tokens: u64::MAX,
    ..LIMITS
};

/// What the first of them may: `grep`, and agents.
fn wish() -> Value {
    json!({"name": "one", "metadata": {"tools": ["grep"], "capabilities": ["multi_agent"]}})
}

/// A tree with three at work.
async fn at_work(bench: &Bench, agent: &mut Agent) -> String {
    let id = spawn(agent, wish()).await;
    assert_eq!(delegate(agent, &id).await["accepted"], true);
    while bench.forest.list().len() < 3 {
        tokio::task::yield_now().await;
    }
    id
}

fn statuses(bench: &Bench) -> Vec<String> {
    let all = bench.forest.list();
    all.into_iter().map(|it| it.status).collect()
}

#[tokio::test]
async fn a_tree_of_three_gives_no_more_than_it_has() {
    let double = Double::answering(tree).await;
    let limits = Limits {
        tokens: 500,
        ..WIDE
    };
    let (danger, count) = counting(defined("danger"));
    let models = double.models(settings(&double));
    let bench = Bench::with(models, limits, vec![danger]);
    let mut agent = bench.agent().await;
    let ended = outcome(&mut agent, wish()).await;
    // The tokens of all of them are counted together.
    let error = ended["error"].as_str().unwrap();
    assert!(error.contains("500 tokens"), "{ended}");
    let all = bench.forest.list();
    let tree: Vec<_> = all.iter().map(|it| (&*it.name, it.depth)).collect();
    assert_eq!(tree, [("one", 1), ("two", 2), ("three", 3)]);
    assert_eq!(all[2].parent.as_ref(), Some(&all[1].id));
    assert!(all[2].error.as_ref().unwrap().contains("500 tokens"));
    assert_eq!(count.load(std::sync::atomic::Ordering::SeqCst), 0);
    let staff = [
        "spawn_agent",
        "await_agent",
        "message_agent",
        "terminate_agent",
    ];
    for (_, asked) in double.asked() {
        let mut expected = vec!["grep", "read_messages"];
        // The last is as deep as may be.
        if who(&asked) != "three" {
            expected.extend(staff);
        }
        assert_eq!(offered(&asked), expected, "{}", who(&asked));
    }
}

/// Whoever takes more steps than all may together is stopped, and so is everybody that waits for it.
#[tokio::test]
async fn a_runaway_ends_with_the_steps_of_the_tree() {
    let double = Double::answering(tree).await;
    let limits = Limits { steps: 30, ..WIDE };
    let bench = Bench::new(double.models(settings(&double)), limits);
    let ended = outcome(&mut bench.agent().await, wish()).await;
    assert!(
        ended["error"].as_str().unwrap().contains("30 steps"),
        "{ended}"
    );
    assert_eq!(statuses(&bench), ["FAILED"; 3]);
    // Six are for sub-agents, at most; the rest were calls of the tool, and one that was refused.
    let of_three = double
        .asked()
        .iter()
        .filter(|it| who(&it.1) == "three")
        .count();
    assert!((25..=31).contains(&of_three), "{of_three}");
}

/// As many steps as there may be are taken: spawn and delegate, then one call.
#[tokio::test]
async fn the_last_step_is_a_step() {
    fn pair(asked: &Value) -> String {
        let messages = asked["messages"].as_array().unwrap();
        match (who(asked), messages.len()) {
            ("one", 2) => wants(&[("grep", "{}"), ("grep", "{}")], 10),
            _ => says(&[messages.last().unwrap()["content"].as_str().unwrap()], 10),
        }
    }
    let double = Double::answering(pair).await;
    let models = double.models(settings(&double));
    for (steps, text) in [(2, "COMPLETED"), (1, "FAILED")] {
        let bench = Bench::new(std::sync::Arc::clone(&models), Limits { steps, ..WIDE });
        let ended = outcome(&mut bench.agent().await, wish()).await;
        assert_eq!(ended["status"], text, "{ended}");
    }
}

#[tokio::test]
async fn cancelling_the_first_ends_the_last() {
    let double = Double::answering(tree).await;
    let bench = Bench::new(double.models(settings(&double)), WIDE);
    let mut agent = bench.agent().await;
    let id = at_work(&bench, &mut agent).await;
    assert_eq!(bench.forest.cancel(&id), Some(3));
    assert_eq!(rest(&mut agent, &id).await["status"], "CANCELLED");
    assert_eq!(statuses(&bench), ["CANCELLED"; 3]);
}

#[tokio::test]
async fn all_end_with_the_session() {
    let double = Double::answering(tree).await;
    let bench = Bench::new(double.models(settings(&double)), WIDE);
    let mut agent = bench.agent().await;
    at_work(&bench, &mut agent).await;
    agent
        .say(json!({"type": "shutdown", "reason": "done"}))
        .await;
    drop(agent);
    while statuses(&bench).iter().any(|status| status == "RUNNING") {
        tokio::task::yield_now().await;
    }
}

/// The end of a task ends what its agent still has at work.
#[tokio::test]
async fn what_has_ended_has_nobody_at_work() {
    fn leaves(asked: &Value) -> String {
        match (who(asked), asked["messages"].as_array().unwrap().len()) {
            ("one", 2) => {
                let wish = json!({"name": "two", "instruction": "Go on", "max_steps": 1000,
                    "tools": ["grep"]});
                wants(&[("spawn_agent", &wish.to_string())], 10)
            }
            ("one", _) => says(&["done"], 10),
            _ => wants(&[("grep", "{}")], 10),
        }
    }
    let double = Double::answering(leaves).await;
    let bench = Bench::new(double.models(settings(&double)), WIDE);
    let mut agent = bench.agent().await;
    let ended = outcome(&mut agent, wish()).await;
    assert_eq!(ended["result"]["text"], "done");
    let second = bench.forest.list()[1].id.clone();
    assert_eq!(rest(&mut agent, &second).await["status"], "CANCELLED");
}

/// It has its own, and nobody else's.
#[tokio::test]
async fn a_model_has_no_say_over_others() {
    fn meddles(asked: &Value) -> String {
        let messages = asked["messages"].as_array().unwrap();
        let task = messages[1]["content"].as_str().unwrap();
        let other = task.lines().next().unwrap();
        match messages.len() {
            2 => {
                let id = json!({"agent_id": other, "text": "x"}).to_string();
                let calls = ["terminate_agent", "await_agent"].map(|name| (name, &*id));
                wants(&calls, 10)
            }
            _ => says(
                &[
                    &messages[3]["content"].to_string(),
                    &messages[4]["content"].to_string(),
                ],
                10,
            ),
        }
    }
    let double = Double::answering(meddles).await;
    let bench = Bench::new(double.models(settings(&double)), WIDE);
    let mut agent = bench.agent().await;
    let other = spawn(&mut agent, json!({})).await;
    let id = spawn(&mut agent, wish()).await;
    let task = json!({"type": "multi_agent/delegate", "subagent_id": id, "task_name": "t",
        "instruction": other});
    assert_eq!(agent.ask(task).await["accepted"], true);
    let ended = rest(&mut agent, &id).await;
    let text = ended["result"]["text"].as_str().unwrap();
    assert_eq!(
        text.matches("no sub-agent of this one").count(),
        2,
        "{text}"
    );
    assert_eq!(rest(&mut agent, &other).await["status"], "READY");
}

/// Whose memory a model has: what it remembers, and what it finds.
#[tokio::test]
async fn a_model_has_the_memory_that_its_scope_says() {
    fn thinks(asked: &Value) -> String {
        let messages = asked["messages"].as_array().unwrap();
        match messages.len() {
            2 => wants(
                &[
                    (
                        "remember",
                        "{\"key\": \"own\", \"content\": \"of the helper\"}",
                    ),
                    ("recall", "{\"limit\": 100}"),
                ],
                10,
            ),
            _ => says(&[messages[4]["content"].as_str().unwrap()], 10),
        }
    }
    let double = Double::answering(thinks).await;
    let bench = Bench::new(double.models(settings(&double)), WIDE);
    let mut agent = bench.agent().await;
    let entries = json!([{"key": "parent", "content": "of the parent", "tier": "episodic"}]);
    let kept = agent
        .ask(json!({"type": "memory/store/req", "entries": entries}))
        .await;
    assert_eq!(kept["stored"], json!(["parent"]), "{kept}");
    for (scope, expected) in [
        ("isolated", vec!["own"]),
        ("snapshot", vec!["own", "parent"]),
        ("shared", vec!["own", "parent"]),
    ] {
        let wish = json!({"metadata": {"capabilities": ["memory"], "memory_scope": scope}});
        let ended = outcome(&mut agent, wish).await;
        let text = ended["result"]["text"].as_str().unwrap();
        let found: Value = serde_json::from_str(text).unwrap();
        let found = found.as_array().unwrap().iter();
        let mut keys: Vec<&str> = found.map(|it| it["key"].as_str().unwrap()).collect();
        keys.sort_unstable();
        assert_eq!(keys, expected, "{scope}: {ended}");
        // Only what is shared comes to the parent.
        let asked = json!({"type": "memory/retrieve/req", "keys": ["own"]});
        let count = agent.ask(asked).await["entries"].as_array().unwrap().len();
        assert_eq!(count, usize::from(scope == "shared"), "{scope}");
    }
    // A copy is of the memory of who has it, which is not that of the agent.
    let cut_off = json!({"metadata": {"capabilities": ["memory"], "memory_scope": "isolated"}});
    let cut_off = spawn(&mut agent, cut_off).await;
    let copy = json!({"metadata": {"capabilities": ["memory"], "memory_scope": "snapshot",
        "parent_agent_id": cut_off}});
    let ended = outcome(&mut agent, copy).await;
    let text = ended["result"]["text"].as_str().unwrap();
    assert!(
        text.contains("own") && !text.contains("of the parent"),
        "{text}"
    );
    let (_, asked) = &double.asked()[0];
    assert_eq!(offered(asked), ["read_messages", "remember", "recall"]);
    // Who was not given it has none.
    outcome(&mut agent, wish()).await;
    let (_, asked) = double.asked().pop().unwrap();
    assert!(!offered(&asked).contains(&"recall"));
}
