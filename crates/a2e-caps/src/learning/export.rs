//! What models are trained with, made of feedback and experiences.
//!
//! Feedback comes as the JSON that an agent has sent; what does not have what it takes is left out.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// Pairs of answers to one prompt, of which one was better: for direct preference optimization.
///
/// A correction is better than what it corrects. Of the answers that were only rated, the best one
/// of a prompt is better than the worst, if they were not rated alike.
#[derive(Debug, Default)]
pub struct Pairs {
    rated: BTreeMap<String, Ends>,
}

/// The best and the worst answer to a prompt.
#[derive(Debug)]
struct Ends {
    best: Rated,
    worst: Rated,
}

#[derive(Debug, Clone)]
struct Rated {
    response: String,
    score: f64,
}

impl Pairs {
    /// Takes feedback; gives the pair that it is by itself.
    pub fn add(&mut self, feedback: &Value) -> Option<Value> {
        let turn = &feedback["rated_turn"];
        let (prompt, response) = (turn["prompt"].as_str()?, turn["response"].as_str()?);
        if let Some(chosen) = corrected(feedback, response) {
            let pair = chosen != response;
            return pair.then(|| json!({"prompt": prompt, "chosen": chosen, "rejected": response}));
        }
        let new = Rated {
            response: response.to_owned(),
            score: feedback["score"].as_f64()?,
        };
        match self.rated.get_mut(prompt) {
            Some(ends) if new.score > ends.best.score => ends.best = new,
            Some(ends) if new.score < ends.worst.score => ends.worst = new,
            Some(_) => {}
            None => {
                let ends = Ends {
                    best: new.clone(),
                    worst: new,
                };
                self.rated.insert(prompt.to_owned(), ends);
            }
        }
        None
    }

    /// The pairs that all feedback together makes, by prompt.
    pub fn finish(self) -> impl Iterator<Item = Value> {
        let differ = |ends: &Ends| {
            ends.best.score > ends.worst.score && ends.best.response != ends.worst.response
        };
        let rated = self.rated.into_iter().filter(move |(_, ends)| differ(ends));
        rated.map(|(prompt, Ends { best, worst })| {
            json!({"prompt": prompt, "chosen": best.response, "rejected": worst.response})
        })
    }
}

/// What should have been answered; a correction may be of a part.
fn corrected(feedback: &Value, response: &str) -> Option<String> {
    let correction = feedback["correction"].as_str()?;
    if correction.is_empty() {
        return None;
    }
    let span = feedback.get("correction_span");
    let place = |index: usize| usize::try_from(span?.get(index)?.as_u64()?).ok();
    let (Some(start), Some(end)) = (place(0), place(1)) else {
        return Some(correction.to_owned());
    };
    let before: String = response.chars().take(start).collect();
    let after: String = response.chars().skip(end).collect();
    Some(format!("{before}{correction}{after}"))
}

/// Feedback as a sample for a model of rewards.
#[must_use]
pub fn rated(feedback: &Value) -> Option<Value> {
    let turn = &feedback["rated_turn"];
    Some(json!({
        "prompt": turn["prompt"].as_str()?,
        "response": turn["response"].as_str()?,
        "reward": feedback["score"].as_f64()?,
        "dimension": feedback["dimension"],
        "confidence": feedback["confidence"],
        "source": feedback["source"],
    }))
}

/// An experience as a sample for a model of rewards.
#[must_use]
pub fn lived(experience: &Value) -> Option<Value> {
    let fields = [
        "state",
        "action",
        "next_state",
        "done",
        "episode_id",
        "step",
    ];
    let mut sample = Map::new();
    sample.insert(
        "reward".to_owned(),
        experience.get("reward")?.as_f64()?.into(),
    );
    for field in fields {
        let value = experience.get(field).cloned().unwrap_or_default();
        sample.insert(field.to_owned(), value);
    }
    Some(Value::Object(sample))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feedback(prompt: &str, response: &str, score: f64) -> Value {
        json!({"rated_turn": {"prompt": prompt, "response": response, "model": "m"},
            "score": score, "correction": "", "dimension": "tone", "source": "human"})
    }

    #[test]
    fn a_correction_is_a_pair() {
        let mut pairs = Pairs::default();
        let mut whole = feedback("p", "wrong", -1.0);
        whole["correction"] = json!("right");
        let expected = json!({"prompt": "p", "chosen": "right", "rejected": "wrong"});
        assert_eq!(pairs.add(&whole), Some(expected));
        let mut part = feedback("p", "dé word hère", -1.0);
        part["correction"] = json!("mot");
        part["correction_span"] = json!([3, 7]);
        assert_eq!(pairs.add(&part).unwrap()["chosen"], "dé mot hère");
        assert_eq!(pairs.finish().count(), 0);
    }

    #[test]
    fn of_rated_answers_the_best_goes_before_the_worst() {
        let mut pairs = Pairs::default();
        let all = [
            ("p", "a", 0.1),
            ("p", "b", 0.9),
            ("p", "c", -0.5),
            ("q", "a", 1.0),
        ];
        for (prompt, response, score) in all {
            assert_eq!(pairs.add(&feedback(prompt, response, score)), None);
        }
        // The same answer rated twice is no pair, nor is one that is no turn.
        for score in [1.0, -1.0] {
            pairs.add(&feedback("r", "same", score));
        }
        assert_eq!(pairs.add(&json!({"rated_turn": null, "score": 1.0})), None);
        let found: Vec<Value> = pairs.finish().collect();
        let expected = json!({"prompt": "p", "chosen": "b", "rejected": "c"});
        assert_eq!(found, [expected]);
    }

    #[test]
    fn rewards_are_of_turns_and_of_steps() {
        let sample = rated(&feedback("p", "a", 0.5)).unwrap();
        assert_eq!(
            (&sample["prompt"], &sample["reward"]),
            (&json!("p"), &json!(0.5))
        );
        assert_eq!(rated(&json!({"score": 1.0})), None);
        let step = json!({"state": {"x": 1}, "action": {"a": 1}, "reward": 2.0, "done": true});
        let sample = lived(&step).unwrap();
        assert_eq!(
            (&sample["reward"], &sample["state"]),
            (&json!(2.0), &json!({"x": 1}))
        );
    }
}
