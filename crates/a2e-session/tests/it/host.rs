//! What a host must hold to: order, parallelism, one response, events, cancellation, drain, limits.

use std::time::Duration;

use a2e_session::{
    CancelReason, CloseReason, EventError, Failure, HostEvent, Limits, Offer, OfferedCapability,
    OwnTypes, Stale, TypePattern,
};
use a2e_wire::messages::proc::{ProcReadEvent, ProcSpawnResponse};
use a2e_wire::messages::tool::ToolEvent;
use a2e_wire::{Body, Capability, ErrorCode, LineTooLong, Namespace};
use serde_json::json;

use crate::support::{Host, call, kinds, list, offer};

/// Proves H-28.
#[test]
fn requests_start_in_order_and_no_more_at_once_than_agreed() {
    let mut host = Host::active(Limits {
        max_parallel: 2,
        ..Limits::default()
    });
    for id in ["1", "2", "3", "4"] {
        assert!(host.say(&call(id)).is_empty());
    }
    let first = host.started();
    let ids: Vec<_> = first
        .iter()
        .map(|request| request.message.envelope.id.as_str())
        .collect();
    assert_eq!(ids, ["1", "2"]);
    let answer = host.respond(first[1].token, list());
    assert_eq!(
        (&answer[0]["req_id"], &answer[0]["type"]),
        (&json!("2"), &json!("tool/list/resp"))
    );
    let next = host.started();
    assert_eq!(next[0].message.envelope.id.as_str(), "3");
    assert_eq!(next.len(), 1);
}

#[test]
fn the_queue_at_its_limit_and_past_it() {
    let mut host = Host::active(Limits {
        max_parallel: 1,
        max_queue: 2,
        ..Limits::default()
    });
    for id in ["1", "2", "3"] {
        assert!(host.say(&call(id)).is_empty(), "{id}");
    }
    let refused = host.say(&call("4"));
    assert_eq!(kinds(&refused), ["runtime_error"]);
    assert_eq!(
        (&refused[0]["retryable"], &refused[0]["detail"]["reason"]),
        (&json!(true), &json!("queue_full"))
    );
}

/// Proves M-37.
#[test]
fn exactly_one_response() {
    let mut host = Host::active(Limits::default());
    host.say(&call("1"));
    let token = host.started()[0].token;
    let now = host.now();
    let failure = Failure::new(ErrorCode::ToolError, Namespace::Tool, "it broke");
    assert_eq!(host.session.respond(now, token, Err(failure)), Ok(()));
    let answer = host.drain();
    assert_eq!(kinds(&answer), ["tool_error"]);
    assert_eq!(
        (&answer[0]["retryable"], &answer[0]["capability_name"]),
        (&json!(true), &json!("tools"))
    );
    assert_eq!(
        host.session.respond(now, token, Ok(list().into())),
        Err(Stale)
    );
    assert!(host.drain().is_empty());
}

/// Proves M-36.
#[test]
fn events_are_numbered_from_zero_and_end_with_the_response() {
    let mut host = Host::active(Limits::default());
    host.say(&call("1"));
    host.say(&call("2"));
    let requests = host.started();
    let now = host.now();
    for token in [requests[0].token, requests[1].token, requests[0].token] {
        host.session
            .event(now, token, ToolEvent::new().into())
            .unwrap();
    }
    let events: Vec<_> = host
        .drain()
        .iter()
        .map(|event| (event["req_id"].clone(), event["seq"].clone()))
        .collect();
    assert_eq!(
        events,
        [
            (json!("1"), json!(0)),
            (json!("2"), json!(0)),
            (json!("1"), json!(1))
        ]
    );
    host.respond(requests[0].token, list());
    let late = host
        .session
        .event(now, requests[0].token, ToolEvent::new().into());
    assert_eq!(late, Err(EventError::Stale(Stale)));
}

/// Rows 111 and 112: a process answers its spawn first, then streams under the same request.
#[test]
fn events_of_a_process_outlive_its_response() {
    let mut host = Host::active(Limits::default());
    host.say(&json!({"type": "proc/spawn/req", "id": "s", "cmd": ["ls"]}));
    let token = host.started()[0].token;
    host.session.keep_stream(token);
    host.respond(token, ProcSpawnResponse::new());
    let now = host.now();
    host.session
        .event(now, token, ProcReadEvent::new().into())
        .unwrap();
    host.session
        .event(now, token, ProcReadEvent::new().into())
        .unwrap();
    let events = host.drain();
    assert_eq!(
        (&events[1]["req_id"], &events[1]["seq"]),
        (&json!("s"), &json!(1))
    );
    host.session.end_stream(token);
    assert!(
        host.session
            .event(now, token, ProcReadEvent::new().into())
            .is_err()
    );
}

#[test]
fn a_request_that_takes_too_long_is_cancelled() {
    let mut host = Host::active(Limits::default());
    let mut slow = call("1");
    slow["timeout"] = json!(5);
    host.say(&slow);
    host.say(&json!({"type": "tool/list/req", "id": "2"}));
    let requests = host.started();
    assert!(host.wait(4).is_empty());
    assert_eq!(kinds(&host.wait(1)), ["timeout"]);
    assert_eq!(
        host.events,
        [HostEvent::Cancel(requests[0].token, CancelReason::Timeout)]
    );
    // One that sets no time has the session's.
    assert!(host.wait(294).is_empty());
    assert_eq!(kinds(&host.wait(1)), ["timeout"]);
    let now = host.now();
    assert_eq!(
        host.session
            .respond(now, requests[0].token, Ok(list().into())),
        Err(Stale)
    );
}

/// `timeout` counts from the last progress, sent or only reported, up to a limit.
#[test]
fn a_tool_call_that_gets_on_has_more_time() {
    let limits = Limits {
        progress: Duration::from_secs(12),
        ..Limits::default()
    };
    let mut host = Host::active(limits);
    let mut slow = call("1");
    slow["timeout"] = json!(5);
    host.say(&slow);
    let token = host.started()[0].token;
    assert!(host.wait(4).is_empty());
    let now = host.now();
    let event = ToolEvent::new();
    host.session.event(now, token, event.into()).unwrap();
    assert_eq!(kinds(&host.wait(4)), ["tool/event"]);
    let now = host.now();
    host.session.progress(now, token);
    // The fifth second after that would be the thirteenth of all.
    assert!(host.wait(3).is_empty());
    assert_eq!(kinds(&host.wait(1)), ["timeout"]);
}

/// The limit is for progress: a call that asks for more time than that has it.
#[test]
fn a_long_timeout_needs_no_progress() {
    let limits = Limits {
        progress: Duration::from_secs(12),
        ..Limits::default()
    };
    let mut host = Host::active(limits);
    let mut slow = call("1");
    slow["timeout"] = json!(20);
    host.say(&slow);
    let token = host.started()[0].token;
    host.wait(15);
    let now = host.now();
    host.session.progress(now, token);
    assert!(host.wait(4).is_empty());
    assert_eq!(kinds(&host.wait(1)), ["timeout"]);
}

#[test]
fn shutdown_lets_requests_finish() {
    let mut host = Host::active(Limits {
        max_parallel: 1,
        ..Limits::default()
    });
    host.say(&call("1"));
    host.say(&call("2"));
    assert!(
        host.say(&json!({"type": "shutdown", "timeout": 10}))
            .is_empty()
    );
    assert_eq!(kinds(&host.say(&call("3"))), ["timeout"]);
    let first = host.started()[0].token;
    host.respond(first, list());
    let second = host.started()[0].token;
    assert!(!host.session.is_closed());
    host.respond(second, list());
    assert_eq!(host.events, [HostEvent::Closed(CloseReason::Shutdown)]);
}

#[test]
fn shutdown_cuts_off_what_does_not_finish() {
    let mut host = Host::active(Limits {
        max_parallel: 1,
        ..Limits::default()
    });
    host.say(&call("1"));
    host.say(&call("2"));
    let token = host.started()[0].token;
    host.say(&json!({"type": "shutdown", "timeout": 3}));
    assert!(host.wait(2).is_empty());
    let answers = host.wait(1);
    let ids: Vec<_> = answers
        .iter()
        .map(|answer| answer["req_id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["2", "1"]);
    assert_eq!(kinds(&answers), ["timeout", "timeout"]);
    assert_eq!(
        host.events,
        [
            HostEvent::Cancel(token, CancelReason::SessionEnded),
            HostEvent::Closed(CloseReason::Shutdown)
        ]
    );
    assert!(host.say(&json!({"type": "ping", "id": "p"})).is_empty());
}

#[test]
fn a_silent_session_ends_unless_something_runs() {
    let limits = Limits {
        idle: Duration::from_secs(60),
        ..Limits::default()
    };
    let mut host = Host::active(limits);
    host.say(&json!({"type": "tool/list/req", "id": "1"}));
    let token = host.started()[0].token;
    host.wait(100);
    assert!(!host.session.is_closed());
    // The silence counts from the answer.
    host.respond(token, list());
    host.wait(59);
    assert!(!host.session.is_closed());
    host.wait(1);
    assert_eq!(host.events, [HostEvent::Closed(CloseReason::Idle)]);
}

#[test]
fn a_slow_reader_holds_back_events_and_new_requests() {
    let mut host = Host::active(Limits {
        max_outbound: 300,
        ..Limits::default()
    });
    host.say(&call("1"));
    let token = host.started()[0].token;
    let now = host.now();
    let mut sent = 0;
    while host
        .session
        .event(now, token, ToolEvent::new().into())
        .is_ok()
    {
        sent += 1;
        assert!(sent < 100);
    }
    assert!(!host.session.wants_input());
    host.session
        .handle_line(now, Ok(call("2").to_string().as_bytes()));
    assert_eq!(host.session.poll_event(), None);
    assert_eq!(host.drain().len(), sent);
    assert!(host.session.wants_input());
    assert_eq!(host.started().len(), 1);
}

/// Requests that wait, run or are held take memory until they are answered.
#[test]
fn bytes_of_requests_count_until_they_are_answered() {
    let mut host = Host::active(Limits {
        max_parallel: 1,
        max_replay: 0,
        ..Limits::default()
    });
    let (now, size) = (host.now(), 2 * call("1").to_string().len());
    let bytes = |host: &mut Host| {
        host.session.release_sent();
        host.session.bytes()
    };
    host.say(&call("1"));
    assert_eq!(bytes(&mut host), size, "it runs");
    host.say(&call("2"));
    assert_eq!(bytes(&mut host), 2 * size, "one waits");
    let first = host.started().remove(0);
    let token = first.token;
    host.session.hold(now, first).unwrap();
    host.drain();
    assert_eq!(bytes(&mut host), 2 * size, "one is held");
    let second = host.started().remove(0);
    host.respond(second.token, list());
    assert_eq!(bytes(&mut host), size);
    host.session.release(now, token);
    host.drain();
    host.respond(token, list());
    assert_eq!(bytes(&mut host), 0);
}

/// Bad lines get the right code, and the session goes on.
/// Proves M-19.
#[test]
fn bad_lines() {
    let mut host = Host::active(Limits::default());
    for (line, code, id) in [
        ("not json", "parse_error", ""),
        ("[1]", "parse_error", ""),
        (
            r#"{"type":"tool/call/req","id":"a","timeout":"x"}"#,
            "schema_violation",
            "a",
        ),
        (
            r#"{"type":"tool/call/req","id":"b","arguments":{"x":1,"x":2}}"#,
            "schema_violation",
            "b",
        ),
        (r#"{"type":"my/own/req","id":"c"}"#, "invalid_message", "c"),
        (
            r#"{"a2e":"9.0","type":"ping","id":"d"}"#,
            "version_mismatch",
            "d",
        ),
        (r#"{"type":"mcp/sample/req","id":"e"}"#, "", ""),
        (r#"{"type":"my/event","id":"f"}"#, "", ""),
        (r#"{"type":"pong","id":"g"}"#, "", ""),
        (
            r#"{"type":"tool/call/resp","id":"h","data":{"success":true,"tool_name":"","duration_ms":1}}"#,
            "",
            "",
        ),
    ] {
        let answers = host.say_line(line);
        match code {
            "" => assert!(answers.is_empty(), "{line}: {answers:?}"),
            _ => assert_eq!(
                (kinds(&answers), &answers[0]["req_id"]),
                (vec![code.into()], &json!(id)),
                "{line}"
            ),
        }
    }
    let now = host.now();
    host.session
        .handle_line(now, Err(LineTooLong { limit: 10 }));
    assert_eq!(kinds(&host.drain()), ["invalid_message"]);
    assert_eq!(
        kinds(&host.say(&json!({"type": "ping", "id": "p"}))),
        ["pong"]
    );
}

/// Seed 002: "can be routed to a catch-all handler".
/// Proves M-44.
#[test]
fn plugins_may_serve_types_that_the_catalogue_does_not_have() {
    for pattern in ["*", "my/*", "my/own/req"] {
        let mut host = Host::with_offer(Limits::default(), own_types(pattern, None));
        host.say(&crate::support::handshake(&["tools"]));
        assert!(
            host.say(&json!({"type": "my/own/req", "id": "c", "x": 1}))
                .is_empty()
        );
        assert_eq!(host.started()[0].message.type_name(), "my/own/req");
        let refused = host.say(&json!({"type": "mine/req", "id": "d"}));
        match pattern {
            "*" => assert!(refused.is_empty(), "{refused:?}"),
            _ => assert_eq!(refused[0]["code"], "invalid_message"),
        }
    }
}

fn own_types(pattern: &str, capability: Option<Capability<'static>>) -> Offer {
    Offer {
        own_types: vec![OwnTypes {
            pattern: TypePattern::new(pattern),
            capability,
        }],
        ..offer()
    }
}

/// Capability negotiation, "After Negotiation": only messages for accepted capabilities are processed. Types
/// of a plugin's own belong to the capability that they are bound to.
/// Proves N-26, N-27.
#[test]
fn own_types_need_the_capability_that_they_are_bound_to() {
    for (wanted, code) in [
        (&["tools"][..], "capability_missing"),
        (&["tools", "env"], ""),
    ] {
        let mut offer = own_types("my/*", Some(Capability::Env));
        offer.capabilities.push(OfferedCapability {
            capability: Capability::Env,
            name: "mine".into(),
            priority: 0,
            exclusive: false,
        });
        let mut host = Host::with_offer(Limits::default(), offer);
        host.say(&crate::support::handshake(wanted));
        let answers = host.say(&json!({"type": "my/own/req", "id": "c"}));
        match code {
            "" => assert_eq!(host.started()[0].message.type_name(), "my/own/req"),
            _ => assert_eq!(
                (&answers[0]["code"], &answers[0]["capability_name"]),
                (&json!(code), &json!("env"))
            ),
        }
        let push = |name: &'static str| {
            Body::Unknown(a2e_wire::Unknown {
                type_name: name.into(),
                raw: a2e_wire::Raw::from_serialize(&json!({})).unwrap(),
            })
        };
        assert_eq!(
            host.session.has_negotiated(&push("my/news")),
            code.is_empty()
        );
        assert!(host.session.has_negotiated(&push("other/news")));
    }
}

/// The agent's answer to a request of the host's is not a request.
#[test]
fn replies_of_the_agent_reach_the_host() {
    let mut host = Host::active(Limits::default());
    let answers =
        host.say(&json!({"type": "mcp/sample/resp", "id": "r", "req_id": "q", "content": {}}));
    assert!(answers.is_empty());
    assert!(
        matches!(&host.events[..], [HostEvent::Reply(message)] if message.envelope.req_id.as_str() == "q")
    );
}

/// Row 97: the answer is spelled as the question was.
#[test]
fn answers_are_spelled_as_asked() {
    let offer = Offer {
        capabilities: vec![OfferedCapability {
            capability: Capability::Env,
            name: "e".into(),
            priority: 0,
            exclusive: false,
        }],
        ..offer()
    };
    let mut host = Host::with_offer(Limits::default(), offer);
    host.say(&crate::support::handshake(&["env"]));
    host.say(&json!({"type": "env/spaces/req", "id": "s", "env_name": "x"}));
    let token = host.started()[0].token;
    let empty = a2e_wire::Object::EMPTY;
    let answer = host.respond(
        token,
        a2e_wire::messages::env::EnvSpaceResponse::new(empty.clone(), empty),
    );
    assert_eq!(answer[0]["type"], "env/spaces/resp");
}
