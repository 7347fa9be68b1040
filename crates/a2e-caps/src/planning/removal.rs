//! `planning/plan/remove`, a type of our own: a plan goes, and its tasks with it.

use std::sync::Arc;

use a2e_runtime::{Context, Failure, Plugin};
use a2e_wire::Namespace;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Shelf, failed};
use crate::own_type::{OwnType, fields, own_type};

/// The plugin; it goes with [`Planning`](super::Planning).
#[derive(Debug, Clone)]
pub struct Removal(Arc<Shelf>);

/// Which plan.
#[derive(Debug, Deserialize)]
pub(crate) struct Wanted {
    plan_id: String,
}

impl Removal {
    pub(super) const fn new(shelf: Arc<Shelf>) -> Self {
        Self(shelf)
    }
}

impl OwnType for Removal {
    const NAME: &'static str = "planning_removal";
    const REQUEST: &'static str = "planning/plan/remove";
    const RESPONSE: &'static str = "planning/plan/remove/resp";
    const NAMESPACE: Namespace = Namespace::Planning;
    const NEEDS: &'static str = "`plan_id`";
    type Wanted = Wanted;

    async fn answer(
        &self,
        wanted: Wanted,
        context: &Context,
    ) -> Result<Map<String, Value>, Failure> {
        let plans = self.0.desk(context.session())?.plans;
        let was_there = plans.remove(&wanted.plan_id).await.map_err(failed)?;
        let error = if was_there {
            ""
        } else {
            "there is no such plan"
        };
        Ok(fields! {"plan_id": wanted.plan_id, "success": was_there, "error": error})
    }
}

impl Plugin for Removal {
    own_type!();
}
