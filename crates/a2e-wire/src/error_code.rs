//! Error codes: one table of code, namespace and whether to try again.

use crate::Namespace;
use crate::open_enum::open_enum;

/// When a caller may send the same request again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// The same request can succeed later.
    Yes,
    /// The same request fails again.
    No,
    /// The sender of the error knows.
    Depends,
}

/// What a code means in one namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeMeaning {
    /// The namespace.
    pub namespace: Namespace,
    /// The code.
    pub code: ErrorCode<'static>,
    /// Whether to try again.
    pub retry: Retry,
}

open_enum! {
    /// An error code, in the spelling that is sent. Read with [`ErrorCode::from_peer`].
    ErrorCode read from_peer {
        // base
        ParseError = "parse_error",
        RuntimeError = "runtime_error",
        InvalidMessage = "invalid_message",
        VersionMismatch = "version_mismatch",
        Unauthorized = "unauthorized",
        SchemaViolation = "schema_violation",
        Timeout = "timeout",
        OutOfMemory = "out_of_memory",
        SandboxCrash = "sandbox_crash",
        CapabilityMissing = "capability_missing",
        // tool
        UnknownTool = "unknown_tool",
        ToolDenied = "tool_denied",
        ToolError = "tool_error",
        ToolExecutionError = "tool_execution_error",
        // skill
        UnknownSkill = "unknown_skill",
        SkillError = "skill_error",
        ExecutionError = "execution_error",
        // memory
        MemoryFull = "memory_full",
        MemoryNotFound = "memory_not_found",
        // env
        UnknownAction = "unknown_action",
        ResetDenied = "reset_denied",
        // proc
        UnknownProc = "unknown_proc",
        ProcDead = "proc_dead",
        ProcLimit = "proc_limit",
        // chain
        ChainCycle = "chain_cycle",
        ChainNodeError = "chain_node_error",
        BadEntry = "bad_entry",
        ChainError = "chain_error",
        // mcp
        McpServerNotFound = "mcp_server_not_found",
        McpServerUnavailable = "mcp_server_unavailable",
        McpToolNotFound = "mcp_tool_not_found",
        McpResourceNotFound = "mcp_resource_not_found",
        McpPromptNotFound = "mcp_prompt_not_found",
        McpTransportError = "mcp_transport_error",
        McpProtocolError = "mcp_protocol_error",
        McpSamplingRefused = "mcp_sampling_refused",
        McpCapabilityMissing = "mcp_capability_missing",
    }
}

/// Declares the table: one line a code and namespace.
macro_rules! meanings {
    ($($namespace:ident { $($code:ident $retry:ident;)* })*) => {
        &[$($(CodeMeaning {
            namespace: Namespace::$namespace,
            code: ErrorCode::$code,
            retry: Retry::$retry,
        },)*)*]
    };
}

/// What each code means where.
pub const CODE_MEANINGS: &[CodeMeaning] = meanings! {
    Base {
        ParseError No;
        RuntimeError Yes;
        InvalidMessage No;
        VersionMismatch No;
        Unauthorized No;
        SchemaViolation No;
        Timeout Yes;
        OutOfMemory Yes;
        SandboxCrash Yes;
        CapabilityMissing No;
    }
    Tool {
        UnknownTool No;
        ToolDenied No;
        ToolError Yes;
        ToolExecutionError Yes;
    }
    Toolkit {
        RuntimeError No;
        InvalidMessage No;
    }
    Skill {
        UnknownSkill No;
        SkillError Yes;
        RuntimeError Depends;
        ExecutionError Yes;
    }
    Memory {
        MemoryFull No;
        MemoryNotFound No;
    }
    Env {
        RuntimeError Depends;
        UnknownAction No;
        ResetDenied No;
    }
    Proc {
        UnknownProc No;
        ProcDead No;
        ProcLimit No;
    }
    Learn {
        RuntimeError No;
        InvalidMessage No;
    }
    Chain {
        ChainCycle No;
        ChainNodeError Depends;
        BadEntry No;
        Timeout Yes;
        ChainError No;
    }
    Mcp {
        McpServerNotFound No;
        McpServerUnavailable Yes;
        McpToolNotFound No;
        McpResourceNotFound No;
        McpPromptNotFound No;
        McpTransportError Yes;
        McpProtocolError No;
        McpSamplingRefused No;
        McpCapabilityMissing No;
    }
    Planning {
        InvalidMessage No;
        RuntimeError Yes;
    }
};

/// Codes that peers refer to although nothing defines them: never sent, read as another.
pub const RETIRED_CODES: &[(&str, ErrorCode<'static>)] = &[
    ("unknown_type", ErrorCode::InvalidMessage),
    ("internal_error", ErrorCode::RuntimeError),
    ("not_found", ErrorCode::MemoryNotFound),
];

impl<'a> ErrorCode<'a> {
    /// The code a peer means: in any case, MCP codes with or without their prefix, retired codes
    /// as what replaced them. Anything else is kept as it came.
    #[must_use]
    pub fn from_peer(text: std::borrow::Cow<'a, str>) -> Self {
        let lower = text.to_ascii_lowercase();
        ErrorCode::known(&lower)
            .or_else(|| {
                RETIRED_CODES
                    .iter()
                    .find(|(retired, _)| *retired == lower)
                    .map(|(_, code)| code.clone())
            })
            .or_else(|| ErrorCode::known(&format!("mcp_{lower}")))
            .unwrap_or(Self::Other(text))
    }

    /// Whether to try again after this code in this namespace.
    #[must_use]
    pub fn retry(&self, namespace: Namespace) -> Retry {
        let find = |wanted: Option<Namespace>| {
            CODE_MEANINGS.iter().find(|meaning| {
                meaning.code == *self && wanted.is_none_or(|wanted| meaning.namespace == wanted)
            })
        };
        find(Some(namespace))
            .or_else(|| find(Some(Namespace::Base)))
            .or_else(|| find(None))
            .map_or(Retry::Depends, |meaning| meaning.retry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_codes_are_understood() {
        for (sent, meant) in [
            ("UNKNOWN_TOOL", ErrorCode::UnknownTool),
            ("server_not_found", ErrorCode::McpServerNotFound),
            ("MCP_Tool_Not_Found", ErrorCode::McpToolNotFound),
            ("capability_missing", ErrorCode::CapabilityMissing),
            ("INTERNAL_ERROR", ErrorCode::RuntimeError),
            ("Odd", ErrorCode::Other("Odd".into())),
        ] {
            assert_eq!(ErrorCode::from_peer(sent.into()), meant, "{sent}");
        }
    }

    #[test]
    fn a_namespace_can_differ_from_the_base() {
        assert_eq!(ErrorCode::RuntimeError.retry(Namespace::Base), Retry::Yes);
        assert_eq!(ErrorCode::RuntimeError.retry(Namespace::Learn), Retry::No);
        assert_eq!(ErrorCode::Timeout.retry(Namespace::Tool), Retry::Yes);
        assert_eq!(ErrorCode::ToolDenied.retry(Namespace::Skill), Retry::No);
        assert_eq!(
            ErrorCode::Other("x".into()).retry(Namespace::Base),
            Retry::Depends
        );
    }
}
