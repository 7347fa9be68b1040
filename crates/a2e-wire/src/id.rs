//! Ids. Any string is one; this crate makes none.

use std::borrow::Cow;

use crate::Invalid;
use crate::Timestamp;
use crate::wire::{Decode, Describe, Encode, Reader, ToStatic, Writer};

/// Declares an id: a string of its own type, so that one id is not taken for another.
macro_rules! ids {
    ($($(#[$meta:meta])* $name:ident;)*) => {$(
        $(#[$meta])*
        ///
        /// An empty one means that there is none.
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name<'a>(Cow<'a, str>);

        impl<'a> $name<'a> {
            /// The id as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Whether there is none.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.0.is_empty()
            }

            /// The same id, borrowed.
            #[must_use]
            pub fn borrowed(&self) -> $name<'_> {
                $name(Cow::Borrowed(&self.0))
            }
        }

        impl<'a, T: Into<Cow<'a, str>>> From<T> for $name<'a> {
            fn from(text: T) -> Self {
                Self(text.into())
            }
        }

        impl std::fmt::Display for $name<'_> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl<'de: 'a, 'a> Decode<'de> for $name<'a> {
            fn decode(reader: &mut Reader<'de>) -> Result<Self, Invalid> {
                Cow::decode(reader).map(Self)
            }

            #[inline]
            fn from_plain(text: &'de str) -> Option<Self> {
                Some(Self(Cow::Borrowed(text)))
            }

            fn absent(default: &'static str, ts: Timestamp) -> Result<Self, Invalid> {
                // A missing id that the sender should have made: the receiver may make one.
                if default.starts_with('(') {
                    return Ok(Self::default());
                }
                Cow::absent(default, ts).map(Self)
            }
        }

        impl Encode for $name<'_> {
            fn encode(&self, out: &mut Writer<'_>) {
                out.string(&self.0);
            }
        }

        impl Describe for $name<'_> {
            fn wire_type() -> String {
                "string".into()
            }
        }

        impl ToStatic for $name<'_> {
            type Static = $name<'static>;

            fn to_static(self) -> Self::Static {
                $name(self.0.to_static())
            }
        }
    )*};
}

ids! {
    /// Identifies one message; a response names it in `req_id`.
    MessageId;
    /// Identifies a session, as the handshake names it.
    SessionId;
    /// Ties requests of one piece of work together; the agent's own.
    CorrelationId;
    /// What an agent calls itself. Only a label: who it is, its token says.
    AgentId;
    /// Identifies a memory that `memory/init` made.
    MemoryId;
    /// Identifies an episode of an environment.
    EpisodeId;
    /// Identifies an action within an episode.
    ActionId;
    /// Identifies an event of an environment.
    EventId;
    /// Identifies a process.
    ProcId;
    /// Identifies a piece of feedback.
    FeedbackId;
    /// Identifies an experience.
    ExperienceId;
    /// Identifies a refinement.
    RefinementId;
    /// Identifies a plan of refinements.
    RefinementPlanId;
    /// Identifies a chain.
    ChainId;
    /// Identifies a node within its chain.
    NodeId;
    /// Identifies an MCP server.
    ServerId;
    /// Identifies a request that an MCP server made.
    McpRequestId;
    /// Identifies a sub-agent.
    SubagentId;
    /// Identifies a plan.
    PlanId;
    /// Identifies a task within its plan.
    TaskId;
}
