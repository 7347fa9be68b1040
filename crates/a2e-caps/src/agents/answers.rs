//! Both vocabularies, each answered in kind.

use a2e_runtime::{Context, Failure, Outcome};
use a2e_wire::Body;
use a2e_wire::messages::multi_agent::{
    MultiAgentAwaitResponse, MultiAgentDelegateResponse, MultiAgentListResponse,
    MultiAgentSpawnResponse, MultiAgentTerminateResponse,
};
use a2e_wire::messages::subagent::{
    SubagentAwaitResponse, SubagentCancelResponse, SubagentDelegateResponse, SubagentListResponse,
    SubagentMessageResponse, SubagentSpawnResponse, SubagentTerminateResponse,
};
use serde_json::json;

use super::work::Task;
use super::{Agents, cancel, object, tell, wish};

impl Agents {
    /// Answers `multi_agent/*`.
    pub(super) async fn newer(
        &self,
        body: Body<'static>,
        context: &Context,
    ) -> Result<Outcome, Failure> {
        #[expect(clippy::wildcard_enum_match_arm, reason = "nothing else is served")]
        Ok(match body {
            Body::MultiAgentSpawnRequest(request) => {
                let (parent, wish) = wish::newer(&request);
                let (id, status) = self.spawn(context, parent.as_deref(), wish).await?;
                Outcome::answer(MultiAgentSpawnResponse {
                    subagent_id: id.into(),
                    status,
                })
            }
            Body::MultiAgentDelegateRequest(request) => {
                let task = Task {
                    name: request.task_name.into_owned(),
                    instruction: request.instruction.into_owned(),
                    criteria: request
                        .success_criteria
                        .iter()
                        .map(ToString::to_string)
                        .collect(),
                };
                let id = request.subagent_id.as_str();
                let (accepted, status) = self.delegate(context, id, task).await;
                Outcome::answer(MultiAgentDelegateResponse { accepted, status })
            }
            Body::MultiAgentAwaitRequest(request) => {
                let state = Self::rest(context, request.subagent_id.as_str()).await;
                Outcome::answer(MultiAgentAwaitResponse {
                    subagent_id: request.subagent_id,
                    status: state.status,
                    result: state.result.as_ref().map(object),
                    error: state.error.map(Into::into),
                })
            }
            Body::MultiAgentListRequest(_) => {
                let all = Self::all(context.session());
                let subagents = all.iter().map(|sub| object(&wish::told(sub))).collect();
                Outcome::answer(MultiAgentListResponse { subagents })
            }
            Body::MultiAgentTerminateRequest(request) => {
                let success = Self::terminate(context, request.subagent_id.as_str()).await;
                Outcome::answer(MultiAgentTerminateResponse {
                    success,
                    subagent_id: request.subagent_id,
                })
            }
            _ => Outcome::Pass,
        })
    }

    /// Answers `SUBAGENT_*`.
    pub(super) async fn older(
        &self,
        body: Body<'static>,
        context: &Context,
    ) -> Result<Outcome, Failure> {
        #[expect(clippy::wildcard_enum_match_arm, reason = "nothing else is served")]
        Ok(match body {
            Body::SubagentSpawnRequest(request) => {
                let (parent, wish) = wish::older(&request);
                let (id, status) = self.spawn(context, parent.as_deref(), wish).await?;
                Outcome::answer(SubagentSpawnResponse::new(id.into(), status))
            }
            Body::SubagentDelegateRequest(request) => {
                let task = Task {
                    name: request.task.name.into_owned(),
                    instruction: request.task.instruction.into_owned(),
                    criteria: request
                        .task
                        .success_criteria
                        .iter()
                        .map(ToString::to_string)
                        .collect(),
                };
                let id = request.subagent_id.as_str();
                let (accepted, status) = self.delegate(context, id, task).await;
                Outcome::answer(SubagentDelegateResponse { accepted, status })
            }
            Body::SubagentAwaitRequest(request) => {
                let state = Self::rest(context, request.subagent_id.as_str()).await;
                Outcome::answer(SubagentAwaitResponse {
                    result: state.result.as_ref().map(object),
                    error: state.error.map(Into::into),
                    ..SubagentAwaitResponse::new(request.subagent_id, state.status)
                })
            }
            Body::SubagentListRequest(_) => {
                let all = Self::all(context.session());
                let agent = &context.identity().agent;
                let mut room = wish::MAX_LISTED_CONFIGS;
                let subagents = all.iter().map(|sub| wish::info(sub, agent, &mut room));
                let subagents = subagents.collect();
                Outcome::answer(SubagentListResponse { subagents })
            }
            Body::SubagentTerminateRequest(request) => {
                let success = Self::terminate(context, request.subagent_id.as_str()).await;
                Outcome::answer(SubagentTerminateResponse {
                    success,
                    subagent_id: request.subagent_id,
                })
            }
            Body::SubagentCancelRequest(request) => {
                let tree = Self::existing(context.session());
                let id = request.subagent_id.as_str();
                let mut success = false;
                for sub in tree.iter().flat_map(|tree| cancel(tree, id)) {
                    success |= sub.id == id;
                    tell(context.session(), &sub, "cancelled", json!({})).await;
                }
                Outcome::answer(SubagentCancelResponse {
                    success,
                    subagent_id: request.subagent_id,
                })
            }
            Body::SubagentMessageRequest(request) => {
                let delivered = Self::message(context, request).await;
                Outcome::answer(SubagentMessageResponse { delivered })
            }
            Body::SubagentMergeRequest(request) => {
                Outcome::answer(Self::merge(context, request).await)
            }
            _ => Outcome::Pass,
        })
    }
}
