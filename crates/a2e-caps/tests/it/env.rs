//! Environments as an agent meets them, line by line (a2e-behaviour, section 4, environment;
//! a2e-conflicts, section 7).

use std::sync::{Arc, Weak};

use a2e_caps::env::{
    EnvError, Environment, Environments, Opened, Opening, PushSpellings, Settings, Spaces, World,
    built_in,
};
use a2e_runtime::{BoxFuture, Host};
use a2e_wire::Object;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::wire::Agent;

fn host_with(settings: Settings) -> Host {
    Host::builder()
        .plugin(Environments::new(built_in(), settings))
        .build()
}

pub(crate) async fn agent_with(settings: Settings) -> Agent {
    Agent::connect_as(&host_with(settings), "", &["env"]).await
}

pub(crate) async fn agent() -> Agent {
    agent_with(Settings::default()).await
}

pub(crate) async fn reset(agent: &mut Agent, name: &str, seed: Value, options: Value) -> Value {
    let request =
        json!({"type": "env/reset/req", "env_name": name, "seed": seed, "options": options});
    agent.ask(request).await
}

/// The id of a new episode.
pub(crate) async fn begin(agent: &mut Agent, name: &str, options: Value) -> Value {
    let response = reset(agent, name, json!(7), options).await;
    assert_eq!(response["type"], "env/reset/resp", "{response}");
    response["obs"]["episode_id"].clone()
}

pub(crate) async fn step(agent: &mut Agent, episode: &Value, action: Value) -> Value {
    let request = json!({"type": "env/step/req", "episode_id": episode, "action": action});
    agent.ask(request).await
}

pub(crate) fn assert_refused(answer: &Value, code: &str, reason: &str) {
    assert_eq!(
        (
            &answer["type"],
            &answer["code"],
            &answer["detail"]["reason"]
        ),
        (&json!("error"), &json!(code), &json!(reason)),
        "{answer}"
    );
    assert_eq!(answer["capability_name"], "env", "{answer}");
}

/// The sample environment: up on `inc`, done and worth 1.0 at 5.
/// Proves H-14, N-11.
#[tokio::test]
async fn the_counter_counts_to_five() {
    let mut agent = agent().await;
    let first = reset(&mut agent, "counter", Value::Null, json!({})).await;
    let obs = &first["obs"];
    assert_eq!(
        (&obs["step_num"], &obs["state"]),
        (&json!(0), &json!({"count": 0}))
    );
    assert!(obs["metadata"]["seed"].is_i64(), "{first}");
    let episode = &obs["episode_id"];
    for count in 1..=5 {
        let answer = step(&mut agent, episode, json!({"type": "inc"})).await;
        assert_eq!(answer["type"], "env/step/resp");
        let mut obs = answer["obs"].clone();
        assert!(obs["created_at"].take().is_f64());
        let done = count == 5;
        assert_eq!(
            obs,
            json!({"episode_id": episode, "step_num": count, "state": {"count": count},
                "done": done, "truncated": false, "reward": f64::from(u8::from(done)),
                "created_at": null, "metadata": {}})
        );
    }
    let over = step(&mut agent, episode, json!({"type": "inc"})).await;
    assert_refused(&over, "runtime_error", "episode_over");
    assert_eq!(over["retryable"], false);
}

/// Behaviour: observe repeats state and `done`, is worth nothing, and is dated to the start.
#[tokio::test]
async fn observing_changes_nothing() {
    let mut agent = agent().await;
    let first = reset(&mut agent, "counter", json!(1), json!({})).await;
    let episode = &first["obs"]["episode_id"];
    step(
        &mut agent,
        episode,
        json!({"action_type": "inc", "payload": []}),
    )
    .await;
    let request = json!({"type": "env/observe/req", "episode_id": episode});
    let seen = agent.ask(request.clone()).await;
    assert_eq!(seen["type"], "env/observe/resp");
    assert_eq!(seen["obs"]["state"], json!({"count": 1}));
    assert_eq!(
        (&seen["obs"]["step_num"], &seen["obs"]["reward"]),
        (&json!(1), &json!(0.0))
    );
    assert_eq!(seen["obs"]["created_at"], first["obs"]["created_at"]);
    assert_eq!(agent.ask(request).await["obs"], seen["obs"]);
}

#[tokio::test]
async fn a_bad_action_is_refused_and_counts_for_nothing() {
    let mut agent = agent().await;
    let episode = begin(&mut agent, "counter", json!({})).await;
    for action in [
        json!({}),
        json!({"type": "dec"}),
        json!({"action": 2}),
        json!({"type": 1}),
    ] {
        let answer = step(&mut agent, &episode, action).await;
        assert_refused(&answer, "schema_violation", "not_taken");
    }
    let answer = step(&mut agent, &episode, json!({"action": 0})).await;
    assert_eq!(answer["obs"]["step_num"], 1);
    assert_eq!(answer["obs"]["state"], json!({"count": 0}));
}

/// Conflict 105: several episodes, each by its id; unknown ones are errors.
#[tokio::test]
async fn episodes_do_not_touch_each_other() {
    let mut agent = agent().await;
    let first = begin(&mut agent, "counter", json!({})).await;
    let second = begin(&mut agent, "counter", json!({})).await;
    assert_ne!(first, second);
    step(&mut agent, &first, json!({"type": "inc"})).await;
    let answer = step(&mut agent, &second, json!({"type": "inc"})).await;
    assert_eq!(answer["obs"]["state"], json!({"count": 1}));
    let closed = agent
        .ask(json!({"type": "env/close/req", "episode_id": first}))
        .await;
    assert_eq!(
        (&closed["type"], &closed["closed"]),
        (&json!("env/close/resp"), &json!(true))
    );
    for kind in [
        "env/step/req",
        "env/observe/req",
        "env/close/req",
        "env/render/req",
    ] {
        let answer = agent
            .ask(json!({"type": kind, "episode_id": first, "action": {"type": "inc"}}))
            .await;
        assert_refused(&answer, "runtime_error", "unknown_episode");
        assert_eq!(answer["retryable"], false);
    }
    let answer = reset(&mut agent, "nowhere", Value::Null, json!({})).await;
    assert_refused(&answer, "runtime_error", "unknown_environment");
}

/// Every verb that names an episode fails for another session's.
#[tokio::test]
async fn an_episode_is_its_sessions() {
    let host = host_with(Settings::default());
    let mut owner = Agent::connect_as(&host, "", &["env"]).await;
    let episode = begin(&mut owner, "counter", json!({})).await;
    let mut other = Agent::connect_as(&host, "", &["env"]).await;
    other.ids = "S";
    for (kind, more) in [
        ("env/step/req", json!({"action": {"type": "inc"}})),
        ("env/observe/req", json!({})),
        ("env/close/req", json!({})),
        ("env/render/req", json!({"mode": "text"})),
        ("env/plan/req", json!({})),
        ("env/exp/list/req", json!({})),
        (
            "env/batch_step/req",
            json!({"episode_ids": [episode], "actions": [{"type": "inc"}]}),
        ),
    ] {
        let mut request = json!({"type": kind, "episode_id": episode});
        request
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let answer = other.ask(request).await;
        assert_refused(&answer, "runtime_error", "unknown_episode");
    }
    let all = other.ask(json!({"type": "env/exp/list/req"})).await;
    assert_eq!(all["episodes"], json!([]));
    let answer = step(&mut owner, &episode, json!({"type": "inc"})).await;
    assert_eq!(answer["obs"]["step_num"], 1);
}

#[tokio::test]
async fn the_same_seed_is_the_same_world() {
    let mut agent = agent().await;
    for name in ["gridworld", "cartpole"] {
        let mut runs = Vec::new();
        for seed in [5, 5, 6] {
            let first = reset(&mut agent, name, json!(seed), json!({})).await;
            let episode = first["obs"]["episode_id"].clone();
            let mut states = vec![first["obs"]["state"].clone()];
            for action in [1, 0, 1, 1] {
                let answer = step(&mut agent, &episode, json!({"action": action})).await;
                states.push(answer["obs"]["state"].clone());
            }
            let render = json!({"type": "env/render/req", "episode_id": episode, "mode": "text"});
            states.push(agent.ask(render).await["render"].clone());
            runs.push(states);
        }
        assert_eq!(runs[0], runs[1]);
        assert_ne!(runs[0], runs[2]);
    }
}

/// Conflict 93: the other spelling too if that is switched on, with the same id.
#[tokio::test]
async fn pushes_are_spelled_in_both_ways_if_that_is_switched_on() {
    let settings = Settings {
        pushes: PushSpellings::Both,
        ..Settings::default()
    };
    let mut agent = agent_with(settings).await;
    let episode = begin(&mut agent, "counter", json!({"push": true})).await;
    agent
        .say(json!({"type": "env/step/req", "episode_id": episode, "action": {"type": "inc"}}))
        .await;
    let (one, mut other) = (agent.hear().await, agent.hear().await);
    assert_eq!(
        (&one["type"], &other["type"]),
        (&json!("env/state_push"), &json!("env/state/push"))
    );
    other["type"] = one["type"].clone();
    other["eid"] = one["eid"].clone();
    assert_eq!(one, other);
    assert_eq!(agent.hear().await["type"], "env/step/resp");
}

/// Behaviour: a push during a step has the number before it, and comes before the response.
#[tokio::test]
async fn steps_are_pushed_to_who_wants_it() {
    let mut agent = agent().await;
    let episode = begin(&mut agent, "counter", json!({"push": true})).await;
    for number in 0..2 {
        agent
            .say(json!({"type": "env/step/req", "episode_id": episode, "action": {"type": "inc"}}))
            .await;
        let push = agent.hear().await;
        assert_eq!(push["type"], "env/state_push");
        assert_eq!(
            (&push["step_id"], &push["event_type"]),
            (&json!(number), &json!("Observation"))
        );
        assert_eq!(push["delta"], json!({"count": number + 1}));
        assert_eq!(push["state_delta"], push["delta"]);
        assert_eq!(agent.hear().await["obs"]["step_num"], number + 1);
    }
}

/// An environment whose episodes are opened one for each permit, and live as long as a thing they hold.
#[derive(Debug)]
struct Slow {
    spaces: Spaces,
    begun: Semaphore,
    open: Semaphore,
    world: std::sync::Mutex<Weak<()>>,
}

struct Held(Arc<()>);

impl World for Held {
    fn text(&self) -> Option<String> {
        Some(Arc::strong_count(&self.0).to_string())
    }
}

impl Environment for Slow {
    fn name(&self) -> &str {
        "slow"
    }

    fn description(&self) -> &str {
        "Takes its time"
    }

    fn spaces(&self) -> &Spaces {
        &self.spaces
    }

    fn open(&self, _: Opening) -> BoxFuture<'_, Result<Opened, EnvError>> {
        Box::pin(async {
            self.begun.add_permits(1);
            self.open.acquire().await.unwrap().forget();
            let world = Arc::new(());
            *self.world.lock().unwrap() = Arc::downgrade(&world);
            Ok(Opened {
                world: Box::new(Held(world)),
                state: Object::EMPTY,
            })
        })
    }
}

/// An episode is being opened when another handshake begins a new session, or when its agent's access is
/// revoked: it ends with the session that has asked for it.
#[tokio::test]
async fn episode_opened_after_the_end_of_its_session_is_closed() {
    for is_revoked in [false, true] {
        let slow = Arc::new(Slow {
            spaces: Spaces {
                action: Object::EMPTY,
                state: Object::EMPTY,
            },
            begun: Semaphore::new(0),
            open: Semaphore::new(0),
            world: std::sync::Mutex::default(),
        });
        let all: Vec<Arc<dyn Environment>> = vec![Arc::clone(&slow) as Arc<dyn Environment>];
        let host = Host::builder()
            .plugin(Environments::new(all, Settings::default()))
            .build();
        let mut agent = Agent::connect_as(&host, "", &["env"]).await;
        // The session has episodes already.
        slow.open.add_permits(1);
        begin(&mut agent, "slow", json!({})).await;
        slow.begun.acquire().await.unwrap().forget();
        let first = slow.world.lock().unwrap().clone();
        agent
            .say(json!({"type": "env/reset/req", "env_name": "slow"}))
            .await;
        slow.begun.acquire().await.unwrap().forget();
        if is_revoked {
            host.revoke_access(|_| true).await.unwrap();
            slow.open.add_permits(1);
        } else {
            let hello = json!({"type": "handshake/req", "agent_caps": ["env"], "auth_token": ""});
            assert_eq!(agent.ask(hello).await["ok"], true);
            slow.open.add_permits(1);
            assert_refused(&agent.hear().await, "runtime_error", "session_ended");
        }
        assert_eq!(first.strong_count(), 0);
        assert_eq!(slow.world.lock().unwrap().strong_count(), 0);
    }
}
