//! What environments say of themselves, how episodes are shown, and what is remembered of them.

use serde_json::{Value, json};

use crate::env::{agent, assert_refused, begin, reset, step};

/// Conflicts 97 and 98: both spellings are served, in the spelling asked.
#[tokio::test]
async fn spaces_and_plans() {
    let mut agent = agent().await;
    for (asked, answered) in [
        ("env/space/req", "env/space/resp"),
        ("env/spaces/req", "env/spaces/resp"),
    ] {
        let answer = agent
            .ask(json!({"type": asked, "env_name": "gridworld"}))
            .await;
        assert_eq!(answer["type"], answered);
        assert_eq!(answer["action_space"]["properties"]["action"]["maximum"], 3);
        assert_eq!(
            answer["state_schema"]["required"],
            json!(["x", "y", "goal_x", "goal_y"])
        );
    }
    let unknown = agent
        .ask(json!({"type": "env/space/req", "env_name": "nowhere"}))
        .await;
    assert_refused(&unknown, "runtime_error", "unknown_environment");
    let none = agent.ask(json!({"type": "env/plan/req"})).await;
    assert_eq!(none["suggested_actions"], json!([]));
    let map = json!({"map": ["S.", "#.", "G."]});
    let episode = begin(&mut agent, "gridworld", map).await;
    for (asked, expected) in [
        (
            json!({"type": "env/plan/req", "episode_id": episode}),
            "right",
        ),
        (
            json!({"type": "env/plan/resp", "episode_id": episode}),
            "right",
        ),
        (json!({"type": "env/plan/req"}), "right"),
        (
            json!({"type": "env/plan/req", "episode_id": episode, "state": {"x": 1, "y": 2}}),
            "left",
        ),
    ] {
        let answer = agent.ask(asked).await;
        assert_eq!(answer["type"], "env/plan/resp");
        assert_eq!(answer["suggested_actions"], json!([{"type": expected}]));
    }
    let mut last = Value::Null;
    for action in ["right", "down", "down", "left"] {
        last = step(&mut agent, &episode, json!({"type": action})).await["obs"].clone();
    }
    assert_eq!(
        (&last["done"], &last["reward"]),
        (&json!(true), &json!(1.0))
    );
    let over = agent
        .ask(json!({"type": "env/plan/req", "episode_id": episode}))
        .await;
    assert_eq!(over["suggested_actions"], json!([]));
}

#[tokio::test]
async fn episodes_are_shown_in_four_ways() {
    let mut agent = agent().await;
    let map = json!({"map": ["S.O", "#.G"]});
    let episode = begin(&mut agent, "gridworld", map).await;
    let mut shown = std::collections::HashMap::new();
    for mode in ["text", "json", "rgb_array", "screenshot", "smell"] {
        let request = json!({"type": "env/render/req", "episode_id": episode, "mode": mode});
        shown.insert(mode, agent.ask(request).await["render"].clone());
    }
    assert_eq!(shown["text"], "A.O\n#.G");
    assert_eq!(
        shown["json"],
        json!({"x": 0, "y": 0, "goal_x": 2, "goal_y": 1})
    );
    assert_eq!(shown["rgb_array"]["shape"], json!([48, 72, 3]));
    assert!(
        shown["screenshot"]
            .as_str()
            .unwrap()
            .starts_with("iVBORw0KGgo")
    );
    assert_eq!(shown["smell"], Value::Null);
    let default = agent
        .ask(json!({"type": "env/render/req", "episode_id": episode}))
        .await;
    assert_eq!(default["render"], shown["screenshot"]);
    let counter = begin(&mut agent, "counter", json!({})).await;
    let request = json!({"type": "env/render/req", "episode_id": counter});
    assert_eq!(agent.ask(request).await["render"], Value::Null);
}

/// Walls and borders stop, pits end; sizes have a limit.
#[tokio::test]
async fn a_grid_is_what_was_drawn() {
    let mut agent = agent().await;
    let map = json!({"map": ["S#", "OG"]});
    let episode = begin(&mut agent, "gridworld", map).await;
    for action in ["up", "left", "right"] {
        let obs = step(&mut agent, &episode, json!({"type": action})).await["obs"].clone();
        assert_eq!(
            (&obs["state"]["x"], &obs["state"]["y"]),
            (&json!(0), &json!(0))
        );
        assert_eq!(
            (&obs["reward"], &obs["done"]),
            (&json!(-0.01), &json!(false))
        );
    }
    let obs = step(&mut agent, &episode, json!({"type": "down"})).await["obs"].clone();
    assert_eq!((&obs["reward"], &obs["done"]), (&json!(-1.0), &json!(true)));
    for (options, taken) in [
        (json!({"width": 64, "height": 64}), true),
        (json!({"width": 65}), false),
        (json!({"height": 1}), false),
        (json!({"map": ["S", "G"]}), true),
        (json!({"map": ["SG", "."]}), false),
        (json!({"map": ["SS", "GG"]}), false),
        (json!({"map": ["Sx", "G."]}), false),
        (json!({"map": []}), false),
    ] {
        let answer = reset(&mut agent, "gridworld", json!(3), options.clone()).await;
        assert_eq!(
            answer["type"] == "env/reset/resp",
            taken,
            "{options}: {answer}"
        );
    }
}

#[tokio::test]
async fn what_happened_is_listed() {
    let mut agent = agent().await;
    let first = begin(&mut agent, "counter", json!({})).await;
    for action in [1, 0, 1] {
        step(&mut agent, &first, json!({"action": action})).await;
    }
    let second = begin(&mut agent, "cartpole", json!({})).await;
    agent
        .ask(json!({"type": "env/close/req", "episode_id": first}))
        .await;
    let all = agent.ask(json!({"type": "env/exp/list/req"})).await;
    let episodes = all["episodes"].as_array().unwrap();
    let names: Vec<_> = episodes.iter().map(|it| &it["episode_id"]).collect();
    assert_eq!(names, [&first, &second]);
    assert_eq!(
        (&episodes[0]["steps"], &episodes[0]["open"]),
        (&json!(3), &json!(false))
    );
    assert_eq!(
        (&episodes[0]["seed"], &episodes[1]["open"]),
        (&json!(7), &json!(true))
    );
    let last = agent
        .ask(json!({"type": "env/exp/list/req", "limit": 1}))
        .await;
    assert_eq!(last["episodes"][0]["episode_id"], second);
    let one = json!({"type": "env/exp/list/req", "episode_id": first, "limit": 2});
    let one = agent.ask(one).await;
    assert_eq!(
        one["episodes"][0]["experiences"],
        json!([
            {"step": 2, "state": {"count": 1}, "action": {"action": 0}, "reward": 0.0,
                "next_state": {"count": 1}, "done": false, "truncated": false},
            {"step": 3, "state": {"count": 1}, "action": {"action": 1}, "reward": 0.0,
                "next_state": {"count": 2}, "done": false, "truncated": false},
        ])
    );
    for (limit, taken) in [(0, false), (1000, true), (1001, false), (-1, false)] {
        let answer = agent
            .ask(json!({"type": "env/exp/list/req", "limit": limit}))
            .await;
        assert_eq!(answer["type"] == "env/exp/list/resp", taken, "{limit}");
    }
}

#[tokio::test]
async fn environments_are_listed() {
    let mut agent = agent().await;
    let list = agent.ask(json!({"type": "env/list/req"})).await;
    assert_eq!(list["type"], "env/list/resp");
    let names: Vec<_> = list["environments"].as_array().unwrap().iter().collect();
    assert_eq!(names.len(), 3);
    assert_eq!(
        (&names[2]["name"], &names[2]["max_steps"]),
        (&json!("cartpole"), &json!(500))
    );
}
