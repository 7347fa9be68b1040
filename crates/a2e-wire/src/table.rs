//! The table of all messages. [`Namespace`], [`Tag`] and [`Body`] follow from it.
//!
//! A line has the body's type (with a lifetime if that has one), the `type` on the wire, who sends
//! it, what it is, `->` the type of its response, and `also` the other spellings that are taken. A
//! spelling may stand for two messages if only one of them may be sent by the side it comes from:
//! `env/plan/resp` from an agent is a request, because real agents send it so.
//!
//! `shutdown` is a `Notice` here and an event in the catalogue: it belongs to no request.

use crate::declare::messages;
use crate::message::{
    Direction, Message, MessageKind, Of, Payload, Request, Spoken, Unknown, encode,
};
use crate::messages::{
    base::*, chain::*, env::*, learn::*, mcp::*, memory::*, multi_agent::*, planning::*, policy::*,
    proc::*, skill::*, subagent::*, tool::*, toolkit::*,
};
use crate::record::{Shape, Shaped};
use crate::wire::{Encode, FromMembers, MemberSource, ToStatic, Writer};
use crate::{Capability, Invalid};

messages! {
    /// Every session: handshake, liveness, end, errors, events.
    Base = "base" {
        HandshakeRequest<'a> = "handshake/req" AgentToHost Request -> HandshakeResponse;
        HandshakeResponse<'a> = "handshake/resp" HostToAgent Response;
        Error<'a> = "error" Both Response;
        Ping = "ping" AgentToHost Request -> Pong;
        Pong = "pong" HostToAgent Response;
        Shutdown = "shutdown" AgentToHost Notice;
        Event<'a> = "invoke/event" HostToAgent Event;
    }
    /// Tools: what there is to call, and calling it.
    Tool = "tool" for Tools {
        ToolListRequest<'a> = "tool/list/req" AgentToHost Request -> ToolListResponse;
        ToolListResponse<'a> = "tool/list/resp" HostToAgent Response;
        ToolCallRequest<'a> = "tool/call/req" AgentToHost Request -> ToolCallResponse;
        ToolEvent<'a> = "tool/event" HostToAgent Event;
        ToolCallResponse<'a> = "tool/call/resp" HostToAgent Response;
    }
    /// Toolkits: bundles of tools that need configuration.
    Toolkit = "toolkit" for Toolkits {
        ToolkitListRequest<'a> = "toolkit/list/req" AgentToHost Request -> ToolkitListResponse;
        ToolkitListResponse<'a> = "toolkit/list/resp" HostToAgent Response;
        ToolkitConfigureRequest<'a> = "toolkit/configure/req" AgentToHost Request -> ToolkitConfigureResponse
            also "toolkit/configure";
        ToolkitConfigureResponse<'a> = "toolkit/configure/resp" HostToAgent Response;
    }
    /// Skills: prepared instructions, with the tools they need.
    Skill = "skill" for Skill {
        SkillDiscoverRequest<'a> = "skill/discover/req" AgentToHost Request -> SkillDiscoverResponse
            also "skill/list" "skill/list/req";
        SkillDiscoverResponse<'a> = "skill/discover/resp" HostToAgent Response;
        SkillCallRequest<'a> = "skill/call/req" AgentToHost Request -> SkillCallResponse;
        SkillEvent<'a> = "skill/event" HostToAgent Event;
        SkillCallResponse<'a> = "skill/call/resp" HostToAgent Response;
    }
    /// Memory: three tiers of keyed entries.
    Memory = "memory" for Memory {
        MemoryInitRequest<'a> = "memory/init/req" AgentToHost Request -> MemoryInitResponse;
        MemoryInitResponse<'a> = "memory/init/resp" HostToAgent Response;
        MemoryStoreRequest<'a> = "memory/store/req" AgentToHost Request -> MemoryStoreResponse;
        MemoryStoreResponse<'a> = "memory/store/resp" HostToAgent Response;
        MemoryRetrieveRequest<'a> = "memory/retrieve/req" AgentToHost Request -> MemoryRetrieveResponse
            also "memory/recall" "memory/recall/req" "memory/search" "memory/search/req";
        MemoryRetrieveResponse<'a> = "memory/retrieve/resp" HostToAgent Response;
        MemoryForgetRequest<'a> = "memory/forget/req" AgentToHost Request -> MemoryForgetResponse;
        MemoryForgetResponse = "memory/forget/resp" HostToAgent Response;
    }
    /// Environments: episodes that are reset, stepped and observed.
    Env = "env" for Env {
        EnvResetRequest<'a> = "env/reset/req" AgentToHost Request -> EnvResetResponse;
        EnvResetResponse<'a> = "env/reset/resp" HostToAgent Response;
        EnvStatePush<'a> = "env/state_push" HostToAgent Push also "env/state/push";
        EnvStepRequest<'a> = "env/step/req" AgentToHost Request -> EnvStepResponse;
        EnvStepResponse<'a> = "env/step/resp" HostToAgent Response;
        EnvObserveRequest<'a> = "env/observe/req" AgentToHost Request -> EnvObserveResponse;
        EnvObserveResponse<'a> = "env/observe/resp" HostToAgent Response;
        EnvCloseRequest<'a> = "env/close/req" AgentToHost Request -> EnvCloseResponse;
        EnvCloseResponse = "env/close/resp" HostToAgent Response;
        EnvSpaceRequest<'a> = "env/space/req" AgentToHost Request -> EnvSpaceResponse
            also "env/spaces/req";
        EnvSpaceResponse<'a> = "env/space/resp" HostToAgent Response also "env/spaces/resp";
        EnvRenderRequest<'a> = "env/render/req" AgentToHost Request -> EnvRenderResponse;
        EnvRenderResponse<'a> = "env/render/resp" HostToAgent Response;
        EnvPlanRequest<'a> = "env/plan/req" AgentToHost Request -> EnvPlanResponse
            also "env/plan/resp";
        EnvPlanResponse<'a> = "env/plan/resp" HostToAgent Response;
        EnvBatchStepRequest<'a> = "env/batch_step/req" AgentToHost Request -> EnvBatchStepResponse;
        EnvBatchStepResponse<'a> = "env/batch_step/resp" HostToAgent Response;
        EnvExpListRequest<'a> = "env/exp/list/req" AgentToHost Request -> EnvExpListResponse;
        EnvExpListResponse<'a> = "env/exp/list/resp" HostToAgent Response;
        EnvListRequest = "env/list/req" AgentToHost Request -> EnvListResponse;
        EnvListResponse<'a> = "env/list/resp" HostToAgent Response;
    }
    /// Processes: spawn, write, read, kill.
    Proc = "proc" for Proc {
        ProcSpawnRequest<'a> = "proc/spawn/req" AgentToHost Request -> ProcSpawnResponse;
        ProcSpawnResponse<'a> = "proc/spawn/resp" HostToAgent Response;
        ProcWriteRequest<'a> = "proc/write/req" AgentToHost Request -> ProcWriteResponse;
        ProcWriteResponse<'a> = "proc/write/resp" HostToAgent Response;
        ProcReadEvent<'a> = "proc/read/event" HostToAgent Event;
        ProcKillRequest<'a> = "proc/kill/req" AgentToHost Request -> ProcKillResponse
            also "proc/signal" "proc/signal/req";
        ProcKillResponse<'a> = "proc/kill/resp" HostToAgent Response;
        ProcStatusRequest<'a> = "proc/status/req" AgentToHost Request -> ProcStatusResponse;
        ProcStatusResponse<'a> = "proc/status/resp" HostToAgent Response;
        ProcResizeRequest<'a> = "proc/resize/req" AgentToHost Request -> ProcResizeResponse;
        ProcResizeResponse<'a> = "proc/resize/resp" HostToAgent Response;
    }
    /// Learning: feedback, experience, and refinements that follow from them.
    Learn = "learn" for Learning {
        LearnFeedbackRequest<'a> = "learn/feedback/req" AgentToHost Request -> LearnFeedbackResponse;
        LearnFeedbackResponse = "learn/feedback/resp" HostToAgent Response;
        LearnExperienceRequest<'a> = "learn/experience/req" AgentToHost Request -> LearnExperienceResponse;
        LearnExperienceResponse = "learn/experience/resp" HostToAgent Response;
        LearnAdaptRequest<'a> = "learn/adapt/req" AgentToHost Request -> LearnAdaptResponse;
        LearnAdaptResponse<'a> = "learn/adapt/resp" HostToAgent Response;
        LearnStatsRequest<'a> = "learn/stats/req" AgentToHost Request -> LearnStatsResponse;
        LearnStatsResponse<'a> = "learn/stats/resp" HostToAgent Response;
        LearnRefinementPlanRequest<'a> = "learn/refinement/plan/req" AgentToHost Request -> LearnRefinementPlanResponse;
        LearnRefinementPlanResponse<'a> = "learn/refinement/plan/resp" HostToAgent Response;
        LearnRefinementApplyRequest<'a> = "learn/refinement/apply/req" AgentToHost Request -> LearnRefinementApplyResponse;
        LearnRefinementApplyResponse<'a> = "learn/refinement/apply/resp" HostToAgent Response;
        LearnRefinementRollbackRequest<'a> = "learn/refinement/rollback/req" AgentToHost Request -> LearnRefinementRollbackResponse;
        LearnRefinementRollbackResponse<'a> = "learn/refinement/rollback/resp" HostToAgent Response;
        LearnRefinementReviewRequest<'a> = "learn/refinement/review/req" AgentToHost Request -> LearnRefinementReviewResponse;
        LearnRefinementReviewResponse<'a> = "learn/refinement/review/resp" HostToAgent Response;
        LearnRefinementHistoryRequest = "learn/refinement/history/req" AgentToHost Request -> LearnRefinementHistoryResponse;
        LearnRefinementHistoryResponse<'a> = "learn/refinement/history/resp" HostToAgent Response;
        LearnSamplesRequest<'a> = "learn/samples/req" AgentToHost Request -> LearnSamplesResponse;
        LearnSamplesResponse<'a> = "learn/samples/resp" HostToAgent Response;
    }
    /// Chains: nodes that run one after another, or as a graph.
    Chain = "chain" for Chains {
        ChainRequest<'a> = "chain/req" AgentToHost Request -> ChainResponse
            also "chain/execute" "chain/execute/req";
        ChainEvent<'a> = "chain/event" HostToAgent Event;
        ChainResponse<'a> = "chain/resp" HostToAgent Response;
        ChainListRequest = "chain/list/req" AgentToHost Request -> ChainListResponse;
        ChainListResponse<'a> = "chain/list/resp" HostToAgent Response;
        ChainShowRequest = "chain/show/req" AgentToHost Request -> ChainShowResponse;
        ChainShowResponse<'a> = "chain/show/resp" HostToAgent Response;
        ChainResumeRequest = "chain/resume/req" AgentToHost Request -> ChainResumeResponse;
        ChainResumeResponse<'a> = "chain/resume/resp" HostToAgent Response;
        ChainCancelRequest = "chain/cancel/req" AgentToHost Request -> ChainCancelResponse;
        ChainCancelResponse<'a> = "chain/cancel/resp" HostToAgent Response;
    }
    /// MCP servers behind the host.
    Mcp = "mcp" for Mcp {
        McpServerRegisterRequest<'a> = "mcp/server/register/req" AgentToHost Request -> McpServerRegisterResponse;
        McpServerRegisterResponse<'a> = "mcp/server/register/resp" HostToAgent Response;
        McpServerListRequest<'a> = "mcp/server/list/req" AgentToHost Request -> McpServerListResponse;
        McpServerListResponse<'a> = "mcp/server/list/resp" HostToAgent Response;
        McpServerUnregisterRequest<'a> = "mcp/server/unregister/req" AgentToHost Request -> McpServerUnregisterResponse;
        McpServerUnregisterResponse<'a> = "mcp/server/unregister/resp" HostToAgent Response;
        McpServerPush<'a> = "mcp/server/push" HostToAgent Push;
        McpResourceListRequest<'a> = "mcp/resource/list/req" AgentToHost Request -> McpResourceListResponse;
        McpResourceListResponse<'a> = "mcp/resource/list/resp" HostToAgent Response;
        McpResourceReadRequest<'a> = "mcp/resource/read/req" AgentToHost Request -> McpResourceReadResponse;
        McpResourceReadResponse<'a> = "mcp/resource/read/resp" HostToAgent Response;
        McpResourceSubscribeRequest<'a> = "mcp/resource/subscribe/req" AgentToHost Request -> McpResourceSubscribeResponse;
        McpResourceSubscribeResponse<'a> = "mcp/resource/subscribe/resp" HostToAgent Response;
        McpPromptListRequest<'a> = "mcp/prompt/list/req" AgentToHost Request -> McpPromptListResponse;
        McpPromptListResponse<'a> = "mcp/prompt/list/resp" HostToAgent Response;
        McpPromptGetRequest<'a> = "mcp/prompt/get/req" AgentToHost Request -> McpPromptGetResponse;
        McpPromptGetResponse<'a> = "mcp/prompt/get/resp" HostToAgent Response;
        McpSampleRequest<'a> = "mcp/sample/req" HostToAgent Request -> McpSampleResponse
            also "mcp/sampling/req";
        McpSampleResponse<'a> = "mcp/sample/resp" AgentToHost Response
            also "mcp/sample/req" "mcp/sampling/resp";
        McpRootListRequest<'a> = "mcp/root/list/req" Both Request -> McpRootListResponse
            also "mcp/roots/list/req";
        McpRootListResponse<'a> = "mcp/root/list/resp" Both Response also "mcp/roots/list/resp";
    }
    /// Sub-agents, in the older vocabulary.
    Subagent = "subagent" for MultiAgent {
        SubagentSpawnRequest<'a> = "SUBAGENT_SPAWN_REQ" AgentToHost Request -> SubagentSpawnResponse;
        SubagentSpawnResponse<'a> = "SUBAGENT_SPAWN_RESP" HostToAgent Response;
        SubagentDelegateRequest<'a> = "SUBAGENT_DELEGATE_REQ" AgentToHost Request -> SubagentDelegateResponse;
        SubagentDelegateResponse<'a> = "SUBAGENT_DELEGATE_RESP" HostToAgent Response;
        SubagentAwaitRequest<'a> = "SUBAGENT_AWAIT_REQ" AgentToHost Request -> SubagentAwaitResponse;
        SubagentAwaitResponse<'a> = "SUBAGENT_AWAIT_RESP" HostToAgent Response;
        SubagentMessageRequest<'a> = "SUBAGENT_MESSAGE_REQ" AgentToHost Request -> SubagentMessageResponse;
        SubagentMessageResponse = "SUBAGENT_MESSAGE_RESP" HostToAgent Response;
        SubagentListRequest = "SUBAGENT_LIST_REQ" AgentToHost Request -> SubagentListResponse;
        SubagentListResponse<'a> = "SUBAGENT_LIST_RESP" HostToAgent Response;
        SubagentCancelRequest<'a> = "SUBAGENT_CANCEL_REQ" AgentToHost Request -> SubagentCancelResponse;
        SubagentCancelResponse<'a> = "SUBAGENT_CANCEL_RESP" HostToAgent Response;
        SubagentTerminateRequest<'a> = "SUBAGENT_TERMINATE_REQ" AgentToHost Request -> SubagentTerminateResponse;
        SubagentTerminateResponse<'a> = "SUBAGENT_TERMINATE_RESP" HostToAgent Response;
        SubagentMergeRequest<'a> = "SUBAGENT_MERGE_REQ" AgentToHost Request -> SubagentMergeResponse;
        SubagentMergeResponse<'a> = "SUBAGENT_MERGE_RESP" HostToAgent Response;
        SubagentEvent<'a> = "SUBAGENT_EVENT" HostToAgent Push;
    }
    /// Sub-agents, in the newer vocabulary.
    MultiAgent = "multi_agent" for MultiAgent {
        MultiAgentSpawnRequest<'a> = "multi_agent/spawn" AgentToHost Request -> MultiAgentSpawnResponse
            also "multi_agent/spawn/req";
        MultiAgentDelegateRequest<'a> = "multi_agent/delegate" AgentToHost Request -> MultiAgentDelegateResponse
            also "multi_agent/delegate/req";
        MultiAgentAwaitRequest<'a> = "multi_agent/await" AgentToHost Request -> MultiAgentAwaitResponse
            also "multi_agent/await/req";
        MultiAgentListRequest = "multi_agent/list" AgentToHost Request -> MultiAgentListResponse
            also "multi_agent/list/req";
        MultiAgentTerminateRequest<'a> = "multi_agent/terminate" AgentToHost Request -> MultiAgentTerminateResponse
            also "multi_agent/terminate/req";
        MultiAgentSpawnResponse<'a> = "multi_agent/spawn/resp" HostToAgent Response;
        MultiAgentDelegateResponse<'a> = "multi_agent/delegate/resp" HostToAgent Response;
        MultiAgentAwaitResponse<'a> = "multi_agent/await/resp" HostToAgent Response;
        MultiAgentListResponse<'a> = "multi_agent/list/resp" HostToAgent Response;
        MultiAgentTerminateResponse<'a> = "multi_agent/terminate/resp" HostToAgent Response;
        MultiAgentResultRequest<'a> = "multi_agent/result" AgentToHost Request -> MultiAgentResultResponse;
        MultiAgentResultResponse = "multi_agent/result/resp" HostToAgent Response;
        MultiAgentMessagesRequest = "multi_agent/messages" AgentToHost Request -> MultiAgentMessagesResponse;
        MultiAgentMessagesResponse<'a> = "multi_agent/messages/resp" HostToAgent Response;
    }
    /// Plans: tasks in columns.
    Planning = "planning" for Planning {
        PlanCreateRequest<'a> = "planning/plan/create" AgentToHost Request -> PlanCreateResponse
            also "planning/plan/create/req";
        PlanListRequest = "planning/plan/list" AgentToHost Request -> PlanListResponse
            also "planning/plan/list/req";
        TaskAddRequest<'a> = "planning/task/add" AgentToHost Request -> TaskAddResponse
            also "planning/task/add/req";
        TaskUpdateRequest<'a> = "planning/task/update" AgentToHost Request -> TaskUpdateResponse
            also "planning/task/update/req";
        TaskListRequest<'a> = "planning/task/list" AgentToHost Request -> TaskListResponse
            also "planning/task/list/req";
        PlanBoardRequest<'a> = "planning/plan/board" AgentToHost Request -> PlanBoardResponse
            also "planning/plan/board/req";
        PlanCreateResponse<'a> = "planning/plan/create/resp" HostToAgent Response;
        PlanListResponse<'a> = "planning/plan/list/resp" HostToAgent Response;
        TaskAddResponse<'a> = "planning/task/add/resp" HostToAgent Response;
        TaskUpdateResponse<'a> = "planning/task/update/resp" HostToAgent Response;
        TaskListResponse<'a> = "planning/task/list/resp" HostToAgent Response;
        PlanBoardResponse<'a> = "planning/plan/board/resp" HostToAgent Response;
        PlanRemoveRequest<'a> = "planning/plan/remove" AgentToHost Request -> PlanRemoveResponse
            also "planning/plan/remove/req";
        PlanRemoveResponse<'a> = "planning/plan/remove/resp" HostToAgent Response;
    }
    /// Policy: what the agent may do.
    Policy = "policy" {
        PolicyPermittedRequest<'a> = "policy/permitted/req" AgentToHost Request -> PolicyPermittedResponse;
        PolicyPermittedResponse<'a> = "policy/permitted/resp" HostToAgent Response;
    }
}
