//! `policy/permitted/req`: which requests an agent may send.
//!
//! It is for programs that offer requests as something else, as the MCP server offers them as tools.

use a2e_runtime::{BoxFuture, Context, Failure, Outcome, Plugin, Serves};
use a2e_wire::messages::policy::PolicyPermittedResponse;
use a2e_wire::{Body, Capability, ErrorCode, Message, Namespace, Tag};

/// The plugin.
#[derive(Debug, Clone, Copy)]
pub struct PermissionsPlugin;

/// How many types one request may ask about.
pub const MAX_TYPES: usize = 256;

impl Plugin for PermissionsPlugin {
    fn name(&self) -> &str {
        "permissions"
    }

    fn capability(&self) -> Option<Capability<'static>> {
        None
    }

    fn serves(&self) -> Serves {
        Serves::Tags(vec![Tag::PolicyPermittedRequest])
    }

    fn handle(
        &self,
        request: Box<Message<'static>>,
        context: Context,
    ) -> BoxFuture<'_, Result<Outcome, Failure>> {
        Box::pin(async move {
            let Body::PolicyPermittedRequest(request) = request.body else {
                return Ok(Outcome::Pass);
            };
            let mut types = request.types;
            if types.len() > MAX_TYPES {
                let text = format!("`types` has more than {MAX_TYPES}; ask in several requests");
                let code = ErrorCode::SchemaViolation;
                return Err(Failure::new(code, Namespace::Policy, text));
            }
            types.retain(|name| context.session().may_send_type(name));
            Ok(Outcome::answer(PolicyPermittedResponse { types }))
        })
    }
}
