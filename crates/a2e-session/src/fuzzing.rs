//! What the fuzz targets run. Not part of the interface.
//!
//! The input is a list of operations: a byte that names one, and what it needs behind it. A line is
//! a length byte and that many bytes.

use std::time::Duration;

use a2e_wire::messages::base::{HandshakeReason, Ping};
use a2e_wire::messages::tool::{ToolEvent, ToolListResponse};
use a2e_wire::{Capability, LineTooLong, Timestamp};

use crate::{
    AgentConfig, AgentEvent, AgentSession, HostEvent, HostSession, Limits, Now, Offer,
    OfferedCapability, Random, Request,
};

/// The operations left, and the time.
struct Script<'b> {
    bytes: &'b [u8],
    time: Duration,
}

impl<'b> Script<'b> {
    const fn new(bytes: &'b [u8]) -> Self {
        Self {
            bytes,
            time: Duration::ZERO,
        }
    }

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*first)
    }

    fn line(&mut self) -> &'b [u8] {
        let length = usize::from(self.byte().unwrap_or_default());
        let (line, rest) = self.bytes.split_at(length.min(self.bytes.len()));
        self.bytes = rest;
        line
    }

    fn pick(&mut self, below: usize) -> usize {
        usize::from(self.byte().unwrap_or_default())
            .checked_rem(below)
            .unwrap_or_default()
    }

    fn wait(&mut self) {
        let seconds = u64::from(self.byte().unwrap_or_default());
        self.time = self.time.saturating_add(Duration::from_secs(seconds));
    }

    fn now(&self) -> Now {
        Now {
            monotonic: self.time,
            unix: Timestamp::default(),
        }
    }
}

fn counter() -> Box<dyn Random> {
    let mut count = 0_u128;
    Box::new(move || {
        count = count.wrapping_add(1);
        count
    })
}

fn tools() -> Offer {
    Offer {
        capabilities: vec![OfferedCapability {
            capability: Capability::Tools,
            name: "tools".into(),
            priority: 0,
            exclusive: false,
        }],
        authentication: true,
        ..Offer::default()
    }
}

/// Any operations on a host's session: no panic, no second answer, bounded queues.
pub fn a2e_host_ops(bytes: &[u8]) {
    let mut script = Script::new(bytes);
    let limits = Limits {
        max_parallel: 2,
        max_queue: 3,
        max_outbound: 2000,
        max_replay: 500,
        ..Limits::default()
    };
    let mut session = HostSession::new(script.now(), limits, tools(), counter());
    let mut open = Vec::new();
    let mut held = Vec::new();
    while let Some(operation) = script.byte() {
        let now = script.now();
        match operation % 14 {
            0..=3 => session.handle_line(now, Ok(script.line())),
            4 => session.handle_line(now, Err(LineTooLong { limit: 1 })),
            5 => {
                script.wait();
                session.handle_timeout(script.now());
            }
            6 => session.disconnected(now),
            7 => {
                let last_eid = script.byte().unwrap_or_default().into();
                session.resume(now, "again".into(), last_eid);
            }
            8 => {
                let _ = session.poll_transmit(now);
            }
            9 => session.shutdown(now, Duration::from_secs(5)),
            12 if !open.is_empty() => {
                let request: Request = open.swap_remove(script.pick(open.len()));
                let token = request.token;
                if session.hold(now, request).is_ok() {
                    held.push(token);
                }
            }
            13 if !held.is_empty() => {
                let token = held.swap_remove(script.pick(held.len()));
                session.release(now, token);
            }
            other => {
                let pick = usize::from(script.byte().unwrap_or_default());
                let running = open.get(pick & 7).map(|request| request.token);
                if let Some(token) = running.or_else(|| held.get(pick & 3).copied()) {
                    if other == 10 {
                        let first = session.respond(now, token, Ok(ToolListResponse::new().into()));
                        let second =
                            session.respond(now, token, Ok(ToolListResponse::new().into()));
                        assert!(second.is_err() || first.is_err());
                    } else {
                        let _ = session.event(now, token, ToolEvent::new().into());
                    }
                }
            }
        }
        while let Some(event) = session.poll_event() {
            match event {
                HostEvent::Login(login) if login.auth_token.is_empty() => {
                    session.login_refused(now, HandshakeReason::AuthFailed);
                }
                HostEvent::Login(_) => session.login_accepted(now),
                HostEvent::Start(request) => open.push(request),
                HostEvent::Cancel(token, _) => {
                    open.retain(|other| other.token != token);
                    held.retain(|other| *other != token);
                }
                HostEvent::Opened(_)
                | HostEvent::Reply(_)
                | HostEvent::HandshakeRefused(_)
                | HostEvent::Refused(_)
                | HostEvent::Closed(_) => {}
            }
        }
        assert!(session.requests_running() <= limits.max_parallel);
        let waiting = session
            .requests_waiting()
            .saturating_add(session.requests_held());
        assert!(waiting <= limits.max_queue.saturating_add(limits.max_parallel));
    }
}

/// Any operations on an agent's session: no panic, one outcome for each call, bounded queues.
///
/// A handshake of the session's is answered by an operation too, so that inputs of a few bytes come
/// to resumptions, lost sessions and repeated requests.
pub fn a2e_agent_ops(bytes: &[u8]) {
    let mut script = Script::new(bytes);
    let config = AgentConfig {
        resumable: true,
        max_pending: 20,
        max_outbound: 2000,
        ..AgentConfig::default()
    };
    let mut session = AgentSession::connect(script.now(), config, &mut *counter());
    let mut calls = 0_usize;
    let mut outcomes = 0_usize;
    while let Some(operation) = script.byte() {
        let now = script.now();
        match operation % 12 {
            0..=3 => session.handle_line(now, Ok(script.line())),
            4 => {
                let call = session.call(now, Ping::new().into(), Duration::from_secs(10));
                calls = calls.saturating_add(usize::from(call.is_ok()));
            }
            5 => {
                script.wait();
                session.handle_timeout(script.now());
            }
            6 => session.reconnect(now),
            7 => while session.poll_transmit().is_some() {},
            8 => session.detach(),
            9 => drop(session.notify(now, Ping::new().into())),
            10 => session.handle_line(now, Ok(ANSWERS.get(script.pick(4)).copied().unwrap_or(b""))),
            _ => answer_call(&mut session, now, script.pick(32)),
        }
        outcomes = outcomes.saturating_add(take_outcomes(&mut session));
        assert!(outcomes <= calls, "a call has two outcomes");
        assert!(calls.saturating_sub(outcomes) <= 20, "too many are open");
    }
    session.reconnect(script.now());
    session.disconnected();
    outcomes = outcomes.saturating_add(take_outcomes(&mut session));
    assert_eq!(outcomes, calls, "a call has no outcome");
}

/// Answers to a handshake, of hosts that leave `req_id` out.
const ANSWERS: [&[u8]; 4] = [
    br#"{"type":"handshake/resp","session_id":"S","eid":1}"#,
    br#"{"type":"handshake/resp","session_id":"S","resumed":true}"#,
    br#"{"type":"handshake/resp","ok":false,"reason":"auth_failed"}"#,
    br#"{"type":"handshake/resp","session_id":"T"}"#,
];

/// Answers the call of a number, whether there is one or not.
fn answer_call(session: &mut AgentSession, now: Now, number: usize) {
    let line = format!(
        "{{\"type\":\"pong\",\"req_id\":\"{:016x}{number:016x}\"}}",
        1
    );
    session.handle_line(now, Ok(line.as_bytes()));
}

fn take_outcomes(session: &mut AgentSession) -> usize {
    std::iter::from_fn(|| session.poll_event())
        .filter(|event| matches!(event, AgentEvent::Response(..) | AgentEvent::Failed(..)))
        .count()
}
