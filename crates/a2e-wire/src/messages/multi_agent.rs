//! Sub-agents, in the newer vocabulary.

use std::borrow::Cow;

use strict_json::Raw;

use crate::messages::subagent::SubagentStatus;
use crate::record::record;
use crate::{Object, SubagentId};

record! {
    /// Makes a sub-agent.
    MultiAgentSpawnRequest<'a> {
        name: Cow<'a, str>,
        role: Cow<'a, str> = "",
        model: Cow<'a, str> = "default",
        max_steps: i64 = 20,
        metadata: Object<'a> = {},
    }
}

record! {
    /// Gives a sub-agent a task.
    MultiAgentDelegateRequest<'a> {
        subagent_id: SubagentId<'a>,
        task_name: Cow<'a, str>,
        instruction: Cow<'a, str>,
        success_criteria: Vec<Cow<'a, str>> = [],
    }
}

record! {
    /// Waits for a sub-agent to end its task.
    MultiAgentAwaitRequest<'a> {
        subagent_id: SubagentId<'a>,
    }
}

record! {
    /// Asks which sub-agents there are.
    MultiAgentListRequest {
    }
}

record! {
    /// Ends a sub-agent.
    MultiAgentTerminateRequest<'a> {
        subagent_id: SubagentId<'a>,
    }
}

record! {
    /// Answers [`MultiAgentSpawnRequest`].
    MultiAgentSpawnResponse<'a> {
        subagent_id: SubagentId<'a> = "",
        status: SubagentStatus<'a> = "",
    }
}

record! {
    /// Answers [`MultiAgentDelegateRequest`].
    MultiAgentDelegateResponse<'a> {
        accepted: bool = true,
        status: SubagentStatus<'a> = "",
    }
}

record! {
    /// Answers [`MultiAgentAwaitRequest`].
    MultiAgentAwaitResponse<'a> {
        subagent_id: SubagentId<'a> = "",
        status: SubagentStatus<'a> = "",
        result: Option<Object<'a>> = null,
        error: Option<Cow<'a, str>> = null,
    }
}

record! {
    /// Answers [`MultiAgentListRequest`].
    MultiAgentListResponse<'a> {
        subagents: Vec<Object<'a>> = [],
    }
}

record! {
    /// Answers [`MultiAgentTerminateRequest`].
    MultiAgentTerminateResponse<'a> {
        success: bool = false,
        subagent_id: SubagentId<'a> = "",
    }
}

record! {
    /// Reports the result of a sub-agent's task; sent by the sub-agent. Ours alone.
    MultiAgentResultRequest<'a> {
        result: Object<'a>,
    }
}

record! {
    /// Answers [`MultiAgentResultRequest`].
    MultiAgentResultResponse {
        success: bool = false,
    }
}

record! {
    /// Takes the messages to a sub-agent; sent by the sub-agent. Ours alone.
    MultiAgentMessagesRequest {
    }
}

record! {
    /// Answers [`MultiAgentMessagesRequest`].
    MultiAgentMessagesResponse<'a> {
        messages: Vec<Raw<'a>> = [],
    }
}
