//! Toolkits: bundles of tools that need configuration.

use std::borrow::Cow;

use crate::open_enum::open_enum;
use crate::record::record;
use crate::{Object, SessionId};

open_enum! {
    /// How configuring a toolkit went.
    ToolkitStatus {
        Ok = "ok",
        Error = "error",
        Partial = "partial",
    }
}

record! {
    /// A bundle of tools, as it is listed.
    ToolkitDefinition<'a> {
        name: Cow<'a, str>,
        alias: Cow<'a, str> = "",
        description: Cow<'a, str> = "",
        category: Cow<'a, str> = "",
        tags: Vec<Cow<'a, str>> = [],
        icon_svg: Option<Cow<'a, str>> = null,
        schema: Object<'a> = {},
        tools: Vec<Cow<'a, str>>,
        configured: bool = false,
        version: Cow<'a, str> = "1.0.0",
    }
}

record! {
    /// Asks which toolkits there are.
    ToolkitListRequest<'a> {
        filter_kind: Cow<'a, str> = "",
        filter_tags: Vec<Cow<'a, str>> = [],
    }
}

record! {
    /// Answers [`ToolkitListRequest`].
    ToolkitListResponse<'a> {
        toolkits: Vec<ToolkitDefinition<'a>> = [],
    }
}

record! {
    /// Gives a toolkit its configuration; then its tools appear.
    ToolkitConfigureRequest<'a> {
        session_id: SessionId<'a> = "",
        toolkit_name | "name": Cow<'a, str> = "",
        config | "schema": Object<'a> = {},
    }
}

record! {
    /// Answers [`ToolkitConfigureRequest`].
    ///
    /// `error` and `toolkit` are for peers that read these.
    ToolkitConfigureResponse<'a> {
        toolkit_name: Cow<'a, str> = "",
        status: ToolkitStatus<'a> = "ok",
        message: Option<Cow<'a, str>> = null,
    }
    sparse {
        error: Cow<'a, str>,
        toolkit: ToolkitDefinition<'a>,
    }
}
