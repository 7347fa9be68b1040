//! `env/list/req`, a type of our own: which environments there are.

use std::sync::Arc;

use a2e_runtime::{BoxFuture, Context, Failure, Outcome, Plugin, Serves};
use a2e_wire::{Body, Capability, Message, Raw, Unknown};
use serde_json::{Value, json};

use super::environment::Environment;
use super::failures;

/// The plugin; it goes with [`Environments`](super::Environments).
#[derive(Debug)]
pub struct List {
    environments: Vec<Arc<dyn Environment>>,
}

const REQUEST: &str = "env/list/req";
const RESPONSE: &str = "env/list/resp";

impl List {
    /// A plugin that lists these.
    #[must_use]
    pub const fn new(environments: Vec<Arc<dyn Environment>>) -> Self {
        Self { environments }
    }
}

impl Plugin for List {
    fn name(&self) -> &str {
        "env_list"
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
        _context: Context,
    ) -> BoxFuture<'_, Result<Outcome, Failure>> {
        let environments = self.environments.iter().map(listed);
        let answer = json!({
            "type": RESPONSE,
            "req_id": request.envelope.id.as_str(),
            "environments": environments.collect::<Vec<_>>(),
        });
        let raw = Raw::from_serialize(&answer);
        Box::pin(std::future::ready(match raw {
            Ok(raw) => Ok(Outcome::answer(Body::Unknown(Unknown {
                type_name: RESPONSE.into(),
                raw,
            }))),
            Err(error) => Err(failures::failed(error.to_string())),
        }))
    }
}

fn listed(environment: &Arc<dyn Environment>) -> Value {
    json!({
        "name": environment.name(),
        "description": environment.description(),
        "max_steps": environment.max_steps(),
    })
}
