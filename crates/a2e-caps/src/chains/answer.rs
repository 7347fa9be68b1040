//! What is said of a chain: to its agent, and to whoever asks later.

use std::borrow::Cow;
use std::collections::BTreeMap;

use a2e_wire::messages::chain::{ChainError, ChainEvent, ChainPhase, ChainResponse};
use a2e_wire::{ChainId, ErrorCode, Object, Raw};
use serde_json::{Value, json};
use store::ChainState;

use super::machine::{Ended, Event, Phase};
use super::plan::Problems;
use super::run::{Run, Told};

/// Why a chain ended before its last node.
#[derive(Debug)]
pub(super) struct Broken {
    code: ErrorCode<'static>,
    text: String,
}

/// The code of a chain that nobody wants any more.
const CANCELLED: &str = "cancelled";

impl Broken {
    pub(super) const fn new(code: ErrorCode<'static>, text: String) -> Self {
        Self { code, text }
    }

    /// A call broke off.
    pub(super) fn off() -> Self {
        let text = "a node broke off; the operator finds the reason in the log";
        Self::new(ErrorCode::ChainError, text.to_owned())
    }

    pub(super) fn cancelled() -> Self {
        let code = ErrorCode::Other(CANCELLED.into());
        Self::new(code, "the chain was cancelled".to_owned())
    }

    /// It was open when the backup was made that the node was restored from.
    pub(super) fn interrupted() -> Self {
        let text = "the node was restored from a backup that has this chain half done: it may have \
                    gone on since, so it does not go on here; `chain/show/req` has what is known";
        Self::new(ErrorCode::ChainError, text.to_owned())
    }

    /// What it has done could not be kept, so that it must not go on.
    pub(super) fn not_kept(error: store::Error) -> Self {
        let text = format!("the chain cannot be kept, so it does not run: {error}");
        Self::new(ErrorCode::ChainError, text)
    }
}

impl Run {
    pub(super) fn refused(&self, problems: &Problems) -> ChainResponse<'static> {
        let broken = Broken::new(problems.code(), problems.to_string());
        ChainResponse {
            chain_id: self.chain_id(),
            duration_ms: self.took(),
            error: Some(broken.into()),
            ..ChainResponse::new()
        }
    }

    pub(super) fn response(&self, ended: Ended, broken: Option<Broken>) -> ChainResponse<'static> {
        let nodes_run = i64::try_from(ended.outputs.len()).unwrap_or(i64::MAX);
        let aborted = ended
            .aborted
            .map(|text| Broken::new(ErrorCode::ChainNodeError, text));
        let error = aborted.or(broken);
        // Written as they are: they may be large, and others still have them.
        let outputs = ended.outputs.iter();
        let outputs: BTreeMap<&str, &Value> = outputs
            .map(|(id, output)| (id.as_str(), &**output))
            .collect();
        ChainResponse {
            chain_id: self.chain_id(),
            success: ended.success && error.is_none(),
            outputs: Object::from_serialize(&outputs).unwrap_or_default(),
            final_output: raw(&ended.last),
            duration_ms: self.took(),
            nodes_run,
            error: error.map(ChainError::from),
        }
    }

    /// How it ended, as it is kept.
    pub(super) fn outcome(&self, response: &ChainResponse<'_>, told: &Told) -> (ChainState, Value) {
        let is_cancelled = response
            .error
            .as_ref()
            .is_some_and(|it| it.code == CANCELLED);
        let state = match (response.success, is_cancelled) {
            (true, _) => ChainState::Done,
            (false, true) => ChainState::Cancelled,
            (false, false) => ChainState::Failed,
        };
        let outcome = json!({"response": as_json(response), "failed": told.failed});
        (state, outcome)
    }

    fn chain_id(&self) -> ChainId<'static> {
        self.request.chain_id.clone()
    }

    fn took(&self) -> i64 {
        i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX)
    }
}

impl From<Broken> for ChainError<'static> {
    fn from(broken: Broken) -> Self {
        Self {
            code: broken.code.as_str().to_owned().into(),
            message: broken.text.into(),
        }
    }
}

/// A response, for those who are answered in other words.
pub(super) fn as_json(response: &ChainResponse<'_>) -> Value {
    let value = |raw: &Raw<'_>| raw.deserialize::<Value>().unwrap_or_default();
    let error = response.error.as_ref();
    json!({
        "chain_id": response.chain_id.as_str(),
        "success": response.success,
        "outputs": value(response.outputs.raw()),
        "final_output": value(&response.final_output),
        "duration_ms": response.duration_ms,
        "nodes_run": response.nodes_run,
        "error": error.map(|error| json!({"code": error.code, "message": error.message})),
    })
}

pub(super) fn told(event: Event) -> ChainEvent<'static> {
    let (phase, output, error) = match event.phase {
        Phase::Start => (ChainPhase::Start, None, Cow::Borrowed("")),
        Phase::Done(output) => (ChainPhase::Done, Some(raw(&output)), Cow::Borrowed("")),
        Phase::Error(error) => (ChainPhase::Error, None, Cow::Owned(error)),
        Phase::Skip => (ChainPhase::Skip, None, Cow::Borrowed("")),
    };
    let data = event
        .item
        .map(|item| Object::from_serialize(&json!({"item": item})));
    let empty = ChainEvent::new();
    ChainEvent {
        phase,
        output: output.unwrap_or_else(|| empty.output.clone()),
        error,
        data: data.and_then(Result::ok).unwrap_or_default(),
        ..empty
    }
}

/// A value as the wire has it; one that is too deep for it is null.
fn raw(value: &Value) -> Raw<'static> {
    Raw::from_serialize(value).unwrap_or_else(|error| {
        tracing::warn!(%error, "a result of a chain cannot be sent");
        ChainResponse::new().final_output
    })
}
