//! The nested objects and enumerations, as lists: for documentation, and for tests that compare
//! them with the specification. Messages are listed by [`Tag::ALL`](crate::Tag::ALL).

use strict_json::Charset;

use crate::messages::{
    base::*, chain::*, env::*, learn::*, mcp::*, memory::*, planning::*, proc::*, skill::*,
    subagent::*, tool::*, toolkit::*,
};
use crate::record::{Shape, Shaped};
use crate::wire::{Describe, Encode, Writer};
use crate::{Capability, Enumeration, ErrorCode, Invalid, Object, Timestamp};

/// One nested object.
#[derive(Debug)]
pub struct Struct {
    /// Its name in the specification.
    pub name: String,
    /// Its fields.
    pub shape: Shape,
    /// Reads an object as this one and writes it again, with every default filled in.
    pub rewrite: fn(&Object<'_>) -> Result<Vec<u8>, Invalid>,
}

macro_rules! list_structs {
    ($($name:ident)*) => {
        vec![$(Struct {
            name: $name::wire_type(),
            shape: $name::shape(),
            rewrite: |object| Ok(written(&object.read::<$name<'_>>(Timestamp::default())?)),
        }),*]
    };
}

macro_rules! list_enumerations {
    ($($name:ident)*) => { vec![$($name::ENUMERATION),*] };
}

/// Every nested object.
#[must_use]
pub fn structs() -> Vec<Struct> {
    list_structs! {
        AcceptedCapability CapabilityMetadata EventDataArtifact EventDataLog EventDataProgress
        EventDataStatus Resume
        ToolParameter ToolDefinition ToolResult ToolkitDefinition
        LlmConfig SkillDefinition SkillResult SkillTransportError
        MemoryEntry
        EnvAction EnvObservation EnvEvent EnvSummary
        ProcStatus ProcReadData
        RatedTurn Feedback Experience ComponentPerformanceRecord RefinementEdit RefinementProposal
        RefinementHistoryEntry
        ChainNode ChainError ChainSummary ChainNodeProgress ChainDetails
        McpServerConfig McpServerInfo McpResource McpResourceContent McpPrompt McpPromptArgument
        McpPromptMessage McpRoot
        SourceRef SubagentConfig TaskDefinition SubagentInfo SubagentMessagePayload
        PlanSummary TaskSummary TaskChange BoardTask PlanBoard
    }
}

/// Every enumeration.
#[must_use]
pub fn enumerations() -> Vec<Enumeration> {
    list_enumerations! {
        Capability ErrorCode
        HandshakeReason EventKind ToolParameterType ToolkitStatus SkillStatus SkillSource MemoryTier
        EnvRenderMode EnvPushEventType
        ProcStdinMode ProcSignal ProcStreamType ProcStatusValue ProcState
        FeedbackPolarity FeedbackDimension FeedbackSource AdaptStrategy RefinementScope
        RefinementPlanStatus RiskLevel RefinementTarget RefinementOp
        LearnSampleKind
        ChainNodeKind ChainPhase ChainOnError ChainState ChainNodeState
        McpTransport McpServerStatus McpIncludeContext McpStopReason McpContentType McpNotification
        SubagentStatus MemoryScope ToolScope MergeStrategy
    }
}

fn written(record: &impl Encode) -> Vec<u8> {
    let mut json = Vec::new();
    record.encode(&mut Writer::new(&mut json, Charset::Utf8));
    json
}
