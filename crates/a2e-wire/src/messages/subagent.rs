//! Sub-agents, in the older vocabulary.

use std::borrow::Cow;

use strict_json::Raw;

use crate::open_enum::open_enum;
use crate::record::record;
use crate::{AgentId, Object, SessionId, SubagentId};

open_enum! {
    /// How a sub-agent is doing.
    SubagentStatus {
        Ready = "READY",
        Running = "RUNNING",
        Waiting = "WAITING",
        Completed = "COMPLETED",
        Failed = "FAILED",
        Cancelled = "CANCELLED",
        Terminated = "TERMINATED",
    }
}

open_enum! {
    /// Whose memory a sub-agent has.
    MemoryScope {
        Shared = "shared",
        Isolated = "isolated",
        Snapshot = "snapshot",
    }
}

open_enum! {
    /// Whose tools a sub-agent has.
    ToolScope {
        Shared = "shared",
        Restricted = "restricted",
        Isolated = "isolated",
    }
}

open_enum! {
    /// How results become one.
    MergeStrategy {
        HierarchicalSummary = "hierarchical_summary",
        Voting = "voting",
        Custom = "custom",
    }
}

record! {
    /// Where something came from.
    SourceRef<'a> {
        session_id: Option<SessionId<'a>> = null,
        trajectory_id: Option<Cow<'a, str>> = null,
        turn_id: Option<Cow<'a, str>> = null,
    }
}

record! {
    /// What a sub-agent is to be.
    SubagentConfig<'a> {
        name: Cow<'a, str>,
        role: Option<Cow<'a, str>> = null,
        model: Cow<'a, str>,
        system_prompt: Option<Cow<'a, str>> = null,
        capabilities: Vec<Cow<'a, str>> = [],
        memory_scope: MemoryScope<'a> = "shared",
        tool_scope: ToolScope<'a> = "restricted",
        max_steps: i64 = 40,
        timeout_seconds: i64 = 600,
        metadata: Object<'a> = {},
    }
}

record! {
    /// What a sub-agent is to do.
    TaskDefinition<'a> {
        name: Cow<'a, str>,
        instruction: Cow<'a, str>,
        success_criteria: Vec<Cow<'a, str>> = [],
        metadata: Object<'a> = {},
    }
}

record! {
    /// A sub-agent, as it is listed.
    SubagentInfo<'a> {
        subagent_id: SubagentId<'a>,
        name: Cow<'a, str>,
        status: SubagentStatus<'a>,
        parent_agent_id: Option<AgentId<'a>> = null,
        root_agent_id: Option<AgentId<'a>> = null,
        depth: i64 = 0,
        config: SubagentConfig<'a>,
    }
}

record! {
    /// What one sub-agent tells another.
    SubagentMessagePayload<'a> {
        kind as "type": Cow<'a, str>,
        content: Raw<'a>,
    }
}

record! {
    /// Makes a sub-agent.
    SubagentSpawnRequest<'a> {
        agent: SubagentConfig<'a>,
        parent_agent_id: Option<AgentId<'a>> = null,
        root_agent_id: Option<AgentId<'a>> = null,
    }
}

record! {
    /// Answers [`SubagentSpawnRequest`].
    SubagentSpawnResponse<'a> {
        subagent_id: SubagentId<'a>,
        status: SubagentStatus<'a>,
    }
}

record! {
    /// Gives a sub-agent a task.
    SubagentDelegateRequest<'a> {
        subagent_id: SubagentId<'a>,
        task: TaskDefinition<'a>,
    }
}

record! {
    /// Answers [`SubagentDelegateRequest`].
    SubagentDelegateResponse<'a> {
        accepted: bool = true,
        status: SubagentStatus<'a>,
    }
}

record! {
    /// Waits for a sub-agent to end its task.
    SubagentAwaitRequest<'a> {
        subagent_id: SubagentId<'a>,
    }
}

record! {
    /// Answers [`SubagentAwaitRequest`].
    SubagentAwaitResponse<'a> {
        subagent_id: SubagentId<'a>,
        status: SubagentStatus<'a>,
        result: Option<Object<'a>> = null,
        error: Option<Cow<'a, str>> = null,
    }
}

record! {
    /// Sends a message from one sub-agent to another.
    SubagentMessageRequest<'a> {
        from_subagent_id: SubagentId<'a>,
        to_subagent_id: SubagentId<'a>,
        message: SubagentMessagePayload<'a>,
    }
}

record! {
    /// Answers [`SubagentMessageRequest`].
    SubagentMessageResponse {
        delivered: bool = true,
    }
}

record! {
    /// Asks which sub-agents there are.
    SubagentListRequest {
    }
}

record! {
    /// Answers [`SubagentListRequest`].
    SubagentListResponse<'a> {
        subagents: Vec<SubagentInfo<'a>>,
    }
}

record! {
    /// Cancels a sub-agent's task.
    SubagentCancelRequest<'a> {
        subagent_id: SubagentId<'a>,
    }
}

record! {
    /// Answers [`SubagentCancelRequest`]: whether a task was cancelled. Ours alone.
    SubagentCancelResponse<'a> {
        success: bool = false,
        subagent_id: SubagentId<'a> = "",
    }
}

record! {
    /// Ends a sub-agent.
    SubagentTerminateRequest<'a> {
        subagent_id: SubagentId<'a>,
    }
}

record! {
    /// Answers [`SubagentTerminateRequest`]: whether the sub-agent was there. Ours alone.
    SubagentTerminateResponse<'a> {
        success: bool = false,
        subagent_id: SubagentId<'a> = "",
    }
}

record! {
    /// Makes one result of several.
    SubagentMergeRequest<'a> {
        subagent_ids: Vec<SubagentId<'a>>,
        strategy: MergeStrategy<'a> = "hierarchical_summary",
    }
}

record! {
    /// Answers [`SubagentMergeRequest`].
    SubagentMergeResponse<'a> {
        merged_result: Object<'a>,
    }
}

record! {
    /// Something happened to a sub-agent.
    SubagentEvent<'a> {
        subagent_id: SubagentId<'a>,
        event: Cow<'a, str>,
        content: Object<'a> = {},
    }
}
