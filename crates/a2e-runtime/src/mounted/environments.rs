//! Which environments a mounted host has: asked once, when it is mounted, and told to everybody.
//!
//! `env/list` is a type of our own, so a host may well not know it; its environments can be used all
//! the same, by who knows their names.

use std::time::Duration;

use a2e_session::Failure;
use a2e_wire::{Body, ErrorCode, Message, Namespace, Raw, Unknown};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::client::{CallOptions, Client};
use crate::plugin::Outcome;
use crate::registry::{ENV_LIST_REQUEST, ENV_LIST_RESPONSE};

/// How long a host may take to list them.
const PATIENCE: Duration = Duration::from_secs(10);

/// The environments of a host, each as it describes it.
#[derive(Debug, Deserialize)]
pub(super) struct Environments {
    environments: Vec<Value>,
}

impl Environments {
    /// Those of a host, if it lists them.
    pub(super) async fn of(client: &Client) -> Option<Self> {
        let request = Body::Unknown(Unknown {
            type_name: ENV_LIST_REQUEST.into(),
            raw: Raw::EMPTY_OBJECT,
        });
        let options = CallOptions {
            timeout: PATIENCE,
            ..CallOptions::default()
        };
        let answer = client.rpc(request, options).await.ok()?;
        let Body::Unknown(list) = answer.body else {
            return None;
        };
        let list = (list.type_name == ENV_LIST_RESPONSE).then_some(list)?;
        list.raw.deserialize().ok()
    }

    /// The answer to whoever asks for them.
    pub(super) fn answer(&self, request: &Message<'_>) -> Result<Outcome, Failure> {
        let answer = json!({
            "type": ENV_LIST_RESPONSE,
            "req_id": request.envelope.id.as_str(),
            "environments": self.environments,
        });
        let raw = Raw::from_serialize(&answer).map_err(|error| {
            Failure::new(ErrorCode::RuntimeError, Namespace::Env, error.to_string())
        })?;
        Ok(Outcome::answer(Body::Unknown(Unknown {
            type_name: ENV_LIST_RESPONSE.into(),
            raw,
        })))
    }
}
