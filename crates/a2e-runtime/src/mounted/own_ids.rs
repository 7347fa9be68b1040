//! Ids of a remote host's session inside its responses, where an agent knows only those of its own.

use a2e_wire::{Body, Envelope, MessageId};

/// Lets messages inside a response name the request of our agent. Their numbers in the session with the
/// host mean nothing to it.
pub(super) fn replace(response: &mut Body<'static>, request: &MessageId<'static>) {
    let replace = |envelope: &mut Envelope<'static>| {
        envelope.req_id = request.clone();
        envelope.eid = None;
    };
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "no other response has messages inside"
    )]
    match response {
        Body::ToolCallResponse(response) => {
            let events = response.data.events.iter_mut();
            events.for_each(|event| replace(&mut event.envelope));
        }
        Body::SkillCallResponse(response) => {
            let events = response
                .data
                .iter_mut()
                .flat_map(|result| &mut result.events);
            events.for_each(|event| replace(&mut event.envelope));
        }
        Body::EnvBatchStepResponse(response) => {
            let results = response.results.iter_mut();
            results.for_each(|result| replace(&mut result.envelope));
        }
        _ => {}
    }
}
