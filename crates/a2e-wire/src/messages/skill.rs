//! Skills: prepared instructions, with the tools they need.

use std::borrow::Cow;

use strict_json::Raw;

use crate::messages::base::EventKind;
use crate::open_enum::open_enum;
use crate::record::record;
use crate::{CorrelationId, Message, Object, Timestamp};

open_enum! {
    /// Whether a skill can be called.
    SkillStatus {
        Created = "Created",
        Blocked = "Blocked",
        Published = "Published",
        Archived = "Archived",
    }
}

open_enum! {
    /// Where a skill comes from.
    SkillSource {
        User = "user",
        System = "system",
        Project = "project",
        Filesystem = "filesystem",
    }
}

record! {
    /// Which language model to use.
    LlmConfig<'a> as "LLMConfig" {
        provider_name: Cow<'a, str>,
        provider_credentials: Object<'a>,
        provider_config: Option<Object<'a>> = null ~ false,
        is_default: Option<bool> = false,
    }
}

record! {
    /// A skill, as it is listed.
    SkillDefinition<'a> {
        name: Cow<'a, str>,
        version: Cow<'a, str>,
        description: Cow<'a, str>,
        triggers: Vec<Cow<'a, str>>,
        tools: Option<Vec<Raw<'a>>> = null,
        toolkits: Option<Vec<Raw<'a>>> = null,
        status: SkillStatus<'a>,
        input_schema: Object<'a> = {},
        output_schema: Object<'a> = {},
        instructions: Option<Cow<'a, str>> = null,
        file_path: Option<Cow<'a, str>> = null,
        llm_config: Option<LlmConfig<'a>> = null,
        arguments: Option<Vec<Cow<'a, str>>> = null ~ {},
        when_to_use: Cow<'a, str>,
        argument_hint: Cow<'a, str>,
        source: SkillSource<'a>,
        category: Option<Cow<'a, str>> = null,
        tags: Option<Vec<Cow<'a, str>>> = null,
        max_turns: Option<i64> = null,
        timeout_seconds: Option<i64> = null,
        icon: Option<Cow<'a, str>> = null,
        metadata: Option<Object<'a>> = null,
    }
}

record! {
    /// What a skill gave back.
    SkillResult<'a> {
        success: bool,
        data: Option<Raw<'a>> = null,
        summary: Option<Raw<'a>> = null,
        truncated: Option<bool> = false,
        error: Option<Cow<'a, str>> = null,
        error_code: Option<Cow<'a, str>> = null,
        duration_ms: i64,
        events: Vec<Message<'a, SkillEvent<'a>>> = [],
    }
}

record! {
    /// Why a skill could not be called.
    SkillTransportError<'a> {
        code: Cow<'a, str>,
        message: Cow<'a, str>,
        retryable: bool = false,
    }
}

record! {
    /// Asks which skills there are.
    SkillDiscoverRequest<'a> {
        filter_tags: Vec<Cow<'a, str>> = [],
        filter_categories: Vec<Cow<'a, str>> = [],
    }
}

record! {
    /// Answers [`SkillDiscoverRequest`].
    SkillDiscoverResponse<'a> {
        skills: Vec<SkillDefinition<'a>> = [],
    }
}

record! {
    /// Calls a skill.
    SkillCallRequest<'a> {
        name: Cow<'a, str> = "",
        arguments: Object<'a> = {},
        correlation_id: CorrelationId<'a> = "",
        timeout: i64 = 60,
        streaming: bool = true,
        llm_override: Option<LlmConfig<'a>> = null,
        metadata: Object<'a> = {},
    }
}

record! {
    /// Progress of a skill.
    SkillEvent<'a> {
        kind: EventKind<'a> = "status",
        data: Object<'a> = {},
        seq: i64 = 0,
    }
}

record! {
    /// Answers [`SkillCallRequest`].
    SkillCallResponse<'a> {
        name: Cow<'a, str> = "",
        data: Option<SkillResult<'a>>,
        error: Option<SkillTransportError<'a>> = null,
        created_at: Timestamp = (now),
    }
}
