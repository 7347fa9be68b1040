//! The agent's end, against a scripted host.

use std::time::Duration;

use a2e_session::{AgentConfig, AgentEvent, AgentSession, Call, CallError, ConnectError, Limits};
use a2e_wire::messages::base::{HandshakeReason, Ping};
use a2e_wire::messages::env::EnvCloseRequest;
use a2e_wire::messages::tool::ToolListRequest;
use a2e_wire::{Body, ErrorCode};
use serde_json::{Value, json};

use crate::support::{Host, TOKEN, counter, now};

struct Agent {
    session: AgentSession,
    time: Duration,
}

impl Agent {
    fn new() -> Self {
        let time = Duration::from_secs(5);
        let config = AgentConfig {
            wanted: vec!["tools".into()],
            auth_token: TOKEN.into(),
            ..AgentConfig::default()
        };
        Self {
            session: AgentSession::connect(now(time), config, counter()),
            time,
        }
    }

    fn connected() -> Self {
        let mut agent = Self::new();
        let id = agent.written()[0]["id"].clone();
        agent.hear(&json!({"type": "handshake/resp", "req_id": id, "session_id": "S", "eid": 1}));
        assert!(matches!(
            agent.session.poll_event(),
            Some(AgentEvent::Connected { .. })
        ));
        agent
    }

    fn written(&mut self) -> Vec<Value> {
        std::iter::from_fn(|| self.session.poll_transmit())
            .map(|line| serde_json::from_slice(&line).unwrap())
            .collect()
    }

    fn hear(&mut self, message: &Value) {
        self.session
            .handle_line(now(self.time), Ok(message.to_string().as_bytes()));
    }

    fn call(&mut self, body: impl Into<Body<'static>>) -> Call {
        let call = self
            .session
            .call(now(self.time), body.into(), Duration::from_secs(30));
        self.written();
        call
    }

    fn events(&mut self) -> Vec<AgentEvent> {
        std::iter::from_fn(|| self.session.poll_event()).collect()
    }
}

#[test]
fn the_handshake_says_who_and_what_for() {
    let handshake = &Agent::new().written()[0];
    assert_eq!(handshake["type"], "handshake/req");
    assert_eq!(
        (&handshake["agent_id"], &handshake["auth_token"]),
        (&json!("agent"), &json!(TOKEN))
    );
    assert_eq!(handshake["agent_caps"], json!(["tools"]));
}

#[test]
fn a_refusal_and_a_silence() {
    let mut agent = Agent::new();
    let id = agent.written()[0]["id"].clone();
    agent.hear(
        &json!({"type": "handshake/resp", "req_id": id, "ok": false, "reason": "auth_failed"}),
    );
    let refused = AgentEvent::NotConnected(ConnectError::Refused(HandshakeReason::AuthFailed));
    assert_eq!(agent.events(), [refused]);
    let mut agent = Agent::new();
    assert_eq!(agent.session.poll_timeout(), Some(Duration::from_secs(35)));
    agent.session.handle_timeout(now(Duration::from_secs(35)));
    assert_eq!(
        agent.events(),
        [AgentEvent::NotConnected(ConnectError::Timeout)]
    );
}

#[test]
fn events_and_responses_go_to_their_call() {
    let mut agent = Agent::connected();
    let (a, b) = (
        agent.call(ToolListRequest::new()),
        agent.call(ToolListRequest::new()),
    );
    agent.hear(&json!({"type": "invoke/event", "req_id": b.0.as_str(), "seq": 0}));
    agent.hear(&json!({"type": "tool/list/resp", "req_id": a.0.as_str()}));
    agent.hear(
        &json!({"type": "error", "req_id": b.0.as_str(), "code": "TOOL_ERROR", "retryable": true}),
    );
    // Too late, and twice: nobody's.
    agent.hear(&json!({"type": "tool/list/resp", "req_id": a.0.as_str()}));
    agent.hear(&json!({"type": "tool/list/resp", "req_id": "other"}));
    let events = agent.events();
    assert!(matches!(&events[0], AgentEvent::Event(call, _) if *call == b));
    assert!(matches!(&events[1], AgentEvent::Response(call, _) if *call == a));
    let AgentEvent::Failed(call, CallError::Host(error, before)) = &events[2] else {
        panic!("{events:?}");
    };
    assert_eq!(
        (call, &error.code, before.len()),
        (&b, &ErrorCode::ToolError, 1)
    );
    assert_eq!(events.len(), 3);
}

/// Row 7 and row 99: unknown types correlate, and hosts that leave `req_id` out are understood.
#[test]
fn peers_with_gaps() {
    let mut agent = Agent::connected();
    let close = agent.call(EnvCloseRequest::new("e".into()));
    agent.hear(&json!({"type": "env/close/resp", "closed": true}));
    let other = agent.call(Ping::new());
    agent.hear(&json!({"type": "my/answer", "req_id": other.0.as_str(), "x": 1}));
    agent
        .session
        .handle_line(now(agent.time), Ok(b"line: {\"debug\":1}"));
    agent.hear(
        &json!({"type": "env/state_push", "episode_id": "e", "step_id": 0, "event_type": "status"}),
    );
    let events = agent.events();
    assert!(matches!(&events[0], AgentEvent::Response(call, _) if *call == close));
    assert!(matches!(&events[1], AgentEvent::Response(call, message)
        if *call == other && message.type_name() == "my/answer"));
    assert!(matches!(&events[2], AgentEvent::Push(_)));
    assert_eq!(events.len(), 3);
}

#[test]
fn a_call_without_an_answer_times_out() {
    let mut agent = Agent::connected();
    let call = agent.call(Ping::new());
    agent.session.handle_timeout(now(Duration::from_secs(34)));
    assert!(agent.events().is_empty());
    agent.session.handle_timeout(now(Duration::from_secs(35)));
    assert_eq!(
        agent.events(),
        [AgentEvent::Failed(call, CallError::Timeout)]
    );
}

#[test]
fn closing_fails_what_is_open() {
    let mut agent = Agent::connected();
    let call = agent.call(Ping::new());
    agent.session.close(now(agent.time), Duration::from_secs(3));
    assert_eq!(agent.written()[0]["timeout"], 3);
    assert_eq!(
        agent.events(),
        [AgentEvent::Failed(call, CallError::Closed)]
    );
}

/// Both ends together: a connection breaks in the middle of a call, and the call goes on.
#[test]
fn a_call_survives_its_connection() {
    let mut host = Host::new(Limits::default());
    let mut agent = Agent::new();
    for line in agent.written() {
        for answer in host.say(&line) {
            agent.hear(&answer);
        }
    }
    agent.events();
    let call = agent.session.call(
        now(agent.time),
        ToolListRequest::new().into(),
        Duration::from_secs(30),
    );
    for line in agent.written() {
        host.say(&line);
    }
    let token = host.started()[0].token;
    let at = host.now();
    host.session.disconnected(at);
    host.session
        .respond(at, token, Ok(crate::support::list().into()))
        .unwrap();
    agent.session.reconnect(now(agent.time));
    let handshake = &agent.written()[0];
    assert_eq!(handshake["resume"]["last_eid"], 1);
    let request = handshake["id"].as_str().unwrap().to_owned();
    host.session.resume(at, request.into(), 1);
    for answer in host.drain() {
        agent.hear(&answer);
    }
    let events = agent.events();
    assert!(
        matches!(
            &events[0],
            AgentEvent::Connected {
                resumed: Some(None),
                ..
            }
        ),
        "{events:?}"
    );
    assert!(matches!(&events[1], AgentEvent::Response(answered, _) if *answered == call));
}
