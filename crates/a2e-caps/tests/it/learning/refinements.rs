//! Refinements: plan, review, apply, rollback, history.

use serde_json::{Value, json};
use store::{AgentId, Limits, Memory, Options, Sqlite, Store};

use super::{agent, host, live};
use crate::wire::Agent;

async fn plan(agent: &mut Agent, component: &str) -> Value {
    let asked = json!({"type": "learn/refinement/plan/req", "component_name": component});
    agent.ask(asked).await
}

async fn review(agent: &mut Agent, proposal: &Value) -> Value {
    let asked = json!({"type": "learn/refinement/review/req", "proposal": proposal});
    agent.ask(asked).await
}

async fn apply(agent: &mut Agent, proposal: &Value) -> Value {
    let asked = json!({"type": "learn/refinement/apply/req", "proposal": proposal});
    agent.ask(asked).await
}

async fn roll_back(agent: &mut Agent, id: &str) -> Value {
    let asked = json!({"type": "learn/refinement/rollback/req", "refinement_id": id});
    agent.ask(asked).await
}

async fn history(agent: &mut Agent) -> Vec<Value> {
    let history = agent
        .ask(json!({"type": "learn/refinement/history/req"}))
        .await;
    history["entries"].as_array().unwrap().clone()
}

fn memory() -> Store {
    Store::new(Memory::new(Limits::default()))
}

fn state(store: &Store) -> Option<Vec<u8>> {
    let scope = store.for_agent(&AgentId::new("ada").unwrap());
    scope.learning().state().wait().unwrap()
}

fn edit(path: &str, value: Value) -> Value {
    json!({"target": "prompt", "op": "replace", "path": path, "new_value": value})
}

fn proposal(id: &str, edits: &[Value]) -> Value {
    json!({"refinement_id": id, "edits": edits, "confidence": 0.9})
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one story, told in order")]
async fn a_plan_is_reviewed_applied_and_taken_back() {
    let store = memory();
    let mut agent = agent(&host(&store).0, "ada").await;
    let empty = plan(&mut agent, "").await;
    assert_eq!(
        (&empty["status"], &empty["proposals"]),
        (&json!("empty"), &json!([]))
    );
    live(&mut agent, "slow.tool", 0.25, 40).await;
    let planned = plan(&mut agent, "slow.tool").await;
    assert_eq!(planned["status"], "ready");
    assert_eq!(planned["plan_id"].as_str().unwrap().len(), 12);
    let proposal = &planned["proposals"][0];
    let edit = &proposal["edits"][0];
    assert_eq!(edit["path"], "router.weights.slow.tool");
    assert_eq!(
        (&edit["target"], &edit["op"]),
        (&json!("router_weight"), &json!("update"))
    );
    assert_eq!(
        (&edit["new_value"], &proposal["confidence"]),
        (&json!(0.5), &json!(0.75))
    );
    // The first edit stands flat, too.
    for field in ["target", "op", "path", "new_value", "reason"] {
        assert_eq!(proposal[field], edit[field], "{field}");
    }
    let judged = review(&mut agent, proposal).await;
    assert_eq!(
        (&judged["approved"], &judged["risk_level"]),
        (&json!(true), &json!("low"))
    );
    assert_eq!(
        (&judged["confidence_adjusted"], &judged["reasons"]),
        (&json!(0.75), &json!([]))
    );
    let id = proposal["refinement_id"].as_str().unwrap();
    let applied = apply(&mut agent, proposal).await;
    let expected = json!({"refinement_id": id, "applied_edits": 1, "failed_edits": 0,
        "rollback_available": true, "error": ""});
    for (field, value) in expected.as_object().unwrap() {
        assert_eq!(applied[field], *value, "{field}");
    }
    assert_eq!(
        state(&store).unwrap(),
        br#"{"router":{"weights":{"slow.tool":0.5}}}"#
    );
    // Once more is a risk.
    let again = review(&mut agent, proposal).await;
    assert_eq!(
        (&again["approved"], &again["risk_level"]),
        (&json!(true), &json!("medium"))
    );
    let back = roll_back(&mut agent, id).await;
    assert_eq!(
        (&back["rolled_back"], &back["error"]),
        (&json!(true), &json!(""))
    );
    assert_eq!(state(&store).unwrap(), b"{}");
    let twice = roll_back(&mut agent, id).await;
    assert_eq!(twice["rolled_back"], false);
    assert!(
        twice["error"]
            .as_str()
            .unwrap()
            .contains("no refinement of that id"),
        "{twice}"
    );
    let entries = history(&mut agent).await;
    let told: Vec<(&Value, &Value, &Value)> = entries
        .iter()
        .map(|it| (&it["action"], &it["status"], &it["rolled_back"]))
        .collect();
    let (yes, rollback, apply) = (json!(true), json!("rollback"), json!("apply"));
    let (rolled_back, applied) = (json!("rolled_back"), json!("applied"));
    assert_eq!(
        told,
        [(&rollback, &rolled_back, &yes), (&apply, &applied, &yes)]
    );
    assert_eq!(entries[1]["before_snapshot"], json!({}));
    assert_eq!(
        entries[1]["after_snapshot"]["router"]["weights"]["slow.tool"],
        0.5
    );
    assert_eq!(entries[1]["rollback_available"], false);
}

#[tokio::test]
async fn what_cannot_be_applied_is_counted_and_the_rest_is() {
    let store = memory();
    let mut agent = agent(&host(&store).0, "ada").await;
    let edits = [
        edit("prompt.a", json!(1)),
        edit("os.system", json!("rm")),
        edit("b", json!(null)),
    ];
    let applied = apply(&mut agent, &proposal("r1", &edits)).await;
    assert_eq!(
        (&applied["applied_edits"], &applied["failed_edits"]),
        (&json!(1), &json!(2))
    );
    assert!(
        applied["error"].as_str().unwrap().contains("`os.system`"),
        "{applied}"
    );
    assert_eq!(state(&store).unwrap(), br#"{"prompt":{"a":1}}"#);
    let nothing = apply(&mut agent, &proposal("r2", &[edit("__x", json!(1))])).await;
    assert_eq!(
        (&nothing["applied_edits"], &nothing["rollback_available"]),
        (&json!(0), &json!(false))
    );
    assert_eq!(roll_back(&mut agent, "r2").await["rolled_back"], false);
    let none = apply(&mut agent, &json!({})).await;
    assert_eq!(none["error"], "the proposal has no edits");
    assert_eq!(none["refinement_id"].as_str().unwrap().len(), 12);
    // One written flat is an edit like others.
    let flat = json!({"target": "verifier", "op": "update", "path": "verifier.threshold",
        "new_value": 0.4});
    let judged = review(&mut agent, &flat).await;
    assert_eq!(judged["approved"], true, "{judged}");
    assert_eq!(apply(&mut agent, &flat).await["applied_edits"], 1);
    // More than the state may have.
    let large = |name: &str| edit(name, json!("x".repeat(30_000)));
    let edits: Vec<Value> = (0..36).map(|it| large(&format!("n{it}"))).collect();
    let before = state(&store);
    let refused = apply(&mut agent, &proposal("r3", &edits)).await;
    assert_eq!(
        (&refused["applied_edits"], &refused["failed_edits"]),
        (&json!(0), &json!(36))
    );
    assert!(
        refused["error"].as_str().unwrap().contains("too large"),
        "{refused}"
    );
    assert_eq!(state(&store), before);
}

#[tokio::test]
async fn a_review_says_why_not() {
    let mut agent = agent(&host(&memory()).0, "ada").await;
    let mut doubtful = proposal("r", &[edit("a", json!(1))]);
    doubtful["confidence"] = json!(0.2);
    let judged = review(&mut agent, &doubtful).await;
    assert_eq!(
        (&judged["approved"], &judged["risk_level"]),
        (&json!(false), &json!("high"))
    );
    assert_eq!(judged["confidence_adjusted"], 0.1);
    let two = proposal("r", &[edit("a", json!(1)), edit("a", json!(2))]);
    let judged = review(&mut agent, &two).await;
    assert_eq!(
        judged["reasons"],
        json!(["two edits want different values of `a`"])
    );
    // A review leaves nothing behind.
    assert_eq!(history(&mut agent).await, Vec::<Value>::new());
}

/// Across a restart the way back is there, to the byte.
#[tokio::test]
async fn refinements_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        let options = Options::new(folder.path().join("store.db"));
        Store::new(Sqlite::open(&options).unwrap())
    };
    let before = {
        let store = open();
        let mut agent = agent(&host(&store).0, "ada").await;
        live(&mut agent, "c", -0.5, 40).await;
        apply(
            &mut agent,
            &proposal("r1", &[edit("prompt.a", json!({"z": 1, "b": 1.50}))]),
        )
        .await;
        let before = state(&store);
        apply(&mut agent, &proposal("r2", &[edit("prompt", json!("é"))])).await;
        before
    };
    let store = open();
    let mut agent = agent(&host(&store).0, "ada").await;
    assert_eq!(state(&store).unwrap(), r#"{"prompt":"é"}"#.as_bytes());
    assert_eq!(super::stats(&mut agent, "c").await[0]["calls_total"], 40);
    assert_eq!(roll_back(&mut agent, "r2").await["rolled_back"], true);
    assert_eq!(state(&store), before);
    assert_eq!(history(&mut agent).await.len(), 3);
    assert_eq!(roll_back(&mut agent, "r1").await["rolled_back"], true);
    assert_eq!(state(&store).unwrap(), b"{}");
}
