//! Every session: handshake, liveness, end, errors, events.

use std::borrow::Cow;

use crate::open_enum::open_enum;
use crate::record::record;
use crate::{AgentId, Capability, ErrorCode, Object, Real, SessionId};

open_enum! {
    /// Why a handshake was refused.
    HandshakeReason {
        AuthFailed = "auth_failed",
        VersionMismatch = "version_mismatch",
        NoCaps = "no_caps",
        ServerError = "server_error",
    }
}

open_enum! {
    /// What an event tells of. Skills use dotted words such as `skill.started`.
    EventKind {
        Progress = "progress",
        Artifact = "artifact",
        Log = "log",
        Status = "status",
    }
}

record! {
    /// What the host says of one requested capability.
    AcceptedCapability<'a> as "Capability" {
        capability: Capability<'a>,
        enabled: bool = true,
        metadata: Object<'a> = {},
    }
}

record! {
    /// The data of a `progress` event.
    EventDataProgress<'a> {
        pct: i64,
        message: Cow<'a, str>,
    }
}

record! {
    /// The data of an `artifact` event; `chunk` is base64.
    EventDataArtifact<'a> {
        name: Cow<'a, str>,
        mime: Cow<'a, str>,
        chunk: Cow<'a, str>,
        last as "final": bool,
    }
}

record! {
    /// The data of a `log` event.
    EventDataLog<'a> {
        level: Cow<'a, str>,
        message: Cow<'a, str>,
    }
}

record! {
    /// The data of a `status` event.
    EventDataStatus<'a> {
        message: Cow<'a, str>,
    }
}

record! {
    /// The metadata of an accepted capability; `reason` only when it is not enabled.
    CapabilityMetadata<'a> {
        name: Cow<'a, str> = "",
        kind as "type": Cow<'a, str> = "",
        priority: i64 = 0,
        exclusive: bool = false,
    }
    sparse {
        reason: Cow<'a, str>,
    }
}

record! {
    /// Which session an agent wants to go on with, and the last message it has of it.
    Resume<'a> {
        session_id: SessionId<'a>,
        last_eid: i64,
    }
}

record! {
    /// Opens a session: who the agent is and what it wants to use.
    ///
    /// `resume` asks to go on with an earlier session.
    HandshakeRequest<'a> {
        agent_id: AgentId<'a> = "",
        agent_caps: Vec<Cow<'a, str>> = [],
        auth_token: Cow<'a, str> = "",
    }
    sparse {
        resume: Resume<'a>,
    }
}

record! {
    /// Answers [`HandshakeRequest`]: which capabilities the agent may use.
    ///
    /// `resumed` and, after a gap, `missed` (first and last `eid`) answer `resume`.
    HandshakeResponse<'a> {
        session_id: SessionId<'a> = (uuid4_hex),
        accepted_caps: Vec<AcceptedCapability<'a>> = [],
        max_parallel: i64 = 4,
        ok: bool = true,
        reason: HandshakeReason<'a> = "",
    }
    sparse {
        resumed: bool,
        missed: (i64, i64),
    }
}

record! {
    /// Answers any request that failed.
    Error<'a> {
        code: ErrorCode<'a>,
        message: Cow<'a, str> = "",
        detail: Object<'a> = {},
        retryable: bool = false,
        capability_name: Cow<'a, str> = "",
    }
}

record! {
    /// Asks whether the host is there.
    Ping {
    }
}

record! {
    /// Answers [`Ping`].
    Pong {
        uptime_seconds: Real = 0.0,
    }
}

record! {
    /// Ends the session after at most `timeout` seconds of grace. There is no answer.
    Shutdown {
        timeout: i64 = 10,
    }
}

record! {
    /// Progress of any request.
    Event<'a> {
        kind: EventKind<'a> = "status",
        data: Object<'a> = {},
        seq: i64 = 0,
    }
}
