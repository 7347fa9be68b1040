//! `env/exp/list`: what happened in the episodes of a session.

use std::sync::Arc;

use a2e_runtime::{Context, Failure, Outcome};
use a2e_wire::Object;
use a2e_wire::messages::env::{EnvExpListRequest, EnvExpListResponse};
use serde::Serialize;
use serde_json::Value;

use super::Episodes;
use super::episode::Episode;
use super::failures;
use super::table::Table;

/// How many episodes, or steps of one, are listed at most.
pub(super) const MAX_LISTED: usize = 1000;

#[derive(Serialize)]
struct Listed<'a> {
    episode_id: &'a str,
    env_name: &'a str,
    seed: i64,
    started_at: f64,
    steps: i64,
    total_reward: f64,
    done: bool,
    truncated: bool,
    open: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    experiences: Option<Vec<Value>>,
    /// Steps before those, which are no longer known.
    forgotten: u64,
}

/// The last episodes of a session in the order they began; or one of them with its last steps.
pub(super) async fn list(
    request: EnvExpListRequest<'static>,
    context: &Context,
) -> Result<Outcome, Failure> {
    let Ok(limit @ 1..=MAX_LISTED) = usize::try_from(request.limit) else {
        let text = format!("`limit` must be from 1 to {MAX_LISTED}");
        return Err(failures::wrong(text));
    };
    let mut all = match context.resolved::<Episodes>() {
        Some(decided) => decided.0.clone(),
        None => context.session().state::<Table>().all(),
    };
    let with_steps = !request.episode_id.is_empty();
    if with_steps {
        all.retain(|it| it.id == request.episode_id);
        if all.is_empty() {
            return Ok(Outcome::Pass);
        }
    }
    let from = all.len().saturating_sub(limit);
    let mut episodes = Vec::new();
    for episode in all.iter().skip(from) {
        episodes.push(listed(episode, with_steps.then_some(limit)).await?);
    }
    Ok(Outcome::answer(EnvExpListResponse { episodes }))
}

async fn listed(episode: &Arc<Episode>, steps: Option<usize>) -> Result<Object<'static>, Failure> {
    let running = episode.running().await;
    let history = &running.history;
    let experiences = steps.map(|limit| {
        let last = history.last(limit, &running.state);
        let told = last.map(|(step, after)| {
            let is_last = step.number == running.steps;
            serde_json::json!({
                "step": step.number,
                "state": value(&step.state),
                "action": value(&step.action),
                "reward": step.reward,
                "next_state": value(after),
                "done": is_last && running.done,
                "truncated": is_last && running.truncated,
            })
        });
        told.collect()
    });
    let listed = Listed {
        episode_id: episode.id.as_str(),
        env_name: episode.environment.name(),
        seed: episode.seed,
        started_at: episode.started.unix_seconds(),
        steps: running.steps,
        total_reward: history.total_reward,
        done: running.is_over(),
        truncated: running.truncated,
        open: running.world.is_some(),
        experiences,
        forgotten: history.forgotten,
    };
    Object::from_serialize(&listed).map_err(|error| failures::failed(error.to_string()))
}

fn value(object: &Object<'_>) -> Value {
    object.raw().deserialize().unwrap_or_default()
}
