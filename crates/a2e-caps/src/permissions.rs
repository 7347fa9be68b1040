//! `policy/permitted/req`, a type of our own: which requests an agent may send.
//!
//! It is for programs that offer requests as something else, as the MCP server offers them as tools.

use a2e_runtime::{
    Context, CustomMessage, CustomRequest, Failure, PERMITTED_REQUEST, PERMITTED_RESPONSE, Plugin,
};
use a2e_wire::{ErrorCode, Namespace};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::own_type::{OwnType, fields, own_type};

/// The plugin.
#[derive(Debug, Clone, Copy)]
pub struct PermissionsPlugin;

/// Asks which of these types of requests the agent may send.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PermittedRequest {
    /// The types, at most [`MAX_TYPES`].
    pub types: Vec<String>,
}

/// Answers [`PermittedRequest`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PermittedResponse {
    /// Those of them that are allowed, or wait for the operator's approval.
    pub types: Vec<String>,
}

/// How many types one request may ask about.
pub const MAX_TYPES: usize = 256;

impl CustomMessage for PermittedRequest {
    const TYPE: &'static str = PERMITTED_REQUEST;
}

impl CustomRequest for PermittedRequest {
    type Response = PermittedResponse;
}

impl CustomMessage for PermittedResponse {
    const TYPE: &'static str = PERMITTED_RESPONSE;
}

impl OwnType for PermissionsPlugin {
    const NAME: &'static str = "permissions";
    const REQUEST: &'static str = PERMITTED_REQUEST;
    const RESPONSE: &'static str = PERMITTED_RESPONSE;
    const NAMESPACE: Namespace = Namespace::Base;
    const NEEDS: &'static str = "`types`, a list of types of requests";
    type Wanted = PermittedRequest;

    async fn answer(
        &self,
        wanted: PermittedRequest,
        context: &Context,
    ) -> Result<Map<String, Value>, Failure> {
        let mut types = wanted.types;
        if types.len() > MAX_TYPES {
            let text = format!("`types` has more than {MAX_TYPES}; ask in several requests");
            return Err(Failure::new(
                ErrorCode::SchemaViolation,
                Namespace::Base,
                text,
            ));
        }
        types.retain(|name| context.session().may_send_type(name));
        Ok(fields! {"types": types})
    }
}

impl Plugin for PermissionsPlugin {
    own_type!();
}
