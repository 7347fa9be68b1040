//! Any sequence of operations: no panic, no second answer, no request without one.

use std::collections::BTreeMap;
use std::time::Duration;

use a2e_session::{HostEvent, Limits, Token};
use a2e_wire::messages::tool::ToolEvent;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{Host, call, handshake, list};

#[derive(Debug, Clone)]
enum Operation {
    Say(usize),
    Respond(usize),
    Event(usize),
    Wait(u64),
    Disconnect,
    Resume(u64),
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        8 => (0_usize..8).prop_map(Operation::Say),
        6 => (0_usize..8).prop_map(Operation::Respond),
        2 => (0_usize..8).prop_map(Operation::Event),
        2 => (0_u64..200).prop_map(Operation::Wait),
        1 => Just(Operation::Disconnect),
        1 => (0_u64..20).prop_map(Operation::Resume),
    ]
}

/// A message of the agent's; `number` makes its id.
fn message(kind: usize, number: usize) -> Value {
    let id = format!("r{number}");
    match kind {
        0 => handshake(&["tools"]),
        1 => json!({"type": "handshake/req", "id": id, "auth_token": "wrong"}),
        2 => json!({"type": "ping", "id": id}),
        3 => json!({"type": "memory/init/req", "id": id}),
        4 => json!({"type": "tool/call/req", "id": id, "arguments": 5}),
        _ => call(&id),
    }
}

#[test]
fn corpus_of_a2e_host_ops() {
    testkit::replay("a2e_host_ops", a2e_session::fuzzing::a2e_host_ops);
}

#[test]
fn corpus_of_a2e_agent_ops() {
    testkit::replay("a2e_agent_ops", a2e_session::fuzzing::a2e_agent_ops);
}

proptest! {
    #[test]
    fn any_operations(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        a2e_session::fuzzing::a2e_host_ops(&bytes);
        a2e_session::fuzzing::a2e_agent_ops(&bytes);
    }

    #[test]
    fn every_request_is_answered_once(operations in prop::collection::vec(operation(), 0..60)) {
        let mut host = Host::new(Limits { max_parallel: 2, max_queue: 2, ..Limits::default() });
        let mut open: Vec<Token> = Vec::new();
        let mut asked: BTreeMap<String, usize> = BTreeMap::new();
        let mut answered: BTreeMap<u64, String> = BTreeMap::new();
        let mut collect = |written: Vec<Value>| {
            for message in written {
                let is_event = message["type"] == "tool/event";
                if let (Some(eid), false) = (message["eid"].as_u64(), is_event) {
                    answered.insert(eid, message["req_id"].as_str().unwrap_or_default().to_owned());
                }
            }
        };
        for (number, operation) in operations.into_iter().enumerate() {
            let now = host.now();
            match operation {
                Operation::Say(kind) => {
                    // Nobody speaks over a broken connection, or after the end.
                    if !host.session.is_closed() && host.session.wants_input() {
                        let message = message(kind, number);
                        *asked.entry(message["id"].as_str().unwrap().into()).or_default() += 1;
                        collect(host.say(&message));
                    }
                }
                Operation::Respond(pick) => if let Some(token) = open.get(pick).copied() {
                    let _ = host.session.respond(now, token, Ok(list().into()));
                },
                Operation::Event(pick) => if let Some(token) = open.get(pick).copied() {
                    let _ = host.session.event(now, token, ToolEvent::new().into());
                },
                Operation::Wait(seconds) => collect(host.wait(seconds)),
                Operation::Disconnect => host.session.disconnected(now),
                Operation::Resume(last_eid) => {
                    host.session.resume(now, "again".into(), last_eid);
                }
            }
            collect(host.drain());
            open.extend(host.started().into_iter().map(|request| request.token));
        }
        // Bring the peer back and end: then nothing may be left open.
        let now = host.now();
        host.session.resume(now, "end".into(), u64::MAX);
        collect(host.drain());
        let was_closed = host.session.is_closed();
        host.session.shutdown(now, Duration::ZERO);
        collect(host.wait(0));
        prop_assert!(host.session.is_closed());
        prop_assert_eq!(host.events.iter().filter(|event| matches!(event, HostEvent::Closed(_))).count(), 1);
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for id in answered.into_values() {
            *counts.entry(id).or_default() += 1;
        }
        for (id, answers) in &counts {
            prop_assert!(answers <= asked.get(id).unwrap_or(&0), "{id} was answered {answers} times");
        }
        if !was_closed {
            prop_assert_eq!(counts, asked);
        }
    }
}
