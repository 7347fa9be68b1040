//! Feedback and experiences as they come: what is taken, and what is seen in it.

use a2e_runtime::Failure;
use a2e_wire::messages::learn::{
    Experience, Feedback, FeedbackDimension, FeedbackPolarity, FeedbackSource, RatedTurn,
};
use a2e_wire::wire::Encode;
use a2e_wire::{ErrorCode, Namespace, Object, Timestamp};
use serde::Deserialize;
use serde_json::Value;
use store::{Sample, SampleKind};

use super::component::{Seen, What, number};
use crate::fresh;

/// Feedback or experiences of one request.
pub const MAX_AT_ONCE: usize = 10_000;
/// Bytes of one, as JSON.
pub const MAX_SAMPLE: usize = 256 * 1024;
/// Components that one may be about.
pub const MAX_COMPONENTS: usize = 32;
/// Bytes of a component's name.
pub const MAX_COMPONENT_NAME: usize = 256;

/// Who tells what is learned from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Teller {
    /// An agent, who has no environment.
    Agent,
    /// An environment of the host.
    Environment,
}

/// Samples that were checked, and what is seen in them.
#[derive(Debug, Default)]
pub(super) struct Checked {
    pub(super) samples: Vec<Sample>,
    pub(super) seen: Vec<Observed>,
}

/// Something that was seen, and of which components.
#[derive(Debug)]
pub(super) struct Observed {
    pub(super) names: Vec<String>,
    pub(super) seen: Seen,
    /// Whether it counts for all samples together: what is seen in one sample does so once.
    pub(super) is_whole: bool,
}

/// What an action says of the components in it.
#[derive(Debug, Deserialize)]
struct Action {
    #[serde(default)]
    component_name: Value,
    #[serde(default)]
    components: Value,
    #[serde(default)]
    tools: Value,
    #[serde(default)]
    duration_ms: Value,
}

pub(super) fn feedbacks(
    feedbacks: Vec<Feedback<'static>>,
    teller: Teller,
) -> Result<Checked, Failure> {
    at_most(feedbacks.len(), "feedbacks")?;
    let mut checked = Checked::default();
    for (index, feedback) in feedbacks.into_iter().enumerate() {
        let wrong = |why: &str| violation(&format!("feedbacks[{index}]: {why}"));
        let feedback = feedback_of(feedback, teller)?;
        check(&feedback).map_err(|why| wrong(&why))?;
        let name = component_of(feedback.rated_turn.as_ref());
        check_name(&name).map_err(|why| wrong(&why))?;
        let seen = Seen {
            score: feedback.score.get(),
            at: seen_at(feedback.ts),
            what: What::Rated {
                dimension: feedback.dimension.as_str().to_owned(),
                correction: feedback.correction.clone().into_owned(),
            },
        };
        let sample = sample(SampleKind::Feedback, &feedback).map_err(|why| wrong(&why))?;
        checked.samples.push(sample);
        checked.seen.push(Observed {
            names: vec![name],
            seen,
            is_whole: true,
        });
    }
    Ok(checked)
}

pub(super) fn experiences(
    experiences: Vec<Experience<'static>>,
    teller: Teller,
) -> Result<Checked, Failure> {
    at_most(experiences.len(), "experiences")?;
    let mut checked = Checked::default();
    for (index, mut experience) in experiences.into_iter().enumerate() {
        if experience.experience_id.is_empty() {
            experience.experience_id = fresh::id(Namespace::Learn)?.into();
        }
        match (lived(&experience), teller) {
            (Ok((sample, seen)), _) => {
                checked.samples.push(sample);
                checked.seen.extend(seen);
            }
            (Err(why), Teller::Agent) => {
                return Err(violation(&format!("experiences[{index}]: {why}")));
            }
            // What an agent wrote beside one action must not cost it what came of the others.
            (Err(why), Teller::Environment) => {
                tracing::warn!(%why, "a step in an environment is not kept");
            }
        }
    }
    Ok(checked)
}

/// Returns when something was seen: a time ahead of the clock counts as now, since nothing that
/// comes before the latest decays.
fn seen_at(ts: Timestamp) -> f64 {
    let now = u64::try_from(fresh::now().0).unwrap_or_default();
    ts.unix_seconds().min(number(now) / 1000.0)
}

/// An experience as it is kept, and what is seen in it.
fn lived(experience: &Experience<'_>) -> Result<(Sample, Vec<Observed>), String> {
    let action: Action = experience
        .action
        .raw()
        .deserialize()
        .map_err(|error| error.to_string())?;
    let (names, tools) = action.names();
    if names.len() > MAX_COMPONENTS {
        return Err(format!(
            "`action` names more than {MAX_COMPONENTS} components"
        ));
    }
    for name in &names {
        check_name(name)?;
    }
    let seen = |is_tool| Seen {
        score: experience.reward.get(),
        at: seen_at(experience.ts),
        what: What::Lived {
            duration_ms: action.duration_ms.as_f64(),
            is_tool,
        },
    };
    let (tools, others): (Vec<String>, Vec<String>) =
        names.into_iter().partition(|name| tools.contains(name));
    let sample = sample(SampleKind::Experience, experience)?;
    let mut observed = Vec::new();
    if !tools.is_empty() {
        observed.push(Observed {
            names: tools,
            seen: seen(true),
            is_whole: false,
        });
    }
    // One without any component still counts for the whole.
    observed.push(Observed {
        names: others,
        seen: seen(false),
        is_whole: true,
    });
    Ok((sample, observed))
}

impl Action {
    /// All that are named, each once, and those of them that are tools.
    fn names(&self) -> (Vec<String>, Vec<String>) {
        let list = |value: &Value| -> Vec<String> {
            let items = value.as_array().into_iter().flatten();
            let names = items.filter_map(|item| item.as_str().or_else(|| item["name"].as_str()));
            names.map(str::to_owned).collect()
        };
        let tools = list(&self.tools);
        let mut names: Vec<String> = Vec::new();
        let first = self.component_name.as_str().filter(|name| !name.is_empty());
        let all = first.map(str::to_owned).into_iter();
        for name in all.chain(list(&self.components)).chain(tools.clone()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        (names, tools)
    }
}

/// Feedback as it is kept: with an id, and from whom it really is.
fn feedback_of(
    mut feedback: Feedback<'static>,
    teller: Teller,
) -> Result<Feedback<'static>, Failure> {
    if feedback.feedback_id.is_empty() {
        feedback.feedback_id = format!("b_{}", fresh::id(Namespace::Learn)?).into();
    }
    match teller {
        Teller::Environment => feedback.source = FeedbackSource::Env,
        Teller::Agent if feedback.source == FeedbackSource::Env => {
            let text = "`source: env` is for the environments of the host; an agent's own feedback \
                        is `human` or `self`";
            let failure = Failure::new(ErrorCode::Unauthorized, Namespace::Learn, text);
            return Err(failure.because("source_env"));
        }
        Teller::Agent => {}
    }
    Ok(feedback)
}

fn check(feedback: &Feedback<'_>) -> Result<(), String> {
    let known = |name: &str, value: &str, is_known: bool| match is_known {
        true => Ok(()),
        false => {
            let value: String = value.chars().take(64).collect();
            Err(format!("`{name}` cannot be `{value}`"))
        }
    };
    let (polarity, dimension, source) = (&feedback.polarity, &feedback.dimension, &feedback.source);
    let is_polarity = !matches!(polarity, FeedbackPolarity::Other(_));
    known("polarity", polarity.as_str(), is_polarity)?;
    let is_dimension = !matches!(dimension, FeedbackDimension::Other(_));
    known("dimension", dimension.as_str(), is_dimension)?;
    let is_source = !matches!(source, FeedbackSource::Other(_));
    known("source", source.as_str(), is_source)?;
    if !(0.0..=1.0).contains(&feedback.confidence.get()) {
        return Err("`confidence` must be from 0 to 1".to_owned());
    }
    if *polarity == FeedbackPolarity::Corrective && feedback.correction.trim().is_empty() {
        return Err("`corrective` feedback needs a `correction`".to_owned());
    }
    let Some((start, end)) = feedback.correction_span else {
        return Ok(());
    };
    let Some(turn) = &feedback.rated_turn else {
        return Err("`correction_span` needs the `rated_turn` it is a part of".to_owned());
    };
    let length = i64::try_from(turn.response.chars().count()).unwrap_or(i64::MAX);
    match 0 <= start && start <= end && end <= length {
        true => Ok(()),
        false => Err(format!(
            "`correction_span` must lie within the {length} characters of the response"
        )),
    }
}

/// The component that a turn is of.
fn component_of(turn: Option<&RatedTurn<'_>>) -> String {
    let version = turn.and_then(|turn| turn.version.as_deref());
    let version = version.filter(|version| !version.is_empty());
    let model = turn.map(|turn| &*turn.model).filter(|it| !it.is_empty());
    version.or(model).unwrap_or("unknown").to_owned()
}

fn check_name(name: &str) -> Result<(), String> {
    if name.is_empty() || name.chars().any(char::is_control) {
        return Err("a component's name is empty or has control characters in it".to_owned());
    }
    match name.len() > MAX_COMPONENT_NAME {
        true => Err(format!(
            "a component's name has more than {MAX_COMPONENT_NAME} bytes"
        )),
        false => Ok(()),
    }
}

fn sample(kind: SampleKind, record: &impl Encode) -> Result<Sample, String> {
    let object = Object::from_record(record).map_err(|error| error.to_string())?;
    let body = object.raw().as_str().as_bytes().to_vec();
    match body.len() > MAX_SAMPLE {
        true => Err(format!(
            "it has {} bytes; it may have {MAX_SAMPLE}",
            body.len()
        )),
        false => Ok(Sample { kind, body }),
    }
}

fn at_most(count: usize, field: &str) -> Result<(), Failure> {
    match count > MAX_AT_ONCE {
        true => Err(violation(&format!(
            "`{field}` has {count} entries; send at most {MAX_AT_ONCE} at once"
        ))),
        false => Ok(()),
    }
}

fn violation(text: &str) -> Failure {
    Failure::new(ErrorCode::SchemaViolation, Namespace::Learn, text)
}
