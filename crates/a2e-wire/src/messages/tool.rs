//! Tools: what there is to call, and calling it.

use std::borrow::Cow;

use strict_json::Raw;

use crate::lenient::ParameterMap;
use crate::messages::base::EventKind;
use crate::open_enum::open_enum;
use crate::record::record;
use crate::{CorrelationId, Message, Object, SessionId, Timestamp};

open_enum! {
    /// The JSON type of a parameter.
    ToolParameterType {
        String = "string",
        Integer = "integer",
        Number = "number",
        Boolean = "boolean",
        Object = "object",
        Array = "array",
    }
}

record! {
    /// One parameter of a tool.
    ToolParameter<'a> {
        name: Cow<'a, str>,
        kind as "type": ToolParameterType<'a>,
        description: Cow<'a, str>,
        required: bool = false,
        values as "enum": Option<Vec<Cow<'a, str>>> = null,
        properties: Option<ParameterMap<'a>> = null,
    }
}

record! {
    /// A tool, as it is listed.
    ///
    /// `input_schema`, where it is given, says in full what `input_parameters` say in short.
    ToolDefinition<'a> {
        name: Cow<'a, str>,
        description: Cow<'a, str>,
        input_parameters: Vec<ToolParameter<'a>> = [],
        output_parameters: Vec<ToolParameter<'a>> = [],
        streaming: bool = true,
        idempotent: bool = false,
        tags: Vec<Cow<'a, str>> = [],
        version: Cow<'a, str> = "1.0.0",
        toolkit: Option<Cow<'a, str>> = null,
        defer_loading: bool = false,
    }
    sparse {
        input_schema: Object<'a>,
        source: Cow<'a, str>,
    }
}

record! {
    /// What a tool gave back.
    ToolResult<'a> {
        success: bool,
        tool_name: Cow<'a, str>,
        data: Option<Raw<'a>> = null,
        summary: Option<Raw<'a>> = null,
        truncated: Option<bool> = false,
        exit_code: Option<i64> = null,
        error: Option<Cow<'a, str>> = null,
        error_code: Option<Cow<'a, str>> = null,
        duration_ms: i64,
        events: Vec<Message<'a, ToolEvent<'a>>> = [],
    }
}

record! {
    /// Asks which tools there are.
    ToolListRequest<'a> {
        filter_kind: Cow<'a, str> = "",
        filter_tags: Vec<Cow<'a, str>> = [],
        query: Cow<'a, str> = "",
        include_deferred: bool = false,
    }
}

record! {
    /// Answers [`ToolListRequest`].
    ToolListResponse<'a> {
        tools: Vec<ToolDefinition<'a>> = [],
    }
}

record! {
    /// Calls a tool.
    ToolCallRequest<'a> {
        session_id: SessionId<'a> = "",
        tool_name: Cow<'a, str> = "",
        arguments: Object<'a> = {},
        correlation_id: CorrelationId<'a> = "",
        streaming: bool = false,
        timeout: i64 = 30,
    }
}

record! {
    /// Progress of a tool call.
    ToolEvent<'a> {
        kind: EventKind<'a> = "status",
        data: Object<'a> = {},
        seq: i64 = 0,
    }
}

record! {
    /// Answers [`ToolCallRequest`].
    ToolCallResponse<'a> {
        data: ToolResult<'a>,
        created_at: Timestamp = (now),
    }
}
