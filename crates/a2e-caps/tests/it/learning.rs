//! Learning, as other A2E clients see it (a2e-behaviour, section 4, learning; a2e-conflicts, rows 124
//! to 135).

mod limits;
mod refinements;

use std::sync::Arc;

use a2e_caps::Placement;
use a2e_caps::learning::{Learning, Ledgers, MAX_COMPONENT_NAME, Settings};
use a2e_caps::tool::{Catalogue, Source};
use a2e_caps::tools::{Settings as ToolSettings, Tools};
use a2e_runtime::{Host, Learner, Weights};
use a2e_wire::messages::learn::{Experience, Feedback, FeedbackPolarity};
use a2e_wire::{Real, Timestamp};
use serde_json::{Value, json};
use store::{SampleKind, Store};

use crate::support::{constant, defined};
use crate::vault::{Named, store};
use crate::wire::Agent;

/// A host that learns into a store, and what it learns into.
pub(crate) fn host(store: &Store) -> (Host, Arc<Ledgers>) {
    host_with(store, Settings::default())
}

fn host_with(store: &Store, settings: Settings) -> (Host, Arc<Ledgers>) {
    let ledgers = Arc::new(Ledgers::new(store.clone()));
    let placement = Placement::named("learning");
    let learning = Learning::new(Arc::clone(&ledgers), settings, placement);
    let builder = Host::builder().plugin(learning);
    (builder.authenticator(Named).build(), ledgers)
}

/// What the environments of a host have.
fn learner(ledgers: &Arc<Ledgers>) -> impl Learner {
    let placement = Placement::named("learning");
    Learning::new(Arc::clone(ledgers), Settings::default(), placement)
}

pub(crate) async fn agent(host: &Host, name: &str) -> Agent {
    Agent::connect_as(host, name, &["learning"]).await
}

async fn on_new_ledger() -> Agent {
    agent(&host(&store()).0, "ada").await
}

fn feedback(model: &str, score: f64) -> Value {
    json!({"rated_turn": {"prompt": "p", "response": "four é", "model": model},
        "polarity": "positive", "score": score})
}

async fn give(agent: &mut Agent, feedbacks: &[Value]) -> Value {
    agent
        .ask(json!({"type": "learn/feedback/req", "feedbacks": feedbacks}))
        .await
}

/// Experiences with a component.
pub(crate) async fn live(agent: &mut Agent, component: &str, reward: f64, count: usize) -> Value {
    let one = json!({"action": {"component_name": component}, "reward": reward});
    let all = vec![one; count];
    agent
        .ask(json!({"type": "learn/experience/req", "experiences": all}))
        .await
}

pub(crate) async fn stats(agent: &mut Agent, component: &str) -> Value {
    let asked = json!({"type": "learn/stats/req", "component_name": component});
    let stats = agent.ask(asked).await;
    assert_eq!(stats["type"], "learn/stats/resp", "{stats}");
    stats["components"].clone()
}

/// Proves H-17, N-14.
#[tokio::test]
async fn feedback_counts_for_what_was_rated() {
    let mut agent = on_new_ledger().await;
    let mut versioned = feedback("m", -0.5);
    versioned["rated_turn"]["version"] = json!("m@2");
    versioned["polarity"] = json!("NEGATIVE");
    let nobody = json!({"polarity": "neutral", "rated_turn": null});
    let given = give(
        &mut agent,
        &[feedback("m", 1.0), versioned, nobody, feedback("m", 0.0)],
    )
    .await;
    assert_eq!(
        (&given["type"], &given["recorded"]),
        (&json!("learn/feedback/resp"), &json!(4))
    );
    // The mean of the component that was rated last.
    assert_eq!(given["new_score"], 0.5);
    let all = stats(&mut agent, "").await;
    let names: Vec<&Value> = all
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["component_name"])
        .collect();
    assert_eq!(names, ["m", "m@2", "unknown"]);
    let of_m = stats(&mut agent, "m").await;
    assert_eq!(of_m.as_array().unwrap().len(), 1);
    for (field, value) in [
        ("calls_total", json!(2)),
        ("calls_success", json!(1)),
        ("calls_failed", json!(0)),
        ("avg_score", json!(0.5)),
        ("weight", json!(0.5)),
    ] {
        assert_eq!(of_m[0][field], value, "{field}");
    }
    assert_eq!(stats(&mut agent, "m@2").await[0]["calls_failed"], 1);
    assert_eq!(stats(&mut agent, "other").await, json!([]));
}

#[tokio::test]
async fn feedback_must_make_sense() {
    let mut agent = on_new_ledger().await;
    let with = |field: &str, value: Value| {
        let mut feedback = feedback("m", 0.5);
        feedback[field] = value;
        feedback
    };
    let mut corrective = with("polarity", json!("corrective"));
    let good = [
        with("score", json!(-1)),
        with("confidence", json!(1)),
        with("correction_span", json!([0, 6])),
        with("source", json!("self")),
    ];
    for feedback in good {
        let given = give(&mut agent, std::slice::from_ref(&feedback)).await;
        assert_eq!(given["recorded"], 1, "{feedback}: {given}");
    }
    let mut spanning_nothing = with("correction_span", json!([0, 1]));
    spanning_nothing["rated_turn"] = json!(null);
    let long_name = feedback(&"x".repeat(MAX_COMPONENT_NAME + 1), 0.5);
    let bad = [
        (with("score", json!(1.01)), "score"),
        (
            with("confidence", json!(1.5)),
            "`confidence` must be from 0 to 1",
        ),
        (
            corrective.clone(),
            "`corrective` feedback needs a `correction`",
        ),
        (
            with("correction_span", json!([0, 7])),
            "within the 6 characters",
        ),
        (
            with("correction_span", json!([3, 2])),
            "within the 6 characters",
        ),
        (spanning_nothing, "needs the `rated_turn`"),
        (
            with("polarity", json!("great")),
            "`polarity` cannot be `great`",
        ),
        (
            with("dimension", json!("size")),
            "`dimension` cannot be `size`",
        ),
        (with("source", json!("god")), "`source` cannot be `god`"),
        (long_name, "name has more than"),
    ];
    for (feedback, why) in bad {
        // One that is wrong, and none is kept.
        let refused = give(&mut agent, &[self::feedback("other", 1.0), feedback]).await;
        assert_eq!(refused["code"], "schema_violation", "{refused}");
        assert!(
            refused["message"].as_str().unwrap().contains(why),
            "{refused}"
        );
    }
    corrective["correction"] = json!("four");
    assert_eq!(give(&mut agent, &[corrective]).await["recorded"], 1);
    assert_eq!(stats(&mut agent, "other").await, json!([]));
    let longest = feedback(&"x".repeat(MAX_COMPONENT_NAME), 0.5);
    assert_eq!(give(&mut agent, &[longest]).await["recorded"], 1);
}

/// An agent cannot pass its own word off as that of an environment; the host's environments can speak.
#[tokio::test]
async fn only_the_host_speaks_for_environments() {
    let store = store();
    let (host, ledgers) = host(&store);
    let mut agent = agent(&host, "ada").await;
    for source in ["env", "ENV"] {
        let mut spoofed = feedback("m", 1.0);
        spoofed["source"] = json!(source);
        let refused = give(&mut agent, &[feedback("m", 1.0), spoofed]).await;
        assert_eq!(refused["code"], "unauthorized", "{refused}");
        assert_eq!(refused["detail"]["reason"], "source_env");
    }
    assert_eq!(stats(&mut agent, "").await, json!([]));
    let told = Feedback::new("f".into(), FeedbackPolarity::Positive, Timestamp::default());
    learner(&ledgers).rated("ada", vec![told]).await.unwrap();
    let step = Experience {
        reward: Real::new(2.0).unwrap(),
        ..Experience::new("e".into(), Timestamp::default())
    };
    learner(&ledgers)
        .experienced("ada", vec![step])
        .await
        .unwrap();
    let scope = store.for_agent(&store::AgentId::new("ada").unwrap());
    let kept = scope
        .learning()
        .samples(SampleKind::Feedback, 0, 9)
        .wait()
        .unwrap();
    let kept: Value = serde_json::from_slice(&kept[0].1).unwrap();
    assert_eq!(kept["source"], "env");
    let lived = scope
        .learning()
        .samples(SampleKind::Experience, 0, 9)
        .wait()
        .unwrap();
    assert_eq!(lived.len(), 1);
}

#[tokio::test]
async fn an_experience_counts_for_all_it_names() {
    let mut agent = on_new_ledger().await;
    let action = |duration: u32| {
        json!({"component_name": "router", "components": ["a", "router"], "tools": ["grep",
            {"name": "glob"}], "duration_ms": duration})
    };
    let all: Vec<Value> = (1..=20)
        .map(|number| json!({"action": action(number * 10), "reward": 0.25, "ts": f64::from(number)}))
        .collect();
    let stored = agent
        .ask(json!({"type": "learn/experience/req", "experiences": all}))
        .await;
    assert_eq!(
        (&stored["type"], &stored["stored"]),
        (&json!("learn/experience/resp"), &json!(20))
    );
    let components = stats(&mut agent, "").await;
    assert_eq!(components.as_array().unwrap().len(), 4);
    for component in components.as_array().unwrap() {
        assert_eq!(
            (&component["calls_total"], &component["avg_score"]),
            (&json!(20), &json!(0.25))
        );
        assert_eq!(
            (&component["avg_duration_ms"], &component["p95_duration_ms"]),
            (&json!(105.0), &json!(195.0))
        );
        assert_eq!(
            (&component["last_called"], &component["decayed_score"]),
            (&json!(20.0), &json!(0.25))
        );
    }
    // However many it names, it is one sample.
    let adapted = agent.ask(json!({"type": "learn/adapt/req"})).await;
    let message = adapted["message"].as_str().unwrap();
    assert!(message.starts_with("20 samples are too few"), "{message}");
    let none = agent.ask(json!({"type": "learn/experience/req"})).await;
    assert_eq!(none["stored"], 0);
}

#[tokio::test]
async fn too_little_to_learn_from_is_said_at_once() {
    let mut agent = on_new_ledger().await;
    live(&mut agent, "a", -1.0, 31).await;
    let adapted = agent.ask(json!({"type": "learn/adapt/req"})).await;
    assert_eq!(
        adapted["message"],
        "31 samples are too few to adapt; it takes 32"
    );
    assert_eq!(adapted["updated"][0]["weight"], 0.5);
    // And again, and others are served meanwhile.
    let again = agent.ask(json!({"type": "learn/adapt/req"})).await;
    assert_eq!(again["type"], "learn/adapt/resp");
    let history = agent
        .ask(json!({"type": "learn/refinement/history/req"}))
        .await;
    assert_eq!(history["entries"], json!([]));
}

#[tokio::test]
async fn weights_follow_by_each_strategy() {
    for strategy in [
        "ppo",
        "ucb1",
        "epsilon_greedy",
        "softmax",
        "custom",
        "Softmax",
    ] {
        let store = store();
        let (host, ledgers) = host(&store);
        let mut agent = agent(&host, "ada").await;
        live(&mut agent, "good", 0.9, 40).await;
        live(&mut agent, "bad", -0.9, 40).await;
        let asked = json!({"type": "learn/adapt/req", "strategy": strategy});
        let adapted = agent.ask(asked).await;
        let message = adapted["message"].as_str().unwrap();
        assert!(
            message.starts_with("adapted to 80 samples by "),
            "{adapted}"
        );
        let (bad, good) = (&adapted["updated"][0], &adapted["updated"][1]);
        assert_eq!(
            (&bad["component_name"], &good["component_name"]),
            (&json!("bad"), &json!("good"))
        );
        let weight = |it: &Value| it["weight"].as_f64().unwrap();
        assert!(weight(good) > weight(bad), "{strategy}: {adapted}");
        assert_eq!(ledgers.weight("ada", "good"), weight(good));
        assert_eq!(ledgers.weight("bob", "good"), a2e_runtime::NEUTRAL);
        // It is there for whoever comes after a restart.
        let (_, again) = self::host(&store);
        assert_eq!(again.weight("ada", "good"), weight(good));
    }
    let mut agent = on_new_ledger().await;
    let asked = json!({"type": "learn/adapt/req", "strategy": "guess"});
    assert_eq!(agent.ask(asked).await["code"], "schema_violation");
}

/// One that is adapted alone is weighed beside the others, which keep their weights.
#[tokio::test]
async fn adapting_one_component_compares_it_with_the_others() {
    let weight = |components: &Value, name: &str| {
        let mut all = components.as_array().unwrap().iter();
        all.find(|it| it["component_name"] == name).unwrap()["weight"].clone()
    };
    for strategy in ["ppo", "ucb1", "epsilon_greedy", "softmax", "custom"] {
        let mut agent = on_new_ledger().await;
        live(&mut agent, "good", 1.0, 400).await;
        live(&mut agent, "bad", -1.0, 400).await;
        let before = stats(&mut agent, "").await;
        let adapt = json!({"type": "learn/adapt/req", "strategy": strategy,
            "component_name": "bad"});
        let adapted = agent.ask(adapt).await;
        assert_eq!(adapted["type"], "learn/adapt/resp", "{adapted}");
        let after = stats(&mut agent, "").await;
        assert!(
            weight(&after, "bad").as_f64() < Some(0.5),
            "{strategy}: {after}"
        );
        assert_eq!(
            weight(&after, "good"),
            weight(&before, "good"),
            "{strategy}"
        );
    }
}

/// Numbers at the ends of what JSON has are counted, and read again after a restart.
#[tokio::test]
async fn extreme_numbers_are_read_again() {
    let store = store();
    let extremes = [1.7e308, 1.7e308, -1.7e308, 1.7e308, 5e-324];
    let experiences: Vec<Value> = extremes
        .iter()
        .map(|number| {
            json!({"action": {"component_name": "c", "duration_ms": number}, "reward": number})
        })
        .collect();
    let mut agent = agent(&host(&store).0, "ada").await;
    let lived = json!({"type": "learn/experience/req", "experiences": experiences});
    assert_eq!(agent.ask(lived).await["stored"], 5);
    let before = stats(&mut agent, "").await;
    assert_eq!(before[0]["calls_total"], 5, "{before}");
    let mut again = self::agent(&host(&store).0, "ada").await;
    assert_eq!(stats(&mut again, "").await, before);
}

/// A time in milliseconds lies far ahead, and must not end the decay of all that comes after it.
#[tokio::test]
async fn a_time_ahead_of_the_clock_counts_as_now() {
    let mut agent = on_new_ledger().await;
    let now = std::time::SystemTime::now();
    let now = now
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_secs_f64();
    let one = json!({"action": {"component_name": "c"}, "reward": 1.0, "ts": now * 1000.0});
    let lived = json!({"type": "learn/experience/req", "experiences": [one]});
    assert_eq!(agent.ask(lived).await["stored"], 1);
    let last = stats(&mut agent, "c").await[0]["last_called"]
        .as_f64()
        .unwrap();
    assert!(last < now + 3600.0, "{last}");
}

#[tokio::test]
async fn the_host_adapts_by_itself_now_and_then() {
    let mut agent = on_new_ledger().await;
    live(&mut agent, "good", 1.0, 99).await;
    assert_eq!(stats(&mut agent, "good").await[0]["weight"], 0.5);
    live(&mut agent, "good", 1.0, 1).await;
    assert_eq!(stats(&mut agent, "good").await[0]["weight"], 0.6);
    let history = agent
        .ask(json!({"type": "learn/refinement/history/req"}))
        .await;
    assert_eq!(history["entries"].as_array().unwrap().len(), 1);
}

/// What has done well comes first; who names a tool gets it all the same.
#[tokio::test]
async fn a_search_for_tools_ranks_by_weights_when_told_to() {
    let catalogue = Arc::new(Catalogue::default());
    let tools = ["zonk_file", "zonk_page", "zonk_mail"].map(|it| constant(defined(it), json!(1)));
    catalogue.set(Source::BuiltIn, tools.into());
    let store = store();
    let (_, ledgers) = host(&store);
    let learning = Learning::new(
        Arc::clone(&ledgers),
        Settings::default(),
        Placement::named("learning"),
    );
    let tools = Tools::new(catalogue, ToolSettings::default()).unwrap();
    let tools = tools.ranked_by(Arc::clone(&ledgers) as Arc<dyn Weights>);
    let host = Host::builder().plugin(tools).plugin(learning);
    let host = host.authenticator(Named).build();
    let mut agent = Agent::connect_as(&host, "ada", &["tools", "learning"]).await;
    let search = async |agent: &mut Agent, query: &str| -> Vec<String> {
        let list = agent
            .ask(json!({"type": "tool/list/req", "query": query}))
            .await;
        let tools = list["tools"].as_array().unwrap().iter();
        tools
            .map(|it| it["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let before = search(&mut agent, "zonk").await;
    let [first, second, third] = before.as_slice() else {
        panic!("{before:?}");
    };
    live(&mut agent, third, 1.0, 50).await;
    live(&mut agent, first, -1.0, 50).await;
    let adapt = json!({"type": "learn/adapt/req", "strategy": "softmax"});
    agent.ask(adapt).await;
    let after = search(&mut agent, "zonk").await;
    assert_eq!(after, [third.clone(), second.clone(), first.clone()]);
    assert_eq!(search(&mut agent, first).await[0], *first);
    // What one agent has learned is nothing to another.
    let mut bob = Agent::connect_as(&host, "bob", &["tools"]).await;
    assert_eq!(search(&mut bob, "zonk").await, before);
}

/// Every verb, tried by another agent.
#[tokio::test]
async fn what_is_learned_is_an_agents_own() {
    let (host, _) = host(&store());
    let mut ada = agent(&host, "ada").await;
    give(&mut ada, &[feedback("m", 1.0)]).await;
    live(&mut ada, "c", 1.0, 3).await;
    let edit = json!({"target": "prompt", "op": "replace", "path": "prompt.x", "new_value": 1});
    let proposal = json!({"refinement_id": "r", "edits": [edit], "confidence": 1.0});
    let apply = json!({"type": "learn/refinement/apply/req", "proposal": proposal});
    assert_eq!(ada.ask(apply).await["applied_edits"], 1);
    let mut bob = agent(&host, "bob").await;
    assert_eq!(stats(&mut bob, "").await, json!([]));
    assert_eq!(stats(&mut bob, "c").await, json!([]));
    let adapted = bob.ask(json!({"type": "learn/adapt/req"})).await;
    assert_eq!(adapted["updated"], json!([]));
    let plan = bob.ask(json!({"type": "learn/refinement/plan/req"})).await;
    assert_eq!(plan["proposals"], json!([]));
    let history = bob
        .ask(json!({"type": "learn/refinement/history/req"}))
        .await;
    assert_eq!(history["entries"], json!([]));
    let back = json!({"type": "learn/refinement/rollback/req", "refinement_id": "r"});
    assert_eq!(bob.ask(back).await["rolled_back"], false);
    for kind in ["feedback", "experience"] {
        let asked = json!({"type": "learn/samples/req", "kind": kind});
        assert_eq!(bob.ask(asked).await["samples"], json!([]));
    }
    let history = ada
        .ask(json!({"type": "learn/refinement/history/req"}))
        .await;
    assert_eq!(history["entries"][0]["rollback_available"], true);
}
