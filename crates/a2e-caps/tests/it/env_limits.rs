//! How long episodes last, how many there are, and how many are stepped at once.

use std::time::Duration;

use a2e_caps::env::{MAX_BATCH, Settings};
use serde_json::{Value, json};

use crate::env::{agent, agent_with, assert_refused, begin, reset, step};

#[tokio::test]
async fn steps_and_time_cut_an_episode_off() {
    let mut agent = agent().await;
    let episode = begin(&mut agent, "counter", json!({"max_steps": 2})).await;
    let inc = || json!({"type": "inc"});
    assert_eq!(
        step(&mut agent, &episode, inc()).await["obs"]["truncated"],
        false
    );
    let cut = step(&mut agent, &episode, inc()).await["obs"].clone();
    assert_eq!(
        (&cut["done"], &cut["truncated"]),
        (&json!(true), &json!(true))
    );
    assert_eq!(cut["metadata"], json!({}));
    let over = step(&mut agent, &episode, inc()).await;
    assert_refused(&over, "runtime_error", "episode_over");
    // It ends by itself in the very step in which it is cut off.
    let episode = begin(&mut agent, "counter", json!({"max_steps": 5})).await;
    let mut last = Value::Null;
    for _ in 0..5 {
        last = step(&mut agent, &episode, inc()).await["obs"].clone();
    }
    assert_eq!(last["truncated"], true);
    assert_eq!(last["metadata"], json!({"terminated": true}));
    for wrong in [
        json!({"max_steps": 0}),
        json!({"max_seconds": -1}),
        json!({"max_steps": "x"}),
    ] {
        let answer = reset(&mut agent, "counter", Value::Null, wrong).await;
        assert_refused(&answer, "schema_violation", "not_taken");
    }
}

/// The push of the step that ends an episode says so, also if it is truncated.
#[tokio::test]
async fn the_push_of_a_truncated_step_is_terminal() {
    let mut agent = agent().await;
    let options = json!({"push": true, "max_steps": 2});
    let episode = begin(&mut agent, "counter", options).await;
    for (step, is_last) in [(1, false), (2, true)] {
        agent
            .say(json!({"type": "env/step/req", "episode_id": episode, "action": {"type": "inc"}}))
            .await;
        let push = agent.hear().await;
        assert_eq!(push["type"], "env/state_push", "{push}");
        assert_eq!(push["terminal"], is_last, "step {step}: {push}");
        let response = agent.hear().await;
        assert_eq!(response["obs"]["truncated"], is_last, "{response}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_episode_is_cut_off_when_its_time_is_over() {
    let mut agent = agent().await;
    let episode = begin(&mut agent, "counter", json!({"max_seconds": 10})).await;
    tokio::time::advance(Duration::from_millis(9_900)).await;
    let answer = step(&mut agent, &episode, json!({"type": "inc"})).await;
    assert_eq!(answer["obs"]["truncated"], false);
    tokio::time::advance(Duration::from_millis(101)).await;
    let answer = step(&mut agent, &episode, json!({"type": "inc"})).await;
    assert_eq!(answer["obs"]["truncated"], true);
}

#[tokio::test(start_paused = true)]
async fn what_nobody_uses_is_closed() {
    let settings = Settings {
        idle: Duration::from_secs(60),
        ..Settings::default()
    };
    let mut agent = agent_with(settings).await;
    let (idle, used) = (
        begin(&mut agent, "counter", json!({})).await,
        begin(&mut agent, "counter", json!({})).await,
    );
    tokio::time::advance(Duration::from_secs(40)).await;
    step(&mut agent, &used, json!({"type": "inc"})).await;
    tokio::time::advance(Duration::from_secs(21)).await;
    let push = agent.hear().await;
    assert_eq!(
        (&push["type"], &push["episode_id"]),
        (&json!("env/state_push"), &idle)
    );
    assert_eq!(
        (&push["event_type"], &push["terminal"]),
        (&json!("status"), &json!(true))
    );
    let answer = step(&mut agent, &idle, json!({"type": "inc"})).await;
    assert_refused(&answer, "runtime_error", "unknown_episode");
    let answer = step(&mut agent, &used, json!({"type": "inc"})).await;
    assert_eq!(answer["obs"]["step_num"], 2);
}

/// At the limit all are open; past it the one that was not used for longest makes room.
#[tokio::test]
async fn a_session_has_so_many_episodes() {
    let settings = Settings {
        max_episodes: 2,
        ..Settings::default()
    };
    let mut agent = agent_with(settings).await;
    let first = begin(&mut agent, "counter", json!({})).await;
    let second = begin(&mut agent, "counter", json!({})).await;
    let answer = step(&mut agent, &first, json!({"type": "inc"})).await;
    assert_eq!(answer["obs"]["step_num"], 1);
    agent
        .say(json!({"type": "env/reset/req", "env_name": "counter"}))
        .await;
    let push = agent.hear().await;
    assert_eq!(
        (&push["type"], &push["episode_id"]),
        (&json!("env/state_push"), &second)
    );
    let third = agent.hear().await["obs"]["episode_id"].clone();
    for episode in [&first, &third] {
        let answer = step(&mut agent, episode, json!({"type": "inc"})).await;
        assert_eq!(answer["type"], "env/step/resp");
    }
    let answer = step(&mut agent, &second, json!({"type": "inc"})).await;
    assert_refused(&answer, "runtime_error", "unknown_episode");
}

#[tokio::test]
async fn a_batch_keeps_its_order() {
    let mut agent = agent().await;
    let mut ids = Vec::new();
    for _ in 0..600 {
        ids.push(begin(&mut agent, "counter", json!({})).await);
    }
    // Each a step ahead of the last, so that order shows; one action is not taken.
    let actions: Vec<_> = (0..600).map(|it| json!({"action": it % 2})).collect();
    let mut odd = actions.clone();
    odd[7] = json!({"type": "fly"});
    let request = json!({"type": "env/batch_step/req", "episode_ids": ids, "actions": odd});
    let answer = agent.ask(request).await;
    assert_eq!(answer["type"], "env/batch_step/resp");
    let results = answer["results"].as_array().unwrap();
    assert_eq!(results.len(), 600);
    for (index, result) in results.iter().enumerate() {
        assert_eq!(result["type"], "env/step/resp");
        assert_eq!(result["req_id"], answer["req_id"]);
        assert_eq!(result["obs"]["episode_id"], ids[index]);
        let (count, steps) = if index == 7 { (0, 0) } else { (index % 2, 1) };
        assert_eq!(result["obs"]["state"], json!({"count": count}), "{index}");
        assert_eq!(result["obs"]["step_num"], steps);
    }
    assert_eq!(
        results[7]["obs"]["metadata"]["error"]["code"],
        "schema_violation"
    );
    assert_eq!(results[8]["obs"]["metadata"], json!({}));
}

#[tokio::test]
async fn a_batch_that_cannot_be_taken_takes_no_step() {
    let mut agent = agent().await;
    let one = begin(&mut agent, "counter", json!({})).await;
    let inc = json!({"type": "inc"});
    for (ids, actions, reason) in [
        (json!([one]), json!([]), "not_taken"),
        (json!([one, one]), json!([inc, inc]), "not_taken"),
        (json!([one, "e-0"]), json!([inc, inc]), "unknown_episode"),
        (json!(["e-0"]), json!([inc]), "unknown_episode"),
    ] {
        let request = json!({"type": "env/batch_step/req", "episode_ids": ids, "actions": actions});
        let answer = agent.ask(request).await;
        assert_eq!(answer["detail"]["reason"], reason, "{answer}");
    }
    let many = |count| {
        let ids: Vec<_> = (0..count).map(|it| format!("e-{it}")).collect();
        let actions = vec![json!({}); count];
        json!({"type": "env/batch_step/req", "episode_ids": ids, "actions": actions})
    };
    let answer = agent.ask(many(MAX_BATCH)).await;
    assert_eq!(answer["detail"]["reason"], "unknown_episode", "{answer}");
    let answer = agent.ask(many(MAX_BATCH + 1)).await;
    assert_eq!(answer["detail"]["reason"], "not_taken", "{answer}");
    let none = json!({"type": "env/batch_step/req", "episode_ids": [], "actions": []});
    assert_eq!(agent.ask(none).await["results"], json!([]));
    let answer = step(&mut agent, &one, inc).await;
    assert_eq!(answer["obs"]["step_num"], 1);
}
