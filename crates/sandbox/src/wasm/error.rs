//! What can go wrong with a component.

use std::time::Duration;

use wasmtime::Trap;

use super::grant::Grant;

/// Where the world of tools is written down.
const WORLD: &str = "`frith:tool/tool@1.0.0` (crates/sandbox/wit/tool.wit)";

/// Why a component is no tool, or a call of it has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WasmError {
    /// This machine cannot run components.
    #[error("components cannot be run here: {0}; take the `components` out of the configuration")]
    Engine(String),
    /// It is larger than a component may be.
    #[error("it has {size} bytes, more than {most}; leave out what it does not need")]
    TooLarge {
        /// How large it is.
        size: usize,
        /// How large it may be.
        most: usize,
    },
    /// It cannot be compiled.
    #[error("it is no WebAssembly component: {0}; build it as one, for the world {WORLD}")]
    Invalid(String),
    /// It wants what no tool gets.
    #[error(
        "it wants something that tools do not get ({0}); build it for the world {WORLD} and without \
         what it does not need, such as HTTP"
    )]
    Import(String),
    /// It is no tool.
    #[error("its `{export}` is missing or has another form; build it for the world {WORLD}")]
    Export {
        /// What it should export.
        export: &'static str,
    },
    /// A folder of its grant is not there.
    #[error("it cannot be given the folder {path}: {why}; see `sandbox` in the configuration")]
    Folder {
        /// Which.
        path: String,
        /// What the kernel says.
        why: String,
    },
    /// It broke off.
    #[error("the component broke off: {0}; tell whoever maintains it")]
    Trap(String),
    /// It wanted more memory than it may have, and broke off.
    #[error(
        "the component wanted more than {0} bytes of memory; give it less to do, or raise `sandbox.memory`"
    )]
    Memory(u64),
    /// It took too long.
    #[error("the component was ended after {} s; give it less to do, or raise `sandbox.wall_seconds`", .0.as_secs_f64())]
    Timeout(Duration),
    /// It computed for too long.
    #[error("the component was ended after {} s on a processor; give it less to do, or raise `sandbox.cpu_seconds`", .0.as_secs_f64())]
    CpuTime(Duration),
    /// It told or printed too much, or its result is too large.
    #[error(
        "the component gave more than {0} bytes; ask it for less, or raise `sandbox.output_bytes`"
    )]
    Output(usize),
    /// It needs too much to say what it is.
    #[error(
        "it takes too much to say what it is ({limit}); let it do less in `describe` and when it starts"
    )]
    Describing {
        /// The limit that it ran into.
        limit: String,
    },
    /// It told too often.
    #[error("the component told of more than {0} events; tell whoever maintains it")]
    Events(usize),
}

impl WasmError {
    pub(super) fn engine(error: &wasmtime::Error) -> Self {
        Self::Engine(error.root_cause().to_string())
    }

    /// The same of one that was to say what it is: its limits then are not the operator's to raise.
    pub(super) fn of_describing(self) -> Self {
        let limit = match self {
            Self::Memory(most) => format!("more than {most} bytes of memory"),
            Self::Timeout(most) => format!("more than {} s", most.as_secs_f64()),
            Self::CpuTime(most) => format!("more than {} s on a processor", most.as_secs_f64()),
            Self::Output(most) => format!("more than {most} bytes"),
            other @ (Self::Engine(_)
            | Self::TooLarge { .. }
            | Self::Invalid(_)
            | Self::Import(_)
            | Self::Export { .. }
            | Self::Folder { .. }
            | Self::Trap(_)
            | Self::Describing { .. }
            | Self::Events(_)) => return other,
        };
        Self::Describing { limit }
    }

    /// Why a call was broken off, as far as the engine knows.
    pub(super) fn of_call(error: &wasmtime::Error, grant: &Grant) -> Self {
        if let Some(ours) = error.downcast_ref::<Self>() {
            return ours.clone();
        }
        if let Some(trap) = error.downcast_ref::<Trap>() {
            return Self::Trap(trap.to_string());
        }
        match error.root_cause().to_string() {
            // What crosses over at once is limited by the engine, whose error has no type.
            text if text.contains("fuel allocated for hostcalls") => Self::Output(grant.output),
            text => Self::Trap(text),
        }
    }
}
