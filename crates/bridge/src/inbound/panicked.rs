//! A plugin that panics, for a peer.

use a2a_net::HandlerError;
use a2e_runtime::{BoxFuture, Context, Failure, Host, Identity, Outcome, Plugin, Serves};
use a2e_wire::messages::tool::ToolCallRequest;
use a2e_wire::{Capability, Message, Tag};
use policy::Retention;

use super::to_failed;

struct Panicking;

impl Plugin for Panicking {
    fn name(&self) -> &str {
        "panicking"
    }

    fn capability(&self) -> Option<Capability<'static>> {
        Some(Capability::Tools)
    }

    fn serves(&self) -> Serves {
        Serves::Tags(vec![Tag::ToolCallRequest])
    }

    fn handle(
        &self,
        _request: Box<Message<'static>>,
        _context: Context,
    ) -> BoxFuture<'_, Result<Outcome, Failure>> {
        Box::pin(async { panic!("as a plugin with a defect does") })
    }
}

/// docs/done-once.md: how far it came is not known, so a retry gets that it was interrupted.
#[tokio::test]
async fn plugin_that_panicked_was_interrupted() {
    let host = Host::builder().plugin(Panicking).build();
    let stand_in = host.stand_in_keeping(Identity::named("peer"), Retention::Permanent);
    let call = ToolCallRequest {
        tool_name: "pay".into(),
        ..ToolCallRequest::new()
    };
    let asked = stand_in.ask_once_allowed("r", call, None, || Ok(()));
    let failure = asked.await.unwrap_err();
    let failed = to_failed(&failure);
    assert!(matches!(failed, HandlerError::Interrupted(_)), "{failed:?}");
}
