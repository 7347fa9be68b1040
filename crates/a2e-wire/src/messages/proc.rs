//! Processes: spawn, write, read, kill.

use std::borrow::Cow;

use crate::lenient::ProcOutput;
use crate::messages::base::EventKind;
use crate::open_enum::open_enum;
use crate::record::record;
use crate::{Map, ProcId, SessionId, Timestamp};

open_enum! {
    /// What a process has as its standard input.
    ProcStdinMode {
        Pipe = "pipe",
        Null = "null",
    }
}

open_enum! {
    /// A signal.
    ProcSignal {
        Term = "SIGTERM",
        Kill = "SIGKILL",
        Int = "SIGINT",
    }
}

open_enum! {
    /// Where output came from; `killed` marks the end of a killed process.
    ProcStreamType {
        Stdout = "stdout",
        Stderr = "stderr",
        Killed = "killed",
    }
}

open_enum! {
    /// How a process is doing.
    ProcStatusValue {
        Running = "running",
        Completed = "completed",
        Failed = "failed",
        Killed = "killed",
        NotFound = "not_found",
        Error = "error",
    }
}

open_enum! {
    /// How a process is doing, in the words of a list of them.
    ProcState {
        Running = "running",
        Stopped = "stopped",
        Crashed = "crashed",
        TimedOut = "timedout",
    }
}

record! {
    /// A process, as it is listed.
    ProcStatus<'a> {
        proc_id: ProcId<'a>,
        cmd: Cow<'a, str>,
        state: ProcState<'a>,
        pid: i64 = 0,
        exit_code: Option<i64> = null,
        started_at: Timestamp = 0.0,
    }
}

record! {
    /// What a process put out: text, or its exit code; nothing for `killed`.
    ProcReadData<'a> {
    }
    sparse {
        text: Cow<'a, str>,
        code: i64,
    }
}

record! {
    /// Starts a process.
    ProcSpawnRequest<'a> {
        session_id: SessionId<'a> = "",
        cmd: Vec<Cow<'a, str>> = [],
        cwd: Cow<'a, str> = "",
        env: Map<'a, Cow<'a, str>> = {},
        stdin_mode: ProcStdinMode<'a> = "pipe",
        timeout: i64 = 0,
    }
}

record! {
    /// Answers [`ProcSpawnRequest`].
    ProcSpawnResponse<'a> {
        proc_id: ProcId<'a> = "",
        ok: bool = false,
        pid: i64 = 0 ~ null,
        error: Cow<'a, str> = "",
    }
}

record! {
    /// Writes to a process's standard input.
    ProcWriteRequest<'a> {
        proc_id: ProcId<'a> = "",
        data: Cow<'a, str> = "",
        eof: bool = false,
    }
}

record! {
    /// Answers [`ProcWriteRequest`].
    ProcWriteResponse<'a> {
        proc_id: ProcId<'a> = "",
        ok: bool = false,
        pid: i64 = 0 ~ null,
        error: Cow<'a, str> = "",
    }
}

record! {
    /// Output of a process, or its end. Comes until the process ends, also after the response.
    ProcReadEvent<'a> {
        kind: EventKind<'a> = "status",
        data: ProcOutput<'a> = {},
        seq: i64 = 0,
        proc_id: ProcId<'a> = "",
        stream_type: ProcStreamType<'a> = "stdout",
    }
}

record! {
    /// Sends a process a signal.
    ProcKillRequest<'a> {
        proc_id: ProcId<'a> = "",
        signal: ProcSignal<'a> = "SIGTERM",
    }
}

record! {
    /// Answers [`ProcKillRequest`].
    ProcKillResponse<'a> {
        ok: bool = false,
        state: ProcStatusValue<'a> = "",
    }
}

record! {
    /// Asks how a process is doing; without an id, how all are.
    ProcStatusRequest<'a> {
        proc_id: ProcId<'a> = "",
    }
}

record! {
    /// Answers [`ProcStatusRequest`].
    ///
    /// `procs` answers a request without an id.
    ProcStatusResponse<'a> {
        proc_id: ProcId<'a>,
        status: ProcStatusValue<'a>,
        error: Cow<'a, str>,
    }
    sparse {
        exit_code: i64,
        pid: i64,
        procs: Vec<ProcStatus<'a>>,
    }
}

record! {
    /// Changes the size of a process's terminal. Ours alone.
    ProcResizeRequest<'a> {
        proc_id: ProcId<'a>,
        rows: i64,
        cols: i64,
    }
}

record! {
    /// Answers [`ProcResizeRequest`].
    ProcResizeResponse<'a> {
        proc_id: ProcId<'a> = "",
        ok: bool = false,
        error: Cow<'a, str> = "",
    }
}
