//! What agents are told when something cannot be done.

use a2e_runtime::Failure;
use a2e_wire::{EpisodeId, ErrorCode, Namespace};

use super::environment::EnvError;

/// A request that would fail again.
fn failure(code: ErrorCode<'static>, reason: &'static str, text: String) -> Failure {
    let mut failure = Failure::new(code, Namespace::Env, text).because(reason);
    failure.retryable = false;
    failure
}

pub(super) fn unknown_episode(id: &EpisodeId<'_>) -> Failure {
    let text = format!(
        "there is no episode `{}` in this session: it was never begun, or it was closed; \
         env/reset/req begins one",
        shown(id.as_str())
    );
    failure(ErrorCode::RuntimeError, "unknown_episode", text)
}

pub(super) fn finished(id: &EpisodeId<'_>) -> Failure {
    let text = format!(
        "the episode `{}` is over; env/reset/req begins another",
        shown(id.as_str())
    );
    failure(ErrorCode::RuntimeError, "episode_over", text)
}

pub(super) fn session_ended() -> Failure {
    let text = "the session ended while the episode was opened; begin one in the session that you have now";
    failure(ErrorCode::RuntimeError, "session_ended", text.to_owned())
}

pub(super) fn all_busy(most: usize) -> Failure {
    let text = format!(
        "this session has {most} episodes, as many as it may, and a step is under way in each; \
         close one with env/close/req"
    );
    let mut failure = failure(ErrorCode::RuntimeError, "episode_limit", text);
    failure.retryable = true;
    failure
}

pub(super) fn wrong(text: impl Into<String>) -> Failure {
    failure(ErrorCode::SchemaViolation, "not_taken", text.into())
}

pub(super) fn failed(text: impl Into<String>) -> Failure {
    failure(ErrorCode::RuntimeError, "environment_failed", text.into())
}

impl From<EnvError> for Failure {
    fn from(error: EnvError) -> Self {
        match error {
            EnvError::Wrong(text) => wrong(text),
            EnvError::Failed(text) => failed(text),
        }
    }
}

/// As much of what a peer wrote as may be quoted.
fn shown(text: &str) -> String {
    text.chars().take(64).collect()
}
