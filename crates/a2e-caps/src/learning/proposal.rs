//! Proposals: how they come, how they are judged, and which follow from what is known.

use std::collections::{BTreeMap, BTreeSet};

use a2e_wire::messages::learn::{
    RefinementEdit, RefinementOp, RefinementProposal, RefinementTarget, RiskLevel,
};
use a2e_wire::{Raw, Real};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::component::Component;
use super::edits::{Edit, WEIGHTS};
use super::entry::Made;
use crate::fresh;

/// Changes that belong together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Proposal {
    pub(super) id: String,
    pub(super) scope: String,
    pub(super) component: String,
    pub(super) summary: String,
    pub(super) edits: Vec<Edit>,
    pub(super) confidence: f64,
    pub(super) strategy: String,
}

/// What is thought of a proposal.
#[derive(Debug, PartialEq)]
pub(super) struct Review {
    pub(super) approved: bool,
    pub(super) confidence: f64,
    pub(super) reasons: Vec<String>,
    pub(super) risk: RiskLevel<'static>,
}

/// The confidence of an edit that was written flat, which has no place to say it.
const FLAT_CONFIDENCE: f64 = 0.5;

impl Proposal {
    /// From either shape: a list of edits, or one written flat.
    pub(super) fn read(proposal: RefinementProposal<'_>, id: String) -> Self {
        let value = |raw: &Raw<'_>| raw.deserialize().unwrap_or(Value::Null);
        let mut edits: Vec<Edit> = proposal
            .edits
            .iter()
            .map(|edit| Edit {
                target: edit.target.as_str().to_owned(),
                op: edit.op.as_str().to_owned(),
                path: edit.path.clone().into_owned(),
                old_value: value(&edit.old_value),
                new_value: value(&edit.new_value),
                reason: edit.reason.clone().into_owned(),
            })
            .collect();
        let mut confidence = proposal.confidence.get();
        if edits.is_empty() && !proposal.path.is_empty() {
            edits.push(Edit {
                target: proposal.target.into_owned(),
                op: proposal.op.into_owned(),
                path: proposal.path.into_owned(),
                old_value: value(&proposal.old_value),
                new_value: value(&proposal.new_value),
                reason: proposal.reason.into_owned(),
            });
            if confidence == 0.0 {
                confidence = FLAT_CONFIDENCE;
            }
        }
        let given = proposal.refinement_id.as_str();
        Self {
            id: if given.is_empty() {
                id
            } else {
                given.to_owned()
            },
            scope: proposal.scope.into_owned(),
            component: proposal.component_name.into_owned(),
            summary: proposal.feedback_summary.into_owned(),
            edits,
            confidence: confidence.clamp(0.0, 1.0),
            strategy: proposal.strategy.into_owned(),
        }
    }

    /// In both shapes: the first edit stands flat too.
    pub(super) fn written(&self) -> RefinementProposal<'static> {
        let raw = |value: &Value| Raw::from_serialize(value).unwrap_or(Raw::NULL);
        let edits = self.edits.iter().map(|edit| RefinementEdit {
            old_value: raw(&edit.old_value),
            new_value: raw(&edit.new_value),
            reason: edit.reason.clone().into(),
            ..RefinementEdit::new(
                RefinementTarget::from(edit.target.clone()),
                RefinementOp::from(edit.op.clone()),
                edit.path.clone().into(),
            )
        });
        let mut written = RefinementProposal {
            scope: self.scope.clone().into(),
            component_name: self.component.clone().into(),
            feedback_summary: self.summary.clone().into(),
            edits: edits.collect(),
            confidence: Real::new(self.confidence).unwrap_or_default(),
            strategy: self.strategy.clone().into(),
            ..RefinementProposal::new(self.id.clone().into(), fresh::timestamp(fresh::now()))
        };
        if let Some(first) = self.edits.first() {
            written.target = first.target.clone().into();
            written.op = first.op.clone().into();
            written.path = first.path.clone().into();
            written.old_value = raw(&first.old_value);
            written.new_value = raw(&first.new_value);
            written.reason = first.reason.clone().into();
        }
        written
    }

    /// Whether an earlier refinement made one of the edits.
    pub(super) fn was_made_in(&self, earlier: &Made) -> bool {
        let is_same = |edit: &Edit, other: &Edit| {
            other.is_of_same(edit) && other.op == edit.op && other.new_value == edit.new_value
        };
        let mut edits = self.edits.iter();
        earlier.is_applied()
            && edits.any(|edit| earlier.edits.iter().any(|other| is_same(edit, other)))
    }

    /// Judges a proposal by itself and by whether one of its edits was made before.
    pub(super) fn review(&self, was_made: bool, threshold: f64) -> Review {
        let mut reasons = Vec::new();
        let mut risk = RiskLevel::Low;
        let mut confidence = self.confidence;
        if self.edits.is_empty() {
            reasons.push("it has no edits".to_owned());
        }
        if was_made {
            reasons.push("the same edit was made before".to_owned());
            risk = RiskLevel::Medium;
            confidence *= 0.8;
        }
        let is_low = self.confidence < threshold;
        if is_low {
            let text = format!("its confidence {:.2} is below {threshold}", self.confidence);
            reasons.push(text);
        }
        let contradicts = self.contradiction();
        if let Some(path) = contradicts {
            let path: String = path.chars().take(64).collect();
            reasons.push(format!("two edits want different values of `{path}`"));
        }
        if is_low || contradicts.is_some() {
            risk = RiskLevel::High;
            confidence *= 0.5;
        }
        let approved = risk != RiskLevel::High && !self.edits.is_empty() && confidence >= threshold;
        if !approved && risk == RiskLevel::Medium && confidence < threshold {
            reasons.push(format!(
                "what is left of its confidence is below {threshold}"
            ));
        }
        Review {
            approved,
            confidence,
            reasons,
            risk,
        }
    }

    /// A path for which two edits want different values.
    fn contradiction(&self) -> Option<&str> {
        let mut wanted: BTreeMap<(&str, &str), &Value> = BTreeMap::new();
        let mut edits = self.edits.iter();
        let other = edits.find(|edit| {
            let key = (&*edit.target, &*edit.path);
            let before = *wanted.entry(key).or_insert(&edit.new_value);
            *before != edit.new_value
        });
        other.map(|edit| &*edit.path)
    }
}

/// What would help the components that do badly.
pub(super) fn planned<'c>(
    components: impl Iterator<Item = (&'c str, &'c Component)>,
    scope: &str,
    min_samples: u64,
    mut id: impl FnMut() -> String,
) -> Vec<Proposal> {
    let mut known: BTreeSet<(String, String, String)> = BTreeSet::new();
    let mut proposals = Vec::new();
    for (name, component) in components {
        for wanted in wanted(name, component, min_samples) {
            let edits: Vec<Edit> = wanted.edits;
            // The first word about something stands.
            let is_new = edits.iter().all(|edit| {
                let key = (name.to_owned(), edit.target.clone(), edit.path.clone());
                !known.contains(&key)
            });
            if !is_new {
                continue;
            }
            for edit in &edits {
                known.insert((name.to_owned(), edit.target.clone(), edit.path.clone()));
            }
            proposals.push(Proposal {
                id: id(),
                scope: scope.to_owned(),
                component: name.to_owned(),
                summary: wanted.summary,
                edits,
                confidence: (1.0 - wanted.score).clamp(0.0, 1.0),
                strategy: "ppo".to_owned(),
            });
        }
    }
    proposals
}

struct Wanted {
    score: f64,
    summary: String,
    edits: Vec<Edit>,
}

fn wanted(name: &str, component: &Component, min_samples: u64) -> Vec<Wanted> {
    let mut all = Vec::new();
    let mut add = |score: f64, summary: String, edits: Vec<(&str, String, Value)>| {
        let edits = edits.into_iter().map(|(target, path, new_value)| Edit {
            target: target.to_owned(),
            op: "update".to_owned(),
            path,
            old_value: Value::Null,
            new_value,
            reason: summary.clone(),
        });
        let edits = edits.collect();
        all.push(Wanted {
            score,
            summary,
            edits,
        });
    };
    let weight = format!("{WEIGHTS}{name}");
    let mean = component.score.get();
    if mean < 0.5 && component.score.count >= min_samples {
        let text = format!("mean {mean:.3} of {} samples", component.score.count);
        let value = json!((2.0 * mean).clamp(0.0, 1.0));
        add(mean, text, vec![("router_weight", weight.clone(), value)]);
    }
    for (dimension, rated) in &component.rated {
        let score = rated.get();
        if score >= 0.5 {
            continue;
        }
        let text = format!("{dimension} {score:.3} of {} ratings", rated.count);
        let edit = match &**dimension {
            "correctness" => {
                let threshold = json!(0.5 + 0.3 * score);
                ("verifier", "verifier.threshold".to_owned(), threshold)
            }
            "helpfulness" => ("router_weight", weight.clone(), json!(score.max(0.1))),
            _ => continue,
        };
        add(score, text, vec![edit]);
    }
    let rated = component.rated.values().map(|it| it.get());
    let lowest = rated.fold(f64::INFINITY, f64::min);
    if lowest < 0.5 && !component.correction.is_empty() {
        let text = format!("Answer as in this correction: {}", component.correction);
        let edit = ("prompt", "prompt.template".to_owned(), json!(text));
        add(lowest, "what was corrected".to_owned(), vec![edit]);
    }
    let lived = component.lived.get();
    if component.lived.count > 0 && lived < 0.3 {
        let text = format!("reward {lived:.3} of {} experiences", component.lived.count);
        add(
            lived,
            text.clone(),
            vec![("router_weight", weight, json!(lived.max(0.05)))],
        );
        if component.is_tool {
            let path = format!("tool_config.{name}.max_calls");
            add(lived, text, vec![("tool", path, json!(1))]);
        }
    }
    all
}

#[cfg(test)]
mod tests;
