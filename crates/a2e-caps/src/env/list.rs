//! `env/list/req`, a type of our own: which environments there are.

use std::sync::Arc;

use a2e_runtime::{Context, Failure, Plugin};
use a2e_wire::Namespace;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use super::environment::Environment;
use crate::own_type::{OwnType, fields, own_type};

/// The plugin; it goes with [`Environments`](super::Environments).
#[derive(Debug)]
pub struct List {
    environments: Vec<Arc<dyn Environment>>,
}

impl List {
    /// A plugin that lists these.
    #[must_use]
    pub const fn new(environments: Vec<Arc<dyn Environment>>) -> Self {
        Self { environments }
    }
}

impl OwnType for List {
    const NAME: &'static str = "env_list";
    const REQUEST: &'static str = "env/list/req";
    const RESPONSE: &'static str = "env/list/resp";
    const NAMESPACE: Namespace = Namespace::Env;
    const NEEDS: &'static str = "nothing";
    type Wanted = IgnoredAny;

    async fn answer(&self, _: IgnoredAny, _: &Context) -> Result<Map<String, Value>, Failure> {
        let environments: Vec<Value> = self.environments.iter().map(listed).collect();
        Ok(fields! {"environments": environments})
    }
}

impl Plugin for List {
    own_type!();
}

fn listed(environment: &Arc<dyn Environment>) -> Value {
    json!({
        "name": environment.name(),
        "description": environment.description(),
        "max_steps": environment.max_steps(),
    })
}
