//! MCP servers behind the host.

use std::borrow::Cow;

use crate::lenient::OrEmpty;
use crate::open_enum::open_enum;
use crate::record::record;
use crate::{Map, McpRequestId, Object, Real, ServerId, Timestamp};

open_enum! {
    /// How an MCP server is reached.
    McpTransport as "MCPTransport" {
        Stdio = "stdio",
        Sse = "sse",
        Ws = "ws",
        /// Streamable HTTP. Ours alone.
        Http = "http",
    }
}

open_enum! {
    /// How an MCP server is doing.
    McpServerStatus as "MCPServerStatus" {
        Connecting = "connecting",
        Ready = "ready",
        Error = "error",
        Disconnected = "disconnected",
    }
}

open_enum! {
    /// Which context a sampling request wants.
    McpIncludeContext as "MCPIncludeContext" {
        None = "none",
        ThisServer = "thisServer",
        AllServers = "allServers",
    }
}

open_enum! {
    /// Why a model stopped.
    McpStopReason as "MCPStopReason" {
        EndTurn = "endTurn",
        StopSequence = "stopSequence",
        MaxTokens = "maxTokens",
    }
}

open_enum! {
    /// Which of its two fields a content uses.
    McpContentType as "MCPContentType" {
        Text = "text",
        Blob = "blob",
    }
}

open_enum! {
    /// What an MCP server tells of.
    McpNotification as "MCPNotification" {
        ToolsListChanged = "notifications/tools/list_changed",
        ResourcesListChanged = "notifications/resources/list_changed",
        ResourcesUpdated = "notifications/resources/updated",
        PromptsListChanged = "notifications/prompts/list_changed",
        Progress = "notifications/progress",
        Message = "notifications/message",
    }
}

record! {
    /// How to reach an MCP server, and what of it to let through.
    McpServerConfig<'a> as "MCPServerConfig" {
        server_id: ServerId<'a> = (hex8),
        name: Cow<'a, str> = "",
        transport: McpTransport<'a> = "stdio",
        cmd: Vec<Cow<'a, str>> = [],
        cwd: Cow<'a, str> = "",
        env: Map<'a, Cow<'a, str>> = {},
        url: Cow<'a, str> = "",
        headers: Map<'a, Cow<'a, str>> = {},
        timeout: i64 = 300,
        auto_reconnect: bool = true,
        tool_allow_list: Vec<Cow<'a, str>> = [],
        resource_allow_list: Vec<Cow<'a, str>> = [],
    }
}

record! {
    /// An MCP server, as it is listed.
    McpServerInfo<'a> as "MCPServerInfo" {
        server_id: ServerId<'a>,
        name: Cow<'a, str>,
        transport: McpTransport<'a>,
        status: McpServerStatus<'a> = "disconnected",
        mcp_version: Cow<'a, str> = "",
        server_name: Cow<'a, str> = "",
        server_version: Cow<'a, str> = "",
        tools_count: i64 = 0,
        resources_count: i64 = 0,
        prompts_count: i64 = 0,
        last_ping_ms: Real = 0.0,
        error: Cow<'a, str> = "",
        connected_at: Timestamp = 0.0,
    }
}

record! {
    /// A resource of an MCP server.
    McpResource<'a> as "MCPResource" {
        uri: Cow<'a, str>,
        name: Cow<'a, str> = "",
        description: Cow<'a, str> = "",
        mime_type: Cow<'a, str> = "",
        server_id: ServerId<'a> = "",
        annotations: Object<'a> = {},
    }
}

record! {
    /// A part of a resource.
    McpResourceContent<'a> as "MCPResourceContent" {
        uri: Cow<'a, str>,
        mime_type: Cow<'a, str> = "text/plain",
        text: Cow<'a, str> = "",
        blob: Cow<'a, str> = "",
        kind as "type": McpContentType<'a> = "text",
    }
}

record! {
    /// A prompt of an MCP server.
    McpPrompt<'a> as "MCPPrompt" {
        name: Cow<'a, str>,
        description: Cow<'a, str> = "",
        server_id: ServerId<'a> = "",
        arguments: Vec<McpPromptArgument<'a>> = [],
    }
}

record! {
    /// One message of a prompt.
    McpPromptMessage<'a> as "MCPPromptMessage" {
        role: Cow<'a, str>,
        content: Object<'a>,
    }
}

record! {
    /// A folder that an MCP server may look into.
    McpRoot<'a> as "MCPRoot" {
        uri: Cow<'a, str>,
        name: Cow<'a, str> = "",
    }
}

record! {
    /// An argument of a prompt.
    McpPromptArgument<'a> as "MCPPromptArgument" {
        name: Cow<'a, str>,
        description: Cow<'a, str> = "",
        required: bool = false,
    }
}

record! {
    /// Connects an MCP server.
    McpServerRegisterRequest<'a> {
        config: McpServerConfig<'a> = {},
    }
}

record! {
    /// Answers [`McpServerRegisterRequest`].
    McpServerRegisterResponse<'a> {
        ok: bool = false,
        server: OrEmpty<McpServerInfo<'a>> = {},
        error: Cow<'a, str> = "",
    }
}

record! {
    /// Asks which MCP servers there are.
    McpServerListRequest<'a> {
        status_filter: McpServerStatus<'a> = "",
    }
}

record! {
    /// Answers [`McpServerListRequest`].
    McpServerListResponse<'a> {
        servers: Vec<McpServerInfo<'a>> = [],
    }
}

record! {
    /// Disconnects an MCP server.
    McpServerUnregisterRequest<'a> {
        server_id: ServerId<'a> = "",
    }
}

record! {
    /// Answers [`McpServerUnregisterRequest`].
    McpServerUnregisterResponse<'a> {
        ok: bool = false,
        server_id: ServerId<'a> = "",
    }
}

record! {
    /// A notification of an MCP server.
    McpServerPush<'a> {
        server_id: ServerId<'a> = "",
        method: McpNotification<'a> = "",
        params: Object<'a> = {},
    }
}

record! {
    /// Asks which resources there are.
    McpResourceListRequest<'a> {
        server_id: ServerId<'a> = "",
        cursor: Cow<'a, str> = "",
    }
}

record! {
    /// Answers [`McpResourceListRequest`].
    McpResourceListResponse<'a> {
        resources: Vec<McpResource<'a>> = [],
        next_cursor: Cow<'a, str> = "",
    }
}

record! {
    /// Reads a resource.
    McpResourceReadRequest<'a> {
        uri: Cow<'a, str> = "",
        server_id: ServerId<'a> = "",
    }
}

record! {
    /// Answers [`McpResourceReadRequest`].
    McpResourceReadResponse<'a> {
        contents: Vec<McpResourceContent<'a>> = [],
        server_id: ServerId<'a> = "",
        error: Cow<'a, str> = "",
    }
}

record! {
    /// Asks to be told when a resource changes.
    McpResourceSubscribeRequest<'a> {
        uri: Cow<'a, str> = "",
        server_id: ServerId<'a> = "",
    }
}

record! {
    /// Answers [`McpResourceSubscribeRequest`].
    McpResourceSubscribeResponse<'a> {
        ok: bool = false,
        error: Cow<'a, str> = "",
    }
}

record! {
    /// Asks which prompts there are.
    McpPromptListRequest<'a> {
        server_id: ServerId<'a> = "",
        cursor: Cow<'a, str> = "",
    }
}

record! {
    /// Answers [`McpPromptListRequest`].
    McpPromptListResponse<'a> {
        prompts: Vec<McpPrompt<'a>> = [],
        next_cursor: Cow<'a, str> = "",
    }
}

record! {
    /// Asks for a prompt, filled in.
    McpPromptGetRequest<'a> {
        name: Cow<'a, str> = "",
        arguments: Object<'a> = {},
        server_id: ServerId<'a> = "",
    }
}

record! {
    /// Answers [`McpPromptGetRequest`].
    McpPromptGetResponse<'a> {
        description: Cow<'a, str> = "",
        messages: Vec<McpPromptMessage<'a>> = [],
        server_id: ServerId<'a> = "",
        error: Cow<'a, str> = "",
    }
}

record! {
    /// Asks the agent's model for a completion, on behalf of an MCP server.
    McpSampleRequest<'a> {
        server_id: ServerId<'a> = "",
        mcp_request_id: McpRequestId<'a> = "",
        messages: Vec<McpPromptMessage<'a>> = [],
        model_preferences: Object<'a> = {},
        system_prompt: Cow<'a, str> = "",
        include_context: McpIncludeContext<'a> = "none",
        temperature: Real = 1.0,
        max_tokens: i64 = 1024,
        stop_sequences: Vec<Cow<'a, str>> = [],
        metadata: Object<'a> = {},
    }
}

record! {
    /// Answers [`McpSampleRequest`].
    McpSampleResponse<'a> {
        server_id: ServerId<'a> = "",
        mcp_request_id: McpRequestId<'a> = "",
        role: Cow<'a, str> = "assistant",
        content: Object<'a> = {},
        model: Cow<'a, str> = "",
        stop_reason: McpStopReason<'a> = "",
        error: Cow<'a, str> = "",
    }
}

record! {
    /// Asks which folders an MCP server may look into.
    McpRootListRequest<'a> {
        server_id: ServerId<'a> = "",
        mcp_request_id: McpRequestId<'a> = "",
    }
}

record! {
    /// Answers [`McpRootListRequest`].
    McpRootListResponse<'a> {
        server_id: ServerId<'a> = "",
        mcp_request_id: McpRequestId<'a> = "",
        roots: Vec<McpRoot<'a>> = [],
    }
}
