//! What a sub-agent may ask about sub-agents: for its own, as itself.

use a2e_wire::{Body, Object};
use serde_json::{Map, Value, json};

use super::work::Work;

impl Work {
    /// A request as this sub-agent may make it: about its own sub-agents, and as itself.
    pub(super) fn own(&self, body: Body<'static>) -> Result<Body<'static>, &'static str> {
        let Self { tree, sub, .. } = self;
        let below = tree.below(&sub.id);
        let check = |id: &str| match below.iter().any(|known| known.id == id) {
            true => Ok(()),
            false => Err("that is no sub-agent of this one"),
        };
        #[expect(
            clippy::wildcard_enum_match_arm,
            reason = "nothing else names a sub-agent"
        )]
        match &body {
            Body::MultiAgentDelegateRequest(it) => check(it.subagent_id.as_str())?,
            Body::MultiAgentAwaitRequest(it) => check(it.subagent_id.as_str())?,
            Body::MultiAgentTerminateRequest(it) => check(it.subagent_id.as_str())?,
            Body::SubagentDelegateRequest(it) => check(it.subagent_id.as_str())?,
            Body::SubagentAwaitRequest(it) => check(it.subagent_id.as_str())?,
            Body::SubagentCancelRequest(it) => check(it.subagent_id.as_str())?,
            Body::SubagentTerminateRequest(it) => check(it.subagent_id.as_str())?,
            Body::SubagentMergeRequest(it) => {
                it.subagent_ids
                    .iter()
                    .try_for_each(|id| check(id.as_str()))?;
            }
            _ => {}
        }
        #[expect(clippy::wildcard_enum_match_arm, reason = "the rest stays as it is")]
        Ok(match body {
            Body::MultiAgentSpawnRequest(mut spawn) => {
                let metadata = spawn.metadata.raw().deserialize();
                let mut metadata: Map<String, Value> = metadata.unwrap_or_default();
                metadata.insert(super::PARENT.to_owned(), json!(sub.id));
                spawn.metadata = Object::from_serialize(&metadata).unwrap_or_default();
                spawn.into()
            }
            Body::SubagentSpawnRequest(mut spawn) => {
                spawn.parent_agent_id = Some(sub.id.clone().into());
                spawn.into()
            }
            Body::SubagentMessageRequest(mut message) => {
                message.from_subagent_id = sub.id.clone().into();
                message.into()
            }
            body => body,
        })
    }
}
