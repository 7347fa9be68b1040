//! `planning/plan/remove`, a type of our own: a plan goes, and its tasks with it.

use std::sync::Arc;

use a2e_runtime::{BoxFuture, Context, Failure, Outcome, Plugin, Serves};
use a2e_wire::{Body, Capability, ErrorCode, Message, Namespace, Raw, Unknown};
use serde::Deserialize;
use serde_json::json;

use super::{Shelf, failed};

/// The plugin; it goes with [`Planning`](super::Planning).
#[derive(Debug, Clone)]
pub struct Removal(Arc<Shelf>);

const REQUEST: &str = "planning/plan/remove";
const RESPONSE: &str = "planning/plan/remove/resp";

#[derive(Deserialize)]
struct Wanted {
    plan_id: String,
}

impl Removal {
    pub(super) const fn new(shelf: Arc<Shelf>) -> Self {
        Self(shelf)
    }
}

impl Plugin for Removal {
    fn name(&self) -> &str {
        "planning_removal"
    }

    fn capability(&self) -> Option<Capability<'static>> {
        None
    }

    fn serves(&self) -> Serves {
        Serves::Types(vec![REQUEST.to_owned()])
    }

    fn handle(
        &self,
        request: Message<'static>,
        context: Context,
    ) -> BoxFuture<'_, Result<Outcome, Failure>> {
        Box::pin(async move {
            let Body::Unknown(unknown) = &request.body else {
                return Ok(Outcome::Pass);
            };
            let wrong = |why: String| {
                let text = format!("`{REQUEST}` needs `plan_id`: {why}");
                Failure::new(ErrorCode::SchemaViolation, Namespace::Planning, text)
            };
            let wanted: Result<Wanted, _> = unknown.raw.deserialize();
            let wanted = wanted.map_err(|error| wrong(error.to_string()))?;
            let plans = self.0.desk(&context)?.plans;
            let was_there = plans.remove(&wanted.plan_id).await.map_err(failed)?;
            let answer = json!({
                "type": RESPONSE,
                "req_id": request.envelope.id.as_str(),
                "plan_id": wanted.plan_id,
                "success": was_there,
                "error": if was_there { "" } else { "there is no such plan" },
            });
            let raw = Raw::from_serialize(&answer).map_err(|error| wrong(error.to_string()))?;
            Ok(Outcome::answer(Body::Unknown(Unknown {
                type_name: RESPONSE.into(),
                raw,
            })))
        })
    }
}
