use std::time::Duration;

use a2e_wire::Timestamp;
use serde_json::json;

use super::super::component::{Seen, What};
use super::*;

fn edit(path: &str, new_value: Value) -> Edit {
    Edit {
        target: "router_weight".to_owned(),
        op: "update".to_owned(),
        path: path.to_owned(),
        old_value: Value::Null,
        new_value,
        reason: String::new(),
    }
}

fn proposal(confidence: f64, edits: Vec<Edit>) -> Proposal {
    Proposal {
        id: "r".to_owned(),
        scope: "local".to_owned(),
        component: "c".to_owned(),
        summary: String::new(),
        edits,
        confidence,
        strategy: "ppo".to_owned(),
    }
}

fn entry(status: &str, edits: Vec<Edit>) -> Made {
    Made {
        status: status.to_owned(),
        edits,
    }
}

/// a2e-behaviour, section 4, learning: review.
#[test]
fn a_review_weighs_confidence_contradiction_and_repetition() {
    let one = || edit("router.weights.a", json!(0.5));
    let judge = |confidence, edits: Vec<Edit>, history: &[Made]| {
        let proposal = proposal(confidence, edits);
        let was_made = history.iter().any(|earlier| proposal.was_made_in(earlier));
        let review = proposal.review(was_made, 0.3);
        (
            review.approved,
            review.confidence,
            review.risk,
            review.reasons.len(),
        )
    };
    assert_eq!(judge(0.3, vec![one()], &[]), (true, 0.3, RiskLevel::Low, 0));
    assert_eq!(
        judge(0.29, vec![one()], &[]),
        (false, 0.145, RiskLevel::High, 1)
    );
    assert_eq!(judge(0.9, vec![], &[]), (false, 0.9, RiskLevel::Low, 1));
    let other = edit("router.weights.a", json!(0.6));
    let both = vec![one(), other.clone()];
    assert_eq!(judge(0.8, both, &[]), (false, 0.4, RiskLevel::High, 1));
    // The same twice contradicts nothing.
    assert!(judge(0.8, vec![one(), one()], &[]).0);
    let before = [entry("applied", vec![one()])];
    assert_eq!(
        judge(0.5, vec![one()], &before),
        (true, 0.4, RiskLevel::Medium, 1)
    );
    assert!(!judge(0.35, vec![one()], &before).0);
    // Another value is another edit, and what was rejected was not made.
    assert_eq!(judge(0.5, vec![other], &before).2, RiskLevel::Low);
    let rejected = [entry("rejected", vec![one()])];
    assert_eq!(judge(0.5, vec![one()], &rejected).2, RiskLevel::Low);
}

#[test]
fn both_shapes_are_read_and_written() {
    let flat = RefinementProposal {
        target: "verifier".into(),
        op: "update".into(),
        path: "verifier.threshold".into(),
        new_value: Raw::from_serialize(&0.4).unwrap(),
        reason: "why".into(),
        ..RefinementProposal::new("".into(), Timestamp::default())
    };
    let read = Proposal::read(flat, "made".to_owned());
    assert_eq!(
        (&*read.id, read.confidence, read.edits.len()),
        ("made", 0.5, 1)
    );
    assert_eq!(read.edits[0].new_value, json!(0.4));
    let written = read.written();
    assert_eq!(
        (&*written.path, &*written.reason),
        ("verifier.threshold", "why")
    );
    assert_eq!(written.edits.len(), 1);
    // The list goes before what stands flat.
    let again = Proposal::read(written, "other".to_owned());
    assert_eq!((&*again.id, again.edits), ("made", read.edits));
}

fn component(rated: &[(&str, f64)], lived: &[f64], is_tool: bool) -> Component {
    let mut component = Component::default();
    let half_life = Duration::from_secs(1000);
    for (dimension, score) in rated {
        let what = What::Rated {
            dimension: (*dimension).to_owned(),
            correction: "say this".to_owned(),
        };
        let seen = Seen {
            score: *score,
            at: 1.0,
            what,
        };
        component.see(&seen, half_life);
    }
    for score in lived {
        let what = What::Lived {
            duration_ms: None,
            is_tool,
        };
        let seen = Seen {
            score: *score,
            at: 1.0,
            what,
        };
        component.see(&seen, half_life);
    }
    component
}

fn plan(component: &Component, min_samples: u64) -> Vec<(String, Value, f64)> {
    let planned = planned([("c", component)].into_iter(), "local", min_samples, || {
        "id".to_owned()
    });
    let told = planned.into_iter().map(|it| {
        let edit = &it.edits[0];
        (edit.path.clone(), edit.new_value.clone(), it.confidence)
    });
    told.collect()
}

/// a2e-behaviour, section 4, learning: plan.
#[test]
fn what_does_badly_is_planned_for() {
    let weight = "router.weights.c".to_owned();
    let good = component(&[("helpfulness", 0.9)], &[0.8; 40], true);
    assert_eq!(plan(&good, 32), []);
    let poor = component(&[], &[0.375; 32], false);
    assert_eq!(plan(&poor, 32), [(weight.clone(), json!(0.75), 0.625)]);
    assert_eq!(plan(&poor, 33), []);
    // A tool that does worse is called less, too.
    let bad = component(&[], &[-0.5; 2], true);
    let expected = [
        (weight.clone(), json!(0.05), 1.0),
        ("tool_config.c.max_calls".to_owned(), json!(1), 1.0),
    ];
    assert_eq!(plan(&bad, 32), expected);
    let rated = component(
        &[("correctness", 0.0), ("helpfulness", 0.25), ("tone", 1.0)],
        &[],
        false,
    );
    let paths: Vec<String> = plan(&rated, 32).into_iter().map(|it| it.0).collect();
    assert_eq!(paths, ["verifier.threshold", &*weight, "prompt.template"]);
    assert_eq!(plan(&rated, 32)[0].1, json!(0.5));
    assert_eq!(plan(&rated, 32)[1].1, json!(0.25));
    // One word about a weight, the first.
    let both = component(&[("helpfulness", 0.25)], &[0.1; 40], false);
    let weights = plan(&both, 32).into_iter().filter(|it| it.0 == weight);
    assert_eq!(weights.count(), 1);
}
