//! Chains: nodes that run one after another, or as a graph.

use std::borrow::Cow;

use strict_json::Raw;

use crate::messages::base::EventKind;
use crate::open_enum::open_enum;
use crate::record::record;
use crate::{ChainId, CorrelationId, NodeId, Object, SessionId};

open_enum! {
    /// What a node runs.
    ChainNodeKind {
        Skill = "skill",
        Tool = "tool",
        Proc = "proc",
        Branch = "branch",
        Map = "map",
        /// A peer agent, reached by its DID. Ours alone.
        Peer = "peer",
    }
}

open_enum! {
    /// What happened to a node.
    ChainPhase {
        Start = "start",
        Done = "done",
        Skip = "skip",
        Error = "error",
    }
}

open_enum! {
    /// What to do when a node fails; another value is the node to go on with.
    ChainOnError {
        Abort = "abort",
        Skip = "skip",
    }
}

record! {
    /// One node of a chain.
    ///
    /// With `deps` on any node the chain is a graph; without, it is walked along `next_node`. That, how
    /// often a failed node is tried again, how long it waits before, and whether it may be done again
    /// when nobody knows whether it was done are ours alone.
    ChainNode<'a> {
        node_id: NodeId<'a>,
        kind: ChainNodeKind<'a>,
        name: Cow<'a, str> = "",
        input: Object<'a> = {},
        input_map: Object<'a> = {},
        condition: Cow<'a, str> = "",
        true_node: NodeId<'a> = "",
        false_node: NodeId<'a> = "",
        items_path: Cow<'a, str> = "",
        map_node: NodeId<'a> = "",
        next_node: NodeId<'a> = "",
        on_error: ChainOnError<'a> = "abort",
    }
    sparse {
        deps: Vec<NodeId<'a>>,
        retries: i64,
        backoff_ms: i64,
        idempotent: bool,
    }
}

record! {
    /// Why a chain failed.
    ChainError<'a> {
        code: Cow<'a, str>,
        message: Cow<'a, str>,
    }
}

record! {
    /// Runs a chain.
    ChainRequest<'a> {
        session_id: SessionId<'a> = "",
        chain_id: ChainId<'a> = (hex8),
        nodes: Vec<ChainNode<'a>> = [],
        entry_node: NodeId<'a> = "",
        initial_input: Object<'a> = {},
        correlation_id: CorrelationId<'a> = "",
        streaming: bool = true,
        timeout: i64 = 300,
    }
}

record! {
    /// Progress of a chain.
    ChainEvent<'a> {
        kind: EventKind<'a> = "status",
        data: Object<'a> = {},
        seq: i64 = 0,
        node_id: NodeId<'a> = "",
        phase: ChainPhase<'a> = "start",
        output: Raw<'a> = null,
        error: Cow<'a, str> = "",
    }
}

record! {
    /// Answers [`ChainRequest`].
    ChainResponse<'a> {
        chain_id: ChainId<'a> = "",
        success: bool = false,
        outputs: Object<'a> = {},
        final_output: Raw<'a> = null,
        duration_ms: i64 = 0,
        nodes_run: i64 = 0,
        error: Option<ChainError<'a>> = null,
    }
}

open_enum! {
    /// The state of a chain. Ours alone.
    ChainState {
        Running = "running",
        /// It was cut off by the end of its host and can go on.
        CutOff = "cut_off",
        Done = "done",
        Failed = "failed",
        Cancelled = "cancelled",
        /// It was cut off and cannot go on.
        Interrupted = "interrupted",
    }
}

open_enum! {
    /// The state of a node of a chain. Ours alone.
    ChainNodeState {
        Waiting = "waiting",
        Started = "started",
        Done = "done",
        Failed = "failed",
    }
}

record! {
    /// A chain, as it is listed. Ours alone.
    ChainSummary<'a> {
        number: i64,
        chain_id: ChainId<'a>,
        state: ChainState<'a>,
        /// Milliseconds since 1970.
        begun: i64,
        ended: Option<i64>,
        /// How often it was resumed.
        resumed: i64,
    }
}

record! {
    /// A node of a chain, as it is shown. Ours alone.
    ChainNodeProgress<'a> {
        node_id: NodeId<'a>,
        state: ChainNodeState<'a>,
        /// Of a map that runs: the items that have ended.
        items: i64,
        error: Cow<'a, str>,
    }
}

record! {
    /// A chain with its nodes. Ours alone.
    ///
    /// `request` is a `chain/req`, `response` the fields of a `chain/resp`; `left_out` names what was too
    /// large: `request`, `nodes` (the last of them) or `outputs` (of the response, with `final_output`).
    ChainDetails<'a> {
        number: i64,
        chain_id: ChainId<'a>,
        state: ChainState<'a>,
        begun: i64,
        ended: Option<i64>,
        resumed: i64,
        request: Raw<'a>,
        nodes: Vec<ChainNodeProgress<'a>>,
        response: Option<Object<'a>>,
    }
    sparse {
        left_out: Vec<Cow<'a, str>>,
    }
}

record! {
    /// Lists the chains of the agent, the newest first. Ours alone.
    ChainListRequest {
    }
}

record! {
    /// Answers [`ChainListRequest`].
    ChainListResponse<'a> {
        chains: Vec<ChainSummary<'a>> = [],
    }
}

record! {
    /// Shows a chain of the agent. Ours alone.
    ChainShowRequest {
        number: i64,
    }
}

record! {
    /// Answers [`ChainShowRequest`]; without a chain if there is none of that number.
    ChainShowResponse<'a> {
        chain: Option<ChainDetails<'a>> = null,
    }
}

record! {
    /// Resumes a chain that was cut off. It is answered when the chain has ended. Ours alone.
    ChainResumeRequest {
        number: i64,
        /// Whether the host asks by itself, which it does a limited number of times.
        by_itself: bool = false,
    }
}

record! {
    /// Answers [`ChainResumeRequest`]: the fields of a `chain/resp`, or why the chain is not resumed.
    ChainResumeResponse<'a> {
        response: Option<Object<'a>> = null,
        error: Cow<'a, str> = "",
    }
}

record! {
    /// Cancels a chain of the agent. Ours alone.
    ChainCancelRequest {
        number: i64,
    }
}

record! {
    /// Answers [`ChainCancelRequest`].
    ChainCancelResponse<'a> {
        success: bool = false,
        error: Cow<'a, str> = "",
    }
}
