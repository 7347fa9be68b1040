//! Which requests of a session wait for earlier ones: those that touch the same state.

use a2e_wire::{Body, Namespace};

/// The state of a session that a request touches.
#[derive(Debug)]
pub(crate) struct Touches {
    namespace: Namespace,
    /// The plans, components, episodes or processes; empty for all of them.
    names: Vec<String>,
    access: Access,
}

/// Names of a request that are compared with those of others; one that names more touches all.
const MAX_NAMES: usize = 64;

/// What a request does with that state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    /// It waits for all earlier requests that change or read it.
    Changes,
    /// It waits for earlier requests that change it.
    Reads,
    /// The same, but nothing waits for this one: it reads the state when it starts, and may then run for
    /// long.
    ReadsAtStart,
}

impl Touches {
    /// What a request touches that others may touch too. The rest of the requests are independent.
    pub(crate) fn of(body: &Body<'_>) -> Option<Self> {
        use Access::{Changes, Reads, ReadsAtStart};
        use Namespace::{Env, Learn, Memory, Planning, Proc, Toolkit};
        #[expect(
            clippy::wildcard_enum_match_arm,
            reason = "a test walks all requests and names those that are not here"
        )]
        let (namespace, name, access) = match body {
            Body::MemoryInitRequest(_)
            | Body::MemoryStoreRequest(_)
            | Body::MemoryForgetRequest(_) => (Memory, "", Changes),
            Body::MemoryRetrieveRequest(_) => (Memory, "", Reads),
            Body::PlanCreateRequest(_) => (Planning, "", Changes),
            Body::TaskAddRequest(add) => (Planning, add.plan_id.as_str(), Changes),
            Body::TaskUpdateRequest(update) => (Planning, update.plan_id.as_str(), Changes),
            Body::PlanRemoveRequest(remove) => (Planning, remove.plan_id.as_str(), Changes),
            Body::PlanListRequest(_) => (Planning, "", Reads),
            Body::TaskListRequest(list) => (Planning, list.plan_id.as_str(), Reads),
            Body::PlanBoardRequest(board) => (Planning, board.plan_id.as_str(), Reads),
            // They name no component, or only those of their edits.
            Body::LearnFeedbackRequest(_)
            | Body::LearnExperienceRequest(_)
            | Body::LearnRefinementApplyRequest(_)
            | Body::LearnRefinementRollbackRequest(_) => (Learn, "", Changes),
            Body::LearnRefinementReviewRequest(_)
            | Body::LearnRefinementHistoryRequest(_)
            | Body::LearnSamplesRequest(_) => (Learn, "", Reads),
            Body::LearnAdaptRequest(adapt) => (Learn, &*adapt.component_name, Changes),
            Body::LearnStatsRequest(stats) => (Learn, &*stats.component_name, Reads),
            Body::LearnRefinementPlanRequest(plan) => (Learn, &*plan.component_name, Reads),
            Body::EnvStepRequest(step) => (Env, step.episode_id.as_str(), Changes),
            Body::EnvCloseRequest(close) => (Env, close.episode_id.as_str(), Changes),
            Body::EnvObserveRequest(observe) => (Env, observe.episode_id.as_str(), Reads),
            Body::EnvRenderRequest(render) => (Env, render.episode_id.as_str(), Reads),
            Body::EnvExpListRequest(list) => (Env, list.episode_id.as_str(), Reads),
            Body::EnvPlanRequest(plan) => {
                let episode = plan.episode_id.as_ref();
                (Env, episode.map_or("", |id| id.as_str()), Reads)
            }
            Body::EnvBatchStepRequest(batch) => {
                let episodes = batch.episode_ids.iter();
                let names = match batch.episode_ids.len() > MAX_NAMES {
                    true => Vec::new(),
                    false => episodes.map(|id| id.as_str().to_owned()).collect(),
                };
                return Some(Self {
                    namespace: Env,
                    names,
                    access: Changes,
                });
            }
            Body::ProcWriteRequest(write) => (Proc, write.proc_id.as_str(), Changes),
            // A call does not say which toolkit its tool is of.
            Body::ToolkitConfigureRequest(_) => (Toolkit, "", Changes),
            Body::ToolkitListRequest(_) | Body::ToolListRequest(_) | Body::ToolCallRequest(_) => {
                (Toolkit, "", ReadsAtStart)
            }
            _ => return None,
        };
        let name = (!name.is_empty()).then(|| name.to_owned());
        Some(Self {
            namespace,
            names: name.into_iter().collect(),
            access,
        })
    }

    /// Whether this request must wait until an earlier one has its response.
    pub(crate) fn waits_for(&self, earlier: &Self) -> bool {
        let collides = match (self.access, earlier.access) {
            (_, Access::Changes) | (Access::Changes, Access::Reads) => true,
            (Access::Reads | Access::ReadsAtStart, Access::Reads) | (_, Access::ReadsAtStart) => {
                false
            }
        };
        let is_same = |name: &String| earlier.names.contains(name);
        collides
            && self.namespace == earlier.namespace
            && (self.names.is_empty() || earlier.names.is_empty() || self.names.iter().any(is_same))
    }
}

#[cfg(test)]
mod tests {
    use a2e_wire::{Decoder, MessageKind, Sender, Tag, Timestamp};
    use serde_json::json;

    use super::*;

    fn touches(message: &serde_json::Value) -> Touches {
        let line = message.to_string();
        let now = Timestamp::default();
        let message = Decoder::default().decode(line.as_bytes(), Sender::Agent, now);
        Touches::of(&message.unwrap().body).unwrap()
    }

    /// Which of them a later request waits for.
    fn waits(later: serde_json::Value, earlier: &[serde_json::Value]) -> Vec<bool> {
        let later = touches(&later);
        let earlier = earlier.iter().map(touches);
        earlier.map(|earlier| later.waits_for(&earlier)).collect()
    }

    #[test]
    fn plans_episodes_and_processes_are_independent_of_others() {
        let add = |plan: &str| json!({"type": "planning/task/add", "plan_id": plan, "title": "t"});
        let board = |plan: &str| json!({"type": "planning/plan/board", "plan_id": plan});
        assert_eq!(
            waits(add("a"), &[add("a"), add("b"), board("a")]),
            [true, false, true]
        );
        assert_eq!(waits(board(""), &[add("a"), board("a")]), [true, false]);

        let step = |id: &str| json!({"type": "env/step/req", "episode_id": id, "action": {}});
        let batch = |ids: &[&str]| {
            let actions = vec![json!({}); ids.len()];
            json!({"type": "env/batch_step/req", "episode_ids": ids, "actions": actions})
        };
        assert_eq!(
            waits(step("a"), &[batch(&["b", "a"]), batch(&["b", "c"])]),
            [true, false]
        );
        assert_eq!(
            waits(batch(&["b", "c"]), &[step("a"), step("c")]),
            [false, true]
        );

        let write = |id: &str| json!({"type": "proc/write/req", "proc_id": id, "data": "x"});
        assert_eq!(waits(write("a"), &[write("a"), write("b")]), [true, false]);
    }

    #[test]
    fn batch_of_many_episodes_touches_all() {
        let step = json!({"type": "env/step/req", "episode_id": "other", "action": {}});
        let batch = |count: usize| {
            let ids: Vec<_> = (0..count).map(|number| number.to_string()).collect();
            let actions = vec![json!({}); count];
            json!({"type": "env/batch_step/req", "episode_ids": ids, "actions": actions})
        };
        let batches = [batch(MAX_NAMES), batch(MAX_NAMES + 1)];
        assert_eq!(waits(step.clone(), &batches), [false, true]);
        let [fewer, more] = batches;
        assert_eq!(waits(fewer, std::slice::from_ref(&step)), [false]);
        assert_eq!(waits(more, &[step]), [true]);
    }

    #[test]
    fn components_of_learning_are_independent_of_others() {
        let adapt = |name: &str| json!({"type": "learn/adapt/req", "component_name": name});
        let stats = |name: &str| json!({"type": "learn/stats/req", "component_name": name});
        let feedback = json!({"type": "learn/feedback/req", "feedbacks": []});
        assert_eq!(
            waits(
                stats("a"),
                &[
                    adapt("a"),
                    adapt("b"),
                    adapt(""),
                    feedback.clone(),
                    stats("a")
                ]
            ),
            [true, false, true, true, false]
        );
        assert_eq!(waits(feedback, &[stats("a")]), [true]);
    }

    #[test]
    fn a_toolkit_is_configured_while_its_tools_run() {
        let configure = json!({"type": "toolkit/configure/req", "toolkit_name": "k", "config": {}});
        let call = json!({"type": "tool/call/req", "tool_name": "t", "arguments": {}});
        assert_eq!(
            waits(call.clone(), &[configure.clone(), call.clone()]),
            [true, false]
        );
        assert_eq!(waits(configure.clone(), &[call, configure]), [false, true]);
    }

    /// A request of the catalogue is ordered, or is listed here as independent.
    #[test]
    fn every_request_is_ordered_or_independent() {
        let independent = |tag: Tag| {
            matches!(
                tag.namespace(),
                Namespace::Base
                    | Namespace::Skill
                    | Namespace::Chain
                    | Namespace::Mcp
                    | Namespace::Subagent
                    | Namespace::MultiAgent
                    | Namespace::Policy
            ) || matches!(
                tag,
                Tag::EnvResetRequest
                    | Tag::EnvSpaceRequest
                    | Tag::EnvListRequest
                    | Tag::ProcSpawnRequest
                    | Tag::ProcKillRequest
                    | Tag::ProcStatusRequest
                    | Tag::ProcResizeRequest
            )
        };
        let names = json!({"plan_id": "", "task_id": "", "title": "", "episode_id": "", "action": {},
            "episode_ids": [], "actions": [], "proc_id": "", "toolkit_name": "", "config": {},
            "tool_name": "", "arguments": {}, "feedbacks": [], "kind": "feedback", "data": ""});
        let requests = Tag::ALL.iter().copied().filter(|tag| {
            tag.kind() == MessageKind::Request
                && tag.may_be_sent_by(Sender::Agent)
                && !independent(*tag)
        });
        for tag in requests {
            let mut message = names.clone();
            message["type"] = json!(tag.as_str());
            let _ = touches(&message);
        }
    }
}
