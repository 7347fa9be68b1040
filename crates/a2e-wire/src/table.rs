//! The table of all messages, and what follows from it: [`Namespace`], [`Tag`], [`Body`].

use crate::message::{Direction, Message, MessageKind, Payload, Unknown, encode};
use crate::messages::{
    base::*, chain::*, env::*, learn::*, mcp::*, memory::*, multi_agent::*, planning::*, proc::*,
    skill::*, subagent::*, tool::*, toolkit::*,
};
use crate::record::{Shape, Shaped};
use crate::wire::{Encode, FromMembers, MemberSource, ToStatic, Writer};
use crate::{Capability, Invalid};

/// Declares all messages. A line has the body's type, the `type` on the wire, who sends it, what it
/// is, `->` the type of its response, and `also` the other spellings that are taken.
macro_rules! messages {
    ($(
        $(#[$namespace_meta:meta])*
        $namespace:ident = $prefix:literal $(for $capability:ident)? {
            $(
                $body:ident $(<$lt:lifetime>)? = $tag:literal $direction:ident $kind:ident
                $(-> $response:ident)? $(also $($alias:literal)*)?;
            )*
        }
    )*) => {
        /// A family of messages.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Namespace {
            $($(#[$namespace_meta])* $namespace,)*
        }

        impl Namespace {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$namespace),*];

            /// Its name in the catalogue.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$namespace => $prefix,)*
                }
            }

            /// The capability that must have been accepted for it.
            #[must_use]
            pub const fn capability(self) -> Option<Capability<'static>> {
                match self {
                    $(Self::$namespace => messages!(@capability $($capability)?),)*
                }
            }
        }

        /// The type of a message.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Tag {
            $($(
                #[doc = concat!("`", $tag, "`")]
                $body,
            )*)*
        }

        impl Tag {
            /// All of them, in the order of the table.
            pub const ALL: &'static [Self] = &[$($(Self::$body),*),*];

            /// The `type` on the wire.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $($(Self::$body => $tag,)*)*
                }
            }

            /// Other spellings that are taken for it.
            #[must_use]
            pub const fn aliases(self) -> &'static [&'static str] {
                match self {
                    $($(Self::$body => &[$($($alias),*)?],)*)*
                }
            }

            /// Who may send it.
            #[must_use]
            pub const fn direction(self) -> Direction {
                match self {
                    $($(Self::$body => Direction::$direction,)*)*
                }
            }

            /// What it is for.
            #[must_use]
            pub const fn kind(self) -> MessageKind {
                match self {
                    $($(Self::$body => MessageKind::$kind,)*)*
                }
            }

            /// The family it belongs to.
            #[must_use]
            pub const fn namespace(self) -> Namespace {
                match self {
                    $($(Self::$body => Namespace::$namespace,)*)*
                }
            }

            /// What answers it, if anything does.
            #[must_use]
            pub const fn response(self) -> Option<Self> {
                match self {
                    $($(Self::$body => messages!(@response $($response)?),)*)*
                }
            }

            /// Its own fields, without the envelope's.
            #[must_use]
            pub fn shape(self) -> Shape {
                match self {
                    $($(Self::$body => $body::shape(),)*)*
                }
            }

            /// The message of this exact spelling.
            pub(crate) fn canonical(text: &str) -> Option<Self> {
                match text {
                    $($($tag => Some(Self::$body),)*)*
                    _ => None,
                }
            }

            /// The message that is also taken under this spelling.
            pub(crate) fn aliased(text: &str) -> Option<Self> {
                match text {
                    $($($($($alias)|* => Some(Self::$body),)?)*)*
                    _ => None,
                }
            }
        }

        /// What a message says, by type.
        #[derive(Debug, Clone, PartialEq)]
        #[allow(missing_docs, reason = "each variant is documented at the type of that name")]
        pub enum Body<'a> {
            $($($body($body $(<$lt>)?),)*)*
            /// A message of a type that the catalogue does not have.
            Unknown(Unknown<'a>),
        }

        impl<'a> Body<'a> {
            /// Its type; `None` if unknown.
            #[must_use]
            pub const fn tag(&self) -> Option<Tag> {
                match self {
                    $($(Self::$body(_) => Some(Tag::$body),)*)*
                    Self::Unknown(_) => None,
                }
            }

            pub(crate) fn read<M: MemberSource<'a>>(
                tag: Tag,
                members: &mut M,
            ) -> Result<Self, Invalid> {
                match tag {
                    $($(Tag::$body => $body::from_members(members).map(Self::$body),)*)*
                }
            }
        }

        impl ToStatic for Body<'_> {
            type Static = Body<'static>;

            fn to_static(self) -> Self::Static {
                match self {
                    $($(Self::$body(body) => Body::$body(body.to_static()),)*)*
                    Self::Unknown(unknown) => Body::Unknown(Unknown {
                        type_name: unknown.type_name.to_static(),
                        raw: unknown.raw.into_owned(),
                    }),
                }
            }
        }

        impl Encode for Message<'_> {
            fn encode(&self, out: &mut Writer<'_>) {
                match &self.body {
                    $($(Body::$body(body) => encode(&self.envelope, body, out),)*)*
                    Body::Unknown(unknown) => out.checked(unknown.raw.checked()),
                }
            }
        }

        $($(
            impl $(<$lt>)? Payload for $body $(<$lt>)? {
                const TAG: Tag = Tag::$body;
            }

            impl<'a> From<$body $(<$lt>)?> for Body<'a> {
                fn from(body: $body $(<$lt>)?) -> Self {
                    Self::$body(body)
                }
            }
        )*)*
    };

    (@capability) => { None };
    (@capability $capability:ident) => { Some(Capability::$capability) };
    (@response) => { None };
    (@response $response:ident) => { Some(Self::$response) };
}

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
    }
    /// Chains: nodes that run one after another, or as a graph.
    Chain = "chain" for Chains {
        ChainRequest<'a> = "chain/req" AgentToHost Request -> ChainResponse
            also "chain/execute" "chain/execute/req";
        ChainEvent<'a> = "chain/event" HostToAgent Event;
        ChainResponse<'a> = "chain/resp" HostToAgent Response;
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
        SubagentCancelRequest<'a> = "SUBAGENT_CANCEL_REQ" AgentToHost Request;
        SubagentTerminateRequest<'a> = "SUBAGENT_TERMINATE_REQ" AgentToHost Request;
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
    }
}
