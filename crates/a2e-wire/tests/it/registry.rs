//! Every nested object and enumeration of the crate, by hand: the tests walk these lists, and a
//! count of the declarations in the sources keeps them complete.

use a2e_wire::messages::{
    base::*, chain::*, env::*, learn::*, mcp::*, memory::*, planning::*, proc::*, skill::*,
    subagent::*, tool::*, toolkit::*,
};
use a2e_wire::record::{Shape, Shaped};
use a2e_wire::wire::{Decode, Describe, Encode};
use a2e_wire::{Capability, Enumeration, ErrorCode, Invalid, Object, Timestamp};

/// One nested object.
pub(crate) struct Struct {
    pub(crate) name: String,
    pub(crate) shape: Shape,
    /// Reads and writes one again.
    pub(crate) rewrite: fn(&Object<'_>) -> Result<String, Invalid>,
}

macro_rules! structs {
    ($($name:ident)*) => {
        vec![$(Struct {
            name: $name::wire_type(),
            shape: $name::shape(),
            rewrite: |object| rewrite(object.read::<$name<'_>>(Timestamp::default())?),
        }),*]
    };
}

fn rewrite<'a, T: Decode<'a> + Encode>(record: T) -> Result<String, Invalid> {
    Ok(Object::from_record(&record).unwrap().raw().to_string())
}

pub(crate) fn structs() -> Vec<Struct> {
    structs! {
        AcceptedCapability CapabilityMetadata EventDataArtifact EventDataLog EventDataProgress
        EventDataStatus Resume
        ToolParameter ToolDefinition ToolResult ToolkitDefinition
        LlmConfig SkillDefinition SkillResult SkillTransportError
        MemoryEntry
        EnvAction EnvObservation EnvEvent
        ProcStatus ProcReadData
        RatedTurn Feedback Experience ComponentPerformanceRecord RefinementEdit RefinementProposal
        RefinementHistoryEntry
        ChainNode ChainError
        McpServerConfig McpServerInfo McpResource McpResourceContent McpPrompt McpPromptArgument
        McpPromptMessage McpRoot
        SourceRef SubagentConfig TaskDefinition SubagentInfo SubagentMessagePayload
        PlanSummary TaskSummary BoardTask PlanBoard
    }
}

macro_rules! enumerations {
    ($($name:ident)*) => { vec![$($name::ENUMERATION),*] };
}

pub(crate) fn enumerations() -> Vec<Enumeration> {
    enumerations! {
        Capability ErrorCode
        HandshakeReason EventKind ToolParameterType ToolkitStatus SkillStatus SkillSource MemoryTier
        EnvRenderMode EnvPushEventType
        ProcStdinMode ProcSignal ProcStreamType ProcStatusValue ProcState
        FeedbackPolarity FeedbackDimension FeedbackSource AdaptStrategy RefinementScope
        RefinementPlanStatus RiskLevel RefinementTarget RefinementOp
        ChainNodeKind ChainPhase ChainOnError
        McpTransport McpServerStatus McpIncludeContext McpStopReason McpContentType McpNotification
        SubagentStatus MemoryScope ToolScope MergeStrategy
    }
}
