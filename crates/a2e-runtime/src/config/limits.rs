//! The section `global_limits`: what sessions may take.

use std::time::Duration;

use a2e_session::Limits;

use super::read::Field;
use super::sections::{DAY, KIB, MIB, set};

/// What sessions may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GlobalLimits {
    /// The longest line, in bytes.
    pub max_line: usize,
    /// Sessions at once.
    pub max_sessions: usize,
    /// Sessions of one agent at once: half of all if there are few.
    pub max_sessions_per_agent: usize,
    /// Bytes that may wait in all sessions, and for their agents in remote plugins.
    pub max_buffered: usize,
    /// Bytes that may wait in the sessions of one agent.
    pub max_buffered_per_agent: usize,
    /// Connections of one source that have not shaken hands.
    pub max_newcomers: usize,
    /// How long requests may go on when the node stops.
    pub drain: Duration,
    /// How long a held call waits for the operator's word, and how long an approval of a call stands
    /// that nobody waits for any more.
    pub approval: Duration,
    /// Requests of one agent under way at once, in all its sessions; more are refused, and can be tried
    /// again.
    pub max_requests_per_agent: usize,
    /// Requests that tools make to one host at once; others wait.
    pub max_fetches_per_host: usize,
    /// Requests that tools make for one agent at once; more are refused, and can be tried again.
    pub max_fetches_per_agent: usize,
    /// Programs that one agent has in the sandbox at once, in all its sessions; the same.
    pub max_commands_per_agent: usize,
    /// Calls of components that one agent has under way at once; the same.
    pub max_components_per_agent: usize,
    /// Queries of SQLite databases that one agent has running at once; the same.
    pub max_queries_per_agent: usize,
    /// The limits of each session.
    pub session: Limits,
}

impl Default for GlobalLimits {
    fn default() -> Self {
        Self {
            max_line: a2e_wire::MAX_LINE,
            max_sessions: 10_000,
            max_sessions_per_agent: crate::host::MAX_SESSIONS_PER_AGENT,
            max_buffered: crate::host::MAX_BUFFERED,
            max_buffered_per_agent: crate::host::MAX_BUFFERED_PER_AGENT,
            max_newcomers: crate::host::MAX_NEWCOMERS,
            drain: Duration::from_secs(10),
            approval: crate::approvals::PATIENCE,
            max_requests_per_agent: crate::in_flight::MAX_REQUESTS_PER_AGENT,
            max_fetches_per_host: 6,
            max_fetches_per_agent: 8,
            max_commands_per_agent: 32,
            max_components_per_agent: 32,
            max_queries_per_agent: 4,
            session: Limits::default(),
        }
    }
}

pub(super) fn global_limits(field: &Field<'_>) -> Option<GlobalLimits> {
    let mut limits = GlobalLimits::default();
    let mut section = field.section()?;
    let session = &mut limits.session;
    let counts = [
        ("max_line", KIB..=64 * MIB, &mut limits.max_line),
        ("max_parallel", 1..=1024, &mut session.max_parallel),
        ("max_queue", 1..=100_000, &mut session.max_queue),
        (
            "max_outbound",
            64 * KIB..=KIB * MIB,
            &mut session.max_outbound,
        ),
        ("max_replay", 0..=KIB * MIB, &mut session.max_replay),
        (
            "max_buffered",
            MIB..=1024 * KIB * MIB,
            &mut limits.max_buffered,
        ),
        (
            "max_buffered_per_agent",
            MIB..=1024 * KIB * MIB,
            &mut limits.max_buffered_per_agent,
        ),
        ("max_sessions", 1..=1_000_000, &mut limits.max_sessions),
        ("max_newcomers", 1..=1_000_000, &mut limits.max_newcomers),
        (
            "max_requests_per_agent",
            1..=100_000,
            &mut limits.max_requests_per_agent,
        ),
        (
            "max_fetches_per_host",
            1..=16,
            &mut limits.max_fetches_per_host,
        ),
        (
            "max_fetches_per_agent",
            1..=16,
            &mut limits.max_fetches_per_agent,
        ),
        (
            "max_commands_per_agent",
            1..=10_000,
            &mut limits.max_commands_per_agent,
        ),
        (
            "max_components_per_agent",
            1..=64,
            &mut limits.max_components_per_agent,
        ),
        (
            "max_queries_per_agent",
            1..=64,
            &mut limits.max_queries_per_agent,
        ),
    ];
    for (name, allowed, slot) in counts {
        set(slot, section.field(name), |it| it.count(allowed));
    }
    let half = limits.max_sessions.div_ceil(2);
    limits.max_sessions_per_agent = limits.max_sessions_per_agent.min(half);
    set(
        &mut limits.max_sessions_per_agent,
        section.field("max_sessions_per_agent"),
        |it| it.count(1..=1_000_000),
    );
    let times = [
        ("handshake_seconds", 1..=600, &mut session.handshake),
        ("idle_seconds", 0..=30 * DAY, &mut session.idle),
        ("resume_seconds", 0..=30 * DAY, &mut session.resume),
        ("request_seconds", 1..=DAY, &mut session.request),
        ("progress_seconds", 1..=7 * DAY, &mut session.progress),
        ("drain_seconds", 0..=600, &mut limits.drain),
        ("approval_seconds", 1..=DAY, &mut limits.approval),
    ];
    for (name, allowed, slot) in times {
        set(slot, section.field(name), |it| it.seconds(allowed));
    }
    section.finish();
    Some(limits)
}
