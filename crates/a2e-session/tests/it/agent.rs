//! The agent's end, against a scripted host.

use std::time::Duration;

use a2e_session::{
    AgentConfig, AgentEvent, AgentSession, Call, CallError, ConnectError, Connected, Limits,
    Refused,
};
use a2e_wire::messages::base::{HandshakeReason, Ping};
use a2e_wire::messages::env::EnvCloseRequest;
use a2e_wire::messages::tool::{ToolCallRequest, ToolListRequest};
use a2e_wire::{Body, ErrorCode, MessageKind};
use serde_json::{Value, json};

use crate::support::{Host, TOKEN, counter, now};

struct Agent {
    session: AgentSession,
    time: Duration,
}

impl Agent {
    fn new() -> Self {
        Self::with(AgentConfig {
            resumable: true,
            ..AgentConfig::default()
        })
    }

    fn with(config: AgentConfig) -> Self {
        let time = Duration::from_secs(5);
        let config = AgentConfig {
            wanted: vec!["tools".into()],
            auth_token: TOKEN.into(),
            ..config
        };
        Self {
            session: AgentSession::connect(now(time), config, &mut *counter()),
            time,
        }
    }

    fn connected() -> Self {
        Self::new().connect()
    }

    fn connect(mut self) -> Self {
        let agent = &mut self;
        let id = agent.written()[0]["id"].clone();
        agent.hear(&json!({"type": "handshake/resp", "req_id": id, "session_id": "S", "eid": 1}));
        assert!(matches!(
            agent.session.poll_event(),
            Some(AgentEvent::Connected(_))
        ));
        self
    }

    /// Comes back over another connection; `answer` is what the host says to the handshake.
    fn come_back(&mut self, mut answer: Value) -> Vec<AgentEvent> {
        self.session.detach();
        self.session.reconnect(now(self.time));
        let handshake = self.written();
        answer["type"] = "handshake/resp".into();
        answer["req_id"] = handshake[0]["id"].clone();
        self.hear(&answer);
        self.events()
    }

    fn id(&self, call: Call) -> String {
        self.session.request_id(call).to_string()
    }

    fn written(&mut self) -> Vec<Value> {
        std::iter::from_fn(|| Some(serde_json::from_slice(self.session.poll_transmit()?).unwrap()))
            .collect()
    }

    fn hear(&mut self, message: &Value) {
        self.session
            .handle_line(now(self.time), Ok(message.to_string().as_bytes()));
    }

    fn call(&mut self, body: impl Into<Body<'static>>) -> Call {
        let call = self
            .session
            .call(now(self.time), body.into(), Duration::from_secs(30))
            .unwrap();
        self.written();
        call
    }

    fn events(&mut self) -> Vec<AgentEvent> {
        std::iter::from_fn(|| self.session.poll_event()).collect()
    }
}

/// Proves C-4, C-6, C-12.
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

/// Proves C-13.
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

/// Seed 003, "Handshake": the client validates the response.
/// Proves C-13.
#[test]
fn an_invalid_answer_to_the_handshake_ends_it_at_once() {
    for answer in [
        json!({"type": "handshake/resp", "session_id": 7}),
        json!({"type": "handshake/resp", "session_id": "S", "accepted_caps": "all"}),
        json!({"type": "pong"}),
    ] {
        for has_request in [true, false] {
            let mut agent = Agent::new();
            let mut answer = answer.clone();
            if has_request {
                answer["req_id"] = agent.written()[0]["id"].clone();
            }
            agent.hear(&answer);
            let events = agent.events();
            let is_known = has_request || answer["type"] == "handshake/resp";
            match events.as_slice() {
                [AgentEvent::NotConnected(ConnectError::Invalid(_))] if is_known => {}
                [AgentEvent::Push(_)] | [] if !is_known => {}
                other => panic!("{answer}: {other:?}"),
            }
        }
    }
}

/// Seed 002, "Encoding Rules": both sides validate, and what is invalid is a `schema_violation`.
/// Proves M-19.
#[test]
fn an_invalid_response_fails_its_call_at_once() {
    for answer in [
        json!({"type": "tool/list/resp", "tools": "none"}),
        json!({"type": "tool/list/resp", "tools": [{"name": 1}]}),
        json!({"type": "memory/init/resp", "memory_id": "m", "namespace": "n"}),
        json!({"type": "tool/list/v2/resp"}),
        json!({"type": 1}),
    ] {
        let mut agent = Agent::connected();
        let call = agent.call(ToolListRequest::new());
        let other = agent.call(Ping::new());
        agent.hear(
            &json!({"type": "tool/event", "req_id": agent.id(call), "kind": "log", "seq": 0}),
        );
        // An event that is invalid answers nothing, and what names no request is no answer.
        agent.hear(&json!({"type": "tool/event", "req_id": agent.id(call), "seq": "one"}));
        agent.hear(&json!({"type": "tool/list/resp", "tools": "none"}));
        assert_eq!(agent.events().len(), 1, "{answer}");
        let mut answer = answer.clone();
        answer["req_id"] = agent.id(call).into();
        agent.hear(&answer);
        let events = agent.events();
        let [AgentEvent::Failed(failed, CallError::Invalid(error, seen))] = events.as_slice()
        else {
            panic!("{answer}: {events:?}");
        };
        assert_eq!((*failed, &error.code), (call, &ErrorCode::SchemaViolation));
        assert!(
            !error.retryable
                && error
                    .message
                    .starts_with("the host's response is not valid: ")
        );
        assert_eq!((&*error.capability_name, seen.len()), ("tools", 1));
        agent.hear(&json!({"type": "pong", "req_id": agent.id(other)}));
        assert!(matches!(agent.events()[..], [AgentEvent::Response(..)]));
    }
}

/// Seed 003, "Type Registry Extension".
/// Proves C-7, C-30.
#[test]
fn types_of_ones_own_are_what_they_are_registered_as() {
    let own = |name: &str| {
        Body::Unknown(a2e_wire::Unknown {
            type_name: name.to_owned().into(),
            raw: a2e_wire::Object::default().into_raw(),
        })
    };
    let kinds = |agent: &mut Agent| -> Vec<&'static str> {
        let name = |event: AgentEvent| match &event {
            AgentEvent::Event(..) => "event",
            AgentEvent::Response(..) => "response",
            AgentEvent::Request(_) => "request",
            AgentEvent::Push(_) => "push",
            AgentEvent::Connected(_) | AgentEvent::NotConnected(_) | AgentEvent::Failed(..) => {
                panic!("{event:?}")
            }
        };
        agent.events().into_iter().map(name).collect()
    };
    let initial = [("own/done".to_owned(), MessageKind::Response)];
    let mut agent = Agent::with(AgentConfig {
        type_registry: initial.into(),
        ..AgentConfig::default()
    })
    .connect();
    agent.session.update_msg_types([
        ("own/step".to_owned(), MessageKind::Event),
        ("own/ask".to_owned(), MessageKind::Request),
        ("own/news".to_owned(), MessageKind::Push),
    ]);
    let call = agent.call(own("own/thing/req"));
    for name in [
        "own/step",
        "own/ask",
        "own/news",
        "own/some/event",
        "own/done",
    ] {
        agent.hear(&json!({"type": name, "req_id": agent.id(call), "id": "1"}));
    }
    let expected = ["event", "request", "push", "event", "response"];
    assert_eq!(kinds(&mut agent), expected);
    // Of a request of the catalogue it is known what answers it; the rest are its events.
    let call = agent.call(ToolListRequest::new());
    agent.hear(&json!({"type": "own/other", "req_id": agent.id(call)}));
    agent.hear(&json!({"type": "own/other"}));
    agent.hear(&json!({"type": "tool/list/resp", "req_id": agent.id(call)}));
    assert_eq!(kinds(&mut agent), ["event", "push", "response"]);
}

/// Proves C-36, C-37.
#[test]
fn events_and_responses_go_to_their_call() {
    let mut agent = Agent::connected();
    let (a, b) = (
        agent.call(ToolListRequest::new()),
        agent.call(ToolListRequest::new()),
    );
    agent.hear(&json!({"type": "invoke/event", "req_id": agent.id(b), "seq": 0}));
    agent.hear(&json!({"type": "tool/list/resp", "req_id": agent.id(a)}));
    agent.hear(
        &json!({"type": "error", "req_id": agent.id(b), "code": "TOOL_ERROR", "retryable": true}),
    );
    // Too late, and twice: nobody's.
    agent.hear(&json!({"type": "tool/list/resp", "req_id": agent.id(a)}));
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
    let other = agent.call(Body::Unknown(a2e_wire::Unknown {
        type_name: "my/question".into(),
        raw: a2e_wire::Object::default().into_raw(),
    }));
    agent.hear(&json!({"type": "my/answer", "req_id": agent.id(other), "x": 1}));
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

/// Proves C-21.
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

/// `timeout` is how long an agent waits for news, as it is for a host.
#[test]
fn the_time_of_a_tool_call_counts_from_its_last_event() {
    let mut agent = Agent::with(AgentConfig {
        progress: Duration::from_secs(70),
        ..AgentConfig::default()
    })
    .connect();
    let (start, at) = (agent.time, Duration::from_secs);
    let call = agent.call(ToolCallRequest::new());
    for (seq, seconds) in [(0, 29), (1, 58)] {
        agent.time = start + at(seconds);
        agent.hear(&json!({"type": "tool/event", "req_id": agent.id(call), "seq": seq}));
        assert!(matches!(agent.events()[..], [AgentEvent::Event(..)]));
        agent.session.handle_timeout(now(agent.time + at(1)));
        assert_eq!(agent.events(), []);
    }
    // Events do not keep it open for ever.
    assert_eq!(agent.session.poll_timeout(), Some(start + at(70)));
    agent.session.handle_timeout(now(start + at(70)));
    let given_up = [AgentEvent::Failed(call, CallError::Timeout)];
    assert_eq!(agent.events(), given_up);
}

/// One that says itself that it may be silent for longer than that has its time.
#[test]
fn a_patient_tool_call_has_its_time() {
    let mut agent = Agent::with(AgentConfig {
        progress: Duration::from_secs(10),
        ..AgentConfig::default()
    })
    .connect();
    let start = agent.time;
    let call = agent.call(ToolCallRequest::new());
    agent.time += Duration::from_secs(5);
    agent.hear(&json!({"type": "tool/event", "req_id": agent.id(call), "seq": 0}));
    let end = start + Duration::from_secs(30);
    assert_eq!(agent.session.poll_timeout(), Some(end));
    // Other requests have no such events: theirs do not count.
    let other = agent.call(ToolListRequest::new());
    let until = agent.time + Duration::from_secs(30);
    agent.time += Duration::from_secs(1);
    agent.hear(&json!({"type": "invoke/event", "req_id": agent.id(other), "seq": 0}));
    agent.session.handle_timeout(now(end));
    assert_eq!(agent.session.poll_timeout(), Some(until));
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
    let call = agent
        .session
        .call(
            now(agent.time),
            ToolListRequest::new().into(),
            Duration::from_secs(30),
        )
        .unwrap();
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
            AgentEvent::Connected(Connected {
                resumed: true,
                missed: None,
                ..
            })
        ),
        "{events:?}"
    );
    assert!(matches!(&events[1], AgentEvent::Response(answered, _) if *answered == call));
}

/// Nothing is lost if a request never arrived: it is sent again, with its id, in its order.
#[test]
fn a_resumed_session_gets_what_has_no_response_again() {
    let mut agent = Agent::connected();
    let (a, b) = (agent.call(Ping::new()), agent.call(Ping::new()));
    agent.hear(&json!({"type": "pong", "req_id": agent.id(a), "eid": 2}));
    agent.session.detach();
    agent
        .session
        .notify(now(agent.time), ToolListRequest::new().into())
        .unwrap();
    let c = agent.call(Ping::new());
    agent.events();
    let events = agent.come_back(json!({"session_id": "S", "resumed": true}));
    assert!(matches!(&events[..], [AgentEvent::Connected(connected)] if connected.resumed));
    let again = agent.written();
    let ids: Vec<_> = again.iter().map(|line| line["id"].clone()).collect();
    assert_eq!(
        (&ids[0], &ids[2]),
        (&json!(agent.id(b)), &json!(agent.id(c)))
    );
    assert_eq!(again[1]["type"], "tool/list/req");
    // Seen before the break, and answered twice after it: each outcome comes once.
    agent.hear(&json!({"type": "pong", "req_id": agent.id(a), "eid": 2}));
    agent.hear(&json!({"type": "pong", "req_id": agent.id(b), "eid": 3}));
    agent.hear(&json!({"type": "pong", "req_id": agent.id(b), "eid": 4}));
    agent.hear(&json!({"type": "pong", "req_id": agent.id(c), "eid": 5}));
    let outcomes = agent.events();
    assert!(matches!(&outcomes[..],
        [AgentEvent::Response(first, _), AgentEvent::Response(second, _)]
        if *first == b && *second == c));
}

#[test]
fn events_that_come_again_are_passed_over() {
    let mut agent = Agent::connected();
    let call = agent.call(ToolListRequest::new());
    let event = |agent: &Agent, seq: u64, eid: u64| json!({"type": "invoke/event", "req_id": agent.id(call), "seq": seq, "eid": eid});
    for (seq, eid) in [(0, 2), (1, 3)] {
        agent.hear(&event(&agent, seq, eid));
    }
    agent.events();
    agent.come_back(json!({"session_id": "S", "resumed": true}));
    for (seq, eid) in [(0, 4), (1, 5), (2, 6)] {
        agent.hear(&event(&agent, seq, eid));
    }
    assert_eq!(agent.events().len(), 1);
}

/// The host has forgotten the session: a new one on the same connection. What may have run is told
/// to be lost, what was never sent is sent.
#[test]
fn a_session_that_is_gone() {
    let mut agent = Agent::connected();
    let sent = agent.call(Ping::new());
    agent.session.detach();
    let unsent = agent.call(Ping::new());
    assert!(
        agent
            .come_back(json!({"ok": false, "reason": "auth_failed"}))
            .is_empty()
    );
    let handshake = agent.written();
    assert_eq!(handshake[0]["type"], "handshake/req");
    assert_eq!(handshake[0].get("resume"), None);
    // Its numbers start anew, below those of the old session.
    agent.hear(
        &json!({"type": "handshake/resp", "req_id": handshake[0]["id"], "session_id": "T", "eid": 1}),
    );
    let events = agent.events();
    assert_eq!(events[0], AgentEvent::Failed(sent, CallError::Lost));
    assert!(matches!(&events[1], AgentEvent::Connected(connected) if !connected.resumed));
    assert_eq!(agent.written()[0]["id"], agent.id(unsent));
    agent.hear(&json!({"type": "pong", "req_id": agent.id(unsent), "eid": 2}));
    assert_eq!(agent.events().len(), 1);
    // Refused for good: the second answer counts.
    let mut agent = Agent::connected();
    agent.come_back(json!({"ok": false, "reason": "auth_failed"}));
    let id = agent.written()[0]["id"].clone();
    agent.hear(
        &json!({"type": "handshake/resp", "req_id": id, "ok": false, "reason": "auth_failed"}),
    );
    assert!(matches!(agent.events()[..], [AgentEvent::NotConnected(_)]));
}

#[test]
fn limits_at_and_past() {
    let mut agent = Agent::with(AgentConfig {
        max_pending: 2,
        ..AgentConfig::default()
    })
    .connect();
    let wait = Duration::from_secs(1);
    let ask = |agent: &mut Agent| {
        agent
            .session
            .call(now(agent.time), Ping::new().into(), wait)
    };
    let first = ask(&mut agent).unwrap();
    ask(&mut agent).unwrap();
    assert_eq!(ask(&mut agent), Err(Refused::TooMany(2)));
    agent.session.forget(first);
    assert!(ask(&mut agent).is_ok());

    let mut agent = Agent::with(AgentConfig {
        max_outbound: 150,
        ..AgentConfig::default()
    })
    .connect();
    ask(&mut agent).unwrap();
    ask(&mut agent).unwrap();
    assert_eq!(ask(&mut agent), Err(Refused::NoRoom(150)));
    assert_eq!(
        agent.session.notify(now(agent.time), Ping::new().into()),
        Err(Refused::NoRoom(150))
    );
    assert_eq!(agent.written().len(), 2);
    assert!(ask(&mut agent).is_ok());
    agent.session.disconnected();
    assert_eq!(ask(&mut agent), Err(Refused::Closed));
}

#[test]
fn events_are_kept_within_limits() {
    for (max_events, max_event_bytes, kept) in [(2, 10_000, 2), (3, 10_000, 3), (9, 200, 1)] {
        let mut agent = Agent::with(AgentConfig {
            max_events,
            max_event_bytes,
            ..AgentConfig::default()
        })
        .connect();
        let call = agent.call(Ping::new());
        let id = agent.id(call);
        for seq in 0..3 {
            agent.hear(&json!({"type": "invoke/event", "req_id": id, "seq": seq, "data": {"x": "y".repeat(20)}}));
        }
        agent.hear(&json!({"type": "error", "req_id": id, "code": "tool_error"}));
        let Some(AgentEvent::Failed(_, CallError::Host(_, events))) = agent.events().pop() else {
            panic!();
        };
        assert_eq!(events.len(), kept);
    }
}

/// Requests of the host's, of types in the catalogue and beside it, are told from pushes.
#[test]
fn the_host_may_ask_too() {
    let mut agent = Agent::connected();
    agent.hear(&json!({"type": "mcp/root/list/req", "id": "q", "server_id": "s"}));
    agent.hear(&json!({"type": "my/own/req", "id": "r"}));
    agent.hear(&json!({"type": "my/own/thing", "id": "s"}));
    let events = agent.events();
    assert!(
        matches!(&events[0], AgentEvent::Request(message) if message.envelope.id.as_str() == "q")
    );
    assert!(matches!(&events[1], AgentEvent::Request(_)));
    assert!(matches!(&events[2], AgentEvent::Push(_)));
    let error = a2e_wire::messages::base::Error::new(ErrorCode::InvalidMessage);
    agent
        .session
        .reply(now(agent.time), "q".into(), error.into())
        .unwrap();
    assert_eq!(agent.written()[0]["req_id"], "q");
}

/// A message of a type beside the catalogue gets an envelope of the session's.
#[test]
fn own_types_in_our_envelope() {
    let mut agent = Agent::connected();
    let unknown = a2e_wire::Unknown {
        type_name: "my/own/req".into(),
        raw: a2e_wire::Raw::from_serialize(
            &json!({"type": "x", "id": "forged", "eid": 9, "n": {"a": 1}}),
        )
        .unwrap(),
    };
    let wait = Duration::from_secs(1);
    let call = agent
        .session
        .call(now(agent.time), Body::Unknown(unknown), wait)
        .unwrap();
    let line = &agent.written()[0];
    assert_eq!(
        (&line["type"], &line["id"], &line["n"], line.get("eid")),
        (
            &json!("my/own/req"),
            &json!(agent.id(call)),
            &json!({"a": 1}),
            None
        )
    );
    agent.hear(&json!({"type": "my/own/resp", "req_id": agent.id(call)}));
    assert!(matches!(agent.events()[..], [AgentEvent::Response(..)]));
}
