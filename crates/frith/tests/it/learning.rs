//! `frith learn`: what was learned, and what models are trained with.

use serde_json::{Value, json};
use tempfile::tempdir;

use crate::frith;
use crate::node::Node;

/// A node as one has it that is told nothing.
const CONFIG: &str = "{host_id: learns}";

#[test]
fn what_was_learned_is_shown_and_exported() {
    let folder = tempdir().unwrap();
    let node = Node::start(folder.path(), CONFIG);
    let data = node.data();
    let data = data.to_str().unwrap();
    let learn =
        |arguments: &[&str]| frith(&[&["learn"], arguments, &["--data", data]].concat(), "");
    let good = |arguments: &[&str]| {
        let (status, out, error) = learn(arguments);
        assert_eq!(status, 0, "{arguments:?}: {error}");
        out
    };
    assert!(good(&["stats"]).contains("nothing is known yet"));
    let mut wire = node.wire();
    let hello = json!({"type": "handshake/req", "id": "h", "agent_caps": ["learning"],
        "auth_token": node.token});
    assert_eq!(wire.ask(&hello)["ok"], true);
    let turn = |response: &str| json!({"prompt": "2 + 2?", "response": response, "model": "small"});
    let feedbacks = json!([
        {"rated_turn": turn("5"), "polarity": "corrective", "correction": "4", "score": -1},
        {"rated_turn": turn("It is 4."), "polarity": "positive", "score": 0.9},
        {"rated_turn": turn("No idea"), "polarity": "negative", "score": -0.4},
    ]);
    let feedback = json!({"type": "learn/feedback/req", "id": "f", "feedbacks": feedbacks});
    assert_eq!(wire.ask(&feedback)["recorded"], 3);
    let step = json!({"action": {"tools": ["grep"]}, "reward": -0.5, "state": {"x": 1}});
    let steps = json!({"type": "learn/experience/req", "id": "e", "experiences": vec![step; 40]});
    assert_eq!(wire.ask(&steps)["stored"], 40);
    let stats = good(&["stats"]);
    assert!(
        stats.contains("component") && stats.contains("grep "),
        "{stats}"
    );
    let adapted = good(&["adapt", "--strategy", "softmax"]);
    assert!(
        adapted.starts_with("adapted to 43 samples by softmax"),
        "{adapted}"
    );
    let history = good(&["history"]);
    assert!(
        history.contains("applied") && history.contains("can be taken back"),
        "{history}"
    );
    let id = history.split_whitespace().next().unwrap();
    assert_eq!(good(&["rollback", id]), format!("`{id}` is taken back\n"));
    let (status, _, error) = learn(&["rollback", id]);
    assert_eq!(status, 1);
    assert!(error.contains("no refinement of that id"), "{error}");
    let lines = |out: &str| -> Vec<Value> {
        out.lines()
            .map(|it| serde_json::from_str(it).unwrap())
            .collect()
    };
    let pairs = lines(&good(&["export", "--format", "dpo"]));
    let pair = |chosen: &str, rejected: &str| json!({"prompt": "2 + 2?", "chosen": chosen, "rejected": rejected});
    assert_eq!(pairs, [pair("4", "5"), pair("It is 4.", "No idea")]);
    let file = folder.path().join("rewards.jsonl");
    let path = file.to_str().unwrap();
    let (status, _, note) = learn(&["export", "--format", "reward", "--output", path]);
    assert_eq!(status, 0, "{note}");
    assert!(note.starts_with("wrote 43 samples to "), "{note}");
    let rewards = lines(&std::fs::read_to_string(&file).unwrap());
    assert_eq!(
        (&rewards[0]["reward"], &rewards[42]["state"]),
        (&json!(-1.0), &json!({"x": 1}))
    );
    // What is there is not written over.
    assert_eq!(learn(&["export", "--format", "dpo", "--output", path]).0, 1);
    // It is there after the node was killed.
    node.crash();
    let _node = Node::start(folder.path(), CONFIG);
    let listed = good(&["stats", "grep", "--json"]);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed[0]["calls_total"], 40);
}
